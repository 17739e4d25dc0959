//! The sizes and frames of an archive, and the check of every frame against the seek table.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::reader::{Archive, Options};
use litepack_io::cache::{Cache, FileId};
use litepack_io::storage::ReadAt;

/// For the frames that workers decode ahead of a check; none is looked at twice.
const BUDGET: u64 = 32 << 20;

/// The sizes and frames of an archive, by its seek table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Bytes of the database.
    pub size: u64,
    /// Bytes of the archive.
    pub stored: u64,
    /// Frames that hold bytes of the database.
    pub frames: u32,
    /// Bytes of the database in the largest of them.
    pub largest_frame: u32,
    /// Bytes of these frames in the archive.
    pub frame_bytes: u64,
    /// Bytes of the seek table.
    pub table_bytes: u64,
    /// Whether the seek table has a checksum of every frame. Frames may have others of their own.
    pub checksums: bool,
}

impl Info {
    /// Bytes of the archive that are for none of this: skippable and empty frames, which are never read.
    pub fn other_bytes(&self) -> u64 {
        self.stored
            .saturating_sub(self.frame_bytes + self.table_bytes)
    }
}

/// The result of reading every frame.
#[derive(Debug, Default)]
pub struct Report {
    /// Frames that hold bytes of the database, damaged ones included.
    pub frames: u32,
    /// Bytes of the database in sound frames.
    pub sound: u64,
    /// The damage found: an [`Error::Frame`] for each damaged frame.
    pub damage: Vec<Error>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.damage.is_empty()
    }
}

impl<S: ReadAt> Archive<S> {
    /// The archive's sizes and frames.
    ///
    /// # Errors
    /// When the medium fails.
    pub fn info(&self) -> Result<Info> {
        let table = self.table();
        let mut info = Info {
            size: table.size(),
            stored: self.source().len()?,
            frames: 0,
            largest_frame: 0,
            frame_bytes: 0,
            table_bytes: table.stored(),
            checksums: table.has_checksums(),
        };
        let mut next = table.frame(0);
        while let Some(frame) = next {
            if frame.size > 0 {
                info.frames += 1;
                info.largest_frame = info.largest_frame.max(frame.size);
                info.frame_bytes += u64::from(frame.stored);
            }
            next = table.next(&frame);
        }
        Ok(info)
    }

    /// Reads and decodes every frame that holds bytes of the database, whatever is in the cache, with as many
    /// threads. `progress` is told how many bytes of the database were looked at, and can stop it.
    ///
    /// # Errors
    /// When the medium fails or `progress` stops it. Damage is in the report.
    pub fn check(
        &self,
        threads: usize,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Report> {
        let options = Options {
            cache: Arc::new(Cache::new(BUDGET)),
            file: FileId::unique(),
            threads,
        };
        let table = Arc::clone(self.table());
        let mut fresh = Archive::with_table(self.source(), table, options);
        let mut report = Report::default();
        let mut next = self.table().frame(0);
        while let Some(frame) = next {
            if frame.size > 0 {
                report.frames += 1;
                // A frame is decoded and verified whole before any byte of it is given out.
                match fresh.read_at(frame.start, &mut [0]) {
                    Ok(_) => report.sound += u64::from(frame.size),
                    Err(damage @ Error::Frame { .. }) => report.damage.push(damage),
                    Err(error) => return Err(error),
                }
                if progress(frame.end()).is_break() {
                    return Err(Error::Stopped);
                }
            }
            next = self.table().next(&frame);
        }
        Ok(report)
    }
}
