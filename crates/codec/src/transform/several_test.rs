//! Units of several pages there and back, as SQLite fills them and with anything changed, and streams that lie about
//! them.

use litepack_io::random::SplitMix64;
use proptest::prelude::*;

use super::bytes::Malformed;
use super::page::PageKind;
use super::page_test::{LEN, Sql, build_of, kinds, there_and_back, values};
use super::{PageWork, Transform, Undo, encode};

fn text(text: &str) -> Sql {
    Sql::Text(text.into())
}

type Rows = Vec<(i64, Vec<Sql>)>;

/// A unit of pages of `len` bytes, the first of them page 1 on request.
fn unit(len: usize, pages: &[(PageKind, Rows)], page_one: bool) -> Vec<u8> {
    let pages = pages.iter().enumerate();
    let pages =
        pages.map(|(index, (kind, rows))| build_of(len, *kind, rows, page_one && index == 0));
    let mut unit: Vec<u8> = pages.flatten().collect();
    unit.resize(LEN, 0);
    unit
}

/// Rows of a table, many enough to fill any page.
fn rows(first: i64) -> Rows {
    let row = |id: i64| {
        let json = format!(r#"{{"id": {id}, "name": "name {}", "tags": []}}"#, id % 7);
        (id, vec![Sql::Null, text(&json), Sql::Integer(id * 3)])
    };
    (first..first + 200).map(row).collect()
}

#[test]
fn small_pages_share_columns() {
    for len in [512, 1024, 2048] {
        let pages = |count: usize| {
            let page = |page| (PageKind::TableLeaf, rows(200 * page as i64));
            (0..count).map(page).collect::<Vec<_>>()
        };
        let count = LEN / len;
        let all = there_and_back(&unit(len, &pages(count), false)).unwrap();
        assert!(all < LEN / 3, "{all} bytes of {len}");
        // Page 1, and a unit that the database ends in.
        assert!(there_and_back(&unit(len, &pages(count), true)).unwrap() < LEN / 2);
        assert!(there_and_back(&unit(len, &pages(1), true)).is_some());
        // Pages of another table and of an index, a free page and one of text between them.
        let mut others = pages(count);
        others[1] = (
            PageKind::IndexLeaf,
            vec![(0, vec![text("a"), Sql::Integer(5)]); 90],
        );
        let mut mixed = unit(len, &others, false);
        mixed[(count - 1) * len..].fill(b'x');
        assert!(there_and_back(&mixed).is_some());
    }
}

/// An item there and back; the length of its stream.
fn item_there_and_back(pages: &[u8], units: usize) -> Option<usize> {
    let mut stream = Vec::new();
    if !super::several::encode(pages, units, &mut PageWork::default(), &mut stream) {
        return None;
    }
    let mut back = vec![0xaa; pages.len()];
    Undo::default().decode(&stream, &mut back).unwrap();
    assert!(back == pages, "other pages came back");
    Some(stream.len())
}

#[test]
fn the_pages_of_an_item_share_columns() {
    for (len, units) in [(4096, 2), (4096, 4), (8192, 2), (16_384, 4)] {
        let row = |id: i64| {
            let number = (SplitMix64::new(id as u64).next_u64() >> 44) as i64;
            let json = format!(r#"{{"id": {number}, "name": "name {}"}}"#, number % 7);
            (id, vec![Sql::Null, text(&json), Sql::Integer(number)])
        };
        let page = |page: usize| {
            let first = 50 * page as i64;
            let rows: Rows = (first..first + 900).map(row).collect();
            build_of(len, PageKind::TableLeaf, &rows, false)
        };
        let pages: Vec<u8> = (0..units).flat_map(page).collect();
        let alone: usize = pages.chunks(len).filter_map(there_and_back).sum();
        let together = item_there_and_back(&pages, units).unwrap();
        assert!(together < alone, "{together} of {alone}");
        // One of text between them, and one that is zero.
        let mut mixed = pages.clone();
        mixed[len..2 * len].fill(b'x');
        assert!(item_there_and_back(&mixed, units).is_some());
        mixed[len..2 * len].fill(0);
        assert!(item_there_and_back(&mixed, units).is_some());
        // No page of SQLite's at all, and no such item.
        assert_eq!(item_there_and_back(&vec![b'x'; pages.len()], units), None);
        for units in [0, 1, 3, 8, units + 1, 255] {
            assert_eq!(item_there_and_back(&pages, units), None, "{units}");
        }
        // A unit is not given that many pages, whatever is in it.
        assert_ne!(encoded(&pages).first(), Some(&super::several::TAG));
        let mut stream = Vec::new();
        super::several::encode(&pages, units, &mut PageWork::default(), &mut stream);
        for wrong in [0, len, pages.len() / 2, pages.len() - 1] {
            let mut back = vec![0; wrong];
            let decoded = Undo::default().decode(&stream, &mut back);
            assert!(decoded.is_err(), "{wrong}");
        }
    }
}

fn encoded(unit: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    encode(unit, &mut PageWork::default(), &mut stream);
    stream
}

#[test]
fn a_page_of_a_whole_unit_is_one_page() {
    let large = build_of(LEN, PageKind::TableLeaf, &rows(0), false);
    let mut stream = Vec::new();
    assert!(encode(&large, &mut PageWork::default(), &mut stream));
    assert_eq!(stream[0], PageKind::TableLeaf as u8);
    // Other units have pages of their own length.
    let small = build_of(512, PageKind::TableLeaf, &rows(0), false);
    for len in [2048, 8192] {
        stream.clear();
        encode(
            &small.repeat(len / 512),
            &mut PageWork::default(),
            &mut stream,
        );
        assert_ne!(stream.first(), Some(&super::several::TAG));
    }
}

/// A stream byte by byte, as docs/format.md describes it.
#[test]
fn streams_are_as_documented() {
    let row =
        |rowid: i64, letters: &str| (rowid, vec![text(&letters.repeat(300)), Sql::Integer(rowid)]);
    let pages = [
        (PageKind::TableLeaf, vec![row(1, "ab"), row(2, "cd")]),
        (
            PageKind::IndexLeaf,
            vec![(0, vec![text(&"e".repeat(20))]); 60],
        ),
        (PageKind::TableLeaf, vec![row(3, "ef")]),
    ];
    let mut unit = unit(1024, &pages, false);
    unit[3072..].fill(9);
    let [first, third] = ["ab", "ef"].map(|letters| letters.repeat(300).into_bytes());
    // The second row is too long for its page, and so for the group.
    let expected = [
        &[1, 4][..],             // four pages
        &[1, 2, 1, 0],           // a table, an index, the table again, and one of another kind
        &[9; 1024],              // that one
        b"\x0d\x01\x00\x01\x00", // table leaves of one cell each, laid out as usual
        &[1, 2, 0, 2],           // rowids 1 and 3
        &[0, 4],                 // two columns each
        b"\x03\x00",             // texts
        &first,
        b"\0",
        &third,
        b"\0",
        &[1, 1, 2, 0, 2], // integers
        b"\x0a\x28\x00",  // an index leaf of 40 cells
        &[0, 2],
        b"\x03\x02\x14", // a pattern of 20 bytes
        &[b'e'; 20],
    ];
    let mut stream = Vec::new();
    assert!(encode(&unit, &mut PageWork::default(), &mut stream));
    assert!(stream == expected.concat(), "another stream");
    assert!(there_and_back(&unit).is_some());

    let refused = |stream: &[u8], len: usize| {
        let decoded = Undo::default().decode(stream, &mut vec![0; len]);
        assert_eq!(decoded, Err(Malformed));
    };
    for len in [0, 1024, 2048, 8192, 1 << 16] {
        refused(&stream, len);
    }
    // How many pages, groups that are not there or too many, a group within a group.
    for (at, byte) in [
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 8),
        (1, 255),
        (2, 3),
        (3, 1),
        (3, 5),
        (5, 3),
        (5, 255),
        (6 + 1024, 1),
    ] {
        let mut bad = stream.clone();
        bad[at] = byte;
        refused(&bad, LEN);
    }
    for cut in [0, 1, 2, 5, 6, 1029, 1030, 1031, stream.len() - 1] {
        refused(&stream[..cut], LEN);
    }
    stream.push(0);
    refused(&stream, LEN);
}

fn any_unit() -> impl Strategy<Value = Vec<u8>> {
    let rows = proptest::collection::vec((0i64..1000, values()), 0..30);
    let pages = proptest::collection::vec((kinds(), rows), 1..9);
    (0..3_u32, pages, any::<bool>()).prop_map(|(shift, pages, page_one)| {
        let len = 512 << shift;
        unit(len, &pages[..pages.len().min(LEN / len)], page_one)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn units_come_back_or_are_not_taken(
        mut unit in any_unit(),
        changes in proptest::collection::vec((0..LEN, any::<u8>()), 0..12),
        headers in proptest::collection::vec((0..8usize, 0..20usize, any::<u8>()), 0..4),
    ) {
        there_and_back(&unit);
        for (at, byte) in changes {
            unit[at] = byte;
        }
        there_and_back(&unit);
        for (page, at, byte) in headers {
            unit[page * 512 + at] = byte;
        }
        there_and_back(&unit);
    }

    #[test]
    fn items_come_back_or_are_not_taken(
        one in any_unit(),
        next in any_unit(),
        is_four in any::<bool>(),
        changes in proptest::collection::vec((0..2 * LEN, any::<u8>()), 0..12),
        cut in 0usize..300,
    ) {
        let (units, times) = if is_four { (4, 2) } else { (2, 1) };
        let mut item = [one, next].concat().repeat(times);
        let mut transform = Transform::default();
        transform.of_item(&item, units);
        for (at, byte) in &changes {
            item[*at] = *byte;
        }
        if let Some(stream) = transform.of_item(&item, units) {
            let stream = stream.to_vec();
            let (mut undo, mut back) = (Undo::default(), vec![0; item.len()]);
            let _ = undo.decode(&stream[..cut.min(stream.len())], &mut back);
            let mut changed = stream.clone();
            for (at, byte) in changes {
                changed[at % stream.len()] = byte;
            }
            let _ = undo.decode(&changed, &mut back);
            prop_assert_eq!(undo.decode(&stream, &mut back), Ok(()));
            prop_assert!(back == item);
        }
    }

    #[test]
    fn hostile_streams_are_refused_or_fill_the_unit(
        unit in any_unit(),
        changes in proptest::collection::vec((0..200usize, any::<u8>()), 1..8),
        cut in 0usize..300,
    ) {
        let mut stream = Vec::new();
        if encode(&unit, &mut PageWork::default(), &mut stream) {
            let mut undo = Undo::default();
            let mut back = vec![0; LEN];
            let _ = undo.decode(&stream[..cut.min(stream.len())], &mut back);
            let mut changed = stream.clone();
            for (at, byte) in changes {
                changed[at % stream.len()] = byte;
            }
            let _ = undo.decode(&changed, &mut back);
            // Whatever it has read before.
            prop_assert_eq!(undo.decode(&stream, &mut back), Ok(()));
            prop_assert!(back == unit);
        }
    }

    #[test]
    fn random_streams_are_refused_or_fill_the_unit(mut stream in proptest::collection::vec(any::<u8>(), 3..200), shift in 1..4) {
        stream[0] = super::several::TAG;
        let count = 1_u8 << shift;
        stream[1] = count;
        for group in stream.iter_mut().skip(2).take(count.into()) {
            *group %= 3;
        }
        let _ = Undo::default().decode(&stream, &mut vec![0; LEN]);
    }
}
