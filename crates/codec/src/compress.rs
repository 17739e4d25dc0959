//! Encoding and decoding of one page with reusable zstd contexts.
//!
//! Frames have no magic, content size, checksum or dictionary id: the page map has all of these, and on a page of 460
//! bytes they would cost two percent.

use std::ops::RangeInclusive;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, FrameFormat};

use litepack_io::fixed;
use litepack_io::memory::OutOfMemory;

use crate::transform::{Transform, Undo};
use crate::{Codec, Dictionary, SHORT_LEN_MAX};

/// A zstd compression level.
pub type Level = i32;

/// The levels a user may choose.
pub const LEVELS: RangeInclusive<Level> = 1..=19;

/// A page that saves less than this share of its size is stored raw, and is read back without decoding.
pub(crate) const WORTHWHILE: usize = 32;

/// The level from which on zstd finds what is far away in a long dictionary. Below it a short one is better: its tables
/// have one place for each hash, and nothing near is found there once all of a long one went in.
pub const STRONG_LEVEL: Level = 16;

/// How many dictionaries an encoder keeps prepared, and of how many bytes, of which one alone may have more. When
/// another one does not fit, all are dropped.
const PREPARED_MAX: usize = 16;
const PREPARED_BYTES: usize = 4 << 20;
/// The same for those of more than [`crate::SHORT_LEN_MAX`]: all that a file has. It takes a second to prepare one.
const PREPARED_LONG: usize = 16 << 20;

/// Encodes pages at one level.
pub struct Encoder {
    level: Level,
    bare: Option<CCtx<'static>>,
    /// A context each for the dictionaries in use, by [`Dictionary::hash`].
    prepared: Vec<Prepared>,
    /// The columnar layout; `None` if it is switched off.
    transform: Option<Transform>,
}

/// A context that a dictionary is loaded into.
struct Prepared {
    /// The dictionary's.
    hash: u128,
    /// The dictionary's bytes.
    len: usize,
    context: CCtx<'static>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encoder(level {})", self.level)
    }
}

pub(crate) fn new_context<'a>(level: Level) -> Result<CCtx<'a>, OutOfMemory> {
    let mut context = CCtx::try_create().ok_or(OutOfMemory)?;
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::Format(FrameFormat::Magicless),
        CParameter::ContentSizeFlag(false),
        CParameter::ChecksumFlag(false),
        CParameter::DictIdFlag(false),
    ] {
        context
            .set_parameter(parameter)
            .expect("constant zstd parameters are valid");
    }
    // Those of low levels are smaller than any bound.
    if let Some(log) = tables_log().filter(|_| level >= 3) {
        for parameter in [CParameter::HashLog(log), CParameter::ChainLog(log - 1)] {
            context
                .set_parameter(parameter)
                .expect("tables of this size are valid at all levels");
        }
    }
    Ok(context)
}

/// Where memory is short: how large zstd's table of hashes is at most, of 4 bytes each, as a power of two. At level 3
/// it is never larger with a dictionary of up to 128 KiB.
fn tables_log() -> Option<u32> {
    fixed::shortage().map(|log| TABLES_LOG_MAX - log)
}

/// The largest table of level 19, for a dictionary of 1 MiB, has half of this.
const TABLES_LOG_MAX: u32 = 20;

/// About the most memory that zstd takes to prepare a dictionary: the largest one, at the highest level.
const PREPARING: usize = 8 << 20;

/// Whether zstd failed for lack of memory. It gives the same error for a dictionary that it cannot compress with.
pub(crate) fn is_out_of_memory(error: ErrorCode) -> bool {
    /// `ZSTD_error_memory_allocation`.
    const MEMORY_ALLOCATION: usize = 64;
    error == MEMORY_ALLOCATION.wrapping_neg() && litepack_io::memory::probe(PREPARING).is_err()
}

impl Encoder {
    /// An encoder at `level`, which is clamped to [`LEVELS`].
    pub fn new(level: Level) -> Encoder {
        Encoder::with_columnar(level, true)
    }

    /// The same, with pages laid out by column or, for comparison, as they are.
    pub fn with_columnar(level: Level, columnar: bool) -> Encoder {
        let level = level.clamp(*LEVELS.start(), *LEVELS.end());
        Encoder {
            level,
            bare: None,
            prepared: Vec::new(),
            transform: columnar.then(Transform::default),
        }
    }

    /// Whether pages are laid out by column.
    pub fn is_columnar(&self) -> bool {
        self.transform.is_some()
    }

    /// The level pages are compressed at.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The bytes of `page` that zstd compresses; dictionaries are trained on them.
    pub fn sample<'a>(&'a mut self, page: &'a [u8]) -> &'a [u8] {
        by_column(&mut self.transform, page).unwrap_or(page)
    }

    /// Appends the stored form of `page` to `out` and says how it is encoded.
    ///
    /// # Errors
    /// Out of memory; `out` is then unchanged.
    pub fn encode(
        &mut self,
        page: &[u8],
        dictionary: Option<&Dictionary>,
        out: &mut Vec<u8>,
    ) -> Result<Codec, OutOfMemory> {
        self.encode_item(page, 1, dictionary, out)
    }

    /// The same of an item of so many units. If they are more than one, each is a page.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn encode_item(
        &mut self,
        page: &[u8],
        units: usize,
        dictionary: Option<&Dictionary>,
        out: &mut Vec<u8>,
    ) -> Result<Codec, OutOfMemory> {
        let start = out.len();
        // zstd stops when the frame does not fit: then compression does not pay.
        let budget = page.len() - page.len() / WORTHWHILE;
        // Room for the page itself, if it is stored raw.
        litepack_io::memory::room(out, page.len())?;
        let context = match dictionary {
            None => {
                if self.bare.is_none() {
                    self.bare = Some(new_context(self.level)?);
                }
                self.bare.as_mut()
            }
            Some(dictionary) => context_for(self.level, &mut self.prepared, dictionary)?,
        };
        out.resize(start + budget, 0);
        let columnar = match (&mut self.transform, units) {
            (transform, 1) => by_column(transform, page),
            (Some(transform), units) => transform.of_item(page, units),
            (None, _) => None,
        };
        let (codec, input) = match columnar {
            Some(columnar) => (Codec::Columnar, columnar),
            None => (Codec::Zstd, page),
        };
        let room = out.get_mut(start..);
        let compressed = context.zip(room).map(|(c, room)| c.compress2(room, input));
        match compressed {
            Some(Ok(len)) if len < budget => {
                out.truncate(start + len);
                Ok(codec)
            }
            Some(Err(error)) if is_out_of_memory(error) => {
                out.truncate(start);
                Err(OutOfMemory)
            }
            _ => {
                out.truncate(start);
                out.extend_from_slice(page);
                Ok(Codec::Raw)
            }
        }
    }
}

/// The page laid out by column, if it can be.
fn by_column<'a>(transform: &'a mut Option<Transform>, page: &[u8]) -> Option<&'a [u8]> {
    transform.as_mut().and_then(|transform| transform.of(page))
}

/// The context that `dictionary` is loaded into; `None` if zstd refuses the dictionary.
fn context_for<'a>(
    level: Level,
    prepared: &'a mut Vec<Prepared>,
    dictionary: &Dictionary,
) -> Result<Option<&'a mut CCtx<'static>>, OutOfMemory> {
    let (hash, len) = (dictionary.hash(), dictionary.bytes().len());
    let at = match prepared.iter().position(|known| known.hash == hash) {
        Some(at) => at,
        None => {
            let is_long = |len: usize| len > SHORT_LEN_MAX;
            let alike = |known: &Prepared| is_long(known.len) == is_long(len);
            let known = prepared.iter().filter(|known| alike(known));
            let (count, bytes) = known.fold((0, 0), |(count, bytes), known| {
                (count + 1, bytes + known.len)
            });
            let most = if is_long(len) {
                PREPARED_LONG
            } else {
                PREPARED_BYTES
            };
            if count >= fixed::part(PREPARED_MAX).max(1) || bytes + len > fixed::part(most) {
                prepared.retain(|known| !alike(known));
            }
            let mut context = new_context(level)?;
            match context.load_dictionary(dictionary.bytes()) {
                Ok(_) => {}
                Err(error) if is_out_of_memory(error) => return Err(OutOfMemory),
                Err(_) => return Ok(None),
            }
            prepared.push(Prepared { hash, len, context });
            prepared.len() - 1
        }
    };
    Ok(prepared.get_mut(at).map(|known| &mut known.context))
}

/// Decodes pages.
#[derive(Default)]
pub struct Decoder {
    /// Created at the first use.
    context: Option<DCtx<'static>>,
    undo: Undo,
    stream: Vec<u8>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

/// Why stored bytes do not decode to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The stored bytes do not decode.
    Malformed,
    /// They decode, but to another length than a page has.
    WrongLength,
    /// There is no memory for decoding.
    OutOfMemory,
}

impl From<OutOfMemory> for DecodeError {
    fn from(_: OutOfMemory) -> DecodeError {
        DecodeError::OutOfMemory
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DecodeError::Malformed => "the stored bytes do not decode",
            DecodeError::WrongLength => "the stored bytes decode to a wrong length",
            DecodeError::OutOfMemory => "out of memory",
        })
    }
}

impl std::error::Error for DecodeError {}

impl Decoder {
    /// Fills `page` from `stored`. Writes nothing outside `page`, whatever `stored` holds. It allocates for the first page,
    /// and for the first that needs more room.
    ///
    /// # Errors
    /// When the stored bytes do not decode to exactly one page; `page` is then undefined.
    pub fn decode(
        &mut self,
        codec: Codec,
        stored: &[u8],
        dictionary: Option<&Dictionary>,
        page: &mut [u8],
    ) -> Result<(), DecodeError> {
        match codec {
            Codec::Raw if stored.len() == page.len() => {
                page.copy_from_slice(stored);
                Ok(())
            }
            Codec::Raw => Err(DecodeError::WrongLength),
            Codec::Zstd => {
                let len = unzstd(&mut self.context, stored, dictionary, page)?;
                if len == page.len() {
                    Ok(())
                } else {
                    Err(DecodeError::WrongLength)
                }
            }
            Codec::Columnar => {
                // A page laid out by column is never longer than the page.
                litepack_io::memory::resize(&mut self.stream, page.len())?;
                let len = unzstd(&mut self.context, stored, dictionary, &mut self.stream)?;
                let stream = self.stream.get(..len).ok_or(DecodeError::Malformed)?;
                let undone = self.undo.decode(stream, page);
                undone.map_err(|_| DecodeError::Malformed)
            }
        }
    }

    /// As [`Decoder::decode`], of a page that was stored as its difference to `prefix` (see
    /// [`crate::DifferenceEncoder`]).
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn decode_difference(
        &mut self,
        stored: &[u8],
        prefix: &[u8],
        page: &mut [u8],
    ) -> Result<(), DecodeError> {
        let len = if prefix.starts_with(&DICTIONARY_MAGIC) {
            // Only so does zstd not take it for a dictionary. It is rare: no page of SQLite's begins like this below
            // 3 TB.
            let mut context = new_decoder()?;
            let referred = context.ref_prefix(prefix);
            let decoded = referred.and_then(|_| context.decompress(page, stored));
            decoded.map_err(|_| DecodeError::Malformed)?
        } else {
            let context = match &mut self.context {
                Some(context) => context,
                None => self.context.insert(new_decoder()?),
            };
            let decoded = context.decompress_using_dict(page, stored, prefix);
            decoded.map_err(|_| DecodeError::Malformed)?
        };
        if len == page.len() {
            Ok(())
        } else {
            Err(DecodeError::WrongLength)
        }
    }
}

/// First bytes of a dictionary that zstd's trainer has made: `ZSTD_MAGIC_DICTIONARY`.
pub(crate) const DICTIONARY_MAGIC: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

fn new_decoder<'a>() -> Result<DCtx<'a>, OutOfMemory> {
    let mut new = DCtx::try_create().ok_or(OutOfMemory)?;
    new.set_parameter(DParameter::Format(FrameFormat::Magicless))
        .expect("constant zstd parameters are valid");
    Ok(new)
}

/// Decompresses a frame into `out` and says how long it is.
fn unzstd(
    context: &mut Option<DCtx<'static>>,
    stored: &[u8],
    dictionary: Option<&Dictionary>,
    out: &mut [u8],
) -> Result<usize, DecodeError> {
    let context = match context {
        Some(context) => context,
        None => context.insert(new_decoder()?),
    };
    match dictionary {
        Some(dictionary) => match dictionary.for_decoding() {
            Some(prepared) => context.decompress_using_ddict(out, stored, prepared),
            // zstd refused it, or got no memory. This call takes none, and tells which it was.
            None => context.decompress_using_dict(out, stored, dictionary.bytes()),
        },
        None => context.decompress(out, stored),
    }
    .map_err(|_| DecodeError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train;
    use proptest::prelude::*;

    /// JSON rows whose values have little in common, so that what repeats is the shape.
    fn json_page(seed: usize) -> Vec<u8> {
        let mut state = seed as u64 + 1;
        let mut number = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            state >> 33
        };
        let mut page = Vec::new();
        loop {
            let (id, user, bytes) = (number(), number(), number());
            let row = format!(
                "{{\"identifier\":{id},\"userAgent\":\"Mozilla/{user}\",\"bytesSent\":{bytes}}}"
            );
            if page.len() + row.len() > 4096 {
                page.resize(4096, 0);
                return page;
            }
            page.extend_from_slice(row.as_bytes());
        }
    }

    fn dictionary() -> Dictionary {
        let samples: Vec<u8> = (0..200).flat_map(json_page).collect();
        train(&samples, &[4096; 200], 8192).expect("200 pages train a dictionary")
    }

    #[test]
    fn a_dictionary_helps_and_comes_back() {
        let dictionary = dictionary();
        let (mut plain, mut with) = (Vec::new(), Vec::new());
        let mut encoder = Encoder::new(3);
        let page = json_page(777);
        let bare = encoder.encode(&page, None, &mut plain).unwrap();
        let helped = encoder.encode(&page, Some(&dictionary), &mut with).unwrap();
        assert_eq!((bare, helped), (Codec::Zstd, Codec::Zstd));
        assert!(with.len() < plain.len());
        let (mut decoder, mut back) = (Decoder::default(), vec![0; 4096]);
        decoder
            .decode(Codec::Zstd, &plain, None, &mut back)
            .unwrap();
        assert_eq!(back, page);
        decoder
            .decode(Codec::Zstd, &with, Some(&dictionary), &mut back)
            .unwrap();
        assert_eq!(back, page);
        // The order must not matter: a dictionary once loaded is not used where none is named.
        let mut again = Vec::new();
        encoder.encode(&page, None, &mut again).unwrap();
        assert_eq!(again, plain);
    }

    #[test]
    fn where_memory_is_short_the_contexts_of_every_level_are_small() {
        let samples: Vec<u8> = (0..27).flat_map(json_page).collect();
        let dictionaries = [1, 2, 3].map(|first| Dictionary::new(&samples[first..]));
        let bytes_at = |level| {
            let mut encoder = Encoder::new(level);
            for dictionary in &dictionaries {
                let mut out = Vec::new();
                let codec = encoder.encode(&json_page(777), Some(dictionary), &mut out);
                assert_eq!(codec, Ok(Codec::Zstd));
            }
            let prepared = encoder.prepared.iter();
            prepared.map(|known| known.context.sizeof()).sum::<usize>()
        };
        let usual = bytes_at(19);
        assert!(usual > 4 << 20, "{usual}");
        litepack_io::limits::pretend(64 << 20);
        for level in LEVELS {
            let bytes = bytes_at(level);
            assert!(bytes < 5 << 18, "level {level}: {bytes}");
        }
        litepack_io::limits::pretend(0);
    }

    #[test]
    fn incompressible_pages_are_raw() {
        let mut state = 1u64;
        let page: Vec<u8> = (0..4096)
            .map(|_| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect();
        let mut out = b"before".to_vec();
        let codec = Encoder::new(3).encode(&page, None, &mut out);
        assert_eq!(codec, Ok(Codec::Raw));
        assert_eq!(&out[..6], b"before");
        assert_eq!(&out[6..], page);
    }

    #[test]
    fn a_frame_larger_than_the_page_is_refused() {
        let mut out = Vec::new();
        Encoder::new(3)
            .encode(&vec![7; 1 << 20], None, &mut out)
            .unwrap();
        let mut page = vec![0; 4096];
        let result = Decoder::default().decode(Codec::Zstd, &out, None, &mut page);
        assert_eq!(result, Err(DecodeError::Malformed));
    }

    proptest! {
        #[test]
        fn any_page_comes_back(page in proptest::collection::vec(0u8..4, 512..8192), level in 1..=19) {
            let mut out = Vec::new();
            let codec = Encoder::new(level).encode(&page, None, &mut out).unwrap();
            prop_assert!(out.len() <= page.len());
            let mut back = vec![0; page.len()];
            Decoder::default().decode(codec, &out, None, &mut back).unwrap();
            prop_assert_eq!(back, page);
        }

        #[test]
        fn hostile_bytes_never_panic(stored in proptest::collection::vec(any::<u8>(), 0..6000)) {
            let mut page = vec![0; 4096];
            for codec in Codec::ALL {
                let _ = Decoder::default().decode(codec, &stored, None, &mut page);
            }
        }
    }
}
