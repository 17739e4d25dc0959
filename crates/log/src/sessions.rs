//! Which sessions have sealed the records of a generation, and how far each of them has come.
//!
//! A record that a crash cut off is written over by another session, as the handle that had sealed it is gone. So all
//! that its session has in the log lies before it. Who reads a log from its beginning goes by the links and cannot take
//! it for one of the log. Who begins at a root has this table, which each root brings along, for what lies before.

use litepack_cipher::Salt;
use litepack_io::bytes::{Reader, put_varint};
use litepack_io::memory::{OutOfMemory, room, with_room};

use crate::format::head::RECORDS_START;

/// Most sessions of which a table tells. If a generation has more, its later roots have none, and no hint names them.
pub(crate) const SESSIONS_MAX: usize = 2048;

/// A session, by its salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SessionAt {
    salt: Salt,
    /// Place of its newest carrier.
    carrier: u64,
    /// Place of its last record.
    last: u64,
}

/// Sessions in the order of their salts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sessions {
    known: Vec<SessionAt>,
    /// There are more.
    is_cut: bool,
    /// From here on all records were read one after another.
    read_from: u64,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions {
            known: Vec::new(),
            is_cut: false,
            read_from: RECORDS_START,
        }
    }
}

impl Sessions {
    /// The session has a record at `place`, behind all others.
    pub fn note(&mut self, salt: &Salt, is_carrier: bool, place: u64) -> Result<(), OutOfMemory> {
        match self.known.binary_search_by(|known| known.salt.cmp(salt)) {
            Ok(at) => {
                if let Some(known) = self.known.get_mut(at) {
                    known.last = place;
                    known.carrier = if is_carrier { place } else { known.carrier };
                }
            }
            Err(_) if self.known.len() >= SESSIONS_MAX => self.is_cut = true,
            Err(at) => {
                room(&mut self.known, 1)?;
                let (salt, carrier, last) = (*salt, place, place);
                let new = SessionAt {
                    salt,
                    carrier,
                    last,
                };
                self.known.insert(at, new);
            }
        }
        Ok(())
    }

    /// Whether the session may have a record at `place`.
    pub fn may_have(&self, salt: &Salt, place: u64) -> bool {
        let known = self.known.binary_search_by(|known| known.salt.cmp(salt));
        let known = known.ok().and_then(|at| self.known.get(at));
        place >= self.read_from || known.is_some_and(|known| place <= known.last)
    }

    /// The salt of a session whose newest carrier is at `place`.
    pub fn salt_at(&self, place: u64) -> Option<Salt> {
        let known = self.known.iter().find(|known| known.carrier == place);
        known.map(|known| known.salt)
    }

    /// Whether it tells of all of them.
    pub fn is_whole(&self) -> bool {
        !self.is_cut
    }

    /// Appends the table for a root at `place`. One that is not whole has no sessions.
    pub fn encode(&self, place: u64, out: &mut Vec<u8>) -> Result<(), OutOfMemory> {
        let known: &[SessionAt] = if self.is_whole() { &self.known } else { &[] };
        room(out, 10 + known.len() * (size_of::<Salt>() + 20))?;
        put_varint(out, known.len() as u64);
        for session in known {
            out.extend(session.salt);
            put_varint(out, place.saturating_sub(session.carrier));
            put_varint(out, session.last.saturating_sub(session.carrier));
        }
        Ok(())
    }

    /// Reads the table of a root at `place`, which ends at `end`; `None` if it is none.
    pub fn decode(bytes: &[u8], place: u64, end: u64) -> Result<Option<Sessions>, OutOfMemory> {
        let mut reader = Reader::new(bytes);
        let count = reader
            .varint_u32()
            .map_or(usize::MAX, |count| count as usize);
        if count > SESSIONS_MAX {
            return Ok(None);
        }
        let known = with_room(count)?;
        Ok(
            Self::read(reader, count, known, place).map(|known| Sessions {
                is_cut: known.is_empty(),
                known,
                read_from: end,
            }),
        )
    }

    /// Reads so many sessions into `known`, which has room for them.
    fn read(
        mut reader: Reader<'_>,
        count: usize,
        mut known: Vec<SessionAt>,
        place: u64,
    ) -> Option<Vec<SessionAt>> {
        for _ in 0..count {
            let salt: Salt = reader.bytes(size_of::<Salt>())?.try_into().ok()?;
            let carrier = place.checked_sub(reader.varint()?)?;
            let last = carrier.checked_add(reader.varint()?)?;
            let is_next = known.last().is_none_or(|before| before.salt < salt);
            if !is_next || carrier < RECORDS_START || last >= place {
                return None;
            }
            known.push(SessionAt {
                salt,
                carrier,
                last,
            });
        }
        reader.rest().is_empty().then_some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_back_and_tells_how_far_each_session_has_come() {
        let mut sessions = Sessions::default();
        for (salt, is_carrier, place) in [
            (7, true, 4096),
            (3, true, 4200),
            (7, false, 4300),
            (3, true, 4400),
            (3, false, 4500),
        ] {
            sessions.note(&[salt; 16], is_carrier, place).unwrap();
        }
        assert!(sessions.may_have(&[9; 16], 5000), "it was read");
        let mut bytes = Vec::new();
        sessions.encode(4600, &mut bytes).unwrap();
        assert_eq!(bytes.len(), 1 + 2 * 16 + 4 + 3);
        let mut found = Sessions::decode(&bytes, 4600, 4700).unwrap().unwrap();
        assert!(found.is_whole());
        assert_eq!(found.known, sessions.known);
        for (salt, last) in [(7, 4300), (3, 4500)] {
            assert!(found.may_have(&[salt; 16], last));
            assert!(!found.may_have(&[salt; 16], last + 1));
        }
        assert!(!found.may_have(&[9; 16], 4096));
        assert!(found.may_have(&[9; 16], 4700));
        assert_eq!(found.salt_at(4400), Some([3; 16]));
        assert_eq!(found.salt_at(4200), None, "it has a newer one");
        found.note(&[9; 16], true, 4700).unwrap();
        assert_eq!(found.salt_at(4700), Some([9; 16]));
        // Each byte less, one more, and each place too far.
        for len in 0..bytes.len() {
            assert_eq!(Sessions::decode(&bytes[..len], 4600, 4700), Ok(None));
        }
        bytes.push(0);
        assert_eq!(Sessions::decode(&bytes, 4600, 4700), Ok(None));
        bytes.pop();
        assert_eq!(Sessions::decode(&bytes, 4500, 4600), Ok(None));
    }

    #[test]
    fn a_table_is_bounded() {
        let mut sessions = Sessions::default();
        for number in 0..=SESSIONS_MAX as u64 {
            assert!(sessions.is_whole());
            let salt = [number.to_le_bytes(); 2].concat().try_into().unwrap();
            sessions.note(&salt, true, 4096 + number).unwrap();
        }
        assert_eq!(sessions.known.len(), SESSIONS_MAX);
        let mut bytes = Vec::new();
        sessions.encode(1 << 20, &mut bytes).unwrap();
        assert_eq!(bytes, [0]);
        assert!(
            !Sessions::decode(&bytes, 1 << 20, 1 << 21)
                .unwrap()
                .unwrap()
                .is_whole()
        );
    }
}
