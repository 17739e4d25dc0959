//! Info: where the space of a file goes.

use litepack_btree::PageNumber;
use litepack_cipher::Padding;
use litepack_codec::Codec;
use litepack_io::storage::ReadAt;

use crate::error::{Damage, Error, Result};
use crate::format::basis::Basis;
use crate::format::layout::lock_bytes_below;
use crate::format::leaf::Entry;
use crate::format::node::TreeKind;
use crate::format::offset::FileOffset;
use crate::format::record::Record;
use crate::format::unit::Unit;
use crate::inspect::walk::Walk;
use crate::snapshot::handle::Snapshot;

/// How a file's bytes are spent.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// Whether the page map was read. Of a remote file it is not: leaves of the map lie among the units, so that reading
    /// it would bring nearly all of the file. `map_bytes`, `item_bytes`, `item_tree_bytes`, `free_list_bytes`, `codecs` and `damage`
    /// (but for the first page) are then empty.
    pub is_counted: bool,
    /// To a multiple of how many bytes everything in an encrypted file is padded; 0 if it is not.
    pub padding: u32,
    /// Number of the newest commit.
    pub seq: u64,
    /// SQLite's page size.
    pub page_size: u32,
    /// Bytes of the database per extent.
    pub unit_size: u32,
    /// Logical length of the database in bytes.
    pub logical_bytes: u64,
    /// Length of the packed file in bytes.
    pub file_bytes: u64,
    /// Units that are stored (not zero).
    pub stored_units: u64,
    /// Stored bytes of all units and items.
    pub stored_bytes: u64,
    /// Items: extents that several units are stored by reference to.
    pub items: u64,
    /// Stored bytes of all items, of which no unit's own length tells.
    pub item_bytes: u64,
    /// Length of the item tree's nodes.
    pub item_tree_bytes: u64,
    /// Units that are stored by reference to items.
    pub references: u64,
    /// About the bytes that this saves: as if each took alone what the items that it is like take.
    pub references_save: u64,
    /// Bytes in use for nothing but to find their place: header, commit records, SQLite's lock bytes.
    pub header_bytes: u64,
    /// Length of the page map's nodes.
    pub map_bytes: u64,
    /// Length of the list of dictionaries.
    pub catalog_bytes: u64,
    /// Length of the prefetch segment, for remote readers.
    pub prefetch_segment_bytes: u64,
    /// Length of the list of free space.
    pub free_list_bytes: u64,
    /// Free bytes within the file, and all bytes behind its end.
    pub free_bytes: u64,
    /// Lengths of the dictionaries.
    pub dictionaries: Vec<u32>,
    /// About the bytes that a process holds of them when it reads pages of all tables and indexes: each dictionary and
    /// zstd's copy of it.
    pub dictionary_memory: u64,
    /// Per codec and with or without dictionary, and for each kind of reference: name, units (of items: items), stored
    /// bytes.
    pub codecs: Vec<(String, u64, u64)>,
    /// Parts that could not be read, and so are missing in the lines above; up to a hundred.
    pub damage: Vec<Damage>,
}

impl Info {
    /// Bytes of the file that nothing above tells of: none in a sound file.
    pub fn unaccounted_bytes(&self) -> u64 {
        let dictionaries = self.dictionaries.iter().map(|len| u64::from(*len));
        let units = self.codecs.iter().map(|(_, _, bytes)| *bytes);
        let lists = self.map_bytes
            + self.item_tree_bytes
            + self.catalog_bytes
            + self.prefetch_segment_bytes
            + self.free_list_bytes;
        let known = dictionaries.chain(units).sum::<u64>() + lists;
        let known = known + self.header_bytes + self.free_bytes;
        self.file_bytes.saturating_sub(known)
    }
}

/// A unit that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredUnit {
    /// Which one.
    pub number: Unit,
    /// Its length in the file, in bytes: of its own extents. 0 for an alias.
    pub len: u32,
    /// About the bytes that it would take alone, if it is stored by reference to items: what they take, each for one
    /// unit, in the mean. Else 0.
    pub alone: u32,
    /// The extents it is decoded from besides.
    pub kind: StoredKind,
    /// How its bytes are encoded.
    pub codec: Codec,
    /// Whether a dictionary is needed to decode them.
    pub has_dictionary: bool,
}

/// Whether a unit stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredKind {
    /// It does.
    Own,
    /// It is a slice of an item.
    Alias,
    /// It is the difference to one or more items.
    Difference,
    /// It is the difference to an extent that no other unit has.
    PrivateDifference,
}

impl<R: ReadAt> Snapshot<R> {
    /// Calls `each` with every stored unit of the newest commit, in order, and returns what of the page
    /// map could not be read, up to a hundred pieces. Reads no unit.
    ///
    /// # Errors
    /// When the file cannot be read at all.
    pub fn units(&mut self, each: &mut dyn FnMut(StoredUnit)) -> Result<Vec<Damage>> {
        self.refresh()?;
        Ok(self.walk_units(each)?.damage)
    }

    fn walk_units(&mut self, each: &mut dyn FnMut(StoredUnit)) -> Result<Walk> {
        let Some(commit) = self.commit() else {
            return Ok(Walk::default());
        };
        let mut walk = Walk::new(self.extents(&commit.record));
        let (record, kind) = (&commit.record, TreeKind::Map);
        self.walk_tree(&mut walk, record, kind, |snapshot, _, first, entries| {
            for (number, entry) in first
                .onwards()
                .zip(entries.iter())
                .filter(|(_, entry)| !entry.is_zero())
            {
                let (kind, has_bases) = match entry.basis {
                    Basis::Alone | Basis::Shared { .. } => (StoredKind::Own, false),
                    Basis::Slice(..) => (StoredKind::Alias, true),
                    Basis::Items(_) => (StoredKind::Difference, true),
                    Basis::Former(_) => (StoredKind::PrivateDifference, true),
                };
                let needs = snapshot.image().catalog.is_needed_by(entry.storage);
                each(StoredUnit {
                    number,
                    #[expect(clippy::cast_possible_truncation, reason = "two are below 2^32")]
                    len: entry.stored_len() as u32,
                    alone: snapshot.items_len(&entry)?,
                    kind,
                    codec: entry.storage.codec,
                    has_dictionary: needs && !has_bases,
                });
            }
            Ok(())
        })?;
        Ok(walk)
    }

    /// Stored bytes of the items that an entry names, each for one of its units, in the mean. Items that are missing or
    /// damaged do not count: the walk of their tree tells of them.
    fn items_len(&self, entry: &Entry) -> Result<u32> {
        let (mut sum, mut count) = (0, 0);
        for number in entry.basis.items() {
            let item = match self.image().items.get(*number, self.medium()) {
                Err(Error::Damaged(_)) => None,
                item => item?,
            };
            if let Some(item) = item {
                sum += item.extent.len / u32::from(item.units).max(1);
                count += 1;
            }
        }
        Ok(sum / u32::max(count, 1))
    }

    /// Where the space of the file goes.
    ///
    /// # Errors
    /// When the file cannot be read at all, or others commit too much meanwhile.
    pub fn info(&mut self) -> Result<Info> {
        self.refresh()?;
        self.retry_if_stale(Snapshot::info_once, |info| info.damage.is_empty())
    }

    fn info_once(&mut self) -> Result<Info> {
        let mut unreadable = None;
        match self.read(0, &mut [0; 100]) {
            Err(Error::Damaged(damage)) => unreadable = Some(damage),
            result => _ = result?,
        }
        let mut info = Info {
            padding: self.guard().padding().map_or(0, Padding::bytes),
            page_size: self.image().page_size,
            unit_size: self.unit_size(),
            file_bytes: self.disk().len()?,
            is_counted: !self.disk().is_remote(),
            ..Info::default()
        };
        let Some(commit) = self.commit() else {
            return Ok(info);
        };
        let record = commit.record;
        if info.is_counted {
            self.count(&record, &mut info)?;
        }
        info.seq = record.seq.0;
        info.logical_bytes = record.size;
        info.stored_units = record.stored_units;
        info.stored_bytes = record.stored_bytes;
        info.items = record.item_count;
        info.header_bytes = self.guard().data_start().0 + lock_bytes_below(record.end);
        info.catalog_bytes = record.catalog.len.into();
        info.prefetch_segment_bytes = record.segment.len.into();
        info.free_bytes = record.free_bytes + info.file_bytes.saturating_sub(record.end.0);
        info.dictionaries = self
            .image()
            .catalog
            .pointers()
            .map(|pointer| pointer.len)
            .collect();
        info.dictionary_memory = 2 * self.image().catalog.dictionary_len();
        if let Some(damage) = unreadable {
            info.page_size = self.unit_size();
            info.damage.insert(0, damage);
        }
        Ok(info)
    }

    /// Counts units, map nodes and free space, by the page map and the free-space chain.
    fn count(&mut self, record: &Record, info: &mut Info) -> Result<()> {
        let mut counts = [[(0, 0); 2]; Codec::ALL.len()];
        let mut references = [(0, 0); 3];
        let mut alone = 0;
        #[expect(clippy::indexing_slicing, reason = "`Codec::ALL` has every codec")]
        let mut walk = self.walk_units(&mut |unit| {
            let (units, bytes) = match unit.kind {
                StoredKind::Own => {
                    &mut counts[unit.codec as usize][usize::from(unit.has_dictionary)]
                }
                StoredKind::Alias => &mut references[0],
                StoredKind::Difference => &mut references[1],
                StoredKind::PrivateDifference => &mut references[2],
            };
            *units += 1;
            *bytes += u64::from(unit.len);
            alone += u64::from(unit.alone);
        })?;
        info.map_bytes = walk.node_bytes;
        let mut items = (0, 0);
        self.walk_tree(&mut walk, record, TreeKind::Items, |_, _, _, entries| {
            for entry in entries.iter().filter(|entry| !entry.is_zero()) {
                items.0 += 1;
                items.1 += u64::from(entry.len);
            }
            Ok(())
        })?;
        info.item_tree_bytes = walk.node_bytes - info.map_bytes;
        info.item_bytes = items.1;
        let [aliases, differences, _] = references;
        info.references = aliases.0 + differences.0;
        info.references_save =
            alone.saturating_sub(differences.1 + info.item_bytes + info.item_tree_bytes);
        for (codec, counts) in Codec::ALL.iter().zip(counts) {
            for (suffix, (units, bytes)) in ["", "+dictionary"].iter().zip(counts) {
                if units > 0 {
                    let name = format!("{}{suffix}", codec.name());
                    info.codecs.push((name, units, bytes));
                }
            }
        }
        let names = ["alias", "difference", "private difference", "item"];
        let counted = references.into_iter().chain([items]);
        for (name, (units, bytes)) in names.iter().zip(counted) {
            if units > 0 {
                info.codecs.push(((*name).into(), units, bytes));
            }
        }
        info.free_list_bytes = self.walk_space(&mut walk, record.space)?;
        info.damage = walk.damage;
        Ok(())
    }

    /// Where this page of SQLite's is stored: offset in the file, and its share of its unit's stored bytes. `None` if
    /// nothing is stored for it.
    ///
    /// # Errors
    /// When the page map cannot be read.
    pub fn place_of_page(&mut self, page: PageNumber) -> Result<Option<(FileOffset, u64)>> {
        self.refresh()?;
        let share = self.image().pages_per_unit();
        let unit = Unit(u64::from(page.index()) / share);
        let mut entry = self.entry(unit)?;
        if let Basis::Slice(..) = entry.basis {
            let source = self.image().source(unit, &entry, self.medium())?;
            entry = source.extent.entry();
        }
        Ok((!entry.is_zero()).then(|| (entry.offset, u64::from(entry.len).div_ceil(share))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::leaf::FANOUT;
    use crate::format::node::Node;
    use crate::medium::verified::NodeSource;
    use crate::options::Options;
    use crate::transaction::store::Store;
    use litepack_io::storage::Storage;
    use litepack_io::testing::MemoryStorage;

    const UNIT: u64 = 4096;

    /// A file of 600 units in several commits, with free space between its extents.
    fn file() -> MemoryStorage {
        let disk = MemoryStorage::default();
        let mut store = Store::open(&disk, Options::default()).expect("opens");
        for commit in 0..8_u64 {
            for number in (0..600).filter(|number| commit == 0 || number % 8 == commit) {
                let text = format!("unit {number} of commit {commit}, ").repeat(400);
                store
                    .write(number * UNIT, &text.as_bytes()[..UNIT as usize])
                    .expect("written");
            }
            store.commit().expect("committed");
            store.flush().expect("flushed");
        }
        // A commit that is not known to be durable would not be damaged, but given up.
        store.close();
        disk
    }

    #[test]
    fn every_byte_is_accounted_for() {
        let disk = file();
        let mut store = Store::open(&disk, Options::default()).expect("opens");
        let info = store.info().expect("readable");
        assert_eq!((info.unaccounted_bytes(), info.damage.len()), (0, 0));
        assert!(info.free_bytes > 0 && info.map_bytes > 0, "{info:?}");
        let (mut units, mut bytes, mut last) = (0, 0, None);
        let damage = store.units(&mut |unit| {
            assert!(last < Some(unit.number), "in order");
            last = Some(unit.number);
            units += 1;
            bytes += u64::from(unit.len);
        });
        assert_eq!(damage.expect("readable"), []);
        assert_eq!((units, bytes), (info.stored_units, info.stored_bytes));
    }

    #[test]
    fn what_cannot_be_read_is_told_and_the_rest_counted() {
        let disk = file();
        let mut store = Store::open(&disk, Options::default()).expect("opens");
        store.refresh().expect("sound");
        let record = store.snapshot().commit().expect("there is one").record;
        let root = store
            .snapshot()
            .medium()
            .node(record.map, 1)
            .expect("sound");
        let Node::Inner(children) = &*root else {
            panic!("600 units need two levels");
        };
        let leaf = children[1];
        let mut byte = [0];
        disk.read_at(&mut byte, leaf.offset.0).expect("there");
        disk.write_at(&[!byte[0]], leaf.offset.0).expect("written");

        let mut store = Store::open(&disk, Options::default()).expect("opens");
        let info = store.info().expect("readable");
        let found: Vec<_> = info.damage.iter().map(|damage| damage.offset).collect();
        assert_eq!(found, [leaf.offset]);
        let mut units = 0;
        let damage = store.units(&mut |_| units += 1).expect("readable");
        assert_eq!((damage, units), (info.damage, 600 - FANOUT));
    }
}
