//! Writes a whole database into an empty packed file, in the order in which it is read best and with the dictionaries
//! that it needs.

use litepack_btree::{HEADER_LEN, page_size};
use litepack_codec::DictId;
use litepack_io::interrupt;
use litepack_io::memory;
use litepack_io::storage::Storage;
use litepack_store::{Error, Listed, Result, Store, Unit};

use crate::plan::{Effort, Plan, Source};
use crate::references::{Estimate, Groups, References};

/// Bytes that are read at once: whole units, whatever their size.
const CHUNK: u64 = 1 << 20;

/// Who wants to know how far it is.
pub trait Watch: Sync {
    /// So many bytes were tried of how many, to choose dictionaries by, from any thread: 0 first, once it is known which
    /// there are.
    fn choosing(&self, _done: u64, _all: u64) {}

    /// So many more bytes of the database are written: 0 first.
    fn filling(&self, _more: u64) {}
}

/// Nobody does.
impl Watch for () {}

/// Writes a database of `size` bytes into the store, whose file is empty, as one commit that is durable in both slots.
///
/// # Errors
/// If the database cannot be read, the file cannot be written, or there is an interrupt.
pub fn fill<D: Storage>(
    store: &mut Store<D>,
    size: u64,
    effort: Effort,
    source: &mut impl Source,
    watch: &impl Watch,
) -> Result<()> {
    let mut head = [0; HEADER_LEN];
    let has_head = size >= HEADER_LEN as u64;
    if has_head {
        read(source, 0, &mut head)?;
    }
    let page_size = has_head.then(|| page_size(&head)).flatten();
    let unit = page_size.map_or(4096, |size| size.max(4096));
    if size == 0 {
        // The first write makes the file a packed one; the database in it is still empty.
        store.write(0, &memory::zeros(unit as usize)?)?;
        store.truncate(0)?;
    }
    let choosing = |done, all| watch.choosing(done, all);
    let plan = Plan::make_watched(size, unit, effort, Vec::new(), source, &choosing)?;
    let estimate = Estimate::of(size, unit, effort, &plan, source)?;
    let groups = Groups::worthwhile(size, unit, effort, &plan, source)?;
    let mut references = References::with_groups(estimate.as_ref(), groups, unit, effort)?;
    watch.filling(0);
    let dictionaries = plan.dictionary_lens()?;
    let front = plan.front(store.opening(), size / u64::from(unit), &dictionaries);
    store.fill_in_order(front)?;
    let mut numbers = Vec::new();
    for Listed {
        dictionary,
        signatures,
        ..
    } in plan.planned()
    {
        numbers.push(store.add_dictionary(dictionary, signatures.clone())?);
    }
    let number_of = |at: usize| numbers.get(at).copied().unwrap_or(0);
    for (long, short) in plan.beside() {
        store.replace_dictionary(number_of(long), number_of(short))?;
    }
    let number = |unit| -> DictId { plan.dictionary_of(unit).map_or(0, number_of) };
    let mut buf = memory::zeros(CHUNK as usize)?;
    let mut offset = 0;
    while offset < size {
        interrupt::check()?;
        let wanted = CHUNK.min(size - offset);
        let pages = buf.get_mut(..wanted as usize).unwrap_or_default();
        read(source, offset, pages)?;
        if let Some(references) = &mut references {
            let first = Unit::holding(offset, unit);
            references.write(store, source, (first, pages), &number)?;
        } else {
            // One unit at a time: the first write tells the store how long a unit is.
            for (part, at) in pages
                .chunks(unit as usize)
                .zip((offset..).step_by(unit as usize))
            {
                store.write_with(at, part, number(Unit::holding(at, unit)))?;
            }
        }
        offset += wanted;
        watch.filling(wanted);
    }
    plan.finish(store)?;
    store.flush_both_slots()
}

fn read(source: &mut impl Source, offset: u64, buf: &mut [u8]) -> Result<()> {
    match source.read(offset, buf) {
        true => Ok(()),
        false => Err(Error::Io(std::io::Error::other(
            "the database that is packed cannot be read",
        ))),
    }
}
