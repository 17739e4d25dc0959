//! A compressed column as maintenance sees it: rows of the backing table, found by key and read in
//! batches of bounded size, and changed only if they still hold what was read.
//!
//! It relies on SQLite and the texts of the schema only, so it works on databases of sqlite-zstd too.

use crate::VALUE_MAX;
use crate::chooser;
use crate::config::Config;
use crate::sql::{Error, OwnedValue, Result, Sql, Statement, Value};
use crate::stored;
use crate::tokens::Text;
use litepack_btree::quote;

/// A batch has no more rows than this, however small they are.
const ROWS_MAX: usize = 50_000;
/// A batch is not larger than this whatever is configured; a single value may be.
const BYTES_MAX: usize = 16 << 20;

/// The name of a group is not longer than this.
const GROUP_MAX: usize = 64 << 10;

/// The identity of a row: its rowid, or its primary key.
pub(crate) type Key = Vec<OwnedValue>;

/// A compressed column.
#[derive(Debug)]
pub(crate) struct Column {
    /// Its number in `_zstd_configs`.
    pub(crate) id: i64,
    /// Its configuration.
    pub(crate) config: Config,
    /// Whether it holds text or else blobs; values of the other kind stay as they are.
    pub(crate) is_text: bool,
    keys: Vec<String>,
    /// The columns the chooser can refer to, as columns of a subquery.
    visible: String,
}

/// Which rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those stored as they are.
    Raw,
    /// Those that hold frames.
    Compressed,
    /// All.
    All,
}

/// A row as it was read.
#[derive(Debug)]
pub(crate) struct Row {
    /// Where it is.
    pub(crate) key: Key,
    /// The stored value: a plain one, or a frame.
    pub(crate) stored: OwnedValue,
    /// The dictionary of a frame; `None` for a value stored as it is.
    pub(crate) dictionary: Option<i64>,
    /// The chooser's answer.
    pub(crate) group: Option<String>,
}

impl Column {
    /// All compressed columns of the main database.
    ///
    /// # Errors
    /// SQLite's, or when a configuration cannot be read or is not to be followed.
    pub(crate) fn all(db: &impl Sql) -> Result<Vec<Column>> {
        let configs = Config::all(db)?;
        configs
            .into_iter()
            .map(|(id, config)| Column::open(db, id, config))
            .collect()
    }

    /// The compressed column `column` of `table`.
    ///
    /// # Errors
    /// When it is not compressed, when its configuration is not to be followed, and SQLite's.
    pub(crate) fn get(db: &impl Sql, table: &str, column: &str) -> Result<Column> {
        let (id, config) = Config::get(db, table, column)?;
        Column::open(db, id, config)
    }

    fn open(db: &impl Sql, id: i64, config: Config) -> Result<Column> {
        let backing = backing(&config.table);
        let physical = unquoted(&config.table);
        let needed = [config.column.as_str(), &format!("_{}_dict", config.column)];
        stored::expect(db, &physical, &needed)?;
        if let Some(why) = chooser::objection(db, &config.dict_chooser)? {
            return Err(refused(&config, &why));
        }
        let mut names = Vec::new();
        let mut primary = Vec::new();
        let pragma = format!("pragma main.table_xinfo({})", quote(&physical));
        db.rows(&pragma, &[], |row| {
            let name = row.column(1).text().unwrap_or_default();
            match row.column(5).integer() {
                Some(place) if place > 0 => primary.push((place, quote(&name))),
                _ => {}
            }
            names.push(name);
            Ok(())
        })?;
        primary.sort();
        let is_column = |alias: &str| names.iter().any(|name| name.eq_ignore_ascii_case(alias));
        let rowid = ["rowid", "_rowid_", "oid"].into_iter().find(|alias| {
            !is_column(alias)
                && db
                    .prepare(&format!("select {alias} from {backing}"))
                    .is_ok()
        });
        let keys = match rowid {
            Some(alias) => vec![alias.to_string()],
            None => primary.into_iter().map(|(_, name)| name).collect(),
        };
        // A column takes time to decode, so only those that the chooser can mean are offered to it.
        let chooser = config.dict_chooser.to_ascii_lowercase();
        let mut visible = String::new();
        for name in names.iter().map(String::as_str).chain(rowid) {
            if chooser.contains(&name.to_ascii_lowercase()) {
                let plain = match Config::find(db, &config.table, name)? {
                    Some((_, other)) => decoded(&other.column, kind(db, &other)?),
                    None if Some(name) == rowid => name.to_string(),
                    None => quote(name),
                };
                visible.push_str(&format!(", {plain} as {}", quote(name)));
            }
        }
        let column = Column {
            id,
            is_text: kind(db, &config)?,
            config,
            keys,
            visible,
        };
        column.expect_of_a_row(db)?;
        Ok(column)
    }

    /// Checks that the chooser has a value for each row: SQLite refuses an aggregate in a WHERE.
    fn expect_of_a_row(&self, db: &impl Sql) -> Result<()> {
        let sql = format!(
            "select 1 from (select 1{} from {}) as {} where ({}\n) is null",
            self.visible,
            self.backing(),
            quote(&unquoted(&self.config.table)),
            self.config.dict_chooser
        );
        let prepared = db.prepare(&sql).map(|_| ());
        prepared.map_err(|error| refused(&self.config, &error.message))
    }

    /// The backing table, as SQL.
    pub(crate) fn backing(&self) -> String {
        backing(&self.config.table)
    }

    /// The column that names a row's dictionary, as SQL.
    pub(crate) fn marker(&self) -> String {
        marker(&self.config.column)
    }

    /// The plain value of the column, as SQL over the backing table.
    pub(crate) fn plain(&self) -> String {
        decoded(&self.config.column, self.is_text)
    }

    /// The columns of the key, as SQL.
    pub(crate) fn keys(&self) -> String {
        self.keys.join(", ")
    }

    /// How many columns the key has.
    pub(crate) fn key_len(&self) -> usize {
        self.keys.len()
    }

    /// The bytes of a value that may be compressed: text that is valid in a text column, blobs in any other. `None` for
    /// a value larger than a view may decompress: it stays as it is.
    pub(crate) fn content<'v>(&self, value: &'v OwnedValue) -> Option<&'v [u8]> {
        let content = match value {
            OwnedValue::Text(bytes) if self.is_text && std::str::from_utf8(bytes).is_ok() => {
                Some(&bytes[..])
            }
            OwnedValue::Blob(bytes) if !self.is_text => Some(&bytes[..]),
            _ => None,
        };
        content.filter(|content| content.len() <= VALUE_MAX)
    }

    /// A value of this column with this content.
    pub(crate) fn value(&self, content: Vec<u8>) -> OwnedValue {
        if self.is_text {
            OwnedValue::Text(content)
        } else {
            OwnedValue::Blob(content)
        }
    }

    /// `select …` of what [`Row`] has, with a condition and an order.
    pub(crate) fn select(&self, which: Which, after: bool) -> String {
        let marker = self.marker();
        // The plus keeps SQLite from using an index on the marker that would not give the order.
        let condition = match which {
            Which::Raw => format!("{marker} is null"),
            Which::Compressed => format!("+{marker} is not null"),
            Which::All => "true".into(),
        };
        let beyond = if after {
            let marks = vec!["?"; self.keys.len()].join(", ");
            format!(" and ({}) > ({marks})", self.keys())
        } else {
            String::new()
        };
        let aliases: Vec<String> = (0..self.keys.len())
            .map(|index| format!("_litepack_key{index}"))
            .collect();
        let named: Vec<String> = std::iter::zip(&self.keys, &aliases)
            .map(|(key, alias)| format!("{key} as {alias}"))
            .collect();
        format!(
            "select {}, _litepack_stored, _litepack_marker, cast(({}\n) as text) from \
             (select {}, {} as _litepack_stored, {marker} as _litepack_marker{} from {} \
             where {condition}{beyond} order by {}) as {}",
            aliases.join(", "),
            self.config.dict_chooser,
            named.join(", "),
            quote(&self.config.column),
            self.visible,
            self.backing(),
            self.keys(),
            quote(&unquoted(&self.config.table))
        )
    }

    /// `select …` of group, type, number and bytes of the values stored as they are.
    pub(crate) fn sum_raw(&self) -> String {
        // The limit keeps the lengths from being taken after sorting, with all values in the sorter.
        format!(
            "select _litepack_group, _litepack_type, count(*), sum(_litepack_bytes) from \
             (select cast(({}\n) as text) as _litepack_group, \
             typeof(_litepack_stored) as _litepack_type, \
             ifnull(length(cast(_litepack_stored as blob)), 0) as _litepack_bytes from \
             (select {} as _litepack_stored{} from {} where {} is null) as {} limit -1) group by 1, 2",
            self.config.dict_chooser,
            quote(&self.config.column),
            self.visible,
            self.backing(),
            self.marker(),
            quote(&unquoted(&self.config.table))
        )
    }

    /// The next rows after `after` in the order of keys, as many as a batch holds; none at the end.
    ///
    /// # Errors
    /// SQLite's, among them those of the chooser.
    pub(crate) fn read(
        &self,
        db: &impl Sql,
        which: Which,
        after: Option<&Key>,
    ) -> Result<Vec<Row>> {
        let step = usize::try_from(self.config.incremental_compression_step_bytes);
        let limit = step.unwrap_or(BYTES_MAX).clamp(1, BYTES_MAX);
        let mut statement = db
            .prepare(&self.select(which, after.is_some()))
            .map_err(|error| error.context(self.name()))?;
        for (index, value) in after.into_iter().flatten().enumerate() {
            statement.bind(index + 1, value.as_value())?;
        }
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let count = self.keys.len();
        while bytes < limit && rows.len() < ROWS_MAX && statement.step()? {
            let group = statement.column(count + 2);
            let long = group.bytes().map_or(0, <[u8]>::len);
            if long > GROUP_MAX {
                let why = format!("it gives a text of {long} bytes, and {GROUP_MAX} are the most");
                return Err(refused(&self.config, &why));
            }
            let key: Result<Key> = (0..=count)
                .map(|index| statement.column(index).to_owned())
                .collect();
            let mut row = Row {
                key: key?,
                stored: OwnedValue::Null,
                dictionary: statement.column(count + 1).integer(),
                group: group.text(),
            };
            row.stored = row.key.pop().unwrap_or(OwnedValue::Null);
            let parts = row.key.iter().chain([&row.stored]);
            bytes += long + parts.map(OwnedValue::weight).sum::<usize>();
            rows.push(row);
        }
        Ok(rows)
    }

    /// A statement that replaces what a row stores if it still stores what was read.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn prepare_replace<'s, S: Sql>(
        &self,
        db: &'s S,
    ) -> Result<Replace<S::Statement<'s>>> {
        let column = quote(&self.config.column);
        let marker = self.marker();
        let keys: Vec<String> = self
            .keys
            .iter()
            .map(|key| format!(" and {key} = ?"))
            .collect();
        // The plus takes away the column's affinity, and its collation is overruled: the old value has
        // to be the same to the byte.
        let sql = format!(
            "update {} set {column} = ?, {marker} = ? where {marker} is ? and \
             +{column} is ? collate binary{}",
            self.backing(),
            keys.concat()
        );
        Ok(Replace(db.prepare(&sql)?))
    }

    /// Table and column for people.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.config.table, self.config.column)
    }
}

/// See [`Column::prepare_replace`].
#[derive(Debug)]
pub(crate) struct Replace<T>(T);

impl<T: Statement> Replace<T> {
    /// Replaces the content of a row, unless it has changed since it was read.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn run(
        &mut self,
        row: &Row,
        stored: Value<'_>,
        dictionary: Option<i64>,
    ) -> Result<()> {
        let id = |id: Option<i64>| id.map_or(Value::Null, Value::Integer);
        let values = [
            stored,
            id(dictionary),
            id(row.dictionary),
            row.stored.as_value(),
        ];
        let keys = row.key.iter().map(OwnedValue::as_value);
        for (index, value) in values.into_iter().chain(keys).enumerate() {
            self.0.bind(index + 1, value)?;
        }
        while self.0.step()? {}
        Ok(())
    }
}

fn refused(config: &Config, why: &str) -> Error {
    Error::new(format!(
        "{}.{}: dict_chooser {} is refused: {why}; litepack_configure_column sets another one",
        config.table, config.column, config.dict_chooser
    ))
}

fn unquoted(table: &str) -> String {
    format!("_{table}_zstd")
}

fn backing(table: &str) -> String {
    format!("main.{}", quote(&unquoted(table)))
}

fn marker(column: &str) -> String {
    quote(&format!("_{column}_dict"))
}

fn decoded(column: &str, is_text: bool) -> String {
    format!(
        "zstd_decompress_col({}, {}, {}, 1)",
        quote(column),
        u8::from(is_text),
        marker(column)
    )
}

/// Whether the column is decoded to text, by the call that decodes it: in the backing table, or in the
/// view if sqlite-zstd made it.
fn kind(db: &impl Sql, config: &Config) -> Result<bool> {
    let mut found = None;
    let sql = "select sql from main.sqlite_schema where name in (?1, ?2) collate nocase \
               and type in ('table', 'view')";
    let backing = unquoted(&config.table);
    let names = [
        Value::from(backing.as_str()),
        Value::from(config.table.as_str()),
    ];
    db.rows(sql, &names, |row| {
        let text = Text::new(&row.column(0).text().unwrap_or_default());
        found = found.or(second_argument(&text, &config.column));
        Ok(())
    })?;
    found.ok_or_else(|| {
        crate::sql::Error::new(format!(
            "column {} of table {} is configured in _zstd_configs, but neither {backing} nor the view \
             {} decodes it: the schema was changed by hand",
            config.column, config.table, config.table
        ))
    })
}

/// `1` or not in `zstd_decompress_col(column, 1, …)`.
fn second_argument(text: &Text, column: &str) -> Option<bool> {
    (0..text.0.len())
        .filter(|&at| text.token(at).names("zstd_decompress_col"))
        .find_map(|at| {
            let open = text.keyword(at + 1, "(")?;
            let name = text
                .solid(open + 1)
                .filter(|&at| text.token(at).names(column))?;
            let comma = text.keyword(name + 1, ",")?;
            let value = text.solid(comma + 1)?;
            Some(text.token(value).text != "0" && !text.token(value).is("false"))
        })
}
