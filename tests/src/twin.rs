//! A plain database and one with compressed columns that are told the same SQL: rows, types and errors
//! have to be the same, but for what a view cannot do.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// The two databases, in memory.
pub struct Twin {
    /// Plain SQLite, the truth.
    pub plain: Connection,
    /// The database with compressed columns.
    pub compressed: Connection,
    /// Compressed columns, as table and column.
    pub columns: Vec<(String, String)>,
}

/// `name` as SQL may always write it.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// All rows of a query, each value as its type and its bytes; or the error.
pub fn rows(db: &Connection, sql: &str) -> Result<Vec<String>, String> {
    let run = || {
        let mut statement = db.prepare(sql)?;
        let count = statement.column_count();
        let rows = statement.query_map([], |row| {
            let values: Result<Vec<String>, rusqlite::Error> = (0..count)
                .map(|index| {
                    Ok(match row.get_ref(index)? {
                        // Text need not be valid UTF-8 here.
                        ValueRef::Text(text) => {
                            format!(
                                "{:?} of {} bytes",
                                String::from_utf8_lossy(text),
                                text.len()
                            )
                        }
                        other => format!("{other:?}"),
                    })
                })
                .collect();
            Ok(values?.join(", "))
        })?;
        rows.collect::<Result<Vec<String>, rusqlite::Error>>()
    };
    run().map_err(|error: rusqlite::Error| error.to_string())
}

/// Runs one statement or several; the error as text.
pub fn run(db: &Connection, sql: &str) -> Result<(), String> {
    db.execute_batch(sql).map_err(|error| match error {
        rusqlite::Error::SqliteFailure(_, Some(text)) => text,
        other => other.to_string(),
    })
}

/// Every object of the schema, by type and name.
pub fn schema(db: &Connection) -> Vec<String> {
    rows(
        db,
        "select type, name, tbl_name, sql from sqlite_schema where name <> 'sqlite_sequence' order by type, name",
    )
    .expect("the schema")
}

impl Twin {
    /// Two databases that start with `sql`.
    #[track_caller]
    pub fn new(sql: &str) -> Twin {
        litepack_rusqlite::register().expect("registered");
        let open = || Connection::open_in_memory().expect("a database");
        let twin = Twin {
            plain: open(),
            compressed: open(),
            columns: Vec::new(),
        };
        twin.both(sql);
        twin
    }

    /// Runs `sql` on both; it has to succeed.
    #[track_caller]
    pub fn both(&self, sql: &str) {
        for (name, db) in [("plain", &self.plain), ("compressed", &self.compressed)] {
            run(db, sql).unwrap_or_else(|error| panic!("{name}: {sql}: {error}"));
        }
    }

    /// Runs `sql` on both and gives their common error: backing tables show by their own names.
    #[track_caller]
    pub fn same(&self, sql: &str) -> Option<String> {
        let plain = run(&self.plain, sql).err();
        let compressed = run(&self.compressed, sql)
            .err()
            .map(|error| self.hide(&error));
        assert_eq!(plain, compressed, "{sql}");
        plain
    }

    /// The error with the names that users know.
    fn hide(&self, error: &str) -> String {
        let mut error = error.to_string();
        for (table, column) in &self.columns {
            error = error
                .replace(&format!("_{table}_zstd"), table)
                .replace(&format!("_{column}_plain"), column)
                // Expressions show with the quotes they are stored with.
                .replace(&quote(column), column);
        }
        error
    }

    /// Starts to compress a column and compresses what there is.
    #[track_caller]
    pub fn enable(&mut self, table: &str, column: &str) {
        self.enable_only(table, column);
        self.compress(table, column);
    }

    /// Starts to compress a column.
    #[track_caller]
    pub fn enable_only(&mut self, table: &str, column: &str) {
        let config = configuration(table, column);
        self.compressed
            .query_row("select zstd_enable_transparent(?1)", [&config], |_| Ok(()))
            .unwrap_or_else(|error| panic!("enabling {table}.{column}: {error}"));
        self.columns.push((table.into(), column.into()));
    }

    /// Compresses the values of a column, in the way of maintenance: without triggers.
    #[track_caller]
    pub fn compress(&self, table: &str, column: &str) {
        use rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
        let db = &self.compressed;
        let (c, dict) = (quote(column), quote(&format!("_{column}_dict")));
        let sql: String = db
            .query_row(
                "select sql from sqlite_schema where name = ?1",
                [format!("_{table}_zstd")],
                |row| row.get(0),
            )
            .expect("a backing table");
        // The decoding column says which type can be compressed.
        let kind = match sql.contains(&format!("zstd_decompress_col({c}, 1,")) {
            true => "text",
            false => "blob",
        };
        db.set_db_config(SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
            .expect("triggers off");
        let sql = format!(
            "update {} set {c} = zstd_compress_col({c}, 3, -1, 1), {dict} = -1
             where {dict} is null and typeof({c}) = '{kind}'
               and ('{kind}' = 'blob' or instr(hex(cast({c} as blob)), 'FF') = 0)",
            quote(&format!("_{table}_zstd"))
        );
        let done = run(db, &sql);
        db.set_db_config(SQLITE_DBCONFIG_ENABLE_TRIGGER, true)
            .expect("triggers on");
        done.unwrap_or_else(|error| panic!("compressing {table}.{column}: {error}"));
    }

    /// Calls a function of ours on the compressed database.
    #[track_caller]
    pub fn call(&self, function: &str, arguments: &[&str]) {
        if let Err(error) = self.try_call(function, arguments) {
            panic!("{function}{arguments:?}: {error}");
        }
    }

    /// As [`Twin::call`]; the error as text.
    pub fn try_call(&self, function: &str, arguments: &[&str]) -> Result<(), String> {
        let marks = vec!["?"; arguments.len()].join(", ");
        let sql = format!("select {function}({marks})");
        self.compressed
            .query_row(&sql, rusqlite::params_from_iter(arguments), |_| Ok(()))
            .map_err(|error| error.to_string())
    }

    /// Undoes compression of a column.
    #[track_caller]
    pub fn disable(&mut self, table: &str, column: &str) {
        self.call("litepack_disable_transparent", &[table, column]);
        self.columns.retain(|(t, c)| t != table || c != column);
    }

    /// Asserts that a query gives the same on both, which it returns.
    #[track_caller]
    pub fn query(&self, sql: &str) -> Vec<String> {
        let (plain, compressed) = (rows(&self.plain, sql), rows(&self.compressed, sql));
        assert_eq!(plain, compressed, "{sql}");
        plain.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Asserts that all tables of the plain database have the same rows in the other, and that both
    /// are sound.
    #[track_caller]
    pub fn verify(&self) {
        let tables = self
            .plain
            .prepare(
                "select name from sqlite_schema where type in ('table', 'view')
                 and name not like 'sqlite_%'",
            )
            .and_then(|mut statement| {
                statement
                    .query_map([], |row| row.get::<_, String>(0))?
                    .collect::<Result<Vec<String>, _>>()
            })
            .expect("tables");
        for table in tables {
            let sort = |db: &Connection| {
                let mut rows = rows(db, &format!("select * from {}", quote(&table)));
                if let Ok(rows) = &mut rows {
                    rows.sort();
                }
                rows
            };
            let (plain, compressed) = (sort(&self.plain), sort(&self.compressed));
            assert_eq!(plain, compressed, "table {table}");
        }
        for db in [&self.plain, &self.compressed] {
            let found = rows(db, "pragma integrity_check").expect("a check");
            assert_eq!(found, ["\"ok\" of 2 bytes"]);
            let found = rows(db, "pragma foreign_key_check").expect("a check");
            assert_eq!(found, Vec::<String>::new());
        }
    }

    /// How many values of a column are compressed.
    pub fn compressed_count(&self, table: &str, column: &str) -> i64 {
        let sql = format!(
            "select count({}) from {}",
            quote(&format!("_{column}_dict")),
            quote(&format!("_{table}_zstd"))
        );
        self.compressed
            .query_row(&sql, [], |row| row.get(0))
            .expect("a count")
    }
}

/// A configuration for a column, without dictionaries.
pub fn configuration(table: &str, column: &str) -> String {
    let text = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    format!(
        "{{\"table\":{},\"column\":{},\"compression_level\":3,\"dict_chooser\":\"'[nodict]'\"}}",
        text(table),
        text(column)
    )
}
