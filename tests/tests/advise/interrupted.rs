//! A stop ends each phase at once.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use litepack::{Job, Progress, Stop};
use litepack_advise::{Report, advise};

use super::{Db, unhurried};

/// So often a phase may take longer than it should, on a machine with other work.
const TRIES: u32 = 8;
/// Of a phase that takes less than this, the time says nothing.
const SHORT: Duration = Duration::from_millis(100);

/// Advice that is stopped when a phase begins: the phases that began, with how long each took, and what came of it.
fn advised(db: &Db, stopped: Option<&str>) -> (Vec<(String, Duration)>, litepack::Result<Report>) {
    let begun = Mutex::new(Vec::new());
    let stop = Stop::default();
    let note = |progress: Progress<'_>| {
        if let Progress::At(phase) = progress {
            if stopped == Some(phase) {
                stop.stop();
            }
            begun
                .lock()
                .unwrap()
                .push((phase.to_owned(), Instant::now()));
        }
    };
    let job = Job::default().with_progress(&note).with_stop(&stop);
    let made = advise(&db.path, &unhurried(), &job);
    let ended = Instant::now();
    let begun = begun.into_inner().unwrap();
    let ends = begun.iter().skip(1).map(|(_, at)| *at).chain([ended]);
    let phases = begun.iter().zip(ends);
    let phases = phases.map(|((phase, at), end)| (phase.clone(), end - *at));
    (phases.collect(), made)
}

#[test]
fn each_phase_ends_when_it_is_stopped() {
    let db = Db::of(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, k, data TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
         INSERT INTO t SELECT i, i * 7919 % 1000003, json_object('id', i, 'kind', i % 7, 'note', hex(randomblob(20)),
             'text', 'some words that repeat in every row') FROM n;
         CREATE INDEX by_k ON t(k);",
    );
    let (phases, made) = advised(&db, None);
    made.unwrap();
    assert!(phases.len() > 5, "{phases:?}");
    let long = phases.iter().filter(|(_, whole)| *whole >= SHORT);
    println!("{phases:?}, of which {} are long", long.count());
    for (number, (phase, whole)) in phases.iter().enumerate() {
        let ends_soon = |_| {
            let (seen, made) = advised(&db, Some(phase));
            let error = made.unwrap_err();
            assert!(error.is_interrupted(), "{phase}: {error:?}");
            assert_eq!(seen.len(), number + 1, "{phase}: {seen:?}");
            let took = seen[number].1;
            println!("{phase}: {took:?} of {whole:?}");
            took < *whole * 3 / 4 || *whole < SHORT
        };
        assert!((0..TRIES).any(ends_soon), "{phase} takes as long as ever");
    }
}
