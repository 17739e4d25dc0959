//! Is every byte of a file accounted for and readable?

use crate::disk::Disk;
use crate::error::{Damage, Result};
use crate::layout::{DATA_START, lock_bytes_below};
use crate::store::Store;
use crate::survey::Survey;

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
        // The extents themselves are checked, not copies of them.
        let bundle = self.medium.bundle.take();
        let record = commit.record;
        let mut survey = Survey::new(record.end);
        let mut page = vec![0; self.unit_size as usize];
        let (mut units, mut bytes) = (0, 0);
        self.survey_map(&mut survey, &record, |store, survey, first, entries| {
            let stored = (first..).zip(entries).filter(|(_, entry)| !entry.is_zero());
            for (unit, entry) in stored {
                let what = format!("page {}", store.page_number(unit));
                survey.claim(&what, entry.offset, entry.len.into());
                let loaded = store.load(unit, entry, &mut page);
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
