//! docs/format.md against the code: every field of its tables is where it says, every constant what
//! it says.

use std::collections::HashMap;

use litepack_cipher::Padding;

use crate::format::basis::BASES_MAX;
use crate::format::beside::{JOURNAL_SUFFIX, WAL_SUFFIX};
use crate::format::catalog::{
    Catalog, DICTIONARIES_MAX, DICTIONARY_LEN_MAX, DICTIONARY_STORED_MAX, LONG_DICTIONARIES_MAX,
};
use crate::format::header::{ENCRYPTED, Header, PADDED};
use crate::format::layout::*;
use crate::format::leaf::FANOUT;
use crate::format::nonces::SALTS_MAX;
use crate::format::offset::FileOffset;
use crate::format::prefetch_segment::SEGMENT_LEN_MAX;
use crate::format::record::{CommitNumber, LOG_BASE, LogNumbers, REFERENCES, Record, encode_mark};
use crate::snapshot::page_map::HEIGHT_MAX;
use crate::space::free_space::CHAIN_MAX;

const TEXT: &str = include_str!("../../../../docs/format.md");

/// The rows of the first table under a heading, as trimmed cells, without the head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, rest) = TEXT
        .split_once(&format!("\n## {heading}"))
        .expect("the heading is there");
    rest.lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            line.trim_matches('|')
                .split(" | ")
                .map(|c| c.trim().to_string())
                .collect()
        })
        .collect()
}

/// Field name to (offset, size); also sees to it that the fields follow each other without a gap.
fn fields(heading: &str, len: usize) -> HashMap<String, (usize, usize)> {
    let mut next = 0;
    let mut found = HashMap::new();
    for row in table(heading) {
        let (offset, size): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(offset, next, "{heading}: gap before {}", row[2]);
        next = offset + size;
        let name = row[2].split([':', ' ']).next().unwrap().to_string();
        found.insert(name, (offset, size));
    }
    assert_eq!(next, len, "{heading}: length");
    found
}

fn number(bytes: &[u8], (offset, size): (usize, usize)) -> u64 {
    let mut wide = [0; 8];
    wide[..size].copy_from_slice(&bytes[offset..offset + size]);
    u64::from_le_bytes(wide)
}

#[test]
fn constants_are_as_documented() {
    let code: HashMap<&str, u64> = HashMap::from([
        ("HEADER_LEN", HEADER_LEN as u64),
        ("SLOT_A", SLOT_OFFSETS[0].0),
        ("SLOT_B", SLOT_OFFSETS[1].0),
        ("RECORD_LEN", RECORD_LEN as u64),
        ("MARK_A", MARK_OFFSETS[0].0),
        ("MARK_B", MARK_OFFSETS[1].0),
        ("MARK_LEN", MARK_LEN as u64),
        ("DATA_START", DATA_START.0),
        ("LOCK_START", LOCK_BYTES.start.0),
        ("LOCK_END", LOCK_BYTES.end.0),
        ("OFFSET_LIMIT", OFFSET_LIMIT.0),
        ("UNIT_MIN", UNIT_MIN.into()),
        ("UNIT_MAX", UNIT_MAX.into()),
        ("FANOUT", FANOUT as u64),
        ("HEIGHT_MAX", HEIGHT_MAX.into()),
        ("DICTIONARIES_MAX", DICTIONARIES_MAX as u64),
        ("DICTIONARY_LEN_MAX", DICTIONARY_LEN_MAX as u64),
        ("DICTIONARY_STORED_MAX", DICTIONARY_STORED_MAX as u64),
        ("LONG_DICTIONARIES_MAX", LONG_DICTIONARIES_MAX as u64),
        ("CHAIN_MAX", CHAIN_MAX as u64),
        ("SEGMENT_LEN_MAX", SEGMENT_LEN_MAX),
        ("BASES_MAX", BASES_MAX as u64),
        ("REFERENCES", REFERENCES.into()),
        ("LOG_BASE", LOG_BASE.into()),
        ("ENCRYPTED", ENCRYPTED.into()),
        ("PADDED", PADDED.into()),
        ("PADDING_MIN", (*Padding::BYTES.start()).into()),
        ("PADDING_MAX", (*Padding::BYTES.end()).into()),
        ("KEY_A", KEY_OFFSETS[0].0),
        ("KEY_B", KEY_OFFSETS[1].0),
        ("KEY_LEN", KEY_LEN as u64),
        ("SEALED_START", SEALED_START.0),
        ("TAG_LEN", litepack_cipher::TAG_LEN as u64),
        ("COUNTER_LIMIT", litepack_cipher::COUNTER_LIMIT),
        ("SALTS_MAX", SALTS_MAX as u64),
    ]);
    let documented: HashMap<String, u64> = table("Constants")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].parse().unwrap()))
        .collect();
    assert_eq!(documented.len(), code.len());
    for (name, value) in code {
        assert_eq!(documented.get(name), Some(&value), "{name}");
    }
}

#[test]
fn files_beside_are_named_as_documented() {
    let code = [
        ("WAL_SUFFIX", WAL_SUFFIX, "-wal"),
        ("JOURNAL_SUFFIX", JOURNAL_SUFFIX, "-journal"),
    ];
    let code = code
        .map(|(name, ours, theirs)| vec![name.into(), format!("`{ours}`"), format!("`{theirs}`")]);
    assert_eq!(table("Files beside it"), code);
    for (ours, theirs) in [(WAL_SUFFIX, "-wal"), (JOURNAL_SUFFIX, "-journal")] {
        assert_eq!(ours.len(), theirs.len());
        assert_eq!(
            ours.rfind('-'),
            Some(0),
            "the Unix VFS looks for the last one"
        );
    }
}

#[test]
fn the_header_is_as_documented() {
    let fields = fields("Header", HEADER_LEN);
    let header = Header {
        uuid: FileUuid(*b"0123456789abcdef"),
        compatible: 0x55,
        is_encrypted: false,
        padding: Padding::NONE,
    };
    let bytes = header.encode();
    assert_eq!(&bytes[..16], b"Litepack\r\n\x1a\n\0\0\0\0");
    assert_eq!(fields["magic"], (0, 16));
    assert_eq!(number(&bytes, fields["version"]), 1);
    assert_eq!(number(&bytes, fields["incompatible"]), 0);
    assert_eq!(number(&bytes, fields["compatible"]), 0x55);
    assert_eq!(number(&bytes, fields["padding"]), 0);
    let padded = Header {
        is_encrypted: true,
        padding: Padding::new(256).unwrap(),
        ..header
    };
    let bytes_of_padded = padded.encode();
    let features = number(&bytes_of_padded, fields["incompatible"]);
    assert_eq!(features, u64::from(ENCRYPTED | PADDED));
    assert_eq!(number(&bytes_of_padded, fields["padding"]), 256);
    let (offset, size) = fields["identity"];
    assert_eq!(&bytes[offset..offset + size], b"0123456789abcdef");
    let sum = twox_hash::XxHash3_64::oneshot_with_seed(0, &bytes[..504]);
    assert_eq!(number(&bytes, fields["checksum"]), sum);
}

#[test]
fn commit_records_are_as_documented() {
    let fields = fields("Commit record", RECORD_LEN);
    let uuid = FileUuid([3; 16]);
    let pointer = |n: u64| Pointer {
        offset: FileOffset(n),
        len: n as u32 + 1,
        sum: n + 2,
    };
    let record = Record {
        seq: CommitNumber(11),
        size: 12,
        unit_size: 13,
        height: 14,
        end: FileOffset(15),
        map: pointer(20),
        catalog: pointer(30),
        space: pointer(40),
        stored_units: 16,
        stored_bytes: 17,
        free_bytes: 18,
        segment: pointer(50),
        features: 19,
        items: pointer(60),
        items_height: 21,
        item_count: 22,
        difference_bytes: 28,
        tag_len: 23,
        log: LogNumbers {
            current: 24,
            next: 25,
            end: 26,
            unfinished: 27,
            link: 29,
        },
    };
    let bytes = record.encode(uuid);
    assert_eq!(
        number(&bytes, fields["magic"]),
        u32::from_le_bytes(*b"LPcr").into()
    );
    let expected = [
        ("features", 19),
        ("items_height", 21),
        ("item_count", 22),
        ("difference_bytes", 28),
        ("tag_len", 23),
        ("log_current", 24),
        ("log_next", 25),
        ("log_end", 26),
        ("log_unfinished", 27),
        ("log_link", 29),
        ("seq", 11),
        ("size", 12),
        ("unit_size", 13),
        ("height", 14),
        ("end", 15),
        ("stored_units", 16),
        ("stored_bytes", 17),
        ("free_bytes", 18),
    ];
    for (name, value) in expected {
        assert_eq!(number(&bytes, fields[name]), value, "{name}");
    }
    let pointers = [
        ("map", 20),
        ("catalog", 30),
        ("space", 40),
        ("segment", 50),
        ("items", 60),
    ];
    for (name, value) in pointers {
        let (offset, size) = fields[name];
        assert_eq!(size, 24);
        assert_eq!(number(&bytes, (offset, 8)), value);
        assert_eq!(number(&bytes, (offset + 8, 4)), value + 1);
        assert_eq!(number(&bytes, (offset + 16, 8)), value + 2);
    }
    let seed = u64::from_le_bytes([3; 8]);
    let sum = twox_hash::XxHash3_64::oneshot_with_seed(seed, &bytes[..248]);
    assert_eq!(number(&bytes, fields["checksum"]), sum);
}

#[test]
fn the_mark_is_as_documented() {
    let fields = fields("Marks of durability", MARK_LEN);
    let bytes = encode_mark(CommitNumber(77), FileUuid([3; 16]));
    assert_eq!(
        number(&bytes, fields["magic"]),
        u32::from_le_bytes(*b"LPmk").into()
    );
    assert_eq!(number(&bytes, fields["seq"]), 77);
}

#[test]
fn codecs_are_as_documented() {
    let rows = table("Codecs");
    assert_eq!(rows.len(), litepack_codec::Codec::ALL.len());
    for (row, codec) in rows.iter().zip(litepack_codec::Codec::ALL) {
        assert_eq!(row[0], (codec as u8).to_string());
        assert_eq!(row[1], codec.name());
    }
}

/// A leaf, an inner node and a free-space list, byte by byte as the text describes them.
#[test]
fn columns_are_as_documented() {
    use crate::format::leaf::Entry;
    use crate::format::node::Node;
    use litepack_codec::{Codec, Encoding};
    let mut leaf = Node::empty(0);
    if let Node::Leaf(entries) = &mut leaf {
        let storage = Encoding {
            codec: Codec::Zstd,
            dict: 2,
            up_to_date: true,
        };
        let entry = |offset, len, sum| Entry {
            offset: FileOffset(offset),
            len,
            sum,
            storage,
            ..Entry::ZERO
        };
        entries.set(1, entry(2048, 300, 0x0403_0201));
        entries.set(2, entry(2348, 5, 0x0807_0605));
        entries.set(3, entry(2340, 5, 0x0c0b_0a09));
    }
    let mut bytes = Vec::new();
    leaf.encode(&mut bytes);
    let tag = 1 + 1 + 8 + 16 * 2;
    let expected = [
        &[1][..],
        &[1, 0, 3, tag, 124, 0],
        &[0xac, 2, 5, 5],
        // None in line; 2048 on (zigzag 4096), two in line; 13 back (zigzag 25), one in line.
        &[0, 0x80, 0x20, 2, 25, 1],
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    ];
    assert_eq!(bytes, expected.concat());

    let mut inner = Node::empty(1);
    if let Node::Inner(children) = &mut inner {
        children[127] = Pointer {
            offset: FileOffset(4096),
            len: 7,
            sum: 9,
        };
    }
    let mut bytes = Vec::new();
    inner.encode(&mut bytes);
    let expected: [&[u8]; 5] = [
        &[2],
        &[127, 0, 1, 1],
        &[7],
        &[0, 0x80, 0x40, 1],
        &[9, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
}

/// A leaf with references, and one of items.
#[test]
fn references_are_as_documented() {
    use crate::format::basis::{Bases, Basis, Item, ItemNumber};
    use crate::format::leaf::{Entry, Extent};
    use crate::format::node::{Node, TreeKind};
    use litepack_codec::{Codec, Encoding};
    let extent = |offset, len, sum, codec| Extent {
        offset: FileOffset(offset),
        len,
        sum,
        nonce: litepack_cipher::Nonce::NONE,
        storage: Encoding {
            codec,
            dict: 0,
            up_to_date: false,
        },
    };
    let difference = |offset, sum, basis| Entry {
        basis,
        ..extent(offset, 5, sum, Codec::Zstd).entry()
    };
    let mut leaf = Node::empty(0);
    if let Node::Leaf(entries) = &mut leaf {
        entries.set(0, Entry::slice(ItemNumber(7), 3));
        entries.set(1, Entry::slice(ItemNumber(6), 0));
        let bases = [9, 8].map(ItemNumber);
        let bases = Bases::new(&bases).map(Basis::Items).unwrap();
        entries.set(3, difference(2048, 0x0403_0201, bases));
        let former = extent(2046, 2, 0x0c0b_0a09, Codec::Columnar);
        entries.set(4, difference(2053, 0x0807_0605, Basis::Former(former)));
    }
    let mut bytes = Vec::new();
    leaf.encode(&mut bytes);
    let expected: [&[u8]; 9] = [
        &[3],
        // Two aliases, one unit that stands alone, a difference to two items, a private one.
        &[2, 1, 1, 0, 1, 3, 1, 5, 123, 0],
        &[3, 0, 2, 2, 123, 0],
        &[5, 5],
        &[0, 0x80, 0x20, 2],
        &[1, 2, 3, 4, 5, 6, 7, 8],
        // 7 on (zigzag 14), slice 3; 1 back (zigzag 1), slice 0.
        &[59, 4],
        // 3 on, 1 back.
        &[6, 1],
        // The former extent: tag, length, 7 bytes before (zigzag 13), checksum.
        &[3, 2, 13, 9, 10, 11, 12],
    ];
    assert_eq!(bytes, expected.concat());
    assert!(leaf.is_of(TreeKind::Map) && !leaf.is_of(TreeKind::Items));

    let mut items = Node::empty(0);
    if let Node::Leaf(entries) = &mut items {
        let item = |offset, units, users| Item {
            extent: extent(offset, 5, 0x0403_0201, Codec::Zstd),
            units,
            users,
        };
        entries.set(2, item(2048, 4, 300).entry());
        entries.set(3, item(2053, 1, 1).entry());
    }
    let mut bytes = Vec::new();
    items.encode(&mut bytes);
    let expected: [&[u8]; 7] = [
        &[4],
        &[2, 0, 2, 2, 124, 0],
        &[5, 5],
        &[0, 0x80, 0x20, 2],
        &[1, 2, 3, 4, 1, 2, 3, 4],
        &[2, 0, 1, 4, 1, 1, 124, 0],
        &[0xac, 2, 1],
    ];
    assert_eq!(bytes, expected.concat());
    assert!(items.is_of(TreeKind::Items) && !items.is_of(TreeKind::Map));
}

#[test]
fn the_catalog_is_as_documented() {
    let dictionary = || std::sync::Arc::new(litepack_codec::Dictionary::new(*b"dictionary"));
    let mut catalog = Catalog::default();
    let place = |offset| Pointer {
        offset: FileOffset(offset),
        len: 10,
        sum: 0x0908_0706_0504_0302,
    };
    catalog.add(Some((dictionary(), place(0x1000))), 3, vec![0x0403_0201]);
    catalog.add(None, 19, Vec::new());
    catalog.maintained = (CommitNumber(300), 7);
    catalog.replace(0, 2);
    catalog.replace(1, 2);
    let hash = twox_hash::XxHash3_128::oneshot(b"dictionary").to_le_bytes();
    let expected: [&[u8]; 7] = [
        &[0xac, 2, 7, 2, 2],
        &[
            0, 0x10, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 2, 3, 4, 5, 6, 7, 8, 9,
        ],
        &[10, 0, 0, 0],
        &hash,
        &[3, 2, 1, 1, 2, 3, 4],
        &[0; 40],
        &[19, 0, 0],
    ];
    assert_eq!(catalog.encode(), Ok(expected.concat()));
}

#[test]
fn key_blocks_are_as_documented() {
    use litepack_cipher::{Costs, Key, KeyBlock};
    let fields = fields("Encryption", KEY_LEN);
    let uuid = FileUuid(*b"0123456789abcdef");
    let key = Key::passphrase(b"passphrase").unwrap();
    let block = KeyBlock::wrap(&key, Costs::default(), &uuid.0, &[7; 32]).unwrap();
    let bytes = crate::format::key_place::encode(9, &block, uuid);
    assert_eq!(&bytes[..8], b"LPky\0\0\0\0");
    let expected = [
        ("key_seq", 9),
        ("cipher", 1),
        ("derivation", 1),
        ("memory", 19_456),
        ("passes", 2),
        ("lanes", 1),
        ("checksum", uuid.sum64(&bytes[..184])),
    ];
    for (name, value) in expected {
        assert_eq!(number(&bytes, fields[name]), value, "{name}");
    }
    let of = |name: &str| &bytes[fields[name].0..][..fields[name].1];
    let parts = [of("salt"), of("wrapped"), of("check")].concat();
    assert_eq!(parts, block.0[20..]);
}

/// A leaf with references, and one of items, in an encrypted file.
#[test]
fn sealed_leaves_are_as_documented() {
    use crate::format::basis::{Basis, Item};
    use crate::format::leaf::{Entry, Extent};
    use crate::format::node::{Node, TreeKind};
    use crate::format::nonces::sum_of;
    use litepack_cipher::Nonce;
    use litepack_codec::{Codec, Encoding};
    let extent = |offset, salt, counter| {
        let nonce = Nonce {
            salt: [salt; 16],
            counter,
        };
        Extent {
            offset: FileOffset(offset),
            len: 5,
            sum: sum_of(&nonce),
            nonce,
            storage: Encoding {
                codec: Codec::Zstd,
                dict: 0,
                up_to_date: false,
            },
        }
    };
    let leaf_of = |entries: &[Entry]| {
        let mut leaf = Node::empty(0);
        if let Node::Leaf(leaf) = &mut leaf {
            for (slot, entry) in entries.iter().enumerate() {
                leaf.set(slot, *entry);
            }
        }
        let mut bytes = Vec::new();
        leaf.encode(&mut bytes);
        assert_eq!(Node::decode(&bytes, 0), Some(leaf));
        bytes
    };
    let (a, b) = (extent(2048, 0xaa, 3), extent(2053, 0xaa, 4));
    let (c, former) = (extent(2058, 0xbb, 1), extent(3000, 0xcc, 2));
    let private = Entry {
        basis: Basis::Former(former),
        ..c.entry()
    };
    // Counter 3 of the first salt (a jump of 3, zigzag 6), the next; then counter 1 of the second, number 2^40 + 1, which
    // is 2^40 - 4 more than was expected.
    let mut jump = Vec::new();
    litepack_io::bytes::put_varint(&mut jump, 2 * ((1 << 40) - 4));
    let numbers = [&[0, 6, 2][..], &jump, &[1]].concat();
    let places = [2, 0, 0x80, 0x20, 3];
    let alone = [
        &[5, 3, 2, 125, 0, 5, 5, 5][..],
        &places[1..],
        &[2],
        &[0xaa; 16],
        &[0xbb; 16],
        &numbers,
    ];
    assert_eq!(leaf_of(&[a.entry(), b.entry(), c.entry()]), alone.concat());
    let mut number = Vec::new();
    litepack_io::bytes::put_varint(&mut number, (2 << 40) + 2);
    let with_former = [
        &[7, 2, 0, 1, 5, 125, 0, 3, 2, 125, 0, 5, 5, 5][..],
        &places[1..],
        &[3],
        &[0xaa; 16],
        &[0xbb; 16],
        &[0xcc; 16],
        &numbers,
        // The former extent: tag, length, 942 bytes behind, number.
        &[2, 5, 0xdc, 0x0e],
        &number,
    ];
    let found = leaf_of(&[a.entry(), b.entry(), private]);
    assert_eq!(found, with_former.concat());
    let item = Item {
        extent: a,
        units: 2,
        users: 9,
    };
    let items = [
        &[8, 1, 2, 127, 0, 5, 0, 0x80, 0x20, 1, 1][..],
        &[0xaa; 16],
        &[0, 6, 1, 1, 2, 127, 0, 9],
    ];
    let found = leaf_of(&[item.entry()]);
    assert_eq!(found, items.concat());
    let node = Node::decode(&found, 0).unwrap();
    assert!(node.is_of(TreeKind::Items) && !node.is_of(TreeKind::Map));
}
