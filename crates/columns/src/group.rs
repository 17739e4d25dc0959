//! From the group that a chooser names to the dictionary of the main database that compresses the row.

use std::collections::HashMap;
use std::sync::Arc;

use litepack_codec::Dictionary;

use crate::dictionary::{
    Kept, NO_DICTIONARY, NO_DICTIONARY_KEY, content_id, is_content_id, of_bytes,
};
use crate::sql::{Error, Result, Sql, Statement, Value};

/// The decision about the rows of a group.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// They stay as they are.
    Leave,
    /// They are compressed without a dictionary.
    Bare,
    /// They are compressed with this one.
    With(i64, Arc<Dictionary>),
}

impl Decision {
    /// The number that marks a row so compressed; `None` for a row that stays as it is.
    pub(crate) fn marker(&self) -> Option<i64> {
        match self {
            Decision::Leave => None,
            Decision::Bare => Some(NO_DICTIONARY),
            Decision::With(id, _) => Some(*id),
        }
    }

    /// The dictionary, if there is one.
    pub(crate) fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        match self {
            Decision::With(_, dictionary) => Some(dictionary),
            _ => None,
        }
    }
}

/// The groups met so far.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Those that have no dictionary: whether that is decided, or for sampling to say.
    without: HashMap<String, Option<Decision>>,
    /// The ids of those that have one.
    with: HashMap<String, i64>,
    dictionaries: Kept<i64>,
    /// Bytes in the names that can be looked up again.
    names: usize,
}

/// Names that take more than this together are looked up again.
const NAMES_MAX: usize = 16 << 20;

impl Groups {
    /// The decision for the rows of a group; `None` if it has no dictionary.
    ///
    /// # Errors
    /// When its dictionary is damaged, and SQLite's.
    pub(crate) fn decide(
        &mut self,
        db: &impl Sql,
        group: Option<&str>,
    ) -> Result<Option<Decision>> {
        let Some(group) = group else {
            return Ok(Some(Decision::Leave));
        };
        if group == NO_DICTIONARY_KEY {
            return Ok(Some(Decision::Bare));
        }
        if let Some(known) = self.without.get(group) {
            return Ok(known.clone());
        }
        if let Some(id) = self.with.get(group)
            && let Some(dictionary) = self.dictionaries.get(id)
        {
            return Ok(Some(Decision::With(*id, dictionary.clone())));
        }
        let sql = "select id, dict from main._zstd_dicts where chooser_key = ?1";
        let found = db.row(sql, &[Value::from(group)], |row| {
            let bytes = row.column(1).bytes().unwrap_or_default();
            let id = row.column(0).integer().unwrap_or_default();
            checked(id, bytes).map(|dictionary| Decision::With(id, dictionary))
        })?;
        self.names += group.len() + size_of::<Decision>();
        if self.names > NAMES_MAX {
            self.names = 0;
            self.with.clear();
            self.without.retain(|_, decision| decision.is_some());
        }
        if let Some(Decision::With(id, dictionary)) = &found {
            self.dictionaries.add(*id, dictionary);
            self.with.insert(group.to_string(), *id);
        } else {
            self.without.insert(group.to_string(), found.clone());
        }
        Ok(found)
    }

    /// Rows of this group stay as they are.
    pub(crate) fn leave(&mut self, group: &str) {
        self.without
            .insert(group.to_string(), Some(Decision::Leave));
    }

    /// Drops all groups, because dictionaries have changed.
    pub(crate) fn clear(&mut self) {
        *self = Groups::default();
    }
}

/// The dictionary `id` of the main database.
///
/// # Errors
/// When there is none or it is damaged, and SQLite's.
pub(crate) fn dictionary(db: &impl Sql, id: i64) -> Result<Arc<Dictionary>> {
    let sql = "select dict from main._zstd_dicts where id = ?1";
    let found = db.row(sql, &[Value::Integer(id)], |row| {
        checked(id, row.column(0).bytes().unwrap_or_default())
    })?;
    found.ok_or_else(|| {
        Error::corrupt(format!(
            "there is no dictionary {id} in _zstd_dicts, and rows are compressed with it: restore it \
             from a backup"
        ))
    })
}

fn checked(id: i64, bytes: &[u8]) -> Result<Arc<Dictionary>> {
    if is_content_id(id) && content_id(bytes) != id {
        return Err(Error::corrupt(format!(
            "dictionary {id} in _zstd_dicts is damaged: restore this row from a backup"
        )));
    }
    of_bytes(bytes)
}
