//! Litepack with sqlx: the options of a connection name the VFS.
//!
//! usage: program PLAIN PACKED    packs the first database into the second

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use sqlx::{Connection as _, SqliteConnection};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [plain, packed] = [1, 2].map(|i| std::env::args().nth(i).expect("PLAIN PACKED"));
    litepack::register()?;
    let options = SqliteConnectOptions::new().filename(&packed);
    let with_litepack = options.clone().vfs("litepack");

    let plain = SqliteConnectOptions::new().filename(&plain);
    let mut db = SqliteConnection::connect_with(&plain).await?;
    let uri = litepack::uri(&packed)?;
    sqlx::query("vacuum into ?1").bind(uri).execute(&mut db).await?;
    db.close().await?;

    let pool = SqlitePool::connect_with(with_litepack.clone()).await?;
    let insert = sqlx::query("insert into event(name) values (?1)").bind("from Rust");
    insert.execute(&pool).await?;
    pool.close().await;

    let mut db = SqliteConnection::connect_with(&with_litepack).await?;
    let query = "select name, sqlite_version() from event order by id desc limit 1";
    let (last, sqlite): (String, String) = sqlx::query_as(query).fetch_one(&mut db).await?;
    let count: i64 = sqlx::query_scalar("select count(*) from event").fetch_one(&mut db).await?;
    db.close().await?;

    // By its name alone it is a file that SQLite does not know.
    let refused = match SqliteConnection::connect_with(&options).await {
        Ok(mut db) => sqlx::query("select 1 from event").execute(&mut db).await.err(),
        Err(error) => Some(error),
    };
    println!("{count}|{last}|{}|{sqlite}", refused.expect("opened without Litepack"));
    Ok(())
}
