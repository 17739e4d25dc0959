//! Damaged archives: flipped bits, garbage, truncation, swapped and doubled blocks. A full scan either fails with a
//! SQLite error or answers exactly right; it never answers wrong, and nothing panics.

use litepack_tests::archives::{self, Writer};
use litepack_tests::commandline::{JSON_ROWS, Place};
use litepack_tests::damage::{Damage, Victim};
use litepack_tests::rng::Rng;
use litepack_tests::{content, long, scale, seeds, vfs};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics that the VFS catches too.
fn watch() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location();
            // Panics of the tests themselves are reported by the tests.
            if place.is_none_or(|place| !place.file().contains("tests/")) {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(info);
        }));
    });
}

fn victim(place: &Place, page_size: u32, writer: Writer) -> Victim {
    let plain = archives::plain(place, page_size, |c| c.execute_batch(JSON_ROWS));
    let archive = archives::archive(&plain, "victim.db.zst", writer);
    let found = content::fingerprint(&archives::open(&archive).expect("it opens"));
    let found = found.expect("a scan");
    let bytes = std::fs::read(&archive).expect("readable");
    Victim {
        name: format!("{writer:?}, {page_size}-byte pages"),
        durable: true,
        // An archive has one state.
        older: bytes.clone(),
        older_content: found.clone(),
        bytes,
        content: found,
    }
}

/// Whether the damage was noticed.
fn trial(victim: &Victim, damage: &Damage, place: &Place) -> bool {
    // Each is another file, as its times may not be.
    let path = place.path("damaged.db.zst");
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, damage.apply(victim)).expect("writable");
    let scan = |path: &Path| content::fingerprint(&archives::open(path)?);
    let noticed = match scan(&path) {
        Ok(found) => {
            assert!(
                found == victim.content,
                "{}: {damage:?} is answered wrongly",
                victim.name
            );
            false
        }
        Err(_) => true,
    };
    let panics = PANICS.load(Ordering::SeqCst);
    assert_eq!(panics, 0, "{}: {damage:?} panics", victim.name);
    noticed
}

const WRITERS: [(u32, Writer); 4] = [
    (4096, Writer::Litepack(64 << 10)),
    (65536, Writer::Facebook(3000)),
    (4096, Writer::Zeekstd(10_007)),
    (8192, Writer::Zeekstd(2 << 20)),
];

#[test]
fn random_damage_is_never_a_wrong_answer() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    watch();
    for (page_size, writer) in WRITERS {
        let place = Place::new();
        let victim = victim(&place, page_size, writer);
        for seed in seeds(1, scale(1, 20)) {
            let mut rng = Rng::new(seed);
            let trials = 150;
            let damages = (0..trials).map(|_| Damage::random(&mut rng, victim.bytes.len()));
            let noticed = damages
                .filter(|damage| trial(&victim, damage, &place))
                .count();
            println!(
                "{}, seed {seed}: {noticed} of {trials} noticed",
                victim.name
            );
            assert!(
                noticed * 2 > trials,
                "only {noticed} of {trials} were noticed"
            );
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_never_a_wrong_answer() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    watch();
    for (page_size, writer) in WRITERS {
        let place = Place::new();
        let victim = victim(&place, page_size, writer);
        let len = victim.bytes.len();
        // All of the ends, and some bytes of what is between.
        let step = if long() { 1 } else { len / 150 };
        let places = (0..40)
            .chain((40..len - 60).step_by(step))
            .chain(len - 60..len);
        for at in places {
            trial(
                &victim,
                &Damage::Flip {
                    at,
                    bit: (at % 8) as u32,
                },
                &place,
            );
        }
    }
}

#[test]
fn what_is_wrong_and_where_is_said() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let victim = victim(&place, 4096, Writer::Litepack(64 << 10));
    let path = place.path("damaged.db.zst");
    let mut bytes = victim.bytes.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(&path, bytes).unwrap();
    let connection = archives::open(&path).unwrap();
    let check: String = connection
        .query_row("select litepack_check()", [], |row| row.get(0))
        .unwrap();
    assert!(check.contains("the archive is damaged: frame "), "{check}");
    assert!(check.contains("restore it from a backup"), "{check}");
    let scan = "select sum(length(data)) from t";
    let error = connection.query_row(scan, [], |_| Ok(())).unwrap_err();
    assert_eq!(error.sqlite_error().unwrap().extended_code, 11);
    // Frames that are not damaged can still be read.
    let first = "select data from t where id = 1";
    connection.query_row(first, [], |_| Ok(())).unwrap();
}

/// No program may do this. Bytes that are no longer there are SQLITE_IOERR_READ.
#[test]
fn a_file_that_becomes_shorter_while_it_is_open() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let victim = victim(&place, 4096, Writer::Litepack(4096));
    let path = place.path("shrinking.db.zst");
    std::fs::write(&path, &victim.bytes).unwrap();
    let connection = archives::open(&path).unwrap();
    let first = "select data from t where id = 1";
    connection.query_row(first, [], |_| Ok(())).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(victim.bytes.len() as u64 / 2).unwrap();
    let scan = "select sum(length(data)) from t";
    let error = connection.query_row(scan, [], |_| Ok(())).unwrap_err();
    assert_eq!(error.sqlite_error().unwrap().extended_code, 266);
    let check = connection.query_row("select litepack_check()", [], |_| Ok(()));
    let error = check.unwrap_err();
    assert!(
        error.to_string().contains("was longer when it was opened"),
        "{error}"
    );
    connection.query_row(first, [], |_| Ok(())).unwrap();
}

/// Nothing but the sizes in the seek table says where a frame's bytes belong. With a wrong one, pages behind that frame
/// would be taken for others, and a query that does not read the frame would not notice.
#[test]
fn a_size_in_the_table_that_rots_moves_no_page() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    const FRAME: u32 = 16 << 10;
    let place = Place::new();
    let plain = archives::plain(&place, 4096, |c| c.execute_batch(JSON_ROWS));
    let row = |connection: &rusqlite::Connection, id: u32| {
        let sql = "select data from t where id = ?1";
        let found = connection.query_row(sql, [id], |row| row.get::<_, String>(0));
        found.map_or_else(|error| error.sqlite_error().map(|_| String::new()), Some)
    };
    let mut number = 0;
    for is_length_known in [true, false] {
        if !is_length_known {
            // As SQLite before 3.7.0 leaves it.
            let mut bytes = std::fs::read(&plain).unwrap();
            bytes[95] ^= 1;
            std::fs::write(&plain, bytes).unwrap();
        }
        let archive = archives::archive(&plain, "right.db.zst", Writer::Litepack(FRAME));
        let right = archives::open(&archive).unwrap();
        // To the end: what is behind all that is read may stay unknown.
        let ids: Vec<u32> = (1..4000).step_by(97).chain([4000]).collect();
        let truth: Vec<_> = ids.iter().map(|id| row(&right, *id)).collect();
        assert!(truth.iter().flatten().any(|data| !data.is_empty()));
        let bytes = std::fs::read(&archive).unwrap();
        let frames = std::fs::metadata(&plain)
            .unwrap()
            .len()
            .div_ceil(FRAME.into()) as usize;
        assert!(frames > 10, "{frames}");
        let mut noticed = 0;
        for frame in (0..frames).step_by(3) {
            // The last one leaves nothing of a frame of 16 KiB.
            for bit in [2, 12, 13, 14] {
                let mut damaged = bytes.clone();
                let size = bytes.len() - 9 - 12 * (frames - frame) + 4;
                damaged[size + bit / 8] ^= 1 << (bit % 8);
                number += 1;
                let path = place.path(&format!("{number}.db.zst"));
                std::fs::write(&path, damaged).unwrap();
                let Ok(connection) = archives::open(&path) else {
                    noticed += 1;
                    continue;
                };
                let found: Vec<_> = ids.iter().map(|id| row(&connection, *id)).collect();
                noticed += usize::from(found.contains(&Some(String::new())));
                for (found, truth) in found.iter().zip(&truth) {
                    let is_error = *found == Some(String::new());
                    assert!(is_error || found == truth, "frame {frame}, bit {bit}");
                }
            }
        }
        assert_eq!(noticed, frames.div_ceil(3) * 4);
        std::fs::remove_file(&archive).unwrap();
    }
}

/// A file of some bytes that claims terabytes, in frames that do not state their sizes, and a database that does not
/// state its own: what is asked for is read, and the rest costs nothing.
#[test]
fn opening_does_not_decode_what_an_archive_claims() {
    if !vfs::is_litepack() {
        return vfs::skip_packed();
    }
    let place = Place::new();
    let plain = archives::plain(&place, 4096, |c| {
        c.execute_batch("create table t(a); insert into t values ('hello')")
    });
    let mut bytes = std::fs::read(&plain).unwrap();
    bytes[95] ^= 1;
    // Magic, a window of 128 KiB, blocks of bytes as they are or of a byte that repeats.
    let frame = |blocks: &[(u32, u32, &[u8])]| {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
        for (at, (kind, size, content)) in blocks.iter().enumerate() {
            let header = size << 3 | kind << 1 | u32::from(at + 1 == blocks.len());
            frame.extend_from_slice(&header.to_le_bytes()[..3]);
            frame.extend_from_slice(content);
        }
        frame
    };
    let first = frame(&[(0, bytes.len() as u32, &bytes)]);
    let large = frame(&vec![(1, 128 << 10, &[0u8][..]); 32_767]);
    let large_size = 32_767u32 * (128 << 10);
    let mut frames = vec![(first, bytes.len() as u32)];
    frames.extend(std::iter::repeat_n((large, large_size), 300));
    let mut file: Vec<u8> = frames.iter().flat_map(|(frame, _)| frame.clone()).collect();
    let mut table: Vec<u8> = Vec::new();
    for (frame, size) in &frames {
        table.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        table.extend_from_slice(&size.to_le_bytes());
    }
    table.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    table.push(0);
    table.extend_from_slice(&0x8F92_EAB1u32.to_le_bytes());
    file.extend_from_slice(&0x184D_2A5Eu32.to_le_bytes());
    file.extend_from_slice(&(table.len() as u32).to_le_bytes());
    file.extend_from_slice(&table);
    let path = place.path("claims.db.zst");
    std::fs::write(&path, file).unwrap();
    let begun = std::time::Instant::now();
    let connection = archives::open(&path).unwrap();
    let found: String = connection
        .query_row("select a from t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, "hello");
    // All of it would take minutes.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}
