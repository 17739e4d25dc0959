//! The write buffer: pages that a transaction has written, until they are encoded.
//!
//! They are collected by unit, so that what is written twice is stored once. When there are many, workers
//! begin to encode while SQLite still brings the rest; what they have not begun at the end, the
//! handle encodes itself. A unit written again gets new memory, and what was encoded of the old one is
//! dropped: a result counts only for the very page it was made from. Such a unit is left for the end: however
//! often it is written, there is one former page of it at most.
//!
//! Units that may be stored as differences are compared first, by the handle (`differences.rs`). Workers are given
//! only what is to be encoded as a whole.
//!
//! At the end units come out in groups as they arrived, each group in the order of its units: SQLite writes
//! a commit's pages in order. The handle finds a group its place while workers encode the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use litepack_codec::{DictId, Encoding, Level};

use crate::error::Result;
use crate::format::guard::{Seal, Sealer, Voucher};
use crate::format::unit::Unit;
use crate::medium::dictionaries::Choice;
use crate::medium::tools::{Tools, Workers};
use crate::snapshot::pages::Overlay;
use crate::transaction::differences::Difference;
use litepack_io::cache::copy_into;
use litepack_io::fixed;
use litepack_io::results::Results;

/// Units from which on a worker is worth its start, and one more for as many again.
const UNITS_PER_WORKER: usize = 32;
/// Units a worker is given at a time: few, because the handle may have to wait for the last.
const UNITS_PER_JOB: usize = 8;
/// Jobs whose units get their places together.
const JOBS_PER_GROUP: usize = 16;
/// Bytes of pages that stay with the handle for its next transaction: as many as an ordinary checkpoint
/// writes. Taking them from the system anew, page fault by page fault, costs a fifth of it.
const SPARE_MAX: usize = 4 << 20;

/// How units are encoded.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) level: Level,
    pub(crate) columnar: bool,
    pub(crate) sealer: Sealer,
}

/// A unit before encoding, and what it is to be stored with.
#[derive(Clone, Debug)]
struct Page {
    bytes: Arc<[u8]>,
    choice: Choice,
    /// How it is stored, if that is no whole.
    difference: Option<Difference>,
}

/// A unit that is to be stored as a difference.
#[derive(Debug)]
pub(crate) struct Differing {
    pub(crate) unit: Unit,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) choice: Choice,
    pub(crate) difference: Difference,
}

/// A unit after encoding: how, and where in its part's bytes. No bytes means all zero.
#[derive(Debug)]
struct Encoded {
    unit: Unit,
    page: Arc<[u8]>,
    storage: Encoding,
    voucher: Voucher,
    start: usize,
    len: usize,
}

/// Some units that were encoded together, and the number of the job they were.
#[derive(Debug)]
struct Part {
    job: usize,
    bytes: Vec<u8>,
    encoded: Vec<Encoded>,
}

/// Buffered units, and what of them was given to workers.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    units: BTreeMap<Unit, Page>,
    bytes: usize,
    /// Units that have to be compared with what they were.
    undecided: Vec<Unit>,
    /// Units that are stored as differences, and how much longer that makes the differences of the file.
    differing: usize,
    growth: i64,
    /// Units to be encoded as a whole that no worker was given.
    waiting: Vec<Unit>,
    /// Units written again after a worker was given them.
    again: Vec<Unit>,
    given: Option<Given>,
    /// Memory of former pages.
    spare: Vec<Arc<[u8]>>,
}

/// Where results of workers arrive, and for how many jobs.
#[derive(Debug, Default)]
struct Given {
    results: Results<Part>,
    jobs: usize,
}

impl Overlay for WriteBuffer {
    fn unit(&self, unit: Unit) -> Option<&[u8]> {
        self.get(unit)
    }
}

impl WriteBuffer {
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Bytes of pages held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The unit, if it is here.
    pub(crate) fn get(&self, unit: Unit) -> Option<&[u8]> {
        self.units.get(&unit).map(|page| &*page.bytes)
    }

    /// Adds a whole unit that is not here yet, and is encoded as a whole.
    pub(crate) fn insert(&mut self, unit: Unit, bytes: &[u8], choice: Choice) -> Result<()> {
        self.add(unit, bytes, choice)?;
        self.waiting.push(unit);
        Ok(())
    }

    /// Adds a whole unit that is not here yet, and is to be compared with what it was.
    pub(crate) fn insert_undecided(
        &mut self,
        unit: Unit,
        bytes: &[u8],
        choice: Choice,
    ) -> Result<()> {
        self.add(unit, bytes, choice)?;
        self.undecided.push(unit);
        Ok(())
    }

    fn add(&mut self, unit: Unit, bytes: &[u8], choice: Choice) -> Result<()> {
        let copy = copy_into(self.spare.pop(), bytes)?;
        self.bytes += bytes.len();
        let page = Page {
            bytes: copy,
            choice,
            difference: None,
        };
        self.units.insert(unit, page);
        Ok(())
    }

    /// Units that are to be compared with what they were. The caller says of each how it is stored.
    pub(crate) fn take_undecided(&mut self) -> Vec<Unit> {
        std::mem::take(&mut self.undecided)
    }

    /// A unit that was compared is stored so: as a difference, or as a whole.
    pub(crate) fn decide(&mut self, unit: Unit, difference: Option<Difference>) {
        let Some(page) = self.units.get_mut(&unit) else {
            // It was cut off.
            return;
        };
        match &difference {
            Some(difference) => {
                self.differing += 1;
                self.growth = self.growth.saturating_add(difference.growth);
            }
            None => self.waiting.push(unit),
        }
        page.difference = difference;
    }

    /// By how much the differences here make those of the file longer.
    pub(crate) fn growth(&self) -> i64 {
        self.growth
    }

    /// A page is not stored as this difference after all.
    fn forget(&mut self, difference: &Difference) {
        self.differing -= 1;
        self.growth = self.growth.saturating_sub(difference.growth);
    }

    /// Takes out the units that are stored as differences, in order.
    pub(crate) fn take_differing(&mut self) -> Vec<Differing> {
        if self.differing == 0 {
            return Vec::new();
        }
        let is_differing = |_: &Unit, page: &mut Page| page.difference.is_some();
        let taken = self.units.extract_if(.., is_differing);
        let taken = taken.filter_map(|(unit, page)| {
            Some(Differing {
                unit,
                bytes: page.bytes,
                choice: page.choice,
                difference: page.difference?,
            })
        });
        let taken: Vec<Differing> = taken.collect();
        self.bytes -= taken.iter().map(|page| page.bytes.len()).sum::<usize>();
        (self.differing, self.growth) = (0, 0);
        taken
    }

    /// Puts a unit back that was taken out, to be encoded as a whole.
    pub(crate) fn put_back(&mut self, taken: Differing) {
        self.bytes += taken.bytes.len();
        self.waiting.push(taken.unit);
        let page = Page {
            bytes: taken.bytes,
            choice: taken.choice,
            difference: None,
        };
        self.units.insert(taken.unit, page);
    }

    /// Keeps the memory of a page that is stored now.
    pub(crate) fn reuse_page(&mut self, mut page: Arc<[u8]>) {
        let held: usize = self.spare.len() * page.len();
        if held < fixed::part(SPARE_MAX) && Arc::get_mut(&mut page).is_some() {
            self.spare.push(page);
        }
    }

    /// Decides again how everything buffered is stored, given the page and the number it had. Units already encoded are
    /// dropped. None waits to be compared.
    pub(crate) fn choose_again(
        &mut self,
        workers: &mut Workers,
        mut choice: impl FnMut(&[u8], DictId) -> Result<Choice>,
    ) -> Result<()> {
        workers.clear();
        self.given = None;
        self.again.clear();
        self.waiting.clear();
        for (unit, page) in &mut self.units {
            page.choice = choice(&page.bytes, page.choice.number)?;
            if page.difference.is_none() {
                self.waiting.push(*unit);
            }
        }
        Ok(())
    }

    /// Forgets everything but the memory.
    pub(crate) fn clear(&mut self) {
        *self = WriteBuffer {
            spare: std::mem::take(&mut self.spare),
            ..WriteBuffer::default()
        };
    }

    /// Keeps the memory of pages that are stored now.
    pub(crate) fn reuse(&mut self, finished: Finished) {
        for encoded in finished.parts.into_iter().flat_map(|part| part.encoded) {
            self.reuse_page(encoded.page);
        }
    }

    /// Changes `within` a unit. False if the unit is not here.
    pub(crate) fn change(&mut self, unit: Unit, within: usize, bytes: &[u8]) -> Result<bool> {
        let Some(page) = self.units.get_mut(&unit) else {
            return Ok(false);
        };
        if Arc::get_mut(&mut page.bytes).is_none() {
            litepack_io::memory::probe(page.bytes.len())?;
            self.again.push(unit);
        }
        #[expect(
            clippy::indexing_slicing,
            reason = "`bytes` do not reach past their unit"
        )]
        Arc::make_mut(&mut page.bytes)[within..within + bytes.len()].copy_from_slice(bytes);
        let difference = page.difference.take();
        if let Some(difference) = difference {
            self.forget(&difference);
            self.undecided.push(unit);
        }
        Ok(true)
    }

    /// Forgets all but the first `kept` units of the database.
    pub(crate) fn truncate(&mut self, kept: u64) {
        let cut = self.units.split_off(&Unit(kept));
        for page in cut.values() {
            self.bytes -= page.bytes.len();
            if let Some(difference) = &page.difference {
                self.forget(difference);
            }
        }
        self.undecided.retain(|unit| unit.0 < kept);
    }

    /// Whether enough units wait for [`WriteBuffer::begin`] to be worth calling.
    pub(crate) fn is_worth_beginning(&self) -> bool {
        self.waiting.len() >= UNITS_PER_JOB && self.is_for_workers()
    }

    /// The same, of units that have to be compared first.
    pub(crate) fn is_worth_comparing(&self) -> bool {
        self.undecided.len() >= UNITS_PER_JOB && self.is_for_workers()
    }

    fn is_for_workers(&self) -> bool {
        self.units.len() - self.differing >= UNITS_PER_WORKER
    }

    /// Has workers encode the units that wait, as `recipe` says. Their seals are taken here: workers would take them by
    /// turns, and those of neighbours would be none.
    pub(crate) fn begin(
        &mut self,
        recipe: &Recipe,
        limit: usize,
        workers: &mut Workers,
    ) -> Result<()> {
        let given = self.given.get_or_insert_default();
        let limit = limit.min((self.units.len() - self.differing) / UNITS_PER_WORKER);
        for job in self.waiting.chunks(UNITS_PER_JOB) {
            let (units, recipe) = (&self.units, recipe.clone());
            let promise = given.results.promise();
            let number = given.jobs;
            given.jobs += 1;
            // A unit that was cut off is not here any more.
            let pages = job
                .iter()
                .filter_map(|unit| Some((*unit, units.get(unit)?.clone())));
            let seals = recipe.sealer.seals(job.len())?;
            let pages = pages.zip(seals).collect();
            let job = move |tools: &mut Tools| {
                // Without memory there is no result: the handle will find out itself.
                if let Ok(part) = encode(number, pages, &recipe, tools) {
                    promise.keep(part);
                }
            };
            workers.give(limit, Box::new(job));
        }
        self.waiting.clear();
        Ok(())
    }

    /// Takes everything buffered out, to be encoded as `recipe` says: no unit is a difference any more. Units that no
    /// worker was given come in groups only if that is wanted.
    pub(crate) fn finish(
        &mut self,
        recipe: Recipe,
        limit: usize,
        workers: &mut Workers,
        in_groups: bool,
    ) -> Result<Finishing> {
        self.waiting.append(&mut self.again);
        if limit > 0 && self.is_worth_beginning() {
            self.begin(&recipe, limit, workers)?;
        }
        let finishing = Finishing {
            recipe,
            units: std::mem::take(&mut self.units),
            // The results end when the last job has ended, be it by a panic.
            results: self.given.take().map(|given| given.results),
            early: BTreeMap::new(),
            next: 0,
            in_groups,
        };
        self.clear();
        Ok(finishing)
    }
}

/// The buffered units, on their way out of the buffer.
#[derive(Debug)]
pub(crate) struct Finishing {
    recipe: Recipe,
    units: BTreeMap<Unit, Page>,
    /// `None` when all jobs have ended.
    results: Option<Results<Part>>,
    /// Results that came before their turn.
    early: BTreeMap<usize, Part>,
    /// The job whose turn it is.
    next: usize,
    /// Units that no worker was given come in groups, too.
    in_groups: bool,
}

impl Finishing {
    /// The next group; `None` at the end. The caller encodes what no worker has begun.
    ///
    /// # Errors
    /// When there is no memory for that, or it was interrupted.
    pub(crate) fn group(
        &mut self,
        workers: &Workers,
        tools: &mut Tools,
    ) -> Result<Option<Finished>> {
        let mut finished = Finished::default();
        while finished.parts.len() < JOBS_PER_GROUP
            && let Some(part) = self.part(workers, tools)
        {
            finished.take_up(part, &mut self.units);
            litepack_io::interrupt::check()?;
        }
        // Units that no worker was given, or that were written again since.
        if finished.parts.is_empty() && !self.units.is_empty() {
            let mut units = self.units.keys().copied();
            let next = units.nth(JOBS_PER_GROUP * UNITS_PER_JOB);
            let next = next.filter(|_| self.in_groups);
            let later = next.map(|next| self.units.split_off(&next));
            let mut units = std::mem::replace(&mut self.units, later.unwrap_or_default());
            let pages = units.iter().map(|(unit, page)| (*unit, page.clone()));
            let seals = self.recipe.sealer.seals(units.len())?;
            let pages = litepack_io::memory::collect(pages.zip(seals))?;
            let part = encode(0, pages, &self.recipe, tools)?;
            finished.take_up(part, &mut units);
        }
        finished.order.sort_unstable();
        Ok((!finished.parts.is_empty()).then_some(finished))
    }

    /// The result of the next job.
    fn part(&mut self, workers: &Workers, tools: &mut Tools) -> Option<Part> {
        loop {
            if let Some(part) = self.early.remove(&self.next) {
                self.next += 1;
                return Some(part);
            }
            let Some(results) = &self.results else {
                // A job that ended by a panic has no result.
                let (job, part) = self.early.pop_first()?;
                self.next = job + 1;
                return Some(part);
            };
            let arrived = match results.take() {
                None if workers.work_some(tools) => continue,
                None => results.wait(),
                arrived => arrived,
            };
            match arrived {
                Some(part) => drop(self.early.insert(part.job, part)),
                None => self.results = None,
            }
        }
    }
}

/// A group of encoded units.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    parts: Vec<Part>,
    /// (unit, its part, its place in there)
    order: Vec<(Unit, usize, usize)>,
}

/// One encoded unit; no bytes mean that it is all zero.
pub(crate) struct Stored<'a> {
    pub(crate) unit: Unit,
    /// Before encoding.
    pub(crate) page: &'a [u8],
    pub(crate) bytes: &'a [u8],
    pub(crate) voucher: Voucher,
    pub(crate) storage: Encoding,
}

impl Finished {
    /// Adds what was encoded of the pages in `units`, and takes those out of there.
    fn take_up(&mut self, part: Part, units: &mut BTreeMap<Unit, Page>) {
        for (place, encoded) in part.encoded.iter().enumerate() {
            let unit = encoded.unit;
            if units
                .get(&unit)
                .is_some_and(|page| Arc::ptr_eq(&page.bytes, &encoded.page))
            {
                units.remove(&unit);
                self.order.push((unit, self.parts.len(), place));
            }
        }
        self.parts.push(part);
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "`take_up` has noted where parts have them, and `encode` where their bytes are"
    )]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Stored<'_>> + Clone {
        self.order.iter().map(|(unit, part, place)| {
            let part = &self.parts[*part];
            let encoded = &part.encoded[*place];
            Stored {
                unit: *unit,
                page: &encoded.page,
                bytes: &part.bytes[encoded.start..encoded.start + encoded.len],
                voucher: encoded.voucher,
                storage: encoded.storage,
            }
        })
    }
}

fn encode(
    job: usize,
    mut pages: Vec<((Unit, Page), Seal)>,
    recipe: &Recipe,
    tools: &mut Tools,
) -> Result<Part> {
    // Where memory is short an encoder has only one dictionary prepared at a time.
    pages.sort_by_key(|((_, page), _)| page.choice.number);
    let encoder = tools.encoder(recipe.level, recipe.columnar);
    let mut bytes = litepack_io::memory::with_room(pages.len() * 1024)?;
    let mut encoded = litepack_io::memory::with_room(pages.len())?;
    for ((unit, page), seal) in pages {
        let start = bytes.len();
        let Page {
            bytes: page,
            choice,
            ..
        } = page;
        let (storage, voucher) = if page.iter().all(|byte| *byte == 0) {
            (Encoding::RAW, Voucher::NONE)
        } else {
            let codec = encoder.encode(&page, choice.dictionary.as_deref(), &mut bytes)?;
            let voucher = recipe.sealer.unit_with(seal, codec, &mut bytes, start)?;
            (choice.encoding(codec, recipe.level), voucher)
        };
        encoded.push(Encoded {
            unit,
            page,
            storage,
            voucher,
            start,
            len: bytes.len() - start,
        });
    }
    Ok(Part {
        job,
        bytes,
        encoded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::guard::Guard;
    use crate::format::layout::FileUuid;
    use litepack_codec::Dictionary;

    const PAGE: usize = 4096;
    const RECIPE: Recipe = Recipe {
        level: 3,
        columnar: true,
        sealer: Sealer::new(Guard::sums(FileUuid([7; 16])), None),
    };

    fn page(number: u64) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        page[..8].copy_from_slice(&(number + 1).to_le_bytes());
        page
    }

    fn put(buffer: &mut WriteBuffer, unit: u64, content: u64) {
        let page = page(content);
        buffer.insert(Unit(unit), &page, Choice::default()).unwrap();
    }

    /// All groups: each in the order of its units, and nothing twice.
    fn finish(
        buffer: &mut WriteBuffer,
        limit: usize,
        workers: &mut Workers,
        tools: &mut Tools,
    ) -> BTreeMap<Unit, (Encoding, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut finishing = buffer.finish(RECIPE, limit, workers, true).unwrap();
        while let Some(group) = finishing.group(workers, tools).unwrap() {
            assert!(group.order.is_sorted());
            for stored in group.iter() {
                let mut page = vec![0; PAGE];
                let (codec, bytes) = (stored.storage.codec, stored.bytes);
                let dictionary = Dictionary::shared(self::page(5));
                let dictionary = Some(&*dictionary).filter(|_| stored.storage.dict > 0);
                (tools.decoder)
                    .decode(codec, bytes, dictionary, &mut page)
                    .unwrap();
                assert_eq!(stored.voucher.sum, FileUuid([7; 16]).sum32(stored.bytes));
                let former = found.insert(stored.unit, (stored.storage, page));
                assert!(former.is_none());
            }
            buffer.reuse(group);
        }
        found
    }

    fn assert_holds(
        found: BTreeMap<Unit, (Encoding, Vec<u8>)>,
        expected: impl Iterator<Item = (u64, Vec<u8>)>,
    ) {
        let found = found.into_iter().map(|(unit, (_, page))| (unit.0, page));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    /// 64 units that a worker was given, and has begun with all of them.
    fn begun(workers: &mut Workers) -> WriteBuffer {
        let mut buffer = WriteBuffer::default();
        for unit in 0..64 {
            put(&mut buffer, unit, unit);
        }
        buffer.begin(&RECIPE, 1, workers).unwrap();
        while workers.waiting() > 0 {
            std::thread::yield_now();
        }
        buffer
    }

    #[test]
    fn all_units_come_out_whoever_encoded_them() {
        for limit in [0, 1, 3] {
            let (mut workers, mut tools) = (Workers::default(), Tools::default());
            let mut buffer = WriteBuffer::default();
            for unit in (0..300).rev() {
                put(&mut buffer, unit, unit);
                if limit > 0 && buffer.is_worth_beginning() {
                    buffer.begin(&RECIPE, limit, &mut workers).unwrap();
                }
            }
            let found = finish(&mut buffer, limit, &mut workers, &mut tools);
            assert_holds(found, (0..300).map(|unit| (unit, page(unit))));
        }
    }

    #[test]
    fn a_unit_written_again_is_stored_as_it_was_written_last() {
        let (mut workers, mut tools) = (Workers::default(), Tools::default());
        let mut buffer = begun(&mut workers);
        for round in (0..100).rev() {
            for unit in (0..64).step_by(3) {
                let page = page(unit + 1000 + round);
                assert!(buffer.change(Unit(unit), 0, &page).unwrap());
            }
            assert!(!buffer.is_worth_beginning());
        }
        assert_eq!(buffer.again.len(), 22, "each counts once");
        assert!(!buffer.change(Unit(64), 0, &[1]).unwrap());
        buffer.truncate(60);
        assert_eq!(buffer.bytes(), 60 * PAGE);
        let found = finish(&mut buffer, 1, &mut workers, &mut tools);
        let newest = |unit| page(if unit % 3 == 0 { unit + 1000 } else { unit });
        assert_holds(found, (0..60).map(|unit| (unit, newest(unit))));
    }

    #[test]
    fn a_dictionary_that_came_later_is_used_for_all() {
        let with = Choice {
            number: 1,
            dictionary: Some(Dictionary::shared(page(5))),
            level: 3,
        };
        let (mut workers, mut tools) = (Workers::default(), Tools::default());
        let mut buffer = begun(&mut workers);
        buffer
            .choose_again(&mut workers, |_, _| Ok(with.clone()))
            .unwrap();
        let found = finish(&mut buffer, 1, &mut workers, &mut tools);
        assert!(found.values().all(|(storage, _)| storage.dict == 1));
        assert_holds(found, (0..64).map(|unit| (unit, page(unit))));
    }

    #[test]
    fn memory_is_used_again_and_bounded() {
        let (mut workers, mut tools) = (Workers::default(), Tools::default());
        let mut buffer = WriteBuffer::default();
        let mut write = |buffer: &mut WriteBuffer, count: usize, version: u64| {
            for unit in 0..count as u64 {
                put(buffer, unit, unit + version);
            }
            let found = finish(buffer, 1, &mut workers, &mut tools);
            let pages = |unit| (unit, page(unit + version));
            assert_holds(found, (0..count as u64).map(pages));
        };
        write(&mut buffer, 100, 0);
        assert_eq!(buffer.spare.len(), 100);
        let kept = buffer.spare[0].as_ptr();
        write(&mut buffer, 100, 1000);
        assert_eq!(buffer.spare.len(), 100);
        assert!(buffer.spare.iter().any(|page| page.as_ptr() == kept));
        write(&mut buffer, SPARE_MAX / PAGE + 100, 0);
        assert_eq!(buffer.spare.len(), SPARE_MAX / PAGE);
    }

    #[test]
    fn a_job_that_ends_by_a_panic_is_done_again() {
        let (mut workers, mut tools) = (Workers::default(), Tools::default());
        let mut buffer = begun(&mut workers);
        // As if two of the eight had: their results never come.
        let given = buffer.given.as_mut().unwrap();
        let results = Results::default();
        while let Some(part) = given.results.wait() {
            if part.job % 5 != 0 {
                results.promise().keep(part);
            }
        }
        given.results = results;
        let found = finish(&mut buffer, 1, &mut workers, &mut tools);
        assert_holds(found, (0..64).map(|unit| (unit, page(unit))));
    }

    #[test]
    fn few_units_start_no_thread() {
        let (mut workers, mut tools) = (Workers::default(), Tools::default());
        let mut buffer = WriteBuffer::default();
        for unit in 0..UNITS_PER_WORKER as u64 - 1 {
            put(&mut buffer, unit, unit);
            assert!(!buffer.is_worth_beginning());
        }
        let found = finish(&mut buffer, 1, &mut workers, &mut tools);
        assert_eq!(found.len(), UNITS_PER_WORKER - 1);
        assert!(workers.started() == 0);
    }
}
