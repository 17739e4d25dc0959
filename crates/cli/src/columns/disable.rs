//! `litepack columns disable`: decompresses a column.

use anyhow::Result;

use super::ColumnPlace;
use crate::output::tell;

/// Decompresses a column. After the last column of a table the table is as it was before.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: ColumnPlace,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let place = &arguments.place;
    let (table, column) = (&place.table, &place.column);
    litepack::columns::disable(&place.database, table, column, &place.job()?)?;
    tell!(
        "{}: {} is an ordinary column again",
        place.database.display(),
        place.name()
    );
    Ok(())
}
