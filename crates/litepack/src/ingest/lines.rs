//! Lines of a source: cut out of what is read, with the offset of each. Memory is bounded: a line that is too long is
//! counted, and only its beginning kept.

use super::input::{Filled, Input};
use crate::Result;

/// What is kept of the beginning of a source, and of what precedes the offset, to recognise it by.
pub(super) const MARK: usize = 1024;
/// So much of a line that is too long is kept.
const KEPT: usize = 4096;
/// So much is read ahead.
const AHEAD: usize = 4 << 20;
const CHUNK: usize = 256 << 10;

/// A line without its end.
pub(super) struct Line<'a> {
    /// Where it begins in the decompressed source, in bytes.
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
    /// Its length, which is more than there is of it if it was cut.
    pub(super) length: u64,
}

impl Line<'_> {
    pub(super) fn is_cut(&self) -> bool {
        self.length > self.bytes.len() as u64
    }
}

/// A line that is too long, while it is read.
struct Long {
    offset: u64,
    /// What precedes it.
    before: Vec<u8>,
    beginning: Vec<u8>,
    length: u64,
}

/// The lines of one source.
pub(super) struct Lines {
    /// Up to [`MARK`] bytes before `start`, then what was not handed out.
    buffer: Vec<u8>,
    start: usize,
    /// Up to here there is no end of a line.
    scanned: usize,
    /// Of `buffer[start]`.
    position: u64,
    head: Vec<u8>,
    limit: usize,
    long: Option<Long>,
    /// Of the line that was too long and was handed out last.
    beginning: Vec<u8>,
}

impl Lines {
    /// Goes on at an offset, which these bytes precede, in a source that begins with `head`.
    pub(super) fn new(offset: u64, before: &[u8], head: Vec<u8>, limit: usize) -> Lines {
        Lines {
            buffer: before.to_vec(),
            start: before.len(),
            scanned: before.len(),
            position: offset,
            head,
            limit,
            long: None,
            beginning: Vec::new(),
        }
    }

    /// Where the next line begins.
    pub(super) fn offset(&self) -> u64 {
        self.long.as_ref().map_or(self.position, |long| long.offset)
    }

    /// The first bytes of the source, no further than the offset.
    pub(super) fn head(&self) -> &[u8] {
        let end = usize::try_from(self.offset()).unwrap_or(MARK);
        &self.head[..end.min(self.head.len())]
    }

    /// The first bytes of the source, as far as it was read.
    pub(super) fn begins_with(&self) -> &[u8] {
        &self.head
    }

    /// Whether `pending` goes on with a line that is too long.
    pub(super) fn is_long(&self) -> bool {
        self.long.is_some()
    }

    /// The last bytes before the offset.
    pub(super) fn before(&self) -> &[u8] {
        match &self.long {
            Some(long) => &long.before,
            None => &self.buffer[self.start.saturating_sub(MARK)..self.start],
        }
    }

    /// What was read and not handed out.
    pub(super) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// How much of a half line was read.
    pub(super) fn half(&self) -> u64 {
        let long = self.long.as_ref().map_or(0, |long| long.length);
        long + self.pending().len() as u64
    }

    /// Whether enough was read ahead.
    pub(super) fn is_full(&self) -> bool {
        self.pending().len() >= AHEAD
    }

    /// Reads on.
    pub(super) fn fill(&mut self, input: &mut Input) -> Result<Filled> {
        if self.start > AHEAD {
            self.forget();
        }
        let end = self.buffer.len();
        let filled = input.read(&mut self.buffer, CHUNK)?;
        if self.head.len() < MARK {
            let first = self.position + (end - self.start) as u64;
            let new = &self.buffer[end..];
            let known = self.head.len() as u64;
            if let Some(new) = usize::try_from(known.saturating_sub(first))
                .ok()
                .filter(|_| first <= known)
                .and_then(|skip| new.get(skip..))
            {
                self.head
                    .extend_from_slice(&new[..new.len().min(MARK - self.head.len())]);
            }
        }
        Ok(filled)
    }

    /// Gives memory back: a file that is followed is silent most of the time.
    pub(super) fn shrink(&mut self) {
        self.forget();
        self.buffer.shrink_to(0);
    }

    fn forget(&mut self) {
        let drop = self.start.saturating_sub(MARK);
        self.buffer.drain(..drop);
        self.start -= drop;
        self.scanned -= drop;
    }

    /// Whether a line was read to its end.
    pub(super) fn has_line(&mut self) -> bool {
        self.line_end().is_some()
    }

    /// The next line that was read to its end.
    pub(super) fn next(&mut self) -> Option<Line<'_>> {
        let end = self.line_end()?;
        Some(self.take(end, end + 1))
    }

    fn line_end(&mut self) -> Option<usize> {
        let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
        if found.is_none() {
            self.scanned = self.buffer.len();
            if self.long.is_some() || self.pending().len() > self.limit {
                self.swallow();
            }
        }
        found.map(|at| self.scanned + at)
    }

    /// The last line, which has no end.
    pub(super) fn rest(&mut self) -> Option<Line<'_>> {
        let end = self.buffer.len();
        (self.half() > 0).then(|| self.take(end, end))
    }

    fn take(&mut self, end: usize, next: usize) -> Line<'_> {
        let (start, position) = (self.start, self.position);
        if self.long.is_some() || end - start > self.limit {
            self.scanned = end;
            self.swallow_to(end);
        }
        self.position = position + (next - start) as u64;
        self.start = next;
        self.scanned = next;
        self.beginning = Vec::new();
        if let Some(long) = self.long.take() {
            self.beginning = long.beginning;
            return Line {
                offset: long.offset,
                bytes: &self.beginning,
                length: long.length,
            };
        }
        let mut bytes = &self.buffer[start..end];
        if bytes.ends_with(b"\r") {
            bytes = &bytes[..bytes.len() - 1];
        }
        Line {
            offset: position,
            bytes,
            length: bytes.len() as u64,
        }
    }

    /// Counts what was read of a line that is too long.
    fn swallow(&mut self) {
        let end = self.buffer.len();
        self.swallow_to(end);
        self.position += (end - self.start) as u64;
        self.start = end;
    }

    fn swallow_to(&mut self, end: usize) {
        let bytes = &self.buffer[self.start..end];
        let position = self.position;
        let before = self.buffer[self.start.saturating_sub(MARK)..self.start].to_vec();
        let long = self.long.get_or_insert_with(|| Long {
            offset: position,
            before,
            beginning: Vec::new(),
            length: 0,
        });
        let room = KEPT - long.beginning.len();
        long.beginning
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        long.length += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(lines: &mut Lines, input: &mut Input) -> Vec<(u64, String, u64)> {
        let mut found = Vec::new();
        loop {
            let ended = lines.fill(input).unwrap() == Filled::End;
            while let Some(line) = lines.next() {
                let text = String::from_utf8(line.bytes.to_vec()).unwrap();
                found.push((line.offset, text, line.length));
            }
            if ended {
                return found;
            }
        }
    }

    #[test]
    fn lines_have_offsets_and_a_half_line_is_left() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"one\r\n\ntwo\nhal").unwrap();
        let (mut input, _) = Input::open(file.path()).unwrap();
        let mut lines = Lines::new(0, &[], Vec::new(), 1024);
        let found = read(&mut lines, &mut input);
        let one = |offset, text: &str| (offset, text.to_owned(), text.len() as u64);
        assert_eq!(found, [one(0, "one"), one(5, ""), one(6, "two")]);
        assert_eq!((lines.offset(), lines.half()), (10, 3));
        assert_eq!(lines.before(), b"one\r\n\ntwo\n");
        assert_eq!(lines.head(), lines.before());
        file.write_all(b"f\n").unwrap();
        assert_eq!(read(&mut lines, &mut input), [one(10, "half")]);
        assert_eq!(lines.head(), b"one\r\n\ntwo\nhalf\n");
    }

    #[test]
    fn long_lines_are_cut_and_what_precedes_an_offset_stays_right() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let long = "x".repeat(9 << 20);
        let text = format!("short\n{long}\nlast\n{long}");
        file.write_all(text.as_bytes()).unwrap();
        let (mut input, _) = Input::open(file.path()).unwrap();
        let mut lines = Lines::new(0, &[], Vec::new(), 1024);
        let found = read(&mut lines, &mut input);
        assert_eq!(found.len(), 3);
        assert_eq!(found[1], (6, "x".repeat(KEPT), 9 << 20));
        assert_eq!(found[2].1, "last");
        assert!(lines.buffer.capacity() < 4 * AHEAD);
        // The last line is not at its end: the offset is before it.
        let offset = lines.offset();
        assert_eq!(offset, text.len() as u64 - (9 << 20));
        let end = usize::try_from(offset).unwrap();
        assert_eq!(lines.before(), &text.as_bytes()[end - MARK..end]);
        assert_eq!(lines.head(), &text.as_bytes()[..MARK]);
        let (mut input, _) = Input::open(file.path()).unwrap();
        assert!(input.go_to(offset, lines.before()).unwrap());
        assert!(!input.go_to(offset - 1, lines.before()).unwrap());
    }
}
