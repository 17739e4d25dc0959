//! `litepack rekey`: another key for a packed file, and encryption or decryption of one that is there.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, ensure};
use litepack::{Level, PACK_LEVEL, PackOptions, RekeyOptions};

use crate::job::{interruptible, summary};
use crate::keys;
use crate::output::tell;
use crate::pack::level;

/// Gives an encrypted packed file another key, or encrypts or decrypts a packed file.
///
/// Another key takes no time, and others may go on reading and writing; programs that open the file from then on need the
/// new key. With --new-data-key or --decrypt, and for a file that is not encrypted yet, the file is made anew, and must
/// not be in use. Older copies of the file stay as they are, and so may what the disk has in blocks that are free now.
#[derive(clap::Args)]
#[command(override_usage = "litepack rekey [--new-data-key] FILE\n       \
                      litepack rekey --decrypt FILE")]
pub struct Arguments {
    /// The packed file.
    file: PathBuf,
    /// Encrypt all content anew with another data key, so that who knows the former key and has an older copy cannot read
    /// this file. Without a new key the key stays.
    #[arg(long, conflicts_with = "decrypt")]
    new_data_key: bool,
    /// Make it a packed file that is not encrypted.
    #[arg(long, conflicts_with_all = ["new_key_file", "new_key_env"])]
    decrypt: bool,
    #[command(flatten)]
    key: keys::KeyOptions,
    #[command(flatten)]
    new_key: keys::NewKeyOptions,
    #[command(flatten)]
    padding: keys::PaddingOption,
    /// For a file that is made anew: smallest file, in ten to forty times the time.
    #[arg(long, conflicts_with = "level")]
    best: bool,
    /// For a file that is made anew: zstd level, from 1 (fast) to 19 (small).
    #[arg(long, value_name = "N", default_value_t = PACK_LEVEL, value_parser = level)]
    level: Level,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments {
        file, key, new_key, ..
    } = arguments;
    new_key.expect_apart(key)?;
    let former = key.of(file)?;
    if let Some(key) = &former {
        // Before anyone is asked for a new one.
        litepack::try_key(file, key)?;
    }
    if arguments.decrypt {
        arguments.padding.expect_none("encryption")?;
    }
    if former.is_some() && !arguments.new_data_key {
        // The content stays as it is.
        arguments.padding.expect_none("--new-data-key")?;
    }
    let new = match (&former, arguments.decrypt) {
        (_, true) => None,
        (Some(former), _) if arguments.new_data_key && !new_key.is_given() => Some(former.clone()),
        _ => {
            // A file of another kind has no use for a key: so no prompt.
            let kind = litepack::file_kind(file)?;
            ensure!(
                kind == litepack::FileKind::Packed,
                "{} is not a packed file; `litepack pack --encrypt` makes an encrypted one",
                file.display()
            );
            Some(new_key.of(file)?)
        }
    };
    let new = new.map(|key| arguments.padding.of(key)).transpose()?;
    let options = RekeyOptions {
        new_data_key: arguments.new_data_key,
        pack: PackOptions {
            level: arguments.level,
            best: arguments.best,
            ..PackOptions::default()
        },
    };
    let started = Instant::now();
    let job = keys::with(former, interruptible);
    let sizes = litepack::rekey(file, new.as_ref(), &options, &job)?;
    match arguments.decrypt {
        true => tell!("{} is not encrypted any more", file.display()),
        false => tell!("{}", summary(file, sizes, started)),
    }
    Ok(())
}
