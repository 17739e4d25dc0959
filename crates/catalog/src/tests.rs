use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

use super::*;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn plain(&self, name: &str, sql: &str) -> PathBuf {
        let path = self.path(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        path
    }

    fn catalog(&self, columns: &[&str]) -> Result<Cataloged> {
        let options = CatalogOptions {
            columns: columns.iter().map(|&name| name.to_owned()).collect(),
            ..CatalogOptions::default()
        };
        catalog(
            &[self.0.path()],
            &self.path("catalog.db"),
            &options,
            &Job::default(),
        )
    }

    /// Column and bounds of each column of a table.
    fn bounds(&self, table: &str) -> Vec<(String, Value, Value, i64)> {
        let connection = Connection::open(self.path("catalog.db")).unwrap();
        let sql =
            "SELECT name, least, greatest, nulls FROM columns WHERE \"table\" = ?1 ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([table], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        });
        rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    fn value(&self, sql: &str) -> String {
        let connection = Connection::open(self.path("catalog.db")).unwrap();
        let value = connection.query_row(sql, [], |row| row.get::<_, Value>(0));
        match value.unwrap() {
            Value::Text(text) => text,
            Value::Integer(number) => number.to_string(),
            other => format!("{other:?}"),
        }
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

#[test]
fn only_what_changed_is_read_again() {
    let place = Place::new();
    let sql = "CREATE TABLE log(id INTEGER PRIMARY KEY); INSERT INTO log VALUES(7)";
    for name in ["a.db", "b.db", "c.db", ".hidden.db", "other.txt"] {
        place.plain(name, sql);
    }
    let counts = |done: Cataloged| {
        (
            done.files,
            done.read,
            done.unchanged,
            done.removed,
            done.unreadable.len(),
        )
    };
    assert_eq!(counts(place.catalog(&[]).unwrap()), (3, 3, 0, 0, 0));
    // The catalog is in the directory, and no shard.
    assert_eq!(counts(place.catalog(&[]).unwrap()), (3, 0, 3, 0, 0));
    place.plain("a.db", "INSERT INTO log VALUES(8)");
    fs::remove_file(place.path("b.db")).unwrap();
    assert_eq!(counts(place.catalog(&[]).unwrap()), (2, 1, 1, 1, 0));
    assert_eq!(
        place.value("SELECT greatest FROM columns JOIN files ON id = file WHERE path = 'a.db'"),
        "8"
    );
    // Other columns are other questions.
    assert_eq!(counts(place.catalog(&["LOG.ID"]).unwrap()), (2, 2, 0, 0, 0));
    assert_eq!(counts(place.catalog(&["LOG.ID"]).unwrap()), (2, 0, 2, 0, 0));
    // Something else takes a name.
    fs::write(place.path("a.db"), "no database".repeat(100)).unwrap();
    assert_eq!(counts(place.catalog(&["LOG.ID"]).unwrap()), (2, 1, 1, 0, 1));
    assert!(
        place
            .value("SELECT error FROM files WHERE path = 'a.db'")
            .contains("not a SQLite database")
    );
    assert_eq!(counts(place.catalog(&["LOG.ID"]).unwrap()), (2, 1, 1, 0, 1));
    let temporary = place.0.path().read_dir().unwrap().filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains(".litepack-")
    });
    assert_eq!(temporary.count(), 0);
}

#[test]
fn all_kinds_of_files_say_the_same() {
    let place = Place::new();
    let plain = place.plain(
        "plain.db",
        "CREATE TABLE log(at TEXT); CREATE INDEX i ON log(at); INSERT INTO log VALUES('x')",
    );
    let job = Job::default();
    litepack::pack(
        &plain,
        place.path("packed.db"),
        &litepack::PackOptions::default(),
        &job,
    )
    .unwrap();
    litepack::archive::create(
        &plain,
        place.path("archive.db"),
        &litepack::archive::CreateOptions::default(),
        &job,
    )
    .unwrap();
    place.catalog(&[]).unwrap();
    assert_eq!(
        place.bounds("log"),
        vec![("at".into(), text("x"), text("x"), 0); 3]
    );
    let formats = "SELECT group_concat(path || ' ' || format || ' ' || page_size, ', ') FROM files";
    assert_eq!(
        place.value(formats),
        "archive.db archive 4096, packed.db packed 4096, plain.db plain 4096"
    );
    assert_eq!(
        place.value("SELECT count(DISTINCT schema_hash) FROM files"),
        "1"
    );
}

#[test]
fn columns_are_those_whose_range_an_index_knows_and_those_that_are_chosen() {
    let place = Place::new();
    place.plain(
        "a.db",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, mixed, folded TEXT COLLATE NOCASE, partial, second, made AS (mixed || '!'),
            \"dotted.name\", unindexed);
        CREATE INDEX i1 ON t(mixed, second); CREATE INDEX i2 ON t(folded); CREATE INDEX i3 ON t(partial) WHERE partial > 0;
        CREATE INDEX i4 ON t(second + 1); CREATE INDEX i5 ON t(made);
        INSERT INTO t(mixed, folded, \"dotted.name\", unindexed) VALUES(1, 'b', 'x', NULL), (2.5, 'A', 'y', x'00'), ('t', 'a', 'z', -1);
        INSERT INTO t(folded) VALUES(NULL), (NULL);
        CREATE TABLE keyed(a, b, PRIMARY KEY(a, b)) WITHOUT ROWID; INSERT INTO keyed VALUES(3, 4);
        CREATE TABLE empty(id INTEGER PRIMARY KEY);
        CREATE VIEW v AS SELECT * FROM t; CREATE VIRTUAL TABLE f USING fts5(body)",
    );
    place
        .catalog(&["T.Dotted.Name", "t.unindexed", "t.folded"])
        .unwrap();
    let (one, minus) = (Value::Integer(1), Value::Integer(-1));
    assert_eq!(
        place.bounds("t"),
        [
            ("dotted.name".into(), text("x"), text("z"), 2),
            ("folded".into(), text("A"), text("b"), 2),
            ("id".into(), one.clone(), Value::Integer(5), 0),
            ("made".into(), text("1!"), text("t!"), 2),
            ("mixed".into(), one, text("t"), 2),
            ("unindexed".into(), minus, Value::Null, 3),
        ]
    );
    assert_eq!(place.bounds("keyed").len(), 1);
    assert_eq!(
        place.bounds("empty"),
        [("id".into(), Value::Null, Value::Null, 0)]
    );
    let tables = "SELECT group_concat(name || rows) FROM tables WHERE name NOT LIKE 'f_%'";
    assert_eq!(place.value(tables), "empty0,keyed1,t5");
    for wrong in ["t.none", "none.id", "id"] {
        let error = place.catalog(&[wrong]).unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
}

#[test]
fn names_and_schemas_of_others_do_nothing() {
    let place = Place::new();
    let rewrite = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace";
    place.plain(
        "a.db",
        &format!(
            "CREATE TABLE \"a\"\"; DROP TABLE t; --\"(\"x\"\"' y\" INTEGER PRIMARY KEY, z COLLATE rtrim);
            CREATE INDEX \"i\"\"\" ON \"a\"\"; DROP TABLE t; --\"(\"x\"\"' y\"); CREATE TABLE t(a);
            CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT raise(abort, 'ran'); END;
            CREATE VIEW v AS SELECT hex(1); {rewrite}(replace(sql, 'rtrim', 'nosuch'), 'hex', 'load_extension')"
        ),
    );
    assert_eq!(place.catalog(&[]).unwrap().unreadable, []);
    assert_eq!(place.bounds("a\"; DROP TABLE t; --").len(), 1);
    place.plain(
        "b.db",
        &format!("CREATE TABLE t(a, b AS (hex(a))); {rewrite}(sql, 'hex', 'load_extension')"),
    );
    let done = place.catalog(&[]).unwrap();
    assert!(done.unreadable[0].error.contains("unsafe"), "{done:?}");
    assert_eq!((done.files, done.unreadable.len()), (2, 1));
}

#[test]
fn text_in_utf_16_has_no_bounds() {
    let place = Place::new();
    place.plain("a.db", "PRAGMA encoding='UTF-16le'; CREATE TABLE t(a); CREATE INDEX i ON t(a); INSERT INTO t VALUES(1), ('x')");
    place.catalog(&[]).unwrap();
    assert_eq!(
        place.bounds("t"),
        [("a".into(), Value::Integer(1), Value::Null, 0)]
    );
}

#[test]
fn nothing_but_a_catalog_is_replaced() {
    let place = Place::new();
    let shard = place.plain("a.db", "CREATE TABLE t(a)");
    let other = place.plain("other", "CREATE TABLE t(a)");
    fs::write(place.path("text"), "text").unwrap();
    fs::write(place.path("empty"), "").unwrap();
    fs::create_dir(place.path("directory")).unwrap();
    let run = |target: &Path| {
        catalog(
            &[&shard],
            target,
            &CatalogOptions::default(),
            &Job::default(),
        )
    };
    for name in ["other", "text", "empty", "directory"] {
        let before = fs::read(place.path(name)).ok();
        let error = run(&place.path(name)).unwrap_err().to_string();
        assert!(
            error.contains("not a catalog") || error.contains("ordinary"),
            "{error}"
        );
        assert_eq!(fs::read(place.path(name)).ok(), before);
    }
    assert!(run(&shard).is_err());
    assert!(
        run(Path::new("s3://bucket/c.db"))
            .unwrap_err()
            .to_string()
            .contains("to a file")
    );
    let target = place.path("c");
    run(&target).unwrap();
    Connection::open(&target)
        .unwrap()
        .execute_batch("PRAGMA user_version = 2")
        .unwrap();
    assert!(run(&target).unwrap_err().to_string().contains("version 2"));
    Connection::open(&target)
        .unwrap()
        .execute_batch("PRAGMA user_version = 1; DROP TABLE columns")
        .unwrap();
    assert!(
        run(&target)
            .unwrap_err()
            .to_string()
            .contains("delete this catalog")
    );
    for (paths, why) in [
        ("none.db", "does not exist"),
        ("none*", "named like"),
        ("directory", "no files"),
    ] {
        let path = place.path(paths);
        let error = catalog(
            &[&path],
            &place.path("d"),
            &CatalogOptions::default(),
            &Job::default(),
        );
        assert!(error.unwrap_err().to_string().contains(why), "{why}");
    }
    drop(other);
}

#[test]
fn paths_are_relative_where_that_leads_to_the_file() {
    let place = Place::new();
    fs::create_dir_all(place.path("below/deep")).unwrap();
    fs::create_dir(place.path("beside")).unwrap();
    let files =
        ["below/deep/a.db", "beside/b.db"].map(|name| place.plain(name, "CREATE TABLE t(a)"));
    let given = [
        place.path("below/../below/./deep/a.db"),
        files[1].clone(),
        files[0].clone(),
    ];
    let target = place.path("below/c.db");
    let done = catalog(&given, &target, &CatalogOptions::default(), &Job::default()).unwrap();
    assert_eq!(done.files, 2);
    let connection = Connection::open(&target).unwrap();
    let mut statement = connection
        .prepare("SELECT path FROM files ORDER BY path DESC")
        .unwrap();
    let paths: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(std::result::Result::unwrap)
        .collect();
    assert_eq!(paths, ["deep/a.db", files[1].to_str().unwrap()]);
}

#[test]
fn a_stopped_job_leaves_what_was_there() {
    let place = Place::new();
    place.plain("a.db", "CREATE TABLE t(a)");
    let stop = litepack_database::Stop::default();
    stop.stop();
    let job = Job::default().with_stop(&stop);
    let done = catalog(
        &[place.0.path()],
        &place.path("c"),
        &CatalogOptions::default(),
        &job,
    );
    assert!(done.unwrap_err().is_interrupted());
    assert!(!place.path("c").exists());
}

/// Databases of programs that bring collations, functions and modules of their own.
#[test]
fn what_this_program_does_not_have_keeps_the_rest_in() {
    let place = Place::new();
    place.plain(
        "a.db",
        "CREATE TABLE notes(id INTEGER PRIMARY KEY, usn INTEGER, made AS (lower(usn)));
         CREATE INDEX ix ON notes(usn);
         CREATE TABLE tags(tag TEXT PRIMARY KEY COLLATE nocase, n INTEGER UNIQUE) WITHOUT ROWID;
         CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT COLLATE nocase, n INTEGER);
         CREATE INDEX by_name ON names(name);
         CREATE TABLE computed(id INTEGER PRIMARY KEY, a INTEGER);
         CREATE INDEX by_value ON computed(upper(a));
         CREATE INDEX some_of_them ON computed(a) WHERE upper(a) > 'a';
         CREATE VIEW w AS SELECT upper(a) FROM computed;
         INSERT INTO notes(id, usn) VALUES(1, 10), (2, 20);
         INSERT INTO tags VALUES('x', 1);
         INSERT INTO names VALUES(3, 'a', 1), (4, 'b', 2);
         INSERT INTO computed VALUES(5, 50);
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(replace(replace(sql, 'nocase', 'unicase'), 'upper(', 'theirs('),
             'lower(', 'theirs(');
         INSERT INTO sqlite_schema VALUES('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING theirs(a)');",
    );
    place.plain("b.db", "CREATE TABLE sound(id INTEGER PRIMARY KEY)");
    let done = place.catalog(&["notes.made", "names.n"]).unwrap();
    assert_eq!((done.files, &done.unreadable[..]), (2, &[][..]));
    let [incomplete] = &done.incomplete[..] else {
        panic!("{done:?}");
    };
    assert_eq!(incomplete.path, "a.db");
    let left_out = incomplete.left_out.join("\n");
    assert_eq!(incomplete.left_out.len(), 2, "{left_out}");
    assert!(
        left_out.contains("table tags: it needs a collation"),
        "{left_out}"
    );
    assert!(
        left_out.contains("column notes.made: it needs a collation or a function"),
        "{left_out}"
    );
    let tables =
        "SELECT group_concat(name || ' ' || rows, ', ') FROM (SELECT * FROM tables ORDER BY name)";
    assert_eq!(place.value(tables), "computed 1, names 2, notes 2, sound 0");
    let integer = Value::Integer;
    let of = |name: &str, least, greatest| (name.to_owned(), integer(least), integer(greatest), 0);
    assert_eq!(place.bounds("notes"), [of("id", 1, 2), of("usn", 10, 20)]);
    assert_eq!(place.bounds("names"), [of("id", 3, 4), of("n", 1, 2)]);
    assert_eq!(place.bounds("computed"), [of("id", 5, 5)]);
    // It is known, and the column that was asked for was accepted.
    let done = place.catalog(&["notes.made", "names.n"]).unwrap();
    assert_eq!((done.unchanged, done.incomplete.len()), (2, 0));
}
