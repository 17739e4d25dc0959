//! Dictionaries by id: where `_zstd_dicts` keeps them, and which of them a connection may remember.
//!
//! A decoding function sees an id and a frame, not the database they come from, nor whether the id
//! meant something else a moment ago. So the id of a dictionary made here follows from its content:
//! whatever is attached, replaced or rolled back, content that fits the id is the right one, and may
//! be remembered for ever. The ids that sqlite-zstd counts up from 1 say nothing about the content.
//! They are looked up in all databases of the connection, which must agree, and remembered only
//! while none of these can have changed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use litepack_codec::Dictionary;

use crate::sql::{Error, Result, Sql, Statement, Value};
use crate::tokens::quote;

/// The id that stands for compression without a dictionary.
pub const NO_DICTIONARY: i64 = -1;
/// The chooser key that asks for that.
pub const NO_DICTIONARY_KEY: &str = "[nodict]";

/// sqlite-zstd reads ids into 32 bits, and -1 and what it counts up from 0 are taken.
const CONTENT_IDS: u64 = (1 << 31) - 3;
/// A connection remembers dictionaries of so many bytes together.
const REMEMBERED_BYTES: usize = 64 << 20;

/// The id that dictionaries of this content have, from -2 downwards.
pub fn content_id(bytes: &[u8]) -> i64 {
    id_of_hash(Dictionary::hash_of(bytes))
}

fn id_of_hash(hash: u128) -> i64 {
    -2 - (hash as u64 % CONTENT_IDS) as i64
}

/// Whether such an id follows from content.
pub fn is_content_id(id: i64) -> bool {
    id < NO_DICTIONARY
}

/// What one connection remembers of dictionaries.
#[derive(Debug, Default)]
pub struct Dictionaries {
    /// By ids that follow from content.
    certain: RefCell<Remembered>,
    /// By other ids, as of a state of the databases.
    passing: RefCell<(Option<Stamp>, Remembered)>,
}

#[derive(Debug, Default)]
struct Remembered {
    by_id: BTreeMap<i64, Arc<Dictionary>>,
    bytes: usize,
}

impl Remembered {
    fn add(&mut self, id: i64, dictionary: &Arc<Dictionary>) {
        let len = dictionary.bytes().len();
        if self.bytes + len > REMEMBERED_BYTES {
            *self = Remembered::default();
        }
        self.bytes += len;
        self.by_id.insert(id, dictionary.clone());
    }
}

/// A state of databases that cannot be exchanged for others without this changing.
#[derive(Debug, PartialEq)]
struct Stamp(Vec<Option<u32>>);

/// What one run of a statement knows of dictionaries whose ids do not follow from content.
///
/// While a statement runs, the databases it reads stay attached and show it one state, which only
/// its own connection can change.
#[derive(Debug, Default)]
pub struct Run {
    changes: i64,
    found: BTreeMap<i64, Arc<Dictionary>>,
}

impl Run {
    /// As [`Dictionaries::get`], for a row of the running statement.
    ///
    /// # Errors
    /// As there.
    pub fn get(
        &mut self,
        dictionaries: &Dictionaries,
        db: &impl Sql,
        id: i64,
    ) -> Result<Arc<Dictionary>> {
        let changes = db.total_changes();
        if self.changes != changes {
            self.changes = changes;
            self.found.clear();
        }
        if let Some(found) = self.found.get(&id) {
            return Ok(found.clone());
        }
        let found = dictionaries.get(db, id)?;
        self.found.insert(id, found.clone());
        Ok(found)
    }
}

impl Dictionaries {
    /// The dictionary of an id that follows from content, if it is remembered.
    pub fn remembered(&self, id: i64) -> Option<Arc<Dictionary>> {
        self.certain.borrow().by_id.get(&id).cloned()
    }

    /// The dictionary that `id`, other than [`NO_DICTIONARY`], stands for in the databases of this
    /// connection.
    ///
    /// # Errors
    /// When there is none, when it is damaged, when databases disagree, or SQLite's.
    pub fn get(&self, db: &impl Sql, id: i64) -> Result<Arc<Dictionary>> {
        if is_content_id(id) {
            if let Some(known) = self.remembered(id) {
                return Ok(known);
            }
            let found = self.look_up(db, id)?;
            self.certain.borrow_mut().add(id, &found);
            return Ok(found);
        }
        let Some(stamp) = stamp(db, id)? else {
            return self.look_up(db, id);
        };
        {
            let mut passing = self.passing.borrow_mut();
            if passing.0.as_ref() == Some(&stamp) {
                if let Some(known) = passing.1.by_id.get(&id) {
                    return Ok(known.clone());
                }
            } else {
                *passing = (Some(stamp), Remembered::default());
            }
        }
        let found = self.look_up(db, id)?;
        self.passing.borrow_mut().1.add(id, &found);
        Ok(found)
    }

    fn look_up(&self, db: &impl Sql, id: i64) -> Result<Arc<Dictionary>> {
        let mut found: Option<(String, Arc<Dictionary>)> = None;
        let mut damaged = None;
        for (schema, _) in databases(db)? {
            let Some(bytes) = stored(db, &schema, id)? else {
                continue;
            };
            if is_content_id(id) && content_id(&bytes) != id {
                damaged = Some(schema);
                continue;
            }
            match &found {
                None => found = Some((schema, Dictionary::shared(&bytes))),
                Some((_, same)) if same.bytes() == bytes => {}
                Some((first, _)) => {
                    return Err(Error::new(format!(
                        "the databases {first} and {schema} each have a dictionary {id} in \
                         _zstd_dicts, and they differ, so it is not known which one a value was \
                         compressed with: open the two one at a time, or give one of them new \
                         dictionaries with litepack_retrain and litepack_recompress"
                    )));
                }
            }
        }
        match (found, damaged) {
            (Some((_, dictionary)), _) => Ok(dictionary),
            (None, Some(schema)) => Err(Error::corrupt(format!(
                "dictionary {id} in {schema}._zstd_dicts is damaged, and values compressed with it \
                 cannot be read: restore this row of _zstd_dicts from a backup"
            ))),
            (None, None) => Err(Error::new(format!(
                "there is no dictionary {id} in _zstd_dicts of any attached database: values \
                 compressed with it can be read once that row is restored from a backup"
            ))),
        }
    }
}

/// Names and files of the databases of this connection.
fn databases(db: &impl Sql) -> Result<Vec<(String, String)>> {
    let mut databases = Vec::new();
    db.rows("pragma database_list", &[], |row| {
        let text = |index| row.column(index).text().unwrap_or_default();
        databases.push((text(1), text(2)));
        Ok(())
    })?;
    Ok(databases)
}

/// The bytes of a dictionary in one database.
fn stored(db: &impl Sql, schema: &str, id: i64) -> Result<Option<Vec<u8>>> {
    if !has_table(db, schema)? {
        return Ok(None);
    }
    let sql = format!(
        "select dict from {}._zstd_dicts where id = ?",
        quote(schema)
    );
    db.row(&sql, &[Value::Integer(id)], |row| {
        let bytes = row.column(0).bytes();
        Ok(bytes.unwrap_or_default().to_vec())
    })
}

/// Whether there is such a table, which is neither a view nor virtual: reading one of these on behalf
/// of a file from elsewhere could do anything.
fn has_table(db: &impl Sql, schema: &str) -> Result<bool> {
    let sql = format!(
        "select 1 from {}.sqlite_schema where type = 'table' and name = '_zstd_dicts' \
         collate nocase and rootpage > 0",
        quote(schema)
    );
    Ok(db.row(&sql, &[], |_| Ok(()))?.is_some())
}

/// The present state of the databases, if nothing but a change of that state can give `id` another
/// meaning: only `main`, in a file, and `temp`, which are never detached, and nothing being written.
fn stamp(db: &impl Sql, id: i64) -> Result<Option<Stamp>> {
    let databases = databases(db)?;
    let fixed = databases.iter().all(|(name, file)| match name.as_str() {
        "main" => !file.is_empty(),
        name => name == "temp",
    });
    if !fixed || databases.iter().any(|(name, _)| db.is_writing(name)) || !has_table(db, "main")? {
        return Ok(None);
    }
    // The version is that of the state being read, so something has to be read meanwhile.
    let sql = "select 1 from main._zstd_dicts where id = ?";
    let versions = db.row(sql, &[Value::Integer(id)], |_| {
        Ok(databases
            .iter()
            .map(|(name, _)| db.data_version(name))
            .collect())
    })?;
    Ok(versions.map(Stamp))
}

/// Creates the tables that sqlite-zstd and this extension share, where they are missing.
///
/// # Errors
/// SQLite's.
pub fn ensure_tables(db: &impl Sql) -> Result<()> {
    db.run(
        "create table if not exists main._zstd_dicts \
         (id integer primary key autoincrement, chooser_key text unique, dict blob not null)",
        &[],
    )?;
    db.run(
        "create table if not exists main._zstd_configs \
         (id integer primary key autoincrement, config json not null)",
        &[],
    )?;
    // Rows that name no dictionary refer to this one, so that foreign keys hold.
    let id = Value::Integer(NO_DICTIONARY);
    if db
        .row("select 1 from main._zstd_dicts where id = ?", &[id], |_| {
            Ok(())
        })?
        .is_none()
    {
        let sql = "insert into main._zstd_dicts (id, chooser_key, dict) values (?, ?, x'')";
        db.run(sql, &[id, NO_DICTIONARY_KEY.into()])?;
    }
    Ok(())
}

/// Adds a dictionary to `_zstd_dicts` of the main database, which must exist, and returns its id.
/// One that is there already, with the same key or none asked for, is not added again.
///
/// # Errors
/// When another dictionary has this key, or SQLite's.
pub fn save(db: &impl Sql, key: Option<&str>, bytes: &[u8]) -> Result<i64> {
    let key = key.map_or(Value::Null, Value::from);
    let mut bytes = bytes;
    loop {
        let id = content_id(bytes);
        let sql = "select dict is ?2 and (chooser_key is ?3 or ?3 is null), dict is ?2 and \
                   chooser_key is null from main._zstd_dicts where id = ?1";
        let parameters = [Value::Integer(id), Value::Blob(bytes), key];
        let there = db.row(sql, &parameters, |row| {
            let yes = |index| row.column(index) == Value::Integer(1);
            Ok((yes(0), yes(1)))
        })?;
        match there {
            None => {
                let sql = "insert into main._zstd_dicts (id, dict, chooser_key) values (?, ?, ?)";
                db.run(sql, &parameters)?;
                return Ok(id);
            }
            Some((true, _)) => return Ok(id),
            Some((false, true)) => {
                let sql = "update main._zstd_dicts set chooser_key = ?2 where id = ?1";
                db.run(sql, &[Value::Integer(id), key])?;
                return Ok(id);
            }
            // The id, or this content, is taken for something else. The last byte matters little.
            Some((false, false)) => match bytes.split_last() {
                Some((_, shorter)) => bytes = shorter,
                None => return Err(Error::new("no id is free for this dictionary")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_by_content_are_negative_and_fit_32_bits() {
        for hash in [0, CONTENT_IDS - 1, CONTENT_IDS, u64::MAX, 1 << 31] {
            let id = id_of_hash(u128::from(hash));
            assert!((i64::from(i32::MIN)..=-2).contains(&id), "{hash}: {id}");
            assert!(is_content_id(id));
        }
        assert!(!is_content_id(NO_DICTIONARY) && !is_content_id(0) && !is_content_id(1));
        // What is on disk depends on these numbers: they never change.
        assert_eq!(content_id(b""), -110_615_656);
    }

    #[test]
    fn memory_for_dictionaries_is_bounded() {
        let mut remembered = Remembered::default();
        let dictionary = Arc::new(Dictionary::new(vec![1; 20 << 20]));
        for id in 2..20 {
            remembered.add(-id, &dictionary);
            assert!(remembered.bytes <= REMEMBERED_BYTES && remembered.by_id.len() <= 3);
        }
    }
}
