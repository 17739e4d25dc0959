//! docs/format.md against the code: what stands under "Log".

use crate::binding::{BaseCommit, Binding};
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
        base: None,
        signature: None,
    }
}

#[test]
fn constants_are_as_documented() {
    let code = [
        ("SLOT_A_OF_LOG", SLOT_OFFSETS[0]),
        ("SLOT_B_OF_LOG", SLOT_OFFSETS[1]),
        ("SLOT_LEN", SLOT_LEN as u64),
        ("STANDING_SLOT_LEN", STANDING_SLOT_LEN as u64),
        ("HINT_OFFSET", HINT_OFFSET),
        ("HINT_LEN", HINT_LEN as u64),
        ("RECORDS_START", RECORDS_START),
        ("RECORD_LEN_MAX", RECORD_LEN_MAX as u64),
        ("FANOUT_OF_LOG", FANOUT.into()),
        ("DEPTH_MAX", DEPTH_MAX.into()),
        ("SESSIONS_MAX", crate::sessions::SESSIONS_MAX as u64),
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
        ("signature", &[0; 16]),
        ("checksum", &sum(&slot[..120])),
    ];
    for ((name, bytes), expected) in fields("### Slot", &slot).iter().zip(expected) {
        assert_eq!((name.as_str(), *bytes), expected);
    }
    let hint = Hint {
        root: 5000,
        len: 300,
        session: [0; 8],
    };
    let bytes = hint.encode(&generation, None);
    let expected: [(&str, &[u8]); 7] = [
        ("magic", b"LPlh"),
        ("len", &300u32.to_le_bytes()),
        ("root", &5000u64.to_le_bytes()),
        ("id", b"0123456789abcdef"),
        ("signature", &[0; 16]),
        ("session", &[0; 8]),
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
    assert_eq!(Head::decode(&head, None), found);
    head[0] = 1;
    let is_broken = matches!(Head::decode(&head, None), Head::Newest { is_other_broken, .. } if is_other_broken);
    assert!(is_broken);
    assert_eq!(Head::decode(&[1; HEAD_LEN], None), Head::Broken);
    assert_eq!(Head::decode(&[0; 20], None), Head::Empty);
}

/// By what stands in "Encryption", with nothing of this crate.
struct ByHand {
    prk: ring::hkdf::Prk,
}

impl ByHand {
    fn new(data: &[u8], identity: &[u8]) -> ByHand {
        let salt = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, identity);
        ByHand {
            prk: salt.extract(data),
        }
    }

    fn expand(&self, info: &[&[u8]]) -> [u8; 32] {
        let mut out = [0; 32];
        let okm = self.prk.expand(info, ring::hkdf::HKDF_SHA256).unwrap();
        okm.fill(&mut out).unwrap();
        out
    }

    fn signature(&self, bytes: &[u8]) -> Vec<u8> {
        let key = self.expand(&[b"litepack records"]);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
        ring::hmac::sign(&key, bytes).as_ref()[..16].to_vec()
    }

    fn open(&self, salt: &[u8], counter: u64, aad: &[u8], sealed: &[u8]) -> Vec<u8> {
        use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
        let key = self.expand(&[b"litepack session", salt]);
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key).unwrap());
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&counter.to_le_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mut sealed = sealed.to_vec();
        let content = key.open_in_place(nonce, Aad::from(aad), &mut sealed);
        content.unwrap().to_vec()
    }
}

#[test]
fn sealed_slots_and_hints_are_as_documented() {
    let keys = litepack_cipher::Keys::new(&[3; 32], b"fedcba9876543210").unwrap();
    let by_hand = ByHand::new(&[3; 32], b"fedcba9876543210");
    let generation = generation().signed(Some(&keys));
    let slot = generation.encode();
    let found = fields("### Slot", &slot);
    let [of_version, of_signature] =
        ["version", "signature"].map(|name| found.iter().find(|field| field.0 == name).unwrap().1);
    assert_eq!(of_version, [2, 0, 0, 0]);
    let signed = [b"litepack log slot", &slot[..104]].concat();
    assert_eq!(of_signature, by_hand.signature(&signed));
    assert!(generation.is_signed_by(&keys));
    let hint = Hint {
        root: 5000,
        len: 300,
        session: *b"a salt's",
    };
    let bytes = hint.encode(&generation, Some(&keys));
    assert_eq!(fields("### Hint", &bytes)[5].1, hint.session);
    let signed = [b"litepack log hint", &bytes[..32], &bytes[48..56]].concat();
    assert_eq!(fields("### Hint", &bytes)[4].1, by_hand.signature(&signed));
    let mut head = vec![0; HEAD_LEN];
    head[..128].copy_from_slice(&slot);
    head[1024..].copy_from_slice(&bytes);
    let hint_with = |keys| match Head::decode(&head, keys) {
        Head::Newest { hint, .. } => hint,
        _ => panic!("a generation is there"),
    };
    assert_eq!(hint_with(Some(&keys)), Some(hint));
    let others = litepack_cipher::Keys::new(&[4; 32], b"fedcba9876543210").unwrap();
    assert_eq!(hint_with(Some(&others)), None);
    assert_eq!(hint_with(None), None);
    assert!(!generation.is_signed_by(&others));
    let mut changed = generation.clone();
    changed.binding.after += 1;
    assert!(!changed.is_signed_by(&keys));
    // A version says whether there is a signature.
    for (version, signature, is_one) in [(1, 0, true), (1, 1, false), (2, 0, true), (5, 0, false)] {
        let mut slot = slot.clone();
        slot[8] = version;
        slot[104..120].fill(signature);
        let sum = twox_hash::XxHash3_64::oneshot_with_seed(0, &slot[..120]);
        slot[120..].copy_from_slice(&sum.to_le_bytes());
        let found = matches!(Head::decode(&slot, None), Head::Newest { .. });
        assert_eq!(found, is_one, "{version}, {signature}");
    }
}

/// A generation that stands on a commit.
fn standing() -> Generation {
    Generation {
        base: Some(BaseCommit([6; 256])),
        ..generation()
    }
}

#[test]
fn slots_with_a_commit_are_as_documented() {
    let keys = litepack_cipher::Keys::new(&[3; 32], b"fedcba9876543210").unwrap();
    let by_hand = ByHand::new(&[3; 32], b"fedcba9876543210");
    for (keys, version) in [(None, 3), (Some(&keys), 4)] {
        let generation = standing().signed(keys);
        let slot = generation.encode();
        let mut plain = self::generation().encode();
        plain[8] = version;
        let signature = match keys {
            None => vec![0; 16],
            Some(_) => by_hand.signature(&[b"litepack log slot", &slot[..360]].concat()),
        };
        let sum = twox_hash::XxHash3_64::oneshot_with_seed(0, &slot[..376]).to_le_bytes();
        let expected: [(&str, &[u8]); 4] = [
            ("fields", &plain[..104]),
            ("record", &[6; 256]),
            ("signature", &signature),
            ("checksum", &sum),
        ];
        let found = fields("### Slot with a commit", &slot);
        for ((name, bytes), expected) in found.iter().zip(expected) {
            assert_eq!((name.as_str(), *bytes), expected);
        }
        let mut head = vec![0; HEAD_LEN];
        head[512..896].copy_from_slice(&slot);
        let is_it = |head: &[u8]| match Head::decode(head, keys) {
            Head::Newest {
                generation: found, ..
            } => found == generation,
            _ => false,
        };
        assert!(is_it(&head) && may_stand(&head));
        let mut other = self::generation();
        other.seq = 1;
        // Behind a shorter slot may be the rest of a longer one.
        head[..384].copy_from_slice(&slot);
        head[..128].copy_from_slice(&other.encode());
        assert!(is_it(&head) && may_stand(&head));
        for at in [104, 359, 370, 383] {
            let mut head = head.clone();
            head[512 + at] ^= 1;
            assert!(!is_it(&head), "{at}");
        }
        head[512..640].copy_from_slice(&self::generation().encode());
        assert!(!may_stand(&head));
    }
    assert!(may_stand(&[]));
}

#[test]
fn sealed_records_are_as_documented() {
    let keys = litepack_cipher::Keys::new(&[3; 32], b"fedcba9876543210").unwrap();
    let by_hand = ByHand::new(&[3; 32], b"fedcba9876543210");
    let mut seal = crate::seal::Seal::new(std::sync::Arc::new(keys));
    let mut salt = Vec::new();
    let places: [u64; 3] = [5000, 5300, 5350];
    for (counter, place) in places.into_iter().enumerate() {
        let record = crate::seal::NewRecord {
            kind: CUT,
            link: 0x0403_0201,
            content: &[200, 1],
            is_carrier: counter == 2,
        };
        let mut out = Vec::new();
        let next = seal.seal(record, place, &generation(), &mut out).unwrap();
        let told = match counter {
            1 => vec![0xac, 2, 1],
            _ => {
                let found = out[10..26].to_vec();
                assert!(salt.is_empty() || salt == found, "one session");
                salt = found;
                [&[0], &salt[..], &[counter as u8]].concat()
            }
        };
        let len = (9 + told.len() + 2 + 16) as u8;
        let told = [&[len, 0, 0, 0, 2, 1, 2, 3, 4][..], &told].concat();
        assert_eq!(out[..told.len()], told);
        assert_eq!(out.len(), usize::from(len));
        let aad = [
            &b"litepack log0123456789abcdef"[..],
            &place.to_le_bytes(),
            &told,
        ];
        let sealed = &out[told.len()..];
        let content = by_hand.open(&salt, counter as u64, &aad.concat(), sealed);
        assert_eq!(content, [200, 1]);
        assert_eq!(next.to_le_bytes(), sealed[2..6]);
    }
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
    let generation = standing();
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
    let cases: [(Frame, Vec<u8>); 6] = [
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
        (
            frame(None, usual, of(Form::First(0x0403_0201), b"c")),
            b"\x05\xac\x02\x80\x02\x03checksum\x0a\x01\x02\x03\x04c".into(),
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
    assert_eq!(
        sum_of(b"page"),
        (twox_hash::XxHash3_64::oneshot(b"page") & 0xffff_ffff) as u32
    );
    // Which page it is stands in the header, and the commit in the slot.
    let first = b"\x05\x01\x80\x02\x03checksum\x0a\x01\x02\x03\x04c";
    assert!(Frame::decode(first, 5000, &generation).is_some());
    assert!(Frame::decode(first, 5000, &self::generation()).is_none());
    assert!(Frame::decode(b"\x04\x01\x0a\x01\x02\x03\x04c", 5000, &generation).is_none());
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
    assert_eq!(Root::decode(&out, 5000), Some((root.clone(), &[][..])));
    out.extend([7, 8]);
    assert_eq!(Root::decode(&out, 5000), Some((root, &[7, 8][..])));
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
    for bad in [&[5, 1, 1, 0][..], &[5, 1, 0], &[5, 1, 2, 19]] {
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
    assert_eq!(Head::decode(&wal, None), Head::Broken);
}
