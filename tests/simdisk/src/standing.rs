//! Work in WAL mode on a packed database, whose log stands on a commit of it: small changes again and again, and in between
//! whatever takes, moves or cuts off what that commit has.

use crate::workload::{Journal, Maker, Step, Workload};

const MAINTAIN: &str = "SELECT litepack_maintain(NULL, 1)";

impl Workload {
    /// Checkpoints of all kinds, maintenance with a WAL in use and with an empty one, `VACUUM`, deletion that leaves no
    /// trace, and other journal modes.
    pub fn standing(synchronous: &'static str, seed: u64) -> Workload {
        let mut make = Maker::new(seed, 7);
        make.basics();
        for round in 0..4 {
            make.changes(round);
            make.quiet("maintain", MAINTAIN);
            make.changes(round + 1);
            make.checkpoints();
            make.quiet("maintain with an empty log", MAINTAIN);
            make.changes(round + 2);
            match round {
                0 => {
                    make.sql("delete most", "DELETE FROM t WHERE id % 4 > 0".to_owned());
                    make.quiet("passive checkpoint", "PRAGMA wal_checkpoint(PASSIVE)");
                    make.sql("vacuum", "VACUUM".to_owned());
                }
                1 => {
                    make.quiet("erase", "PRAGMA secure_delete = ON");
                    make.sql("erased", "DELETE FROM t WHERE id % 7 = 3".to_owned());
                    make.changes(round);
                    make.quiet("erase no more", "PRAGMA secure_delete = OFF");
                }
                2 => {
                    make.quiet("to DELETE", "PRAGMA journal_mode = DELETE");
                    make.changes(round);
                    make.quiet("maintain without a log", MAINTAIN);
                    make.quiet("to WAL", "PRAGMA journal_mode = WAL");
                }
                _ => make.steps.push(Step::Reopen),
            }
            make.changes(round + 3);
        }
        Workload {
            journal: Journal::Wal,
            synchronous,
            page_size: 4096,
            attach: false,
            base: None,
            steps: make.steps,
        }
    }
}

impl Maker {
    /// Several generations of small changes to many pages, and a few pages more.
    fn changes(&mut self, round: u64) {
        for part in 0..3 {
            let sql = format!(
                "UPDATE t SET grp = grp + 1 WHERE id % 5 = {}",
                (round + part) % 5
            );
            self.sql("update some", sql);
        }
        self.singles(1);
    }
}
