//! How much memory the machine has, and how much of it this process may take.
//!
//! A container is a control group with a limit of its own, and so may be any group above it; of both versions:
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html> (`memory.max`, `memory.high`),
//! <https://docs.kernel.org/admin-guide/cgroup-v1/memory.html> (`memory.limit_in_bytes`).

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Memory of the machine.
    pub(crate) machine: u64,
    /// The least that a group of the process may take, if any has a limit.
    group: Option<u64>,
    /// Bytes that the process may map, if there is a limit: it is asked for one (`ulimit -v`, `ulimit -d`), or its
    /// addresses end.
    mapped: Option<u64>,
    /// The system counts all that is mapped as if it were used (`vm.overcommit_memory=2`).
    counts_all: bool,
}

/// The memory, in bytes, for pages that the system can take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// If that is enough for all of them.
    pub(crate) all: u64,
    /// If it is not.
    pub(crate) part: u64,
}

/// The memory assumed for a machine that does not say how much it has.
const UNKNOWN: u64 = 1 << 30;
/// The bytes that a process can have addresses for: with 32 bits some 2 GiB everywhere, and there may be much more memory.
const ADDRESSES: u64 = isize::MAX as u64;
/// The bytes of a container left free at least, unless that is more than a quarter.
const KEPT_MIN: u64 = 16 << 20;

/// [`Limits::memory`] as it was when last looked at; 0 before that.
static MEMORY: AtomicU64 = AtomicU64::new(0);

/// The bytes of memory that this process and the files it reads may take together, as it was when last looked at.
pub fn memory() -> u64 {
    match MEMORY.load(Ordering::Relaxed) {
        0 => Limits::now().memory(),
        known => known,
    }
}

/// Milliseconds from one look at the limits to the next.
const LOOK_AFTER: u64 = 1000;

/// Looks at the limits again, once in a second at most: a process may be put into another group, and a group may get
/// another limit. The new ones if they are not those of the last look.
pub(crate) fn changed() -> Option<Limits> {
    // No clock, and no groups either.
    if crate::platform::IS_BARE {
        return None;
    }
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    let elapsed = BEGUN.get_or_init(Instant::now).elapsed().as_millis();
    let now = u64::try_from(elapsed).ok()?;
    let looked = LOOKED.load(Ordering::Relaxed);
    if now < looked + LOOK_AFTER {
        return None;
    }
    LOOKED.store(now, Ordering::Relaxed);
    let before = memory();
    // A process that may no longer look knows what it knew.
    machine(Path::new("/"))?;
    groups(Path::new("/"))?;
    let limits = Limits::now();
    (limits.memory() != before).then_some(limits)
}

/// For tests: the limit of a container, in bytes, from now on.
#[cfg(any(test, feature = "testing"))]
pub fn pretend(memory: u64) {
    PRETENDED.store(memory, Ordering::Relaxed);
    MEMORY.store(0, Ordering::Relaxed);
}

#[cfg(any(test, feature = "testing"))]
static PRETENDED: AtomicU64 = AtomicU64::new(0);

#[cfg(any(test, feature = "testing"))]
fn pretended() -> Option<u64> {
    Some(PRETENDED.load(Ordering::Relaxed)).filter(|memory| *memory > 0)
}

#[cfg(not(any(test, feature = "testing")))]
fn pretended() -> Option<u64> {
    None
}

impl Limits {
    /// Those of now.
    pub(crate) fn now() -> Limits {
        let limits = Limits::under(Path::new("/"));
        let limits = Limits {
            mapped: mapped().into_iter().chain([ADDRESSES]).min(),
            group: pretended().or(limits.group),
            ..limits
        };
        // To look again takes a tenth of what opening a file does.
        MEMORY.store(limits.memory(), Ordering::Relaxed);
        limits
    }

    /// Bytes that this process and the files it reads may take together.
    pub(crate) fn memory(&self) -> u64 {
        self.group.unwrap_or(self.machine)
    }

    /// Those that the files under `root` tell.
    fn under(root: &Path) -> Limits {
        let machine = machine(root).unwrap_or(UNKNOWN);
        let overcommit = std::fs::read_to_string(root.join("proc/sys/vm/overcommit_memory"));
        Limits {
            machine,
            group: group(root).filter(|limit| *limit < machine),
            mapped: None,
            counts_all: overcommit.is_ok_and(|mode| mode.trim() == "2"),
        }
    }

    /// The share of that memory for pages that the system can take back; `None` if mapped memory counts as used. It is
    /// the least of three. Half the machine, as others use it too. Three quarters of a container, which holds nothing
    /// else, or nearly all of it if then no page is missing. A quarter of the memory that may be mapped, as mappings
    /// are never given back.
    pub(crate) fn share(&self) -> Option<Share> {
        let least = |group: Option<u64>| {
            let shares = [
                Some(self.machine / 2),
                group,
                self.mapped.map(|mapped| mapped / 4),
            ];
            shares.into_iter().flatten().min()
        };
        let share = Share {
            all: least(self.group.map(nearly_all))?,
            part: least(self.group.map(|group| group / 4 * 3))?,
        };
        Some(share).filter(|_| !self.counts_all)
    }
}

/// The bytes of a container for pages, if all of them fit. A part is left free: a sixteenth, or 16 MiB if that is more,
/// but at most a quarter. That is less than all else needs. The system then takes back the pages, and parts of files,
/// that were not used for longest.
fn nearly_all(group: u64) -> u64 {
    let kept = (group / 16).max(KEPT_MIN).min(group / 4);
    group - kept
}

#[cfg(target_os = "linux")]
fn mapped() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    let limits = [Resource::As, Resource::Data].map(|resource| getrlimit(resource).current);
    limits.into_iter().flatten().min()
}

#[cfg(not(target_os = "linux"))]
fn mapped() -> Option<u64> {
    None
}

fn machine(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn groups(root: &Path) -> Option<String> {
    std::fs::read_to_string(root.join("proc/self/cgroup")).ok()
}

fn group(root: &Path) -> Option<u64> {
    let text = groups(root)?;
    // "hierarchy:controllers:path"
    let groups = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let limits = groups.flat_map(|(controllers, path)| match controllers {
        "" => ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
            .into_iter()
            .flat_map(|top| {
                // Above the second the system slows a process down instead of ending it.
                ["memory.max", "memory.high"].map(|file| least(&root.join(top), path, file))
            })
            .collect(),
        _ if controllers.split(',').any(|name| name == "memory") => {
            let top = root.join("sys/fs/cgroup/memory");
            vec![least(&top, path, "memory.limit_in_bytes")]
        }
        _ => Vec::new(),
    });
    limits.flatten().min()
}

/// The least limit of a group and all above it. Within a container the path may be that outside; its own group is then
/// at the top.
fn least(top: &Path, path: &str, file: &str) -> Option<u64> {
    let group: PathBuf = top.join(path.trim_start_matches('/'));
    let above = group.ancestors().take_while(|group| group.starts_with(top));
    above
        .filter_map(|group| {
            let text = std::fs::read_to_string(group.join(file)).ok()?;
            text.trim().parse().ok()
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits(files: &[(&str, &str)]) -> Limits {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Limits::under(root.path())
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal:        1048576 kB\nMemFree: 1 kB\n",
    );

    fn either(all: u64, part: u64) -> Option<Share> {
        let (all, part) = (all * MIB, part * MIB);
        Some(Share { all, part })
    }

    fn same(share: u64) -> Option<Share> {
        either(share, share)
    }

    /// A program that has taken all its addresses cannot map what the host needs, however much memory there is.
    #[test]
    fn most_of_the_addresses_are_left_to_the_host() {
        let part = isize::MAX as u64 / 4;
        let share = Limits::now().share();
        let is_least = share.is_none_or(|share| share.all.max(share.part) <= part);
        assert!(is_least, "{share:?}");
    }

    #[test]
    fn a_container_keeps_a_little_for_all_else() {
        for (group, share) in [(32, 24), (64, 48), (128, 112), (256, 240), (4096, 3840)] {
            assert_eq!(nearly_all(group * MIB), share * MIB);
        }
        assert_eq!(nearly_all(0), 0);
    }

    #[test]
    fn without_a_group_it_is_half_the_machine() {
        assert_eq!(limits(&[MEMINFO]).share(), same(512));
        let unlimited = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a\n4:memory:/b\n"),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
            (
                "sys/fs/cgroup/memory/b/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ];
        assert_eq!(limits(&unlimited).share(), same(512));
        assert_eq!(limits(&[]).machine, UNKNOWN);
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let second = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "104857600\n"),
            ("sys/fs/cgroup/a/b/memory.max", "209715200\n"),
        ];
        assert_eq!(limits(&second).share(), either(84, 75));
        let first = [
            MEMINFO,
            (
                "proc/self/cgroup",
                "9:cpu:/x\n4:cpuset,memory:/docker/b\n0::/\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "83886080\n"),
        ];
        assert_eq!(limits(&first).share(), either(64, 60));
    }

    #[test]
    fn what_is_mapped_is_limited_or_counts() {
        let mapped = Limits {
            mapped: Some(400 * MIB),
            ..limits(&[MEMINFO])
        };
        assert_eq!(mapped.share(), same(100));
        let strict = [MEMINFO, ("proc/sys/vm/overcommit_memory", "2\n")];
        assert_eq!(limits(&strict).share(), None);
        let slowed = [
            MEMINFO,
            ("proc/self/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.high", "104857600\n"),
        ];
        assert_eq!(limits(&slowed).share(), either(84, 75));
    }

    #[test]
    fn this_machine_says_what_it_has() {
        if cfg!(target_os = "linux") {
            let limits = Limits::now();
            assert!(limits.machine > 64 * MIB && limits.machine != UNKNOWN);
        }
    }
}
