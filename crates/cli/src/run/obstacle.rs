//! Why packed databases would not open in a program, as far as its file tells. Most programs that cannot open them are
//! found out so; a library that the program loads later may have a SQLite of its own, which cannot be seen here.
//!
//! Files are untrusted: one that makes no sense is left to the system, which says so.

use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use memchr::memmem;
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::read::{ReadCache, ReadRef as _, StringTable};
use rustix::fs::fgetxattr;

use super::program;

/// What stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    Static,
    Inside,
    Privileged,
    Foreign,
    OtherC,
}

impl Display for Obstacle {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Obstacle::Static => "it is linked statically, so that nothing can be loaded into it",
            Obstacle::Inside => "it has a SQLite of its own built in",
            Obstacle::Privileged => {
                "it runs with rights that its user has not, and the system loads nothing into it"
            }
            Obstacle::Foreign => "it is made for another kind of processor",
            Obstacle::OtherC => "it is made for another C library",
        })
    }
}

/// As many scripts as the system follows.
const SCRIPTS_MAX: usize = 5;
/// As much of a script's first line as the system reads.
const LINE_MAX: u64 = 256;

/// What every SQLite has in it, and hardly any program without one.
const SQLITE: [&[u8]; 2] = [b"SQLite format 3\0", b"database disk image is malformed\0"];
const LIBRARY: &[u8] = b"libsqlite3.so";
/// As large as what the loader reads of a program is at most.
const TABLE_MAX: u64 = 16 << 20;
/// Of a longer file only the beginning is read.
const PROGRAM_MAX: u64 = 1 << 30;

/// What keeps packed databases from being opened in a program, or in what runs it if it is a script.
pub fn of(program: &Path) -> Option<Obstacle> {
    let mut path = program.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let file = File::open(&path).ok()?;
        let mut head = Vec::new();
        (&file).take(LINE_MAX).read_to_end(&mut head).ok()?;
        if let Some(next) = interpreter(&head) {
            path = next?;
        } else if head.starts_with(&elf::ELFMAG) {
            return of_binary(&file);
        } else {
            return None;
        }
    }
    None
}

/// The program that runs a script: none if this is no script, and none within if it cannot be found. That which `env`
/// looks for is found as it does.
fn interpreter(head: &[u8]) -> Option<Option<PathBuf>> {
    let line = head
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line
        .split(|byte| b" \t".contains(byte))
        .filter(|word| !word.is_empty());
    let Some(first) = words.next() else {
        return Some(None);
    };
    let first = Path::new(OsStr::from_bytes(first));
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(Some(first.to_owned()));
    }
    let name = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    Some(name.and_then(|name| program::find(OsStr::from_bytes(name))))
}

fn of_binary(file: &File) -> Option<Obstacle> {
    let found = file.metadata().ok()?;
    if is_privileged(file, &found) {
        return Some(Obstacle::Privileged);
    }
    let cache = ReadCache::new(file);
    let linked = match FileHeader64::<Endianness>::parse(&cache) {
        Ok(header) if is_ours(header) => linked(header, &cache).ok()?,
        _ => return Some(Obstacle::Foreign),
    };
    match linked {
        Linked::Statically => Some(Obstacle::Static),
        Linked::ByAnother => Some(Obstacle::OtherC),
        Linked::ToSqlite => None,
        Linked::Otherwise => has_sqlite(file).ok()?.then_some(Obstacle::Inside),
    }
}

/// Whether the system runs it with other rights than ours.
fn is_privileged(file: &File, found: &Metadata) -> bool {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let mut none: [u8; 0] = [];
    let has_capabilities = fgetxattr(file, c"security.capability", &mut none).is_ok();
    // To root they give nothing.
    (has_capabilities && !rustix::process::getuid().is_root())
        || (found.mode() & SET_USER != 0 && found.uid() != user)
        || (found.mode() & SET_GROUP != 0 && found.gid() != group)
}

/// Whether it is for the processor of this command.
fn is_ours(header: &FileHeader64<Endianness>) -> bool {
    let ours = match std::env::consts::ARCH {
        "x86_64" => elf::EM_X86_64,
        "aarch64" => elf::EM_AARCH64,
        _ => return true,
    };
    header
        .endian()
        .is_ok_and(|endian| header.e_machine(endian) == ours)
}

enum Linked {
    Statically,
    ByAnother,
    ToSqlite,
    Otherwise,
}

/// The name of the file that loads the libraries of a program. Each C library has its own.
fn loader(
    header: &FileHeader64<Endianness>,
    data: &ReadCache<&File>,
) -> object::read::Result<Option<Vec<u8>>> {
    let endian = header.endian()?;
    for segment in header.program_headers(endian, data)? {
        if segment.p_filesz(endian) <= TABLE_MAX
            && let Some(path) = segment.interpreter(endian, data)?
        {
            let name = path.rsplit(|byte| *byte == b'/').next();
            return Ok(name.map(<[u8]>::to_vec));
        }
    }
    Ok(None)
}

/// That of this command, which was built with the library that is loaded into programs.
fn our_loader() -> Option<Vec<u8>> {
    let file = File::open("/proc/self/exe").ok()?;
    let cache = ReadCache::new(&file);
    loader(FileHeader64::parse(&cache).ok()?, &cache).ok()?
}

/// How it gets its libraries.
fn linked(
    header: &FileHeader64<Endianness>,
    data: &ReadCache<&File>,
) -> object::read::Result<Linked> {
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let Some(loader) = loader(header, data)? else {
        return Ok(Linked::Statically);
    };
    if our_loader().is_some_and(|ours| ours != loader) {
        return Ok(Linked::ByAnother);
    }
    for segment in segments {
        if segment.p_filesz(endian) > TABLE_MAX {
            continue;
        }
        let Some(entries) = segment.dynamic(endian, data)? else {
            continue;
        };
        let value = |tag| {
            let entry = entries
                .iter()
                .find(|entry| entry.tag32(endian) == Some(tag));
            entry.map_or(0, |entry| entry.d_val(endian))
        };
        let (start, len) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ).min(TABLE_MAX));
        let names = segments.iter().find_map(|segment| {
            let first = start.checked_sub(segment.p_vaddr(endian))?;
            let is_there = segment.p_type(endian) == elf::PT_LOAD
                && first.checked_add(len)? <= segment.p_filesz(endian);
            let from = segment.p_offset(endian).checked_add(first)?;
            is_there
                .then(|| data.read_bytes_at(from, len).ok())
                .flatten()
        });
        let names = StringTable::new(names.unwrap_or_default(), 0, len);
        let is_sqlite = |entry: &object::elf::Dyn64<Endianness>| {
            entry.tag32(endian) == Some(elf::DT_NEEDED)
                && entry
                    .string(endian, names)
                    .is_ok_and(|name| name.starts_with(LIBRARY))
        };
        if entries.iter().any(is_sqlite) {
            return Ok(Linked::ToSqlite);
        }
    }
    Ok(Linked::Otherwise)
}

/// Whether all that every SQLite has in it is in the file.
fn has_sqlite(file: &File) -> io::Result<bool> {
    let mut missing: Vec<_> = SQLITE.iter().map(memmem::Finder::new).collect();
    let overlap = SQLITE.iter().map(|bytes| bytes.len()).max().unwrap_or(0);
    let mut buffer = Vec::new();
    (&*file).rewind()?;
    let mut file = file.take(PROGRAM_MAX);
    loop {
        let read = file.by_ref().take(1 << 20).read_to_end(&mut buffer)?;
        missing.retain(|bytes| bytes.find(&buffer).is_none());
        if missing.is_empty() || read == 0 {
            return Ok(missing.is_empty());
        }
        // What may be the beginning of one.
        buffer.drain(..buffer.len().saturating_sub(overlap));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_script_is_found() {
        assert_eq!(interpreter(b"\x7fELF"), None);
        assert_eq!(interpreter(b"#!"), Some(None));
        assert_eq!(interpreter(b"#! \n"), Some(None));
        let sh = Some(Some(PathBuf::from("/bin/sh")));
        assert_eq!(interpreter(b"#! /bin/sh -eu\necho"), sh);
        for line in ["#!/usr/bin/env sh", "#!/usr/bin/env -S A=b sh -e\n"] {
            let found = interpreter(line.as_bytes()).unwrap().unwrap();
            assert_eq!(found.file_name(), Some(OsStr::new("sh")));
        }
        assert_eq!(interpreter(b"#!/usr/bin/env no-such-program\n"), Some(None));
    }

    /// This program has SQLite built in.
    #[test]
    fn sqlite_inside_is_found() {
        let ours = std::env::current_exe().unwrap();
        assert_eq!(of(&ours), Some(Obstacle::Inside));
        assert_eq!(of(Path::new("/bin/sh")), None);
        assert_eq!(of(Path::new("/dev/null")), None);
    }

    #[test]
    fn sqlite_is_found_wherever_it_is() {
        let mut file = tempfile::tempfile().unwrap();
        for before in [0, (1 << 20) - 7, (1 << 20) + 7, 3 << 20] {
            let mut content = vec![b'S'; before];
            for part in SQLITE {
                assert!(!has_sqlite(&file).unwrap());
                content.extend(part);
                file.set_len(0).unwrap();
                file.rewind().unwrap();
                io::Write::write_all(&mut file, &content).unwrap();
            }
            assert!(has_sqlite(&file).unwrap());
            file.set_len(0).unwrap();
        }
    }

    /// No byte of a program makes this fail.
    #[test]
    fn damaged_programs_are_left_to_the_system() {
        let whole = std::fs::read("/bin/sh").unwrap();
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("program");
        for at in 0..0x400 {
            let mut content = whole.clone();
            content[at] ^= 0xff;
            std::fs::write(&path, &content).unwrap();
            of(&path);
            std::fs::write(&path, &whole[..at]).unwrap();
            of(&path);
        }
    }
}
