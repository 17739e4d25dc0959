//! Another key for a packed file, and encryption or decryption of one that is there.
//!
//! Another key for an encrypted file is a write of its key blocks, whatever its size: the data key in them stays. All
//! else makes a new file, which takes the old one's place as a packed one takes a plain one's: it is compared with the
//! old one, byte by byte, and durable before it has the name.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use litepack_cipher::Key;
use litepack_database::bytes::reader;
use litepack_database::bytes::snapshot::Bytes;
use litepack_database::bytes::unlocked::Unlocked;
use litepack_database::error::{Context, cannot_read, cannot_write, replaced};
use litepack_database::files::content::DatabaseBytes;
use litepack_database::files::not_applied;
use litepack_database::files::replacement::Replacement;
use litepack_database::files::source::Source;
use litepack_database::names::identity::has_name;
use litepack_engine::FileKind;
use litepack_engine::plan::Effort;
use litepack_io::storage::ReadAt;

use crate::database::Database;
use crate::pack::fill;
use crate::{Error, Job, PackOptions, Result, Sizes, register};

/// Options of [`rekey`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RekeyOptions {
    /// Encrypt all content anew with another data key. Otherwise who has the former key and an older copy of the file can
    /// read the newer file, too. A new key that says a padding changes that as well.
    pub new_data_key: bool,
    /// How a file that is made anew is packed.
    pub pack: PackOptions,
}

/// Gives a packed file another key. The former one is that of the job; without one the file is not encrypted yet, and is
/// encrypted now. Without a `new_key` it is decrypted.
///
/// To give an encrypted file another key takes no time, and others may go on reading and writing it. All else makes the
/// file anew, and no other program may have it open. Backups, and what was in the blocks of the disk before, stay as they
/// are.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let (app, packed) = (place.path().join("app.db"), place.path().join("packed.db"));
/// # rusqlite::Connection::open(&app)?.execute_batch("create table t(x); insert into t values (1)")?;
/// # litepack::pack(&app, &packed, &litepack::PackOptions::default(), &litepack::Job::default())?;
/// use std::sync::Arc;
/// use litepack::{Job, Key, RekeyOptions};
///
/// let key = Arc::new(Key::passphrase(b"correct horse battery staple")?);
/// litepack::rekey(&packed, Some(&key), &RekeyOptions::default(), &Job::default())?;
/// assert!(litepack::check(&packed, &Job::default()).is_err());
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the file is not a packed file, the former key is missing or wrong, others have the file in use, or reading or
/// writing fails. Then the file opens with the former key; where writing key blocks failed perhaps with the new one, or
/// with both.
pub fn rekey(
    file: impl AsRef<Path>,
    new_key: Option<&Arc<Key>>,
    options: &RekeyOptions,
    job: &Job<'_>,
) -> Result<Sizes> {
    let (file, effort) = (file.as_ref(), options.pack.effort()?);
    register()?;
    match (job.key(), new_key) {
        (None, None) => {
            let mut source = Source::open(file, false)?;
            source.expect_packed()?;
            source.unlock(None)?;
            Err(Error::NotEncrypted {
                path: file.to_owned(),
            })
        }
        (Some(_), Some(new_key)) if !options.new_data_key => replace_key(file, new_key, job),
        _ => make_anew(file, new_key, effort, job),
    }
}

/// Has the key blocks of an encrypted file open with another key.
fn replace_key(file: &Path, new_key: &Arc<Key>, job: &Job<'_>) -> Result<Sizes> {
    let database = Database::open_packed(file, job)?;
    // Of two that change the key at once, each might overwrite the place that the other one keeps.
    database.run("begin immediate")?;
    let source = database.source();
    if !has_name(source.file(), source.path()) {
        return Err(replaced(file));
    }
    let len = database.len()?;
    job.check()?;
    let options = reader::options(source.unlocked());
    let store = reader::open(source.file(), &options).with_context(|| cannot_read(file));
    let cannot = || {
        let name = file.display();
        format!("cannot write {name}, which opens with the former key, the new one, or both")
    };
    store?.rekey(Arc::clone(new_key)).with_context(cannot)?;
    litepack_store::try_key(source.file(), new_key).with_context(cannot)?;
    database.run("rollback")?;
    Ok(Sizes {
        before: len,
        after: len,
    })
}

/// Puts a file with the same content, encrypted with another data key or not at all, in the place of this one.
fn make_anew(
    file: &Path,
    new_key: Option<&Arc<Key>>,
    effort: Effort,
    job: &Job<'_>,
) -> Result<Sizes> {
    let mut source = Source::open(file, true)?;
    source.expect_packed()?;
    source.unlock(job.key())?;
    let new_key = new_key
        .map(|key| as_before(key, &source, file))
        .transpose()?;
    let new_key = new_key.as_ref();
    source.hold_alone(job)?;
    // They are as the file was.
    not_applied::tell(source.opened(), job);
    let target = Replacement::in_place(&source)?;
    let like = source.metadata()?;
    source.warn_of_links(&like, job);
    let (new, name) = (target.file(), target.name());
    fill(
        DatabaseBytes::of(&source)?,
        (new, name),
        effort,
        new_key,
        job,
    )?;
    expect_same(&source, &target, new_key, job)?;
    job.check()?;
    let sizes = Sizes {
        before: like.len(),
        after: ReadAt::len(new).with_context(|| cannot_write(name))?,
    };
    target.publish_over(source, job)?;
    Ok(sizes)
}

/// The new key, with the padding that the file has if it does not say another.
fn as_before(new_key: &Arc<Key>, source: &Source, file: &Path) -> Result<Arc<Key>> {
    match (new_key.padding(), source.unlocked()) {
        (None, Some(former)) => {
            let key = new_key.with_padding(former.keys().padding());
            let key = key.map_err(litepack_store::Error::from);
            key.map(Arc::new).with_context(|| cannot_write(file))
        }
        _ => Ok(Arc::clone(new_key)),
    }
}

/// Makes sure that the new file opens with the new key and holds the bytes of the old one.
fn expect_same(
    source: &Source,
    target: &Replacement,
    new_key: Option<&Arc<Key>>,
    job: &Job<'_>,
) -> Result<()> {
    let (new, name) = (target.file(), target.name());
    let unlocked = Unlocked::of(new, FileKind::Packed, new_key, name)?;
    let bytes = Bytes {
        unlocked: unlocked.as_ref(),
        ..new.into()
    };
    let old = Mutex::new(DatabaseBytes::of(source)?);
    let old = || old.lock().unwrap_or_else(PoisonError::into_inner);
    let len = old().size();
    let read = |offset, buf: &mut [u8]| old().read_at(buf, offset);
    reader::compare_with((bytes, name), len, &read, job)
}
