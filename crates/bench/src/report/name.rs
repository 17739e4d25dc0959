//! Names that the program's text holds, read back from a report of an earlier run.
//!
//! A run reads at most one such report, so that what is kept for the whole run is small.

use serde::{Deserialize, Deserializer};

/// A name that lasts as long as the program.
pub type Name = &'static str;

/// A name, kept until the program ends.
///
/// # Errors
/// Those of the reader.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
    Ok(String::deserialize(from)?.leak())
}

/// A name or none.
///
/// # Errors
/// Those of the reader.
pub fn read_optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Name>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.map(|name| &*name.leak()))
}
