//! Archives: databases in zstd's seekable format. [`crate::open`] reads them in place, any zstd decompresses them, and
//! docs/archive.md describes them.

mod report;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use litepack_archive::{Archive, Error as ArchiveError, Settings};
use litepack_btree::HEADER_LEN;
use litepack_cipher::Key;
use litepack_database::bytes::archive::open_with;
use litepack_database::bytes::header;
use litepack_database::bytes::reader;
use litepack_database::bytes::unlocked::of_archive;
use litepack_database::error::{Context, cannot_read, cannot_write, refuse};
use litepack_database::files::content::{CHUNK, DatabaseBytes};
use litepack_database::files::held::Held;
use litepack_database::files::replacement::Replacement;
use litepack_database::files::rights::Rights;
use litepack_database::files::source::{Source, open_file};
use litepack_database::names::is_same_file;
use litepack_engine::FileKind;
use litepack_io::storage::ReadAt;

use crate::{Error, Job, Result, Sizes, register};

pub use report::{CheckReport, Info, check, info, info_with_key};

pub use litepack_archive::{DEFAULT_FRAME_SIZE, DEFAULT_LEVEL, FRAME_SIZES, LEVELS};

/// Options of [`create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// zstd level, from 1 (fast) to 22 (small). The read speed does not depend on it.
    pub level: i32,
    /// Bytes of the database in a frame, rounded up to whole pages. A read decompresses at least one frame: larger
    /// frames make the archive smaller and reads of single rows slower.
    pub frame_size: u32,
    /// Replace the archive if it exists.
    pub replace: bool,
    /// Encrypt the archive with the key of the job. If the database is encrypted, that is its key, too.
    pub encrypt: bool,
}

impl Default for CreateOptions {
    fn default() -> Self {
        CreateOptions {
            level: DEFAULT_LEVEL,
            frame_size: DEFAULT_FRAME_SIZE,
            replace: false,
            encrypt: false,
        }
    }
}

/// Options of [`extract`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Replace the database if it exists.
    pub replace: bool,
}

/// Creates an archive from a plain database or a packed file, as it is committed when this begins. Others may go on
/// reading it, and in WAL mode writing. The archive holds the bytes of the database after a checkpoint, and is compared with them before it gets its name.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let (logs, archived) = (place.path().join("logs.db"), place.path().join("logs.db.zst"));
/// # rusqlite::Connection::open(&logs)?.execute_batch("create table t(x); insert into t values (1)")?;
/// use litepack::{Job, archive};
///
/// archive::create(&logs, &archived, &archive::CreateOptions::default(), &Job::default())?;
/// let rows: u32 = litepack::open(&archived)?.query_row("select count(*) from t", [], |row| row.get(0))?;
/// assert_eq!(rows, 1);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the database is in use or malformed in its length, the archive exists, or reading or writing fails. Then
/// everything is as it was before.
pub fn create(
    database: impl AsRef<Path>,
    archive: impl AsRef<Path>,
    options: &CreateOptions,
    job: &Job<'_>,
) -> Result<Sizes> {
    let shown = archive.as_ref();
    let mut settings = options.settings()?;
    if options.encrypt {
        let Some(key) = job.key() else {
            refuse!("there is no key to encrypt the archive with");
        };
        settings.key = Some(Arc::clone(key));
    }
    register()?;
    let mut source = Source::open(database.as_ref(), false)?;
    source.expect_database()?;
    let is_for_source = !options.encrypt || source.is_encrypted();
    source.unlock(job.key().filter(|_| is_for_source))?;
    if is_same_file(shown, source.path()) {
        let name = shown.display();
        refuse!("{name} is the database itself; give the archive another name");
    }
    let target = Replacement::of(shown, source.path(), options.replace, job)?;
    source.hold(job)?;
    source.expect_whole()?;
    let like = source.rights()?;
    let mut content = DatabaseBytes::of(&source)?;
    let name = source.shown().display().to_string();
    let warning = litepack_engine::warning(&name, content.size(), |at, buf| {
        Ok::<_, Error>(content.read_at(buf, at)? == buf.len())
    })?;
    if let Some(warning) = warning {
        job.warn(&warning);
    }
    let mut output = BufWriter::with_capacity(CHUNK, target.file());
    // As dictionaries are not, in `pack`, and with windows of whole frames.
    let encoding = 2.5 * 1.25_f64.powi(options.level);
    job.shares(&[
        ("archiving", encoding),
        ("verifying", 1.0),
        ("syncing", 0.3),
    ]);
    let step = job.bytes("archiving", content.size());
    let written = write(&mut content, &mut output, &settings, job, &mut |done| {
        step.set(done);
    });
    let stored = written.with_context(|| format!("cannot write {}", shown.display()))?;
    drop((step, output));
    let cannot = || cannot_read(shown);
    let key = settings.key.as_deref();
    let mut archive = open_with(target.file(), key).with_context(cannot)?;
    compare(&mut archive, &mut content, job)?;
    drop(archive);
    job.check()?;
    target.publish(&like, job)?;
    Ok(Sizes {
        before: content.size(),
        after: stored,
    })
}

impl CreateOptions {
    pub(crate) fn settings(&self) -> Result<Settings> {
        if !LEVELS.contains(&self.level) {
            refuse!(
                "the level is not between {} and {}",
                LEVELS.start(),
                LEVELS.end()
            );
        }
        if !FRAME_SIZES.contains(&self.frame_size) {
            let (min, max) = (FRAME_SIZES.start(), FRAME_SIZES.end());
            refuse!("the frame size is not between {min} and {max}");
        }
        Ok(Settings {
            frame_size: self.frame_size,
            level: self.level,
            threads: reader::threads(),
            key: None,
        })
    }
}

/// Writes an archive of these bytes, and says how long it is.
pub(crate) fn write(
    content: &mut DatabaseBytes<'_>,
    output: &mut impl Write,
    settings: &Settings,
    job: &Job<'_>,
    done: &mut dyn FnMut(u64),
) -> std::result::Result<u64, ArchiveError> {
    let mut go_on = |bytes| {
        done(bytes);
        go_on(job)
    };
    let created = litepack_archive::create(&mut content.reader(), output, settings, &mut go_on)?;
    Ok(created.stored)
}

fn go_on(job: &Job<'_>) -> ControlFlow<()> {
    match job.check() {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// Extracts the plain SQLite database from an archive, as `zstd -d` does.
///
/// # Errors
/// If the file is not an archive or is damaged, the database exists, or writing fails. Then everything is as it was
/// before.
pub fn extract(
    archive: impl AsRef<Path>,
    database: impl AsRef<Path>,
    options: &ExtractOptions,
    job: &Job<'_>,
) -> Result<Sizes> {
    let (shown, to) = (archive.as_ref(), database.as_ref());
    let file = file(shown)?;
    let like = Rights::of(&file).with_context(|| cannot_read(shown))?;
    let before = ReadAt::len(&file).with_context(|| cannot_read(shown))?;
    let mut archive = opened(&file, shown, job.key())?;
    if is_same_file(to, shown) {
        let name = to.display();
        refuse!("{name} is the archive itself; give the database another name");
    }
    let mut head = [0; HEADER_LEN];
    let found = archive.read_at(0, &mut head);
    let found = found.with_context(|| cannot_read(shown))?;
    let possible = litepack_engine::expect_database_len(&head[..found], archive.size());
    possible.map_err(|why| Error::Refused(format!("{}: {why}", shown.display())))?;
    let target = Replacement::of(to, shown, options.replace, job)?;
    let mut output = BufWriter::with_capacity(CHUNK, target.file());
    copy(&mut archive, (&mut output, to), job)
        .with_context(|| format!("cannot extract {}", shown.display()))?;
    drop(output);
    let mut content = DatabaseBytes::plain(target.file(), to)?;
    compare(&mut archive, &mut content, job)?;
    job.check()?;
    target.publish(&like, job)?;
    Ok(Sizes {
        before,
        after: archive.size(),
    })
}

fn copy(
    archive: &mut Archive<impl ReadAt>,
    (output, name): (&mut impl Write, &Path),
    job: &Job<'_>,
) -> Result<()> {
    job.shares(&[("extracting", 1.5), ("verifying", 1.0), ("syncing", 1.0)]);
    let step = job.bytes("extracting", archive.size());
    let cannot = || cannot_write(name);
    let mut buf = vec![0; CHUNK];
    let mut offset = 0;
    while offset < archive.size() {
        job.check()?;
        let n = archive.read_at(offset, &mut buf).context(CANNOT_READ)?;
        output.write_all(&buf[..n]).with_context(cannot)?;
        offset += n as u64;
        step.add(n as u64);
    }
    output.flush().with_context(cannot)
}

const CANNOT_READ: &str = "cannot read the archive";

/// Opens an archive, with the key of an encrypted one.
pub(super) fn opened<'f>(
    file: &'f File,
    shown: &Path,
    key: Option<&Arc<Key>>,
) -> Result<Archive<&'f File>> {
    let opened = open_with(file, key.map(|key| &**key));
    opened.map_err(|error| of_archive(error, shown))
}

/// Opens a file that has to be an archive.
fn file(shown: &Path) -> Result<Held> {
    let name = shown.display();
    let (file, _) = open_file(shown, false)?;
    let cannot = || cannot_read(shown);
    let found = header::kind(&file).with_context(cannot)?;
    let why = match found {
        FileKind::Zstd => return Ok(file),
        FileKind::Empty => format!("{name} is not an archive: it is empty"),
        FileKind::Plain => format!(
            "{name} is not an archive but a plain SQLite database; \
             `litepack archive create` makes one of it"
        ),
        FileKind::Packed => format!(
            "{name} is not an archive but a packed file; \
             use `litepack info`, `check` or `unpack`, or make it one by `litepack archive create`"
        ),
        FileKind::Other => format!("{name} is not an archive"),
    };
    Err(Error::WrongKind {
        path: shown.to_owned(),
        found,
        why,
    })
}

/// Makes sure that an archive holds exactly these bytes.
fn compare(
    archive: &mut Archive<impl ReadAt>,
    content: &mut DatabaseBytes<'_>,
    job: &Job<'_>,
) -> Result<()> {
    let (size, len) = (archive.size(), content.size());
    if size != len {
        let why = format!("{size} bytes are archived, the database has {len}");
        return Err(Error::Mismatch(why));
    }
    let step = job.bytes("verifying", len);
    let mut offset = 0;
    let (mut found, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    while offset < len {
        job.check()?;
        let n = content.read_at(&mut expected, offset)?;
        let read = archive.read_at(offset, &mut found).context(CANNOT_READ)?;
        if read != n || found[..n] != expected[..n] || n == 0 {
            let why = format!("the files differ near byte {offset}");
            return Err(Error::Mismatch(why));
        }
        offset += n as u64;
        step.add(n as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_of_anything_else_is_noticed() {
        let archived = b"the bytes of a database ".repeat(100_000);
        let mut made = Vec::new();
        let go_on = &mut |_| ControlFlow::Continue(());
        let settings = Settings::default();
        litepack_archive::create(&mut archived.as_slice(), &mut made, &settings, go_on).unwrap();
        let compared = |bytes: &[u8]| {
            let mut plain = tempfile::tempfile().unwrap();
            plain.write_all(bytes).unwrap();
            let mut content = DatabaseBytes::plain(&plain, Path::new("plain.db")).unwrap();
            compare(
                &mut open_with(made.as_slice(), None).unwrap(),
                &mut content,
                &Job::default(),
            )
        };
        compared(&archived).unwrap();
        let mut other = archived.clone();
        other[2_000_000] ^= 1;
        let near = compared(&other).unwrap_err().to_string();
        assert!(near.contains("near byte 1048576"), "{near}");
        assert!(compared(&archived[1..]).is_err());
        assert!(compared(&[&archived[..], b"x"].concat()).is_err());
    }
}
