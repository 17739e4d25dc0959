//! Litepack with SeaORM: the URL of a connection names the VFS.
//!
//! usage: program PLAIN PACKED    packs the first database into the second

use sea_orm::entity::prelude::*;
use sea_orm::{ActiveValue, Database, QueryOrder as _, Statement};

mod event {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel)]
    #[sea_orm(table_name = "event")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: i64,
        pub name: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [plain, packed] = [1, 2].map(|i| std::env::args().nth(i).expect("PLAIN PACKED"));
    litepack::register()?;
    let url = format!("sqlite:{packed}?vfs=litepack");

    let db = Database::connect(format!("sqlite:{plain}")).await?;
    let uri = litepack::uri(&packed)?;
    let backend = db.get_database_backend();
    db.execute(Statement::from_sql_and_values(backend, "vacuum into ?1", [uri.into()])).await?;
    db.close().await?;

    let db = Database::connect(&url).await?;
    let name = ActiveValue::Set("from Rust".to_owned());
    event::ActiveModel { name, ..Default::default() }.insert(&db).await?;
    db.close().await?;

    let db = Database::connect(&url).await?;
    let query = event::Entity::find().order_by_desc(event::Column::Id);
    let last = query.one(&db).await?.ok_or("no rows")?.name;
    let count = event::Entity::find().count(&db).await?;
    let version = Statement::from_string(backend, "select sqlite_version()");
    let row = db.query_one(version).await?.ok_or("no version")?;
    let sqlite: String = row.try_get_by_index(0)?;
    db.close().await?;

    // By its name alone it is a file that SQLite does not know.
    let refused = match Database::connect(format!("sqlite:{packed}")).await {
        Ok(db) => event::Entity::find().one(&db).await.err(),
        Err(error) => Some(error),
    };
    println!("{count}|{last}|{}|{sqlite}", refused.expect("opened without Litepack"));
    Ok(())
}
