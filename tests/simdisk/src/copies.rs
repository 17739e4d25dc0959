//! Copies of a database and of its WAL that were taken at different moments, put together.
//!
//! A program that restores, moves or clones a database may do that. The database then holds a state that it had once:
//! that of the copy, or a later one that the WAL makes of it; or opening it is an error. It is never a mixture.

use crate::crash::CrashMode;
use crate::disk::{Images, SimDisk};
use crate::driver::{Layer, Stack, run};
use crate::inspect::recover;
use crate::workload::Workload;
use litepack_io::random::SplitMix64;

/// The result of [`copies_campaign`].
#[derive(Debug, Default)]
pub struct CopiesReport {
    /// Pairs of copies that were opened.
    pub pairs: u64,
    /// Those in which the WAL was not applied, and set aside.
    pub refused: u64,
    /// Those that were answered with an error: the file is in the midst of a checkpoint, and the WAL is not the one.
    pub errors: u64,
    /// What was wrong, in words.
    pub failures: Vec<String>,
}

/// Runs the workload, and puts together copies of `main.db` and of its WAL from so many random pairs of moments, each of
/// the two the earlier one in half of them. Files that are set aside have this text in their names.
///
/// # Panics
/// If the workload fails.
pub fn copies_campaign(
    work: &Workload,
    pairs: u64,
    (wal, aside): (&str, &str),
    seed: u64,
    layer: &dyn Fn(&str) -> Layer,
) -> CopiesReport {
    let disk = SimDisk::new();
    let log = {
        let stack = Stack::new(&disk, layer);
        run(&disk, &stack, work).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
    };
    let mut random = SplitMix64::derived(seed, 11);
    let ops = disk.op_count();
    let mut moments: Vec<u64> = (0..pairs.min(ops)).map(|_| random.below(ops + 1)).collect();
    moments.sort_unstable();
    let killed = |op: &u64| (*op, disk.crash_images(*op, CrashMode::KeepAll, seed));
    let states: Vec<(u64, Images)> = moments.iter().map(killed).collect();
    let wal_name = format!("/main.db{wal}");
    let mut report = CopiesReport::default();
    for _ in 0..pairs {
        let [(of_file, file), (of_wal, other)] =
            [(); 2].map(|()| &states[random.below(states.len() as u64) as usize]);
        let mut images = file.clone();
        // A file alone, copied in the midst of a checkpoint, is none: plain SQLite's, too.
        let Some(content) = other.get(&wal_name).filter(|content| !content.is_empty()) else {
            continue;
        };
        images.insert(wal_name.clone(), content.clone());
        report.pairs += 1;
        let copy = SimDisk::from_images(images);
        let stack = Stack::new(&copy, layer);
        let found = recover(&stack, work);
        report.refused += u64::from(copy.names().iter().any(|name| name.contains(aside)));
        let wrong = match found {
            Ok(found) if log.states.contains(&found) => continue,
            Ok(_) => "a state that never was".to_owned(),
            Err(error) if error.contains("disk I/O error") => {
                report.errors += 1;
                continue;
            }
            Err(error) => error,
        };
        report.failures.push(format!(
            "seed {seed}, the file after {}, the WAL after {}: {wrong}",
            disk.describe(*of_file),
            disk.describe(*of_wal)
        ));
    }
    report
}
