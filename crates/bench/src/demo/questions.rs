//! The questions the demo asks of both databases; each ends in an answer that can be compared.

use rusqlite::{Connection, params};

use litepack_testdata::titles::Titles;

/// One piece of work.
#[derive(Clone, Copy)]
pub struct Question {
    /// The work, in a few words.
    pub title: &'static str,
    /// Does it; the text depends on all that was read or changed.
    pub ask: fn(&Connection) -> rusqlite::Result<String>,
}

/// In the order in which they are asked.
pub const ALL: [Question; 5] = [
    Question {
        title: "10 000 random rows by key",
        ask: point_lookups,
    },
    Question {
        title: "count by an index on a JSON field",
        ask: indexed_json,
    },
    Question {
        title: "group and average over all rows",
        ask: aggregate,
    },
    Question {
        title: "insert 1000, update 1000, commit",
        ask: insert_and_update,
    },
    Question {
        title: "upsert 1000 rows, commit",
        ask: upsert,
    },
];

fn point_lookups(conn: &Connection) -> rusqlite::Result<String> {
    let last = last_id(conn)?;
    let mut rng = fastrand::Rng::with_seed(3);
    let mut statement = conn.prepare("select data ->> '$.primaryTitle' from title where id = ?")?;
    let mut length = 0;
    let mut letters = 0_u64;
    for _ in 0..10_000 {
        let title: String = statement.query_row([rng.i64(1..=last)], |row| row.get(0))?;
        length += title.len();
        letters = title.bytes().fold(letters, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
    }
    Ok(format!("{length} bytes, {letters:x}"))
}

fn indexed_json(conn: &Connection) -> rusqlite::Result<String> {
    rows(
        conn,
        "select data ->> '$.startYear', count(*) from title
         where data ->> '$.startYear' between 1990 and 1999 group by 1",
    )
}

fn aggregate(conn: &Connection) -> rusqlite::Result<String> {
    rows(
        conn,
        "select data ->> '$.titleType', count(*), avg(data ->> '$.runtimeMinutes')
         from title group by 1 order by 1",
    )
}

fn insert_and_update(conn: &Connection) -> rusqlite::Result<String> {
    let last = last_id(conn)?;
    let mut rng = fastrand::Rng::with_seed(last as u64);
    let transaction = conn.unchecked_transaction()?;
    let mut insert = transaction.prepare("insert into title(data) values (?)")?;
    for title in Titles::new(last as u64).take(1000) {
        insert.execute([title.to_json()])?;
    }
    let mut update = transaction
        .prepare("update title set data = json_set(data, '$.runtimeMinutes', ?2) where id = ?1")?;
    for _ in 0..1000 {
        update.execute(params![rng.i64(1..=last), rng.u8(1..200)])?;
    }
    drop((insert, update));
    transaction.commit()?;
    totals(conn)
}

fn upsert(conn: &Connection) -> rusqlite::Result<String> {
    let last = last_id(conn)?;
    let transaction = conn.unchecked_transaction()?;
    let mut upsert = transaction.prepare(
        "insert into title(id, data) values (?, ?)
         on conflict(id) do update set data = json_patch(data, excluded.data)",
    )?;
    // Half of the ids exist, half are new.
    let first = last - 499;
    for (id, title) in (first..first + 1000).zip(Titles::new(first as u64)) {
        upsert.execute(params![id, title.to_json()])?;
    }
    drop(upsert);
    transaction.commit()?;
    totals(conn)
}

fn last_id(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("select max(id) from title", [], |row| row.get(0))
}

/// The rows changed last, in a form that is quick to get: the demo times it too.
fn totals(conn: &Connection) -> rusqlite::Result<String> {
    rows(
        conn,
        "select max(id), total_changes() from title
         union all
         select sum(length(data)), sum(data ->> '$.runtimeMinutes')
         from title where id > (select max(id) - 2000 from title)",
    )
}

/// All rows as text.
fn rows(conn: &Connection, sql: &str) -> rusqlite::Result<String> {
    let mut statement = conn.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|index| Ok(format!("{:?} ", row.get_ref(index)?)))
            .collect()
    })?;
    rows.collect::<rusqlite::Result<Vec<String>>>()
        .map(|rows| rows.join("\n"))
}
