//! Databases that are damaged, or made to do harm: no panic, no page read twice, and the rest is found.

mod common;

use common::{Database, Layout, every_kind, numbers, owners, page};
use litepack_btree::{Owner, PageNumber, Role};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

fn databases(rows: u32) -> Vec<Vec<u8>> {
    let layouts = [(512, false), (1024, true), (4096, true), (65536, false)];
    layouts
        .into_iter()
        .map(|(page_size, auto_vacuum)| {
            let database = Database::new(Layout {
                page_size,
                auto_vacuum,
                ..Layout::default()
            });
            database.run(&every_kind(rows));
            database.run("PRAGMA incremental_vacuum=0; DROP TABLE keyed;");
            database.bytes()
        })
        .collect()
}

/// Looks at everything that was found. That a page is read twice, `owners` notices.
fn survives(bytes: &[u8]) {
    let Some(found) = owners(bytes, |_| true) else {
        return;
    };
    for page in numbers(&found) {
        if let Owner::Tree { tree, .. } = found.owner(page) {
            assert!((tree as usize) < found.trees().len());
        }
    }
    assert!(found.trees().len() <= found.pages() as usize + 1);
    assert!(found.damage().len() as u64 <= found.damaged());
}

#[test]
fn mutations() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let rounds = if std::env::var_os("LITEPACK_LONG").is_some() {
        20_000
    } else {
        400
    };
    for whole in databases(300) {
        let size = match u16::from_be_bytes([whole[16], whole[17]]) {
            1 => 65536,
            size => usize::from(size),
        };
        for _ in 0..rounds {
            let mut bytes = whole.clone();
            for _ in 0..random.random_range(1..20) {
                let page = random.random_range(0..bytes.len() / size) * size;
                // Most often where page headers, cell pointers and chains are.
                let within = match random.random_range(0..3) {
                    0 => random.random_range(0..size),
                    1 => random.random_range(0..size.min(120)),
                    _ => random.random_range(0..12),
                };
                match random.random_range(0..4) {
                    0 => bytes[page + within] = random.random(),
                    1 => bytes[page + within] ^= 1 << random.random_range(0..8),
                    2 => {
                        let from = random.random_range(0..bytes.len() / size) * size;
                        bytes.copy_within(from..from + size, page);
                    }
                    _ => {
                        let number = random.random_range(0..bytes.len() / size) as u32;
                        let at = (page + within).min(bytes.len() - 4);
                        bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
                    }
                }
            }
            if random.random_range(0..10) == 0 {
                bytes.truncate(random.random_range(0..bytes.len()));
            }
            survives(&bytes);
        }
    }
}

#[test]
fn noise_behind_a_header() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for whole in databases(10) {
        for _ in 0..100 {
            let mut bytes = whole.clone();
            random.fill_bytes(&mut bytes[100..]);
            // A root page that leads on, whatever to.
            bytes[100] = [5, 13][random.random_range(0..2)];
            bytes[103..105].copy_from_slice(&20_u16.to_be_bytes());
            survives(&bytes);
        }
    }
}

#[test]
fn a_tree_that_leads_back_to_its_root() {
    let database = Database::new(Layout::default());
    database.run(&every_kind(2000));
    let mut bytes = database.bytes();
    let found = owners(&bytes, |_| true).unwrap();
    let plain = found.trees().iter().position(|tree| tree.name == "plain");
    let root = found.trees()[plain.unwrap()].root;
    // The rightmost child.
    let at = root.start(4096) as usize + 8;
    bytes[at..at + 4].copy_from_slice(&root.get().to_be_bytes());
    let found = owners(&bytes, |_| true).unwrap();
    assert_eq!(found.damaged(), 1);
    assert_eq!(found.damage()[0].page, root);
    assert!(numbers(&found).any(|page| found.owner(page) == Owner::Unknown));
}

#[test]
fn a_chain_of_ten_thousand_interior_pages_needs_no_stack() {
    let pages = 10_000;
    let mut bytes = vec![0; pages * 512];
    bytes[..16].copy_from_slice(b"SQLite format 3\0");
    bytes[16..18].copy_from_slice(&512_u16.to_be_bytes());
    for page in 0..pages - 1 {
        let at = page * 512 + if page == 0 { 100 } else { 0 };
        bytes[at] = 5;
        bytes[at + 8..at + 12].copy_from_slice(&(page as u32 + 2).to_be_bytes());
    }
    let found = owners(&bytes, |_| true).unwrap();
    let role = Role::Interior;
    assert_eq!(found.owner(page(9_999)), Owner::Tree { tree: 0, role });
    // The last one is empty: no leaf.
    assert_eq!(found.owner(page(10_000)), Owner::Unknown);
    assert_eq!(found.damaged(), 1);
}

#[test]
fn what_an_unreadable_page_leads_to_is_unknown_and_the_rest_is_found() {
    let database = Database::new(Layout::default());
    database.run(&every_kind(2000));
    let bytes = database.bytes();
    let whole = owners(&bytes, |_| true).unwrap();
    let find = |name| {
        whole
            .trees()
            .iter()
            .position(|tree| tree.name == name)
            .unwrap()
    };
    let plain = find("plain") as u32;
    let root = whole.trees()[plain as usize].root;
    let found = owners(&bytes, |page| page != root).unwrap();
    assert_eq!(found.trees(), whole.trees());
    assert_eq!(found.damaged(), 1);
    assert_eq!(
        found.damage()[0].to_string(),
        format!("page {root}: cannot be read")
    );
    assert_eq!(found.damage()[0].tree, Some(plain));
    for page in numbers(&whole) {
        match whole.owner(page) {
            Owner::Tree { tree, .. } if tree == plain => {
                assert_eq!(found.owner(page), Owner::Unknown);
            }
            owner => assert_eq!(found.owner(page), owner),
        }
    }
    // Without the schema there is nothing but free pages.
    let found = owners(&bytes, |page| page != PageNumber::FIRST).unwrap();
    assert_eq!(found.trees().len(), 1);
}

#[test]
fn an_error_of_the_reader_ends_the_search() {
    use litepack_btree::{HEADER_LEN, Header, PageOwnership};
    let database = Database::new(Layout::default());
    database.run(&every_kind(100));
    let bytes = database.bytes();
    let header = Header::parse(&bytes[..HEADER_LEN], bytes.len() as u64).unwrap();
    let mut calls = 0;
    let found = PageOwnership::find(&header, |_, buf| {
        calls += 1;
        buf.copy_from_slice(&bytes[..4096]);
        if calls == 2 { Err("enough") } else { Ok(true) }
    });
    assert_eq!(found.err(), Some("enough"));
    assert_eq!(calls, 2);
}

#[test]
fn a_header_that_claims_everything_takes_no_memory() {
    use litepack_btree::{HEADER_LEN, Header, PageOwnership};
    let database = Database::new(Layout::default());
    let bytes = database.bytes();
    let mut head = bytes[..HEADER_LEN].to_vec();
    head[28..32].copy_from_slice(&u32::MAX.to_be_bytes());
    let header = Header::parse(&head, u64::MAX).unwrap();
    let found = PageOwnership::find(&header, |_, buf| {
        buf.copy_from_slice(&bytes[..4096]);
        Ok::<_, ()>(true)
    })
    .unwrap();
    assert_eq!(found.owner(page(found.pages())), Owner::Unknown);
}
