//! Where to cut a table into parts with about as many leaves each. The pages above the leaves say which rowids are below
//! which of their children, so that some of them are all that is read.

use crate::header::Header;
use crate::page::{Page, PageKind};
use crate::page_number::PageNumber;

/// Pages to choose from, for each part: more do not make parts much more even.
const CHILDREN: usize = 8;
/// No more pages are read where there are as many to choose from as parts, and where there are not. A table of 100 GB has
/// 150 that lead to those right above its leaves.
const READS: usize = 200;
const READS_MAX: usize = 1000;
/// No more pages are kept to choose from.
const PAGES_MAX: usize = 1 << 19;

/// A page, and the greatest rowid that may be below it; `None` for the last of all.
type Below = (PageNumber, Option<i64>);

/// At most `parts - 1` rowids in ascending order. Each is the last that one part may have, and the next one begins
/// right behind it. `root` is the table's root page; `read` fills a buffer with the page of a number, and returns false
/// if there is none. Overflow pages are not counted. The pages are not trusted, and memory may be short: at worst parts
/// are uneven, or fewer.
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
    // All pages of one level of the tree, in the order of their rowids.
    let mut level: Vec<Below> = vec![(root, None)];
    while level.len() < parts.saturating_mul(CHILDREN) {
        reads += level.len();
        let most = if level.len() < parts {
            READS_MAX
        } else {
            READS
        };
        if reads > most {
            break;
        }
        let mut below = Vec::new();
        let mut is_whole = true;
        for (page, limit) in &level {
            let is_read = read(*page, &mut bytes)?;
            let usable = bytes.get(..header.usable()).unwrap_or_default();
            let parsed = Page::parse(usable, page.header()).filter(|_| is_read);
            // All leaves are equally deep: a level is read whole, or is the last.
            is_whole = parsed.is_some_and(|page| {
                page.kind() == PageKind::TableInterior && add_children(&page, *limit, &mut below)
            });
            if !is_whole {
                break;
            }
        }
        if !is_whole || below.len() <= level.len() {
            break;
        }
        level = below;
    }
    Ok(chosen(level, parts))
}

/// Adds what is below a page, all of whose rowids are at most `limit`. False if that is too much.
fn add_children(page: &Page<'_>, limit: Option<i64>, below: &mut Vec<Below>) -> bool {
    let children = page.count() + 1;
    if below.len() + children > PAGES_MAX || below.try_reserve(children).is_err() {
        return false;
    }
    let cells = page.cells().flatten();
    let named = cells.filter_map(|cell| Some((cell.child?, Some(cell.rowid.cast_signed()))));
    below.extend(named.take(page.count()));
    below.extend(page.rightmost().map(|child| (child, limit)));
    true
}

/// Rowids between so many parts with as many of these pages each.
fn chosen(mut pages: Vec<Below>, parts: usize) -> Vec<i64> {
    pages.retain(|(_, limit)| limit.is_some());
    pages.sort_unstable_by_key(|(_, limit)| *limit);
    pages.dedup_by_key(|(_, limit)| *limit);
    // One more page than there are limits between them.
    let count = pages.len() + 1;
    let parts = parts.clamp(1, count);
    let mut cuts = Vec::new();
    if cuts.try_reserve_exact(parts).is_ok() {
        let last_of = |part: usize| pages.get(part * count / parts - 1)?.1;
        cuts.extend((1..parts).filter_map(last_of));
    }
    cuts
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

    /// A tree of so many children for each page, in which a page's number says where it is.
    fn tall(
        fanout: u32,
        levels: u32,
        reads: &mut usize,
    ) -> impl FnMut(PageNumber, &mut [u8]) -> Result<bool, Infallible> {
        move |page, to| {
            *reads += 1;
            to.fill(0);
            // The first page of each level, and the place within it.
            let (mut first, mut width, mut depth) = (2, 1, 0);
            while page.get() - first >= width {
                (first, width, depth) = (first + width, width * fanout, depth + 1);
            }
            if depth == levels {
                to[0] = 13;
                return Ok(true);
            }
            let (at, below) = (page.get() - first, first + width);
            let leaves_below = fanout.pow(levels - depth - 1);
            to[0] = 5;
            to[3..5].copy_from_slice(&(fanout as u16 - 1).to_be_bytes());
            let child = |n: u32| (below + at * fanout + n).to_be_bytes();
            for n in 0..fanout - 1 {
                let start = 4096 - 9 * (n as usize + 1);
                let pointer = 12 + 2 * n as usize;
                to[pointer..pointer + 2].copy_from_slice(&(start as u16).to_be_bytes());
                to[start..start + 4].copy_from_slice(&child(n));
                let rowid = u64::from((at * fanout + n + 1) * leaves_below);
                let digits = (0..5).rev().map(|digit| {
                    let more = if digit > 0 { 0x80 } else { 0 };
                    (rowid >> (7 * digit) & 0x7f) as u8 | more
                });
                digits
                    .zip(&mut to[start + 4..start + 9])
                    .for_each(|(from, to)| *to = from);
            }
            to[8..12].copy_from_slice(&child(fanout - 1));
            Ok(true)
        }
    }

    /// A limit that is met within a level must not make some pages of it count as much as others' children.
    #[test]
    fn parts_of_a_very_large_table_are_even_for_few_reads() {
        let header = Header {
            page_size: 4096,
            reserved: 0,
            pages: u32::MAX,
            encoding: crate::Encoding::Utf8,
            first_free: None,
            free_pages: 0,
            auto_vacuum: false,
        };
        let root = PageNumber::new(2).unwrap();
        // Up to 27 million leaves; the level right above them has more or fewer pages than there are parts.
        for (fanout, levels, parts) in [
            (370, 2, 100),
            (370, 2, 500),
            (370, 2, 10_000),
            (300, 3, 500),
            (300, 3, 10_000),
        ] {
            let mut reads = 0;
            let Ok(found) = cuts(&header, root, parts, tall(fanout, levels, &mut reads));
            assert!(reads <= READS_MAX, "{reads}");
            let leaves = i64::from(fanout.pow(levels));
            let edges: Vec<i64> = [0].into_iter().chain(found).chain([leaves]).collect();
            let lens: Vec<i64> = edges.windows(2).map(|two| two[1] - two[0]).collect();
            let (least, most) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
            assert!(
                most <= &(2 * least),
                "{fanout} {levels} {parts}: {least} to {most}"
            );
            assert!(lens.len() > parts / 2, "{} of {parts}", lens.len());
        }
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
                free_pages: 0,
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
