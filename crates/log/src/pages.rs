//! Pages to stored versions and back, and a few decoded ones by the place of their record.

use std::sync::Arc;

use litepack_codec::{BriefEncoder, Codec, Decoder};
use litepack_io::memory::{append, shared, zeros};

use crate::error::{Error, Result};
use crate::format::changes;
use crate::format::record::{Form, PageVersion};

/// Bytes of decoded pages that are kept.
const KEPT_BYTES: usize = 6 << 20;
/// Each place may be in one of so many slots, which are a set, and the fewest sets.
const WAYS: usize = 4;
const SETS_MIN: usize = 4;

/// Encodes and decodes pages.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    encoder: BriefEncoder,
    decoder: Decoder,
    kept: Vec<[Kept; WAYS]>,
}

/// A decoded page with the place of its record.
type Kept = Option<(u64, Arc<[u8]>)>;

impl Pages {
    /// Forgets what was decoded.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// The decoded page of the record at this place, if it is kept.
    pub fn kept(&self, place: u64) -> Option<Arc<[u8]>> {
        let set = self.kept.get(self.set(place)?)?;
        let found = set.iter().flatten().find(|kept| kept.0 == place);
        found.map(|kept| Arc::clone(&kept.1))
    }

    /// Keeps a decoded page.
    pub fn keep(&mut self, place: u64, page: &[u8]) -> Result<Arc<[u8]>> {
        let page = shared(page)?;
        self.put(place, Arc::clone(&page));
        Ok(page)
    }

    /// Keeps a page in place of its version at `before`, on which no other one will stand.
    pub fn replace(&mut self, before: u64, place: u64, page: &[u8]) -> Result<()> {
        let set = self.set(before).and_then(|set| self.kept.get_mut(set));
        let is_it = |kept: &&mut Kept| kept.as_ref().is_some_and(|kept| kept.0 == before);
        let kept = set
            .and_then(|set| set.iter_mut().find(is_it))
            .and_then(Option::take);
        // In the same memory.
        if let Some((_, mut bytes)) = kept
            && let Some(to) = Arc::get_mut(&mut bytes)
            && to.len() == page.len()
        {
            to.copy_from_slice(page);
            self.put(place, bytes);
            return Ok(());
        }
        self.keep(place, page).map(|_| ())
    }

    fn put(&mut self, place: u64, page: Arc<[u8]>) {
        if self.kept.is_empty() {
            let count = litepack_io::fixed::part(KEPT_BYTES) / page.len().max(1);
            self.kept
                .resize((count / WAYS).max(SETS_MIN), Default::default());
        }
        let set = self.set(place).and_then(|set| self.kept.get_mut(set));
        let age = |kept: &&mut Kept| kept.as_ref().map_or(0, |kept| kept.0);
        let oldest = set.and_then(|set| set.iter_mut().min_by_key(age));
        if let Some(oldest) = oldest {
            *oldest = Some((place, page));
        }
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

    /// The page of a version at `place`; `base` is the page that it stands on.
    pub fn decode(
        &mut self,
        version: PageVersion<'_>,
        base: Option<&[u8]>,
        page_size: usize,
        place: u64,
    ) -> Result<Arc<[u8]>> {
        let mut page = zeros(page_size)?;
        let decoded = match (version.form, base) {
            (Form::Raw, _) => (self.decoder).decode(Codec::Raw, version.stored, None, &mut page),
            (Form::Zstd, _) => (self.decoder).decode(Codec::Zstd, version.stored, None, &mut page),
            (Form::Changes(_), base) => {
                let base = base.filter(|base| base.len() == page.len());
                let base = base.ok_or_else(|| Error::damaged(place, "a page changes nothing"))?;
                page.copy_from_slice(base);
                if !changes::apply(version.stored, &mut page) {
                    return Err(Error::damaged(place, "changes are not within the page"));
                }
                Ok(())
            }
        };
        decoded.map_err(|error| Error::of_decoding(error, place))?;
        self.keep(place, &page)
    }
}
