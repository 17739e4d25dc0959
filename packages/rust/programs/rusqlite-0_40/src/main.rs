//! Litepack with a version of rusqlite that is not the one the crate litepack would bring.

use rusqlite::Connection;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: PROGRAM PACKED")?;
    litepack::register()?;
    let db = Connection::open(litepack::uri(path)?)?;
    db.execute("insert into event(name) values (?1)", ["from Rust"])?;
    let last: String = db.query_row("select name from event order by id desc", [], |row| row.get(0))?;
    let sqlite: String = db.query_row("select sqlite_version()", [], |row| row.get(0))?;
    println!("{last}|{sqlite}");
    Ok(())
}
