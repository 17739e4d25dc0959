//! Is every byte of a file accounted for and readable?

use crate::error::{Damage, Result};
use crate::format::layout::{DATA_START, lock_bytes_below};
use crate::inspect::walk::Survey;
use crate::snapshot::store::Store;
use litepack_io::storage::Storage;

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
}

impl<D: Storage> Store<D> {
    /// Reads and decodes everything the newest commit refers to, and accounts for every byte of the
    /// file. `progress` is called with the number of units passed so far.
    ///
    /// # Errors
    /// Only when the file cannot be read at all, or others commit too much meanwhile; damage is in the report.
    pub fn check(&mut self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        self.refresh()?;
        self.steadily(|store| store.check_once(progress), CheckReport::is_ok)
    }

    fn check_once(&mut self, progress: &mut dyn FnMut(u64)) -> Result<CheckReport> {
        let Some(commit) = self.commit else {
            return Ok(CheckReport::default());
        };
        // The extents themselves are checked, not copies of them.
        let bundle = self.medium.bundle.take();
        let record = commit.record;
        let mut survey = Survey::new(record.end);
        let mut page = litepack_io::memory::zeros(self.unit_size as usize)?;
        let (mut units, mut bytes) = (0, 0);
        self.survey_map(&mut survey, &record, |store, survey, first, entries| {
            let stored = (first..)
                .zip(entries.iter())
                .filter(|(_, entry)| !entry.is_zero());
            for (unit, entry) in stored {
                let what = format!("page {}", store.page_number(unit));
                survey.claim(&what, entry.offset, entry.len.into());
                let loaded = store.load(unit, &entry, &mut page);
                survey.note(loaded)?;
                units += 1;
                bytes += u64::from(entry.len);
            }
            progress(units);
            Ok(())
        })?;
        if survey.damage.is_empty() && (units, bytes) != (record.stored_units, record.stored_bytes)
        {
            let why = format!("counts {} units, the map has {units}", record.stored_units);
            survey.add(Damage {
                what: "commit record".into(),
                offset: 0,
                why,
            });
        }
        self.survey_catalog(&mut survey, record.catalog)?;
        self.survey_bundle(&mut survey, record.bundle)?;
        self.medium.bundle = bundle;
        self.survey_space(&mut survey, record.space)?;
        let known = DATA_START + survey.used.total() + lock_bytes_below(record.end);
        Ok(CheckReport {
            units,
            nodes: survey.nodes,
            lost_bytes: record.end.saturating_sub(known),
            damage: survey.damage,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::snapshot::store::{Options, Store};
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
        assert!(store.check(&mut |_| {}).unwrap().is_ok());
        let record = store.commit.unwrap().record;
        let number = store.catalog.used().next().expect("a dictionary");
        store.catalog.get(number, &store.medium).unwrap().unwrap();
        let dictionary = store.catalog.pointers().next().expect("a dictionary");
        for (what, place) in [("page map node", record.map), ("dictionary", dictionary)] {
            let mut byte = [0];
            disk.read_at(&mut byte, place.offset).unwrap();
            disk.write_at(&[!byte[0]], place.offset).unwrap();
            let damage = store.check(&mut |_| {}).unwrap().damage;
            assert!(
                damage.iter().any(|found| found.what.starts_with(what)),
                "{what}: {damage:?}"
            );
            disk.write_at(&byte, place.offset).unwrap();
        }
    }
}
