//! What would make a column smaller or faster to search: blobs instead of hexadecimal text, values kept once, an index on
//! a key of JSON.

use litepack_btree::Tree;

use super::column::ColumnSample;
use super::findings::{Evidence, Finding, NEARLY_ALL, TWICE};
use super::kind::Kind;
use super::schema::{Column, Table};
use super::sql::in_sql;
use crate::printable;

/// A column of a table.
struct Place<'a> {
    /// The place of the table among the trees.
    at: usize,
    tree: &'a Tree,
    table: &'a Table,
    /// Its values, as far as they were looked at.
    column: &'a ColumnSample,
    /// Its place among the columns of the table.
    place: usize,
    declared: &'a Column,
}

impl Evidence<'_> {
    /// What is found of a field of the rows of a table, which is `at` among the trees.
    pub(super) fn of_column(
        &self,
        at: usize,
        tree: &Tree,
        field: usize,
        table: &Table,
    ) -> impl Iterator<Item = Finding> {
        let place = table.fields.get(field).copied().map(|place| Place {
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
    fn hex(&self, of: &Place<'_>) -> Option<Finding> {
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
        let saved = |bytes: u64, tree: usize| bytes as f64 * self.scale.of(tree) * (1.0 - left);
        let mut saves = saved(of.column.string_bytes, of.at);
        let mut indexes = 0;
        for (name, index) in self.schema.indexes_of(&of.tree.name) {
            let mut fields = index.fields.iter();
            let field = fields.position(|field| field.column == Some(of.place));
            if let (Some(field), Some(tree)) = (field, self.places.get(name).copied())
                && let Some(column) = self.samples.trees[tree].columns.get(field)
            {
                saves += saved(column.string_bytes, tree);
                indexes += 1;
            }
        }
        let also = match indexes {
            0 => "",
            _ => ", also in indexes on it",
        };
        let sql = || {
            let upper = of.column.hex_case()?;
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
                "As a blob it takes half{also}. Programs then pass and read blobs, or use hex() and unhex() (SQLite 3.41); \
                 columns that it is compared with have to change together with it. Values that would not come back as they are stay \
                 text."
            ),
            saves_bytes: saves as i64,
            sql: sql(),
        })
    }

    /// Long values that stand in several rows.
    fn value_twice(&self, of: &Place<'_>) -> Option<Finding> {
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
            saves_bytes: (share * of.column.string_bytes as f64 * self.scale.of(of.at)) as i64,
            sql,
        })
    }

    /// A key of JSON by which rows are looked up.
    fn json_key(&self, of: &Place<'_>) -> Option<Finding> {
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
            kind: "json_key",
            title: format!(
                "key {key} of column {} of {} would make a good index",
                printable(&of.declared.name),
                printable(&of.tree.name)
            ),
            detail: "It is in nearly every row, short, and nearly every row has another value. A generated column takes no \
                     space; its index does. Worth it if rows are looked up by it. SELECT * returns the column, too."
                .into(),
            saves_bytes: -((rows * (mean + 10.0)) as i64),
            sql: sql(),
        })
    }
}

/// Makes blobs of what was text, where the blob says all that the text did: hexadecimal of this case, and nothing else.
fn hex_to_blob(table: &str, column: &str, kind: Kind, upper: bool) -> String {
    let case = if upper { "upper" } else { "lower" };
    let (blob, back) = match kind {
        Kind::Uuids => (
            format!("unhex({column}, '-')"),
            format!("replace({column}, '-', '')"),
        ),
        _ => (format!("unhex({column})"), column.to_owned()),
    };
    let shape = match kind {
        Kind::Uuids => {
            format!("{column} LIKE '________-____-____-____-____________' AND length({blob}) = 16")
        }
        _ => format!("length({column}) > 1"),
    };
    format!(
        "UPDATE {table} SET {column} = {blob}\nWHERE typeof({column}) = 'text' AND {shape}\n  AND \
         {case}(hex({blob})) = {back} COLLATE BINARY;\nVACUUM;"
    )
}
