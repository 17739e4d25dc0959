//! The state that maintenance keeps between calls: how far it is in each column, the rows it left alone, and the
//! dictionaries it made.
//!
//! A pass that came to its end knows the rows it left alone, by number and hash of their keys. As long
//! as exactly those are not compressed there is nothing to do, and the next call finds that out from
//! the index alone.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::column::{Column, Key};
use crate::sql::{OwnedValue, Result, Sql, Statement, Value};
use crate::stored::has_helper;
use crate::transaction::lock;

/// A longer state is not read. Long keys may take some room in it, and the names of groups.
const STATE_MAX: usize = 256 << 20;

const STATES: &str = "_litepack_maintenance";
const MADE: &str = "_litepack_dictionaries";

/// The state of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The configuration this is about; with any other it is void.
    config: String,
    /// Rows up to this key have been looked at in this pass.
    position: Option<Vec<Part>>,
    /// The rows among them that stayed as they are.
    pub(crate) left: Rows,
    /// Groups that stay as they are.
    pub(crate) groups: BTreeMap<String, Left>,
    /// Whether there are more groups than are told apart; the others stay as they are.
    pub(crate) crowded: bool,
    /// Whether the pass has come to its end.
    pub(crate) complete: bool,
    /// How far recompressing has come.
    recompressed: Option<Vec<Part>>,
}

/// A set of rows, as far as it has to be told from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rows {
    /// How many.
    pub(crate) count: u64,
    hash: u64,
}

impl Rows {
    /// Adds a row.
    pub(crate) fn add(&mut self, key: &Key) {
        let mut hasher = DefaultHasher::new();
        for value in key {
            Part::from(value).hash(&mut hasher);
        }
        self.count = self.count.saturating_add(1);
        self.hash = self.hash.wrapping_add(hasher.finish());
    }

    /// The rows of a column that are not compressed now.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn not_compressed(db: &impl Sql, column: &Column) -> Result<Rows> {
        let mut rows = Rows::default();
        let keys = column.keys();
        let count = column.key_len();
        let sql = format!(
            "select {keys} from {} where {} is null",
            column.backing(),
            column.marker()
        );
        db.rows(&sql, &[], |row| {
            let key: Result<Key> = (0..count).map(|i| row.column(i).to_owned()).collect();
            rows.add(&key?);
            Ok(())
        })?;
        Ok(rows)
    }
}

/// A group that stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Left {
    /// Rows that could have been compressed.
    pub(crate) rows: u64,
    /// Bytes in these.
    pub(crate) bytes: u64,
    /// Why, in words.
    pub(crate) why: String,
}

/// A value of a key, as JSON keeps it to the bit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Part {
    Null,
    Integer(i64),
    Real(u64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl From<&OwnedValue> for Part {
    fn from(value: &OwnedValue) -> Part {
        match value {
            OwnedValue::Null => Part::Null,
            OwnedValue::Integer(value) => Part::Integer(*value),
            OwnedValue::Real(value) => Part::Real(value.to_bits()),
            OwnedValue::Text(bytes) => Part::Text(bytes.clone()),
            OwnedValue::Blob(bytes) => Part::Blob(bytes.clone()),
        }
    }
}

impl From<&Part> for OwnedValue {
    fn from(part: &Part) -> OwnedValue {
        match part {
            Part::Null => OwnedValue::Null,
            Part::Integer(value) => OwnedValue::Integer(*value),
            Part::Real(bits) => OwnedValue::Real(f64::from_bits(*bits)),
            Part::Text(bytes) => OwnedValue::Text(bytes.clone()),
            Part::Blob(bytes) => OwnedValue::Blob(bytes.clone()),
        }
    }
}

fn parts(key: Option<&Key>) -> Option<Vec<Part>> {
    key.map(|key| key.iter().map(Part::from).collect())
}

fn key(parts: Option<&Vec<Part>>) -> Option<Key> {
    parts.map(|parts| parts.iter().map(OwnedValue::from).collect())
}

impl State {
    /// The stored state of a column, or a state in which nothing has been done.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn load(db: &impl Sql, column: &Column) -> Result<State> {
        let config = column.config.json();
        let mut found: Option<State> = None;
        if has_helper(db, STATES)? {
            let sql = format!("select state from main.{STATES} where config = ?1");
            db.row(&sql, &[Value::Integer(column.id)], |row| {
                // A state that cannot be read is not worth more than none.
                let json = row.column(0).bytes().filter(|json| json.len() <= STATE_MAX);
                found = json.and_then(|json| serde_json::from_slice(json).ok());
                Ok(())
            })?;
        }
        Ok(found
            .filter(|state| state.config == config && state.fits(column))
            .unwrap_or(State {
                config,
                ..State::default()
            }))
    }

    /// Remembers this. As the first statement of a transaction it also takes the lock for writing.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn save(&self, db: &impl Sql, column: &Column) -> Result<()> {
        lock(db)?;
        db.run(
            &format!(
                "create table if not exists main.{STATES}(config integer primary key, state text)"
            ),
            &[],
        )?;
        // All fields have a JSON form.
        let json = serde_json::to_string(self).unwrap_or_default();
        let sql = format!("insert or replace into main.{STATES}(config, state) values(?1, ?2)");
        let values = [Value::Integer(column.id), Value::from(json.as_str())];
        db.run(&sql, &values)
    }

    /// Whether the keys in it are keys of this column's table.
    fn fits(&self, column: &Column) -> bool {
        let fits = |key: &Vec<Part>| key.len() == column.key_len();
        self.position.as_ref().is_none_or(fits) && self.recompressed.as_ref().is_none_or(fits)
    }

    /// A new pass begins.
    pub(crate) fn restart(&mut self) {
        *self = State {
            config: std::mem::take(&mut self.config),
            recompressed: self.recompressed.take(),
            ..State::default()
        };
    }

    /// The last row looked at in this pass.
    pub(crate) fn position(&self) -> Option<Key> {
        key(self.position.as_ref())
    }

    /// Rows up to this one have been looked at.
    pub(crate) fn set_position(&mut self, position: Option<&Key>) {
        self.position = parts(position);
    }

    /// The last row compressed again.
    pub(crate) fn recompressed(&self) -> Option<Key> {
        key(self.recompressed.as_ref())
    }

    /// Rows up to this one have been compressed again; `None` when all have.
    pub(crate) fn set_recompressed(&mut self, position: Option<&Key>) {
        self.recompressed = parts(position);
    }
}

/// Remembers that maintenance made a dictionary, or took it out of use: so it may be dropped when no
/// row needs it.
///
/// # Errors
/// SQLite's.
pub(crate) fn note_dictionary(db: &impl Sql, id: i64) -> Result<()> {
    let create = format!("create table if not exists main.{MADE}(id integer primary key)");
    db.run(&create, &[])?;
    let insert = format!("insert or ignore into main.{MADE}(id) values(?1)");
    db.run(&insert, &[Value::Integer(id)])
}

/// The dictionaries noted.
///
/// # Errors
/// SQLite's.
pub(crate) fn noted_dictionaries(db: &impl Sql) -> Result<Vec<i64>> {
    let mut ids = Vec::new();
    if has_helper(db, MADE)? {
        db.rows(&format!("select id from main.{MADE}"), &[], |row| {
            ids.extend(row.column(0).integer());
            Ok(())
        })?;
    }
    Ok(ids)
}

/// Forgets a dictionary that is gone.
///
/// # Errors
/// SQLite's.
pub(crate) fn forget_dictionary(db: &impl Sql, id: i64) -> Result<()> {
    let sql = format!("delete from main.{MADE} where id = ?1");
    db.run(&sql, &[Value::Integer(id)])
}
