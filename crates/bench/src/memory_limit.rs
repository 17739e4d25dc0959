//! Groups of processes that may use so much memory, their part of the system's page cache included (cgroups of Linux,
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html> and v1).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Where groups are, and the file with their limit.
const KINDS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];
const PROCESSES: &str = "cgroup.procs";
const REMOVE_TRIES: u32 = 200;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// A group. It goes with this value; its processes have to be gone by then.
#[derive(Debug)]
pub struct MemoryLimit {
    folder: PathBuf,
}

impl MemoryLimit {
    /// A group of its own for `bytes` of memory.
    ///
    /// # Errors
    /// Where the system has no such groups, or lets this user make none.
    pub fn new(bytes: u64) -> Result<Self> {
        let mut refused = None;
        for (root, file) in KINDS {
            match Self::in_root(Path::new(root), file, bytes) {
                Ok(limit) => return Ok(limit),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) => Err(error.context("no memory cgroup can be made here")),
            None => bail!("there are no memory cgroups"),
        }
    }

    fn in_root(root: &Path, file: &str, bytes: u64) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("litepack-bench-{}-{number}", std::process::id());
        let folder = root.join(name);
        fs::create_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        let limit = Self { folder };
        let path = limit.folder.join(file);
        ensure!(path.exists(), "{} does not exist", path.display());
        fs::write(&path, bytes.to_string()).with_context(|| format!("{}", path.display()))?;
        Ok(limit)
    }

    /// A command that runs `program` in the group from its beginning.
    pub fn command(&self, program: &Path) -> Command {
        // A process that moves itself before it becomes the program has used next to nothing elsewhere.
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
            .arg(self.folder.join(PROCESSES))
            .arg(program);
        command
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // Processes that the system ended leave the group a little later. A leftover is an empty group.
        for _ in 0..REMOVE_TRIES {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(REMOVE_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use litepack_skip::{Expected, skip};

    /// Where this user may make no groups there is nothing to test.
    #[test]
    fn a_process_that_takes_more_is_ended() {
        let Ok(limit) = MemoryLimit::new(16 << 20) else {
            return skip(Expected::ByChoice, "no memory cgroup can be made here");
        };
        let script = |text: &str| {
            let mut command = limit.command(Path::new("sh"));
            command.args(["-c", text]);
            command.status().unwrap().success()
        };
        assert!(script(
            "test -n \"$(head -c 1000000 /dev/zero | tr '\\0' x)\""
        ));
        assert!(!script(
            "test -n \"$(head -c 60000000 /dev/zero | tr '\\0' x)\""
        ));
        let folder = limit.folder.clone();
        drop(limit);
        assert!(!folder.exists());
    }
}
