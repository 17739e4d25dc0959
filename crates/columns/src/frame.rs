//! One value of a compressed column: bytes to a zstd frame and back, with reused contexts.
//!
//! Frames are not trusted: the headers of the blocks are read before a frame is decoded. So no more memory is allocated
//! than the blocks can hold, and never more than the caller's limit, and bytes after the end are an error.

use litepack_codec::Dictionary;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

use crate::sql::{Error, Result};

/// The form of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing: no magic number, content size, checksum or dictionary id. What columns hold.
    Compact,
    /// An ordinary frame, as the `zstd` command reads and writes it.
    Standard,
}

impl Form {
    fn format(self) -> FrameFormat {
        match self {
            Form::Compact => FrameFormat::Magicless,
            Form::Standard => FrameFormat::One,
        }
    }
}

/// A context larger than this is not worth keeping for the next value.
const CONTEXT_KEPT: usize = 32 << 20;
/// An output buffer larger than this is given back.
const BUFFER_KEPT: usize = 4 << 20;
/// The most that zstd puts into one block.
const BLOCK_MAX: usize = 128 << 10;

/// Compresses values at one level, with one dictionary or none.
pub struct Compressor {
    context: CCtx<'static>,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    /// A compressor. zstd takes a level outside its range for the nearest one.
    ///
    /// # Errors
    /// When zstd refuses the dictionary, or memory is short.
    pub fn new(level: i32, dictionary: Option<&Dictionary>, form: Form) -> Result<Compressor> {
        let mut context = CCtx::try_create().ok_or_else(Error::no_memory)?;
        let standard = form == Form::Standard;
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::Format(form.format()),
            CParameter::ContentSizeFlag(standard),
            CParameter::ChecksumFlag(false),
            CParameter::DictIdFlag(standard),
        ] {
            context.set_parameter(parameter).map_err(refused)?;
        }
        if let Some(dictionary) = dictionary {
            // zstd itself would only fail later, and call it a lack of memory.
            if dictionary.for_decoding().is_none() {
                litepack_io::memory::probe(PREPARING)?;
                return Err(Error::new("cannot compress: zstd refuses the dictionary"));
            }
            context
                .load_dictionary(dictionary.bytes())
                .map_err(refused)?;
        }
        Ok(Compressor { context })
    }

    /// Replaces what is in `out` by the frame that holds `plain`.
    ///
    /// # Errors
    /// When memory is short.
    pub fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.try_reserve(zstd_safe::compress_bound(plain.len()))
            .map_err(|_| Error::no_memory())?;
        self.context.compress2(out, plain).map_err(refused)?;
        Ok(())
    }

    /// Whether it takes so much memory after a large value that it should not be kept.
    pub fn is_bulky(&self) -> bool {
        self.context.sizeof() > CONTEXT_KEPT
    }
}

/// zstd's error while compressing.
fn refused(code: zstd_safe::ErrorCode) -> Error {
    if is(code, MEMORY_ALLOCATION) {
        return Error::no_memory();
    }
    let words = zstd_safe::get_error_name(code);
    Error::new(format!("cannot compress: {words}"))
}

/// About what zstd takes when it prepares the largest dictionary for decoding.
const PREPARING: usize = 2 << 20;

/// zstd's numbers for errors that are told apart here (`zstd_errors.h`).
const DICTIONARY_CORRUPTED: usize = 30;
const MEMORY_ALLOCATION: usize = 64;
const DST_SIZE_TOO_SMALL: usize = 70;

fn is(code: zstd_safe::ErrorCode, number: usize) -> bool {
    code == number.wrapping_neg()
}

/// Decodes frames of both forms, with any dictionary, into a buffer of its own.
#[derive(Default)]
pub struct Decompressor {
    compact: Option<DCtx<'static>>,
    standard: Option<DCtx<'static>>,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}

impl Decompressor {
    /// The bytes that `frame` holds, at most `limit` of them; they are this value's until its next
    /// use. Allocates nothing unless a frame holds more than those before it.
    ///
    /// # Errors
    /// `SQLITE_CORRUPT` when it is not exactly one frame of this form (or, in standard form, several
    /// of them: that is how zstd joins data), `SQLITE_TOOBIG` when it holds more than `limit`.
    pub fn decompress(
        &mut self,
        frame: &[u8],
        dictionary: Option<&Dictionary>,
        form: Form,
        limit: usize,
    ) -> Result<&[u8]> {
        let bound = content_bound(frame, form).ok_or_else(|| damaged("it is not a zstd frame"))?;
        self.make_room(bound.min(limit))?;
        let context = match form {
            Form::Compact => &mut self.compact,
            Form::Standard => &mut self.standard,
        };
        let context = match context {
            Some(context) => context,
            None => context.insert(new_context(form)?),
        };
        let decoded = match dictionary {
            None => context.decompress(&mut self.buffer, frame),
            Some(dictionary) => match dictionary.for_decoding() {
                Some(prepared) => context.decompress_using_ddict(&mut self.buffer, frame, prepared),
                // zstd refuses it, or got no memory. This takes none, and tells which it is.
                None => context.decompress_using_dict(&mut self.buffer, frame, dictionary.bytes()),
            },
        };
        match decoded {
            Ok(len) if len <= limit => Ok(&self.buffer),
            Ok(_) => Err(Error::too_big()),
            Err(code) if is(code, DST_SIZE_TOO_SMALL) && bound > limit => Err(Error::too_big()),
            Err(code) if is(code, MEMORY_ALLOCATION) => Err(Error::no_memory()),
            Err(code) if is(code, DICTIONARY_CORRUPTED) => {
                Err(damaged("zstd refuses the dictionary"))
            }
            Err(code) => Err(damaged(zstd_safe::get_error_name(code))),
        }
    }

    /// Makes the buffer hold at least `len` bytes.
    fn make_room(&mut self, len: usize) -> Result<()> {
        self.buffer.clear();
        let capacity = self.buffer.capacity();
        if capacity < len || (capacity > BUFFER_KEPT && len <= BUFFER_KEPT) {
            self.buffer = Vec::new();
            self.buffer
                .try_reserve_exact(len.max(BLOCK_MAX))
                .map_err(|_| Error::no_memory())?;
        }
        Ok(())
    }

    /// Gives back the memory of an unusually large value, once its bytes are no longer needed.
    pub fn trim(&mut self) {
        if self.buffer.capacity() > BUFFER_KEPT {
            self.buffer = Vec::new();
        }
    }
}

fn new_context(form: Form) -> Result<DCtx<'static>> {
    let mut context = DCtx::try_create().ok_or_else(Error::no_memory)?;
    context
        .set_parameter(DParameter::Format(form.format()))
        .map_err(|code| Error::new(zstd_safe::get_error_name(code)))?;
    Ok(context)
}

fn damaged(why: &str) -> Error {
    Error::corrupt(format!("a compressed value is damaged ({why})"))
}

/// How many bytes the frame (in standard form: the frames) can hold at most, by the sizes of its
/// blocks; `None` if `bytes` are anything else, or go on after it.
fn content_bound(bytes: &[u8], form: Form) -> Option<usize> {
    let (mut bound, mut rest) = (0, bytes);
    loop {
        rest = match form {
            Form::Compact => skip_frame(rest, &mut bound)?,
            Form::Standard => skip_magic_and_frame(rest, &mut bound)?,
        };
        if rest.is_empty() {
            return Some(bound);
        }
        if form == Form::Compact {
            return None;
        }
    }
}

fn skip_magic_and_frame<'a>(bytes: &'a [u8], bound: &mut usize) -> Option<&'a [u8]> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    match u32::from_le_bytes(*magic) {
        zstd_safe::MAGICNUMBER => skip_frame(rest, bound),
        // A frame that decoders skip; anything may be in it.
        0x184d_2a50..=0x184d_2a5f => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            rest.get(u32::from_le_bytes(*len) as usize..)
        }
        _ => None,
    }
}

/// RFC 8878, 3.1.1: a header, blocks that say how long they are, perhaps a checksum.
fn skip_frame<'a>(bytes: &'a [u8], bound: &mut usize) -> Option<&'a [u8]> {
    let (&descriptor, rest) = bytes.split_first()?;
    let single_segment = descriptor & 0x20 != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = [usize::from(single_segment), 2, 4, 8][usize::from(descriptor >> 6)];
    let mut rest = rest.get(window + dictionary + content..)?;
    loop {
        let ([a, b, c], after) = rest.split_first_chunk::<3>()?;
        let header = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        let size = header >> 3;
        let (stored, held) = match header >> 1 & 3 {
            0 => (size, size),
            1 => (1, size),
            2 => (size, BLOCK_MAX),
            _ => return None,
        };
        rest = after.get(stored..)?;
        *bound = bound.saturating_add(held);
        if header & 1 == 1 {
            let checksum = if descriptor & 4 == 0 { 0 } else { 4 };
            return rest.get(checksum..);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::TOOBIG;
    use proptest::prelude::*;

    const FORMS: [Form; 2] = [Form::Compact, Form::Standard];

    fn frame(plain: &[u8], level: i32, dictionary: Option<&Dictionary>, form: Form) -> Vec<u8> {
        let mut out = b"what was there".to_vec();
        let mut compressor = Compressor::new(level, dictionary, form).unwrap();
        compressor.compress(plain, &mut out).unwrap();
        out
    }

    fn back(frame: &[u8], form: Form, limit: usize) -> std::result::Result<Vec<u8>, i32> {
        Decompressor::default()
            .decompress(frame, None, form, limit)
            .map(<[u8]>::to_vec)
            .map_err(|error| error.code)
    }

    #[test]
    fn a_compact_frame_is_bare_and_a_standard_one_says_its_size() {
        let plain = [b'x'; 300];
        let compact = frame(&plain, 3, None, Form::Compact);
        let standard = frame(&plain, 3, None, Form::Standard);
        assert_eq!(standard[..4], zstd_safe::MAGICNUMBER.to_le_bytes());
        assert_eq!(
            zstd_safe::get_frame_content_size(&standard).unwrap(),
            Some(300)
        );
        assert!(compact.len() < standard.len() - 4);
    }

    #[test]
    fn a_dictionary_is_named_in_a_standard_frame_only() {
        let samples: Vec<String> = (0..4000)
            .map(|i| format!("{{\"id\":{i},\"name\":\"n{}\"}}", i * 7919 % 1000))
            .collect();
        let lens: Vec<usize> = samples.iter().map(String::len).collect();
        let dictionary = litepack_codec::train(samples.concat().as_bytes(), &lens, 4096).unwrap();
        let plain = b"{\"id\":77,\"name\":\"n123\"}";
        let standard = frame(plain, 19, Some(&dictionary), Form::Standard);
        assert_eq!(
            zstd_safe::get_dict_id_from_frame(&standard),
            zstd_safe::get_dict_id_from_dict(dictionary.bytes())
        );
        let compact = frame(plain, 19, Some(&dictionary), Form::Compact);
        assert!(compact.len() < frame(plain, 19, None, Form::Compact).len());
        let mut decompressor = Decompressor::default();
        for _ in 0..2 {
            let got = decompressor.decompress(&compact, Some(&dictionary), Form::Compact, 100);
            assert_eq!(got.unwrap(), plain);
        }
        // The dictionary is not used where none is named.
        assert!(
            decompressor
                .decompress(&compact, None, Form::Compact, 100)
                .is_err()
        );
    }

    #[test]
    fn nothing_and_bytes_after_the_end_are_damage() {
        for form in FORMS {
            let mut bytes = frame(b"a value", 3, None, form);
            assert_eq!(back(&[], form, 100), Err(crate::sql::CORRUPT));
            bytes.push(0);
            assert_eq!(back(&bytes, form, 100), Err(crate::sql::CORRUPT));
        }
        let one = frame(b"a value", 3, None, Form::Compact);
        let two = [&one[..], &one].concat();
        assert_eq!(back(&two, Form::Compact, 100), Err(crate::sql::CORRUPT));
    }

    #[test]
    fn joined_standard_frames_are_joined_data() {
        let mut joined = frame(b"one ", 3, None, Form::Standard);
        joined.extend(0x184d_2a53_u32.to_le_bytes());
        joined.extend(5_u32.to_le_bytes());
        joined.extend(b"notes");
        joined.extend(frame(b"two", 3, None, Form::Standard));
        assert_eq!(back(&joined, Form::Standard, 100).unwrap(), b"one two");
        joined.pop();
        assert_eq!(back(&joined, Form::Standard, 100), Err(crate::sql::CORRUPT));
    }

    #[test]
    fn the_limit_holds_and_memory_is_given_back() {
        let plain = vec![7; 20 << 20];
        for form in FORMS {
            let bomb = frame(&plain, 19, None, form);
            assert!(bomb.len() < 2000 + plain.len() / 1000);
            let mut decompressor = Decompressor::default();
            let error = decompressor
                .decompress(&bomb, None, form, 1 << 20)
                .unwrap_err();
            assert_eq!(
                (error.code, decompressor.buffer.capacity()),
                (TOOBIG, 1 << 20)
            );
            let got = decompressor.decompress(&bomb, None, form, 20 << 20);
            assert!(got.unwrap() == plain);
            assert_eq!(back(&bomb, form, plain.len() - 1), Err(TOOBIG));
            decompressor.trim();
            assert_eq!(decompressor.buffer.capacity(), 0);
            // A short value cannot pass a limit below the buffer's size either.
            assert_eq!(back(&frame(b"12345", 3, None, form), form, 4), Err(TOOBIG));
        }
    }

    proptest! {
        #[test]
        fn any_value_comes_back(
            plain in proptest::collection::vec(0_u8..9, 0..400_000),
            level in -3..=12,
        ) {
            for form in FORMS {
                let frame = frame(&plain, level, None, form);
                prop_assert_eq!(&back(&frame, form, plain.len()).unwrap(), &plain);
            }
        }

        #[test]
        fn hostile_bytes_are_a_value_or_an_error(
            plain in proptest::collection::vec(any::<u8>(), 0..600),
            at in any::<prop::sample::Index>(),
            flip in 0_u8..8,
        ) {
            let limit = 1 << 16;
            for form in FORMS {
                let _ = back(&plain, form, limit);
                let mut frame = frame(&plain.repeat(3), 3, None, form);
                let cut = at.index(frame.len());
                prop_assert!(back(&frame[..cut], form, limit).is_err());
                frame[cut] ^= 1 << flip;
                prop_assert!(back(&frame, form, limit).map_or(true, |got| got.len() <= limit));
            }
        }
    }
}
