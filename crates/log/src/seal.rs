//! Sealing the records of a generation, and opening them.
//!
//! A sealed record tells its nonce in plain: the counter, and the session's salt, or how far back the record is that has
//! it, its *carrier*. Salts are not vouched for: under a wrong one nothing opens. A session begins with a carrier, and
//! each record that vouches for others is one, so that it can be opened whatever became of those.
//!
//! A session belongs to one handle, and to what that handle knows of one generation. Who finds a log anew, after
//! whatever happened, seals with another salt. The place of a record says nothing: after a power loss or a killed writer
//! the same one is written again.

use std::cell::RefCell;
use std::sync::Arc;

use litepack_cipher::{Keys, Nonce, Salt, Session};
use litepack_io::memory::{OutOfMemory, append, room, with_room};
use litepack_io::random::SplitMix64;
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::head::{Generation, RECORDS_START};
use crate::format::record::{self, CARRIER_LEN, Record, SaltAt, SealedRecord};
use crate::medium::Medium;
use crate::sessions::Sessions;

/// What a record is sealed with begins with these words, which keep it apart from all else that is.
const SEALED: &[u8] = b"litepack log";
/// Salts that are kept, each in the slot of its carrier.
const SALTS: usize = 256;

/// Keys for the records of a generation.
#[derive(Debug)]
pub(crate) struct Seal {
    keys: Arc<Keys>,
    own: Option<Own>,
    sessions: Sessions,
    salts: RefCell<Vec<Kept>>,
}

/// The place of a carrier, and its salt.
type Kept = Option<(u64, Salt)>;

/// The session of this handle, and its newest carrier.
#[derive(Debug)]
struct Own {
    session: Session,
    carrier: u64,
}

impl Seal {
    pub fn new(keys: Arc<Keys>) -> Seal {
        Seal {
            keys,
            own: None,
            sessions: Sessions::default(),
            salts: RefCell::default(),
        }
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The record that these bytes begin with, if they hold a whole one of this generation and place. Its content is
    /// opened where it is; if there is none, the bytes that may be sealed are in no known state.
    pub fn open<S: Storage>(
        &self,
        bytes: &mut [u8],
        place: u64,
        generation: &Generation,
        medium: &Medium<S>,
    ) -> Result<Option<Record>> {
        let Some(found) = SealedRecord::decode(bytes) else {
            return Ok(None);
        };
        let salt = match found.salt {
            SaltAt::Here(salt) => Some(salt),
            SaltAt::Back(back) => self.salt_at(place.checked_sub(back), medium)?,
        };
        let parts = bytes.get_mut(..found.len);
        let parts = parts.and_then(|bytes| bytes.split_at_mut_checked(found.start));
        let (Some(salt), Some((told, sealed))) = (salt, parts) else {
            return Ok(None);
        };
        let Some(next_link) = record::link_behind(sealed) else {
            return Ok(None);
        };
        let counter = found.counter;
        let context = context(generation, place, told)?;
        let len = match self.keys.open(&Nonce { salt, counter }, &context, sealed) {
            Ok(content) => content.len(),
            Err(litepack_cipher::Error::NotAuthentic) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let is_carrier = matches!(found.salt, SaltAt::Here(_));
        if is_carrier {
            self.keep(place, salt);
        }
        Ok(Some(Record {
            kind: found.kind,
            link: found.link,
            content: found.start..found.start + len,
            len: found.len,
            next_link,
            session: Some((salt, is_carrier)),
        }))
    }

    /// A record that was opened is the next one of the log.
    pub fn note(&mut self, record: &Record, place: u64) -> Result<()> {
        if let Some((salt, is_carrier)) = &record.session {
            self.sessions.note(salt, *is_carrier, place)?;
        }
        Ok(())
    }

    /// Whether a record that was opened at `place` can be the one that the log has there.
    pub fn may_have(&self, record: &Record, place: u64) -> bool {
        let session = record.session.as_ref();
        session.is_some_and(|(salt, _)| self.sessions.may_have(salt, place))
    }

    /// Of the session of this handle.
    pub fn own_salt(&self) -> Option<Salt> {
        self.own.as_ref().map(|own| own.session.salt())
    }

    /// The sessions so far.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// These are the sessions so far, as a root says.
    pub fn begin_at(&mut self, sessions: Sessions) {
        self.sessions = sessions;
    }

    /// Appends a record to `out`, which is empty, and gives the link of the one behind it. If it fails, or the record
    /// cannot be written, this is of no use any more.
    pub fn seal(
        &mut self,
        record: NewRecord<'_>,
        place: u64,
        generation: &Generation,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        match self.seal_now(record, place, generation, out) {
            // It has no numbers left, or is that of a process from which this one was forked.
            Err(litepack_cipher::Error::UsedUp) => {
                self.own = None;
                out.clear();
                Ok(self.seal_now(record, place, generation, out)?)
            }
            done => Ok(done?),
        }
    }

    fn seal_now(
        &mut self,
        record: NewRecord<'_>,
        place: u64,
        generation: &Generation,
        out: &mut Vec<u8>,
    ) -> litepack_cipher::Result<u32> {
        let own = match self.own.take() {
            Some(own) => own,
            // The first one is its carrier.
            None => Own {
                session: Session::new(&self.keys)?,
                carrier: place,
            },
        };
        let own = self.own.insert(own);
        if record.is_carrier {
            own.carrier = place;
        }
        let fresh = own.session.nonces(1)?.next();
        let fresh = fresh.ok_or(litepack_cipher::Error::UsedUp)?;
        let Nonce {
            salt: own_salt,
            counter,
        } = fresh.told();
        let salt = match place.saturating_sub(own.carrier) {
            0 => SaltAt::Here(own_salt),
            back => SaltAt::Back(back),
        };
        let (kind, link) = (record.kind, record.link);
        let sealed = self.keys.padding().sealed_len(record.content.len());
        record::encode_sealed(kind, link, (salt, counter), sealed, out)?;
        let context = context(generation, place, out)?;
        let start = out.len();
        append(out, record.content)?;
        (own.session).seal_with(fresh, &context, out, start)?;
        let is_carrier = matches!(salt, SaltAt::Here(_));
        if is_carrier {
            self.keep(place, own_salt);
        }
        self.sessions.note(&own_salt, is_carrier, place)?;
        Ok(record::link_behind(out).unwrap_or(0))
    }

    /// The salt of the carrier at a place, if one is there.
    fn salt_at<S: Storage>(&self, place: Option<u64>, medium: &Medium<S>) -> Result<Option<Salt>> {
        let Some(place) = place.filter(|place| *place >= RECORDS_START) else {
            return Ok(None);
        };
        let kept = self.salts.try_borrow();
        let kept = kept.ok().and_then(|kept| *kept.get(slot(place))?);
        if let Some((_, salt)) = kept.filter(|(at, _)| *at == place) {
            return Ok(Some(salt));
        }
        if let Some(salt) = self.sessions.salt_at(place) {
            return Ok(Some(salt));
        }
        let found = SealedRecord::decode(&medium.read(place, CARRIER_LEN)?);
        let salt = found.and_then(|found| match found.salt {
            SaltAt::Here(salt) => Some(salt),
            SaltAt::Back(_) => None,
        });
        if let Some(salt) = salt {
            self.keep(place, salt);
        }
        Ok(salt)
    }

    fn keep(&self, place: u64, salt: Salt) {
        let Ok(mut kept) = self.salts.try_borrow_mut() else {
            return;
        };
        // Without memory it is read again.
        if kept.is_empty() && room(&mut kept, SALTS).is_ok() {
            kept.resize(SALTS, None);
        }
        if let Some(kept) = kept.get_mut(slot(place)) {
            *kept = Some((place, salt));
        }
    }
}

fn slot(place: u64) -> usize {
    let mixed = place.wrapping_mul(SplitMix64::STEP) >> 32;
    usize::try_from(mixed).unwrap_or(0) % SALTS
}

/// A record to be sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecord<'a> {
    pub kind: u8,
    pub link: u32,
    pub content: &'a [u8],
    /// Whether it has the salt of its session, too.
    pub is_carrier: bool,
}

/// What is authenticated besides the content: generation, place, and what the record tells in plain. The file's identity
/// is in the keys.
fn context(
    generation: &Generation,
    place: u64,
    told: &[u8],
) -> std::result::Result<Vec<u8>, OutOfMemory> {
    let mut context = with_room(SEALED.len() + 16 + 8 + told.len())?;
    context.extend(SEALED);
    context.extend(generation.id);
    context.extend(place.to_le_bytes());
    context.extend(told);
    Ok(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::Binding;
    use crate::format::record::{FRAME, NODE};
    use litepack_cipher::Padding;
    use litepack_io::testing::MemoryStorage;

    fn generation(id: u8) -> Generation {
        Generation {
            seq: 1,
            id: [id; 16],
            wal_header: [0; 32],
            page_size: 512,
            binding: Binding::default(),
            base: None,
            signature: None,
        }
    }

    fn new(content: &[u8], is_carrier: bool) -> NewRecord<'_> {
        NewRecord {
            kind: FRAME,
            link: 7,
            content,
            is_carrier,
        }
    }

    /// Records of these contents in a file, one after another, and their places.
    fn file(seal: &mut Seal, contents: &[(&[u8], bool)]) -> (Vec<u8>, Vec<u64>) {
        let (mut file, mut places) = (vec![0; 4096], Vec::new());
        for (content, is_carrier) in contents {
            let (place, mut out) = (file.len() as u64, Vec::new());
            let link = seal.seal(new(content, *is_carrier), place, &generation(1), &mut out);
            assert_eq!(link.unwrap(), record::link_behind(&out).unwrap());
            file.extend(out);
            places.push(place);
        }
        (file, places)
    }

    fn opened(
        keys: &Arc<Keys>,
        file: &[u8],
        place: u64,
        generation: &Generation,
    ) -> Option<Vec<u8>> {
        let medium = Medium::new(MemoryStorage::new(file.to_vec()));
        let mut bytes = medium.read(place, file.len()).unwrap();
        let seal = Seal::new(Arc::clone(keys));
        let found = seal.open(&mut bytes, place, generation, &medium).unwrap();
        found.map(|found| bytes[found.content].to_vec())
    }

    #[test]
    fn a_record_opens_as_it_was_sealed_and_in_no_other_way() {
        let keys = Arc::new(Keys::new(&[1; 32], &[2; 16]).unwrap());
        let mut seal = Seal::new(Arc::clone(&keys));
        let contents: [(&[u8], bool); 4] = [
            (b"first", false),
            (b"second", false),
            (b"third", true),
            (b"fourth", false),
        ];
        let (file, places) = file(&mut seal, &contents);
        for (place, (content, _)) in places.iter().zip(contents) {
            let found = opened(&keys, &file, *place, &generation(1));
            assert_eq!(found.as_deref(), Some(content));
            assert_eq!(opened(&keys, &file, *place, &generation(2)), None);
            // One place further on.
            let mut moved = file[..*place as usize].to_vec();
            moved.push(0);
            moved.extend(&file[*place as usize..]);
            assert_eq!(opened(&keys, &moved, *place + 1, &generation(1)), None);
        }
        // In the place of another one of the same length and session.
        let len = places[2] - places[1];
        let [second, fourth] = [places[1] as usize, places[3] as usize];
        let mut swapped = file.clone();
        swapped.copy_within(second..second + len as usize, fourth);
        assert_eq!(opened(&keys, &swapped, places[3], &generation(1)), None);
        // All that is in plain is vouched for, too: length, kind, link, salt or carrier, counter.
        for place in places {
            let end = place as usize + 12;
            for at in place as usize..end {
                let mut changed = file.clone();
                changed[at] ^= 2;
                assert_eq!(opened(&keys, &changed, place, &generation(1)), None, "{at}");
            }
        }
        let mut other = file.clone();
        other[4096 + 4] = NODE;
        assert_eq!(opened(&keys, &other, 4096, &generation(1)), None);
    }

    /// A record tells no more of its content's length than the padding lets it.
    #[test]
    fn records_of_a_padded_file_have_lengths_of_a_few_kinds() {
        let padding = Padding::new(256).unwrap();
        let keys = Keys::with_padding(&[1; 32], &[2; 16], padding).unwrap();
        let keys = Arc::new(keys);
        let mut seal = Seal::new(Arc::clone(&keys));
        let contents: [&[u8]; 4] = [b"", b"1", &[0; 200], &[7; 1000]];
        let (file, places) = file(&mut seal, &contents.map(|content| (content, false)));
        for (place, content) in places.iter().zip(contents) {
            let found = opened(&keys, &file, *place, &generation(1));
            assert_eq!(found.as_deref(), Some(content));
            let told = SealedRecord::decode(&file[*place as usize..]).unwrap();
            assert!((told.len - told.start).is_multiple_of(256));
        }
        let others = Arc::new(Keys::new(&[1; 32], &[2; 16]).unwrap());
        assert_eq!(opened(&others, &file, places[1], &generation(1)), None);
    }

    /// The record between two carriers has the first one, those after the second one that.
    #[test]
    fn a_record_has_the_salt_of_the_carrier_before_it() {
        let keys = Arc::new(Keys::new(&[1; 32], &[2; 16]).unwrap());
        let mut seal = Seal::new(Arc::clone(&keys));
        let contents: [(&[u8], bool); 4] =
            [(b"1", false), (b"2", false), (b"3", true), (b"4", false)];
        let (file, places) = file(&mut seal, &contents);
        let mut expected = [None, Some(0), None, Some(2)].into_iter();
        let mut counters = 0..;
        for place in &places {
            let told = SealedRecord::decode(&file[*place as usize..]).unwrap();
            let carrier = match told.salt {
                SaltAt::Here(_) => None,
                SaltAt::Back(back) => places.iter().position(|at| *at == place - back),
            };
            assert_eq!(Some(carrier), expected.next());
            assert_eq!(Some(told.counter), counters.next());
        }
    }
}
