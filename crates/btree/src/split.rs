//! Where to cut a table into parts with about as many pages each. The pages above its leaves say which rowids are below
//! which of their children, so that some of them are all that is read.

use crate::header::Header;
use crate::page::{Page, PageKind};
use crate::page_number::PageNumber;

/// Pages to choose from, for each part: then none is larger than another by more than an eighth.
const CHILDREN: usize = 8;
/// No more pages are read. A table of 100 GB has some 60 that lead to those right above its leaves.
const READS_MAX: usize = 2000;
/// No more pages are kept to choose from.
const PAGES_MAX: usize = 1 << 18;

/// At most `parts - 1` rowids in ascending order. Each is the last that one part may have, and the next one begins right
/// behind it. `root` is the table's root page; `read` fills a buffer with the page of a number, and returns false if
/// there is none. What the pages say is not trusted: at worst parts are uneven, or fewer.
///
/// # Errors
/// Those of `read`.
pub fn cuts<E>(
    header: &Header,
    root: PageNumber,
    parts: usize,
    mut read: impl FnMut(PageNumber, &mut [u8]) -> Result<bool, E>,
) -> Result<Vec<i64>, E> {
    let mut bytes = vec![0; header.page_size as usize];
    let mut reads = 0;
    // One level of the tree: pages, and the greatest rowid that each may have; the last has no limit.
    let mut level: Vec<(PageNumber, Option<i64>)> = vec![(root, None)];
    'down: while level.len() < parts.saturating_mul(CHILDREN).min(PAGES_MAX) {
        let mut below = Vec::new();
        for (page, limit) in &level {
            let is_read = reads < READS_MAX && below.len() < PAGES_MAX && read(*page, &mut bytes)?;
            reads += 1;
            let header_at = if page.get() == 1 {
                crate::HEADER_LEN
            } else {
                0
            };
            let usable = bytes.get(..header.usable()).unwrap_or_default();
            let parsed = Page::parse(usable, header_at).filter(|_| is_read);
            match parsed.map(|parsed| (parsed.kind(), parsed)) {
                Some((PageKind::TableInterior, parsed)) => {
                    let cells = parsed.cells().flatten();
                    let children = cells
                        .filter_map(|cell| Some((cell.child?, Some(cell.rowid.cast_signed()))));
                    below.extend(children.take(PAGES_MAX - below.len().min(PAGES_MAX)));
                    below.extend(parsed.rightmost().map(|child| (child, *limit)));
                }
                // All leaves are equally deep.
                Some((PageKind::TableLeaf, _)) => break 'down,
                _ => below.push((*page, *limit)),
            }
        }
        if below.len() <= level.len() {
            break;
        }
        level = below;
    }
    let mut limits: Vec<i64> = level.into_iter().filter_map(|(_, limit)| limit).collect();
    limits.sort_unstable();
    limits.dedup();
    // One more page than there are limits between them.
    let pages = limits.len() + 1;
    let parts = parts.clamp(1, pages);
    let cuts = (1..parts).filter_map(|part| limits.get(part * pages / parts - 1).copied());
    Ok(cuts.collect())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;
    use crate::HEADER_LEN;

    /// The database's bytes, its header and the root of the table `t`.
    fn table(page_size: u32, fill: &str) -> (Vec<u8>, Header, PageNumber, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(&format!(
            "pragma page_size = {page_size}; create table other(x); create table t(id integer primary key, data); {fill}"
        ))
        .unwrap();
        let root = db
            .query_row(
                "select rootpage from sqlite_schema where name = 't'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        let bytes = std::fs::read(path).unwrap();
        let header = Header::parse(&bytes[..HEADER_LEN], bytes.len() as u64).unwrap();
        (bytes, header, PageNumber::new(root).unwrap(), db)
    }

    fn read_from(
        bytes: &[u8],
        page_size: u32,
    ) -> impl FnMut(PageNumber, &mut [u8]) -> Result<bool, Infallible> {
        move |page, to| {
            let start = page.start(page_size) as usize;
            let from = bytes.get(start..start + to.len());
            from.inspect(|from| to.copy_from_slice(from));
            Ok(from.is_some())
        }
    }

    #[test]
    fn parts_have_about_as_many_rows_whatever_their_rowids() {
        let of = |rowid: &str| {
            format!(
                "insert into t with recursive n(i) as (select 0 union all select i + 1 from n where i < 29999)
                   select {rowid}, zeroblob(60) from n;"
            )
        };
        for rowid in [
            "i",
            "i * i",
            "-9000000000000000000 + i * 500000000000000",
            "i + (i > 20000) * 1000000000",
        ] {
            for page_size in [512, 4096] {
                let (bytes, header, root, db) = table(page_size, &of(rowid));
                let mut reads = 0;
                let mut read = read_from(&bytes, page_size);
                let found = cuts(&header, root, 7, |page, to| {
                    reads += 1;
                    read(page, to)
                });
                let Ok(found) = found;
                assert_eq!(found.len(), 6);
                assert!(reads < 60, "{reads}");
                let edges: Vec<i64> = [i64::MIN].into_iter().chain(found).collect();
                for (at, first) in edges.iter().enumerate() {
                    let last = edges.get(at + 1).copied().unwrap_or(i64::MAX);
                    let rows: u32 = db
                        .query_row(
                            "select count(*) from t where id > ?1 and id <= ?2 or id = ?1 and id = -9223372036854775808",
                            [*first, last],
                            |row| row.get(0),
                        )
                        .unwrap();
                    assert!((30_000 / 9..30_000 / 5).contains(&rows), "{rowid}: {rows}");
                }
            }
        }
    }

    #[test]
    fn small_tables_are_cut_into_fewer_parts_or_none() {
        let (bytes, header, root, _db) = table(512, "insert into t values (1, 2);");
        let Ok(none) = cuts(&header, root, 5, read_from(&bytes, 512));
        assert_eq!(none, []);
        let (bytes, header, root, _db) = table(
            512,
            "insert into t values (1, zeroblob(300)), (2, zeroblob(300)), (3, zeroblob(300));",
        );
        let Ok(all) = cuts(&header, root, 50, read_from(&bytes, 512));
        assert_eq!(all, [1, 2]);
        let Ok(none) = cuts(&header, root, 1, read_from(&bytes, 512));
        assert_eq!(none, []);
    }

    #[test]
    fn pages_in_a_circle_and_pages_that_are_missing_end_it() {
        let (mut bytes, header, root, _db) = table(
            512,
            "insert into t with recursive n(i) as (select 0 union all select i + 1 from n where i < 5000)
               select i, zeroblob(60) from n;",
        );
        let Ok(found) = cuts(&header, root, 5, read_from(&bytes[..512 * 3], 512));
        assert!(found.len() < 5);
        // Each child of the root is the root.
        let at = root.start(512) as usize;
        let cells: Vec<usize> = {
            let page = Page::parse(&bytes[at..at + 512], 0).unwrap();
            page.cells().flatten().map(|cell| at + cell.start).collect()
        };
        for cell in cells.into_iter().chain([at + 8]) {
            bytes[cell..cell + 4].copy_from_slice(&root.get().to_be_bytes());
        }
        let mut reads = 0;
        let mut read = read_from(&bytes, 512);
        let Ok(found) = cuts(&header, root, usize::MAX, |page, to| {
            reads += 1;
            read(page, to)
        });
        assert!(reads <= READS_MAX && found.is_sorted(), "{reads}");
    }

    proptest! {
        #[test]
        fn hostile_pages_give_rowids_in_order(
            noise in proptest::collection::vec((0usize..4096, any::<u8>()), 0..60),
            parts in 0usize..50,
        ) {
            let mut page = vec![0; 4096];
            page[0] = 5;
            page[4] = 40;
            for (at, byte) in noise {
                page[at] = byte;
            }
            let header = Header {
                page_size: 4096,
                reserved: 0,
                pages: 9,
                encoding: crate::Encoding::Utf8,
                first_free: None,
                auto_vacuum: false,
            };
            let Ok(found) = cuts(&header, PageNumber::new(2).unwrap(), parts, |_, to| {
                to.copy_from_slice(&page);
                Ok::<_, Infallible>(true)
            });
            prop_assert!(found.len() < parts.max(1));
            prop_assert!(found.windows(2).all(|two| two[0] < two[1]));
        }
    }
}
