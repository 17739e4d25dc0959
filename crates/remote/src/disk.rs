//! Blocks on disk: one file each, named after what it holds, shared by processes without any lock.
//!
//! A file is written beside its place and renamed, and holds a checksum that covers its name: one that is cut, damaged
//! or renamed is a miss, never a wrong block. Nothing is flushed, as nothing is lost with it. Failures to write are
//! not reported either: the block came from the server. Only files with our names are ever looked at or removed. The
//! directory is its owner's alone, and no link in it is followed.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use twox_hash::XxHash3_64;

use litepack_io::cache::BlockKey;

use crate::options::DiskCache;
use litepack_ranges::{BLOCK_SIZE, KeepBlocks};
use litepack_ranges::{Error, Result};

const MAGIC: [u8; 8] = *b"lpblock1";
const SUM_LEN: usize = 8;
const SUFFIX: &str = ".lpblock";
const UNFINISHED: &str = ".lptmp";
/// Bytes written into the directory between two looks at its size, as a share of the limit.
const SHARE: u64 = 16;
/// A block that is used gets a new time when its own is older than this.
const TOUCH_AFTER: Duration = Duration::from_secs(600);
/// A file begun by any process and not finished within this time is removed.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// A directory of blocks.
#[derive(Debug)]
pub(crate) struct Disk {
    directory: PathBuf,
    limit: u64,
    /// Bytes that may be written before the directory's size is looked at.
    until_tidy: AtomicU64,
}

impl Disk {
    /// Makes the directory if it is not there, for its owner alone.
    pub(crate) fn open(settings: &DiskCache) -> Result<Disk> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // Defects of a directory that exists are reported below.
        if let Err(error) = builder.create(&settings.directory)
            && fs::symlink_metadata(&settings.directory).is_err()
        {
            let path = settings.directory.display();
            return Err(Error::Settings(format!("cache directory {path}: {error}")));
        }
        settings.check()?;
        let directory = settings.directory.canonicalize();
        Ok(Disk {
            // The directory that was checked, even if links on the way there change later.
            directory: directory.unwrap_or_else(|_| settings.directory.clone()),
            limit: settings.limit,
            until_tidy: AtomicU64::new(0),
        })
    }

    fn path(&self, key: &BlockKey) -> PathBuf {
        self.directory
            .join(format!("{:032x}-{:x}{SUFFIX}", key.file, key.block))
    }
}

impl KeepBlocks for Disk {
    /// Whether there is such a file, whatever its content.
    fn has(&self, key: &BlockKey) -> bool {
        fs::symlink_metadata(self.path(key)).is_ok_and(|data| data.is_file())
    }

    /// The block, which has this length, if it is here and undamaged.
    fn get(&self, key: &BlockKey, len: usize) -> Option<Vec<u8>> {
        let file = open(&self.path(key)).ok()?;
        let mut bytes = Vec::with_capacity(MAGIC.len() + len + SUM_LEN + 1);
        let expected = MAGIC.len() + len + SUM_LEN;
        (&file)
            .take(expected as u64 + 1)
            .read_to_end(&mut bytes)
            .ok()?;
        if bytes.len() != expected || !bytes.starts_with(&MAGIC) {
            return None;
        }
        let stored = bytes.split_off(MAGIC.len() + len);
        bytes.drain(..MAGIC.len());
        if stored != sum(key, &bytes).to_le_bytes() {
            return None;
        }
        let old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > TOUCH_AFTER);
        if file
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(old)
        {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Keeps a block, if that works.
    fn put(&self, key: &BlockKey, block: &[u8]) {
        let size = (MAGIC.len() + block.len() + SUM_LEN) as u64;
        let counted = |left: u64| left.checked_sub(size);
        if self
            .until_tidy
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted)
            .is_err()
        {
            self.tidy();
            self.until_tidy
                .store((self.limit / SHARE).saturating_sub(size), Ordering::Relaxed);
        }
        if size > self.limit {
            return;
        }
        let beside = unfinished(&self.directory);
        let written = write(&beside, key, block).and_then(|()| fs::rename(&beside, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
    }

    /// Removes a block.
    fn remove(&self, key: &BlockKey) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Removes all blocks of a file.
    fn remove_all(&self, file: u128) {
        let prefix = format!("{file:032x}-");
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(&prefix) && name.ends_with(SUFFIX) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Disk {
    /// Removes what was not used for longest until there is room for what comes before the next look.
    fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        let mut blocks = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(data) = entry.metadata() else { continue };
            let Ok(modified) = data.modified() else {
                continue;
            };
            if name.ends_with(SUFFIX) {
                blocks.push((modified, data.len(), entry.path()));
            } else if name.ends_with(UNFINISHED)
                && modified.elapsed().is_ok_and(|age| age > ABANDONED_AFTER)
            {
                let _ = fs::remove_file(entry.path());
            }
        }
        blocks.sort_unstable();
        let mut total: u64 = blocks.iter().map(|(_, len, _)| len).sum();
        let aim = self.limit - (self.limit / SHARE).max(BLOCK_SIZE * 2).min(self.limit);
        for (_, len, path) in blocks {
            if total <= aim {
                break;
            }
            let _ = fs::remove_file(path);
            total -= len;
        }
    }
}

impl DiskCache {
    /// Whether the directory is there, and is ours alone.
    ///
    /// # Errors
    /// [`Error::Settings`], with what is wrong with it.
    pub fn check(&self) -> Result<()> {
        let failed = |why: &str| {
            let path = self.directory.display();
            Error::Settings(format!("cache directory {path}: {why}"))
        };
        let io = |error: std::io::Error| failed(&error.to_string());
        let data = fs::symlink_metadata(&self.directory).map_err(io)?;
        if data.is_symlink() {
            return Err(failed("it is a link; give the directory itself"));
        }
        if !data.is_dir() {
            return Err(failed("it is not a directory"));
        }
        #[cfg(unix)]
        self.check_owner(&data).map_err(|why| failed(&why))?;
        Ok(())
    }

    #[cfg(unix)]
    fn check_owner(&self, data: &fs::Metadata) -> std::result::Result<(), String> {
        use std::os::unix::fs::MetadataExt as _;
        const GROUP_AND_OTHERS: u32 = 0o077;
        const OTHERS_WRITE: u32 = 0o002;
        /// Others may not rename or remove what is not theirs.
        const STICKY: u32 = 0o1000;
        if data.mode() & GROUP_AND_OTHERS != 0 {
            return Err("it is open to others; chmod 700 makes it yours alone".into());
        }
        // Who owns what we make is us: the standard library has no other way to ask.
        let probe = unfinished(&self.directory);
        let made = create(&probe).and_then(|file| file.metadata());
        let _ = fs::remove_file(&probe);
        let made = made.map_err(|error| format!("it cannot be written into: {error}"))?;
        if made.uid() != data.uid() {
            return Err("it belongs to another user".into());
        }
        // A user who can rename a directory above it can put another one in its place.
        let path = self
            .directory
            .canonicalize()
            .map_err(|error| error.to_string())?;
        for above in path.ancestors().skip(1) {
            let mode = fs::metadata(above)
                .map_err(|error| error.to_string())?
                .mode();
            if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
                return Err(format!("everyone can write into {}", above.display()));
            }
        }
        Ok(())
    }
}

/// A name for what is not finished yet, that no one else uses.
fn unfinished(directory: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Containers that share a directory may have the same number of a process.
    let (process, chance) = (std::process::id(), getrandom::u64().unwrap_or_default());
    directory.join(format!("{process:x}-{number:x}-{chance:x}{UNFINISHED}"))
}

/// Opens a file to read it, and nothing but a file.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        // Else one could wait for a writer that never comes.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::ErrorKind::InvalidInput.into()),
    }
}

/// Makes a file for its owner alone.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write(path: &Path, key: &BlockKey, block: &[u8]) -> std::io::Result<()> {
    let mut file = create(path)?;
    let mut bytes = Vec::with_capacity(MAGIC.len() + block.len() + SUM_LEN);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(block);
    bytes.extend_from_slice(&sum(key, block).to_le_bytes());
    file.write_all(&bytes)
}

/// Over the bytes and over which block they are.
fn sum(key: &BlockKey, block: &[u8]) -> u64 {
    let mut name = [0; 24];
    name[..16].copy_from_slice(&key.file.to_le_bytes());
    name[16..].copy_from_slice(&key.block.to_le_bytes());
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&name), block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u64) -> BlockKey {
        BlockKey { file: 7, block }
    }

    fn disk(directory: &Path, limit: u64) -> Disk {
        let directory = directory.join("blocks");
        Disk::open(&DiskCache { directory, limit }).unwrap()
    }

    #[test]
    fn every_damage_is_a_miss() {
        let directory = tempfile::tempdir().unwrap();
        let disk = disk(directory.path(), 1 << 20);
        let block: Vec<u8> = (0..100).collect();
        disk.put(&key(1), &block);
        assert_eq!(disk.get(&key(1), 100).as_deref(), Some(block.as_slice()));
        assert_eq!(disk.get(&key(1), 99), None);
        assert_eq!(disk.get(&key(1), 101), None);
        let good = fs::read(disk.path(&key(1))).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(disk.path(&key(1)), &bad).unwrap();
            assert_eq!(disk.get(&key(1), 100), None, "byte {at}");
            fs::write(disk.path(&key(1)), &good[..at]).unwrap();
            assert_eq!(disk.get(&key(1), 100), None, "cut at {at}");
        }
        // Another block's file under this name.
        fs::write(disk.path(&key(1)), &good).unwrap();
        fs::rename(disk.path(&key(1)), disk.path(&key(2))).unwrap();
        assert_eq!(disk.get(&key(2), 100), None);
    }

    #[test]
    fn the_limit_holds_and_the_oldest_go_first_and_strangers_stay() {
        let directory = tempfile::tempdir().unwrap();
        let limit = 4 << 20;
        let disk = disk(directory.path(), limit);
        let stranger = disk.directory.join("notes.txt");
        fs::write(&stranger, vec![0; 1 << 20]).unwrap();
        let abandoned = disk.directory.join(format!("1-1{UNFINISHED}"));
        fs::write(&abandoned, "x").unwrap();
        let long_ago = SystemTime::now() - 2 * ABANDONED_AFTER;
        File::options()
            .write(true)
            .open(&abandoned)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        let used = || -> u64 {
            let files = fs::read_dir(&disk.directory).unwrap().flatten();
            files
                .filter(|file| file.file_name().to_string_lossy().ends_with(SUFFIX))
                .map(|file| file.metadata().unwrap().len())
                .sum()
        };
        let block = vec![1; BLOCK_SIZE as usize];
        for number in 0..200 {
            disk.put(&key(number), &block);
            let file = File::options()
                .write(true)
                .open(disk.path(&key(number)))
                .unwrap();
            file.set_modified(long_ago + Duration::from_secs(number))
                .unwrap();
            assert!(used() <= limit, "{} after block {number}", used());
            // The first block is in use all the time.
            assert!(
                disk.get(&key(0), block.len()).is_some(),
                "after block {number}"
            );
        }
        assert!(used() > limit / 2);
        assert!(!disk.has(&key(1)) && disk.has(&key(199)));
        assert!(stranger.exists() && !abandoned.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_is_open_to_others_is_refused() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let place = tempfile::tempdir().unwrap();
        let allow = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let check = |path: &Path| {
            let directory = path.to_owned();
            let cache = DiskCache {
                directory,
                limit: 1 << 20,
            };
            let opened = Disk::open(&cache).map(|_| ());
            let checked = cache.check();
            assert_eq!(opened.is_ok(), checked.is_ok());
            checked.map_err(|error| error.to_string())
        };
        let (mine, link, file) = (
            place.path().join("mine"),
            place.path().join("link"),
            place.path().join("file"),
        );
        fs::create_dir(&mine).unwrap();
        allow(&mine, 0o700);
        symlink(&mine, &link).unwrap();
        fs::write(&file, "").unwrap();
        assert!(check(&link).unwrap_err().contains("it is a link"));
        assert!(check(&file).unwrap_err().contains("not a directory"));
        for (mode, is_right) in [
            (0o700, true),
            (0o755, false),
            (0o711, false),
            (0o740, false),
            (0o775, false),
            (0o757, false),
            (0o1777, false),
        ] {
            allow(&mine, mode);
            assert_eq!(check(&mine).is_ok(), is_right, "{mode:o}");
        }
        allow(&mine, 0o700);
        // Nor may one above be for everyone, unless users can only remove their own files there.
        for (mode, is_right) in [(0o777, false), (0o1777, true), (0o700, true)] {
            allow(place.path(), mode);
            assert_eq!(check(&mine).is_ok(), is_right, "{mode:o} above");
        }
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_kept_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let disk = disk(directory.path(), 1 << 20);
        disk.put(&key(1), b"secret");
        for path in [disk.directory.clone(), disk.path(&key(1))] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_and_pipes_are_no_blocks() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let directory = tempfile::tempdir().unwrap();
        let disk = disk(directory.path(), 1 << 20);
        disk.put(&key(1), b"block");
        let elsewhere = directory.path().join("elsewhere");
        fs::rename(disk.path(&key(1)), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, disk.path(&key(1))).unwrap();
        assert!(!disk.has(&key(1)));
        assert_eq!(disk.get(&key(1), 5), None);
        // A block that is put replaces the link, and is not written through it.
        disk.put(&key(1), b"other");
        assert_eq!(disk.get(&key(1), 5).as_deref(), Some(&b"other"[..]));
        assert!(
            fs::read(&elsewhere)
                .unwrap()
                .ends_with(&sum(&key(1), b"block").to_le_bytes())
        );
        let (pipe, mode) = (disk.path(&key(2)), Mode::from_raw_mode(0o600));
        mknodat(CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        assert!(!disk.has(&key(2)));
        assert_eq!(disk.get(&key(2), 5), None);
    }

    /// As several processes do, with a limit that has each remove what others have just written.
    #[test]
    fn those_who_share_a_directory_get_right_blocks_or_none() {
        let directory = tempfile::tempdir().unwrap();
        let block = |number: u64| vec![number as u8; 60_000];
        let hits = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for seed in 0..6u64 {
                let disk = disk(directory.path(), 1 << 20);
                let (block, hits) = (&block, &hits);
                scope.spawn(move || {
                    for step in 0..200u64 {
                        let number = (seed * 7 + step * 5) % 30;
                        match disk.get(&key(number), 60_000) {
                            Some(found) => {
                                assert!(found == block(number));
                                hits.fetch_add(1, Ordering::Relaxed);
                            }
                            None => disk.put(&key(number), &block(number)),
                        }
                    }
                });
            }
        });
        assert!(hits.load(Ordering::Relaxed) > 0);
        let disk = disk(directory.path(), 1 << 20);
        let left = fs::read_dir(&disk.directory).unwrap().flatten();
        assert!(
            left.into_iter()
                .all(|file| file.file_name().to_string_lossy().ends_with(SUFFIX))
        );
    }
}
