//! One frame from stored bytes to bytes of the database, whole: exactly what the seek table says, or an error.
//!
//! The buffer has the size in the table, so a frame that would be longer gets no more memory.

use litepack_io::memory::OutOfMemory;
use twox_hash::XxHash64;
use zstd_safe::{DCtx, ErrorCode};

use crate::error::{Error, Result};
use crate::sealed::Opener;
use crate::seek_table::Frame;

/// Decodes frames, one after the other, in one context, which is there from the first on.
#[derive(Default)]
pub(crate) struct Decoder {
    context: Option<DCtx<'static>>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// The bytes of `frame`, which are stored as `stored`, and sealed if there is an `opener`.
    pub(crate) fn open(
        &mut self,
        frame: &Frame,
        opener: Option<&Opener>,
        stored: &[u8],
    ) -> Result<Vec<u8>> {
        let Some(opener) = opener else {
            return self.decode(frame, stored);
        };
        let mut sealed = litepack_io::memory::copy(stored)?;
        opener.frame(frame, &mut sealed)?;
        self.decode(frame, &sealed)
    }

    /// The bytes of `frame`, which are stored as `stored`. The caller has seen that it is not too large.
    fn decode(&mut self, frame: &Frame, stored: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = litepack_io::memory::with_room(frame.size as usize)?;
        context(&mut self.context)?
            .decompress(&mut bytes, stored)
            .map_err(|code| malformed(frame, code))?;
        check_size(frame, bytes.len() as u64)?;
        if frame.checksum.is_some() {
            check_sum(frame, XxHash64::oneshot(0, &bytes))?;
        }
        Ok(bytes)
    }
}

/// The context there is, or a new one.
pub(crate) fn context<'a>(
    known: &'a mut Option<DCtx<'static>>,
) -> Result<&'a mut DCtx<'static>, OutOfMemory> {
    match known {
        Some(known) => Ok(known),
        None => Ok(known.insert(DCtx::try_create().ok_or(OutOfMemory)?)),
    }
}

pub(crate) fn malformed(frame: &Frame, code: ErrorCode) -> Error {
    /// `ZSTD_error_memory_allocation`.
    const MEMORY_ALLOCATION: usize = 64;
    if code == MEMORY_ALLOCATION.wrapping_neg() {
        return OutOfMemory.into();
    }
    let name = zstd_safe::get_error_name(code);
    Error::frame(frame, format!("it does not decode ({name})"))
}

pub(crate) fn check_size(frame: &Frame, found: u64) -> Result<()> {
    if found == u64::from(frame.size) {
        return Ok(());
    }
    let why = format!(
        "it decodes to {found} bytes, the seek table says {}",
        frame.size
    );
    Err(Error::frame(frame, why))
}

pub(crate) fn check_sum(frame: &Frame, digest: u64) -> Result<()> {
    match frame.checksum {
        Some(expected) if u64::from(expected) != digest & u64::from(u32::MAX) => Err(Error::frame(
            frame,
            "its bytes do not have the checksum in the seek table",
        )),
        _ => Ok(()),
    }
}
