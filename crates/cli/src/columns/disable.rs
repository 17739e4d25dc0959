//! `litepack columns disable`: decompresses a column.

use anyhow::Result;

use crate::database::Place;

/// Decompresses a column. After the last column of a table the table is as it was before.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let place = &arguments.place;
    let names = [&place.table, &place.column];
    let database = place.open()?;
    database
        .value::<rusqlite::types::Value>("select litepack_disable_transparent(?1, ?2)", names)?;
    eprintln!(
        "{}: {} is an ordinary column again",
        place.database.display(),
        place.name()
    );
    Ok(())
}
