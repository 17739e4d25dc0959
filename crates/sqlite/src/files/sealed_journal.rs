//! The journal of an encrypted database under its own name, as it is on disk: docs/format.md ("Journal") has each byte.
//!
//! Only a transaction over several databases has one. SQLite writes all of a journal but one thing before it writes the
//! name of the super-journal: when the rest is synced, 12 bytes of a header are written again, to say that it counts. So
//! the journal is sealed as a whole, and those bytes have a place of their own, the *mark*: nothing that is sealed is
//! ever written over. The mark is written when all the rest is durable. So a journal with a mark is whole, or damaged; one
//! without may have been torn off by a power loss, and the database was not changed yet.
//!
//! The name of the super-journal stands at the end as SQLite writes it. Whoever recovers another of the databases looks
//! for it there, without our key.

use std::io;
use std::sync::Arc;

use litepack_cipher::{Keys, MAC_LEN, Nonce, Salt, Session};
use litepack_io::memory;
use litepack_io::storage::Storage;

/// First bytes of such a file.
pub(crate) const SEALED_MAGIC: [u8; 8] = *b"LPjourn\x1a";
const VERSION: u32 = 1;
/// First bytes of a journal, and last bytes of one that names a super-journal
/// (<https://sqlite.org/fileformat.html#the_rollback_journal>).
pub(crate) const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// Bytes of the head that are signed, and behind them the signature.
const HEAD: usize = 64;
/// Where the mark is: twice, in sectors of their own, so that none that is lost later undoes it.
const MARK_OFFSETS: [u64; 2] = [4096, 8192];
/// First bytes of a mark.
const MARK_MAGIC: [u8; 8] = *b"LPjmark\x1a";
/// Bytes of the mark that are signed, and behind them the signature.
const MARK: usize = 48;
/// Where the content begins. Head and mark have sectors of their own, so that a mark that is torn costs nothing else.
const CONTENT_OFFSET: u64 = 12288;
/// Bytes of content that are sealed together.
const BLOCK: usize = 1 << 16;
/// Bytes of a header that SQLite writes again.
pub(crate) const PATCH_LEN: usize = 12;
/// Bytes of SQLite's record besides the name: its length, a checksum, the magic.
const TAIL_BESIDE: usize = 16;
/// More than any name has.
const NAME_MAX: usize = 1 << 15;

/// What is known of a journal that is whole.
#[derive(Debug)]
pub(crate) struct Whole {
    /// The `log_next` of the database's newest commit when it was sealed.
    pub(crate) after: u64,
    salt: Salt,
    len: u64,
    mark: Option<Mark>,
}

impl Whole {
    /// The number that the commits of its transaction have.
    pub(crate) fn number(&self) -> u64 {
        number_of(&self.salt)
    }
}

/// That of a journal whose session has this salt.
fn number_of(salt: &Salt) -> u64 {
    u64::from_le_bytes(get(salt, 0))
}

/// A header that is written again: where, and with what.
type Mark = (u64, [u8; PATCH_LEN]);

/// What a journal is found to be.
#[derive(Debug)]
pub(crate) enum Found {
    /// All of it.
    Whole(Whole),
    /// It was being written when the power was lost, before the database was changed.
    Torn,
    /// It is of another database.
    Foreign,
    /// It was whole, and is not any more.
    Damaged,
}

/// Where the content is read from and written to, piece by piece.
pub(crate) trait Content<E> {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<(), E>;
    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), E>;
}

/// One that is on disk, or on its way there.
#[derive(Debug)]
pub(crate) struct SealedJournal<D> {
    disk: D,
    keys: Arc<Keys>,
    salt: Salt,
    len: u64,
    is_synced: bool,
    mark: Option<Mark>,
}

impl<D: Storage> SealedJournal<D> {
    /// Writes a journal with this content of `len` bytes to a file, whatever it had before.
    ///
    /// # Errors
    /// Those of the medium and of `content`. The file is none then.
    pub(crate) fn write<E: From<io::Error>>(
        disk: D,
        keys: Arc<Keys>,
        (identity, after): (&[u8; 16], u64),
        len: u64,
        content: &mut impl Content<E>,
    ) -> Result<SealedJournal<D>, E> {
        let salt = fill(&disk, &keys, (identity, after), len, content).inspect_err(|_| {
            // SQLite goes on with the journal that it has. This one must not be played back.
            let _ = disk.truncate(0);
        })?;
        Ok(SealedJournal {
            disk,
            keys,
            salt,
            len,
            is_synced: false,
            mark: None,
        })
    }

    /// Reads one, and hands its content to `content`.
    ///
    /// # Errors
    /// Those of the medium and of `content`.
    pub(crate) fn read<E: From<io::Error>>(
        disk: &D,
        keys: &Arc<Keys>,
        identity: &[u8; 16],
        content: &mut impl Content<E>,
    ) -> Result<Found, E> {
        let mut head = [0; HEAD + MAC_LEN];
        let has_head = disk.read_at(&mut head, 0)? == head.len() && is_signed(keys, &head);
        let salt: Salt = get(&head, 32);
        let mut mark = None;
        for offset in MARK_OFFSETS {
            let mut found = [0; MARK + MAC_LEN];
            let is_there = disk.read_at(&mut found, offset)? == found.len()
                && found.starts_with(&MARK_MAGIC)
                && is_signed(keys, &found);
            if is_there && (!has_head || get(&found, 8) == salt) {
                mark = Some((u64::from_le_bytes(get(&found, 24)), get(&found, 32)));
            }
        }
        let has_mark = mark.is_some();
        let broken = || {
            if has_mark {
                Found::Damaged
            } else {
                Found::Torn
            }
        };
        if !has_head {
            let of = get::<16>(&head, 16);
            let is_foreign = !has_mark && head.starts_with(&SEALED_MAGIC) && of != *identity;
            return Ok(if is_foreign { Found::Foreign } else { broken() });
        }
        let (len, tail_len) = (
            u64::from_le_bytes(get(&head, 48)),
            u32::from_le_bytes(get(&head, 12)),
        );
        if u32::from_le_bytes(get(&head, 8)) != VERSION
            || Some(disk.len()?) != file_len(keys, len, tail_len)
        {
            return Ok(broken());
        }
        let mut room = memory::with_room(sealed_len(keys, BLOCK)).map_err(io::Error::from)?;
        let mut place = CONTENT_OFFSET;
        for (number, (at, n)) in blocks(len).enumerate() {
            room.clear();
            memory::resize(&mut room, sealed_len(keys, n)).map_err(io::Error::from)?;
            if disk.read_at(&mut room, place)? < room.len() {
                return Ok(broken());
            }
            let counter = number as u64;
            let opened = keys.open(&Nonce { salt, counter }, &context(counter), &mut room);
            match opened {
                Ok(opened) => content.write(opened, at)?,
                Err(litepack_cipher::Error::NotAuthentic) => return Ok(broken()),
                Err(error) => return Err(of_cipher(error).into()),
            }
            place += room.len() as u64;
        }
        let expected = tail_of(len, content)?;
        room.clear();
        memory::resize(&mut room, expected.len()).map_err(io::Error::from)?;
        if disk.read_at(&mut room, place)? < room.len() || room != expected {
            return Ok(broken());
        }
        if let Some((at, patch)) = mark {
            content.write(&patch, at)?;
        }
        let after = u64::from_le_bytes(get(&head, 56));
        Ok(Found::Whole(Whole {
            after,
            salt,
            len,
            mark,
        }))
    }

    /// One that was read from this file.
    pub(crate) fn found(disk: D, keys: Arc<Keys>, whole: Whole) -> SealedJournal<D> {
        let Whole {
            salt, len, mark, ..
        } = whole;
        SealedJournal {
            disk,
            keys,
            salt,
            len,
            is_synced: false,
            mark,
        }
    }

    /// It is none any more, durably.
    pub(crate) fn end(&self) -> io::Result<()> {
        cut(&self.disk)
    }

    /// The number that the commits of its transaction have.
    pub(crate) fn number(&self) -> u64 {
        number_of(&self.salt)
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Makes durable what was written.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.disk.sync()?;
        self.is_synced = true;
        Ok(())
    }

    /// A header is written again: makes the rest durable, and writes the mark. False if another one is there already.
    pub(crate) fn mark(&mut self, offset: u64, patch: [u8; PATCH_LEN]) -> io::Result<bool> {
        if let Some(mark) = self.mark {
            return Ok(mark == (offset, patch));
        }
        if !self.is_synced {
            self.sync()?;
        }
        let mut mark = [0; MARK + MAC_LEN];
        put(&mut mark, 0, &MARK_MAGIC);
        put(&mut mark, 8, &self.salt);
        put(&mut mark, 24, &offset.to_le_bytes());
        put(&mut mark, 32, &patch);
        sign(&self.keys, &mut mark);
        for place in MARK_OFFSETS {
            self.disk.write_at(&mark, place)?;
        }
        self.mark = Some((offset, patch));
        Ok(true)
    }
}

/// Writes all of a journal. Gives the salt of its session.
fn fill<E: From<io::Error>>(
    disk: &impl Storage,
    keys: &Keys,
    (identity, after): (&[u8; 16], u64),
    len: u64,
    content: &mut impl Content<E>,
) -> Result<Salt, E> {
    // Durably: beside a head that is torn off, a mark of an earlier one would be taken for its own.
    if disk.len()? > 0 {
        cut(disk)?;
    }
    let tail = tail_of(len, content)?;
    let session = Session::new(keys).map_err(of_cipher)?;
    let mut salt = Salt::default();
    let mut room = memory::with_room(sealed_len(keys, BLOCK)).map_err(io::Error::from)?;
    let mut place = CONTENT_OFFSET;
    for (number, (at, n)) in blocks(len).enumerate() {
        room.clear();
        memory::resize(&mut room, n).map_err(io::Error::from)?;
        content.read(&mut room, at)?;
        let sealed = session.seal(&context(number as u64), &mut room, 0);
        let nonce = sealed.map_err(of_cipher)?;
        // A session of its own counts the blocks.
        if nonce.counter != number as u64 {
            return Err(io::Error::other("the session is not new").into());
        }
        salt = nonce.salt;
        disk.write_at(&room, place)?;
        place += room.len() as u64;
    }
    disk.write_at(&tail, place)?;
    // Last, so that a killed process leaves nothing that counts.
    let mut head = [0; HEAD + MAC_LEN];
    put(&mut head, 0, &SEALED_MAGIC);
    put(&mut head, 8, &VERSION.to_le_bytes());
    put(&mut head, 12, &(tail.len() as u32).to_le_bytes());
    put(&mut head, 16, identity);
    put(&mut head, 32, &salt);
    put(&mut head, 48, &len.to_le_bytes());
    put(&mut head, 56, &after.to_le_bytes());
    sign(keys, &mut head);
    disk.write_at(&head, 0)?;
    Ok(salt)
}

/// Makes a file none, durably.
pub(crate) fn cut(disk: &impl Storage) -> io::Result<()> {
    disk.truncate(0)?;
    disk.sync()
}

/// What SQLite has at the end of a journal with this content: name, length, checksum, magic of the super-journal's name.
/// It is to be stored in plain, so nothing else is taken for it.
fn tail_of<E: From<io::Error>>(len: u64, content: &mut impl Content<E>) -> Result<Vec<u8>, E> {
    let no_name = || {
        E::from(io::Error::other(
            "a journal without the name of a super-journal",
        ))
    };
    let at = len.checked_sub(TAIL_BESIDE as u64).ok_or_else(no_name)?;
    let mut name = [0; 4];
    content.read(&mut name, at)?;
    let name = u32::from_be_bytes(name) as usize;
    let start = at.checked_sub(name as u64).filter(|_| name <= NAME_MAX);
    let mut tail = memory::zeros(name.min(NAME_MAX) + TAIL_BESIDE).map_err(io::Error::from)?;
    content.read(&mut tail, start.ok_or_else(no_name)?)?;
    match is_name(&tail) {
        true => Ok(tail),
        false => Err(no_name()),
    }
}

/// Whether SQLite has written this as the name of a super-journal: its bytes are summed up, with a sign or without,
/// which depends on its compiler.
fn is_name(tail: &[u8]) -> bool {
    let Some((name, beside)) = tail.split_last_chunk::<TAIL_BESIDE>() else {
        return false;
    };
    let with_sign = |sum: u32, byte: &u8| sum.wrapping_add_signed(i32::from(byte.cast_signed()));
    let without = |sum: u32, byte: &u8| sum.wrapping_add(u32::from(*byte));
    let sum = u32::from_be_bytes(get(beside, 4));
    let is_summed = [name.iter().fold(0, with_sign), name.iter().fold(0, without)].contains(&sum);
    !name.is_empty() && is_summed && beside.ends_with(&MAGIC)
}

/// Where the blocks of so many bytes begin, and how long each is.
fn blocks(len: u64) -> impl Iterator<Item = (u64, usize)> {
    let at = (0..len).step_by(BLOCK);
    at.map(move |at| {
        (
            at,
            usize::try_from(len - at).map_or(BLOCK, |left| left.min(BLOCK)),
        )
    })
}

/// Bytes of a journal with so many of content, and so many of it once more at its end.
fn file_len(keys: &Keys, len: u64, tail_len: u32) -> Option<u64> {
    let (whole, rest) = (len / BLOCK as u64, (len % BLOCK as u64) as usize);
    let last = if rest > 0 { sealed_len(keys, rest) } else { 0 };
    let sealed = whole.checked_mul(sealed_len(keys, BLOCK) as u64)?;
    sealed.checked_add(CONTENT_OFFSET + last as u64 + u64::from(tail_len))
}

/// Bytes of a block with so many of content.
fn sealed_len(keys: &Keys, len: usize) -> usize {
    keys.padding().sealed_len(len)
}

fn context(number: u64) -> [u8; 24] {
    let mut context = *b"litepack journal\0\0\0\0\0\0\0\0";
    put(&mut context, 16, &number.to_le_bytes());
    context
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

fn get<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&from[at..at + N]);
    bytes
}

/// The signature of what is before the last bytes. The word keeps it apart from what else the file's keys sign.
fn signature(keys: &Keys, body: &[u8]) -> [u8; MAC_LEN] {
    keys.sign(&[b"litepack journal", body].concat())
}

fn sign(keys: &Keys, bytes: &mut [u8]) {
    if let Some((body, end)) = bytes.split_last_chunk_mut::<MAC_LEN>() {
        *end = signature(keys, body);
    }
}

fn is_signed(keys: &Keys, bytes: &[u8]) -> bool {
    let parts = bytes.split_last_chunk::<MAC_LEN>();
    parts.is_some_and(|(body, end)| keys.is_signed(&[b"litepack journal", body].concat(), end))
}

fn of_cipher(error: litepack_cipher::Error) -> io::Error {
    match error {
        litepack_cipher::Error::OutOfMemory(error) => error.into(),
        error => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use litepack_io::testing::{CrashingStorage, MemoryStorage};

    use super::*;
    use litepack_cipher::Padding;

    impl Content<io::Error> for Vec<u8> {
        fn read(&mut self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            buf.copy_from_slice(&self[offset as usize..][..buf.len()]);
            Ok(())
        }

        fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let end = offset as usize + bytes.len();
            self.resize(self.len().max(end), 0);
            self[offset as usize..end].copy_from_slice(bytes);
            Ok(())
        }
    }

    const ID: [u8; 16] = [3; 16];
    const NAME: &[u8] = b"/tmp/app.db-mj012345678";
    const PATCH: [u8; PATCH_LEN] = [7; PATCH_LEN];

    fn keys(byte: u8) -> Arc<Keys> {
        Arc::new(Keys::new(&[byte; 32], &ID).unwrap())
    }

    /// Of a padded file.
    fn padded(bytes: u32) -> Arc<Keys> {
        let padding = Padding::new(bytes).unwrap();
        Arc::new(Keys::with_padding(&[1; 32], &ID, padding).unwrap())
    }

    /// So many bytes, and what names a super-journal.
    fn content(len: usize) -> Vec<u8> {
        let mut content: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        content.extend(NAME);
        content.extend((NAME.len() as u32).to_be_bytes());
        let sum: u32 = NAME.iter().map(|byte| u32::from(*byte)).sum();
        content.extend(sum.to_be_bytes());
        content.extend(MAGIC);
        content
    }

    fn written(content: &mut Vec<u8>, is_marked: bool) -> Vec<u8> {
        written_with(keys(1), content, is_marked)
    }

    fn written_with(keys: Arc<Keys>, content: &mut Vec<u8>, is_marked: bool) -> Vec<u8> {
        let disk = MemoryStorage::default();
        let len = content.len() as u64;
        let mut journal = SealedJournal::write(&disk, keys, (&ID, 5), len, content).unwrap();
        if is_marked {
            assert!(journal.mark(512, PATCH).unwrap());
            assert!(journal.mark(512, PATCH).unwrap());
            assert!(!journal.mark(0, PATCH).unwrap());
        }
        disk.snapshot()
    }

    /// That of the journal in these bytes.
    fn number(bytes: &[u8]) -> u64 {
        u64::from_le_bytes(get(bytes, 32))
    }

    fn read(bytes: &[u8], keys: &Arc<Keys>, id: &[u8; 16]) -> (Found, Vec<u8>) {
        let mut content = Vec::new();
        let disk = MemoryStorage::new(bytes.to_vec());
        let found = SealedJournal::read(&&disk, keys, id, &mut content).unwrap();
        (found, content)
    }

    #[test]
    fn what_was_written_is_read_and_the_name_stands_at_the_end() {
        for len in [1000, BLOCK - 100, BLOCK, 3 * BLOCK + 7] {
            for is_marked in [false, true] {
                let mut content = content(len);
                let bytes = written(&mut content, is_marked);
                assert!(bytes.ends_with(&content[len..]));
                assert!(!bytes.windows(32).any(|part| part == &content[200..232]));
                let (found, read) = read(&bytes, &keys(1), &ID);
                assert!(
                    matches!(&found, Found::Whole(whole) if whole.after == 5 && whole.number() == number(&bytes))
                );
                if is_marked {
                    content[512..524].copy_from_slice(&PATCH);
                }
                assert!(read == content, "{len}");
            }
        }
    }

    #[test]
    fn blocks_of_a_padded_file_are_padded() {
        for bytes in [64, 1024, 4096] {
            for len in [1000, BLOCK - 100, BLOCK, 3 * BLOCK + 7] {
                let mut content = content(len);
                let journal = written_with(padded(bytes), &mut content, true);
                let sealed = journal.len() as u64 - CONTENT_OFFSET - (content.len() - len) as u64;
                assert!(sealed.is_multiple_of(bytes.into()));
                let (found, read) = read(&journal, &padded(bytes), &ID);
                content[512..524].copy_from_slice(&PATCH);
                assert!(matches!(found, Found::Whole(_)) && read == content, "{len}");
                // Under the keys of a file without padding it is nobody's.
                let (found, _) = super::tests::read(&journal, &keys(1), &ID);
                assert!(!matches!(found, Found::Whole(_)));
            }
        }
    }

    #[test]
    fn what_is_not_whole_is_torn_before_the_mark_and_damaged_after() {
        let mut content = content(600);
        for is_marked in [false, true] {
            let sound = written(&mut content, is_marked);
            let is_right = |found: &Found| match found {
                Found::Damaged => is_marked,
                Found::Torn => !is_marked,
                _ => false,
            };
            let used = |at: usize| match at {
                ..4096 => at < HEAD + MAC_LEN,
                4096..12288 => is_marked && at % 4096 < MARK + MAC_LEN,
                _ => true,
            };
            for bit in (0..sound.len() * 8).filter(|bit| used(bit / 8)) {
                let (at, mut bytes) = (bit / 8, sound.clone());
                bytes[at] ^= 1 << (bit % 8);
                let (found, read) = read(&bytes, &keys(1), &ID);
                match at {
                    // The other mark counts.
                    4096..12288 => {
                        assert!(matches!(found, Found::Whole(_)) && read[512..524] == PATCH);
                    }
                    16..32 if !is_marked => assert!(matches!(found, Found::Foreign), "{bit}"),
                    _ => assert!(is_right(&found), "{bit}: {found:?}"),
                }
            }
            for sector in [4096, 8192] {
                let mut bytes = sound.clone();
                bytes[sector..sector + 4096].fill(0);
                let (found, read) = read(&bytes, &keys(1), &ID);
                assert!(matches!(found, Found::Whole(_)));
                assert_eq!(read[512..524] == PATCH, is_marked);
            }
            for len in (CONTENT_OFFSET as usize..sound.len()).step_by(31) {
                assert!(is_right(&read(&sound[..len], &keys(1), &ID).0), "{len}");
            }
            let longer = [&sound[..], b"x"].concat();
            assert!(is_right(&read(&longer, &keys(1), &ID).0));
        }
        for len in 0..CONTENT_OFFSET as usize {
            let sound = written(&mut content, false);
            assert!(matches!(read(&sound[..len], &keys(1), &ID).0, Found::Torn));
            if len % 100 > 0 {
                break;
            }
        }
    }

    /// What is stored in plain is a name, and nothing else: of a journal that is longer than what SQLite has just written
    /// the end is content.
    #[test]
    fn content_is_not_taken_for_a_name() {
        let sound = content(600);
        let end = sound.len();
        for at in [end - 1, end - 9, end - 13, end - 17, end - 20] {
            let mut wrong = sound.clone();
            wrong[at] ^= 1;
            let (disk, len) = (MemoryStorage::default(), wrong.len() as u64);
            SealedJournal::write(&disk, keys(1), (&ID, 5), len, &mut wrong).unwrap_err();
            assert!(disk.snapshot().is_empty());
        }
    }

    #[test]
    fn one_of_another_database_is_told_apart() {
        let bytes = written(&mut content(600), true);
        assert!(matches!(read(&bytes, &keys(2), &[4; 16]).0, Found::Foreign));
    }

    /// Of two journals one after the other, the mark of the first does not count for the second.
    #[test]
    fn a_mark_counts_for_its_own_journal_only() {
        let mut content = content(600);
        let first = written(&mut content, true);
        let mut second = written(&mut content, false);
        second[4096..12288].copy_from_slice(&first[4096..12288]);
        let (found, read) = read(&second, &keys(1), &ID);
        assert!(matches!(found, Found::Whole(_)) && read == content);
        // Nor a block of one for the other.
        second[12288..12400].copy_from_slice(&first[12288..12400]);
        assert!(matches!(self::read(&second, &keys(1), &ID).0, Found::Torn));
    }

    /// The second is written to the file of the first, and the power goes: what is left of the two is neither the first
    /// nor damage.
    #[test]
    fn nothing_is_left_of_a_journal_that_was_in_the_file_before() {
        let write = |disk: &CrashingStorage, after, is_marked| {
            let mut content = content(600);
            let (of, len) = ((&ID, after), content.len() as u64);
            let mut journal =
                SealedJournal::write(disk.clone(), keys(1), of, len, &mut content).unwrap();
            if is_marked {
                journal.mark(512, PATCH).unwrap();
                journal.sync().unwrap();
            }
        };
        let disk = CrashingStorage::default();
        write(&disk, 5, true);
        write(&disk, 6, false);
        for seed in 0..200 {
            match read(&disk.after_power_loss(seed), &keys(1), &ID).0 {
                Found::Whole(whole) => assert!(whole.after == 6 && whole.mark.is_none(), "{seed}"),
                found => assert!(matches!(found, Found::Torn), "{seed}: {found:?}"),
            }
        }
    }
}
