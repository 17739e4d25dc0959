//! Dictionaries by id: in `_zstd_dicts`, and which of them a connection may keep in memory.
//!
//! A decoding function sees an id and a frame, not the database they come from, nor whether the id
//! meant something else a moment ago. So the id of a dictionary made here follows from its content:
//! whatever is attached, replaced or rolled back, content that fits the id is the right one, and may
//! be kept. The ids that sqlite-zstd counts up from 1 say nothing about the content.
//! They are looked up in all databases of the connection, which must agree, and remembered only
//! while none of these can have changed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use litepack_codec::Dictionary;
use litepack_io::interrupt;

use crate::sql::{Error, Result, Sql, Statement, Value};
use crate::stored::{self, NamedObject, find_then};
use litepack_btree::quote;

/// The id that stands for compression without a dictionary.
pub const NO_DICTIONARY: i64 = -1;
/// The chooser key that asks for that.
pub(crate) const NO_DICTIONARY_KEY: &str = "[nodict]";

/// sqlite-zstd reads ids into 32 bits, and -1 and what it counts up from 0 are taken.
const CONTENT_IDS: u64 = (1 << 31) - 3;
/// Most memory of all kept dictionaries; a single one may take more. It is less where memory is short.
const KEPT_BYTES: usize = 128 << 20;
/// Bytes that zstd prepares of a dictionary, beside a copy of it.
const PREPARED_BYTES: usize = 32 << 10;
/// How many ids are known at a time.
const KNOWN_MAX: usize = 10_000;

/// The id that dictionaries of this content have, from -2 downwards.
pub(crate) fn content_id(bytes: &[u8]) -> i64 {
    id_of_hash(Dictionary::hash_of(bytes))
}

fn id_of_hash(hash: u128) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "half of it is meant")]
    let hash = hash as u64;
    -2 - (hash % CONTENT_IDS).cast_signed()
}

/// Whether such an id follows from content.
pub fn is_content_id(id: i64) -> bool {
    id < NO_DICTIONARY
}

/// The dictionary with these bytes.
///
/// # Errors
/// When memory is short, or it was interrupted.
pub fn of_bytes(bytes: &[u8]) -> Result<Arc<Dictionary>> {
    const PIECE: usize = 1 << 20;
    let mut copy = litepack_io::memory::with_room(bytes.len())?;
    for piece in bytes.chunks(PIECE) {
        interrupt::check()?;
        copy.extend_from_slice(piece);
    }
    interrupt::check()?;
    Ok(Dictionary::shared(copy))
}

/// Dictionaries held in memory, however many a database has.
#[derive(Debug)]
pub(crate) struct Kept<K> {
    held: BTreeMap<K, Arc<Dictionary>>,
    bytes: usize,
}

impl<K> Default for Kept<K> {
    fn default() -> Self {
        Kept {
            held: BTreeMap::new(),
            bytes: 0,
        }
    }
}

impl<K: Ord> Kept<K> {
    /// The one held under this key.
    pub(crate) fn get(&self, key: &K) -> Option<&Arc<Dictionary>> {
        self.held.get(key)
    }

    /// Holds one more; those before it may have to go.
    pub(crate) fn add(&mut self, key: K, dictionary: &Arc<Dictionary>) {
        let len = dictionary.bytes().len();
        self.make_room(len);
        self.bytes += cost(len);
        if let Some(replaced) = self.held.insert(key, dictionary.clone()) {
            self.bytes -= cost(replaced.bytes().len());
        }
    }

    /// Lets all go if a dictionary of this length would be too much beside them.
    pub(crate) fn make_room(&mut self, len: usize) {
        if self.bytes + cost(len) > litepack_io::fixed::part(KEPT_BYTES) {
            self.clear();
        }
    }

    /// Lets all go.
    pub(crate) fn clear(&mut self) {
        *self = Kept::default();
    }
}

/// The memory that a dictionary of this length takes.
fn cost(len: usize) -> usize {
    len.saturating_mul(2).saturating_add(PREPARED_BYTES)
}

/// Which dictionary an id stands for, for as long as something keeps that dictionary.
type KnownDictionaries = BTreeMap<i64, Weak<Dictionary>>;

fn note(known: &mut KnownDictionaries, id: i64, dictionary: &Arc<Dictionary>) {
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(id, Arc::downgrade(dictionary));
}

/// The dictionaries one connection remembers.
#[derive(Debug, Default)]
pub struct Dictionaries {
    /// Those remembered in any way, by hash.
    kept: RefCell<Kept<u128>>,
    /// By ids that follow from content.
    certain: RefCell<KnownDictionaries>,
    /// By other ids, as of a state of the databases.
    passing: RefCell<(Option<Stamp>, KnownDictionaries)>,
}

/// A state of databases that cannot be exchanged for others without this changing.
#[derive(Debug, PartialEq)]
struct Stamp(Vec<Option<u32>>);

/// Dictionaries known to one run of a statement, of those whose ids do not follow from content.
///
/// While a statement runs, the databases it reads stay attached and show it one state, which only
/// its own connection can change.
#[derive(Debug, Default)]
pub struct Run {
    changes: i64,
    found: KnownDictionaries,
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
        if let Some(found) = self.found.get(&id).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let found = dictionaries.get(db, id)?;
        note(&mut self.found, id, &found);
        Ok(found)
    }
}

impl Dictionaries {
    /// The dictionary of an id that follows from content, if it is remembered.
    pub fn remembered(&self, id: i64) -> Option<Arc<Dictionary>> {
        self.certain.borrow().get(&id).and_then(Weak::upgrade)
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
            note(&mut self.certain.borrow_mut(), id, &found);
            return Ok(found);
        }
        let Some(stamp) = stamp(db)? else {
            return self.look_up(db, id);
        };
        {
            let mut passing = self.passing.borrow_mut();
            if passing.0.as_ref() == Some(&stamp) {
                if let Some(known) = passing.1.get(&id).and_then(Weak::upgrade) {
                    return Ok(known);
                }
            } else {
                *passing = (Some(stamp), KnownDictionaries::default());
            }
        }
        let found = self.look_up(db, id)?;
        note(&mut self.passing.borrow_mut().1, id, &found);
        Ok(found)
    }

    /// Reads a dictionary, and keeps it.
    fn look_up(&self, db: &impl Sql, id: i64) -> Result<Arc<Dictionary>> {
        let mut found: Option<(String, Arc<Dictionary>)> = None;
        let mut damaged = None;
        for (schema, _) in databases(db)? {
            stored(db, &schema, id, |bytes| {
                if is_content_id(id) && content_id(bytes) != id {
                    damaged = Some(schema.clone());
                    return Ok(());
                }
                match &found {
                    None => {
                        self.kept.borrow_mut().make_room(bytes.len());
                        found = Some((schema.clone(), of_bytes(bytes)?));
                        Ok(())
                    }
                    Some((_, same)) if same.bytes() == bytes => Ok(()),
                    Some((first, _)) => Err(Error::new(format!(
                        "the databases {first} and {schema} each have a dictionary {id} in \
                         _zstd_dicts, and they differ, so it is not known which one a value was \
                         compressed with: open the two one at a time, or give one of them new \
                         dictionaries with litepack_retrain and litepack_recompress"
                    ))),
                }
            })?;
        }
        match (found, damaged) {
            (Some((_, dictionary)), _) => {
                self.kept.borrow_mut().add(dictionary.hash(), &dictionary);
                Ok(dictionary)
            }
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

/// Calls `each` with the bytes of a dictionary, if a database has it in an ordinary table: reading a view could run
/// anything.
fn stored(
    db: &impl Sql,
    schema: &str,
    id: i64,
    each: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<()> {
    find_then(db, schema, "_zstd_dicts", &["id", "dict"], |found| {
        if found != NamedObject::Table {
            return Ok(());
        }
        let sql = format!(
            "select dict from {}._zstd_dicts where id = ?",
            quote(schema)
        );
        let read = db.row(&sql, &[Value::Integer(id)], |row| {
            each(row.column(0).bytes().unwrap_or_default())
        });
        read.map(|_| ())
    })
}

/// The present state of the databases, if nothing but a change of that state can give an id another
/// meaning: only `main`, in a file, and `temp`, which are never detached, and nothing being written.
fn stamp(db: &impl Sql) -> Result<Option<Stamp>> {
    let databases = databases(db)?;
    let fixed = databases.iter().all(|(name, file)| match name.as_str() {
        "main" => !file.is_empty(),
        name => name == "temp",
    });
    if !fixed || databases.iter().any(|(name, _)| db.is_writing(name)) {
        return Ok(None);
    }
    // The version is that of the state being read, so something has to be read meanwhile.
    let versions = db.row("select 1 from main.sqlite_schema limit 1", &[], |_| {
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
/// That something else has the name of one, and SQLite's.
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
    stored::expect_helpers(db)?;
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
    fn a_long_dictionary_ends_when_it_is_interrupted() {
        let bytes = vec![7; 10 << 20];
        let made = interrupt::listen(|| true, || of_bytes(&bytes).map(|_| ()));
        assert_eq!(made.unwrap_err().code, crate::sql::INTERRUPT);
        assert_eq!(of_bytes(&bytes).unwrap().bytes(), bytes);
    }

    #[test]
    fn ids_by_content_are_negative_and_fit_32_bits() {
        for hash in [0, CONTENT_IDS - 1, CONTENT_IDS, u64::MAX, 1 << 31] {
            let id = id_of_hash(u128::from(hash));
            assert!((i64::from(i32::MIN)..=-2).contains(&id), "{hash}: {id}");
            assert!(is_content_id(id));
        }
        assert!(!is_content_id(NO_DICTIONARY) && !is_content_id(0) && !is_content_id(1));
        // Data on disk depends on these numbers: they never change.
        assert_eq!(content_id(b""), -110_615_656);
    }

    #[test]
    fn memory_for_dictionaries_is_bounded() {
        let mut kept = Kept::default();
        let dictionary = Arc::new(Dictionary::new(vec![1; 20 << 20]));
        for id in 2..20 {
            kept.add(-id, &dictionary);
            assert!(kept.bytes <= KEPT_BYTES && kept.held.len() <= 3);
            kept.add(-id, &dictionary);
            assert_eq!(kept.bytes, kept.held.len() * cost(20 << 20));
        }
        // One that is larger than all may be has to be read nevertheless, and is alone.
        kept.add(-1, &Arc::new(Dictionary::new(vec![1; 70 << 20])));
        assert_eq!(kept.held.len(), 1);
        kept.add(-2, &dictionary);
        assert_eq!(kept.held.len(), 1);
        // Small ones take more than their bytes.
        for id in 0..100_000 {
            kept.add(id, &Arc::new(Dictionary::new([7])));
        }
        assert!(kept.held.len() <= KEPT_BYTES / PREPARED_BYTES);
    }
}
