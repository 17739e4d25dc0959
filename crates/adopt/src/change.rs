//! What is done on request: a database is packed in place and its original kept; that is undone; the original is let go.
//!
//! Each step leaves a state that the next call knows. The original has its second name, durably, before the packed file
//! takes the first. It is removed only when an equal database is under the first name, or when the user lets it go and
//! the packed file that is there was read to its end.
//!
//! Others may write in the directory. So what was looked at is known by its identity, and nothing else is changed in its
//! place.

use std::path::Path;

use litepack::keep::Original;
use litepack::{Error, Job, PackOptions, Result, Sizes};
use litepack_database::bytes::header;
use litepack_database::error::{Context as _, cannot_read, refuse};
use litepack_database::files::source::open_file;
use litepack_database::names::PLAIN;
use litepack_database::names::identity::{Identity, is_same_file};
use litepack_engine::FileKind;

use crate::look::Found;
use crate::{kept, obstacle, programs};

/// What came of [`adopt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// It was packed, and the original is kept.
    Now(Sizes),
    /// That was so before.
    Before,
}

/// What came of [`undo`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The database is the original, bit for bit. That is not kept a second time.
    Original,
    /// The database has what was written since. The original is kept.
    Newer,
}

/// Packs a database that was looked at in place, and keeps the original under its [`kept`] name.
///
/// # Errors
/// If there is an obstacle, or the database is in use. Then everything is as it was before.
pub fn adopt(found: &Found, options: &PackOptions, job: &Job<'_>) -> Result<Adopted> {
    let path = &*found.file;
    let shown = path.display();
    let original = kept(path);
    let looked_at = Identity::of_name(path);
    match kind(path)? {
        FileKind::Packed if original.symlink_metadata().is_ok() => return Ok(Adopted::Before),
        FileKind::Packed => refuse!("{shown} is a packed file already"),
        FileKind::Plain => {}
        FileKind::Empty => refuse!("{shown} is empty"),
        _ => refuse!("{shown} is not a SQLite database, or an encrypted one"),
    }
    if let Some(database) = crate::database_of(path) {
        refuse!("{shown} is the original of {}", database.display());
    }
    let len = path.metadata().with_context(|| cannot_read(path))?.len();
    let packed = found.packed_bytes.unwrap_or(len);
    let why = obstacle::of(path, found.program.and_then(programs::named));
    if let Some(why) = why.or_else(|| obstacle::no_room(path, len, packed)) {
        refuse!("{shown}: {why}");
    }
    obstacle::expect_unused(path)?;
    let name = original.file_name().unwrap_or_default();
    match litepack::pack_in_place_keeping(path, looked_at, name, options, job) {
        Err(Error::Exists { .. }) => refuse!(
            "{} is there, and is not what {shown} is now; look which you need, and let the other go",
            original.display()
        ),
        packed => packed.map(Adopted::Now),
    }
}

/// Makes an adopted database plain again, with what was written since.
///
/// # Errors
/// If the database is in use, was not adopted, could not have its owner any more, or reading or writing fails. Then
/// everything is as it was before.
pub fn undo(path: &Path, job: &Job<'_>) -> Result<Undone> {
    let original = expect_kept(path)?;
    let (shown, kept) = (path.display(), original.name().display());
    let looked_at = Identity::of_name(path);
    let was = kind(path)?;
    match was {
        FileKind::Packed if litepack::is_encrypted(path)? => refuse!(
            "{shown} is encrypted by now; `litepack unpack --in-place` takes its key. {kept} is not encrypted"
        ),
        FileKind::Packed => {
            if let Some(why) = obstacle::of_undo(path) {
                refuse!("{shown}: {why}");
            }
            obstacle::expect_unused(path)?;
            litepack::unpack_in_place_of(path, looked_at, job)?;
        }
        FileKind::Plain => {}
        _ => refuse!("{shown} is not a database; its original is {kept}"),
    }
    match original.remove_if_equal(path, job)? {
        true => Ok(Undone::Original),
        false if was == FileKind::Packed => Ok(Undone::Newer),
        // Whether it is newer is not known.
        false => refuse!("{}", other(path, &original)),
    }
}

/// Lets the original of an adopted database go.
///
/// # Errors
/// If no original is kept, or what is there is damaged, encrypted, or plain and not the original: then another program may
/// have put it there, and the original may be the only copy. It stays.
pub fn forget(path: &Path, job: &Job<'_>) -> Result<()> {
    let original = expect_kept(path)?;
    let (shown, kept) = (path.display(), original.name().display());
    let (file, real) = open_file(path, false)?;
    match header::kind(&file).with_context(|| cannot_read(path))? {
        FileKind::Packed if litepack::is_encrypted(path)? => refuse!(
            "{shown} is encrypted by now, so it is not known whether it is whole; have `litepack check` read it with its \
             key, and delete {kept} then, which is not encrypted"
        ),
        FileKind::Packed if litepack::check(path, job)?.ok => original.remove_beside(&file, &real),
        FileKind::Packed => refuse!("{shown} is damaged; its original {kept} stays"),
        FileKind::Plain => match original.remove_if_equal(path, job)? {
            true => Ok(()),
            false => refuse!("{}", other(path, &original)),
        },
        _ => refuse!("{shown} is not a database; its original {kept} stays"),
    }
}

/// That a plain database is not its original.
fn other(path: &Path, original: &Original) -> String {
    format!(
        "{} is plain, and is not its original {}: it was undone with newer rows, or a program has put another database \
         there. Look which you need, and delete the other yourself",
        path.display(),
        original.name().display()
    )
}

fn kind(path: &Path) -> Result<FileKind> {
    let (file, _) = open_file(path, false)?;
    header::kind(&file).with_context(|| cannot_read(path))
}

/// The original. A link may lead anywhere.
fn expect_kept(path: &Path) -> Result<Original> {
    let original = kept(path);
    let is_file = original.symlink_metadata().map(|found| found.is_file());
    let found = path.symlink_metadata();
    // The original under its own name and another one is not there twice.
    if let (Ok(true), Ok(found)) = (&is_file, &found)
        && (!found.is_file() || is_same_file(path, &original))
    {
        refuse!(
            "{} is not a file of its own; its original is {}",
            path.display(),
            original.display()
        );
    }
    if let Some(beside) = PLAIN.pending(&original) {
        refuse!(
            "{} is there: a program has opened the original, and may have written into it; open it once more, or look \
             what it has",
            beside.display()
        );
    }
    match (is_file, found.is_ok()) {
        (Ok(true), true) => Original::open(&original),
        (Ok(true), false) => refuse!(
            "{} does not exist; its original is {}: give it that name",
            path.display(),
            original.display()
        ),
        (_, false) => refuse!("{} does not exist", path.display()),
        (_, true) => refuse!(
            "{} has no original that is kept, so it was not adopted (`litepack unpack --in-place` unpacks any)",
            path.display()
        ),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Whichever database a path leads to when it is looked at: nothing of one comes into the directory of the other.
    #[test]
    fn two_directories_that_change_places_keep_each_its_own_database() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let before = ["a", "b"].map(|who| {
            std::fs::create_dir(path(who)).unwrap();
            std::fs::write(path(who).join("who"), who).unwrap();
            let db = rusqlite::Connection::open(path(who).join("app.db")).unwrap();
            db.execute_batch(&format!("create table t as select '{who}' as who"))
                .unwrap();
            drop(db);
            std::fs::read(path(who).join("app.db")).unwrap()
        });
        let (stop, job) = (AtomicBool::new(false), Job::default());
        let (mut adopted, mut undone) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let (a, b) = (path("a"), path("b"));
                    renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
                    std::thread::sleep(std::time::Duration::from_micros(300));
                }
            });
            for _ in 0..200 {
                let app = path("a").join("app.db");
                let found = crate::look(&app, &job);
                let done = found.and_then(|found| adopt(&found, &PackOptions::default(), &job));
                adopted += u32::from(matches!(done, Ok(Adopted::Now(_))));
                undone += u32::from(undo(&app, &job).is_ok());
            }
            stop.store(true, Ordering::SeqCst);
        });
        assert!(adopted > 0 && undone > 0, "{adopted} {undone}");
        for folder in ["a", "b"] {
            let who = std::fs::read_to_string(path(folder).join("who")).unwrap();
            let app = path(folder).join("app.db");
            let db = litepack::open(&app).unwrap();
            let found: String = db
                .query_row("select who from t", [], |row| row.get(0))
                .unwrap();
            assert_eq!(found, who);
            let bytes = &before[usize::from(who == "b")];
            match kind(&app).unwrap() {
                FileKind::Plain => assert!(std::fs::read(&app).unwrap() == *bytes),
                _ => assert!(kept(&app).exists()),
            }
            if let Ok(original) = std::fs::read(kept(&app)) {
                assert!(original == *bytes, "{who}");
            }
        }
    }
}
