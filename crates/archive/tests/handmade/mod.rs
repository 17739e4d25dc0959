//! Archives put together by hand: as other writers lay them out, and as none should.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::sync::Arc;

use litepack_archive::{Archive, Cache, FileId, Options, Result};
use litepack_io::storage::ReadAt;
use twox_hash::XxHash64;
use zstd_safe::{CCtx, CParameter};

/// Words with numbers, compressible to a third or so.
pub fn database(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut text = String::with_capacity(len + 64);
    while text.len() < len {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        text.push_str(&format!("name {}, value {}; ", state >> 40, state >> 50));
    }
    text.truncate(len);
    text.into_bytes()
}

/// One zstd frame.
pub fn zstd(bytes: &[u8], content_checksum: bool) -> Vec<u8> {
    let mut context = CCtx::create();
    let checksum = CParameter::ChecksumFlag(content_checksum);
    context.set_parameter(checksum).unwrap();
    let mut stored = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    context.compress2(&mut stored, bytes).unwrap();
    stored
}

/// A skippable frame with this content.
pub fn skippable(magic: u32, content: &[u8]) -> Vec<u8> {
    let mut frame = magic.to_le_bytes().to_vec();
    frame.extend_from_slice(&(content.len() as u32).to_le_bytes());
    frame.extend_from_slice(content);
    frame
}

pub const SKIPPABLE: u32 = 0x184D_2A50;

#[derive(Clone, Default)]
pub struct Handmade {
    pub body: Vec<u8>,
    /// Stored size, decoded size, checksum.
    pub entries: Vec<(u32, u32, u32)>,
    pub checksums: bool,
    pub unused_bits: u8,
}

impl Handmade {
    pub fn new(checksums: bool) -> Handmade {
        Handmade {
            checksums,
            ..Handmade::default()
        }
    }

    /// A frame and its entry as it should be.
    pub fn frame(&mut self, bytes: &[u8]) -> &mut Handmade {
        let stored = zstd(bytes, false);
        self.stored(
            &stored,
            bytes.len() as u32,
            XxHash64::oneshot(0, bytes) as u32,
        )
    }

    /// Any bytes with an entry.
    pub fn stored(&mut self, stored: &[u8], size: u32, checksum: u32) -> &mut Handmade {
        self.entries.push((stored.len() as u32, size, checksum));
        self.body.extend_from_slice(stored);
        self
    }

    pub fn table(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for (stored, size, checksum) in &self.entries {
            content.extend_from_slice(&stored.to_le_bytes());
            content.extend_from_slice(&size.to_le_bytes());
            if self.checksums {
                content.extend_from_slice(&checksum.to_le_bytes());
            }
        }
        content.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        content.push(u8::from(self.checksums) << 7 | self.unused_bits);
        content.extend_from_slice(&0x8F92_EAB1u32.to_le_bytes());
        skippable(0x184D_2A5E, &content)
    }

    pub fn finish(&self) -> Vec<u8> {
        let mut file = self.body.clone();
        file.extend_from_slice(&self.table());
        file
    }
}

/// The database cut into frames of this size.
pub fn cut(database: &[u8], frame_size: usize, checksums: bool) -> Handmade {
    let mut file = Handmade::new(checksums);
    for frame in database.chunks(frame_size) {
        file.frame(frame);
    }
    file
}

pub fn options(threads: usize, budget: u64) -> Options {
    Options {
        cache: Arc::new(Cache::new(budget)),
        file: FileId::unique(),
        threads,
    }
}

pub fn open(file: &[u8]) -> Result<Archive<&[u8]>> {
    Archive::open(file, options(1, 1 << 20))
}

/// Reads the whole database in pages, at most `limit` bytes.
pub fn read_all(archive: &mut Archive<impl ReadAt>, limit: u64) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut page = [0; 4096];
    while (all.len() as u64) < limit {
        let found = archive.read_at(all.len() as u64, &mut page)?;
        if found == 0 {
            break;
        }
        all.extend_from_slice(&page[..found]);
    }
    Ok(all)
}
