//! docs/format.md against the code: what stands under "Log".

use crate::binding::Binding;
use crate::format::head::*;
use crate::format::node::{FANOUT, Node, Places, Root};
use crate::format::record::{self, *};

const TEXT: &str = include_str!("../../../../docs/format.md");

/// The rows of the first table under a heading, as trimmed cells, without the head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let (_, rest) = TEXT
        .split_once(&format!("\n{heading}\n"))
        .expect("the heading is there");
    let rows = rest.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(1);
    let cells = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(|c| c.trim().into())
            .collect()
    };
    rows.map(cells).collect()
}

/// The bytes of each field of a table of offsets, which leave no gap.
fn fields<'a>(heading: &str, bytes: &'a [u8]) -> Vec<(String, &'a [u8])> {
    let mut next = 0;
    let mut found = Vec::new();
    for row in table(heading) {
        let (offset, size): (usize, usize) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        assert_eq!(offset, next, "{heading}: {}", row[2]);
        next = offset + size;
        let name = row[2].split([':', ' ']).next().unwrap().to_string();
        found.push((name, &bytes[offset..next]));
    }
    assert_eq!(next, bytes.len(), "{heading}");
    found
}

fn generation() -> Generation {
    let mut wal_header = [9; 32];
    wal_header[..4].copy_from_slice(&0x377f_0683_u32.to_be_bytes());
    wal_header[4..8].copy_from_slice(&3_007_000_u32.to_be_bytes());
    wal_header[8..12].copy_from_slice(&4096_u32.to_be_bytes());
    Generation {
        seq: 77,
        id: *b"0123456789abcdef",
        wal_header,
        page_size: 4096,
        binding: Binding {
            identity: *b"fedcba9876543210",
            own: 88,
            after: 99,
        },
    }
}

#[test]
fn constants_are_as_documented() {
    let code = [
        ("SLOT_A_OF_LOG", SLOT_OFFSETS[0]),
        ("SLOT_B_OF_LOG", SLOT_OFFSETS[1]),
        ("SLOT_LEN", SLOT_LEN as u64),
        ("HINT_OFFSET", HINT_OFFSET),
        ("HINT_LEN", HINT_LEN as u64),
        ("RECORDS_START", RECORDS_START),
        ("RECORD_LEN_MAX", RECORD_LEN_MAX as u64),
        ("FANOUT_OF_LOG", FANOUT.into()),
        ("DEPTH_MAX", DEPTH_MAX.into()),
    ];
    let documented = table("## Log");
    let documented = documented
        .iter()
        .map(|row| (&*row[0], row[1].parse().unwrap()));
    assert_eq!(documented.collect::<Vec<_>>(), code);
}

#[test]
fn slots_and_hints_are_as_documented() {
    let generation = generation();
    let slot = generation.encode();
    let sum = |bytes: &[u8]| twox_hash::XxHash3_64::oneshot_with_seed(0, bytes).to_le_bytes();
    let expected: [(&str, &[u8]); 11] = [
        ("magic", b"LPlog\r\n\x1a"),
        ("version", &[1, 0, 0, 0]),
        ("zero", &[0; 4]),
        ("seq", &77u64.to_le_bytes()),
        ("id", b"0123456789abcdef"),
        ("wal_header", &generation.wal_header),
        ("identity", b"fedcba9876543210"),
        ("own", &88u64.to_le_bytes()),
        ("after", &99u64.to_le_bytes()),
        ("zero", &[0; 16]),
        ("checksum", &sum(&slot[..120])),
    ];
    for ((name, bytes), expected) in fields("### Slot", &slot).iter().zip(expected) {
        assert_eq!((name.as_str(), *bytes), expected);
    }
    let hint = Hint {
        root: 5000,
        len: 300,
    };
    let bytes = hint.encode(&generation);
    let expected: [(&str, &[u8]); 6] = [
        ("magic", b"LPlh"),
        ("len", &300u32.to_le_bytes()),
        ("root", &5000u64.to_le_bytes()),
        ("id", b"0123456789abcdef"),
        ("zero", &[0; 24]),
        ("checksum", &sum(&bytes[..56])),
    ];
    for ((name, bytes), expected) in fields("### Hint", &bytes).iter().zip(expected) {
        assert_eq!((name.as_str(), *bytes), expected);
    }
    let mut head = vec![0; HEAD_LEN];
    head[512..640].copy_from_slice(&slot);
    head[1024..].copy_from_slice(&bytes);
    let found = Head::Newest {
        generation,
        slot: 1,
        is_other_broken: false,
        hint: Some(hint),
    };
    assert_eq!(Head::decode(&head), found);
    head[0] = 1;
    let is_broken =
        matches!(Head::decode(&head), Head::Newest { is_other_broken, .. } if is_other_broken);
    assert!(is_broken);
    assert_eq!(Head::decode(&[1; HEAD_LEN]), Head::Broken);
    assert_eq!(Head::decode(&[0; 20]), Head::Empty);
}

#[test]
fn records_are_as_documented() {
    let generation = generation();
    let mut out = vec![7];
    let next = record::encode(CUT, 0x0403_0201, &[200, 1], 5000, &generation, &mut out).unwrap();
    let seed = twox_hash::XxHash3_64::oneshot_with_seed(5000, b"0123456789abcdef");
    let content = [19, 0, 0, 0, 2, 1, 2, 3, 4, 200, 1];
    let sum = twox_hash::XxHash3_64::oneshot_with_seed(seed, &content);
    assert_eq!(out[1..], [&content[..], &sum.to_le_bytes()].concat());
    assert_eq!(next, (sum & 0xffff_ffff) as u32);
    let found = record::decode(&out[1..], 5000, &generation).unwrap();
    assert_eq!(
        (found.kind, found.link, found.len, found.next_link),
        (CUT, 0x0403_0201, 19, next)
    );
    assert!(record::decode(&out[1..], 5001, &generation).is_none());
}

fn header(salts: [u8; 8]) -> [u8; FRAME_HEADER_LEN] {
    let parts = [&[0, 0, 1, 0, 0, 0, 0, 3][..], &salts, b"checksum"];
    parts.concat().try_into().unwrap()
}

#[test]
fn frames_are_as_documented() {
    let generation = generation();
    let of = |form, stored| Some(PageVersion { form, stored });
    let frame = |witness, header, page| Frame {
        number: 300,
        witness,
        header,
        page,
    };
    let usual = Some(header([9; 8]));
    let base = Base {
        place: 5000 - 130,
        depth: 3,
    };
    let cases: [(Frame, Vec<u8>); 5] = [
        (
            frame(None, usual, of(Form::Raw, b"page")),
            b"\x05\xac\x02\x80\x02\x03checksum\x00page".into(),
        ),
        (
            frame(Some(4990), usual, None),
            b"\x09\xac\x02\x0a\x80\x02\x03checksum".into(),
        ),
        (
            frame(None, Some(header([8; 8])), None),
            [&[2, 0xac, 2][..], &header([8; 8])].concat(),
        ),
        (
            frame(None, None, of(Form::Zstd, b"z")),
            vec![4, 0xac, 2, 1, b'z'],
        ),
        (
            frame(None, None, of(Form::Changes(base), b"c")),
            vec![4, 0xac, 2, 4, 0x82, 1, b'c'],
        ),
    ];
    for (frame, bytes) in cases {
        let mut out = Vec::new();
        frame.encode(5000, &generation, &mut out).unwrap();
        assert_eq!(out, bytes);
        let found = Frame::decode(&out, 5000, &generation).unwrap();
        assert_eq!(found.number, frame.number);
        assert_eq!((found.witness, found.header), (frame.witness, frame.header));
        let page = |frame: &Frame<'_>| frame.page.map(|page| (page.form, page.stored.to_vec()));
        assert_eq!(page(&found), page(&frame));
    }
    for bad in [
        &[0, 1][..],
        &[16, 1],
        &[3, 1],
        &[4, 0, 0],
        &[4, 1, 10, 1],
        &[4, 1, 2, 0],
        &[1, 1, 1],
    ] {
        assert!(Frame::decode(bad, 5000, &generation).is_none(), "{bad:?}");
    }
}

#[test]
fn nodes_and_roots_are_as_documented() {
    let places = |header, page| Places { header, page };
    let leaf = Node::Leaf(vec![places(4900, 4900), places(4950, 4940)]);
    let mut out = Vec::new();
    leaf.encode(3, 5000, &mut out).unwrap();
    // -100 is 199 as a zigzag number, 50 is 100, -10 is 19.
    assert_eq!(out, [0, 3, 2, 199, 1, 0, 100, 19]);
    assert_eq!(Node::decode(&out, 5000), Some((3, leaf)));
    let inner = Node::Inner(vec![4990, 4991]);
    out.clear();
    inner.encode(1, 5000, &mut out).unwrap();
    assert_eq!(out, [1, 1, 2, 19, 2]);
    assert_eq!(Node::decode(&out, 5000), Some((1, inner)));
    let root = Root {
        frames: 5,
        witness: 4999,
        inner: vec![4990],
    };
    out.clear();
    root.encode(5000, &mut out).unwrap();
    assert_eq!(out, [5, 1, 1, 19]);
    assert_eq!(Root::decode(&out, 5000), Some(root));
    // What lies behind, or nowhere, too many, too few, more bytes.
    for bad in [
        &[1, 1, 1, 0][..],
        &[2, 1, 1, 19],
        &[1, 1, 0],
        &[1, 1, 2, 19],
        &[1, 1, 1, 19, 0],
    ] {
        assert!(Node::decode(bad, 5000).is_none(), "{bad:?}");
    }
    for bad in [
        &[5, 1, 1, 0][..],
        &[5, 1, 0],
        &[5, 1, 2, 19],
        &[5, 1, 1, 19, 0],
    ] {
        assert!(Root::decode(bad, 5000).is_none(), "{bad:?}");
    }
}

#[test]
fn files_are_told_apart_by_their_first_bytes() {
    let slot = generation().encode();
    assert_eq!(FileKind::of(&slot), FileKind::Log);
    assert_eq!(
        FileKind::of(&[&[0; 512], &slot[..]].concat()),
        FileKind::Log
    );
    assert_eq!(FileKind::of(&generation().wal_header), FileKind::Wal);
    assert_eq!(FileKind::of(&[]), FileKind::Empty);
    assert_eq!(FileKind::of(&[0; 100]), FileKind::Empty);
    assert_eq!(FileKind::of(b"something"), FileKind::Other);
    // A WAL of SQLite's, with the slot of a log in one of its pages.
    let wal = [&generation().wal_header[..], &[1; 480], &slot].concat();
    assert_eq!(FileKind::of(&wal), FileKind::Wal);
    assert_eq!(Head::decode(&wal), Head::Broken);
}
