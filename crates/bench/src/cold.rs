//! Cold caches: makes the operating system forget a file, and Litepack its pages, so that the next reads wait for the
//! disk.
//!
//! The system's cache of all files is dropped where that is permitted (Linux, as root); else the system is advised to
//! forget the one file. The effect is looked up: after reading a file anew, the system must have fetched it from the
//! disk. Memory of the disk, or of the host of a virtual machine, keeps its content.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use litepack_store::Cache as Pages;
use serde::{Deserialize, Serialize};

use crate::rows::Cache;

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// The content of files. Their names stay known: what finding a file costs is not the question.
const CONTENT: &str = "1\n";
/// More than the pages of this program that the system may have to read again meanwhile.
const PROBE_LEN: usize = 8 << 20;

/// A way that works.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Cold {
    /// Everything.
    Drop,
    /// One file.
    Advise,
}

impl Cold {
    /// Finds a way for files in this folder.
    ///
    /// # Errors
    /// If there is none, with the reason.
    pub fn find(folder: &Path) -> Result<Self> {
        let way = match std::fs::write(DROP_CACHES, CONTENT) {
            Ok(()) => Self::Drop,
            Err(_) => Self::Advise,
        };
        let probe = folder.join("cold-probe");
        let works = way.works(&probe);
        // A leftover goes with the folder.
        let _ = std::fs::remove_file(&probe);
        ensure!(
            works?,
            "reading a file again did not reach the disk: its file system keeps it in memory"
        );
        Ok(way)
    }

    fn works(self, probe: &Path) -> Result<bool> {
        std::fs::write(probe, vec![1; PROBE_LEN])?;
        self.forget(probe)?;
        let before = fetched()?;
        std::fs::read(probe)?;
        Ok(fetched()? - before >= PROBE_LEN as u64)
    }

    /// Flushes a file and makes the system forget what it holds of it, and Litepack what it keeps of files that are
    /// closed.
    ///
    /// # Errors
    /// The system's.
    pub fn forget(self, path: &Path) -> Result<()> {
        File::open(path)?.sync_all()?;
        match self {
            Self::Drop => std::fs::write(DROP_CACHES, CONTENT)?,
            Self::Advise => advise(path)?,
        }
        Pages::shared().clear();
        Ok(())
    }

    /// As reports say it.
    pub const fn state(self) -> Cache {
        match self {
            Self::Drop => Cache::ColdDropped,
            Self::Advise => Cache::ColdAdvised,
        }
    }
}

/// How many bytes this thread had the disk read so far.
fn fetched() -> Result<u64> {
    let counts = std::fs::read_to_string("/proc/thread-self/io")
        .context("this system does not tell what it reads from disks")?;
    let line = counts
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(line.context("the system counts no reads")?.parse()?)
}

#[cfg(target_os = "linux")]
fn advise(path: &Path) -> Result<()> {
    use rustix::fs::{Advice, fadvise};
    Ok(fadvise(File::open(path)?, 0, None, Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
fn advise(_path: &Path) -> Result<()> {
    anyhow::bail!("this system takes no advice to forget a file")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::file_system;
    use litepack_skip::{Expected, skip};

    /// Beside this program, since the folder for temporary files may be in memory.
    #[test]
    fn a_forgotten_file_is_read_from_the_disk() {
        let program = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let path = folder.path().join("a.db");
        std::fs::write(&path, vec![7; 3 * PROBE_LEN]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let cold = match Cold::find(folder.path()) {
            Ok(cold) => cold,
            Err(error) => {
                let on = file_system(folder.path()).unwrap_or_default();
                assert!(!["ext4", "xfs", "btrfs"].contains(&&*on), "{on}: {error}");
                return skip(Expected::ByChoice, format!("{on}: {error}"));
            }
        };
        let reading = || {
            let before = fetched().unwrap();
            std::fs::read(&path).unwrap();
            fetched().unwrap() - before
        };
        // Another process may have all caches dropped in between, but not each time.
        let remembered = (0..9).any(|_| reading() == 0);
        assert!(remembered, "a file that was just read is in memory");
        cold.forget(&path).unwrap();
        assert!(reading() >= 3 * PROBE_LEN as u64);
    }

    #[test]
    fn a_file_system_in_memory_is_recognised() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            return skip(Expected::ByChoice, "no folder in /dev/shm");
        };
        assert!(Cold::find(folder.path()).is_err());
    }
}
