//! The campaigns that plain SQLite and a layer over it both have to pass: what to crash and what to fail,
//! with what promise. The tests name the layer; this says what is done to it.

use crate::campaign::{Campaign, Durability, Points, Report, crash_campaign};
use crate::crash::CrashMode;
use crate::driver::Layer;
use crate::fault::{Call, CallSet, Fault, FaultError};
use crate::fault_campaign::{FaultCampaign, fault_campaign};
use crate::lie::Lie;
use crate::lie_campaign::{Bounds, LieCampaign, LieReport, lie_campaign};
use crate::workload::{Journal, Workload};

/// Crash points, and failing calls, of a campaign in quick mode.
const CRASHES: u64 = 120;
const FAULTS: u64 = 60;
/// Lies, after each of which the database is opened many times.
const LIES: u64 = 25;

/// One layer under test.
pub struct Battery {
    /// Puts the layer over the simulated disk's VFS.
    pub layer: fn(&str) -> Layer,
    /// The synchronous setting of the fault sweeps.
    pub synchronous: &'static str,
    /// The seed of the random choices.
    pub seed: u64,
}

impl Battery {
    /// Crashes a mixed workload everywhere; it must keep its promise.
    pub fn survive(
        &self,
        journal: Journal,
        synchronous: &'static str,
        attach: bool,
        promise: Durability,
    ) {
        let work = Workload::mixed(journal, synchronous, attach, self.seed);
        let campaign = Campaign::new(work, promise, CRASHES, self.seed);
        self.run(
            &campaign,
            &format!("{journal:?} {synchronous} attach={attach}"),
        );
    }

    /// Crashes a workload everywhere that begins with a database whose pages are stored as others, or by their
    /// difference to others: `pack` makes its file of what the SQL makes.
    pub fn references_survive(
        &self,
        journal: Journal,
        pack: &dyn Fn(&str) -> Vec<u8>,
        sound: &'static str,
    ) {
        let work = Workload::referring(journal, pack, sound, self.seed);
        let campaign = Campaign::new(work, Durability::Acknowledged, CRASHES, self.seed);
        self.run(&campaign, &format!("{journal:?}, references"));
    }

    /// Crashes everywhere while logs stand on commits of their database, and maintenance is in between.
    pub fn standing_logs_survive(&self, synchronous: &'static str, promise: Durability) {
        let work = Workload::standing(synchronous, self.seed);
        let campaign = Campaign::new(work, promise, 2 * CRASHES, self.seed);
        self.run(&campaign, &format!("WAL {synchronous}, standing"));
    }

    /// Kills the process everywhere, the disk keeping all it was given: nothing acknowledged is lost.
    pub fn survive_kills(&self, journal: Journal, synchronous: &'static str) {
        let work = Workload::mixed(journal, synchronous, false, self.seed);
        let mut campaign = Campaign::new(work, Durability::Acknowledged, CRASHES, self.seed);
        campaign.modes = vec![CrashMode::KeepAll];
        self.run(&campaign, &format!("{journal:?} {synchronous}, killed"));
    }

    /// Crashes a mixed workload everywhere in these ways, and flips a bit of a database in each state: it has to keep
    /// its promise, or refuse.
    pub fn survive_rot(&self, journal: Journal, modes: &[CrashMode], promise: Durability) {
        let work = Workload::mixed(journal, self.synchronous, false, self.seed);
        let mut campaign = Campaign::new(work, promise, CRASHES, self.seed);
        campaign.modes = modes.to_vec();
        campaign.rounds = 10 / modes.len() as u64;
        campaign.rot = true;
        let report = self.run(&campaign, &format!("{journal:?}, rot"));
        assert!(report.refused > 0, "no rot was noticed");
        assert!(report.refused < report.crashes, "nothing was answered");
    }

    /// Crashes and kills everywhere while the journal mode changes between commits.
    pub fn mode_changes_survive(&self, synchronous: &'static str) {
        let work = Workload::mode_changes(synchronous, self.seed);
        let mut campaign = Campaign::new(work, Durability::Acknowledged, CRASHES, self.seed);
        campaign.points = Points::All;
        self.run(&campaign, &format!("mode changes {synchronous}"));
    }

    /// Crashes and kills everywhere while databases are born in transactions over two: each is in both or in neither.
    pub fn births_survive(&self) {
        for old in [true, false] {
            let work = Workload::births(old, "EXTRA", self.seed);
            let mut campaign = Campaign::new(work, Durability::Acknowledged, CRASHES, self.seed);
            // There are few places, and the one that matters is one of them.
            campaign.points = Points::All;
            self.run(&campaign, &format!("births, beside an old one: {old}"));
        }
    }

    /// One call after the other fails while databases are born so, or the disk is full from then on.
    pub fn faults_while_born(&self) {
        for old in [true, false] {
            for fault in [
                Fault::new(CallSet::IO, FaultError::Io),
                Fault::new(CallSet::WRITES, FaultError::Full).forever(),
            ] {
                let work = Workload::births(old, self.synchronous, self.seed);
                let mut campaign = FaultCampaign::new(work, fault, FAULTS, self.seed);
                // As in `births_survive`.
                campaign.points = Points::All;
                campaign.rounds = 3;
                self.fail_calls(&campaign, &format!("births, beside an old one: {old}"));
            }
        }
    }

    fn run(&self, campaign: &Campaign, what: &str) -> Report {
        let report = crash_campaign(campaign, &self.layer);
        show(what, &report);
        report.assert_clean();
        report
    }

    fn sweep(&self, journal: Journal, attach: bool, fault: Fault) {
        let work = Workload::short(journal, self.synchronous, attach, self.seed);
        let campaign = FaultCampaign::new(work, fault, FAULTS, self.seed);
        self.fail_calls(&campaign, &format!("{journal:?} attach={attach}"));
    }

    fn fail_calls(&self, campaign: &FaultCampaign, what: &str) {
        let report = fault_campaign(campaign, &self.layer);
        println!(
            "{what} {:?}: {} calls, {} runs, {} reported, {:?}",
            campaign.fault, report.calls, report.runs, report.reported, report.elapsed
        );
        crate::count_trials("failed calls", report.runs);
        assert!(report.reported > 0, "no fault was ever reported");
        report.assert_clean();
    }

    /// An I/O error at one call after the other.
    pub fn one_io_error_at_each_call(&self) {
        for journal in [Journal::Delete, Journal::Wal] {
            self.sweep(journal, false, Fault::new(CallSet::ALL, FaultError::Io));
        }
    }

    /// From one call on, all fail, until the fault is taken away.
    pub fn io_errors_that_stay(&self) {
        for journal in [Journal::Delete, Journal::Wal] {
            self.sweep(
                journal,
                false,
                Fault::new(CallSet::ALL, FaultError::Io).forever(),
            );
        }
    }

    /// An I/O error at one call after the other of transactions over two databases.
    pub fn one_io_error_with_two_databases(&self) {
        let fault = Fault::new(CallSet::IO, FaultError::Io);
        self.sweep(Journal::Delete, true, fault);
    }

    /// Journals are deleted in such transactions, but one after the other not for good.
    pub fn failing_syncs_of_directories(&self) {
        let calls = CallSet::of(Call::Delete);
        self.sweep(
            Journal::Delete,
            true,
            Fault::new(calls, FaultError::DirSync),
        );
    }

    /// A disk that is full from some point on, and one that refuses to grow once.
    pub fn full_disk(&self) {
        for journal in [
            Journal::Delete,
            Journal::Truncate,
            Journal::Persist,
            Journal::Wal,
        ] {
            let full = Fault::new(CallSet::WRITES, FaultError::Full).forever();
            self.sweep(journal, false, full);
            let once = Fault::new(CallSet::WRITES, FaultError::FullWhenExtending);
            self.sweep(journal, false, once);
        }
    }

    /// Writes that stop half way.
    pub fn short_writes(&self) {
        for journal in [Journal::Delete, Journal::Wal] {
            self.sweep(
                journal,
                true,
                Fault::new(CallSet::WRITES, FaultError::ShortWrite),
            );
        }
    }

    /// Writes that are refused once, also those that make no file longer, as where nothing is written over in place.
    pub fn no_room_for_one_write(&self) {
        for journal in [Journal::Delete, Journal::Wal] {
            let full = Fault::new(CallSet::WRITES, FaultError::Full);
            self.sweep(journal, journal == Journal::Delete, full);
        }
    }

    /// Syncs that fail once, after which the system gives up what it could not write. Another connection may be there,
    /// which goes on. Not in WAL mode: when making a database fails, and another connection then makes it, SQLite keeps
    /// an empty first page and takes it for no database. Plain SQLite does so, too.
    pub fn syncs_that_give_up(&self) {
        for (journal, attach, beside) in [
            (Journal::Delete, false, false),
            (Journal::Delete, false, true),
            (Journal::Delete, true, false),
            (Journal::Truncate, false, false),
            (Journal::Wal, false, false),
        ] {
            for error in [FaultError::GivesUp, FaultError::Forgets] {
                // Two databases and a log do not bear that yet: docs/testing.md.
                let is_open = attach || journal == Journal::Wal;
                if is_open && error == FaultError::Forgets {
                    continue;
                }
                let fault = Fault::new(CallSet::of(Call::Sync), error);
                let work = Workload::short(journal, self.synchronous, attach, self.seed);
                let mut campaign = FaultCampaign::new(work, fault, FAULTS, self.seed);
                campaign.beside = beside;
                campaign.rounds *= 3;
                self.fail_calls(
                    &campaign,
                    &format!("{journal:?} attach={attach} beside={beside}"),
                );
            }
        }
    }

    /// The disk lies about one call after the other.
    pub fn lies(&self, work: Workload, lie: Lie, files: &'static str, bounds: Bounds) -> LieReport {
        let journal = work.journal;
        let campaign = LieCampaign {
            workload: work,
            lie,
            files,
            points: if crate::long_mode() {
                Points::All
            } else {
                Points::Spread(LIES)
            },
            bounds,
            max_failures: 5,
            seed: self.seed,
        };
        let report = lie_campaign(&campaign, &self.layer);
        println!(
            "{journal:?}, {lie:?} of *{files}: {} calls, {} lies, {} answers right, {} earlier, {} errors, {:?}",
            report.calls, report.runs, report.right, report.earlier, report.errors, report.elapsed
        );
        crate::count_trials("lying disks", report.runs);
        report
    }

    /// Syncs and truncations that fail three times in a row.
    pub fn failing_syncs_and_truncations(&self) {
        let calls = CallSet::of(Call::Sync).and(Call::Truncate);
        for journal in [Journal::Delete, Journal::Wal] {
            self.sweep(journal, false, Fault::new(calls, FaultError::Io).times(3));
        }
    }
}

/// Prints what a campaign did.
pub fn show(what: &str, report: &Report) {
    let failed = report.failures.len();
    println!(
        "{what}: {} ops, {} crashes, {} states, {failed} failed, {:?}",
        report.ops, report.crashes, report.states, report.elapsed
    );
    crate::count_trials("power losses", report.crashes);
}
