//! Litepack with its default features: it brings rusqlite and SQLite.
//!
//! usage: program PLAIN PACKED    packs the first database into the second

use litepack::{Job, PackOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [plain, packed] = [1, 2].map(|i| std::env::args().nth(i).expect("PLAIN PACKED"));

    litepack::pack(&plain, &packed, &PackOptions::default(), &Job::default())?;
    let db = litepack::open(&packed)?;
    db.execute("insert into event(name) values (?1)", ["from Rust"])?;
    db.close().map_err(|(_, error)| error)?;

    let db = litepack::open(&packed)?;
    let query = "select name, sqlite_version() from event order by id desc";
    let row = db.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let (last, sqlite): (String, String) = row?;
    let count: i64 = db.query_row("select count(*) from event", [], |row| row.get(0))?;

    // By its name alone it is a file that SQLite does not know.
    let refused = rusqlite::Connection::open(&packed)?
        .query_row("select 1 from event", [], |_| Ok(()))
        .expect_err("opened without Litepack");
    println!("{count}|{last}|{refused}|{sqlite}");
    Ok(())
}
