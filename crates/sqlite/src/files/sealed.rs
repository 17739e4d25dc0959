//! A file of this process alone, whose content is encrypted on its medium.
//!
//! Its keys are random ones of the process, which are made once and never stored. The content is sealed in blocks of 4096
//! bytes. On the medium a block takes 4120: its content, the tag (16), and by which message of which session it was
//! sealed (8). The number of the block is sealed with it, and each file has sessions of its own, so a block is not taken
//! for another one, or for one of another file. What was written is never read as something else: it is an error then.
//! An earlier state of the same block is not told apart, should somebody put it back while the process runs.
//!
//! A block is sealed when it is left, not at each write: SQLite writes its journals in pieces of 4, 4096 and 4 bytes. So a
//! failed write may be reported by a later call; what was to be written is still there then, and tried again.
//!
//! Memory: three blocks, and a bit for each block of the file.

use std::io;
use std::sync::{Arc, OnceLock};

use litepack_cipher::{Error, Keys, Nonce, Salt, Session, TAG_LEN, new_data_key};
use litepack_io::memory;
use litepack_io::storage::Storage;

use crate::c::codes::IOERR_DATA;
use crate::failure::{Failure, While};

/// Bytes of content that are sealed together: as many as a usual page has.
const BLOCK: usize = 4096;
/// Bytes of a block on the medium.
const STORED: usize = BLOCK + TAG_LEN + TRAILER;
const TRAILER: usize = 8;
/// The trailer has the counter in its low bits, and above which session of the file it is.
const COUNTER_BITS: u32 = 40;
const _: () = assert!(1 << COUNTER_BITS == litepack_cipher::COUNTER_LIMIT);

/// The keys of this process.
static KEYS: OnceLock<Arc<Keys>> = OnceLock::new();

fn keys() -> Result<Arc<Keys>, Error> {
    if let Some(keys) = KEYS.get() {
        return Ok(Arc::clone(keys));
    }
    // Two threads may both make some: those of one of them are kept.
    let made = Arc::new(Keys::new(&*new_data_key()?, &[0; 16])?);
    Ok(Arc::clone(KEYS.get_or_init(|| made)))
}

/// A block in memory.
#[derive(Debug)]
struct Held {
    number: Option<u64>,
    bytes: Vec<u8>,
}

impl Held {
    fn new() -> Result<Held, memory::OutOfMemory> {
        Ok(Held {
            number: None,
            bytes: memory::zeros(BLOCK)?,
        })
    }
}

/// Such a file.
#[derive(Debug)]
pub(crate) struct SealedFile<D> {
    disk: D,
    keys: Arc<Keys>,
    /// Seals what is written now. The salts of all sessions that have sealed a block of this file are in `salts`.
    session: Session,
    salts: Vec<Salt>,
    /// Bytes of content. What a block has beyond that are zeros.
    size: u64,
    /// A bit for each block that is on the medium. The others are zeros.
    stored: Vec<u8>,
    /// The block that is being written; on the medium it may be another one, or torn.
    writing: Held,
    is_unsealed: bool,
    /// The block that was read last.
    reading: Held,
    /// Room for a block as it is on the medium.
    room: Vec<u8>,
}

impl<D: Storage> SealedFile<D> {
    /// An empty one on this medium, whose content no longer counts.
    ///
    /// # Errors
    /// When there are no random numbers, or there is no memory.
    pub(crate) fn new(disk: D) -> io::Result<SealedFile<D>> {
        let keys = keys().map_err(of_cipher)?;
        Ok(SealedFile {
            disk,
            session: Session::new(&keys).map_err(of_cipher)?,
            keys,
            salts: Vec::new(),
            size: 0,
            stored: Vec::new(),
            writing: Held::new()?,
            is_unsealed: false,
            reading: Held::new()?,
            room: memory::with_room(STORED)?,
        })
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Fills `buf` from `offset` and returns how many bytes there were.
    ///
    /// # Errors
    /// Those of the medium; [`io::ErrorKind::InvalidData`] if it has something else than was written.
    pub(crate) fn read(&mut self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let there = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let n = buf.len().min(there);
        for (part, piece) in pieces(offset, n) {
            let bytes = self.block(piece.number)?;
            buf[part].copy_from_slice(&bytes[piece.start..piece.stop]);
        }
        Ok(n)
    }

    /// Writes `bytes` at `offset`. What is between the end and there becomes zeros.
    ///
    /// # Errors
    /// Those of the medium, also of earlier writes. The file has then a part of `bytes`, from the first on.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (part, piece) in pieces(offset, bytes.len()) {
            let stop = offset + part.end as u64;
            self.write_in(piece.number, piece.stop - piece.start == BLOCK)?;
            self.writing.bytes[piece.start..piece.stop].copy_from_slice(&bytes[part]);
            self.is_unsealed = true;
            self.size = self.size.max(stop);
        }
        Ok(())
    }

    /// Gives the file this size.
    ///
    /// # Errors
    /// Those of the medium.
    pub(crate) fn truncate(&mut self, size: u64) -> io::Result<()> {
        if size >= self.size {
            self.size = size;
            return Ok(());
        }
        let (blocks, rest) = (size.div_ceil(BLOCK as u64), (size % BLOCK as u64) as usize);
        if rest > 0 {
            self.write_in(blocks - 1, false)?;
            self.writing.bytes[rest..].fill(0);
            self.is_unsealed = true;
        }
        self.size = size;
        for held in [&mut self.writing, &mut self.reading] {
            held.number = held.number.filter(|number| *number < blocks);
        }
        self.is_unsealed &= self.writing.number.is_some();
        self.forget_from(blocks);
        self.disk.truncate(blocks * STORED as u64)
    }

    /// Hands what was written so far to the medium, and has that sync it.
    ///
    /// # Errors
    /// Those of the medium, also of earlier writes.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.seal()?;
        self.disk.sync()
    }

    /// The content of a block.
    fn block(&mut self, number: u64) -> io::Result<&[u8]> {
        if self.writing.number == Some(number) {
            return Ok(&self.writing.bytes);
        }
        if self.reading.number != Some(number) {
            self.reading.number = None;
            self.open(number)?;
            let content = self.room.get(..BLOCK).unwrap_or_default();
            self.reading.bytes.copy_from_slice(content);
            self.reading.number = Some(number);
        }
        Ok(&self.reading.bytes)
    }

    /// Makes `writing` this block; with what it has so far unless all of it `is_new`.
    fn write_in(&mut self, number: u64, is_new: bool) -> io::Result<()> {
        if self.writing.number != Some(number) {
            self.seal()?;
            self.writing.number = None;
            if !is_new {
                self.open(number)?;
                let content = self.room.get(..BLOCK).unwrap_or_default();
                self.writing.bytes.copy_from_slice(content);
            }
            self.writing.number = Some(number);
        }
        if self.reading.number == Some(number) {
            self.reading.number = None;
        }
        Ok(())
    }

    /// Writes the block that is being written to the medium.
    fn seal(&mut self) -> io::Result<()> {
        let Some(number) = self.writing.number.filter(|_| self.is_unsealed) else {
            return Ok(());
        };
        // A child that was forked has its parent's file, but not its session.
        if !self.session.is_usable() {
            self.session = Session::new(&self.keys).map_err(of_cipher)?;
        }
        self.room.clear();
        memory::append(&mut self.room, &self.writing.bytes)?;
        let sealed = self.session.seal(&context(number), &mut self.room, 0);
        let nonce = sealed.map_err(of_cipher)?;
        if self.salts.last() != Some(&nonce.salt) {
            memory::push(&mut self.salts, nonce.salt)?;
        }
        let session = self.salts.len() as u64 - 1;
        let trailer = session << COUNTER_BITS | nonce.counter;
        memory::append(&mut self.room, &trailer.to_le_bytes())?;
        let place = place(number).ok_or(io::ErrorKind::FileTooLarge)?;
        let (at, bit) = bit(number).ok_or(io::ErrorKind::FileTooLarge)?;
        if self.stored.len() <= at {
            memory::resize(&mut self.stored, at + 1)?;
        }
        self.disk.write_at(&self.room, place)?;
        if let Some(bits) = self.stored.get_mut(at) {
            *bits |= bit;
        }
        self.is_unsealed = false;
        Ok(())
    }

    /// Fills the beginning of `room` with the content of a block, as the medium has it.
    fn open(&mut self, number: u64) -> io::Result<()> {
        self.room.clear();
        memory::resize(&mut self.room, STORED)?;
        if !self.is_stored(number) {
            return Ok(());
        }
        let place = place(number).ok_or_else(changed)?;
        if self.disk.read_at(&mut self.room, place)? < STORED {
            return Err(changed());
        }
        let (sealed, trailer) = self.room.split_last_chunk_mut().ok_or_else(changed)?;
        let trailer = u64::from_le_bytes(*trailer);
        let salt = usize::try_from(trailer >> COUNTER_BITS).ok();
        let nonce = Nonce {
            salt: *(salt.and_then(|at| self.salts.get(at))).ok_or_else(changed)?,
            counter: trailer & (litepack_cipher::COUNTER_LIMIT - 1),
        };
        let opened = self.keys.open(&nonce, &context(number), sealed);
        opened.map(|_| ()).map_err(of_cipher)
    }

    fn is_stored(&self, number: u64) -> bool {
        bit(number)
            .and_then(|(at, bit)| Some(self.stored.get(at)? & bit != 0))
            .unwrap_or(false)
    }

    /// Blocks from this one on are no longer on the medium.
    fn forget_from(&mut self, number: u64) {
        let Some((at, bit)) = bit(number) else {
            return;
        };
        self.stored.truncate(at + 1);
        if let Some(last) = self.stored.get_mut(at) {
            *last &= bit - 1;
        }
    }
}

/// The failure of a call.
pub(crate) fn failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::InvalidData {
        return Failure::new(IOERR_DATA, error.to_string());
    }
    Failure::of_store(&error.into(), While::Writing)
}

/// The medium has something else than was written there.
fn changed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "a temporary file is not as it was written: something else changed it, or its disk is failing",
    )
}

fn of_cipher(error: Error) -> io::Error {
    match error {
        Error::NotAuthentic => changed(),
        Error::OutOfMemory(error) => error.into(),
        error => io::Error::other(error),
    }
}

/// What is sealed with a block.
fn context(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Where a block is on the medium.
fn place(number: u64) -> Option<u64> {
    let place = number.checked_mul(STORED as u64)?;
    // SQLite's offsets have a sign.
    i64::try_from(place).is_ok().then_some(place)
}

/// Where a block's bit is: the byte, and the bit in it.
fn bit(number: u64) -> Option<(usize, u8)> {
    Some((usize::try_from(number / 8).ok()?, 1 << (number % 8)))
}

/// A part of a block.
struct Piece {
    number: u64,
    start: usize,
    stop: usize,
}

/// What `len` bytes at `offset` are made of: a part of them, and where it is.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (std::ops::Range<usize>, Piece)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % BLOCK as u64) as usize;
        let n = (len - done).min(BLOCK - start);
        let part = done..done + n;
        done += n;
        let number = at / BLOCK as u64;
        let stop = start + n;
        let piece = Piece {
            number,
            start,
            stop,
        };
        (n > 0).then_some((part, piece))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::HashSet;

    use litepack_io::random::SplitMix64;
    use litepack_io::storage::ReadAt;

    use super::*;

    /// A medium in memory that remembers what was written and can fail.
    #[derive(Debug, Default)]
    struct Medium {
        bytes: RefCell<Vec<u8>>,
        written: RefCell<Vec<(u64, Vec<u8>)>>,
        fails: Cell<bool>,
    }

    impl Medium {
        fn may(&self) -> io::Result<()> {
            match self.fails.get() {
                true => Err(io::Error::other("the disk fails")),
                false => Ok(()),
            }
        }
    }

    impl ReadAt for Medium {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            self.may()?;
            let bytes = self.bytes.borrow();
            let rest = bytes.get(offset as usize..).unwrap_or_default();
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.borrow().len() as u64)
        }
    }

    impl Storage for Medium {
        fn write_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
            self.written.borrow_mut().push((offset, from.to_vec()));
            let mut bytes = self.bytes.borrow_mut();
            let (at, end) = (offset as usize, offset as usize + from.len());
            let len = bytes.len().max(end);
            bytes.resize(len, 0);
            // Half of it is written, and then the disk fails.
            let n = if self.fails.get() {
                from.len() / 2
            } else {
                from.len()
            };
            bytes[at..at + n].copy_from_slice(&from[..n]);
            self.may()
        }

        fn sync(&self) -> io::Result<()> {
            self.may()
        }

        fn truncate(&self, len: u64) -> io::Result<()> {
            self.may()?;
            self.bytes.borrow_mut().truncate(len as usize);
            Ok(())
        }
    }

    fn file() -> SealedFile<Medium> {
        SealedFile::new(Medium::default()).unwrap()
    }

    fn read(file: &mut SealedFile<Medium>, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut buf = vec![9; len];
        let n = file.read(&mut buf, offset)?;
        buf.truncate(n);
        Ok(buf)
    }

    /// No content of a file's is ever on the medium, and no nonce comes twice: of the trailers, each of which names one,
    /// all are different.
    fn expect_sealed(file: &SealedFile<Medium>, nonces: &mut HashSet<(Salt, u64)>) {
        for (offset, bytes) in file.disk.written.borrow().iter() {
            assert_eq!((offset % STORED as u64, bytes.len()), (0, STORED));
            let trailer = u64::from_le_bytes(*bytes.last_chunk().unwrap());
            let salt = file.salts[(trailer >> COUNTER_BITS) as usize];
            assert!(nonces.insert((salt, trailer << 24 >> 24)), "{trailer:x}");
        }
    }

    /// Pieces of all lengths, from anywhere to anywhere, also beyond the end; the file cut and grown; the disk failing
    /// from time to time, and a fork.
    #[test]
    fn it_has_what_was_written_whatever_the_medium_does() {
        let mut nonces = HashSet::new();
        for seed in 0..60 {
            let random = &mut SplitMix64::new(seed);
            let mut below = |end: u64| random.below(end);
            let (mut file, mut model) = (file(), Vec::new());
            for step in 0..300 {
                let len = match below(3) {
                    0 => BLOCK,
                    1 => 4,
                    _ => below(3 * BLOCK as u64) as usize,
                };
                let mut offset = below(10 * BLOCK as u64);
                if below(2) == 0 {
                    offset -= offset % BLOCK as u64;
                }
                file.disk.fails.set(below(8) == 0);
                let end = offset as usize + len;
                match below(8) {
                    0..=3 => {
                        let bytes = vec![below(255) as u8 + 1; len];
                        let mut written = file.write(&bytes, offset);
                        if written.is_err() {
                            // SQLite gives up then; what it does next is to write or read again.
                            file.disk.fails.set(false);
                            written = file.write(&bytes, offset);
                        }
                        written.unwrap();
                        model.resize(model.len().max(end), 0);
                        model[offset as usize..end].copy_from_slice(&bytes);
                    }
                    4 => {
                        if file.truncate(offset).is_err() {
                            file.disk.fails.set(false);
                            file.truncate(offset).unwrap();
                        }
                        model.resize(offset as usize, 0);
                    }
                    5 => {
                        let _ = file.sync();
                    }
                    6 if below(20) == 0 => {
                        // As a child that was forked would.
                        file.session = Session::new(&file.keys).unwrap();
                    }
                    _ => {
                        let expected = model.get(offset as usize..).unwrap_or_default();
                        let expected = &expected[..len.min(expected.len())];
                        match read(&mut file, offset, len) {
                            Ok(found) => assert!(found == expected, "{seed}, {step}"),
                            Err(_) => assert!(file.disk.fails.get()),
                        }
                    }
                }
                assert_eq!(file.size(), model.len() as u64);
            }
            file.disk.fails.set(false);
            assert!(
                read(&mut file, 0, model.len() + 1).unwrap() == model,
                "{seed}"
            );
            expect_sealed(&file, &mut nonces);
        }
        assert!(nonces.len() > 1000, "{}", nonces.len());
    }

    #[test]
    fn what_was_changed_on_the_medium_is_an_error() {
        let mut file = file();
        for block in 0..3 {
            file.write(&[block + 1; BLOCK], u64::from(block) * BLOCK as u64)
                .unwrap();
        }
        file.sync().unwrap();
        let sound = file.disk.bytes.borrow().clone();
        // Not from memory.
        let read_all = |file: &mut SealedFile<Medium>| {
            (file.writing.number, file.reading.number) = (None, None);
            (0..3)
                .map(|block| read(file, block * BLOCK as u64, BLOCK))
                .collect::<Vec<_>>()
        };
        let is_changed = |found: &io::Result<Vec<u8>>| {
            found
                .as_ref()
                .is_err_and(|error| error.kind() == io::ErrorKind::InvalidData)
        };
        assert!(read_all(&mut file).iter().all(Result::is_ok));
        for bit in STORED * 8..2 * STORED * 8 {
            file.disk.bytes.borrow_mut()[bit / 8] ^= 1 << (bit % 8);
            let found = read_all(&mut file);
            assert!(is_changed(&found[1]), "{bit}");
            assert!(found[0].is_ok() && found[2].is_ok());
            file.disk.bytes.borrow_mut()[bit / 8] ^= 1 << (bit % 8);
        }
        // Blocks that have changed places, zeros, and a file that is cut off.
        let (first, rest) = sound.split_at(STORED);
        let swapped = [&rest[..STORED], first, &rest[STORED..]].concat();
        let zeros = [&vec![0; STORED], rest].concat();
        let cut = &sound[..3 * STORED - 1];
        for (bytes, damaged) in [
            (&swapped[..], vec![0, 1]),
            (&zeros, vec![0]),
            (cut, vec![2]),
        ] {
            *file.disk.bytes.borrow_mut() = bytes.to_vec();
            let found = read_all(&mut file);
            for (block, found) in found.iter().enumerate() {
                assert_eq!(is_changed(found), damaged.contains(&block), "{block}");
            }
        }
        // The same block of another file of this process.
        let mut other = self::file();
        other.write(&[1; BLOCK], 0).unwrap();
        other.sync().unwrap();
        *file.disk.bytes.borrow_mut() = other.disk.bytes.borrow().clone();
        assert!(is_changed(&read_all(&mut file)[0]));
        assert_eq!(failure(changed()).code, IOERR_DATA);
    }

    /// As SQLite writes a journal.
    #[test]
    fn a_block_is_sealed_once_however_many_pieces_it_is_written_in() {
        let mut file = file();
        let record = [&[1; 4][..], &[2; 4096], &[3; 4]];
        let mut at = 0;
        for piece in record.iter().cycle().take(3 * 256) {
            file.write(piece, at).unwrap();
            at += <[u8]>::len(piece) as u64;
        }
        file.sync().unwrap();
        let written = file.disk.written.borrow().len();
        assert_eq!(written as u64, at.div_ceil(BLOCK as u64));
    }

    #[test]
    fn offsets_that_no_file_has_are_errors() {
        let mut file = file();
        for offset in [u64::MAX, u64::MAX - 4, i64::MAX as u64] {
            assert!(read(&mut file, offset, 10).unwrap().is_empty());
            let written = file.write(&[1; 10], offset).and_then(|()| file.sync());
            written.unwrap_err();
            file.truncate(0).unwrap();
        }
        file.write(b"still good", 0).unwrap();
        assert_eq!(read(&mut file, 0, 20).unwrap(), b"still good");
    }
}
