//! One value of a compressed column: bytes to a zstd frame and back, with reused contexts.
//!
//! Frames are not trusted: the headers of the blocks are read before a frame is decoded. So no more memory is allocated
//! than the blocks can hold, and never more than the caller's limit, and bytes after the end are an error.
//!
//! Content larger than a block is compressed and decoded in pieces, with a look for an interrupt between them
//! ([`litepack_io::interrupt`]).

use std::sync::Arc;

use litepack_codec::Dictionary;
use litepack_io::aside::aside;
use litepack_io::interrupt::{self, Halt};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, FrameFormat, InBuffer, OutBuffer, ResetDirective,
};

use crate::blocks::{BLOCK_MAX, content_bound, each_block};
use crate::sql::{Error, Result};

/// The form of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The form of compressed columns: without magic number, content size, checksum or dictionary id.
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
/// No more than this is decoded at once, if a value is larger.
const PIECE: usize = 1 << 20;
/// The largest window of a frame that zstd decodes on this machine (`ZSTD_WINDOWLOG_MAX`).
const WINDOW_LOG_MAX: u32 = if cfg!(target_pointer_width = "64") {
    31
} else {
    30
};

/// zstd takes longer than a moment to prepare a longer dictionary, and cannot be stopped meanwhile.
pub const DICTIONARY_AT_ONCE: usize = 256 << 10;
/// zstd prepares a dictionary anew for a value that is known to be so many times longer.
const ANEW: usize = 6;

/// Compresses values at one level, with one dictionary or none.
pub struct Compressor {
    context: CCtx<'static>,
    /// The length of the dictionary.
    dictionary: usize,
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
    pub(crate) fn new(
        level: i32,
        dictionary: Option<&Dictionary>,
        form: Form,
    ) -> Result<Compressor> {
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
        Ok(Compressor {
            context,
            dictionary: dictionary.map_or(0, |known| known.bytes().len()),
        })
    }

    /// A compressor. zstd takes a level outside its range for the nearest one. A long dictionary is prepared at once, on
    /// a thread that an interrupt leaves behind ([`litepack_io::aside`]).
    ///
    /// # Errors
    /// When zstd refuses the dictionary, memory is short, or it was interrupted.
    pub fn prepared(
        level: i32,
        dictionary: Option<&Arc<Dictionary>>,
        form: Form,
    ) -> Result<Compressor> {
        let is_long = |known: &&Arc<Dictionary>| known.bytes().len() > DICTIONARY_AT_ONCE;
        let Some(known) = dictionary.filter(is_long).cloned() else {
            return Compressor::new(level, dictionary.map(|known| &**known), form);
        };
        aside(move || {
            let mut compressor = Compressor::new(level, Some(&known), form)?;
            compressor.compress(&[], &mut Vec::new())?;
            Ok(compressor)
        })?
    }

    /// Replaces what is in `out` by the frame that holds `plain`.
    ///
    /// # Errors
    /// When memory is short, or it was interrupted.
    pub fn compress(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.try_reserve(zstd_safe::compress_bound(plain.len()))
            .map_err(|_| Error::no_memory())?;
        if plain.len() <= BLOCK_MAX {
            self.context.compress2(out, plain).map_err(refused)?;
            return Ok(());
        }
        let is_anew = self.dictionary > DICTIONARY_AT_ONCE && plain.len() / ANEW >= self.dictionary;
        let size = Some(plain.len() as u64).filter(|_| !is_anew);
        self.context
            .reset(ResetDirective::SessionOnly)
            .and_then(|_| self.context.set_pledged_src_size(size))
            .map_err(refused)?;
        let mut frame = OutBuffer::around(out);
        for block in plain.chunks(BLOCK_MAX) {
            interrupt::check()?;
            let mut block = InBuffer::around(block);
            while block.pos() < block.src.len() {
                self.step(&mut frame, &mut block, ZSTD_EndDirective::ZSTD_e_continue)?;
            }
        }
        let mut nothing = InBuffer::around(&[]);
        while self.step(&mut frame, &mut nothing, ZSTD_EndDirective::ZSTD_e_end)? > 0 {}
        Ok(())
    }

    /// Compresses some more; how much of it is not in the frame yet.
    fn step(
        &mut self,
        frame: &mut OutBuffer<'_, Vec<u8>>,
        plain: &mut InBuffer<'_>,
        then: ZSTD_EndDirective,
    ) -> Result<usize> {
        let before = (frame.pos(), plain.pos());
        let step = self.context.compress_stream2(frame, plain, then);
        match step.map_err(refused)? {
            0 => Ok(0),
            // There is room for any frame of so much, so it goes on.
            _ if then == ZSTD_EndDirective::ZSTD_e_end && before == (frame.pos(), plain.pos()) => {
                Err(Error::new("cannot compress: zstd came to no end"))
            }
            rest => Ok(rest),
        }
    }

    /// Whether it takes so much memory after a large value that it should not be kept.
    pub fn is_bulky(&self) -> bool {
        self.context.sizeof() > litepack_io::fixed::part(CONTEXT_KEPT).max(CONTEXT_KEPT / 8)
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
    /// of them: that is how zstd joins data), `SQLITE_TOOBIG` when it holds more than `limit`, `SQLITE_INTERRUPT`.
    pub fn decompress(
        &mut self,
        frame: &[u8],
        dictionary: Option<&Dictionary>,
        form: Form,
        limit: usize,
    ) -> Result<&[u8]> {
        let bound = content_bound(frame, form).ok_or_else(|| damaged("it is not a zstd frame"))?;
        self.make_room(bound.min(limit))?;
        if bound.min(limit) > PIECE {
            return match in_pieces(frame, dictionary, form, &mut self.buffer)? {
                Ok(()) if self.buffer.len() <= limit => Ok(&self.buffer),
                Ok(()) => Err(Error::too_big()),
                Err(code) => Err(not_decoded(code, bound > limit)),
            };
        }
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
            Err(code) => Err(not_decoded(code, bound > limit)),
        }
    }

    /// The bytes of the frame that was decoded last.
    pub fn plain(&self) -> &[u8] {
        &self.buffer
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

/// zstd's error while decoding a frame that may hold more than the limit, or not.
fn not_decoded(code: zstd_safe::ErrorCode, may_be_larger: bool) -> Error {
    match code {
        code if is(code, DST_SIZE_TOO_SMALL) && may_be_larger => Error::too_big(),
        code if is(code, MEMORY_ALLOCATION) => Error::no_memory(),
        code if is(code, DICTIONARY_CORRUPTED) => damaged("zstd refuses the dictionary"),
        code => damaged(zstd_safe::get_error_name(code)),
    }
}

/// Decodes a frame that holds much into a buffer that has room for it, with a context of its own. zstd's error is the
/// inner one.
///
/// # Errors
/// When it was interrupted, or memory is short.
fn in_pieces(
    frame: &[u8],
    dictionary: Option<&Dictionary>,
    form: Form,
    buffer: &mut Vec<u8>,
) -> Result<std::result::Result<(), zstd_safe::ErrorCode>> {
    let mut context = new_context(form)?;
    // All goes to where it stays: no window is kept, so the largest one takes no memory.
    let ready = context
        .set_parameter(DParameter::StableOutBuffer(true))
        .and_then(|_| context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)))
        .and_then(
            |_| match dictionary.map(|known| (known, known.for_decoding())) {
                None => Ok(0),
                Some((_, Some(prepared))) => context.ref_ddict(prepared),
                // zstd refuses it, or got no memory. This tells which it is.
                Some((known, None)) => context.load_dictionary(known.bytes()),
            },
        );
    if let Err(code) = ready {
        return Ok(Err(code));
    }
    let mut plain = OutBuffer::around(buffer);
    let (mut input, mut held) = (InBuffer::around(&[]), 0);
    let mut decode = |rest: &[u8]| -> std::result::Result<(), Stop> {
        interrupt::check().map_err(|_| Stop::Interrupted)?;
        let end = frame.len() - rest.len();
        input.src = frame.get(..end).unwrap_or_default();
        while input.pos() < end {
            let before = (plain.pos(), input.pos());
            context
                .decompress_stream(&mut plain, &mut input)
                .map_err(Stop::Refused)?;
            if before == (plain.pos(), input.pos()) {
                return Err(Stop::Refused(DST_SIZE_TOO_SMALL.wrapping_neg()));
            }
        }
        Ok(())
    };
    let blocks = each_block(frame, form, &mut |rest, size| {
        held += size;
        if held < PIECE {
            return Ok(());
        }
        held = 0;
        decode(rest)
    });
    match blocks.and_then(|_| decode(&[])) {
        Ok(()) => Ok(Ok(())),
        Err(Stop::Refused(code)) => Ok(Err(code)),
        Err(Stop::Interrupted) => Err(Error::interrupted()),
    }
}

/// Why decoding in pieces ended early.
enum Stop {
    Interrupted,
    /// zstd's error.
    Refused(zstd_safe::ErrorCode),
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

/// Whether decoding this frame, if it is one, may take longer than a moment.
pub fn is_large(frame: &[u8], form: Form) -> bool {
    content_bound(frame, form).is_some_and(|bound| bound > PIECE)
}

/// A value longer than this is compressed by [`compress_aside`].
pub(crate) const ASIDE: usize = PIECE;
/// Above this level a block can be made so that it takes a tenth of a second or more, where most take a hundredth.
const SLOW_LEVEL: i32 = 15;
/// At these levels it is done so with a value longer than this, or with a dictionary, which has to be prepared anew, than
/// a block.
const SLOW: usize = 16 << 10;

/// Whether a single value is to be compressed by [`compress_aside`].
pub fn is_for_aside(level: i32, plain: usize, dictionary: usize) -> bool {
    let slow = if dictionary > 0 { BLOCK_MAX } else { SLOW };
    plain > ASIDE || level > SLOW_LEVEL && plain > slow
}

/// A new frame of a long value. zstd takes some time to make its tables ready, a block at the highest levels, too, and
/// cannot be stopped meanwhile: so this is done on a thread that an interrupt leaves behind ([`litepack_io::aside`]).
///
/// # Errors
/// As [`Compressor::compress`].
pub fn compress_aside(
    level: i32,
    dictionary: Option<&Arc<Dictionary>>,
    form: Form,
    plain: &[u8],
) -> Result<Vec<u8>> {
    fn frame(
        level: i32,
        dictionary: Option<&Dictionary>,
        form: Form,
        plain: &[u8],
    ) -> Result<Vec<u8>> {
        let mut frame = Vec::new();
        Compressor::new(level, dictionary, form)?.compress(plain, &mut frame)?;
        Ok(frame)
    }
    let made = || -> std::result::Result<_, Halt> {
        let mut copy = litepack_io::memory::with_room(plain.len())?;
        for piece in plain.chunks(PIECE) {
            interrupt::check()?;
            copy.extend_from_slice(piece);
        }
        let dictionary = dictionary.cloned();
        aside(move || frame(level, dictionary.as_deref(), form, &copy))
    };
    match made() {
        Ok(made) => made,
        Err(Halt::Interrupted) => Err(Error::interrupted()),
        // Without memory for a thread and a copy it is done here.
        Err(Halt::OutOfMemory) => frame(level, dictionary.map(|known| &**known), form, plain),
    }
}

/// Whether compressing this much may take longer than a moment.
pub fn is_much(level: i32, plain: usize, dictionary: usize) -> bool {
    let is_long = plain > BLOCK_MAX || dictionary > DICTIONARY_AT_ONCE;
    is_long || is_for_aside(level, plain, dictionary)
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
    fn what_takes_long_ends_when_it_is_interrupted() {
        let plain: Vec<u8> = (0..3 * PIECE as u32)
            .map(|i| (i.wrapping_mul(i) >> 9) as u8)
            .collect();
        for form in FORMS {
            let frame = frame(&plain, 1, None, form);
            let mut compressor = Compressor::new(19, None, form).unwrap();
            let mut decompressor = Decompressor::default();
            let mut out = Vec::new();
            interrupt::listen(
                || true,
                || {
                    let error = compressor.compress(&plain, &mut out).unwrap_err();
                    assert_eq!(error.code, crate::sql::INTERRUPT);
                    let decoded = decompressor.decompress(&frame, None, form, plain.len());
                    assert_eq!(decoded.unwrap_err().code, crate::sql::INTERRUPT);
                    let long = Arc::new(Dictionary::new(vec![7; DICTIONARY_AT_ONCE + 1]));
                    let prepared = Compressor::prepared(19, Some(&long), form);
                    assert_eq!(prepared.unwrap_err().code, crate::sql::INTERRUPT);
                    let aside = compress_aside(19, None, form, &plain);
                    assert_eq!(aside.unwrap_err().code, crate::sql::INTERRUPT);
                },
            );
            let made = compress_aside(1, None, form, &plain).unwrap();
            let aside = interrupt::listen(|| false, || compress_aside(1, None, form, &plain));
            assert!(made == frame && aside.unwrap() == frame);
            // Both go on with what comes next.
            compressor.compress(&plain, &mut out).unwrap();
            let decoded = decompressor.decompress(&out, None, form, plain.len());
            assert!(decoded.unwrap() == plain);
        }
    }

    #[test]
    fn a_value_of_many_blocks_comes_back_with_and_without_a_dictionary() {
        let words: Vec<u8> = (0..200_000_u32)
            .flat_map(|i| (i * 7 % 9973).to_string().into_bytes())
            .collect();
        let dictionaries = [None, Some(4096), Some(DICTIONARY_AT_ONCE + 1)];
        for (form, len) in FORMS
            .iter()
            .flat_map(|form| dictionaries.map(|len| (*form, len)))
        {
            let dictionary = len.map(|len| Arc::new(Dictionary::new(&words[..len])));
            for plain in [words[..BLOCK_MAX + 1].to_vec(), words.repeat(4)] {
                let mut compressor = Compressor::prepared(3, dictionary.as_ref(), form).unwrap();
                let mut out = Vec::new();
                compressor.compress(&plain, &mut out).unwrap();
                let mut decompressor = Decompressor::default();
                let decoded =
                    decompressor.decompress(&out, dictionary.as_deref(), form, plain.len());
                assert!(
                    decoded.unwrap() == plain,
                    "{form:?} {len:?} {}",
                    plain.len()
                );
            }
        }
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
