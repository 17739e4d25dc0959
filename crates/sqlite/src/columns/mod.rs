//! The SQL functions of compressed columns, each as a safe function over the running [`Call`].
//!
//! Names, arguments, defaults and results are sqlite-zstd's; `litepack_` functions are ours.
//!
//! ```text
//! values.rs        compress and decompress      training.rs   the aggregates
//! maintenance.rs   compressing rows, looking after dictionaries
//! schema.rs        which columns are compressed: enable, disable, alter
//! ```

pub(crate) mod maintenance;
mod schema;
mod training;
mod values;

use std::ffi::{CStr, c_int};

use litepack_columns::sql::Result;

use crate::ffi::columns::Call;
pub(crate) use Act::Operate;
use Act::{Compute, Train};
pub(crate) use training::Training;
pub(crate) use values::State;

/// A SQL function.
pub(crate) struct Function {
    pub(crate) name: &'static CStr,
    /// How many arguments it may have.
    pub(crate) arguments: &'static [c_int],
    pub(crate) act: Act,
}

/// What a function does.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// Its arguments alone give the result.
    Compute(fn(&Call<'_>) -> Result<()>),
    /// It reads or changes the database.
    Operate(fn(&Call<'_>) -> Result<()>),
    /// An aggregate that trains a dictionary: what is done at the end.
    Train(fn(&Call<'_>, Training) -> Result<()>),
}

/// Every function there is.
pub(crate) const FUNCTIONS: &[Function] = &[
    function(c"zstd_compress", &[1, 2, 3, 4], Compute(values::compress)),
    function(c"zstd_decompress", &[2, 3, 4], Compute(values::decompress)),
    function(c"zstd_compress_col", &[4], Compute(values::compress_col)),
    function(
        c"zstd_decompress_col",
        &[4],
        Compute(values::decompress_col),
    ),
    function(c"zstd_train_dict", &[3], Train(training::train)),
    function(
        c"zstd_train_dict_and_save",
        &[4],
        Train(training::train_and_save),
    ),
    function(
        c"zstd_incremental_maintenance",
        &[2],
        Operate(maintenance::incremental),
    ),
    function(c"litepack_columns", &[0], Operate(maintenance::columns)),
    function(c"litepack_retrain", &[2], Operate(maintenance::train_anew)),
    function(c"litepack_recompress", &[4], Operate(maintenance::again)),
    function(
        c"litepack_drop_unused_dictionaries",
        &[0],
        Operate(maintenance::drop_dictionaries),
    ),
    function(
        c"zstd_enable_transparent",
        &[1],
        Operate(schema::enable_column),
    ),
    function(
        c"litepack_disable_transparent",
        &[2],
        Operate(schema::disable_column),
    ),
    function(c"litepack_alter_table", &[2], Operate(schema::alter_table)),
    function(c"litepack_create_index", &[1], Operate(schema::index)),
    function(
        c"litepack_configure_column",
        &[3],
        Operate(schema::configure_column),
    ),
];

pub(crate) const fn function(
    name: &'static CStr,
    arguments: &'static [c_int],
    act: Act,
) -> Function {
    Function {
        name,
        arguments,
        act,
    }
}
