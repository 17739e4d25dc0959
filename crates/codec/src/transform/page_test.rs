//! Whole pages there and back: pages of records as SQLite writes them, the same pages with anything
//! changed, and streams that no encoder wrote.

use proptest::prelude::*;

use super::bytes::Malformed;
use super::json::binary::to_binary;
use super::page::PageKind;
use super::record::{header_len as record_header_len, put_varint, serial_of, varint_len, word_of};
use super::undo::ROOM;
use super::{PageWork, Undo, VERBATIM, encode};

pub(super) const LEN: usize = 4096;

/// A column's value.
#[derive(Clone, Debug)]
pub(super) enum Sql {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

fn record(values: &[Sql]) -> Vec<u8> {
    let (mut types, mut body) = (Vec::new(), Vec::new());
    for value in values {
        let serial = match value {
            Sql::Null => 0,
            Sql::Integer(value) => {
                let (serial, len) = serial_of(*value);
                body.extend(&word_of(*value, len).to_le_bytes()[..len as usize]);
                serial.into()
            }
            Sql::Real(value) => {
                body.extend(value.to_be_bytes());
                7
            }
            Sql::Text(text) => {
                body.extend(text.as_bytes());
                13 + 2 * text.len() as u64
            }
            Sql::Blob(bytes) => {
                body.extend(bytes);
                12 + 2 * bytes.len() as u64
            }
        };
        push_varint(serial, &mut types);
    }
    let mut record = Vec::new();
    push_varint(record_header_len(types.len()) as u64, &mut record);
    record.extend(types);
    record.extend(body);
    record
}

fn push_varint(value: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + varint_len(value), 0);
    put_varint(value, &mut out[start..]).unwrap();
}

fn jsonb(text: &str) -> Sql {
    let mut blob = Vec::new();
    to_binary(text.as_bytes(), &mut blob).unwrap();
    Sql::Blob(blob)
}

/// A page of `kind` with as many of the rows as fit, filled from its end.
fn build(kind: PageKind, rows: &[(i64, Vec<Sql>)], page_one: bool) -> Vec<u8> {
    build_of(LEN, kind, rows, page_one)
}

/// The same, of another length.
pub(super) fn build_of(
    len: usize,
    kind: PageKind,
    rows: &[(i64, Vec<Sql>)],
    page_one: bool,
) -> Vec<u8> {
    let mut page = vec![0; len];
    let header = if page_one { 100 } else { 0 };
    if page_one {
        page[..16].copy_from_slice(b"SQLite format 3\0");
        page[16..100].fill(7);
    }
    let pointers = header + kind.header_len();
    let (mut top, mut count) = (len, 0);
    for (rowid, values) in rows {
        let mut cell = Vec::new();
        if kind.is_interior() {
            cell.extend((*rowid as u32 ^ 5).to_be_bytes());
        }
        let record = record(values);
        if kind.has_payload() {
            push_varint(record.len() as u64, &mut cell);
        }
        if kind.has_rowid() {
            push_varint(*rowid as u64, &mut cell);
        }
        if kind.has_payload() {
            cell.extend(record);
        }
        if cell.len() > 900 || top < pointers + 2 * (count + 1) + cell.len() {
            break;
        }
        top -= cell.len();
        page[top..top + cell.len()].copy_from_slice(&cell);
        page[pointers + 2 * count..][..2].copy_from_slice(&(top as u16).to_be_bytes());
        count += 1;
    }
    page[header] = kind as u8;
    page[header + 3..header + 5].copy_from_slice(&(count as u16).to_be_bytes());
    page[header + 5..header + 7].copy_from_slice(&(top as u16).to_be_bytes());
    page
}

/// The stream of a page with these rows.
fn stream_of(kind: PageKind, rows: &[(i64, Vec<Sql>)]) -> Vec<u8> {
    let mut stream = Vec::new();
    let page = build(kind, rows, false);
    assert!(encode(&page, &mut PageWork::default(), &mut stream));
    stream
}

/// The length of the stream; `None` if the page is not taken.
pub(super) fn there_and_back(page: &[u8]) -> Option<usize> {
    let mut stream = Vec::new();
    if !encode(page, &mut PageWork::default(), &mut stream) {
        return None;
    }
    let mut back = vec![0xaa; page.len()];
    Undo::default()
        .decode(&stream, &mut back)
        .expect("a stream just written is read");
    assert!(back == page, "another page came back");
    Some(stream.len())
}

pub(super) fn values() -> impl Strategy<Value = Vec<Sql>> {
    let value = prop_oneof![
        Just(Sql::Null),
        any::<i64>().prop_map(Sql::Integer),
        (0i64..300).prop_map(Sql::Integer),
        any::<f64>().prop_map(Sql::Real),
        "[a-c]{0,9}".prop_map(Sql::Text),
        "20[0-9]{2}-0[1-9]".prop_map(Sql::Text),
        r#"\{"a":[0-9]{1,3},"b":"[xy]{0,3}"\}"#.prop_map(Sql::Text),
        r#"\{"a":[0-9]{1,3},~?"b":\["[xy]{0,3}",-1\.5\]\}"#.prop_map(|text| jsonb(&text)),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Sql::Blob),
    ];
    proptest::collection::vec(value, 0..7)
}

pub(super) fn kinds() -> impl Strategy<Value = PageKind> {
    proptest::sample::select(vec![
        PageKind::TableLeaf,
        PageKind::IndexLeaf,
        PageKind::TableInterior,
        PageKind::IndexInterior,
    ])
}

#[test]
fn a_page_of_alike_rows_gets_smaller_and_pages_of_anything_else_are_left_alone() {
    let rows: Vec<(i64, Vec<Sql>)> = (1..100)
        .map(|id| {
            let json = format!(r#"{{"id":"t{id:05}","year":{},"kind":"short"}}"#, 1900 + id);
            (id, vec![Sql::Null, Sql::Text(json), Sql::Integer(id * 3)])
        })
        .collect();
    let size = there_and_back(&build(PageKind::TableLeaf, &rows, false)).unwrap();
    assert!(size < LEN / 4, "{size} bytes");
    for page in [
        vec![0; LEN],
        vec![13; LEN],
        b"SQLite format 3\0".repeat(LEN / 16),
    ] {
        assert_eq!(there_and_back(&page), None);
    }
    // An empty leaf, as a table without rows has it.
    assert!(there_and_back(&build(PageKind::TableLeaf, &[], false)).unwrap() < 20);
}

/// Ones take no byte of a record and eight of the arena.
#[test]
fn a_page_that_needs_more_room_than_most_is_read_and_the_room_kept() {
    let rows: Vec<(i64, Vec<Sql>)> = (1..200)
        .map(|id| (id, (0..9).map(|n| Sql::Integer((id >> n) & 1)).collect()))
        .collect();
    let page = build(PageKind::TableLeaf, &rows, false);
    assert!(there_and_back(&page).is_some());
    let (mut stream, mut undo, mut back) = (Vec::new(), Undo::default(), vec![0; LEN]);
    assert!(encode(&page, &mut PageWork::default(), &mut stream));
    let usual = ROOM * LEN;
    assert!(undo.decode_within(usual, &stream, &mut back).is_err());
    undo.decode(&stream, &mut back).unwrap();
    let kept = undo.capacity();
    assert!(kept > usual);
    // Damage costs no more memory, and less room is never taken for damage.
    assert!(undo.decode(&stream[..stream.len() - 1], &mut back).is_err());
    undo.decode(&stream, &mut back).unwrap();
    assert!(back == page && undo.capacity() == kept);
}

#[test]
fn a_place_that_no_cell_pointer_holds_is_refused() {
    // One cell without bytes, at the end of the page.
    let stream = [PageKind::IndexLeaf as u8 | VERBATIM, 1, 0, 1, 0];
    let decode = |len| Undo::default().decode(&stream, &mut vec![0; len]);
    assert_eq!(decode(1 << 15), Ok(()));
    assert_eq!(decode(1 << 16), Err(Malformed));
    let empty = [PageKind::TableLeaf as u8, 0, 0];
    let decode = |len| Undo::default().decode(&empty, &mut vec![0; len]);
    assert_eq!(decode(1 << 16), Ok(()));
    assert_eq!(decode(1 << 17), Err(Malformed));
}

/// Streams that the encoder wrote before dates were one number, and what all strings have was part of a pattern.
#[test]
fn earlier_streams_are_still_read() {
    let text = |text: &str| Sql::Text(text.into());
    let rows = [("5-07\x04", "2026-11-21"), ("5-11\x04", "2026-11-22")];
    let rows = rows.map(|(a, b)| vec![text(a), text(b)]);
    let rows: Vec<_> = (1..).zip(rows).collect();
    let stream = [
        b"\x0d\x02\x00".as_slice(),
        &[1, 2, 0, 1],
        &[0, 4],
        b"\x03\x02\x06\x02\x01-\x02\x02\x04", // a digit, "-", two digits, a byte
        &[0, 10, 1, 14, 0, 4],
        b"\x03\x02\x08\x02\x04-\x02\x02-\x02\x02", // the digits of a date
        &[0, 0xd4, 0x1f, 0, 22, 1, 42, 0, 1],
    ];
    let mut page = vec![0; LEN];
    assert_eq!(Undo::default().decode(&stream.concat(), &mut page), Ok(()));
    assert!(page == build(PageKind::TableLeaf, &rows, false));
}

/// Streams byte by byte, as docs/format.md describes them.
#[test]
fn streams_are_as_documented() {
    let text = |text: &str| Sql::Text(text.into());
    let page = build(
        PageKind::TableLeaf,
        &[
            (1, vec![text("ab"), Sql::Integer(5)]),
            (2, vec![text("cd"), Sql::Null]),
            (3, vec![text("ef"), Sql::Integer(300)]),
        ],
        false,
    );
    let expected = [
        b"\x0d\x03\x00".as_slice(), // a table leaf of three cells, laid out as usual
        &[1, 2, 0, 1, 2],           // rowids: one byte each above 1
        &[0, 4],                    // two columns each
        b"\x03\x00ab\0cd\0ef\0",    // texts, each ended by zero
        &[17, 2, 2, 10, 0, 39, 0, 1], // integers, the second NULL: two bytes each above 5
    ];
    let mut stream = Vec::new();
    assert!(encode(&page, &mut PageWork::default(), &mut stream));
    assert_eq!(stream, expected.concat());

    let rows = [
        ("ab1", "5-07", "1.5"),
        ("ac1", "6-11", "20.6"),
        ("ad1", "5-09", "0.5"),
    ];
    let rows = rows.map(|(a, b, c)| vec![text(a), text(b), text(c)]);
    let rows: Vec<_> = (1..).zip(rows).collect();
    let expected = [
        b"\x0d\x03\x00".as_slice(),
        &[1, 2, 0, 1, 2],
        &[0, 6],
        b"\x03\x02\x04a\x03\x011bcd", // texts: an "a", one byte, a "1"
        b"\x03\x02\x05\x02\x01-\x02\x02", // a digit, "-", two digits
        &[1, 10, 0, 1, 0, 1, 14, 0, 4, 2],
        b"\x03\x02\x04\x01.\x02\x01", // a number, ".", a digit
        &[1, 0, 1, 20, 0, 1, 10, 0, 1, 0],
    ];
    assert_eq!(stream_of(PageKind::TableLeaf, &rows), expected.concat());

    let rows: Vec<_> = (0..40_i64)
        .map(|i| {
            let date = format!("2026-11-{:02}T10:00Z", 1 + i / 20);
            (0, vec![text(&date), Sql::Integer(300 + i % 20 * 1_000)])
        })
        .collect();
    let expected = [
        b"\x0a\x28\x00".as_slice(), // an index leaf of 40 cells
        &[0, 4],
        b"\x03\x02\x09\x00\x01T10:00Z", // texts: a date, and a time that all have
        &[17, 0xac, 0xc4, 2, 0],        // 20758 days and more, as differences
        &[0; 19],
        &[1],
        &[0; 19],
        &[1, 64, 2],      // integers: two runs
        &[0, 38],         // 19 differences each
        &[0, 0xd8, 4],    // from 300 on
        &[0, 0xd0, 0x0f], // by 1000
    ];
    assert_eq!(stream_of(PageKind::IndexLeaf, &rows), expected.concat());

    let json = [
        r#"{"a":1,"b":"x"}"#,
        r#"{"a":2,"b":"y"}"#,
        r#"{"a":3,"b":null}"#,
    ];
    let rows: Vec<_> = (1..).zip(json.map(|json| vec![text(json)])).collect();
    let expected = [
        b"\x0d\x03\x00".as_slice(),
        &[1, 2, 0, 1, 2],
        &[0, 2],
        b"\x05\x01{\"a\":\0,\"b\":\0}\xff", // JSON of one template
        &[1, 1, 2, 0, 1, 2],                // "a": integers
        b"\x03\0\0\x02\0x\0y\0\0null\0",    // "b": two strings and something else
    ];
    assert_eq!(stream_of(PageKind::TableLeaf, &rows), expected.concat());

    let rows: Vec<_> = (1..).zip(json.map(|json| vec![jsonb(json)])).collect();
    let mut expected = expected.concat();
    let tag = 3 + 5 + 2;
    assert_eq!(expected[tag], 5);
    expected[tag] = 7; // the same, as JSONB
    assert_eq!(stream_of(PageKind::TableLeaf, &rows), expected);
}

#[test]
fn a_value_that_is_none_of_the_different_ones_is_refused() {
    let rows: Vec<_> = (0..18_i64)
        .map(|i| {
            (
                1 + i,
                vec![Sql::Real([1.0 / 3.0, 1.0 / 7.0][i as usize % 2])],
            )
        })
        .collect();
    let (mut stream, mut back) = (Vec::new(), vec![0; LEN]);
    let page = build(PageKind::TableLeaf, &rows, false);
    assert!(encode(&page, &mut PageWork::default(), &mut stream));
    assert_eq!(stream[8..11], [9, 2, 2]);
    let mut decode = |stream: &[u8]| Undo::default().decode(stream, &mut back);
    assert_eq!(decode(&stream), Ok(()));
    let last = stream.len() - 1;
    // Another one than there is, none, fewer, of texts, of different ones again, with NULLs.
    for (at, byte) in [
        (last, 2),
        (last, 255),
        (9, 0),
        (9, 1),
        (10, 3),
        (10, 9),
        (10, 18),
    ] {
        let mut bad = stream.clone();
        bad[at] = byte;
        assert_eq!(decode(&bad), Err(Malformed), "{at}: {byte}");
    }
    let more = [&stream[..9], &[0x81, 2], &stream[10..]].concat();
    assert_eq!(decode(&more), Err(Malformed));
    assert_eq!(decode(&stream[..last]), Err(Malformed));
}

/// The layout of few different values, byte by byte.
#[test]
fn streams_of_values_that_come_again_are_as_documented() {
    let text = |text: &str| Sql::Text(text.into());
    let rows: Vec<_> = (0..18_i64)
        .map(|i| {
            let speed = [2.0 / 3.0, 4.0 / 3.0, 0.0][i as usize % 3];
            let speed = match speed {
                0.0 => Sql::Integer(0),
                speed => Sql::Real(speed),
            };
            let share = Sql::Real([1.0 / 3.0, 1.0 / 7.0][i as usize % 2]);
            let method = text(["POST", "GET"][i as usize % 2]);
            let price = Sql::Integer([70_000, 5][i as usize % 2]);
            (1 + i, vec![method, speed, share, price])
        })
        .collect();
    let expected = [
        b"\x0d\x12\x00".as_slice(),
        &[16, 2, 2], // rowids, as differences
        &[0, 8],
        b"\x03\x03\x02\0GET\0POST\0", // texts: two different ones
        &[1, 0].repeat(9),
        &[9, 3, 6, 8, 7, 7, 0, 0], // three different values, mixed: a zero and two reals
        &[0x3f, 0xe5, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55],
        &[0x3f, 0xf5, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55],
        &[1, 2, 0].repeat(6),
        &[9, 2, 2, 0x3f, 0x3f, 0xc2, 0xd5], // two different reals, by plane
        &[0x49, 0x55, 0x24, 0x55, 0x92, 0x55],
        &[0x49, 0x55, 0x24, 0x55, 0x92, 0x55],
        &[1, 0].repeat(9),
        &[9, 2, 1, 3, 10, 0x6b, 0, 0x11, 0, 1, 0], // two different integers: three bytes above 5
        &[0, 1].repeat(9),
    ];
    assert_eq!(stream_of(PageKind::TableLeaf, &rows), expected.concat());
}

/// The layout of strings in order, byte by byte.
#[test]
fn streams_of_strings_in_order_are_as_documented() {
    let rows: Vec<_> = ["a", "ab", "abc", "abd", "abd-x", "abde", "b", "ba"]
        .map(|key| (0, vec![Sql::Text(key.into())]))
        .into();
    let expected = [
        b"\x0a\x08\x00".as_slice(),
        &[0, 2],
        b"\x03\x04\x00\x01\x02\x02\x03\x03\x00\x01", // what keys have in common
        b"a\0b\0c\0d\0-x\0e\0b\0a\0",
    ];
    assert_eq!(stream_of(PageKind::IndexLeaf, &rows), expected.concat());
}

/// The layouts of hexadecimal digits, byte by byte.
#[test]
fn streams_of_digits_are_as_documented() {
    let text = |text: &str| Sql::Text(text.into());
    let hash = |i: u32| format!("{:08x}", i.wrapping_mul(0x9e37_79b1));
    let mut uuids: Vec<String> = (1..9)
        .map(|i| format!("{}-{}-0f", hash(100 + i), hash(i * 7 + 200)))
        .collect();
    uuids.sort();
    let rows: Vec<_> = (0..8)
        .map(|i| (0, vec![text(&hash(i)), text(&uuids[i as usize])]))
        .collect();
    let mut expected = b"\x0a\x08\x00\x00\x04".to_vec();
    expected.extend(b"\x03\x05\x01\x84"); // eight digits, string after string
    expected.extend((0..8).flat_map(|i: u32| i.wrapping_mul(0x9e37_79b1).to_be_bytes()));
    expected.extend(b"\x03\x06\x06\x84-\x84-0f"); // in ascending order: byte after byte
    for at in [0, 2, 4, 6, 9, 11, 13, 15] {
        expected.extend(uuids.iter().map(|uuid| {
            let digits = uuid.get(at..at + 2).unwrap();
            u8::from_str_radix(digits, 16).unwrap()
        }));
    }
    assert_eq!(stream_of(PageKind::IndexLeaf, &rows), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pages_of_values_alike_come_back(
        texts in proptest::collection::vec("[ab]{0,2}[0-9a-f]{8}(-[0-9a-f]{4})?|[a-c]{1,12}", 1..60),
        few in 1_usize..9,
        (which, order) in (proptest::collection::vec(0_usize..8, 40..80), any::<bool>()),
        kind in kinds(),
    ) {
        let mut rows: Vec<Vec<Sql>> = Vec::new();
        for (row, which) in which.iter().enumerate() {
            let number = which % few;
            let real = if number == 3 { Sql::Integer(0) } else { Sql::Real(number as f64 / 7.0) };
            rows.push(vec![
                Sql::Text(texts[row % texts.len()].clone()),
                Sql::Integer(1 << (9 * number)),
                Sql::Real(1e5 / (1 << number) as f64),
                real,
                Sql::Text(texts[number % texts.len()].clone()),
                Sql::Blob(texts[row % texts.len()].clone().into_bytes()),
            ]);
        }
        if order {
            rows.sort_by_key(|row| format!("{row:?}"));
        }
        let rows: Vec<_> = (1..).zip(rows).collect();
        prop_assert!(there_and_back(&build(kind, &rows, false)).is_some());
    }

    #[test]
    fn pages_come_back(
        kind in kinds(),
        rows in proptest::collection::vec((any::<i64>(), values()), 0..60),
        page_one: bool,
    ) {
        prop_assert!(there_and_back(&build(kind, &rows, page_one)).is_some());
    }

    #[test]
    fn pages_with_anything_changed_come_back_or_are_not_taken(
        kind in kinds(),
        rows in proptest::collection::vec((0i64..1000, values()), 0..60),
        changes in proptest::collection::vec((0..LEN, any::<u8>()), 0..12),
        header in proptest::collection::vec((0..40usize, any::<u8>()), 0..4),
        swaps in proptest::collection::vec((0..20usize, 0..20usize), 0..6),
    ) {
        let mut page = build(kind, &rows, false);
        let pointers = kind.header_len();
        for (a, b) in swaps {
            // Cells out of order: swapped pointers.
            for byte in 0..2 {
                page.swap(pointers + 2 * a + byte, pointers + 2 * b + byte);
            }
        }
        for (at, byte) in changes.into_iter().chain(header) {
            page[at] = byte;
        }
        there_and_back(&page);
    }

    #[test]
    fn hostile_streams_are_refused_or_fill_the_page(
        kind in kinds(),
        rows in proptest::collection::vec((0i64..1000, values()), 0..60),
        changes in proptest::collection::vec((0..200usize, any::<u8>()), 1..8),
        cut in 0usize..300,
    ) {
        let mut stream = Vec::new();
        let built = build(kind, &rows, false);
        prop_assert!(encode(&built, &mut PageWork::default(), &mut stream));
        let mut undo = Undo::default();
        let mut page = vec![0; LEN];
        let _ = undo.decode(&stream[..cut.min(stream.len())], &mut page);
        let mut changed = stream.clone();
        for (at, byte) in changes {
            changed[at % stream.len()] = byte;
        }
        let _ = undo.decode(&changed, &mut page);
        // Whatever it has read before.
        prop_assert_eq!(undo.decode(&stream, &mut page), Ok(()));
        prop_assert!(page == built);
    }

    #[test]
    fn random_streams_are_refused_or_fill_the_page(mut stream in proptest::collection::vec(any::<u8>(), 1..200), kind in kinds()) {
        stream[0] = stream[0] & 0xf0 | kind as u8;
        let _ = Undo::default().decode(&stream, &mut vec![0; LEN]);
    }
}
