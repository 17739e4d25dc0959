//! Where the bytes of each table and index go, by parsing leaves chosen at random, or all of a small database.
//!
//! The leaf pages of each tree are known without reading them. Those that are read are the same ones each time, spread
//! evenly, and read in an order in which time can end it anywhere without favouring any.

use std::time::Instant;

use litepack_btree::page::{Page, PageKind};
use litepack_btree::record::{len_of, varint};
use litepack_btree::{Encoding, Owner, PageNumber, PageOwnership, Role};
use litepack_database::bytes::pages::Pages;
use litepack_io::random::SplitMix64;

use super::column::ColumnSample;
use super::rebuild::Filling;

/// No fewer leaves of a tree are read, if it has them.
const LEAVES_MIN: u64 = 48;
/// Bytes that are read to see values on overflow pages.
const OVERFLOW_BYTES: usize = 48 << 20;
/// Longest payload that is put together from overflow pages.
const PAYLOAD_MAX: u64 = 256 << 10;
/// Sizes of rows that are kept, of all trees.
const SIZES: usize = 400_000;
/// Values that are kept, of all columns.
const KEPT: usize = 64 << 20;
/// Columns of a tree that are told apart, as many as SQLite allows, and of all trees. A row can claim any number.
const COLUMNS: usize = 2000;
const COLUMNS_ALL: usize = 1 << 16;
/// A page is read for each row that is looked at twice after so many pages.
const LOOK: usize = 64;

/// The sample of a tree.
#[derive(Debug, Default)]
pub(crate) struct TreeSample {
    /// Pages of the tree.
    pub(crate) leaves: u64,
    pub(crate) interior: u64,
    /// Leaves that were read, and those that could not be parsed.
    pub(crate) read: u64,
    pub(crate) bad: u64,
    /// In the leaves that were read: rows, bytes of page headers and cell pointers, of headers of cells and records,
    /// of rowids, and bytes without use.
    pub(crate) cells: u64,
    pub(crate) page_headers: u64,
    pub(crate) cell_headers: u64,
    pub(crate) rowids: u64,
    pub(crate) unused: u64,
    /// Overflow pages that cells between the leaves lead to, if all of these were read. Large cells get there more often.
    pub(crate) between: Option<u64>,
    /// Overflow pages that cells of these leaves lead to, and what of them is not payload.
    pub(crate) overflow: u64,
    pub(crate) overflow_slack: u64,
    /// By field of the records.
    pub(crate) columns: Vec<ColumnSample>,
    /// Of some rows from all over those that were seen: bytes of the payload, and of what is before it.
    pub(crate) sizes: Vec<(u64, u32)>,
    /// Rows for each of these.
    step: u64,
    /// All rows that were seen, put into pages as VACUUM does it.
    pub(crate) filling: Option<Filling>,
    /// Hashes of whole payloads, to find rows that stand twice.
    pub(crate) rows: Vec<u64>,
}

impl TreeSample {
    /// Keeps every so-and-so-many-th size, so that the first rows of a large table count no more than its last.
    fn note_size(&mut self, payload: u64, before: u32, most: usize) {
        if !self.cells.is_multiple_of(self.step.max(1)) {
            return;
        }
        self.sizes.push((payload, before));
        if self.sizes.len() >= most.max(2) {
            let mut at = 0_usize;
            self.sizes.retain(|_| {
                at += 1;
                at.is_multiple_of(2)
            });
            self.step = self.step.max(1) * 2;
        }
    }
}

/// The samples of all trees.
#[derive(Debug)]
pub(crate) struct Samples {
    /// As [`PageOwnership::trees`] has them.
    pub(crate) trees: Vec<TreeSample>,
    /// Pages on the list of free ones, and of the pointer map.
    pub(crate) free: u64,
    pub(crate) pointer_maps: u64,
    /// Pages that nothing above the leaves leads to: overflow pages, if nothing is damaged.
    pub(crate) unknown: u64,
    /// Whether all leaves were read.
    pub(crate) whole: bool,
    /// Whether time has ended the reading.
    pub(crate) ended: bool,
}

impl Samples {
    /// Reads leaves of about so many bytes, until `deadline`, but some in any case.
    pub(crate) fn take(
        pages: &mut Pages<'_>,
        owners: &PageOwnership,
        bytes: u64,
        deadline: Instant,
    ) -> Samples {
        let mut samples = Samples::count(pages, owners);
        let leaves: u64 = samples.trees.iter().map(|tree| tree.leaves).sum();
        let page_size = u64::from(pages.header.page_size);
        samples.whole = leaves * page_size <= bytes;
        let budget = bytes / page_size;
        let shares: Vec<u64> = (samples.trees.iter())
            .map(|tree| {
                let wanted = (tree.leaves * budget / leaves.max(1)).max(LEAVES_MIN);
                match wanted >= tree.leaves || samples.whole {
                    true => u64::MAX,
                    false => u64::MAX / tree.leaves * wanted,
                }
            })
            .collect();
        let mut chosen = Vec::new();
        for page in owners
            .known()
            .flat_map(|range| range.start.up_to(range.end))
        {
            let Owner::Tree {
                tree,
                role: Role::Leaf,
            } = owners.owner(page)
            else {
                continue;
            };
            let (hash, share) = (scattered(page), shares[tree as usize]);
            if hash <= share {
                // Those of small trees first.
                let rank = match share {
                    _ if samples.whole => 0,
                    u64::MAX => hash >> 8,
                    share => scaled(hash, share),
                };
                chosen.push((rank, page, tree));
            }
        }
        chosen.sort_unstable();
        let mut reader = Reader {
            encoding: pages.header.encoding,
            usable: pages.header.usable(),
            page: vec![0; pages.header.page_size as usize],
            other: vec![0; pages.header.page_size as usize],
            pages,
            overflow: OVERFLOW_BYTES,
            sizes: (SIZES / samples.trees.len().max(1)).max(100),
            columns: COLUMNS_ALL,
        };
        for (at, (_, page, tree)) in chosen.iter().enumerate() {
            if at > LOOK && at.is_multiple_of(LOOK) {
                if Instant::now() > deadline {
                    (samples.whole, samples.ended) = (false, true);
                    break;
                }
                samples.bound();
            }
            reader.leaf(*page, &mut samples.trees[*tree as usize]);
        }
        if samples.whole {
            reader.between(owners, &mut samples, deadline);
        }
        samples
    }

    /// Counts the pages of each tree.
    fn count(pages: &Pages<'_>, owners: &PageOwnership) -> Samples {
        let mut samples = Samples {
            trees: Vec::new(),
            free: 0,
            pointer_maps: 0,
            unknown: 0,
            whole: false,
            ended: false,
        };
        samples
            .trees
            .resize_with(owners.trees().len(), TreeSample::default);
        let mut known = 0_u64;
        for page in owners
            .known()
            .flat_map(|range| range.start.up_to(range.end))
        {
            known += 1;
            match owners.owner(page) {
                Owner::Tree { tree, role } => {
                    let tree = &mut samples.trees[tree as usize];
                    match role {
                        Role::Leaf => tree.leaves += 1,
                        Role::Interior => tree.interior += 1,
                        Role::Overflow => samples.unknown += 1,
                    }
                }
                Owner::FreeTrunk | Owner::FreeLeaf => samples.free += 1,
                Owner::PointerMap => samples.pointer_maps += 1,
                Owner::PendingByte | Owner::Unknown => samples.unknown += 1,
            }
        }
        samples.unknown += u64::from(pages.header.pages).saturating_sub(known);
        samples
    }

    /// Drops kept values where there are most, if they are too many.
    fn bound(&mut self) {
        loop {
            let columns = self.trees.iter_mut().flat_map(|tree| &mut tree.columns);
            let (mut all, mut largest) = (0, None);
            for column in columns {
                all += column.kept.bytes;
                let bytes = column.kept.bytes;
                if largest.as_ref().is_none_or(|(most, _)| bytes > *most) {
                    largest = Some((bytes, column));
                }
            }
            match largest {
                Some((_, column)) if all > KEPT => column.kept.halve(),
                _ => return,
            }
        }
    }
}

/// Where a hash is between 0 and the share that is taken, over all of 64 bits.
fn scaled(hash: u64, share: u64) -> u64 {
    (u128::from(hash) * u128::from(u64::MAX) / u128::from(share.max(1))) as u64
}

fn scattered(page: PageNumber) -> u64 {
    SplitMix64::new(u64::from(page.get()).wrapping_mul(SplitMix64::STEP)).next_u64()
}

struct Reader<'a, 'b> {
    pages: &'a mut Pages<'b>,
    encoding: Encoding,
    usable: usize,
    page: Vec<u8>,
    other: Vec<u8>,
    /// Bytes of overflow pages that may still be read.
    overflow: usize,
    /// Sizes of rows that are kept of a tree.
    sizes: usize,
    /// Columns that may still be told apart.
    columns: usize,
}

impl Reader<'_, '_> {
    /// Counts the overflow pages of cells between the leaves, of trees that have such cells and such pages.
    fn between(&mut self, owners: &PageOwnership, samples: &mut Samples, deadline: Instant) {
        let known = owners.known();
        let mut counts = vec![0_u64; samples.trees.len()];
        let mut page = vec![0; self.page.len()];
        let mut read = 0_usize;
        for number in known.flat_map(|range| range.start.up_to(range.end)) {
            let Owner::Tree {
                tree,
                role: Role::Interior,
            } = owners.owner(number)
            else {
                continue;
            };
            let of = &samples.trees[tree as usize];
            if of.rowids > 0 || of.overflow == 0 || !self.pages.page(number, &mut page) {
                continue;
            }
            read += 1;
            if read.is_multiple_of(LOOK) && Instant::now() > deadline {
                return;
            }
            let parsed = Page::parse(&page[..self.usable], 0);
            let parsed = parsed.filter(|page| page.kind() == PageKind::IndexInterior);
            for cell in parsed.into_iter().flat_map(|page| page.cells()).flatten() {
                if cell.payload <= self.pages.size {
                    let spilled = cell.payload.saturating_sub(cell.local.len() as u64);
                    counts[tree as usize] += spilled.div_ceil(self.usable as u64 - 4);
                }
            }
        }
        for (tree, count) in samples.trees.iter_mut().zip(counts) {
            tree.between = (tree.rowids == 0).then_some(count);
        }
    }

    fn leaf(&mut self, number: PageNumber, tree: &mut TreeSample) {
        let mut bytes = std::mem::take(&mut self.page);
        if self.pages.page(number, &mut bytes) {
            self.parsed(number, &bytes, tree);
        } else {
            tree.bad += 1;
        }
        self.page = bytes;
    }

    fn parsed(&mut self, number: PageNumber, bytes: &[u8], tree: &mut TreeSample) {
        let usable = &bytes[..self.usable];
        let page = Page::parse(usable, number.header()).filter(|page| !page.kind().is_interior());
        let Some(page) = page else {
            tree.bad += 1;
            return;
        };
        tree.read += 1;
        let headers = number.header() + page.kind().header_len() + 2 * page.count();
        let mut used = headers;
        tree.page_headers += headers as u64;
        for cell in page.cells().flatten() {
            // No row is longer than the database.
            if cell.payload > self.pages.size {
                continue;
            }
            tree.cells += 1;
            let local = &usable[cell.local.clone()];
            let spilled = cell.payload - local.len() as u64;
            let link = if spilled > 0 { 4 } else { 0 };
            let rowid = if page.kind().has_rowid() {
                varint_len(cell.rowid)
            } else {
                0
            };
            let before = cell.local.start - cell.start;
            // No cell takes less than four bytes, so that it can become a free block.
            used += (before + local.len() + link).max(4);
            tree.rowids += rowid as u64;
            tree.cell_headers += (before - rowid + link) as u64;
            if spilled > 0 {
                let room = self.usable as u64 - 4;
                let pages = spilled.div_ceil(room);
                tree.overflow += pages;
                tree.overflow_slack += pages.saturating_mul(bytes.len() as u64) - spilled;
            }
            tree.note_size(cell.payload, before as u32, self.sizes);
            let is_index = !page.kind().has_rowid();
            let filling = tree
                .filling
                .get_or_insert_with(|| Filling::new(self.usable, is_index));
            filling.add(cell.payload, before as u32);
            let whole = self.payload(&cell, local);
            self.record(whole.as_deref().unwrap_or(local), cell.payload, tree);
        }
        tree.unused += (bytes.len().saturating_sub(used)) as u64;
    }

    /// A payload with what is on overflow pages; `None` if all is local, or too long, or enough was read.
    fn payload(&mut self, cell: &litepack_btree::page::Cell, local: &[u8]) -> Option<Vec<u8>> {
        if cell.payload == local.len() as u64 || cell.payload > PAYLOAD_MAX {
            return None;
        }
        let len = usize::try_from(cell.payload).ok()?;
        self.overflow = self.overflow.checked_sub(len)?;
        self.pages.payload(cell, local, &mut self.other)
    }

    /// Shares out the bytes of a record, of which the beginning or all is `there`.
    fn record(&mut self, there: &[u8], payload: u64, tree: &mut TreeSample) {
        let header = varint(there).and_then(|(len, at)| {
            let len = usize::try_from(len).ok()?;
            Some((there.get(at..len)?, len))
        });
        let Some((mut serials, header_len)) = header else {
            tree.cell_headers += payload;
            return;
        };
        tree.cell_headers += header_len as u64;
        let mut left = payload.saturating_sub(header_len as u64);
        if there.len() as u64 == payload && tree.rows.len() < self.sizes {
            tree.rows.push(twox_hash::XxHash3_64::oneshot(there));
        }
        let mut body = header_len;
        for at in 0..COLUMNS {
            let Some((serial, len)) = varint(serials) else {
                break;
            };
            serials = &serials[len..];
            let Some(len) = len_of(serial).filter(|len| *len as u64 <= left) else {
                break;
            };
            if tree.columns.len() <= at {
                let Some(others) = self.columns.checked_sub(1) else {
                    break;
                };
                self.columns = others;
                tree.columns.push(ColumnSample::new());
            }
            left -= len as u64;
            let end = body.saturating_add(len);
            let there = &there[body.min(there.len())..end.min(there.len())];
            tree.columns[at].see(serial, len, there, self.encoding, true);
            body = end;
        }
        // The bytes that no field of a record accounts for.
        tree.cell_headers += left;
    }
}

/// Bytes of a number of variable length.
pub(crate) fn varint_len(value: u64) -> usize {
    match 64 - (value | 1).leading_zeros() {
        57.. => 9,
        bits => bits.div_ceil(7) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_numbers() {
        for (value, len) in [
            (0, 1),
            (127, 1),
            (128, 2),
            (16_383, 2),
            (16_384, 3),
            ((1 << 56) - 1, 8),
            (1 << 56, 9),
            (u64::MAX, 9),
        ] {
            assert_eq!(varint_len(value), len, "{value}");
        }
    }
}
