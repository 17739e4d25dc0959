//! Pages to stored versions and back, and a few decoded ones by the place of their record.

use std::sync::Arc;

use litepack_codec::{BriefDifferenceEncoder, Codec, Decoder, Encoder};
use litepack_io::memory::{shared, zeros};

use crate::error::{Error, Result};
use crate::format::record::{Form, PageVersion};

/// Bytes of decoded pages that are kept, and the fewest pages.
const KEPT_BYTES: usize = 1 << 20;
const KEPT_MIN: usize = 16;

/// Encodes and decodes pages.
#[derive(Debug)]
pub(crate) struct Pages {
    whole: Encoder,
    difference: BriefDifferenceEncoder,
    decoder: Decoder,
    kept: Vec<Option<(u64, Arc<[u8]>)>>,
}

impl Default for Pages {
    fn default() -> Pages {
        Pages {
            // What is in a log is soon in the database, where it is stored better.
            whole: Encoder::with_columnar(1, false),
            difference: BriefDifferenceEncoder::default(),
            decoder: Decoder::default(),
            kept: Vec::new(),
        }
    }
}

impl Pages {
    /// Forgets what was decoded.
    pub fn clear(&mut self) {
        self.kept.clear();
    }

    /// The decoded page of the record at this place, if it is kept.
    pub fn kept(&self, place: u64) -> Option<Arc<[u8]>> {
        let slot = self.kept.get(self.slot(place)?)?.as_ref()?;
        (slot.0 == place).then(|| Arc::clone(&slot.1))
    }

    /// Keeps a decoded page.
    pub fn keep(&mut self, place: u64, page: &[u8]) -> Result<Arc<[u8]>> {
        let page = shared(page)?;
        if self.kept.is_empty() {
            let count = (litepack_io::fixed::part(KEPT_BYTES) / page.len().max(1)).max(KEPT_MIN);
            self.kept.resize(count, None);
        }
        if let Some(slot) = self.slot(place).and_then(|slot| self.kept.get_mut(slot)) {
            *slot = Some((place, Arc::clone(&page)));
        }
        Ok(page)
    }

    fn slot(&self, place: u64) -> Option<usize> {
        let mixed = place.wrapping_mul(litepack_io::random::SplitMix64::STEP) >> 32;
        usize::try_from(mixed).ok()?.checked_rem(self.kept.len())
    }

    /// Appends `page` to `out` as it takes the fewest bytes by itself.
    pub fn encode_whole(&mut self, page: &[u8], out: &mut Vec<u8>) -> Result<Form> {
        Ok(match self.whole.encode(page, None, out)? {
            Codec::Raw => Form::Raw,
            _ => Form::Zstd,
        })
    }

    /// Appends `page` to `out` as its difference to `base`; false if it would take more than `budget`.
    pub fn encode_difference(
        &mut self,
        page: &[u8],
        base: &[u8],
        budget: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        Ok(self.difference.encode(page, base, budget, out)?)
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
            (Form::Difference { .. }, base) => {
                let base = base.unwrap_or_default();
                self.decoder
                    .decode_difference(version.stored, base, &mut page)
            }
        };
        decoded.map_err(|error| Error::of_decoding(error, place))?;
        self.keep(place, &page)
    }
}
