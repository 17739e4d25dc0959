//! Litepack with sqlx: the options of a connection name the VFS.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, SqliteConnection};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: PROGRAM PACKED")?;
    litepack::register()?;
    let options = SqliteConnectOptions::new().filename(path).vfs("litepack");
    let mut db = SqliteConnection::connect_with(&options).await?;
    let insert = sqlx::query("insert into event(name) values (?1)").bind("from Rust");
    insert.execute(&mut db).await?;
    let query = "select name, sqlite_version() from event order by id desc limit 1";
    let (last, sqlite): (String, String) = sqlx::query_as(query).fetch_one(&mut db).await?;
    println!("{last}|{sqlite}");
    db.close().await?;
    Ok(())
}
