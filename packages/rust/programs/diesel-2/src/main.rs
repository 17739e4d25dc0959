//! Litepack with diesel, which takes URIs.

use diesel::prelude::*;
use diesel::sql_types::Text;
// The SQLite that diesel is linked with.
use libsqlite3_sys as _;

#[derive(QueryableByName)]
struct Last {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Text)]
    sqlite: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: PROGRAM PACKED")?;
    litepack::register()?;
    let mut db = SqliteConnection::establish(&litepack::uri(path)?)?;
    diesel::sql_query("insert into event(name) values ('from Rust')").execute(&mut db)?;
    let query = "select name, sqlite_version() as sqlite from event order by id desc limit 1";
    let last: Last = diesel::sql_query(query).get_result(&mut db)?;
    println!("{}|{}", last.name, last.sqlite);
    Ok(())
}
