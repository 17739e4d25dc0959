//! A source of lines and what is remembered of it. A file is recognised by its content, not by its name: by the first
//! bytes and by those before the offset, of what it holds when it is decompressed. So it is the same after it was
//! renamed, copied or compressed.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::format::Format;
use super::input::Input;
use super::lines::{Lines, MARK};
use crate::Result;
use crate::error::{Context, cannot_read, refuse};

const ATTEMPTS: usize = 10;

/// Device and inode, as SQLite stores them.
pub(super) type Identity = (i64, i64);

pub(super) fn identity(of: &Metadata) -> Identity {
    (of.dev().cast_signed(), of.ino().cast_signed())
}

/// A source that is read.
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// Of a file.
    pub(super) identity: Option<Identity>,
    /// Its row, once it has one.
    pub(super) id: Option<i64>,
    pub(super) input: Input,
    pub(super) lines: Lines,
    pub(super) format: Option<(String, Format)>,
    pub(super) header: Option<Vec<u8>>,
    /// What was read in this run: lines, those of them that were not parsed, and too long.
    pub(super) counted: [u64; 3],
    /// The offset in the database.
    pub(super) stored: u64,
}

struct Known {
    id: i64,
    path: PathBuf,
    format: Option<String>,
    header: Option<Vec<u8>>,
    identity: Identity,
    offset: u64,
    before: Vec<u8>,
}

impl Source {
    /// Opens a source where reading it ended last time, if the database knows it.
    pub(super) fn open(connection: &Connection, path: &Path, limit: usize) -> Result<Source> {
        if path.as_os_str() == "-" {
            return Ok(Source::new(
                path,
                None,
                Input::stream(path),
                Lines::new(0, &[], Vec::new(), limit),
            ));
        }
        let metadata = std::fs::metadata(path).with_context(|| cannot_read(path))?;
        let kind = metadata.file_type();
        if kind.is_fifo() {
            return Ok(Source::new(
                path,
                None,
                Input::stream(path),
                Lines::new(0, &[], Vec::new(), limit),
            ));
        }
        if !kind.is_file() {
            refuse!("{} is neither a file nor a pipe", path.display());
        }
        // A name may go to another file between two looks at it.
        for _ in 0..ATTEMPTS {
            if let Some(source) = Source::open_file(connection, path, limit)? {
                return Ok(source);
            }
        }
        refuse!("{} is another file at each look", path.display())
    }

    /// None if the name went to another file meanwhile.
    fn open_file(connection: &Connection, path: &Path, limit: usize) -> Result<Option<Source>> {
        let (mut input, metadata) = Input::open(path)?;
        let own = identity(&metadata);
        let head = input.head().with_context(|| cannot_read(path))?;
        for known in candidates(connection, &head)? {
            if known.is_another(path, own) {
                continue;
            }
            let (mut input, again) = Input::open(path)?;
            if identity(&again) != own {
                return Ok(None);
            }
            // Damage before the offset shows when it is read from the beginning.
            if input.go_to(known.offset, &known.before).unwrap_or(false) {
                let lines = Lines::new(known.offset, &known.before, head, limit);
                let mut source = Source::new(path, Some(own), input, lines);
                source.id = Some(known.id);
                source.stored = known.offset;
                source.header = known.header;
                if let Some(name) = known.format {
                    source.set_format(&name)?;
                }
                return Ok(Some(source));
            }
        }
        let (input, again) = Input::open(path)?;
        let lines = Lines::new(0, &[], Vec::new(), limit);
        let source = Source::new(path, Some(own), input, lines);
        Ok((identity(&again) == own).then_some(source))
    }

    fn new(path: &Path, identity: Option<Identity>, input: Input, lines: Lines) -> Source {
        Source {
            path: path.to_owned(),
            identity,
            id: None,
            input,
            lines,
            format: None,
            header: None,
            counted: [0; 3],
            stored: 0,
        }
    }

    /// Sets the format, with the header that is known.
    pub(super) fn set_format(&mut self, name: &str) -> Result<()> {
        let mut format = Format::new(name)?;
        if let Some(header) = &self.header {
            let _ = format.takes_header(header);
        }
        self.format = Some((name.to_owned(), format));
        Ok(())
    }

    /// Stores how far it was read, and so many more lines, and lines that were not parsed.
    pub(super) fn store(
        &self,
        connection: &Connection,
        id: i64,
        [lines, unparsed]: [u64; 2],
        now: &str,
    ) -> rusqlite::Result<()> {
        let (device, inode) = self.identity.unzip();
        let mut change = connection.prepare_cached(
            "update main.litepack_sources set path = ?2, format = ?3, header = ?4, device = ?5, inode = ?6, \
             head = ?7, offset = ?8, before = ?9, lines = lines + ?10, unparsed = unparsed + ?11, read_at = ?12 \
             where id = ?1",
        )?;
        change.execute(params![
            id,
            self.path.to_string_lossy(),
            self.format.as_ref().map(|(name, _)| name),
            self.header,
            device,
            inode,
            // A stream is never recognised.
            self.identity.map(|_| self.lines.head()),
            self.lines.offset().cast_signed(),
            self.lines.before(),
            lines.cast_signed(),
            unparsed.cast_signed(),
            now
        ])?;
        Ok(())
    }

    /// Whether the database says that it was read as far as we did.
    pub(super) fn is_current(
        connection: &Connection,
        id: i64,
        offset: u64,
    ) -> rusqlite::Result<bool> {
        let sql = "select coalesce(max(offset), -1) from main.litepack_sources where id = ?1";
        let mut statement = connection.prepare_cached(sql)?;
        let stored: i64 = statement.query_row([id], |row| row.get(0))?;
        Ok(u64::try_from(stored) == Ok(offset))
    }

    /// Whether the file still holds what was read of it last: it was not truncated or written anew.
    pub(super) fn is_unchanged(&mut self) -> bool {
        use std::os::unix::fs::FileExt;
        let Input::Plain(file) = &self.input else {
            return true;
        };
        let before = self.lines.before();
        let mut found = vec![0; before.len()];
        let Some(first) = self.lines.offset().checked_sub(before.len() as u64) else {
            return true;
        };
        let long = self.lines.half() > self.lines.pending().len() as u64;
        let read = self.lines.offset() + self.lines.half();
        file.metadata().is_ok_and(|now| now.len() >= read)
            && (long || (file.read_exact_at(&mut found, first).is_ok() && found == before))
    }
}

fn candidates(connection: &Connection, head: &[u8]) -> Result<Vec<Known>> {
    let find = || -> rusqlite::Result<Vec<Known>> {
        let mut statement = connection.prepare(
            "select id, path, format, header, device, inode, offset, before from main.litepack_sources \
             where length(head) between 1 and ?2 and offset >= 0 and head = substr(?1, 1, length(head)) \
             order by length(head) desc, offset desc",
        )?;
        let rows = statement.query_map(
            params![head, i64::try_from(head.len()).unwrap_or(i64::MAX)],
            |row| {
                Ok(Known {
                    id: row.get(0)?,
                    path: PathBuf::from(row.get::<_, String>(1)?),
                    format: row.get(2)?,
                    header: row.get(3)?,
                    identity: (row.get(4)?, row.get(5)?),
                    offset: row.get::<_, i64>(6)?.cast_unsigned(),
                    before: row.get(7)?,
                })
            },
        )?;
        rows.collect()
    };
    find().context("cannot read litepack_sources")
}

impl Known {
    /// Files of which little was read may begin alike. One whose file is still there, as it was, is another one.
    fn is_another(&self, path: &Path, own: Identity) -> bool {
        if self.offset >= MARK as u64 || own == self.identity || self.path == path {
            return false;
        }
        let there =
            std::fs::metadata(&self.path).is_ok_and(|there| identity(&there) == self.identity);
        there
            && Input::open(&self.path)
                .and_then(|(mut input, _)| input.go_to(self.offset, &self.before))
                .unwrap_or(false)
    }
}
