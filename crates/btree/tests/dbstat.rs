//! Page for page, the owners are those that SQLite's own `dbstat` names.

mod common;

use std::collections::HashMap;

use common::{Database, Layout, every_kind, numbers, owners, page};
use litepack_btree::{Owner, PageNumber, PageOwnership, Role};

/// Compares every page with what SQLite says.
fn compare(database: &Database) -> PageOwnership {
    let bytes = database.bytes();
    let found = owners(&bytes, |_| true).unwrap();
    assert_eq!(found.damage(), []);
    assert_eq!(found.pages(), database.number("PRAGMA page_count"));
    let mut query = database
        .db
        .prepare("SELECT pageno, name, pagetype FROM dbstat")
        .unwrap();
    let mut known: HashMap<u32, (String, String)> = query
        .query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut free = 0;
    for page in numbers(&found) {
        match found.owner(page) {
            Owner::Tree { tree, role } => {
                let name = found.trees()[tree as usize].name.clone();
                let role = match role {
                    Role::Leaf => "leaf",
                    Role::Interior => "internal",
                    Role::Overflow => "overflow",
                };
                assert_eq!(
                    known.remove(&page.get()),
                    Some((name, role.to_string())),
                    "page {page}"
                );
            }
            Owner::FreeTrunk | Owner::FreeLeaf => free += 1,
            Owner::PointerMap | Owner::PendingByte => {}
            Owner::Unknown => panic!("page {page} is unknown"),
        }
    }
    compare_without_leaves(&bytes, &found);
    assert_eq!(known, HashMap::new());
    assert_eq!(free, database.number("PRAGMA freelist_count"));
    found
}

/// Without reading leaves, some overflow pages are unknown and nothing else is.
fn compare_without_leaves(bytes: &[u8], all: &PageOwnership) {
    let mut read_pages = Vec::new();
    let read = |page: PageNumber, to: &mut [u8]| {
        read_pages.push(page);
        let start = page.index() as usize * to.len();
        to.copy_from_slice(&bytes[start..start + to.len()]);
        Ok::<_, ()>(true)
    };
    let found = PageOwnership::find_without_leaves(all.header(), read).unwrap();
    assert_eq!(found.damage(), []);
    for page in numbers(all) {
        let (expected, role) = match all.owner(page) {
            owner @ Owner::Tree { role, .. } => (owner, Some(role)),
            owner => (owner, None),
        };
        let unknown = role == Some(Role::Overflow) && found.owner(page) == Owner::Unknown;
        assert!(unknown || found.owner(page) == expected, "page {page}");
    }
    let is_leaf = |page: &PageNumber| match all.owner(*page) {
        Owner::Tree { tree, role } => tree > 0 && role == Role::Leaf,
        _ => false,
    };
    let leaves = read_pages.iter().filter(|page| is_leaf(page)).count();
    assert!(leaves < found.trees().len(), "{leaves} leaves are read");
}

#[test]
fn every_layout() {
    let sizes = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
    for (index, page_size) in sizes.into_iter().enumerate() {
        for auto_vacuum in [false, true] {
            let layout = Layout {
                page_size,
                auto_vacuum,
                reserved: [0, 32, 7][index % 3] * u8::from(page_size > 512),
                encoding: ["UTF-8", "UTF-16le", "UTF-16be"][index % 3],
            };
            println!("{layout:?}");
            let database = Database::new(layout);
            compare(&database);
            database.run(&every_kind(1500));
            let found = compare(&database);
            let kinds = found.trees().iter().filter(|tree| tree.table == "pairs");
            // A UNIQUE column beside the table itself, whose PRIMARY KEY is the table.
            assert_eq!(kinds.count(), 2);
            assert!(found.trees().iter().all(|tree| tree.name != "seen"));
            // Free pages, with trunks.
            database.run("DROP TABLE keyed; DELETE FROM plain WHERE id % 5 < 3;");
            compare(&database);
            database.run("VACUUM");
            compare(&database);
        }
    }
}

#[test]
fn small_pages_with_reserved_bytes() {
    let database = Database::new(Layout {
        page_size: 512,
        reserved: 32,
        ..Layout::default()
    });
    database.run(&every_kind(3000));
    compare(&database);
}

#[test]
fn long_names_and_statements_that_spill() {
    for (page_size, encoding) in [(512, "UTF-8"), (1024, "UTF-16le"), (65536, "UTF-16be")] {
        let database = Database::new(Layout {
            page_size,
            encoding,
            ..Layout::default()
        });
        for (index, len) in [1, 100, 400, 1000, 30_000, 300_000].into_iter().enumerate() {
            let name = format!("{index}ü{}", "x".repeat(len));
            let columns: Vec<String> = (0..200).map(|column| format!("c{column}")).collect();
            database.run(&format!(
                "CREATE TABLE \"{name}\"({}, UNIQUE(c1)); CREATE INDEX \"i{name}\" ON \"{name}\"(c2);
                 INSERT INTO \"{name}\"(c1, c2) VALUES (1, 2);",
                columns.join(", ")
            ));
        }
        let found = compare(&database);
        // A table and two indexes each, and the schema.
        assert_eq!(found.trees().len(), 6 * 3 + 1);
        assert!(found.trees().iter().any(|tree| tree.name.len() > 300_000));
    }
}

#[test]
fn a_database_grown_by_an_old_writer_is_as_long_as_its_file() {
    let database = Database::new(Layout::default());
    database.run(&every_kind(500));
    let mut bytes = database.bytes();
    let pages = database.number("PRAGMA page_count");
    // The count is stale, and the number of the version that it is valid for too.
    bytes[28..32].copy_from_slice(&1_u32.to_be_bytes());
    bytes[95] ^= 1;
    assert_eq!(owners(&bytes, |_| true).unwrap().pages(), pages);
}

#[test]
#[ignore = "makes a database of more than 1 GiB"]
fn the_pending_byte_page() {
    for auto_vacuum in [false, true] {
        let database = Database::new(Layout {
            page_size: 65536,
            auto_vacuum,
            ..Layout::default()
        });
        database.run(
            "PRAGMA journal_mode=OFF; CREATE TABLE t(x); INSERT INTO t VALUES (zeroblob(600000000));
             INSERT INTO t VALUES (zeroblob(600000000));",
        );
        let found = compare(&database);
        assert_eq!(found.owner(page((1 << 30) / 65536 + 1)), Owner::PendingByte);
    }
}
