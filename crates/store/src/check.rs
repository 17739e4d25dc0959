//! Looking at a whole file: is every byte accounted for and readable, and where does the space go.

use litepack_codec::Codec;

use crate::catalog::Catalog;
use crate::disk::Disk;
use crate::error::{Damage, Error, Result};
use crate::layout::{DATA_START, LOCK_BYTES, Pointer, extent_is_sane};
use crate::map::NodeSource;
use crate::node::{FANOUT, Node};
use crate::ranges::RangeSet;
use crate::space::Space;
use crate::store::Store;

/// Damage found is listed up to this many pieces.
const LISTED_MAX: usize = 100;

/// What [`Store::check`] found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Units read and decoded.
    pub units: u64,
    /// Map nodes read.
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

    fn add(&mut self, damage: Damage) {
        if self.damage.len() < LISTED_MAX {
            self.damage.push(damage);
        }
    }
}

/// How a file's bytes are spent.
#[derive(Clone, Debug, Default)]
pub struct Info {
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
    /// Stored bytes of all units.
    pub stored_bytes: u64,
    /// Free bytes within the file.
    pub free_bytes: u64,
    /// Lengths of the dictionaries.
    pub dictionaries: Vec<u32>,
    /// Per codec and with or without dictionary: name, units, stored bytes.
    pub codecs: Vec<(String, u64, u64)>,
}

struct Walk<'a> {
    report: CheckReport,
    used: RangeSet,
    end: u64,
    progress: &'a mut dyn FnMut(u64),
    page: Vec<u8>,
}

impl Walk<'_> {
    /// Notes an extent as used; false if it cannot be one.
    fn claim(&mut self, what: &str, offset: u64, len: u64) -> bool {
        let why = if !extent_is_sane(offset, len, self.end) {
            "lies outside the file"
        } else if !self.used.insert(offset, len) {
            "overlaps another extent"
        } else {
            return true;
        };
        self.report.add(Damage {
            what: what.into(),
            offset,
            why: why.into(),
        });
        false
    }

    fn note<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::Damaged(damage)) => {
                self.report.add(damage);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl<D: Disk> Store<D> {
    /// Reads and decodes everything the newest commit refers to, and accounts for every byte of the
    /// file. `progress` is called with the number of units passed so far.
    ///
    /// # Errors
    /// Only when the file cannot be read at all; damage is in the report.
    pub fn check(&mut self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        self.refresh()?;
        let Some(commit) = self.commit else {
            return Ok(CheckReport::default());
        };
        let record = commit.record;
        let report = CheckReport::default();
        let used = RangeSet::default();
        let mut walk = Walk {
            report,
            used,
            end: record.end,
            progress,
            page: Vec::new(),
        };
        walk.page.resize(self.unit_size as usize, 0);
        let (units, bytes) = match record.height {
            0 => (0, 0),
            height => self.check_tree(&mut walk, record.map, height - 1, 0)?,
        };
        if walk.report.is_ok() && (units, bytes) != (record.stored_units, record.stored_bytes) {
            let why = format!("counts {} units, the map has {units}", record.stored_units);
            walk.report.add(Damage {
                what: "commit record".into(),
                offset: 0,
                why,
            });
        }
        self.check_catalog(&mut walk, record.catalog)?;
        self.check_space(&mut walk, record.space)?;
        let reserved = LOCK_BYTES
            .end
            .min(record.end)
            .saturating_sub(LOCK_BYTES.start);
        walk.report.lost_bytes =
            (record.end - DATA_START).saturating_sub(walk.used.total() + reserved);
        Ok(walk.report)
    }

    fn check_tree(
        &mut self,
        walk: &mut Walk<'_>,
        pointer: Pointer,
        level: u8,
        index: u64,
    ) -> Result<(u64, u64)> {
        if pointer.is_none() || !walk.claim("page map node", pointer.offset, pointer.len.into()) {
            return Ok((0, 0));
        }
        let node = self.medium.node(pointer, level);
        let Some(node) = walk.note(node)? else {
            return Ok((0, 0));
        };
        walk.report.nodes += 1;
        let (mut units, mut bytes) = (0, 0);
        match &*node {
            Node::Inner(children) => {
                for (slot, child) in children.iter().enumerate() {
                    let index = index * FANOUT as u64 + slot as u64;
                    let (below_units, below_bytes) =
                        self.check_tree(walk, *child, level - 1, index)?;
                    units += below_units;
                    bytes += below_bytes;
                }
            }
            Node::Leaf(entries) => {
                for (slot, entry) in entries.iter().enumerate().filter(|(_, e)| !e.is_zero()) {
                    let unit = index * FANOUT as u64 + slot as u64;
                    let what = format!("page {}", self.page_number(unit));
                    walk.claim(&what, entry.offset, entry.len.into());
                    let mut page = std::mem::take(&mut walk.page);
                    let loaded = self.load(unit, entry, &mut page);
                    walk.page = page;
                    walk.note(loaded)?;
                    units += 1;
                    bytes += u64::from(entry.len);
                }
                walk.report.units += units;
                (walk.progress)(walk.report.units);
            }
        }
        Ok((units, bytes))
    }

    fn check_catalog(&mut self, walk: &mut Walk<'_>, pointer: Pointer) -> Result<()> {
        if pointer.is_none() || !walk.claim("catalog", pointer.offset, pointer.len.into()) {
            return Ok(());
        }
        let bytes = self.medium.extent(pointer, "catalog");
        let Some(bytes) = walk.note(bytes)? else {
            return Ok(());
        };
        let Some(catalog) = Catalog::decode(&bytes) else {
            let offset = pointer.offset;
            walk.report.add(Damage {
                what: "catalog".into(),
                offset,
                why: "malformed".into(),
            });
            return Ok(());
        };
        for (index, pointer) in catalog.pointers().enumerate() {
            if walk.claim("dictionary", pointer.offset, pointer.len.into()) {
                let id = u16::try_from(index + 1).unwrap_or(u16::MAX);
                let found = catalog.get(id, &self.medium).map(|_| ());
                walk.note(found)?;
            }
        }
        Ok(())
    }

    fn check_space(&mut self, walk: &mut Walk<'_>, head: Pointer) -> Result<()> {
        let read = |pointer| self.medium.extent(pointer, "free-space chain");
        let space = Space::load(head, walk.end, read);
        let Some(space) = walk.note(space)? else {
            return Ok(());
        };
        for pointer in space.chain() {
            walk.claim("free-space chain", pointer.offset, pointer.len.into());
        }
        for (offset, len) in space.all_free().iter() {
            walk.claim("free space", offset, len);
        }
        Ok(())
    }

    /// Where the space of the file goes.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn info(&mut self) -> Result<Info> {
        self.refresh()?;
        let mut head = [0; 100];
        self.read(0, &mut head)?;
        let mut info = Info {
            page_size: self.page_size,
            unit_size: self.unit_size,
            file_bytes: self.medium.disk.len()?,
            ..Info::default()
        };
        let Some(commit) = self.commit else {
            return Ok(info);
        };
        let record = commit.record;
        info.seq = record.seq;
        info.logical_bytes = record.size;
        info.stored_units = record.stored_units;
        info.stored_bytes = record.stored_bytes;
        info.free_bytes = record.free_bytes;
        info.dictionaries = self.catalog.pointers().map(|pointer| pointer.len).collect();
        let mut counts = [[(0, 0); 2]; Codec::ALL.len()];
        for leaf in 0..record
            .size
            .div_ceil(u64::from(record.unit_size))
            .div_ceil(FANOUT as u64)
        {
            let Some(node) = self.map.leaf_on_disk(leaf, &self.medium)? else {
                continue;
            };
            let Node::Leaf(entries) = &*node else {
                continue;
            };
            for entry in entries.iter().filter(|entry| !entry.is_zero()) {
                let with = usize::from(entry.storage.dict != 0);
                let (units, bytes) = &mut counts[entry.storage.codec as usize][with];
                *units += 1;
                *bytes += u64::from(entry.len);
            }
        }
        for (codec, counts) in Codec::ALL.iter().zip(counts) {
            for (suffix, (units, bytes)) in ["", "+dictionary"].iter().zip(counts) {
                if units > 0 {
                    info.codecs
                        .push((format!("{}{suffix}", codec.name()), units, bytes));
                }
            }
        }
        Ok(info)
    }

    /// Where the SQLite page with this number (from 1) is stored: offset in the file, and its share
    /// of its unit's stored bytes. `None` if nothing is stored for it.
    ///
    /// # Errors
    /// When the page map cannot be read.
    pub fn place_of_page(&mut self, number: u64) -> Result<Option<(u64, u64)>> {
        self.refresh()?;
        let share = u64::from(self.unit_size / self.page_size.min(self.unit_size));
        let entry = self.entry(number.saturating_sub(1) / share)?;
        Ok((!entry.is_zero()).then(|| (entry.offset, u64::from(entry.len).div_ceil(share))))
    }
}
