//! Encodes and decodes single pages. No I/O and no SQLite.
//!
//! Encoding a page gives stored bytes and an [`Encoding`] (which codec, which dictionary). Decoding trusts nothing: the
//! length of the output buffer is the only size that counts, so hostile bytes cost at most one page of memory.
//!
//! `compress.rs` chooses and runs the codecs, `brief.rs` has one for commits, `transform/` is the columnar layout, `dictionary.rs` trains and prepares
//! dictionaries, `difference.rs` encodes a page as its difference to others, `row_signature.rs` tells which pages are alike. No other layer knows what a codec does.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod brief;
mod compress;
mod dictionary;
mod difference;
mod row_signature;
mod transform;

pub use brief::BriefEncoder;
pub use compress::{DecodeError, Decoder, Encoder, LEVELS, Level, STRONG_LEVEL};
pub use dictionary::{DictId, Dictionary, SHORT_LEN_MAX, Samples, train};
pub use difference::{BriefDifferenceEncoder, DifferenceEncoder};
pub use row_signature::{RowSignature, row_signature};
#[cfg(feature = "parts")]
pub use transform::parts;

/// The version of zstd that pages are compressed with.
pub fn zstd_version() -> &'static str {
    zstd_safe::version_string()
}

/// How the bytes of a stored page are encoded. The number is the one in the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// The page as it is.
    Raw = 0,
    /// One magicless zstd frame without content size or checksum, with or without a dictionary.
    Zstd = 1,
    /// Such a frame of the page laid out by column.
    Columnar = 2,
}

impl Codec {
    /// All codecs this version knows, in the order of their numbers.
    pub const ALL: [Codec; 3] = [Codec::Raw, Codec::Zstd, Codec::Columnar];

    /// The codec with this number in the file format.
    pub fn from_number(number: u8) -> Option<Codec> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Raw => "raw",
            Codec::Zstd => "zstd",
            Codec::Columnar => "columnar",
        }
    }
}

/// How a page is stored: what decoding needs besides the stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Encoding {
    /// The encoding of the stored bytes.
    pub codec: Codec,
    /// The dictionary in the file's catalog; 0 means none.
    pub dict: DictId,
    /// Stored at the level that the catalog names for the dictionary, or higher.
    pub up_to_date: bool,
}

impl Encoding {
    /// A page stored as it is.
    pub const RAW: Encoding = Encoding {
        codec: Codec::Raw,
        dict: 0,
        up_to_date: false,
    };
}

/// Whether the stream of a page decodes to the page after an untrusted stream was decoded; true for pages that are not
/// laid out by column.
#[cfg(fuzzing)]
pub fn comes_back(page: &[u8], hostile: &[u8]) -> bool {
    transform::comes_back(page, hostile)
}

/// Fills `page` from an untrusted stream.
#[cfg(fuzzing)]
pub fn undo_columns(stream: &[u8], page: &mut [u8]) {
    let _ = transform::Undo::default().decode(stream, page);
}
