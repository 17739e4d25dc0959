//! Maintenance of a packed database: drops free pages, trains dictionaries as `pack` would, recompresses outdated
//! pages, stores text once that several have in common, drops unused dictionaries, reorders extents and returns free
//! space.
//!
//! It works in steps of about 20 milliseconds, each a transaction under the write lock, which the caller takes. The
//! plan of dictionaries is made before, without a lock: pages may change meanwhile, which only makes the result a
//! little larger. All progress is stored in the file, so maintenance can end at any time, and the next call continues.

use std::time::{Duration, Instant};

use litepack_codec::{DictId, Level};
use litepack_io::storage::Storage;
use litepack_store::{Erase, Reference, Reordering, Result, Store, Unit};

use crate::free_pages::FreePages;
use crate::plan::{Effort, Plan, Source};
use crate::references::{Estimate, References};

/// The part of the file that may be free and held for a log that stands on it, before nothing more is written anew.
const GROWTH: u64 = 8;
/// A step may do more than one thing as long as it takes no longer than this.
const STEP: Duration = Duration::from_millis(20);
/// The notes on which units have text in common, within the process of an application.
const NOTES_MAX: usize = 16 << 20;

/// Maintenance of one file, from one handle.
#[derive(Debug)]
pub struct Maintenance {
    level: Level,
    plan: Plan,
    /// For each dictionary of the plan its number in the file.
    numbers: Vec<DictId>,
    /// The number of pages without a dictionary.
    none: DictId,
    /// The catalog that all numbers are of.
    catalog: (u64, u64),
    free: Option<FreePages>,
    /// The savings of references, if they are worth it.
    estimate: Option<Estimate>,
    /// Their notes, while some are made.
    references: Option<References>,
    stage: Stage,
    /// Whether nothing is left to another time. If something is, the file does not count as maintained.
    is_complete: bool,
    /// Bytes of the file when all this began; it is to have no more afterwards.
    end: u64,
    /// The file is being put in order for the second time.
    again: bool,
}

/// Whether a former state of the database may be needed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// It may: there is a journal, or a log that is not all in the database. Free pages keep their content.
    Needed,
    /// No journal, log or reader can lead back to a state before the newest commit.
    Gone,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// There is not.
    Done,
    /// Someone else has changed the dictionaries: what is to be done has to be decided again.
    Outdated,
}

/// The next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    DropFreePages,
    AddDictionaries,
    /// From this unit on.
    Recompress(Unit),
    /// The same.
    Refer(Unit),
    DropDictionaries,
    /// From there on, if it was begun.
    Reorder(Option<Reordering>),
    /// From this point of the compaction on.
    Compact(u64),
    Finish,
    Done,
}

impl<D: Storage> Source for Store<D> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        Store::read(self, offset, buf).is_ok_and(|n| n == buf.len())
    }

    fn dictionary_of(&mut self, unit: Unit) -> DictId {
        Store::dictionary_of(self, unit).unwrap_or(0)
    }

    fn reference(&mut self, unit: Unit) -> Option<Reference> {
        Store::reference(self, unit).ok()
    }
}

/// The units that stay when free pages are dropped. The text of a table that was deleted is often that of another one.
struct Kept<'a, D: Storage> {
    store: &'a mut Store<D>,
    free: Option<&'a FreePages>,
}

impl<D: Storage> Source for Kept<'_, D> {
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> bool {
        let unit = Unit::holding(offset, self.store.unit_size());
        let is_dropped = self.free.is_some_and(|free| free.has(unit));
        !is_dropped && Source::read(self.store, offset, buf)
    }

    fn dictionary_of(&mut self, unit: Unit) -> DictId {
        Source::dictionary_of(self.store, unit)
    }

    fn reference(&mut self, unit: Unit) -> Option<Reference> {
        Source::reference(self.store, unit)
    }
}

/// The level to maintain a file at unless the user says another: the highest it was ever stored at.
pub fn default_level<D: Storage>(store: &Store<D>) -> Level {
    store.maintained_level().max(store.level())
}

fn is_grown<D: Storage>(store: &Store<D>) -> Result<bool> {
    Ok(store.held_bytes()? > store.end() / GROWTH)
}

impl Maintenance {
    /// Looks at the database and decides what to do.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn plan<D: Storage>(
        store: &mut Store<D>,
        level: Level,
        former: Former,
    ) -> Result<Maintenance> {
        store.refresh()?;
        store.verify_map()?;
        let known = store.dictionaries()?;
        let mut effort = Effort::ordinary(level, store.threads());
        if store.erase() == Erase::WithCommit {
            // Rows that are deleted later would stay in a dictionary.
            effort.len_max = 0;
        }
        effort.notes_max = if store.may_refer() { NOTES_MAX } else { 0 };
        let (size, unit) = (store.size(), store.unit_size());
        let catalog = store.catalog_version();
        // While a log is copied into the database, page 1 may be of another state than the list that it names.
        let free = match former {
            Former::Gone => FreePages::find(store)?,
            Former::Needed => None,
        };
        let plan = Plan::make(size, unit, effort, known, store)?;
        let mut kept = Kept {
            store,
            free: free.as_ref(),
        };
        let estimate = Estimate::of(size, unit, effort, &plan, &mut kept)?;
        Ok(Maintenance {
            level,
            plan,
            estimate,
            references: None,
            numbers: Vec::new(),
            none: 0,
            catalog,
            free,
            stage: Stage::DropFreePages,
            is_complete: former == Former::Gone && store.may_refer(),
            end: store.end(),
            again: false,
        })
    }

    /// Whether the file will be shorter. If not, nothing is to be done.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn pays<D: Storage>(&self, store: &mut Store<D>) -> Result<bool> {
        if is_grown(store)? {
            return Ok(false);
        }
        let dropped = self.free.as_ref().map_or(0, FreePages::stored);
        let shared = self.estimate.as_ref().map_or(0, Estimate::saved);
        let beside = i64::try_from(dropped.saturating_add(shared)).unwrap_or(i64::MAX);
        store.would_be_shorter(self.plan.saved().saturating_add(beside))
    }

    /// The level it works at.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Does a little, and commits it. The caller holds the write lock.
    ///
    /// # Errors
    /// The store's; the last commit is current then, and this maintenance should be given up.
    pub fn step<D: Storage>(&mut self, store: &mut Store<D>, former: Former) -> Result<Progress> {
        store.refresh()?;
        if store.catalog_version() != self.catalog {
            return Ok(Progress::Outdated);
        }
        let (ordinary, begun) = (store.level(), Instant::now());
        store.set_level(self.level);
        if former == Former::Needed {
            self.is_complete &= self.free.is_none();
            self.free = None;
        }
        self.is_complete &= store.may_refer();
        if store.is_held()? {
            // Space that it frees is free when a log no longer needs it. Until then none is given back, and pages that are
            // written anew take their place twice.
            self.is_complete = false;
            if is_grown(store)? {
                self.stage = Stage::Finish;
            }
        }
        let mut result = Ok(());
        while result.is_ok() && self.stage != Stage::Done && begun.elapsed() < STEP {
            result = self.advance(store);
        }
        if result.is_err() {
            store.rollback();
        }
        store.set_level(ordinary);
        self.catalog = store.catalog_version();
        result.map(|()| match self.stage {
            Stage::Done => Progress::Done,
            _ => Progress::More,
        })
    }

    fn advance<D: Storage>(&mut self, store: &mut Store<D>) -> Result<()> {
        self.stage = match self.stage {
            Stage::DropFreePages => {
                let more = match &mut self.free {
                    Some(free) => free.drop_some(store)?,
                    None => false,
                };
                if more {
                    Stage::DropFreePages
                } else {
                    self.free = None;
                    Stage::AddDictionaries
                }
            }
            Stage::AddDictionaries => {
                self.add_dictionaries(store)?;
                store.commit()?;
                Stage::Recompress(Unit::FIRST)
            }
            Stage::Recompress(unit) => {
                let number = |unit| match self.plan.dictionary_of(unit) {
                    Some(index) => self.numbers[index],
                    None => self.none,
                };
                let next = store.recompress(unit, &number)?;
                store.commit()?;
                next.map_or(Stage::Refer(Unit::FIRST), Stage::Recompress)
            }
            Stage::Refer(unit) => {
                if let Some(estimate) = self.estimate.take() {
                    // Without memory for the notes, all units stay as they are.
                    self.references = References::new(&estimate).ok();
                }
                let next = match &mut self.references {
                    Some(references) => references.refer_some(store, unit)?,
                    None => None,
                };
                store.commit()?;
                if next.is_none() {
                    self.references = None;
                }
                next.map_or(Stage::DropDictionaries, Stage::Refer)
            }
            Stage::DropDictionaries => {
                // The dictionaries of the plan are kept even if no page is stored with them yet: the next pages will
                // be.
                let planned = self.plan.former().iter().filter_map(|(_, index)| *index);
                let mut kept: Vec<_> = planned.map(|index| self.numbers[index]).collect();
                kept.push(self.none);
                store.drop_unused_dictionaries(&kept)?;
                store.commit()?;
                store.flush()?;
                Stage::Reorder(None)
            }
            Stage::Reorder(at) => {
                let next = match at {
                    None => store.reorder()?,
                    Some(at) => store.reorder_some(at)?,
                };
                next.map_or(Stage::Compact(0), |next| Stage::Reorder(Some(next)))
            }
            Stage::Compact(at) => match store.compact_some(at)? {
                Some(next) => Stage::Compact(next),
                // Moved extents may have left holes that nothing fits into.
                None if !self.again => {
                    self.again = true;
                    Stage::Reorder(None)
                }
                None => Stage::Finish,
            },
            Stage::Finish => {
                if store.end() > self.end && !store.is_held()? {
                    store.compact_fully()?;
                }
                if self.is_complete && !store.is_held()? {
                    self.plan.finish(store)?;
                } else {
                    self.plan.lay_prefetch(store)?;
                    store.flush()?;
                    store.give_back();
                }
                store.flush_both_slots()?;
                Stage::Done
            }
            Stage::Done => Stage::Done,
        };
        Ok(())
    }

    /// Gives the file the dictionaries of the plan, and those it has at the level they are wanted at.
    fn add_dictionaries<D: Storage>(&mut self, store: &mut Store<D>) -> Result<()> {
        let former = self.plan.former();
        self.none = store.at_level(0)?;
        for (index, planned) in self.plan.planned().iter().enumerate() {
            let is_wanted = former.iter().any(|(_, wanted)| *wanted == Some(index));
            self.numbers.push(match planned.number {
                0 => store.add_dictionary(&planned.dictionary, planned.signatures.clone())?,
                number if is_wanted => store.at_level(number)?,
                number => number,
            });
        }
        for (long, short) in self.plan.beside() {
            store.replace_dictionary(self.numbers[long], self.numbers[short])?;
        }
        // Where all that had one dictionary gets one other, so do pages that are written meanwhile.
        for (number, index) in former.iter().filter(|(number, _)| *number != 0) {
            let mut same = former.iter().filter(|(other, _)| other == number);
            if let Some(index) = index
                && same.all(|(_, other)| *other == Some(*index))
                && self.plan.planned()[*index].number != *number
            {
                store.replace_dictionary(*number, self.numbers[*index])?;
            }
        }
        Ok(())
    }
}
