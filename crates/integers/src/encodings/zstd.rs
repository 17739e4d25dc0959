//! zstd over an encoding, with frames as bare as those that Litepack stores pages in.

use anyhow::{Result, anyhow};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

/// Contexts for one level.
pub struct Zstd {
    compress: CCtx<'static>,
    decompress: DCtx<'static>,
}

fn error(code: usize) -> anyhow::Error {
    anyhow!("zstd: {}", zstd_safe::get_error_name(code))
}

impl Zstd {
    /// Of a level.
    ///
    /// # Errors
    /// zstd's.
    pub fn new(level: i32) -> Result<Self> {
        let (mut compress, mut decompress) = (CCtx::create(), DCtx::create());
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::Format(FrameFormat::Magicless),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
        ] {
            compress.set_parameter(parameter).map_err(error)?;
        }
        decompress
            .set_parameter(DParameter::Format(FrameFormat::Magicless))
            .map_err(error)?;
        Ok(Self {
            compress,
            decompress,
        })
    }

    /// Replaces `out` by the frame of `input`.
    ///
    /// # Errors
    /// zstd's.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        out.resize(zstd_safe::compress_bound(input.len()), 0);
        let len = self
            .compress
            .compress2(&mut out[..], input)
            .map_err(error)?;
        out.truncate(len);
        Ok(())
    }

    /// Replaces `out` by what the frame holds, which is `len` bytes.
    ///
    /// # Errors
    /// zstd's.
    pub fn decompress(&mut self, frame: &[u8], len: usize, out: &mut Vec<u8>) -> Result<()> {
        out.resize(len, 0);
        let len = self
            .decompress
            .decompress(&mut out[..], frame)
            .map_err(error)?;
        out.truncate(len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back() {
        for level in [3, 19] {
            let mut zstd = Zstd::new(level).unwrap();
            let (mut frame, mut back) = (Vec::new(), vec![5; 3]);
            zstd.compress(&[9; 5000], &mut frame).unwrap();
            assert!(frame.len() < 50);
            zstd.decompress(&frame, 5000, &mut back).unwrap();
            assert_eq!(back, [9; 5000]);
            assert!(zstd.decompress(&frame, 4999, &mut back).is_err());
        }
    }
}
