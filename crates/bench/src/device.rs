//! A block device of its own, in a file: what is written to it is counted by the system, sector by sector.
//!
//! The system's count for a process is in whole pages of memory, several times too much. Only a device tells what a
//! file system has given it, its own journal included.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::fs::{major, minor, syncfs};

use crate::command::run;

/// The system counts in these, whatever a device has.
const SECTOR: u64 = 512;
/// In the device's `stat`: how many sectors were written.
const WRITTEN: usize = 6;
/// More than the works write into files; the file that holds the device has holes.
const CAPACITY: u64 = 2 << 30;

/// A loop device with ext4, as it is by default. It goes with this value.
#[derive(Debug)]
pub struct Device {
    folder: PathBuf,
    counter: PathBuf,
}

impl Device {
    /// Makes one in `scratch`.
    ///
    /// # Errors
    /// Where the system has no such devices, or lets this user make none.
    pub fn new(scratch: &Path) -> Result<Self> {
        let image = scratch.join("device.img");
        let folder = scratch.join("device");
        File::create(&image)?.set_len(CAPACITY)?;
        fs::create_dir_all(&folder)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        run(Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, &folder]))?;
        let dev = fs::metadata(&folder)?.dev();
        let counter = format!("/sys/dev/block/{}:{}/stat", major(dev), minor(dev));
        let device = Self {
            folder,
            counter: counter.into(),
        };
        device.written_bytes()?;
        Ok(device)
    }

    /// Where files on it are made.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes written to the device so far, with all that the system still had in memory.
    ///
    /// # Errors
    /// Those of the system.
    pub fn written_bytes(&self) -> Result<u64> {
        syncfs(File::open(&self.folder)?)?;
        let stat = fs::read_to_string(&self.counter)?;
        let sectors = stat.split_whitespace().nth(WRITTEN);
        let sectors: u64 = sectors
            .with_context(|| format!("{} tells nothing", self.counter.display()))?
            .parse()?;
        Ok(sectors * SECTOR)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Mounted with `-o loop`, the device goes with it. A leftover is seen by the one who runs this.
        if let Err(error) = run(Command::new("umount").arg(&self.folder)) {
            eprintln!("warning: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_skip::{Expected, skip};
    use std::io::Write as _;

    /// Where this user may make none there is nothing to test.
    #[test]
    fn what_is_written_is_counted() {
        const BYTES: usize = 1 << 20;
        let scratch = tempfile::tempdir().unwrap();
        let device = match Device::new(scratch.path()) {
            Ok(device) => device,
            Err(error) => return skip(Expected::ByChoice, format!("{error:#}")),
        };
        let before = device.written_bytes().unwrap();
        let mut file = File::create(device.folder().join("file")).unwrap();
        file.write_all(&vec![7; BYTES]).unwrap();
        let written = device.written_bytes().unwrap() - before;
        assert!(written >= BYTES as u64, "{written}");
        drop(file);
        let folder = device.folder().to_owned();
        drop(device);
        assert!(!folder.join("file").exists());
    }
}
