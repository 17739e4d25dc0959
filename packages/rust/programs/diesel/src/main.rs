//! Litepack with diesel, which takes URIs.
//!
//! usage: program PLAIN PACKED    packs the first database into the second

use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::Text;
// The SQLite that diesel is linked with.
use libsqlite3_sys as _;

diesel::table! {
    event (id) {
        id -> Integer,
        name -> Text,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [plain, packed] = [1, 2].map(|i| std::env::args().nth(i).expect("PLAIN PACKED"));
    litepack::register()?;
    let uri = litepack::uri(&packed)?;

    let mut db = SqliteConnection::establish(&plain)?;
    let vacuum = diesel::sql_query("vacuum into ?1").bind::<Text, _>(&uri);
    vacuum.execute(&mut db)?;

    let mut db = SqliteConnection::establish(&uri)?;
    let insert = diesel::insert_into(event::table).values(event::name.eq("from Rust"));
    insert.execute(&mut db)?;
    drop(db);

    let mut db = SqliteConnection::establish(&uri)?;
    let query = event::table.order(event::id.desc());
    let (last, sqlite): (String, String) = query
        .select((event::name, sql::<Text>("sqlite_version()")))
        .first(&mut db)?;
    let count: i64 = event::table.count().get_result(&mut db)?;

    // By its name alone it is a file that SQLite does not know.
    let refused = match SqliteConnection::establish(&packed) {
        Ok(mut db) => diesel::sql_query("select 1 from event")
            .execute(&mut db)
            .expect_err("opened without Litepack")
            .to_string(),
        Err(error) => error.to_string(),
    };
    println!("{count}|{last}|{refused}|{sqlite}");
    Ok(())
}
