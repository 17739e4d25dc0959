//! Pages to stored versions and back, and decoded ones by the place of their record: those that were used last in memory
//! of the handle, others in the process's cache, if there is one for them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use litepack_codec::{BriefEncoder, Codec, Decoder};
use litepack_io::cache::{Cache, FileId, PageKey, PageRole, Spare, copy_into};
use litepack_io::memory::append;

use crate::error::{Error, Result};
use crate::format::changes;
use crate::format::record::{Form, PageVersion};

/// Bytes of decoded pages that are kept.
const KEPT_BYTES: usize = 6 << 20;
/// Each place may be in one of so many slots, which are a set, and the fewest sets.
const WAYS: usize = 4;
const SETS_MIN: usize = 4;
/// So many pages of a generation are in the process's cache, for one handle.
const CACHED_MAX: usize = 1 << 17;

/// Encodes and decodes pages.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    encoder: BriefEncoder,
    decoder: Decoder,
    kept: Vec<[Kept; WAYS]>,
    cached: Option<Cached>,
}

/// A decoded page with the place of its record.
type Kept = Option<(u64, Arc<[u8]>)>;

/// The pages of a generation that are in the process's cache. They are removed there when it ends.
#[derive(Debug)]
struct Cached {
    cache: Arc<Cache>,
    /// By this the generation is known there: the same place has another page in another one.
    generation: Option<u32>,
    /// Of those pages. Some may be here twice, and some no longer there.
    places: Vec<u64>,
    /// How long they are.
    page_size: usize,
    is_full: bool,
    spare: Spare,
}

/// A number that no generation had before in this process. `None` when there is none left: then nothing is cached.
fn new_generation() -> Option<u32> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        next.checked_add(1)
    });
    next.ok()
}

impl Cached {
    fn key(generation: Option<u32>, place: u64, len: usize) -> Option<PageKey> {
        /// All logs of the process: files have few numbers there.
        static LOGS: LazyLock<FileId> = LazyLock::new(FileId::unique);
        Some(PageKey::Page {
            file: *LOGS,
            offset: place,
            len: u32::try_from(len).ok()?,
            sum: generation?,
        })
    }

    fn read(&self, place: u64, page: &mut [u8]) -> bool {
        let key = Cached::key(self.generation, place, page.len());
        key.is_some_and(|key| self.cache.read_page(&key, page, true))
    }

    fn put(&mut self, place: u64, page: &[u8]) {
        if self.page_size != page.len() {
            self.forget();
            self.page_size = page.len();
        }
        if self.generation.is_none() {
            self.generation = new_generation();
        }
        if let Some(key) = Cached::key(self.generation, place, page.len())
            && self.note(place)
        {
            (self.cache).put_page(key, page, PageRole::Leaf, &mut self.spare);
        }
    }

    /// Notes the place of a page, to remove it later. False if there is no room.
    fn note(&mut self, place: u64) -> bool {
        let most = litepack_io::fixed::part(CACHED_MAX);
        if self.places.len() >= most && !self.is_full {
            self.places.sort_unstable();
            self.places.dedup();
            // Else it would be sorted again soon.
            self.is_full = self.places.len() > most / 2;
        }
        !self.is_full && litepack_io::memory::push(&mut self.places, place).is_ok()
    }

    /// Removes what is there of this generation.
    fn forget(&mut self) {
        let (generation, size) = (self.generation.take(), self.page_size);
        for place in self.places.drain(..) {
            if let Some(key) = Cached::key(generation, place, size) {
                self.cache.remove_page(&key, size);
            }
        }
        self.is_full = false;
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Pages {
    /// Pages that were read go to this cache, too.
    pub fn set_cache(&mut self, cache: Arc<Cache>) {
        self.cached = Some(Cached {
            cache,
            generation: None,
            places: Vec::new(),
            page_size: 0,
            is_full: false,
            spare: Spare::default(),
        });
    }

    /// Forgets what was decoded.
    pub fn clear(&mut self) {
        self.kept.clear();
        if let Some(cached) = &mut self.cached {
            cached.forget();
        }
    }

    /// The decoded page of the record at this place, if it is kept.
    pub fn kept(&self, place: u64) -> Option<&[u8]> {
        let set = self.kept.get(self.set(place)?)?;
        let found = set.iter().flatten().find(|kept| kept.0 == place);
        found.map(|kept| &*kept.1)
    }

    /// Copies it to `page`, which has its size, if it is kept or in the cache. If not, `page` is in no known state.
    pub fn read(&self, place: u64, page: &mut [u8]) -> bool {
        if let Some(kept) = self.kept(place).filter(|kept| kept.len() == page.len()) {
            page.copy_from_slice(kept);
            return true;
        }
        (self.cached.as_ref()).is_some_and(|cached| cached.read(place, page))
    }

    /// Keeps a page that was read.
    pub fn keep(&mut self, place: u64, page: &[u8]) -> Result<()> {
        if let Some(cached) = &mut self.cached {
            cached.put(place, page);
        }
        self.put(place, page, None)
    }

    /// Keeps a page in place of its version at `before`, on which no other one will stand.
    pub fn replace(&mut self, before: u64, place: u64, page: &[u8]) -> Result<()> {
        let set = self.set(before).and_then(|set| self.kept.get_mut(set));
        let is_it = |kept: &&mut Kept| kept.as_ref().is_some_and(|kept| kept.0 == before);
        let kept = set
            .and_then(|set| set.iter_mut().find(is_it))
            .and_then(Option::take);
        self.put(place, page, kept)
    }

    /// Keeps a page, in this memory if it is given.
    fn put(&mut self, place: u64, page: &[u8], memory: Kept) -> Result<()> {
        if self.kept.is_empty() {
            let count = litepack_io::fixed::part(KEPT_BYTES) / page.len().max(1);
            self.kept
                .resize((count / WAYS).max(SETS_MIN), Default::default());
        }
        let set = self.set(place).and_then(|set| self.kept.get_mut(set));
        let age = |kept: &&mut Kept| kept.as_ref().map_or(0, |kept| kept.0);
        if let Some(oldest) = set.and_then(|set| set.iter_mut().min_by_key(age)) {
            let memory = memory.or_else(|| oldest.take());
            *oldest = Some((place, copy_into(memory.map(|kept| kept.1), page)?));
        }
        Ok(())
    }

    fn set(&self, place: u64) -> Option<usize> {
        let mixed = place.wrapping_mul(litepack_io::random::SplitMix64::STEP) >> 32;
        usize::try_from(mixed).ok()?.checked_rem(self.kept.len())
    }

    /// Appends `page` to `out` by itself.
    pub fn encode_whole(&mut self, page: &[u8], out: &mut Vec<u8>) -> Result<Form> {
        if self.encoder.encode(page, out)? {
            return Ok(Form::Zstd);
        }
        append(out, page)?;
        Ok(Form::Raw)
    }

    /// Appends `page` to `out` as what changed since `base`; false if that would take more than `budget`.
    pub fn encode_changes(
        page: &[u8],
        base: &[u8],
        budget: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        Ok(changes::encode(page, base, budget, out)?)
    }

    /// Puts the version at `place` into `page`, which has the page that it stands on if it is a difference.
    pub fn decode(&mut self, version: PageVersion<'_>, page: &mut [u8], place: u64) -> Result<()> {
        let codec = match version.form {
            Form::Raw => Codec::Raw,
            Form::Zstd => Codec::Zstd,
            Form::Changes(_) | Form::First(_) => {
                return match changes::apply(version.stored, page) {
                    true => Ok(()),
                    false => Err(Error::damaged(place, "changes are not within the page")),
                };
            }
        };
        let decoded = (self.decoder).decode(codec, version.stored, None, page);
        decoded.map_err(|error| Error::of_decoding(error, place))
    }
}

#[cfg(test)]
mod tests {
    use litepack_io::cache::CacheKind;

    use super::*;

    #[test]
    fn what_is_no_longer_kept_is_in_the_cache() {
        // Too small for memory that the system may take back.
        let cache = Arc::new(Cache::new(1 << 20));
        cache.begin_use(CacheKind::Pages);
        let mut pages = Pages {
            kept: vec![Default::default()],
            ..Pages::default()
        };
        pages.set_cache(Arc::clone(&cache));
        for place in 1..=5 {
            pages.keep(place.into(), &[place; 512]).unwrap();
        }
        let key = |pages: &Pages| {
            let generation = pages.cached.as_ref().unwrap().generation;
            Cached::key(generation, 5, 512).unwrap()
        };
        let first = key(&pages);
        assert!(cache.has_page(&first, 512));
        assert_eq!(pages.kept(1), None);
        let mut page = [0; 512];
        for place in 1..=5 {
            assert!(pages.read(place.into(), &mut page));
            assert_eq!(page, [place; 512]);
        }
        assert!(!pages.read(6, &mut page));
        pages.clear();
        assert!(!pages.read(5, &mut page));
        assert!(!cache.has_page(&first, 512), "it is of no use any more");
        pages.keep(5, &[7; 512]).unwrap();
        let second = key(&pages);
        assert!(second != first && cache.has_page(&second, 512));
        drop(pages);
        assert!(!cache.has_page(&second, 512));
    }

    #[test]
    fn only_so_many_pages_are_cached() {
        let cache = Arc::new(Cache::new(1 << 20));
        let mut pages = Pages::default();
        pages.set_cache(cache);
        let cached = pages.cached.as_mut().unwrap();
        let most = litepack_io::fixed::part(CACHED_MAX);
        // The same ones again and again are no more than they are.
        for place in 0..3 * most {
            assert!(cached.note(place as u64 % 100));
        }
        assert!(cached.places.len() <= most);
        let noted = (100..2 * most as u64)
            .filter(|place| cached.note(*place))
            .count();
        assert!(noted > most / 2 && cached.places.len() <= most);
        cached.forget();
        assert!(cached.places.is_empty() && cached.note(1));
    }

    #[test]
    fn the_next_version_takes_the_place_of_the_one_before() {
        let mut pages = Pages {
            kept: vec![Default::default()],
            ..Pages::default()
        };
        for place in 1..=4 {
            pages.replace(0, place.into(), &[place; 512]).unwrap();
        }
        pages.replace(3, 5, &[5; 512]).unwrap();
        let known: Vec<_> = (1..=5)
            .filter(|place| pages.kept(*place).is_some())
            .collect();
        assert_eq!(known, [1, 2, 4, 5]);
        pages.replace(0, 6, &[6; 512]).unwrap();
        let known: Vec<_> = (1..=6)
            .filter(|place| pages.kept(*place).is_some())
            .collect();
        assert_eq!(known, [2, 4, 5, 6]);
        assert_eq!(pages.kept(6), Some(&[6; 512][..]));
    }
}
