//! Reading pages: the unit's entry in the page map, then the cache, else the extent, verified and decoded.

use std::ops::Range;
use std::sync::Arc;

use litepack_io::scans::Scans;
use litepack_io::storage::ReadAt;

use crate::error::{Damage, Error, Result, SOME_PAGE};
use crate::format::layout::Pointer;
use crate::format::leaf::Entry;
use crate::format::node::Node;
use crate::format::unit::Unit;
use crate::medium::cache::PageCache;
use crate::medium::coalesced::CoalescedReads;
use crate::medium::tools::{Tools, Workers};
use crate::medium::verified::{Medium, NodeSource};
use crate::snapshot::image::Image;
use crate::snapshot::leaves::Leaves;
use crate::snapshot::prefetch::{self, Given};

/// Units that are newer than those in the file: what a transaction has buffered.
pub(crate) trait Overlay {
    /// The unit, if there is a newer one.
    fn unit(&self, unit: Unit) -> Option<&[u8]>;
}

/// For reading what is committed.
pub(crate) struct NoOverlay;

impl Overlay for NoOverlay {
    fn unit(&self, _: Unit) -> Option<&[u8]> {
        None
    }
}

/// The reads that [`PageReader::read_once`] may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    None,
    File,
}

/// Map nodes that are in the cache. Another one is an error, which only says that it is not.
struct NodesAtHand<'a>(&'a PageCache);

impl NodeSource for NodesAtHand<'_> {
    fn node(&self, pointer: Pointer, level: u8) -> Result<Arc<Node>> {
        let node = self
            .0
            .node(&pointer)
            .filter(|node| matches!(**node, Node::Leaf(_)) == (level == 0));
        node.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::WouldBlock).into())
    }
}

/// The parts of units that make up `len` bytes of a database from `offset` on: each unit, where the part begins in it, and
/// which of the bytes it is.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a place in a unit is less than its size"
)]
fn parts(
    unit_size: u32,
    offset: u64,
    len: usize,
) -> impl Iterator<Item = (Unit, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % u64::from(unit_size)) as usize;
        let part = done..(done + unit_size as usize - within).min(len);
        done = part.end;
        (!part.is_empty()).then(|| (Unit::holding(at, unit_size), within, part))
    })
}

/// The reading side of a handle.
#[derive(Debug)]
pub(crate) struct PageReader<R> {
    pub(crate) medium: Medium<R>,
    pub(crate) tools: Tools,
    pub(crate) workers: Workers,
    /// Threads that may work at the same time, the handle's own included.
    pub(crate) threads: usize,
    /// Leaves of the map of the commit that the handle is at.
    leaves: Leaves,
    /// The order in which units are read.
    pub(super) scans: Scans<Given>,
    pub(super) coalesced: CoalescedReads,
    /// A unit of which a part was asked for.
    page: Vec<u8>,
    /// Decoded units that another one is decoded from.
    pub(super) bases: Vec<u8>,
}

impl<R: ReadAt> PageReader<R> {
    pub(crate) fn new(medium: Medium<R>, threads: usize) -> PageReader<R> {
        PageReader {
            medium,
            tools: Tools::default(),
            workers: Workers::default(),
            threads: threads.max(1),
            leaves: Leaves::default(),
            scans: Scans::new(prefetch::RULE),
            coalesced: CoalescedReads::default(),
            page: Vec::new(),
            bases: Vec::new(),
        }
    }

    /// Threads besides the handle's own.
    pub(crate) fn workers_max(&self) -> usize {
        self.threads - 1
    }

    /// The leaves of the map are others from now on.
    pub(crate) fn forget_leaves(&mut self) {
        self.leaves.clear();
    }

    /// Fills `buf` with the image's bytes from `offset` and returns how many there were.
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "`available` is at most the length of `buf`; `within` and `len` are within a unit"
    )]
    pub(crate) fn read(
        &mut self,
        image: &mut Image,
        newer: &impl Overlay,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize> {
        let available = image.size.saturating_sub(offset).min(buf.len() as u64) as usize;
        for (unit, within, part) in parts(image.unit_size, offset, available) {
            self.read_within(image, newer, unit, within, &mut buf[part])?;
        }
        if offset == 0
            && let Some(page_size) = litepack_btree::page_size(&buf[..available])
        {
            image.page_size = page_size;
        }
        Ok(available)
    }

    /// Fills `buf` with the image's bytes from `offset`, for who needs them once: whole pages are not kept in the cache,
    /// but those of items. With
    /// [`Reads::None`] nothing is read from the file. False if something is not there without that, or if the image ends
    /// before: then `buf` is in no known state.
    #[expect(
        clippy::indexing_slicing,
        reason = "parts are within the length of `buf`; `within` and their lengths are within a unit"
    )]
    pub(crate) fn read_once(
        &mut self,
        image: &Image,
        offset: u64,
        buf: &mut [u8],
        reads: Reads,
    ) -> Result<bool> {
        if image.size.saturating_sub(offset) < buf.len() as u64 {
            return Ok(false);
        }
        let mut page = std::mem::take(&mut self.page);
        let mut is_there = true;
        for (unit, within, part) in parts(image.unit_size, offset, buf.len()) {
            let to = &mut buf[part];
            if to.len() == image.unit_size as usize {
                is_there = self.read_unit_once(image, unit, to, reads)?;
            } else {
                litepack_io::memory::resize(&mut page, image.unit_size as usize)?;
                is_there = self.read_unit_once(image, unit, &mut page, reads)?;
                to.copy_from_slice(&page[within..within + to.len()]);
            }
            if !is_there {
                break;
            }
        }
        self.page = page;
        Ok(is_there)
    }

    fn read_unit_once(
        &mut self,
        image: &Image,
        unit: Unit,
        page: &mut [u8],
        reads: Reads,
    ) -> Result<bool> {
        let entry = match reads {
            Reads::None => match self.entry_at_hand(image, unit) {
                Some(entry) => entry,
                None => return Ok(false),
            },
            Reads::File => self.entry(image, unit)?,
        };
        if entry.is_zero() {
            page.fill(0);
            return Ok(true);
        }
        if !entry.is_alone() {
            // To find out where it is takes reads.
            if reads == Reads::None {
                return Ok(false);
            }
            let source = image.source(unit, &entry, &self.medium)?;
            if !self.medium.cache.read_page(&source, page, false) {
                self.load_source(image, unit, &source, page)?;
            }
            return Ok(true);
        }
        let is_cached = self.medium.cache.read_page(&entry, page, false);
        if !is_cached && reads == Reads::File {
            self.load(image, unit, &entry, page)?;
            return Ok(true);
        }
        Ok(is_cached)
    }

    /// Where a unit is stored, if that takes no read.
    fn entry_at_hand(&mut self, image: &Image, unit: Unit) -> Option<Entry> {
        let index = unit.leaf();
        if self.leaves.get(index).is_none() {
            let at_hand = NodesAtHand(&self.medium.cache);
            if let Some(leaf) = image.map.leaf_on_disk(index, &at_hand).ok()? {
                self.leaves.put(index, leaf);
            }
        }
        Some(match self.leaves.get(index) {
            Some(Node::Leaf(entries)) => entries.get(unit.slot()),
            _ => Entry::ZERO,
        })
    }

    /// Fills `buf` from one unit, starting `within` it.
    #[expect(
        clippy::indexing_slicing,
        reason = "what is copied is within a unit, and whole units are what it is copied from"
    )]
    fn read_within(
        &mut self,
        image: &Image,
        newer: &impl Overlay,
        unit: Unit,
        within: usize,
        buf: &mut [u8],
    ) -> Result<()> {
        if let Some(bytes) = newer.unit(unit) {
            buf.copy_from_slice(&bytes[within..within + buf.len()]);
            return Ok(());
        }
        let entry = self.entry(image, unit)?;
        if entry.is_zero() {
            buf.fill(0);
            return Ok(());
        }
        self.prefetch(image, newer, unit);
        // A page that a worker has put there was not used by that.
        let is_use = !self.is_first_use(unit);
        if buf.len() == image.unit_size as usize {
            return self.read_whole(image, unit, &entry, buf, is_use);
        }
        if entry.is_alone()
            && let Some(page) = self.medium.cache.upper_page(&entry)
            && page.len() == image.unit_size as usize
            && let Some(part) = page.get(within..within + buf.len())
        {
            buf.copy_from_slice(part);
            return Ok(());
        }
        let mut page = std::mem::take(&mut self.page);
        let read = self.read_part(image, unit, &entry, within, buf, &mut page, is_use);
        self.page = page;
        read
    }

    /// Fills `buf` from a unit that is read to `page` as a whole.
    #[expect(clippy::too_many_arguments, reason = "it is a part of `read_within`")]
    fn read_part(
        &mut self,
        image: &Image,
        unit: Unit,
        entry: &Entry,
        within: usize,
        buf: &mut [u8],
        page: &mut Vec<u8>,
        is_use: bool,
    ) -> Result<()> {
        litepack_io::memory::resize(page, image.unit_size as usize)?;
        self.read_whole(image, unit, entry, page, is_use)?;
        if let Some(part) = page.get(within..within + buf.len()) {
            buf.copy_from_slice(part);
        }
        Ok(())
    }

    /// Fills `page` with a stored unit: from the cache, or from the file and then it is kept.
    fn read_whole(
        &mut self,
        image: &Image,
        unit: Unit,
        entry: &Entry,
        page: &mut [u8],
        is_use: bool,
    ) -> Result<()> {
        if !entry.is_alone() {
            let source = image.source(unit, entry, &self.medium)?;
            if !self.medium.cache.read_page(&source, page, is_use) {
                self.load_source(image, unit, &source, page)?;
                let spare = &mut self.tools.spare;
                self.medium.cache.put_page(unit, &source, page, spare);
            }
            return Ok(());
        }
        if !self.medium.cache.read_page(entry, page, is_use) {
            self.scans.current().kept.has_missed = true;
            self.load(image, unit, entry, page)?;
            let spare = &mut self.tools.spare;
            self.medium.cache.put_page(unit, entry, page, spare);
        }
        Ok(())
    }

    /// Where a unit is stored.
    pub(crate) fn entry(&mut self, image: &Image, unit: Unit) -> Result<Entry> {
        let index = unit.leaf();
        if image.map.is_changed() {
            return image.map.get(unit, &self.medium);
        }
        if let Some(entry) = self.medium.segment.as_ref().and_then(|s| s.entry(unit)) {
            return Ok(entry);
        }
        if self.leaves.get(index).is_none() {
            image.map.bring(index, &self.medium)?;
            if let Some(leaf) = image.map.leaf_on_disk(index, &self.medium)? {
                self.leaves.put(index, leaf);
            }
        }
        Ok(match self.leaves.get(index) {
            Some(Node::Leaf(entries)) => entries.get(unit.slot()),
            _ => Entry::ZERO,
        })
    }

    /// Reads, verifies and decodes a stored unit into `page`.
    pub(crate) fn load(
        &mut self,
        image: &Image,
        unit: Unit,
        entry: &Entry,
        page: &mut [u8],
    ) -> Result<()> {
        if !entry.is_alone() {
            let source = image.source(unit, entry, &self.medium)?;
            return self.load_source(image, unit, &source, page);
        }
        let decoded = self.decode(image, &entry.extent(), page);
        decoded.map_err(|error| match error {
            Error::Damaged(damage) if damage.what == SOME_PAGE => Error::Damaged(Damage {
                what: image.name_of(unit),
                ..damage
            }),
            error => error,
        })
    }
}
