//! Names the machine that a run is from: figures without it say nothing.
//!
//! The kind of file system and the time of one flush matter most to durable commits; both are of
//! the folder that the databases are in. No path and no host name is told.

use std::fs::File;
use std::hash::Hasher as _;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use sysinfo::{Disk, Disks, System};

use crate::stats::Summary;

/// The machine and the versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores that this program may use.
    pub cores: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// Operating system and kernel.
    pub system: String,
    /// Of the databases' folder.
    pub file_system: String,
    /// Milliseconds to append 4 KiB and flush them there.
    pub flush_milliseconds: f64,
    /// Of the library that all engines run in.
    pub sqlite: String,
    /// Of Litepack.
    pub litepack: String,
    /// A hash of this program.
    pub program: String,
    /// UTC.
    pub date: String,
}

impl Machine {
    /// Looks around; `folder` is where the databases are.
    pub fn look(folder: &Path) -> Result<Self> {
        let system = System::new_all()?;
        let unknown = || "unknown".to_string();
        let name = System::long_os_version().ok().unwrap_or_else(unknown);
        let kernel = System::kernel_version().ok().unwrap_or_else(unknown);
        Ok(Self {
            cpu: system
                .cpus()
                .first()
                .map_or_else(unknown, |cpu| cpu.brand().trim().into()),
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            memory_bytes: system.total_memory(),
            system: format!("{name}, kernel {kernel}"),
            file_system: file_system(folder).unwrap_or_else(unknown),
            flush_milliseconds: flush_milliseconds(folder)?,
            sqlite: rusqlite::version().into(),
            litepack: env!("CARGO_PKG_VERSION").into(),
            program: hash_of(&std::env::current_exe()?)?,
            date: time::OffsetDateTime::now_utc().date().to_string(),
        })
    }

    /// Whether figures of both may stand in one table.
    pub fn is_like(&self, other: &Self) -> bool {
        let what = |machine: &Self| Self {
            flush_milliseconds: 0.0,
            date: String::new(),
            ..machine.clone()
        };
        what(self) == what(other)
    }

    /// Its figures as text, label by label.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let memory = format!("{:.0} GiB", self.memory_bytes as f64 / f64::from(1 << 30));
        let flush = format!("{:.2} ms for 4 KiB", self.flush_milliseconds);
        vec![
            ("Processor", format!("{}, {} cores", self.cpu, self.cores)),
            ("Memory", memory),
            ("System", self.system.clone()),
            ("File system", self.file_system.clone()),
            ("One flush", flush),
            ("SQLite", self.sqlite.clone()),
            ("Litepack", self.litepack.clone()),
            ("Date", self.date.clone()),
        ]
    }
}

/// The bytes that may still be written in a folder, if the system tells.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    on_disk_of(folder, |disk| disk.available_space())
}

/// The kind of file system a folder is on.
pub fn file_system(folder: &Path) -> Option<String> {
    on_disk_of(folder, |disk| {
        disk.file_system().to_string_lossy().into_owned()
    })
}

/// Asks the disk whose mount point is the longest beginning of the folder's path.
fn on_disk_of<T>(folder: &Path, ask: impl Fn(&Disk) -> T) -> Option<T> {
    let folder = folder.canonicalize().ok()?;
    let disks = Disks::new_with_refreshed_list().ok()?;
    let disk = disks
        .iter()
        .filter(|disk| folder.starts_with(disk.mount_point()))
        .max_by_key(|disk| disk.mount_point().as_os_str().len())?;
    Some(ask(disk))
}

/// Tells programs apart.
fn hash_of(file: &Path) -> Result<String> {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&std::fs::read(file)?);
    Ok(format!("{:016x}", hasher.finish()))
}

fn flush_milliseconds(folder: &Path) -> Result<f64> {
    let path = folder.join("flush-probe");
    let mut file = File::create(&path)?;
    let mut times = Vec::new();
    for _ in 0..50 {
        file.write_all(&[1; 4096])?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    std::fs::remove_file(path)?;
    Ok(Summary::of(&times).map_or(0.0, |times| times.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::look(folder.path()).unwrap();
        assert!(!machine.cpu.is_empty() && machine.cores > 0 && machine.memory_bytes > 0);
        assert_eq!(machine.date.len(), 10);
        assert!(free_bytes(folder.path()) > Some(0));
    }
}
