//! One frame from stored bytes to bytes of the database, whole: exactly what the seek table says, or an error.
//!
//! The buffer has the size in the table, so a frame that would be longer gets no more memory.

use std::io;

use twox_hash::XxHash64;
use zstd_safe::DCtx;

use crate::error::{Error, Result};
use crate::seek_table::Frame;

/// Decodes frames, one after the other, in one context.
pub(crate) struct Decoder {
    context: DCtx<'static>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            context: DCtx::create(),
        }
    }
}

impl Decoder {
    /// The bytes of `frame`, which are stored as `stored`. The caller has seen that it is not too large.
    pub(crate) fn decode(&mut self, frame: &Frame, stored: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(frame.size as usize)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        self.context
            .decompress(&mut bytes, stored)
            .map_err(|code| malformed(frame, code))?;
        check_size(frame, bytes.len() as u64)?;
        if frame.checksum.is_some() {
            check_sum(frame, XxHash64::oneshot(0, &bytes))?;
        }
        Ok(bytes)
    }
}

pub(crate) fn malformed(frame: &Frame, code: zstd_safe::ErrorCode) -> Error {
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
        Some(expected) if expected != digest as u32 => Err(Error::frame(
            frame,
            "its bytes do not have the checksum in the seek table",
        )),
        _ => Ok(()),
    }
}
