//! `PRAGMA secure_delete`, as the file hears of it: when deleted content is overwritten.
//!
//! SQLite handles the pragma itself, by clearing what it deletes within pages; the file's part is to overwrite the
//! former copies of those pages. A pragma is told to the file of one database only: the one it names, else the main
//! one. Without a name it is meant for attached databases too, and a database attached later takes it over. So ON
//! counts for all files of the connection; OFF only for the file that heard it, as it is not known what was meant: that
//! can erase too much, never too little.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use litepack_store::Erase;

/// How often files of one connection heard ON.
type Heard = AtomicU64;

/// The connections that have files here, by their addresses.
static CONNECTIONS: Mutex<BTreeMap<usize, Weak<Heard>>> = Mutex::new(BTreeMap::new());

/// The setting for one file.
#[derive(Debug)]
pub(crate) struct SecureDelete {
    /// The default that SQLite was compiled with, or the pragma that the file heard last.
    own: Erase,
    /// How often the connection had heard ON by then.
    since: u64,
    connection: Arc<Heard>,
}

impl SecureDelete {
    /// A file of a SQLite that has it on or not unless told otherwise.
    pub(crate) fn new(on: bool) -> SecureDelete {
        SecureDelete {
            own: if on { Erase::WithFlush } else { Erase::Never },
            since: 0,
            connection: Arc::default(),
        }
    }

    /// The file belongs to the connection at this address.
    pub(crate) fn join(&mut self, connection: usize) {
        let mut connections = CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|_, heard| heard.strong_count() > 0);
        match connections.get(&connection).and_then(Weak::upgrade) {
            Some(heard) => self.connection = heard,
            None => {
                connections.insert(connection, Arc::downgrade(&self.connection));
            }
        }
    }

    /// The pragma was told to this file.
    pub(crate) fn hear(&mut self, value: &str) {
        self.own = parse(value);
        if self.own == Erase::WithCommit {
            self.connection.fetch_add(1, Ordering::Relaxed);
        }
        self.since = self.connection.load(Ordering::Relaxed);
    }

    /// The setting that holds now.
    pub(crate) fn now(&self) -> Erase {
        if self.connection.load(Ordering::Relaxed) > self.since {
            Erase::WithCommit
        } else {
            self.own
        }
    }
}

/// The value of the pragma as SQLite reads it. `FAST` is to cost no writes, and here an erased extent always does.
fn parse(value: &str) -> Erase {
    let word = value.trim().to_ascii_lowercase();
    let digits = word.len() - word.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let on = match digits {
        0 => matches!(word.as_str(), "on" | "yes" | "true"),
        // SQLite takes the number's lowest byte; 2 is a number like others, and not FAST.
        _ => word[..digits].parse::<i32>().is_ok_and(|n| n & 0xff != 0),
    };
    if on { Erase::WithCommit } else { Erase::Never }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_mean_what_they_mean_to_sqlite() {
        for on in ["on", "ON", "yes", "true", "1", "2", "17x"] {
            assert_eq!(parse(on), Erase::WithCommit, "{on}");
        }
        for off in ["off", "fast", "FAST", "0", "256", "no", "", "-1", "full"] {
            assert_eq!(parse(off), Erase::Never, "{off}");
        }
    }

    #[test]
    fn what_one_file_hears_counts_for_those_of_its_connection() {
        let connection = |address| {
            let mut file = SecureDelete::new(false);
            file.join(address);
            file
        };
        let (mut main, mut attached, other) = (connection(8), connection(8), connection(16));
        main.hear("on");
        assert_eq!(
            [&main, &attached, &other].map(SecureDelete::now),
            [Erase::WithCommit, Erase::WithCommit, Erase::Never]
        );
        attached.hear("off");
        assert_eq!(attached.now(), Erase::Never);
        assert_eq!(connection(8).now(), Erase::WithCommit, "attached later");
        main.hear("fast");
        assert_eq!((main.now(), attached.now()), (Erase::Never, Erase::Never));
        main.hear("1");
        assert_eq!(attached.now(), Erase::WithCommit);
        drop((main, attached));
        assert_eq!(
            connection(8).now(),
            Erase::Never,
            "another connection there"
        );
    }

    #[test]
    fn what_sqlite_was_compiled_with_counts_until_told_otherwise() {
        let mut file = SecureDelete::new(true);
        assert_eq!(file.now(), Erase::WithFlush);
        file.hear("off");
        assert_eq!(file.now(), Erase::Never);
    }
}
