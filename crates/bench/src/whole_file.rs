//! A whole file under zstd at its highest ordinary level, with a long window: the size of an
//! archive of it, which cannot be queried. The ratios of packed files are measured by it.

use std::fs::File;
use std::io::{Read, Result, Sink, Write};
use std::path::Path;

use zstd::Encoder;

/// As reports call it.
pub const NAME: &str = "whole file, zstd -19 --long=27 (not readable in place)";

const LEVEL: i32 = 19;
const WINDOW_LOG: u32 = 27;
const CHUNK: usize = 1 << 20;

/// The bytes of the compressed file. They take minutes to find out, so that they are kept beside
/// the file, which must never change; `progress` is told the share that is done.
pub fn compressed_bytes(path: &Path, progress: impl FnMut(f64)) -> anyhow::Result<u64> {
    let kept = path.with_extension("zst19-size");
    if let Ok(text) = std::fs::read_to_string(&kept) {
        return Ok(text.trim().parse()?);
    }
    let bytes = compress(path, progress)?;
    // A run that is stopped leaves no half of a number.
    let unfinished = path.with_extension("zst19-unfinished");
    std::fs::write(&unfinished, format!("{bytes}\n"))?;
    std::fs::rename(unfinished, kept)?;
    Ok(bytes)
}

/// On one thread: several find a little less, and zstd's support for them would be linked into all
/// of Litepack.
fn compress(path: &Path, mut progress: impl FnMut(f64)) -> Result<u64> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut encoder = Encoder::new(Counter::default(), LEVEL)?;
    encoder.set_pledged_src_size(Some(len))?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.long_distance_matching(true)?;
    encoder.include_checksum(true)?;
    let mut chunk = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break;
        }
        encoder.write_all(&chunk[..read])?;
        done += read as u64;
        progress(done as f64 / len as f64);
    }
    Ok(encoder.finish()?.bytes)
}

/// Counts what is written, and keeps none of it.
#[derive(Default)]
struct Counter {
    bytes: u64,
    sink: Sink,
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.bytes += bytes.len() as u64;
        self.sink.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_far_away_is_found_and_the_size_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut rng = fastrand::Rng::with_seed(1);
        let half: Vec<u8> = std::iter::repeat_with(|| rng.u8(..))
            .take(9 << 20)
            .collect();
        std::fs::write(&path, [&half[..], &half].concat()).unwrap();
        let mut calls = 0;
        let bytes = compressed_bytes(&path, |_| calls += 1).unwrap();
        assert!((half.len() as u64..half.len() as u64 * 101 / 100).contains(&bytes));
        assert!(calls > 0);
        let again = compressed_bytes(&path, |_| panic!("nothing is left to do")).unwrap();
        assert_eq!(again, bytes);
    }
}
