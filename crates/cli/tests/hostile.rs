//! Files and names that are made to do harm. Every command comes to an end on a database whose pages name each other,
//! and nothing that it prints does anything to a terminal.

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Place, Run, bytes};
use rusqlite::Connection;

const PAGE: usize = 4096;
/// Where the first page has its own header.
const FIRST_HEADER: usize = 100;
/// A machine may be busy. A run without an end takes longer than any wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// A database to be changed.
struct Pages {
    bytes: Vec<u8>,
    table: usize,
    index: usize,
}

impl Pages {
    fn new(place: &Place) -> Pages {
        let path = place.path("made.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "pragma page_size = 4096; create table t(id integer primary key, d text unique);
             create index i on t(d); create table big(id integer primary key, d text);
             insert into big values (1, hex(zeroblob(20000)));
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 20)
             insert into t select i, 'row ' || i from n; create table free(d); ",
        )
        .unwrap();
        db.execute_batch("insert into free values (zeroblob(40000)); drop table free")
            .unwrap();
        let root = |name: &str| {
            let sql = "select rootpage from sqlite_master where name = ?1";
            db.query_row(sql, [name], |row| row.get::<_, u32>(0))
                .unwrap() as usize
        };
        let (table, index) = (root("t"), root("i"));
        drop(db);
        let bytes = bytes(&path);
        std::fs::remove_file(path).unwrap();
        Pages {
            bytes,
            table,
            index,
        }
    }

    fn page(&mut self, number: usize) -> &mut [u8] {
        &mut self.bytes[(number - 1) * PAGE..number * PAGE]
    }

    fn add(&mut self, page: &[u8]) -> usize {
        self.bytes.extend_from_slice(page);
        let count = self.bytes.len() / PAGE;
        self.bytes[28..32].copy_from_slice(&(count as u32).to_be_bytes());
        count
    }

    /// Puts a tree in the place of a page, whose inner pages each name one child very often, and leads to what was there.
    fn fan(&mut self, root: usize, cells: &dyn Fn(usize) -> Vec<u8>, kind: u8, levels: usize) {
        let leaf = self.page(root).to_vec();
        let mut child = if root == 1 {
            let mut moved = vec![0; PAGE];
            moved[..8].copy_from_slice(&leaf[FIRST_HEADER..FIRST_HEADER + 8]);
            let count = usize::from(u16::from_be_bytes([moved[3], moved[4]]));
            moved[8..8 + 2 * count]
                .copy_from_slice(&leaf[FIRST_HEADER + 8..FIRST_HEADER + 8 + 2 * count]);
            let content = usize::from(u16::from_be_bytes([moved[5], moved[6]]));
            moved[content..].copy_from_slice(&leaf[content..]);
            self.add(&moved)
        } else {
            self.add(&leaf)
        };
        for _ in 1..levels {
            let page = inner(child, cells, kind, 0);
            child = self.add(&page);
        }
        let header = if root == 1 { FIRST_HEADER } else { 0 };
        let page = inner(child, cells, kind, header);
        self.page(root)[header..].copy_from_slice(&page[header..]);
    }
}

/// An inner page that names one child as often as there is room.
fn inner(child: usize, cell: &dyn Fn(usize) -> Vec<u8>, kind: u8, header: usize) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let child = (child as u32).to_be_bytes();
    let (mut end, mut count) = (PAGE, 0);
    loop {
        let cell = [&child[..], &cell(count)].concat();
        if end - cell.len() < header + 12 + 2 * (count + 1) || count == 500 {
            break;
        }
        end -= cell.len();
        page[end..end + cell.len()].copy_from_slice(&cell);
        let pointer = header + 12 + 2 * count;
        page[pointer..pointer + 2].copy_from_slice(&(end as u16).to_be_bytes());
        count += 1;
    }
    page[header] = kind;
    page[header + 3..header + 5].copy_from_slice(&(count as u16).to_be_bytes());
    page[header + 5..header + 7].copy_from_slice(&(end as u16).to_be_bytes());
    page[header + 8..header + 12].copy_from_slice(&child);
    page
}

/// The key of a cell of a table: a rowid of two bytes.
fn rowid(at: usize) -> Vec<u8> {
    let rowid = 1000 + at;
    vec![0x80 | (rowid >> 7) as u8, rowid as u8 & 0x7f]
}

/// That of an index: a record of a text and a rowid.
fn record(at: usize) -> Vec<u8> {
    let text = format!("s{at:03}");
    let mut record = vec![8, 3, 13 + 2 * text.len() as u8, 1];
    record.extend_from_slice(text.as_bytes());
    record.push(7);
    record
}

type Change = fn(&mut Pages);

const CHANGES: [(&str, Change); 9] = [
    ("a table whose pages share children", |pages| {
        let root = pages.table;
        pages.fan(root, &rowid, 5, 6);
    }),
    ("an index whose pages share children", |pages| {
        let root = pages.index;
        pages.fan(root, &record, 2, 6);
    }),
    ("a schema whose pages share children", |pages| {
        pages.fan(1, &rowid, 5, 6);
    }),
    ("a table whose pages are their own children", |pages| {
        let root = pages.table;
        let page = inner(root, &rowid, 5, 0);
        pages.page(root).copy_from_slice(&page);
    }),
    ("a table some of whose leaves are none", |pages| {
        let root = pages.table;
        let leaf = pages.page(root).to_vec();
        pages.fan(root, &rowid, 5, 6);
        // The first child is a leaf, so all should be.
        let first = pages.add(&leaf) as u32;
        let cell = usize::from(u16::from_be_bytes([
            pages.page(root)[12],
            pages.page(root)[13],
        ]));
        pages.page(root)[cell..cell + 4].copy_from_slice(&first.to_be_bytes());
    }),
    ("two tables with the same root", |pages| {
        let (table, index) = (pages.table as u32, pages.index);
        let page = inner(table as usize, &rowid, 5, 0);
        pages.page(index).copy_from_slice(&page);
    }),
    ("overflow pages in a circle", |pages| {
        // Each leads to itself.
        for number in 2..=pages.bytes.len() / PAGE {
            let page = pages.page(number);
            let next = u32::from_be_bytes(page[..4].try_into().unwrap());
            if (2..100).contains(&next) {
                page[..4].copy_from_slice(&(number as u32).to_be_bytes());
            }
        }
    }),
    ("free pages in a circle", |pages| {
        let trunk = u32::from_be_bytes(pages.bytes[32..36].try_into().unwrap());
        assert!(trunk > 0);
        pages.page(trunk as usize)[..4].copy_from_slice(&trunk.to_be_bytes());
    }),
    ("very many free pages in a circle", |pages| {
        let trunk = u32::from_be_bytes(pages.bytes[32..36].try_into().unwrap());
        pages.page(trunk as usize)[..4].copy_from_slice(&trunk.to_be_bytes());
        pages.bytes[36..40].copy_from_slice(&i32::MAX.to_be_bytes());
    }),
];

/// Runs a command and expects an end of it.
fn ends(place: &Place, arguments: &[&str], what: &str) -> Run {
    let mut command = place.command(arguments);
    let (out, err) = (place.path("stdout"), place.path("stderr"));
    let file = |path: &Path| std::fs::File::create(path).unwrap();
    command.stdin(Stdio::null());
    command.stdout(file(&out)).stderr(file(&err));
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: {arguments:?} has no end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let read = |path: &PathBuf| String::from_utf8(bytes(path)).unwrap();
    let (stdout, stderr) = (read(&out), read(&err));
    let code = status.code();
    assert!(
        matches!(code, Some(0..=2)) && !stderr.contains("panicked"),
        "{what}: {arguments:?}: {status:?} {stderr}"
    );
    Run {
        code: code.unwrap(),
        stdout,
        stderr,
    }
}

#[test]
fn every_command_ends_on_pages_that_name_each_other() {
    for (what, change) in CHANGES {
        let place = Place::new();
        let mut pages = Pages::new(&place);
        change(&mut pages);
        std::fs::create_dir(place.path("d")).unwrap();
        std::fs::write(place.path("d/x.db"), &pages.bytes).unwrap();
        place
            .open("d/sound.db")
            .execute_batch("create table s(id integer primary key)")
            .unwrap();
        std::fs::write(place.path("lines"), "{\"a\":1}\n").unwrap();
        let x = "d/x.db";
        for arguments in [
            &["advise", x][..],
            &["pack", x, "o.lp"],
            &["info", "o.lp"],
            &["check", "o.lp"],
            &["maintain", "--seconds", "1", "o.lp"],
            &["unpack", "o.lp", "u.db"],
            &["archive", "create", x, "a.zst"],
            &["archive", "check", "a.zst"],
            &["archive", "extract", "a.zst", "e.db"],
            &["tune", "--sample-mb", "1", x],
            &["tune", "--sample-mb", "1", "a.zst"],
            &["columns", "status", x],
            &["columns", "enable", x, "t", "d"],
            &["columns", "maintain", "--seconds", "1", x],
            &["columns", "disable", x, "t", "d"],
            &["ingest", "lines", "--into", x],
            &[
                "catalog",
                "o.lp",
                "a.zst",
                "-o",
                "p.catalog",
                "--column",
                "t.d",
            ],
        ] {
            let begun = Instant::now();
            let run = ends(&place, arguments, what);
            println!(
                "{what}: {arguments:?}: {} in {:?}",
                run.code,
                begun.elapsed()
            );
        }
        // One bad file never keeps a directory from being catalogued.
        let run = ends(&place, &["catalog", "d", "-o", "c.catalog"], what);
        let catalog = place.open("c.catalog");
        let count = |sql: &str| {
            catalog
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!(count("select count(*) from files"), 2, "{what}: {run:?}");
        assert_eq!(count("select count(*) from tables where name = 's'"), 1);
        let unread = count("select count(*) from files where error is not null");
        assert_eq!(run.code, i32::from(unread > 0), "{what}: {run:?}");
    }
}

#[test]
fn ingest_ends_on_tables_of_its_own_whose_pages_name_each_other() {
    let place = Place::new();
    let lines: Vec<String> = (0..20).map(|n| format!("{{\"a\":{n}}}\n")).collect();
    std::fs::write(place.path("lines"), lines.concat()).unwrap();
    std::fs::write(place.path("more"), "{\"a\":99}\n").unwrap();
    place
        .open("made.db")
        .execute_batch("pragma page_size = 4096; create table t(a)")
        .unwrap();
    ends(
        &place,
        &["ingest", "lines", "--into", "made.db"],
        "a sound one",
    );
    let root = |name: &str| {
        let sql = "select rootpage from sqlite_master where name = ?1";
        let db = place.open("made.db");
        db.query_row(sql, [name], |row| row.get::<_, u32>(0))
            .unwrap() as usize
    };
    for (table, options) in [("litepack_sources", &[][..]), ("logs", &["--index", "a"])] {
        let mut pages = Pages {
            table: root(table),
            index: 0,
            bytes: bytes(&place.path("made.db")),
        };
        let root = pages.table;
        pages.fan(root, &rowid, 5, 6);
        std::fs::write(place.path("x.db"), &pages.bytes).unwrap();
        let arguments = [&["ingest", "more", "--into", "x.db"], options].concat();
        let run = ends(&place, &arguments, table);
        assert_eq!(run.code, 2, "{table} {options:?}: {run:?}");
        assert!(run.stderr.contains("lead in a circle"), "{run:?}");
    }
}

#[test]
fn tune_ends_on_views_that_double() {
    let place = Place::new();
    let db = place.open("views.db");
    db.execute_batch(
        "create table t(id integer primary key, d text); create view v0 as select * from t;
         insert into t(d) with recursive n(i) as (select 1 union all select i + 1 from n where i < 300)
         select i || ' of some rows' from n",
    )
    .unwrap();
    // SQLite itself stops at 65535 of them, but does as much for each view.
    for view in 1..300 {
        let of = format!("select * from v{}", (view - 1).min(16));
        db.execute_batch(&format!("create view v{view} as {of} union all {of}"))
            .unwrap();
    }
    drop(db);
    ends(&place, &["tune", "--sample-mb", "1", "views.db"], "views");
}

/// Whether a character does something to a terminal, or looks like another name.
fn does_something(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}' | '\u{2066}' | '\u{feff}')
}

fn assert_harmless(run: &Run, arguments: &[&str]) {
    for text in [&run.stdout, &run.stderr] {
        assert!(!text.contains(does_something), "{arguments:?}: {text:?}");
        let forged = text.lines().any(|line| line.starts_with("forged"));
        assert!(!forged, "{arguments:?}: {text:?}");
    }
}

/// Each command on files and tables of evil names: those that work, and those that fail.
#[test]
fn names_do_nothing_to_a_terminal() {
    let evil = "a\x1b]0;owned\x07\x1b[2J\u{9b}31m\x7f\u{202e}\u{200b}\u{2066}\nforged";
    let place = Place::new();
    let name = |suffix: &str| format!("{evil}{suffix}");
    let (db, packed, archive) = (name(".db"), name(".lp"), name(".zst"));
    let quoted = evil.replace('"', "\"\"");
    place
        .open(&db)
        .execute_batch(&format!(
            "create table \"{quoted}\"(id integer primary key, \"{quoted}\" text);
             create index \"i{quoted}\" on \"{quoted}\"(\"{quoted}\");
             create table other(x text);
             with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
             insert into \"{quoted}\" select i, 'some words that repeat ' || i % 9 from n;
             insert into other select \"{quoted}\" from \"{quoted}\";"
        ))
        .unwrap();
    std::fs::write(
        place.path(&name(".log")),
        format!("{{\"{}\":1}}\n", "k\\u001b[2J"),
    )
    .unwrap();
    std::fs::write(
        place.path(&name(".txt")),
        "no database at all, and long enough\n".repeat(9),
    )
    .unwrap();
    let (log, text, missing) = (name(".log"), name(".txt"), name(".missing"));
    let (out, out2, catalog, unpacked) = (
        name(".out"),
        name(".out2"),
        name(".catalog"),
        name(".unpacked"),
    );
    let html = name(".html");
    let works: &[&[&str]] = &[
        &["pack", &db, &packed],
        &["info", &packed],
        &["info", "--json", &packed],
        &["check", &packed],
        &["check", "--json", &packed],
        &["maintain", "--seconds", "1", &packed],
        &["unpack", &packed, &unpacked],
        &["archive", "create", &db, &archive],
        &["archive", "info", &archive],
        &["archive", "check", &archive],
        &["archive", "extract", &archive, &out],
        &["advise", "--html", &html, &db],
        &["advise", "--json", &db],
        &["tune", "--sample-mb", "1", &db],
        &["tune", "--sample-mb", "1", "--json", &db],
        &["columns", "enable", &out, evil, evil],
        &["columns", "maintain", &out],
        &["columns", "status", &out],
        &["columns", "status", "--json", &out],
        &["columns", "disable", &out, evil, evil],
        &["ingest", &log, "--into", &out2, "--format", "json"],
        &[
            "ingest", &log, "--into", &out2, "--format", "json", "--json",
        ],
        &["catalog", &db, "-o", &catalog],
        &["catalog", &db, "-o", &catalog, "--json"],
    ];
    for arguments in works {
        let run = ends(&place, arguments, "works");
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        assert_harmless(&run, arguments);
    }
    // JSON still says what it is.
    let json = ends(&place, &["info", "--json", &packed], "JSON").stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json.to_string().contains("\\u001b]0;owned"), "{json}");
    let mut damaged = bytes(&place.path(&packed));
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(7);
    let broken = name(".broken");
    std::fs::write(place.path(&broken), damaged).unwrap();
    for file in [&text, &missing, &db, &packed, &archive, &broken] {
        for arguments in [
            &["pack", file, &packed][..],
            &["pack", file, file],
            &["pack", "--in-place", file],
            &["info", file],
            &["check", file],
            &["check", "--json", file],
            &["maintain", "--seconds", "0", file],
            &["unpack", file, &db],
            &["archive", "create", file, &archive],
            &["archive", "info", file],
            &["archive", "check", file],
            &["archive", "extract", file, &db],
            &["advise", "--html", &html, file],
            &["columns", "enable", file, "missing", evil],
            &["columns", "maintain", file],
            &["columns", "disable", file, evil, evil],
            &["ingest", file, "--into", &text],
            &["ingest", &missing, "--into", &out2],
            &["catalog", file, "-o", &text],
            &["catalog", &text, &broken, "-o", &catalog],
            &["catalog", &text, &broken, "-o", &catalog, "--json"],
            &["catalog", &db, "-o", &catalog, "--column", evil],
            &["shell", &missing],
            &["shell", "--sqlite3", evil, &db],
            &["shell", "--extension", evil, &db],
            &["info", &db, file],
            &[evil, file],
            &["tune", "--queries", file, &db],
            &["tune", "--chart", file, &missing],
        ] {
            let run = ends(&place, arguments, "fails");
            assert_harmless(&run, arguments);
        }
    }
}
