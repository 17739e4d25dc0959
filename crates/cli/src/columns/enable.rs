//! `litepack columns enable`: enables compression of a column.

use anyhow::Result;
use litepack::columns::{Column, enable};

use super::ColumnPlace;
use crate::output::tell;

/// The limits of a view, shown when one takes the place of a table.
const LIMITS: &str = "\
note: the table is a view now. SQLite cannot do through a view:
  UPSERT (INSERT ... ON CONFLICT DO UPDATE), ids from RETURNING, last_insert_rowid(), changes();
  an explicit NULL into a column with a DEFAULT stores the default.
Programs need the extension to read it. A packed file (`litepack pack`) has none of these limits.";

/// Enables compression of a column. `litepack columns maintain` then compresses its rows.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    place: ColumnPlace,
    /// zstd level, from 1 (fast) to 22 (small).
    #[arg(long, default_value_t = 19)]
    level: i32,
    /// SQL expression over a row that gives the name of its group; each group has one dictionary. '[nodict]': no
    /// dictionary. NULL: do not compress the row. By default all rows are one group.
    #[arg(long, value_name = "EXPR")]
    chooser: Option<String>,
    /// Do not compress a group whose dictionary would be smaller than this [default: 5000].
    #[arg(long, value_name = "BYTES")]
    min_dictionary: Option<u64>,
    /// Size of a dictionary relative to the data of its group [default: 0.01].
    #[arg(long, value_name = "RATIO")]
    dictionary_ratio: Option<f64>,
    /// Size of the sample relative to the dictionary [default: 100].
    #[arg(long, value_name = "RATIO")]
    samples_ratio: Option<f64>,
    /// Bytes compressed in one transaction of maintenance [default: 1666666].
    #[arg(long, value_name = "BYTES")]
    step: Option<u64>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<()> {
    let place = &arguments.place;
    let column = Column {
        level: arguments.level,
        chooser: arguments.chooser.clone(),
        min_dictionary: arguments.min_dictionary,
        dictionary_ratio: arguments.dictionary_ratio,
        samples_ratio: arguments.samples_ratio,
        step: arguments.step,
        ..Column::new(&place.table, &place.column)
    };
    enable(&place.database, &column, &place.job()?)?;
    for line in LIMITS.lines() {
        tell!("{line}");
    }
    tell!(
        "{}: {} is enabled; `litepack columns maintain` compresses the rows",
        place.database.display(),
        place.name()
    );
    Ok(())
}
