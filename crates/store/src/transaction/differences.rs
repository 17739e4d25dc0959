//! Units that changed a little are stored as their difference to what they were: a private difference.
//!
//! It is made in a seventh of the time that a unit takes to encode, and it is short, so a small change writes little.
//! The former extent stays, owned by the same entry. A difference never stands on a difference: a unit that is one
//! becomes another one to the same former extent, or is encoded as a whole again.
//!
//! Differences are a debt: they are bytes besides the former extents, and these may have more than the unit still
//! needs. So the file has a budget for them ([`BUDGET`]). Beyond it, units are encoded as a whole. Maintenance encodes
//! all of them as wholes.

use litepack_codec::Codec;
use litepack_io::storage::Storage;

use crate::error::Result;
use crate::format::basis::Basis;
use crate::format::leaf::{Entry, Extent};
use crate::format::unit::Unit;
use crate::medium::source::Base;
use crate::space::allocate::ExtentKind;
use crate::transaction::changes::Transaction;
use crate::transaction::write_buffer::Differing;

/// A difference takes at most this part of the former extent: above it, a whole unit is worth its time.
const SHARE: u32 = 3;
/// All differences take at most this part of the bytes of all extents.
const BUDGET: u64 = 10;
/// The bytes of a former extent's place in a leaf of the map.
const PLACE: u64 = 16;
/// A unit that lost this part of its bytes to zeros is encoded as a whole: its former extent has more than it needs.
const LOST: usize = 32;

/// A unit as its difference to its former extent.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// The frame.
    pub(crate) stored: Vec<u8>,
    pub(crate) former: Extent,
    /// By how much it makes the differences of the file longer.
    pub(crate) growth: i64,
}

impl Entry {
    /// Its share of the budget for differences, in bytes.
    pub(crate) fn difference_len(&self) -> u64 {
        match self.basis {
            Basis::Former(_) => u64::from(self.len) + PLACE,
            _ => 0,
        }
    }

    /// The extent that a unit stored so may become a private difference to.
    fn former(&self) -> Option<Extent> {
        match self.basis {
            Basis::Alone if self.len > 0 => Some(self.extent()),
            Basis::Former(former) => Some(former),
            _ => None,
        }
    }
}

impl<D: Storage> Transaction<'_, D> {
    /// Whether this unit, which is being written, may become a private difference.
    pub(super) fn may_differ(&self, unit: Unit) -> bool {
        let writer = &self.store.writer;
        // What is rewritten as a whole is to be as small as it can be.
        writer.differences && !writer.rewriting && self.may_refer(unit)
    }

    /// Decides of the units that wait for it whether they are stored as differences.
    pub(super) fn compare_buffered(&mut self) -> Result<()> {
        for unit in self.store.writer.buffer.take_undecided() {
            litepack_io::interrupt::check()?;
            let difference = self.difference_of(unit)?;
            self.store.writer.buffer.decide(unit, difference);
        }
        Ok(())
    }

    /// The difference of a buffered unit to what it was, if that is to be stored. A unit whose former extent cannot be
    /// read from the file is encoded as a whole: so writing it heals it.
    fn difference_of(&mut self, unit: Unit) -> Result<Option<Difference>> {
        let entry = self.entry(unit)?;
        let Some(former) = entry.former().filter(|_| self.may_differ(unit)) else {
            return Ok(None);
        };
        let (spent, whole) = (self.changes.stored.differences, self.changes.stored.bytes);
        let pages = self.store.snapshot.pages();
        let writer = &mut self.store.writer;
        let excess = u64::from(pages.medium.guard.unit_excess());
        let left = (whole / BUDGET)
            .saturating_add(entry.difference_len())
            .checked_add_signed(writer.buffer.growth().saturating_neg())
            .and_then(|limit| limit.checked_sub(spent.saturating_add(PLACE + excess)));
        let budget = left.map_or(0, |left| left.min(u64::from(former.len / SHARE)));
        let Some(page) = writer.buffer.get(unit).filter(|_| budget > 0) else {
            return Ok(None);
        };
        writer.base.clear();
        let loaded = pages.append_former(&self.changes.image, &former, &mut writer.base);
        if loaded.is_err() || has_lost(page, &writer.base) {
            return Ok(None);
        }
        let mut stored = Vec::new();
        #[expect(clippy::cast_possible_truncation, reason = "an extent is no longer")]
        let budget = budget as usize;
        let encoder = &mut pages.tools.differences;
        if !encoder.encode(page, &writer.base, budget, &mut stored)? {
            return Ok(None);
        }
        let len = pages.medium.guard.unit_len(stored.len()) as u64;
        if pages.medium.guard.is_padded() && len > u64::from(former.len / SHARE) {
            return Ok(None);
        }
        let (before, after) = (entry.difference_len(), len + PLACE);
        Ok(Some(Difference {
            stored,
            former,
            growth: after.cast_signed().wrapping_sub_unsigned(before),
        }))
    }

    /// Gives the units that are stored as differences their places. A unit whose former extent is no longer its own goes
    /// back, to be encoded as a whole.
    pub(super) fn place_differing(&mut self) -> Result<()> {
        let mut differing = self.store.writer.buffer.take_differing();
        let mut placed = litepack_io::memory::with_room(differing.len())?;
        for page in differing.drain(..) {
            match self.entry(page.unit)?.former() {
                Some(former) if former == page.difference.former => placed.push(page),
                _ => self.store.writer.buffer.put_back(page),
            }
        }
        let Some(first) = placed.first() else {
            return Ok(());
        };
        self.note_order(first.unit)?;
        let sealer = self.sealer()?;
        let mut vouchers = litepack_io::memory::with_room(placed.len())?;
        for page in &mut placed {
            vouchers.push(sealer.unit(Codec::Zstd, &mut page.difference.stored, 0)?);
        }
        let lens = placed.iter().map(|page| page.difference.stored.len());
        let offsets = self.changes.space.allocate(ExtentKind::Units, lens)?;
        for ((page, offset), voucher) in placed.into_iter().zip(offsets).zip(vouchers) {
            let Differing {
                unit,
                bytes,
                choice,
                difference,
            } = page;
            let stored = &difference.stored;
            self.queue(offset, stored)?;
            #[expect(clippy::cast_possible_truncation, reason = "it is shorter than a unit")]
            let entry = Entry {
                offset,
                len: stored.len() as u32,
                sum: voucher.sum,
                nonce: voucher.nonce,
                storage: choice.encoding(Codec::Zstd, self.level()),
                basis: Basis::Former(difference.former),
            };
            self.set_difference(unit, entry, &bytes)?;
            self.store.writer.buffer.reuse_page(bytes);
        }
        Ok(())
    }

    /// Puts a private difference into the map. The unit as it was stays in the cache, because the next change needs it.
    fn set_difference(&mut self, unit: Unit, entry: Entry, page: &[u8]) -> Result<()> {
        let before = self.set_entry(unit, entry)?;
        let pages = self.store.snapshot.pages();
        let (image, cache) = (&self.changes.image, &pages.medium.cache);
        let source = |entry| image.source(unit, entry, &pages.medium);
        if !before.is_alone() {
            cache.forget(&source(&before)?, page.len());
        }
        let source = source(&entry)?;
        // Another page was once stored there, and may have the same checksums: it is not taken for this one.
        cache.forget(&source, page.len());
        let is_known = |base: &Base| cache.has_page(&base.source(0), image.unit_size);
        if source.bases().all(is_known) {
            cache.put_known(unit, &source, page, &mut pages.tools.spare);
        }
        Ok(())
    }
}

/// Whether a page has so many more zeros than before that its former extent has more than it needs.
fn has_lost(page: &[u8], former: &[u8]) -> bool {
    // Counted in bytes, so that many are at once: else it takes a tenth of the time of an update.
    let some = |bytes: &[u8]| bytes.iter().map(|byte| u8::from(*byte != 0)).sum::<u8>();
    let kept =
        |bytes: &[u8]| -> usize { bytes.chunks(255).map(|part| usize::from(some(part))).sum() };
    let before = kept(former);
    kept(page) < before - before / LOST
}
