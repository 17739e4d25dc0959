//! Any bytes as an archive: as they are, and with a footer that makes them one; then reads all over it.
#![no_main]

use std::sync::Arc;

use litepack_archive::{Archive, Cache, FileId, Options};

/// Reads of a file that claims to be large.
const READS: u64 = 64;

fn try_all(file: &[u8]) {
    let options = Options {
        cache: Arc::new(Cache::new(64 << 10)),
        file: FileId::unique(),
        threads: 1,
    };
    let Ok(mut archive) = Archive::open(file, options) else { return };
    let size = archive.size();
    let mut page = [0; 4096];
    for turn in 0..READS.min(size.div_ceil(4096)) {
        let offset = if size <= READS * 4096 { turn * 4096 } else { size / READS * turn };
        if let Ok(found) = archive.read_at(offset, &mut page) {
            assert_eq!(found as u64, (size - offset).min(4096));
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    try_all(data);
    // One frame of all that is there: size, then its bytes.
    let Some((size, frame)) = data.split_first_chunk::<4>() else { return };
    let mut file = frame.to_vec();
    for word in [0x184D_2A5E, 17, frame.len() as u32] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(size);
    file.extend_from_slice(&1u32.to_le_bytes());
    file.push(0);
    file.extend_from_slice(&0x8F92_EAB1u32.to_le_bytes());
    try_all(&file);
});
