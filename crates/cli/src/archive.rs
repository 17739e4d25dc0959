//! `litepack archive`: creates, extracts and checks databases in zstd's seekable format.
//!
//! ```text
//! create.rs   extract.rs   info.rs   check.rs     one subcommand each
//! ```

mod check;
mod create;
mod extract;
mod info;

use std::fs::{File, Metadata};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use litepack_archive::{Archive, Cache, Error, FileId, Options, Source};

use crate::content::{CHUNK, Content};
use crate::header::{self, Kind};
use crate::progress::Progress;
use crate::source::open_file;
use crate::{interrupt, reader};

/// For frames that are read once, from beginning to end.
const CACHE_BYTES: u64 = 32 << 20;

/// Creates, extracts and checks archives: databases in seekable zstd files.
///
/// SQLite queries an archive in place, and any zstd decompresses it.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Create(create::Arguments),
    Extract(extract::Arguments),
    Info(info::Arguments),
    Check(check::Arguments),
}

/// Runs the command; false if the answer is no.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Create(arguments) => create::run(arguments).map(|()| true),
        Command::Extract(arguments) => extract::run(arguments).map(|()| true),
        Command::Info(arguments) => info::run(arguments).map(|()| true),
        Command::Check(arguments) => check::run(arguments),
    }
}

/// Opens a file that is to be an archive.
pub fn file(shown: &Path) -> Result<(File, Metadata)> {
    let name = shown.display();
    let (file, _) = open_file(shown, false)?;
    let cannot = || format!("cannot read {name}");
    match header::kind(&file).with_context(cannot)? {
        Kind::Zstd => {
            let metadata = file.metadata().with_context(cannot)?;
            Ok((file, metadata))
        }
        Kind::Empty => bail!("{name} is not an archive: it is empty"),
        Kind::Plain => bail!(
            "{name} is not an archive but a plain SQLite database; \
             `litepack archive create` makes one of it"
        ),
        Kind::Packed => bail!(
            "{name} is not an archive but a packed file; `litepack archive create` makes one of it"
        ),
        Kind::Other => bail!("{name} is not an archive"),
    }
}

/// An archive to be read from beginning to end.
pub fn open<S: Source>(source: S) -> Result<Archive<S>, Error> {
    let options = Options {
        cache: Arc::new(Cache::new(CACHE_BYTES)),
        file: FileId::unique(),
        threads: reader::threads(),
    };
    Archive::open(source, options)
}

/// Makes sure that an archive holds exactly these bytes.
fn compare(archive: &mut Archive<impl Source>, content: &mut Content<'_>) -> Result<()> {
    let (size, len) = (archive.size(), content.size());
    if size != len {
        bail!("verification failed: {size} bytes are archived, the database has {len}");
    }
    let progress = Progress::new("verifying", len);
    let mut offset = 0;
    let (mut found, mut expected) = (vec![0; CHUNK], vec![0; CHUNK]);
    while offset < len {
        interrupt::check()?;
        let n = content.read_at(&mut expected, offset)?;
        let same = archive.read_at(offset, &mut found)? == n && found[..n] == expected[..n];
        if !same || n == 0 {
            bail!("verification failed: the files differ near byte {offset}");
        }
        offset += n as u64;
        progress.add(n as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn an_archive_of_anything_else_is_noticed() {
        let archived = b"the bytes of a database ".repeat(100_000);
        let mut made = Vec::new();
        let go_on = &mut |_| std::ops::ControlFlow::Continue(());
        let settings = litepack_archive::Settings::default();
        litepack_archive::create(&mut archived.as_slice(), &mut made, &settings, go_on).unwrap();
        let compared = |bytes: &[u8]| {
            let mut plain = tempfile::tempfile().unwrap();
            plain.write_all(bytes).unwrap();
            let mut content = Content::plain(&plain, Path::new("plain.db")).unwrap();
            compare(&mut open(made.as_slice()).unwrap(), &mut content)
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
