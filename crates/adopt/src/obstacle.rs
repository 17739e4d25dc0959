//! Why a database is not packed in place: what could not be undone, or would go wrong. Each is said in words, with what
//! to do, before anything is written.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use litepack_database::files::directory::directory;
use litepack_database::names::{PLAIN, holders, with_suffix};
use litepack_database::{Error, printable_path};
use rustix::fs::Access;
use rustix::process::{getegid, geteuid, getgroups};

use crate::programs::{Opens, Program};
use crate::synced;

/// Why a database at this path stays as it is; `None` if it can be packed.
pub(crate) fn of(path: &Path, program: Option<&Program>) -> Option<String> {
    of_program(program)
        .or_else(|| of_file(path))
        .or_else(|| of_others(path))
        .or_else(|| of_place(path))
        .or_else(|| of_beside(path))
}

/// Why one that is packed cannot be made plain in its place.
pub(crate) fn of_undo(path: &Path) -> Option<String> {
    of_file(path).or_else(|| of_place(path))
}

fn of_program(program: Option<&Program>) -> Option<String> {
    let program = program.filter(|program| program.opens == Opens::No)?;
    Some(format!(
        "{} cannot open packed files: {}",
        program.name, program.how
    ))
}

/// What is about the file and its names.
fn of_file(path: &Path) -> Option<String> {
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) => return Some(format!("it cannot be read: {error}")),
    };
    if metadata.is_symlink() {
        return Some("it is a symbolic link; name the file that it leads to".into());
    }
    if !metadata.is_file() {
        return Some("it is not an ordinary file".into());
    }
    if metadata.nlink() > 1 {
        let others = metadata.nlink() - 1;
        return Some(format!(
            "it has {others} more names (hard links), which would keep the old file"
        ));
    }
    not_ours(&metadata)
}

/// Who packs it has to be able to give the new file to the same user and group.
fn not_ours(metadata: &Metadata) -> Option<String> {
    let user = geteuid();
    if user.is_root() {
        return None;
    }
    if user.as_raw() != metadata.uid() {
        return Some(format!(
            "it belongs to another user ({}), and the new file would be yours",
            metadata.uid()
        ));
    }
    let groups = getgroups().unwrap_or_default();
    let mut groups = groups.iter().map(|group| group.as_raw());
    if getegid().as_raw() != metadata.gid() && !groups.any(|group| group == metadata.gid()) {
        return Some(format!(
            "it belongs to a group that you are not in ({})",
            metadata.gid()
        ));
    }
    None
}

/// Who copies the directory.
fn of_others(path: &Path) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let (program, folder) = synced::by(&real)?;
    Some(format!(
        "{program} copies {} to other machines; keep a database that is packed outside of it",
        printable_path(folder)
    ))
}

/// What is about the directory.
fn of_place(path: &Path) -> Option<String> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) => return Some(format!("it cannot be read: {error}")),
    };
    let directory = directory(&real);
    for (what, allowed) in [
        (&*directory, Access::WRITE_OK | Access::EXEC_OK),
        (&*real, Access::READ_OK | Access::WRITE_OK),
    ] {
        if let Err(error) = rustix::fs::access(what, allowed) {
            let error = std::io::Error::from(error);
            return Some(format!(
                "{} cannot be written: {error}",
                printable_path(what)
            ));
        }
    }
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    if device(&real) != device(&directory) {
        return Some("it is mounted by itself, so no other file can take its name".into());
    }
    None
}

/// What SQLite would drop without a word: a file beside the database that has the name of its journal or WAL, and does
/// not begin as one.
fn of_beside(path: &Path) -> Option<String> {
    const JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    const WALS: [[u8; 4]; 2] = [[0x37, 0x7f, 0x06, 0x82], [0x37, 0x7f, 0x06, 0x83]];
    let pending = PLAIN.pending(path)?;
    let mut head = Vec::new();
    let is_file = pending.metadata().is_ok_and(|found| found.is_file());
    let read = is_file.then(|| File::open(&pending)?.take(8).read_to_end(&mut head));
    let is_whole = match read {
        Some(Ok(_)) if pending == with_suffix(path, PLAIN.wal) => {
            WALS.iter().any(|magic| head.starts_with(magic))
        }
        Some(Ok(_)) => head == JOURNAL,
        _ => false,
    };
    (!is_whole).then(|| {
        format!(
            "{} holds something that SQLite cannot apply to it; look what that is, and remove it",
            printable_path(&pending)
        )
    })
}

/// An error if a program is seen to have the database open, also one that is idle, which no lock shows.
pub(crate) fn expect_unused(path: &Path) -> Result<(), Error> {
    let by = holders::of(path);
    match by.is_empty() {
        true => Ok(()),
        false => Err(Error::InUse {
            path: path.to_owned(),
            by,
        }),
    }
}

/// Why there is no room for a copy of the original and so many bytes of the packed file.
pub(crate) fn no_room(path: &Path, original: u64, packed: u64) -> Option<String> {
    let found = rustix::fs::statvfs(directory(path)).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let needed = original.saturating_add(packed);
    (free < needed).then(|| {
        format!(
            "there is no room for both: the original, kept, and the packed file take {} MB more for a while, and {} MB \
             are free (`litepack pack --in-place` keeps nothing)",
            needed.div_ceil(1_000_000),
            free / 1_000_000
        )
    })
}
