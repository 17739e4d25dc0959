//! Random SQL on a plain and a packed database: after every statement the outcome is the same, and
//! at intervals so are the content, the page images and a clean `integrity_check`.
//!
//! A failure names its seed; `LITEPACK_SEED=N` runs only that one, and with `LITEPACK_MINIMISE=1`
//! the steps that do not matter are left out before it is reported.

use litepack_tests::generate::{Generator, LIST_TABLES};
use litepack_tests::pair::{Mismatch, Pair};
use litepack_tests::script::{Expect, Step, steps};
use litepack_tests::{content, scale, seeds, vfs};
use std::time::{Duration, Instant};

const STEPS: usize = 300;
const VERIFY_EVERY: usize = 60;

/// A failing run: what differed, and all steps up to there.
struct Failed {
    mismatch: Mismatch,
    steps: Vec<Step>,
}

/// The database a run begins with.
#[derive(Clone, Copy)]
enum Start {
    Empty,
    /// Many small pages, so that the page map has several levels.
    Large,
}

fn opening(start: Start) -> Vec<Step> {
    let script = match start {
        Start::Empty => "pragma page_size = 4096;\npragma synchronous = off;",
        Start::Large => {
            "pragma page_size = 512;
             pragma synchronous = off;
             create table t0(id integer primary key, a int, b text, c blob, d real);
             insert into t0 with recursive n(i) as (select 1 union all select i + 1 from n
               where i < 20000) select i, i % 600, printf('row %d of %x', i, i * 7919),
               zeroblob(i % 300), i / 7.0 from n;
             create index i0 on t0(a, b);"
        }
    };
    // A step that must succeed at first may fail once the minimiser has left out steps before it.
    let same = |step| match step {
        Step::Sql(_, sql) => Step::Sql(Expect::Same, sql),
        other => other,
    };
    steps(script).into_iter().map(same).collect()
}

fn run(seed: u64, start: Start) -> Result<(), Failed> {
    let mut generator = Generator::new(seed);
    let mut pair = Pair::empty();
    let mut steps = Vec::new();
    let mut opening = opening(start).into_iter();
    for number in 0..STEPS {
        if generator.wants_tables() {
            let list = Step::Sql(Expect::Same, LIST_TABLES.into());
            steps.push(list.clone());
            match pair.step(list) {
                Ok(outcome) => generator.learn(&outcome.expect("a query has an outcome")),
                Err(mismatch) => return Err(Failed { mismatch, steps }),
            }
        }
        let step = opening.next().unwrap_or_else(|| generator.step());
        steps.push(step.clone());
        match pair.step(step.clone()) {
            Ok(outcome) => generator.observe(&step, outcome.as_ref()),
            Err(mismatch) => return Err(Failed { mismatch, steps }),
        }
        if number % VERIFY_EVERY == VERIFY_EVERY - 1 {
            verify(&mut pair).map_err(|mismatch| Failed {
                mismatch,
                steps: steps.clone(),
            })?;
        }
    }
    pair.step(Step::Reopen(String::new()))
        .expect("closing compares nothing");
    verify(&mut pair).map_err(|mismatch| Failed { mismatch, steps })
}

/// A connection that another one blocks cannot verify; it does not have to.
fn verify(pair: &mut Pair) -> Result<(), Mismatch> {
    let probe = Step::Sql(Expect::Same, "select count(*) from sqlite_schema".into());
    let readable = pair
        .step(probe)?
        .is_some_and(|outcome| outcome.answer.is_ok());
    if !readable {
        return Ok(());
    }
    pair.compare()?;
    check_structure(pair)?;
    // Attached databases are compared when this connection has one.
    let mut attached = Vec::new();
    for side in [&mut pair.plain, &mut pair.packed] {
        let connection = side.connection().map_err(|e| Mismatch(e.to_string()))?;
        let hash = content::fingerprint_of(connection, "aux").map_err(|e| e.to_string());
        attached.push(hash);
    }
    match attached[0] == attached[1] {
        true => Ok(()),
        false => Err(Mismatch(format!("attached: {attached:#?}"))),
    }
}

/// The packed file's own check, which sees what SQLite cannot: map, free space, checksums.
fn check_structure(pair: &mut Pair) -> Result<(), Mismatch> {
    if !vfs::is_litepack() {
        return Ok(());
    }
    let connection = pair
        .packed
        .connection()
        .map_err(|e| Mismatch(e.to_string()))?;
    let said: rusqlite::Result<String> =
        connection.query_row("select litepack_check()", [], |row| row.get(0));
    match said {
        Ok(said) if said == "ok" => Ok(()),
        other => Err(Mismatch(format!("litepack_check says {other:?}"))),
    }
}

/// Runs given steps with a verification at the end.
fn replay(steps: &[Step]) -> Result<(), Mismatch> {
    let mut pair = Pair::empty();
    for step in steps {
        pair.step(step.clone())?;
    }
    verify(&mut pair)?;
    pair.step(Step::Reopen(String::new()))?;
    verify(&mut pair)
}

/// Leaves out whatever can be left out while some difference remains.
fn minimise(mut steps: Vec<Step>) -> Vec<Step> {
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut chunk = steps.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start < steps.len() && Instant::now() < deadline {
            let end = (start + chunk).min(steps.len());
            let fewer = [&steps[..start], &steps[end..]].concat();
            if replay(&fewer).is_err() {
                steps = fewer;
            } else {
                start = end;
            }
        }
        chunk /= 2;
    }
    steps
}

fn report(seed: u64, failed: Failed) -> ! {
    let Failed {
        mismatch,
        mut steps,
    } = failed;
    if std::env::var_os("LITEPACK_MINIMISE").is_some() && replay(&steps).is_err() {
        steps = minimise(steps);
    }
    let script: String = steps.iter().map(|step| format!("{step}\n")).collect();
    panic!(
        "seed {seed}: {}\nscript of {} steps:\n{script}",
        mismatch.0,
        steps.len()
    );
}

fn run_seeds(first: u64, count: u64, start: Start) {
    for seed in seeds(first, count) {
        println!("seed {seed}");
        if let Err(failed) = run(seed, start) {
            report(seed, failed);
        }
    }
}

#[test]
fn random_statements_give_the_same_outcomes_and_content() {
    run_seeds(1000, scale(16, 1000), Start::Empty);
}

// Two tests, so that two cores have something to do.
#[test]
fn more_random_statements_give_the_same_outcomes_and_content() {
    run_seeds(9000, scale(16, 1000), Start::Empty);
}

#[test]
fn random_statements_on_a_database_of_many_pages_give_the_same() {
    run_seeds(50_000, scale(4, 200), Start::Large);
}
