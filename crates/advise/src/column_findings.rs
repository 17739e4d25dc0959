//! Changes that would make a column smaller or faster to search: blobs instead of hexadecimal text, values kept once,
//! an index on a key of JSON.

use litepack_btree::Tree;
use litepack_codec::Encoder;
use litepack_database::files::schema::ColumnSchema;
use litepack_database::printable;
use litepack_store::DEFAULT_LEVEL;

use super::column::ColumnSample;
use super::findings::{Evidence, Finding, JSON_KEY, NEARLY_ALL, TWICE};
use super::kind::Kind;
use super::schema::TableSchema;
use super::sql::in_sql;

/// Bytes of text that are compressed to see what is left of it.
const TRIED: usize = 256 << 10;
/// The longest hexadecimal text that SQL is given for: on the average, and of a single value.
const LONG: f64 = 1024.0;
const LONGEST: usize = 8192;

/// A column of a table.
struct TableColumn<'a> {
    /// The place of the table among the trees.
    at: usize,
    tree: &'a Tree,
    table: &'a TableSchema,
    /// Its values, as far as they were looked at.
    column: &'a ColumnSample,
    /// Its place among the columns of the table.
    place: usize,
    declared: &'a ColumnSchema,
}

impl Evidence<'_> {
    /// The findings on a field of the rows of a table, which is `at` among the trees.
    pub(super) fn of_column(
        &self,
        at: usize,
        tree: &Tree,
        field: usize,
        table: &TableSchema,
    ) -> impl Iterator<Item = Finding> {
        let place = table.fields.get(field).copied().map(|place| TableColumn {
            at,
            tree,
            table,
            column: &self.samples.trees[at].columns[field],
            place,
            declared: &table.columns[place],
        });
        let found = place.map(|of| [self.hex(&of), self.value_twice(&of), self.json_key(&of)]);
        found.into_iter().flatten().flatten()
    }

    /// Hexadecimal text, of which a blob takes half.
    fn hex(&self, of: &TableColumn<'_>) -> Option<Finding> {
        let (kind, share) = of.column.kind()?;
        let left = match kind {
            Kind::Hex => 0.5,
            Kind::Uuids => 16.0 / 36.0,
            _ => return None,
        };
        let strict = of.table.strict && of.declared.declared.eq_ignore_ascii_case("text");
        if share < NEARLY_ALL || strict || of.declared.hidden != 0 {
            return None;
        }
        let packed = match self.left.is_plain() {
            true => None,
            false => Some(packed_saves(of.column, kind)),
        };
        let saved = |column: &ColumnSample, tree: usize| {
            let bytes = column.string_bytes as f64;
            if let Some(share) = packed {
                return bytes * self.scale.of(tree) * share;
            }
            let sample = &self.samples.trees[tree];
            let less = bytes * (1.0 - left) / sample.cells.max(1) as f64;
            let is_index = sample.rowids == 0;
            let after = self.changed(tree, is_index, |payload, before| {
                ((payload as f64 - less).round().max(1.0) as u64, before)
            });
            self.vacuumed(tree) - after
        };
        let mut saves = saved(of.column, of.at);
        let mut indexes = 0;
        for (name, index) in self.schema.indexes_of(&of.tree.name) {
            let mut fields = index.fields.iter();
            let field = fields.position(|field| field.column == Some(of.place));
            if let (Some(field), Some(tree)) = (field, self.places.get(name).copied())
                && let Some(column) = self.samples.trees[tree].columns.get(field)
            {
                saves += saved(column, tree);
                indexes += 1;
            }
        }
        let also = match indexes {
            0 => "",
            _ => ", also in indexes on it",
        };
        let sql = || {
            let upper = of.column.hex_case()?;
            // A value made byte by byte is no text in UTF-16, and takes too long if it is long.
            if !self.utf8 || of.column.mean() > LONG {
                return None;
            }
            let key = (of.tree.name.to_lowercase(), of.declared.name.to_lowercase());
            // Whatever else looks at the column would see another value.
            let is_used = of.table.triggers
                || self.schema.foreign.contains(&key)
                || of.table.columns.iter().any(|column| column.hidden != 0)
                || (self.schema.indexes_of(&of.tree.name)).any(|(_, index)| index.is_computed());
            let names = in_sql(&of.tree.name).zip(in_sql(&of.declared.name));
            let (table, column) = names.filter(|_| !is_used)?;
            Some(hex_to_blob(&table, &column, kind, upper))
        };
        Some(Finding {
            kind: "hex_to_blob",
            title: format!(
                "column {} of {} is {}",
                printable(&of.declared.name),
                printable(&of.tree.name),
                kind.name()
            ),
            detail: format!(
                "As a blob it takes half{also}. Programs then pass and read blobs, or use hex() and, from SQLite 3.41 on, unhex(); \
                 columns that it is compared with have to change together with it. Values that would not come back as they are stay \
                 text."
            ),
            saves_bytes: saves as i64,
            sql: sql(),
        })
    }

    /// Long values that stand in several rows.
    fn value_twice(&self, of: &TableColumn<'_>) -> Option<Finding> {
        let share = of.column.twice();
        if share < TWICE {
            return None;
        }
        let sql = in_sql(&of.tree.name).zip(in_sql(&of.declared.name)).map(|(table, column)| {
            format!(
                "SELECT count(*), length({column}), substr({column}, 1, 60) FROM {table}\nGROUP BY {column} HAVING \
                 count(*) > 1 ORDER BY count(*) * length({column}) DESC LIMIT 20;"
            )
        });
        let bytes = of.column.string_bytes as f64 * self.scale.of(of.at);
        Some(Finding {
            kind: "values_twice",
            title: format!(
                "{:.0} % of column {} of {} are values that stand in several rows",
                share * 100.0,
                printable(&of.declared.name),
                printable(&of.tree.name)
            ),
            detail: "The statement shows them. Keep them once in a table of their own, and its key here. Packing saves most \
                     of it only where equal values are close together. Of a sample this is the least it can be."
                .into(),
            saves_bytes: self.left.of(of.at, share * bytes) as i64,
            sql,
        })
    }

    /// A key of JSON by which rows are looked up.
    fn json_key(&self, of: &TableColumn<'_>) -> Option<Finding> {
        let (kind, share) = of.column.kind()?;
        let rows = self.scale.rows(of.at);
        let by_expression =
            (self.schema.indexes_of(&of.tree.name)).any(|(_, index)| index.has_expression());
        if kind != Kind::Json || share < NEARLY_ALL || by_expression || rows < 1000.0 {
            return None;
        }
        let (key, mean) = of.column.json.best()?;
        let taken = |name: &str| {
            let mut columns = of.table.columns.iter();
            columns.any(|column| column.name.eq_ignore_ascii_case(name))
        };
        let index = format!("{}_{key}", of.tree.name);
        // A column of that name is most likely the same.
        if taken(key)
            || self.schema.indexes.contains_key(&index)
            || self.schema.tables.contains_key(&index)
        {
            return None;
        }
        let any = if of.table.strict { " ANY" } else { "" };
        let sql = || {
            let (table, data) = (in_sql(&of.tree.name)?, in_sql(&of.declared.name)?);
            let (name, index) = (in_sql(key)?, in_sql(&index)?);
            // Of a row that is no JSON it is NULL, and not an error whenever the row is read.
            Some(format!(
                "ALTER TABLE {table} ADD COLUMN {name}{any} AS\n  (CASE WHEN json_valid({data}) THEN {data} ->> \
                 '$.\"{key}\"' END) VIRTUAL;\nCREATE INDEX {index} ON {table}({name});"
            ))
        };
        Some(Finding {
            kind: JSON_KEY,
            title: format!(
                "key {key} of column {} of {} would make a good index",
                printable(&of.declared.name),
                printable(&of.tree.name)
            ),
            detail: "It is in nearly every row, short, and nearly every row has another value. A generated column takes no \
                     space; its index does. Worth it if rows are looked up by it. SELECT * returns the column, too."
                .into(),
            saves_bytes: -(self.left.of(of.at, rows * (mean + 10.0)) as i64),
            sql: sql(),
        })
    }
}

/// The part of a column that packing leaves, less that of the blobs, as a share of the text. Packing removes half of
/// hexadecimal text.
fn packed_saves(column: &ColumnSample, kind: Kind) -> f64 {
    let (mut text, mut blobs) = (Vec::new(), Vec::new());
    for value in &column.kept.values {
        if text.len() >= TRIED {
            break;
        }
        text.extend_from_slice(value);
        let digits = value.iter().filter(|byte| byte.is_ascii_hexdigit());
        let digits: Vec<u8> = digits
            .map(|byte| char::from(*byte).to_digit(16).unwrap_or(0) as u8)
            .collect();
        blobs.extend(digits.chunks_exact(2).filter_map(|pair| match pair {
            [high, low] => Some(high << 4 | low),
            _ => None,
        }));
    }
    let packed = |bytes: &[u8]| {
        let (mut encoder, mut stored) = (Encoder::with_columnar(DEFAULT_LEVEL, false), Vec::new());
        let done = encoder.encode(bytes, None, &mut stored);
        done.ok().map(|_| stored.len() as f64)
    };
    let before = text.len().max(1) as f64;
    match (packed(&text), packed(&blobs), kind) {
        (Some(text), Some(blobs), Kind::Hex | Kind::Uuids) => ((text - blobs) / before).max(0.0),
        _ => 0.0,
    }
}

/// All bytes, for SQLite before 3.41, which has no unhex().
fn every_byte() -> String {
    (0..=255_u8).map(|byte| format!("{byte:02x}")).collect()
}

/// Makes blobs of what was text, where the blob says all that the text did: hexadecimal of this case, and nothing else.
fn hex_to_blob(table: &str, column: &str, kind: Kind, upper: bool) -> String {
    let digits = if upper {
        "0123456789ABCDEF"
    } else {
        "0123456789abcdef"
    };
    let class = if upper { "0-9A-F" } else { "0-9a-f" };
    let (text, shape) = match kind {
        Kind::Uuids => {
            let text = format!("replace({column}, '-', '')");
            let shape = format!(
                "{column} LIKE '________-____-____-____-____________' AND length({text}) = 32"
            );
            (text, shape)
        }
        _ => {
            let shape =
                format!("length({column}) BETWEEN 2 AND {LONGEST} AND length({column}) % 2 = 0");
            (column.to_owned(), shape)
        }
    };
    let every = every_byte();
    // A text with a NUL in it is longer than length() says.
    format!(
        "UPDATE {table} SET {column} = (\n  WITH RECURSIVE digits(hex) AS (SELECT {text}),\n  \
         place(at) AS (SELECT 1 UNION ALL SELECT at + 2 FROM place, digits WHERE at + 2 < length(hex))\n  \
         SELECT CAST(group_concat(substr(x'{every}',\n    \
         16 * instr('{digits}', substr(hex, at, 1)) + instr('{digits}', substr(hex, at + 1, 1)) - 16, 1), '') AS BLOB)\n  \
         FROM place, digits)\n\
         WHERE typeof({column}) = 'text' AND {shape}\n  \
         AND {text} NOT GLOB '*[^{class}]*' AND length(CAST({column} AS BLOB)) = length({column});\nVACUUM;"
    )
}
