//! The configuration of a compressed column, as `zstd_enable_transparent` takes it and `_zstd_configs`
//! keeps it.
//!
//! A user's configuration is checked word for word; a stored one is read leniently, because sqlite-zstd and `update
//! _zstd_configs` write there too.

use serde::{Deserialize, Serialize};

use crate::sql::{Error, Result, Sql, Statement, Value};
use crate::stored::{self, has_helper};

/// One compressed column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Config {
    /// The table, under the name users know.
    pub(crate) table: String,
    /// The column.
    pub(crate) column: String,
    /// zstd's level.
    pub(crate) compression_level: i32,
    /// SQL expression over the backing table: the group whose dictionary compresses the row, NULL to
    /// leave the row alone, `[nodict]` to compress it without one.
    pub(crate) dict_chooser: String,
    /// A dictionary that would be smaller is not trained.
    #[serde(default = "min_dict_size")]
    pub(crate) min_dict_size_bytes_for_training: i64,
    /// Size of the dictionary relative to the group's data.
    #[serde(default = "dict_size_ratio")]
    pub(crate) dict_size_ratio: f64,
    /// Size of the sample relative to the dictionary.
    #[serde(default = "samples_ratio")]
    pub(crate) train_dict_samples_ratio: f64,
    /// Bytes compressed in one step of maintenance.
    #[serde(default = "step_bytes")]
    pub(crate) incremental_compression_step_bytes: i64,
}

/// A stored configuration is not longer than this.
const LENGTH_MAX: usize = 1 << 20;

fn min_dict_size() -> i64 {
    5000
}
fn dict_size_ratio() -> f64 {
    0.01
}
fn samples_ratio() -> f64 {
    100.0
}
fn step_bytes() -> i64 {
    1_666_666
}

/// Every key, whether it must be there, and what it has to be.
const KEYS: [(&str, bool, &str); 8] = [
    ("table", true, "a string"),
    ("column", true, "a string"),
    ("compression_level", true, "an integer from 1 to 22"),
    ("dict_chooser", true, "a string with a SQL expression"),
    (
        "min_dict_size_bytes_for_training",
        false,
        "an integer, 0 or more",
    ),
    ("dict_size_ratio", false, "a number above 0, at most 1"),
    ("train_dict_samples_ratio", false, "a number, 1 or more"),
    (
        "incremental_compression_step_bytes",
        false,
        "an integer, 1 or more",
    ),
];

impl Config {
    /// Checks what a user wrote.
    ///
    /// # Errors
    /// Words that say which key is wrong, and what it should be.
    pub(crate) fn parse(json: &str) -> Result<Config> {
        let value: serde_json::Value = serde_json::from_str(json)
            .map_err(|error| Error::new(format!("the configuration is not JSON: {error}")))?;
        let serde_json::Value::Object(object) = &value else {
            return Err(Error::new(
                "the configuration must be a JSON object like \
                 {\"table\":\"t\",\"column\":\"c\",\"compression_level\":19,\"dict_chooser\":\"'a'\"}",
            ));
        };
        for key in object.keys() {
            if !KEYS.iter().any(|(known, ..)| known == key) {
                let known: Vec<&str> = KEYS.iter().map(|key| key.0).collect();
                return Err(Error::new(format!(
                    "unknown key \"{key}\" in the configuration; the keys are {}",
                    known.join(", ")
                )));
            }
        }
        for (key, required, expected) in KEYS {
            match object.get(key) {
                None if required => {
                    return Err(Error::new(format!(
                        "the configuration lacks \"{key}\" ({expected})"
                    )));
                }
                Some(value) if !is_valid(key, value) => {
                    return Err(Error::new(format!(
                        "\"{key}\" in the configuration must be {expected}, not {value}"
                    )));
                }
                _ => {}
            }
        }
        serde_json::from_value(value)
            .map_err(|error| Error::new(format!("the configuration is not valid: {error}")))
    }

    /// This configuration with the keys of `patch` in place of its own.
    ///
    /// # Errors
    /// As [`Config::parse`]; table and column cannot be changed.
    pub(crate) fn patched(&self, patch: &str) -> Result<Config> {
        let wrong = |error| Error::new(format!("the changes are not a JSON object: {error}"));
        let changes: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(patch).map_err(wrong)?;
        let mut whole = serde_json::to_value(self).map_err(wrong)?;
        for (key, value) in changes {
            if key == "table" || key == "column" {
                return Err(Error::new(format!(
                    "\"{key}\" cannot be changed; litepack_alter_table renames columns"
                )));
            }
            if let Some(fields) = whole.as_object_mut() {
                fields.insert(key, value);
            }
        }
        Config::parse(&whole.to_string())
    }

    /// As stored.
    pub(crate) fn json(&self) -> String {
        // A struct of strings and finite numbers always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Stores a new column's configuration; [`crate::dictionary::ensure_tables`] has made the table.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn insert(&self, db: &impl Sql) -> Result<()> {
        db.run(
            "insert into main._zstd_configs(config) values(?1)",
            &[Value::from(self.json().as_str())],
        )
    }

    /// Stores this configuration in place of the one with this id.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn update(&self, db: &impl Sql, id: i64) -> Result<()> {
        db.run(
            "update main._zstd_configs set config = ?2 where id = ?1",
            &[Value::Integer(id), Value::from(self.json().as_str())],
        )
    }

    /// Removes the configuration with this id.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn delete(db: &impl Sql, id: i64) -> Result<()> {
        db.run(
            "delete from main._zstd_configs where id = ?1",
            &[Value::Integer(id)],
        )
    }

    /// Every column's configuration with its id; none where nothing was ever enabled.
    ///
    /// # Errors
    /// SQLite's, a row that is no configuration, or a table of ours that is no table.
    pub(crate) fn all(db: &impl Sql) -> Result<Vec<(i64, Config)>> {
        let mut all = Vec::new();
        stored::expect_helpers(db)?;
        if !has_helper(db, "_zstd_configs")? {
            return Ok(all);
        }
        db.rows(
            "select id, config from main._zstd_configs order by id",
            &[],
            |row| {
                let id = row.column(0).integer().unwrap_or_default();
                let text = row.column(1).bytes().unwrap_or_default();
                let wrong = |why: String| {
                    Error::new(format!(
                        "row {id} of _zstd_configs: {why}; correct it there"
                    ))
                };
                if text.len() > LENGTH_MAX {
                    return Err(wrong(format!("it has {} bytes", text.len())));
                }
                let config =
                    serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
                all.push((id, config));
                Ok(())
            },
        )?;
        Ok(all)
    }

    /// The configuration of one column, with its id.
    ///
    /// # Errors
    /// As [`Config::all`].
    pub(crate) fn find(db: &impl Sql, table: &str, column: &str) -> Result<Option<(i64, Config)>> {
        let all = Config::all(db)?;
        Ok(all.into_iter().find(|(_, config)| {
            config.table.eq_ignore_ascii_case(table) && config.column.eq_ignore_ascii_case(column)
        }))
    }

    /// As [`Config::find`], for a column that has to be compressed.
    ///
    /// # Errors
    /// Also when it is not.
    pub(crate) fn get(db: &impl Sql, table: &str, column: &str) -> Result<(i64, Config)> {
        Config::find(db, table, column)?.ok_or_else(|| {
            Error::new(format!(
                "column {column} of table {table} is not compressed; select litepack_columns() lists those that are"
            ))
        })
    }
}

fn is_valid(key: &str, value: &serde_json::Value) -> bool {
    match key {
        "table" | "column" | "dict_chooser" => value.is_string(),
        "compression_level" => value
            .as_i64()
            .is_some_and(|level| (1..=22).contains(&level)),
        "min_dict_size_bytes_for_training" => value.as_i64().is_some_and(|size| size >= 0),
        "dict_size_ratio" => value
            .as_f64()
            .is_some_and(|ratio| ratio > 0.0 && ratio <= 1.0),
        "train_dict_samples_ratio" => value.as_f64().is_some_and(|ratio| ratio >= 1.0),
        _ => value.as_i64().is_some_and(|bytes| bytes >= 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(extra: &str) -> Result<Config> {
        Config::parse(&format!(
            r#"{{"table":"t","column":"c","compression_level":19,"dict_chooser":"'a'"{extra}}}"#
        ))
    }

    #[test]
    fn defaults_are_those_of_sqlite_zstd() {
        let config = parse("").expect("valid");
        assert_eq!(config.min_dict_size_bytes_for_training, 5000);
        assert_eq!(config.dict_size_ratio, 0.01);
        assert_eq!(config.train_dict_samples_ratio, 100.0);
        assert_eq!(config.incremental_compression_step_bytes, 1_666_666);
        assert_eq!(Config::parse(&config.json()).expect("stored"), config);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (extra, word) in [
            (r#","colum":"x""#, "\"colum\""),
            (r#","dict_size_ratio":"1""#, "dict_size_ratio"),
            (r#","dict_size_ratio":0"#, "dict_size_ratio"),
            (r#","incremental_compression_step_bytes":0"#, "step_bytes"),
            (r#","train_dict_samples_ratio":true"#, "train_dict"),
            (r#","compression_level":0"#, "1 to 22"),
            (r#","compression_level":1.5"#, "1 to 22"),
        ] {
            let error = parse(extra).expect_err(extra).message;
            assert!(error.contains(word), "{error}");
        }
        assert!(Config::parse("[]").is_err() && Config::parse("{").is_err());
        assert!(
            Config::parse("{}")
                .expect_err("empty")
                .message
                .contains("table")
        );
    }

    #[test]
    fn a_patch_is_checked_as_a_whole() {
        let config = parse("").expect("valid");
        let changed = config.patched(r#"{"compression_level":3}"#).expect("valid");
        assert_eq!(changed.compression_level, 3);
        for patch in [
            r#"{"table":"u"}"#,
            r#"{"levle":3}"#,
            "[]",
            "3",
            r#"{"compression_level":99}"#,
        ] {
            assert!(config.patched(patch).is_err(), "{patch}");
        }
    }
}
