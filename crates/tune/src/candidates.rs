//! The candidates: the plain file, packed files, archives. How one is made, and which are worth making.
//!
//! Not every combination: the level of a file changes its size and not what reading it costs (docs/benchmarks.md,
//! docs/measurements.md). So all page and frame sizes are tried at the default level first, and other levels only for
//! what is on the Pareto front then, where they can move it.

use std::path::PathBuf;

use litepack::archive::{CreateOptions, DEFAULT_LEVEL};
use litepack::{Job, PackOptions, Result, draft};

use super::sample::Sample;

/// Page sizes besides the database's own.
const PAGE_SIZES: [u32; 3] = [4096, 16384, 65536];
/// Frame sizes of archives.
const FRAME_SIZES: [u32; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Levels of archives besides the default.
const ARCHIVE_LEVELS: [i32; 2] = [3, 19];

/// One way to keep the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Bytes of a page.
    pub page_size: u32,
    /// The kind of file.
    pub form: Form,
}

/// The kind of file that holds the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An ordinary SQLite file.
    Plain,
    /// A packed file, as `litepack pack` makes it.
    Packed {
        /// With `--best`.
        best: bool,
    },
    /// An archive, as `litepack archive create` makes it.
    Archive {
        /// Its `--frame-size`.
        frame_size: u32,
        /// Its `--level`.
        level: i32,
    },
}

impl Candidate {
    /// Makes it of the plain copy with its page size, and says where it is.
    pub(crate) fn make(self, sample: &Sample, job: &Job<'_>) -> Result<PathBuf> {
        let plain = sample.plain(self.page_size);
        if self.form == Form::Plain {
            return Ok(plain);
        }
        let path = sample.path("candidate");
        match self.form {
            Form::Plain => {}
            Form::Packed { best } => {
                let options = PackOptions {
                    best,
                    ..PackOptions::default()
                };
                draft::packed(&plain, &path, &options, job)?;
            }
            Form::Archive { frame_size, level } => {
                let options = CreateOptions {
                    frame_size,
                    level,
                    ..CreateOptions::default()
                };
                draft::archived(&plain, &path, &options, job)?;
            }
        }
        job.check()?;
        Ok(path)
    }

    /// Its kind, for people; without the page size.
    pub fn form(self) -> String {
        match self.form {
            Form::Plain => "plain".into(),
            Form::Packed { best: false } => "packed".into(),
            Form::Packed { best: true } => "packed --best".into(),
            Form::Archive { frame_size, level } => {
                let size = match frame_size >> 20 {
                    0 => format!("{} KiB", frame_size >> 10),
                    mib => format!("{mib} MiB"),
                };
                format!("archive, frames of {size}, level {level}")
            }
        }
    }

    /// Its name, for people.
    pub fn name(self) -> String {
        format!("{}, pages of {}", self.form(), self.page_size)
    }

    /// The word for its form.
    pub fn kind(self) -> &'static str {
        match self.form {
            Form::Plain => "plain",
            Form::Packed { .. } => "packed",
            Form::Archive { .. } => "archive",
        }
    }

    /// Whether it is smaller than plain by being compressed.
    pub fn is_compressed(self) -> bool {
        self.form != Form::Plain
    }

    /// Whether the database can be written in it.
    pub fn is_written(self) -> bool {
        !matches!(self.form, Form::Archive { .. })
    }
}

/// The page sizes to try for a database that has `own`.
pub(crate) fn page_sizes(own: u32) -> Vec<u32> {
    let mut sizes = PAGE_SIZES.to_vec();
    if !sizes.contains(&own) {
        sizes.push(own);
    }
    sizes.sort_unstable();
    sizes
}

/// The candidates tried first, for one page size.
pub(crate) fn first(page_size: u32) -> Vec<Candidate> {
    // A frame has at least one page.
    let frame_sizes = FRAME_SIZES.into_iter().filter(|size| *size >= page_size);
    let archives = frame_sizes.map(|frame_size| Form::Archive {
        frame_size,
        level: DEFAULT_LEVEL,
    });
    let forms = [Form::Packed { best: false }].into_iter().chain(archives);
    forms.map(|form| Candidate { page_size, form }).collect()
}

/// The candidates tried next because of one that is on the front.
pub(crate) fn other_levels(found: Candidate) -> Vec<Candidate> {
    let forms = match found.form {
        Form::Plain => Vec::new(),
        Form::Packed { .. } => vec![Form::Packed { best: true }],
        Form::Archive { frame_size, .. } => ARCHIVE_LEVELS
            .map(|level| Form::Archive { frame_size, level })
            .to_vec(),
    };
    let page_size = found.page_size;
    forms
        .into_iter()
        .map(|form| Candidate { page_size, form })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_size_is_tried_once_and_frames_hold_pages() {
        assert_eq!(page_sizes(4096), PAGE_SIZES);
        assert_eq!(page_sizes(8192), [4096, 8192, 16384, 65536]);
        for (page_size, count) in [(512, 5), (4096, 5), (16384, 5), (65536, 4)] {
            assert_eq!(first(page_size).len(), count, "{page_size}");
        }
        for found in first(4096) {
            for other in other_levels(found) {
                assert_ne!(found, other);
                assert_eq!(found.is_written(), other.is_written());
            }
        }
    }
}
