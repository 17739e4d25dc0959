//! What is asked of the page. The page writes only into memory that it is given here, of the length that it has said.

use std::ops::Range;
use std::time::Duration;

use crate::host::{Host, HostAnswer};

#[link(wasm_import_module = "litepack")]
unsafe extern "C" {
    /// Asks for bytes `start..end` of the URL and keeps the answer. Returns its status, or 0 if there is none.
    fn fetch(url: *const u8, url_len: usize, start: f64, end: f64) -> u32;
    /// The length of a part of the answer that is kept: 0 its headers, or why there is none; 1 its body.
    fn answer_len(part: u32) -> usize;
    /// Writes that part, so many bytes, and forgets it.
    fn answer(part: u32, to: *mut u8, len: usize);
    /// Lets so many milliseconds go by.
    fn wait(milliseconds: f64);
}

/// The page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page;

impl Host for Page {
    fn fetch(&self, url: &str, bytes: &Range<u64>) -> Result<HostAnswer, String> {
        let out_of_memory = |_| String::from("there is no memory for its answer");
        // SAFETY: the page reads the URL while the call lasts, and keeps nothing of the pointer.
        let status = unsafe {
            fetch(
                url.as_ptr(),
                url.len(),
                number(bytes.start),
                number(bytes.end),
            )
        };
        let text = part(0).map_err(out_of_memory)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        if status == 0 {
            return Err(text);
        }
        Ok(HostAnswer {
            status: u16::try_from(status).unwrap_or_default(),
            headers: text,
            body: part(1).map_err(out_of_memory)?,
        })
    }

    fn wait() -> fn(Duration) {
        // SAFETY: it takes a number.
        |time| unsafe { wait(time.as_secs_f64() * 1000.0) }
    }
}

/// A part of the answer.
fn part(number: u32) -> Result<Vec<u8>, litepack_io::memory::OutOfMemory> {
    // SAFETY: it takes a number and returns one.
    let len = unsafe { answer_len(number) };
    let mut bytes = litepack_io::memory::zeros(len)?;
    // SAFETY: `bytes` has `len` bytes, and lives and is not looked at while the call lasts.
    unsafe { answer(number, bytes.as_mut_ptr(), len) };
    Ok(bytes)
}

/// JavaScript's numbers are exact up to 2^53, and no file is longer than 2^48.
#[expect(clippy::cast_precision_loss, reason = "it is exact")]
fn number(bytes: u64) -> f64 {
    bytes as f64
}

/// There are no random numbers: a reader makes none.
#[expect(clippy::unnecessary_wraps, reason = "as it has to be")]
fn no_random_numbers(_: &mut [u8]) -> Result<(), getrandom_02::Error> {
    Err(getrandom_02::Error::UNSUPPORTED)
}
getrandom_02::register_custom_getrandom!(no_random_numbers);
