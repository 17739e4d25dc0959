//! Lines of a source: cut out of what is read, with the offset of each. Memory is bounded: a line that is too long is
//! counted, and only its beginning kept. Bytes that are zero are no part of a line where many stand together: a writer
//! goes on behind such a hole after its file was truncated (`copytruncate`), and a power loss leaves one. A hole at the
//! end of a source is not passed: some writers make room that they fill later.

use litepack_database::Result;

use super::input::{Filled, Input};

/// Bytes kept of the beginning of a source, and of the part before the offset, to recognise it by.
pub(super) const MARK: usize = 1024;
/// So much of a line that is too long is kept.
const KEPT: usize = 4096;
/// So much is read ahead.
const AHEAD: usize = 4 << 20;
const CHUNK: usize = 256 << 10;
/// As many zeros within a line are a hole. Fewer may be in the text of a client, also as UTF-32 has them.
const HOLE: usize = 4;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line without its end.
pub(super) struct Line<'a> {
    /// Where it begins in the decompressed source, in bytes.
    pub(super) offset: u64,
    /// As it is parsed.
    pub(super) bytes: &'a [u8],
    /// With what [`bare`] takes from its beginning.
    pub(super) raw: &'a [u8],
    /// Its length, which is more than there is of it if it was cut.
    pub(super) length: u64,
}

impl Line<'_> {
    pub(super) fn is_cut(&self) -> bool {
        self.length > self.raw.len() as u64
    }
}

/// A line that is too long, while it is read.
struct Long {
    offset: u64,
    /// The bytes before it.
    before: Vec<u8>,
    beginning: Vec<u8>,
    length: u64,
    /// There are zeros alone.
    is_hole: bool,
}

/// A line as it is parsed: without zeros and the byte order mark before it, and the carriage return behind it.
pub(super) fn bare(line: &[u8]) -> &[u8] {
    let hole = line.iter().take_while(|b| **b == 0).count();
    let line = line.get(hole..).unwrap_or_default();
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Where many zeros begin within a line, and how many.
fn hole(line: &[u8]) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(at) = memchr::memchr(0, line.get(from..)?) {
        let at = from + at;
        let zeros = line.get(at..)?.iter().take_while(|b| **b == 0).count();
        if zeros >= HOLE {
            return Some((at, zeros));
        }
        from = at + zeros;
    }
    None
}

/// The lines of what is between two newlines: holes end them, too.
pub(super) fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (piece, after) = match hole(text) {
            Some((at, zeros)) => (text.get(..at), text.get(at + zeros..)),
            None => (Some(text), None),
        };
        rest = after;
        piece.map(bare)
    })
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

    /// The bytes read and not handed out.
    pub(super) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// How much of a half line was read.
    pub(super) fn half(&self) -> u64 {
        let long = self.long.as_ref().map_or(0, |long| long.length);
        long + self.pending().len() as u64
    }

    /// How much was read behind the last end of a line.
    pub(super) fn unfinished(&self) -> u64 {
        let pending = self.pending();
        let end = memchr::memrchr(b'\n', pending).map(|end| end + 1);
        match end {
            Some(end) => (pending.len() - end) as u64,
            None => self.half(),
        }
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

    /// Forgets zeros at the end of a file that was read to its end: they may be filled before it grows.
    pub(super) fn give_back(&mut self, input: &mut Input) {
        let pending = self.pending();
        let zeros = pending.iter().rev().take_while(|b| **b == 0).count();
        let kept = self.position + (pending.len() - zeros) as u64;
        if zeros == 0 || !input.go_back(zeros) {
            return;
        }
        self.buffer.truncate(self.buffer.len() - zeros);
        self.scanned = self.scanned.min(self.buffer.len());
        self.head
            .truncate(usize::try_from(kept).unwrap_or(usize::MAX));
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
        let line = self.buffer.get(self.start..end).unwrap_or_default();
        let (end, next) = match hole(line).filter(|_| self.long.is_none()) {
            Some((at, zeros)) => (self.start + at, self.start + at + zeros),
            None => (end, end + 1),
        };
        Some(self.take(end, next))
    }

    /// Passes zeros before a line, as soon as that begins.
    pub(super) fn skip_hole(&mut self) {
        let in_hole = self.long.as_ref().is_some_and(|long| long.is_hole);
        if self.long.is_some() && !in_hole {
            return;
        }
        let zeros = self.pending().iter().take_while(|b| **b == 0).count();
        if zeros < self.pending().len() {
            if zeros >= HOLE || in_hole {
                self.start += zeros;
                self.position += zeros as u64;
                self.scanned = self.scanned.max(self.start);
                self.long = None;
            }
        } else if zeros > self.limit || in_hole {
            self.swallow();
        }
    }

    fn line_end(&mut self) -> Option<usize> {
        self.skip_hole();
        let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
        if found.is_none() {
            self.scanned = self.buffer.len();
            let in_hole = self.long.as_ref().is_some_and(|long| long.is_hole);
            if !in_hole && (self.long.is_some() || self.pending().len() > self.limit) {
                // A hole ends a line; the next one is not lost with it.
                let cut = hole(self.pending()).filter(|(at, _)| *at > 0 && self.long.is_none());
                if let Some((at, _)) = cut {
                    return Some(self.start + at);
                }
                self.swallow();
            }
        }
        found.map(|at| self.scanned + at)
    }

    /// The last line, which has no end.
    pub(super) fn rest(&mut self) -> Option<Line<'_>> {
        self.skip_hole();
        let end = self.buffer.len();
        let is_hole = self.pending().iter().all(|b| *b == 0);
        if self.long.as_ref().map_or(is_hole, |long| long.is_hole) {
            self.long = None;
            self.position += self.pending().len() as u64;
            self.start = end;
            self.scanned = end;
            return None;
        }
        Some(self.take(end, end))
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
                raw: &self.beginning,
                length: long.length,
            };
        }
        let raw = &self.buffer[start..end];
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        Line {
            offset: position,
            bytes: bare(raw),
            raw,
            length: raw.len() as u64,
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
            is_hole: bytes.iter().all(|b| *b == 0),
        });
        if long.is_hole {
            long.length += bytes.len() as u64;
            return;
        }
        let room = KEPT - long.beginning.len();
        long.beginning
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        long.length += bytes.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

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
    fn holes_are_no_lines() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let hole = |size: usize| vec![0; size];
        let parts: [&[u8]; 9] = [
            b"\xef\xbb\xbfone\n",
            &hole(3),
            b"two\nhalf",
            &hole(3 << 20),
            b"three\n",
            &hole(9 << 20),
            b"four\nfi",
            b"\0ve\n",
            &hole(2 << 20),
        ];
        for part in parts {
            file.write_all(part).unwrap();
        }
        let (mut input, _) = Input::open(file.path()).unwrap();
        let mut lines = Lines::new(0, &[], Vec::new(), 4 << 20);
        let texts = |found: Vec<(u64, String, u64)>| {
            found
                .into_iter()
                .map(|(offset, text, _)| (offset, text))
                .collect::<Vec<_>>()
        };
        let of = |at: usize, text: &str| (at as u64, text.to_owned());
        let mib = 1 << 20;
        let found = texts(read(&mut lines, &mut input));
        let third = 7 + 3 + 8 + 3 * mib;
        let fourth = third + 6 + 9 * mib;
        assert_eq!(
            found,
            [
                of(0, "one"),
                of(7, "two"),
                of(7 + 3 + 4, "half"),
                of(third, "three"),
                of(fourth, "four"),
                of(fourth + 5, "fi\0ve"),
            ]
        );
        // The hole at the end may still be filled.
        assert_eq!(lines.offset(), (fourth + 5 + 6) as u64);
        assert_eq!(lines.half(), 2 * mib as u64);
        file.write_all(b"six\n").unwrap();
        let found = texts(read(&mut lines, &mut input));
        assert_eq!(found, [of(fourth + 11 + 2 * mib, "six")]);
        // A hole that is longer than lines may be takes no memory, and is passed when something follows.
        file.write_all(&hole(20 << 20)).unwrap();
        let before = lines.offset();
        assert_eq!(read(&mut lines, &mut input), []);
        assert!(lines.buffer.capacity() < 4 * AHEAD);
        assert_eq!((lines.offset(), lines.half()), (before, 20 << 20));
        file.write_all(b"seven\nend").unwrap();
        let found = texts(read(&mut lines, &mut input));
        assert_eq!(found, [(before + (20 << 20), "seven".to_owned())]);
        assert_eq!(lines.rest().unwrap().bytes, b"end");
        assert!(lines.rest().is_none());
        // Room that is filled while the file is followed.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[b"one\n", &hole(100)[..]].concat())
            .unwrap();
        let (mut input, _) = Input::open(file.path()).unwrap();
        let mut lines = Lines::new(0, &[], Vec::new(), 4096);
        assert_eq!(texts(read(&mut lines, &mut input)), [of(0, "one")]);
        lines.give_back(&mut input);
        assert_eq!((lines.half(), lines.begins_with()), (0, &b"one\n"[..]));
        file.seek(SeekFrom::Start(4)).unwrap();
        file.write_all(b"two\nthr").unwrap();
        assert_eq!(texts(read(&mut lines, &mut input)), [of(4, "two")]);
        lines.give_back(&mut input);
        file.write_all(b"ee\n").unwrap();
        assert_eq!(texts(read(&mut lines, &mut input)), [of(8, "three")]);
        assert_eq!(lines.head(), b"one\ntwo\nthree\n");
        // Nor is the line behind a hole that is longer than what is read ahead lost, where half a line is before it.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for part in [
            &b"ha"[..],
            &hole(9 << 20),
            b"one\ntw\0\0\0o\n",
            &hole(4),
            b"three\nhalf",
        ] {
            file.write_all(part).unwrap();
        }
        let (mut input, _) = Input::open(file.path()).unwrap();
        let mut lines = Lines::new(0, &[], Vec::new(), 4096);
        let found = texts(read(&mut lines, &mut input));
        let first = 2 + (9 << 20);
        let rest = [
            (first, "one"),
            (first + 4, "tw\0\0\0o"),
            (first + 15, "three"),
        ];
        assert_eq!(found[0], of(0, "ha"));
        assert_eq!(found[1..], rest.map(|(at, text)| of(at, text)));
        assert!(lines.buffer.capacity() < 4 * AHEAD);
        assert_eq!((lines.half(), lines.unfinished()), (4, 4));
        // A zero before a line that is too long is no hole.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\0").unwrap();
        file.write_all(&vec![b'x'; 20 << 20]).unwrap();
        let (mut input, _) = Input::open(file.path()).unwrap();
        let mut lines = Lines::new(0, &[], Vec::new(), 4096);
        assert_eq!(read(&mut lines, &mut input), []);
        assert!(lines.buffer.capacity() < 4 * AHEAD);
        assert_eq!(lines.rest().unwrap().length, (20 << 20) + 1);
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
