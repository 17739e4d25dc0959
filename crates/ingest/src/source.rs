//! A source of lines and what is remembered of it. A file is recognised by its content, not by its name: by the first
//! bytes and by those before the offset, of what it holds when it is decompressed. So it is the same after it was
//! renamed, copied or compressed.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use litepack_database::Result;
use litepack_database::error::{Context, cannot_read, refuse};
use rusqlite::{Connection, params};

use super::compressed;
use super::format::Format;
use super::input::Input;
use super::lines::{Lines, MARK};

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
    /// The state that the format kept.
    header: Option<Vec<u8>>,
    /// A doubt about the choice of the format, for the user.
    pub(super) doubt: Option<String>,
    /// How many lines of the sample fit, of how many.
    pub(super) fits: Option<[usize; 2]>,
    /// Counts of this run: lines, those not parsed, those too long, and the rows made of them.
    pub(super) counted: [u64; 4],
    /// The offset in the database.
    pub(super) stored: u64,
    /// The last row there was when the database did not know it.
    seen: i64,
}

struct KnownSource {
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
        let stream = || {
            let lines = Lines::new(0, &[], Vec::new(), limit);
            Source::new(path, None, Input::stream(path), lines)
        };
        if path.as_os_str() == "-" {
            return Ok(stream());
        }
        let metadata = std::fs::metadata(path).with_context(|| cannot_read(path))?;
        let kind = metadata.file_type();
        if kind.is_fifo() {
            return Ok(stream());
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
        if let Some(what) = compressed::refused(&head) {
            refuse!("{} is {what}", path.display());
        }
        // Before the look at what is known: a row that comes later is found by its number.
        let sql = "select coalesce(max(id), 0) from main.litepack_sources";
        let seen = connection
            .query_row(sql, [], |row| row.get(0))
            .context("cannot read litepack_sources")?;
        for known in candidates(connection, &head)? {
            if known.is_another(own) {
                continue;
            }
            let (mut input, again) = Input::open(path)?;
            if identity(&again) != own {
                return Ok(None);
            }
            let same = match input.go_to(known.offset, &known.before) {
                // A compressed copy that is still being written, or is damaged: read anew, its lines would be stored
                // twice.
                Err(error) if known.offset >= MARK as u64 => return Err(error),
                same => same.unwrap_or(false),
            };
            if !same && known.has_begun(&input, &again, own) {
                refuse!(
                    "{} is a copy of {} that is not finished; a later run reads it",
                    path.display(),
                    litepack_database::printable(&known.path.to_string_lossy())
                );
            }
            if same {
                if own == known.identity {
                    rename(connection, known.id, &known.path, path);
                }
                let lines = Lines::new(known.offset, &known.before, head, limit);
                let mut source = Source::new(path, Some(own), input, lines);
                source.id = Some(known.id);
                source.stored = known.offset;
                source.header = known.header;
                if let Some(name) = known.format {
                    source.set_format(&name, false)?;
                }
                return Ok(Some(source));
            }
        }
        let (input, again) = Input::open(path)?;
        let lines = Lines::new(0, &[], Vec::new(), limit);
        let mut source = Source::new(path, Some(own), input, lines);
        source.seen = seen;
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
            doubt: None,
            fits: None,
            counted: [0; 4],
            stored: 0,
            seen: 0,
        }
    }

    /// Sets the format, which the user has named or not, with what is known of it.
    pub(super) fn set_format(&mut self, name: &str, named: bool) -> Result<()> {
        let mut format = match named {
            true => Format::named(name)?,
            false => Format::new(name)?,
        };
        if let Some(header) = &self.header {
            format.restore(header);
        }
        self.format = Some((name.to_owned(), format));
        Ok(())
    }

    /// Whether there is a line to store. With `complete` the last one needs no end.
    pub(super) fn has_more(&mut self, complete: bool) -> bool {
        let keeps = self
            .format
            .as_ref()
            .is_some_and(|(_, format)| format.waiting() > 0);
        self.lines.has_line() || complete && (self.lines.half() > 0 || keeps)
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
            absolute(&self.path).to_string_lossy(),
            self.format.as_ref().map(|(name, _)| name),
            self.format.as_ref().and_then(|(_, format)| format.state()),
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

    /// Whether the database has got a row of this source since it was opened without one.
    pub(super) fn is_taken(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let Some((device, inode)) = self.identity else {
            return Ok(false);
        };
        let mut statement = connection.prepare_cached(
            "select exists (select 1 from main.litepack_sources where id > ?1 and \
             ((device = ?2 and inode = ?3) or (length(head) = ?4 and head = ?5)))",
        )?;
        let full = i64::try_from(MARK).unwrap_or(i64::MAX);
        let head = self.lines.begins_with();
        statement.query_row(params![self.seen, device, inode, full, head], |row| {
            row.get(0)
        })
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

fn candidates(connection: &Connection, head: &[u8]) -> Result<Vec<KnownSource>> {
    let find = || -> rusqlite::Result<Vec<KnownSource>> {
        let mut statement = connection.prepare(
            "select id, path, format, header, device, inode, offset, before from main.litepack_sources \
             where length(head) between 1 and ?2 and offset >= 0 and head = substr(?1, 1, length(head)) \
             order by length(head) desc, offset desc",
        )?;
        let rows = statement.query_map(
            params![head, i64::try_from(head.len()).unwrap_or(i64::MAX)],
            |row| {
                Ok(KnownSource {
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

/// A path that means the same in every directory.
pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Notes the new name of a file. It only helps to find the file, so a database that is busy is no error.
pub(super) fn rename(connection: &Connection, id: i64, old: &Path, new: &Path) {
    let new = absolute(new);
    if old != new {
        let sql = "update main.litepack_sources set path = ?2 where id = ?1";
        let _ = connection.execute(sql, params![id, new.to_string_lossy()]);
    }
}

/// The files that rotation makes of a path: `PATH.*` and `PATH-*` beside it.
pub(super) fn rotated(path: &Path) -> Vec<PathBuf> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let (Some(name), Ok(entries)) = (
        path.file_name().and_then(|name| name.to_str()),
        std::fs::read_dir(folder.unwrap_or(Path::new("."))),
    ) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let rotated = names.filter(|other| {
        let rest = other.to_str().and_then(|other| other.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(['.', '-']))
    });
    let place = |name: std::ffi::OsString| match folder {
        Some(folder) => folder.join(name),
        None => name.into(),
    };
    rotated.map(place).collect()
}

/// The file that has this inode, under its name or as rotation renames it.
fn find(path: &Path, wanted: Identity) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && identity(&found) == wanted)
    };
    let own = Some(path.to_owned()).filter(is_it);
    own.or_else(|| rotated(path).into_iter().find(is_it))
}

impl KnownSource {
    /// Files of which little was read may begin alike. One whose file is still there, as it was, is another one.
    fn is_another(&self, own: Identity) -> bool {
        if self.offset >= MARK as u64 || own == self.identity {
            return false;
        }
        find(&self.path, self.identity).is_some_and(|there| {
            Input::open(&there)
                .and_then(|(mut input, _)| input.go_to(self.offset, &self.before))
                .unwrap_or(false)
        })
    }

    /// Whether a plain file that is shorter than what was read is the beginning of a copy of this one.
    fn has_begun(&self, copy: &Input, metadata: &Metadata, own: Identity) -> bool {
        use std::os::unix::fs::FileExt;
        let (Input::Plain(copy), len) = (copy, metadata.len()) else {
            return false;
        };
        if own == self.identity || len >= self.offset {
            return false;
        }
        let there = find(&self.path, self.identity).and_then(|there| Input::open(&there).ok());
        let Some((Input::Plain(original), _)) = there else {
            return false;
        };
        let first = len.saturating_sub(MARK as u64);
        let mut ends = [const { [0; MARK] }; 2];
        let count = usize::try_from(len - first).unwrap_or(MARK);
        let [a, b] = &mut ends;
        copy.read_exact_at(&mut a[..count], first).is_ok()
            && original.read_exact_at(&mut b[..count], first).is_ok()
            && a == b
    }
}
