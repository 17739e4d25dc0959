//! The frames of a WAL file (<https://sqlite.org/fileformat2.html#walformat>): its header, and the pages of its newest
//! round. A frame counts if it has the salts of the header, as those of an earlier round do not. Checksums are not looked
//! at: who needs every frame to be right has SQLite's word for how many there are.

use std::fs::File;
use std::io;

use litepack_btree::page::be32;
use litepack_io::storage::ReadAt;

/// Length of the header of a WAL, and of that of a frame in it.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number of a WAL; its last bit says in which order its checksums are.
const MAGIC: u32 = 0x377f_0682;

/// The file.
#[derive(Debug)]
pub(super) struct WalFile {
    file: File,
    page_size: u32,
    salts: [u8; 8],
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The page that it holds, from 0 on.
    pub(super) page: u32,
    /// The number of pages of the database, if a transaction ends with it, else 0.
    pub(super) pages: u32,
    /// Where the page is in the file.
    pub(super) place: u64,
}

impl WalFile {
    /// Reads the header; `None` if it is that of no WAL.
    pub(super) fn of(file: File) -> io::Result<Option<WalFile>> {
        let mut head = [0; HEADER];
        if ReadAt::read_at(&file, &mut head, 0)? < HEADER {
            return Ok(None);
        }
        let word = |at| be32(&head, at).unwrap_or(0);
        let page_size = word(8);
        let sound = word(0) & !1 == MAGIC
            && page_size.is_power_of_two()
            && (512..=65536).contains(&page_size);
        let salts = head.get(16..24).and_then(|salts| salts.try_into().ok());
        Ok(salts.filter(|_| sound).map(|salts| WalFile {
            file,
            page_size,
            salts,
        }))
    }

    pub(super) fn page_size(&self) -> u32 {
        self.page_size
    }

    pub(super) fn salts(&self) -> [u8; 8] {
        self.salts
    }

    /// The frame of a number, from 0 on; `None` if there is none of this round.
    pub(super) fn frame(&self, number: u32) -> io::Result<Option<Frame>> {
        let at = self.end_of(number);
        let mut head = [0; FRAME_HEADER];
        let read = ReadAt::read_at(&self.file, &mut head, at)?;
        let page = be32(&head, 0).and_then(|page| page.checked_sub(1));
        let is_of_the_round = read == FRAME_HEADER && head.get(8..16) == Some(&self.salts[..]);
        Ok(page.filter(|_| is_of_the_round).map(|page| Frame {
            page,
            pages: be32(&head, 4).unwrap_or(0),
            place: at + FRAME_HEADER as u64,
        }))
    }

    /// How far so many frames reach in the file.
    pub(super) fn end_of(&self, frames: u32) -> u64 {
        HEADER as u64 + u64::from(frames) * (FRAME_HEADER as u64 + u64::from(self.page_size))
    }

    /// Fills `buf` from a place; how much there is.
    pub(super) fn read_at(&self, buf: &mut [u8], place: u64) -> io::Result<usize> {
        ReadAt::read_at(&self.file, buf, place)
    }
}
