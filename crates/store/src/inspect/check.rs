//! Check: reads everything, and accounts for every byte of the file.

use litepack_io::storage::ReadAt;

use crate::error::{Damage, Result};
use crate::format::basis::{Basis, Item};
use crate::format::layout::lock_bytes_below;
use crate::format::node::TreeKind;
use crate::format::offset::FileOffset;
use crate::format::record::Record;
use crate::inspect::count::NameCount;
use crate::inspect::walk::Walk;
use crate::snapshot::handle::Snapshot;
use crate::snapshot::item_tree::number_at;
use crate::snapshot::recover;

/// The result of [`Snapshot::check`].
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Units read and decoded.
    pub units: u64,
    /// Nodes of the map and of the item tree read.
    pub nodes: u64,
    /// Bytes below the end that belong to nothing and are not free; harmless, but not wanted.
    pub lost_bytes: u64,
    /// Everything wrong, up to a hundred pieces.
    pub damage: Vec<Damage>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.damage.is_empty()
    }
}

impl<R: ReadAt> Snapshot<R> {
    /// Reads and decodes everything the newest commit refers to, and accounts for every byte of the
    /// file. `progress` is called with the number of units passed so far; an error of it ends the check.
    ///
    /// # Errors
    /// That of `progress`, or an interrupt. Otherwise only when the file cannot be read at all, or others commit too much meanwhile; damage
    /// is in the report.
    pub fn check(&mut self, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<CheckReport> {
        self.refresh()?;
        self.retry_if_stale(
            |snapshot| {
                // The extents themselves are checked, not copies of them.
                let segment = snapshot.medium_mut().segment.take();
                let report = snapshot.check_once(progress);
                snapshot.medium_mut().segment = segment;
                report
            },
            CheckReport::is_ok,
        )
    }

    fn check_once(&mut self, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<CheckReport> {
        let Some(commit) = self.commit() else {
            return Ok(CheckReport::default());
        };
        let record = commit.record;
        let mut walk = Walk::new(self.extents(&record));
        let mut found = CheckCounts::default();
        self.check_items(&mut walk, &record, &mut found)?;
        self.check_units(&mut walk, &record, &mut found, progress)?;
        let CheckCounts {
            units,
            bytes,
            differences,
            names,
        } = found;
        if walk.damage.is_empty() {
            // Without damage only: parts that could not be read may have had the names.
            names.wrong().for_each(|damage| walk.add(damage));
            let of_record = (
                (record.stored_units, record.stored_bytes),
                (record.difference_bytes, record.item_count),
            );
            if ((units, bytes), (differences, names.len())) != of_record {
                let why = format!(
                    "counts {} units, {} items and {} bytes of differences, there are {units}, {} and {differences}",
                    record.stored_units,
                    record.item_count,
                    record.difference_bytes,
                    names.len()
                );
                walk.add(Damage {
                    what: "commit record".into(),
                    offset: FileOffset::START,
                    why,
                });
            }
        }
        self.walk_catalog(&mut walk, record.catalog)?;
        self.walk_segment(&mut walk, record.segment)?;
        self.walk_space(&mut walk, record.space)?;
        if let Some(damage) = recover::damage_of_other_mark(self.medium(), &commit)? {
            walk.add(damage);
        }
        let known = self.guard().data_start().0 + walk.used.total() + lock_bytes_below(record.end);
        Ok(CheckReport {
            units,
            nodes: walk.nodes,
            lost_bytes: record.end.0.saturating_sub(known),
            damage: walk.damage,
        })
    }
}

/// The counts of a check so far.
#[derive(Default)]
struct CheckCounts {
    units: u64,
    /// Stored bytes of units and items.
    bytes: u64,
    /// Bytes of private differences.
    differences: u64,
    names: NameCount,
}

impl<R: ReadAt> Snapshot<R> {
    /// Reads and decodes all items.
    fn check_items(
        &mut self,
        walk: &mut Walk,
        record: &Record,
        found: &mut CheckCounts,
    ) -> Result<()> {
        let mut pages = Vec::new();
        self.walk_tree(
            walk,
            record,
            TreeKind::Items,
            |snapshot, walk, first, entries| {
                for (place, entry) in first.onwards().zip(entries.iter()) {
                    let (Some(item), Some(number)) = (Item::of(&entry), number_at(place)) else {
                        continue;
                    };
                    litepack_io::interrupt::check()?;
                    let what = format!("item {}", number.0);
                    walk.claim(&what, item.extent.offset, item.extent.len.into());
                    let loaded = snapshot.decode_item(&what, &item, &mut pages);
                    walk.note(loaded)?;
                    found.bytes += u64::from(item.extent.len);
                    found.names.add(number, &item)?;
                }
                Ok(())
            },
        )
    }

    /// Reads and decodes all units. Of those that are slices of an item it is enough that there is such a slice.
    fn check_units(
        &mut self,
        walk: &mut Walk,
        record: &Record,
        found: &mut CheckCounts,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut page = litepack_io::memory::zeros(self.unit_size() as usize)?;
        self.walk_tree(
            walk,
            record,
            TreeKind::Map,
            |snapshot, walk, first, entries| {
                let stored = first
                    .onwards()
                    .zip(entries.iter())
                    .filter(|(_, entry)| !entry.is_zero());
                for (unit, entry) in stored {
                    litepack_io::interrupt::check()?;
                    let what = snapshot.image().name_of(unit);
                    for extent in entry.extents() {
                        walk.claim(&what, extent.offset, extent.len.into());
                    }
                    let names = entry.basis.items().iter();
                    let units = names.filter_map(|number| found.names.name(*number)).max();
                    let is_there = match entry.basis {
                        Basis::Slice(_, slice) => units.is_some_and(|units| slice < units),
                        _ => false,
                    };
                    if !is_there {
                        let loaded = snapshot.load(unit, &entry, &mut page);
                        walk.note(loaded)?;
                    }
                    found.units += 1;
                    found.bytes += entry.stored_len();
                    found.differences += entry.difference_len();
                }
                progress(found.units)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::options::Options;
    use crate::transaction::store::Store;
    use litepack_io::storage::{ReadAt, Storage};
    use litepack_io::testing::MemoryStorage;

    const UNIT: usize = 4096;

    #[test]
    fn a_check_reads_the_file_and_not_what_is_kept_of_it() {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, Options::default()).unwrap();
        for unit in 0..1000_u64 {
            let text = format!("unit {unit}: {}; ", unit * 7919 % 1009);
            let page: Vec<u8> = text.bytes().cycle().take(UNIT).collect();
            store.write(unit * UNIT as u64, &page).unwrap();
            if unit % 100 == 99 {
                store.commit().unwrap();
            }
        }
        store.flush().unwrap();
        let mut page = vec![0; UNIT];
        for unit in 0..1000 {
            store.read(unit * UNIT as u64, &mut page).unwrap();
        }
        assert!(store.check(&mut |_| Ok(())).unwrap().is_ok());
        litepack_io::interrupt::listen(
            || true,
            || {
                assert!(store.check(&mut |_| Ok(())).unwrap_err().is_interrupted());
                assert!(store.info().unwrap_err().is_interrupted());
                assert!(store.verify_map().unwrap_err().is_interrupted());
            },
        );
        let snapshot = store.snapshot();
        let (record, catalog) = (snapshot.commit().unwrap().record, &snapshot.image().catalog);
        let number = catalog.used().next().expect("a dictionary");
        let held = snapshot.medium().dictionary(catalog, number);
        held.unwrap().unwrap();
        let dictionary = catalog.pointers().next().expect("a dictionary");
        for (what, place) in [("page map node", record.map), ("dictionary", dictionary)] {
            let mut byte = [0];
            disk.read_at(&mut byte, place.offset.0).unwrap();
            disk.write_at(&[!byte[0]], place.offset.0).unwrap();
            let damage = store.check(&mut |_| Ok(())).unwrap().damage;
            assert!(
                damage.iter().any(|found| found.what.starts_with(what)),
                "{what}: {damage:?}"
            );
            disk.write_at(&byte, place.offset.0).unwrap();
        }
    }
}
