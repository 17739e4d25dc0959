//! Litepack with its default features: it brings rusqlite and SQLite.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: PROGRAM PACKED")?;
    let db = litepack::open(path)?;
    db.execute_batch("insert into event(name) values ('from Rust')")?;
    let query = "select name || '|' || sqlite_version() from event order by id desc limit 1";
    let last: String = db.query_row(query, [], |row| row.get(0))?;
    println!("{last}");
    Ok(())
}
