//! The sizes and frames of an archive, and whether it is sound.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use litepack_archive::Error as ArchiveError;
use litepack_cipher::Key;
use litepack_database::bytes::archive::open_with;
use litepack_database::bytes::reader;
use litepack_database::bytes::unlocked::of_archive;
use litepack_database::error::{Context, cannot_read};
use litepack_database::files::leftovers;
use litepack_engine::report::{archive_damage, archive_info_json};
use serde::{Serialize, Serializer};

use super::{file, go_on, opened};
use crate::{Damage, Job, Result};

/// The result of [`check`].
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Whether there is no damage.
    pub ok: bool,
    /// Frames that hold bytes of the database, damaged ones included.
    pub frames: u32,
    /// Bytes of the database in sound frames.
    pub sound_bytes: u64,
    /// The damage.
    pub damage: Vec<Damage>,
}

/// Decodes every frame of an archive. Damage is part of the result, not an error. A warning names files that a killed
/// command left beside it.
///
/// # Errors
/// If the file is not an archive or cannot be read.
pub fn check(archive: impl AsRef<Path>, job: &Job<'_>) -> Result<CheckReport> {
    let shown = archive.as_ref();
    let file = file(shown)?;
    leftovers::tell(shown, job);
    let report = match report(&file, job) {
        // Without a seek table no frame can be found, so this is all there is to tell.
        Err(damage @ (ArchiveError::SeekTable { .. } | ArchiveError::Head { .. })) => {
            litepack_archive::Report {
                damage: vec![damage],
                ..litepack_archive::Report::default()
            }
        }
        report => report.map_err(|error| of_archive(error, shown))?,
    };
    let damage = report.damage.iter().map(|error| {
        let (what, offset, why) = archive_damage(error);
        Damage::new(what, offset, why, error.to_string())
    });
    Ok(CheckReport {
        ok: report.is_ok(),
        frames: report.frames,
        sound_bytes: report.sound,
        damage: damage.collect(),
    })
}

fn report(
    file: &File,
    job: &Job<'_>,
) -> std::result::Result<litepack_archive::Report, ArchiveError> {
    let archive = open_with(file, job.key().map(|key| &**key))?;
    let step = job.bytes("checking", archive.size());
    job.listening(|| {
        archive.check(reader::threads(), &mut |done| {
            step.set(done);
            go_on(job)
        })
    })
}

/// A report on an archive. docs/reference/json.md lists its fields when serialised.
#[derive(Clone, Debug)]
pub struct Info {
    /// Sizes from its seek table.
    pub archive: litepack_archive::Info,
    /// Bytes of a page; `None` if it holds no SQLite database, or its first frame is damaged.
    pub page_size: Option<u32>,
}

impl Serialize for Info {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        archive_info_json(&self.archive, self.page_size).serialize(serializer)
    }
}

/// Reports the sizes of an archive, from its seek table.
///
/// # Errors
/// If the file is not an archive or cannot be read.
pub fn info(archive: impl AsRef<Path>) -> Result<Info> {
    info_with_key(archive, None)
}

/// The same with the key of an encrypted one.
///
/// # Errors
/// As [`info`]; if the key is wrong, or the archive is not encrypted.
pub fn info_with_key(archive: impl AsRef<Path>, key: Option<&Arc<Key>>) -> Result<Info> {
    let shown = archive.as_ref();
    let cannot = || cannot_read(shown);
    let file = file(shown)?;
    let mut archive = opened(&file, shown, key)?;
    let info = archive.info().with_context(cannot)?;
    let mut head = [0; 100];
    // The seek table can be reported of an archive with damaged frames, too.
    let found = archive.read_at(0, &mut head).unwrap_or(0);
    Ok(Info {
        archive: info,
        page_size: litepack_engine::page_size(&head[..found]),
    })
}
