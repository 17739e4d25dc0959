//! File controls and methods that every database file of ours answers alike: what SQLite hands over as bare memory, read and written
//! in one place.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::api::Api;
use super::types::sqlite3_file;
use crate::codes::{Code, NOTFOUND, OK};

/// Answers `SQLITE_FCNTL_PRAGMA` with what `body` makes of the pragma's name and value; `None` is no pragma of ours.
///
/// # Safety
/// `arg` is the argument of that file control.
pub(super) unsafe fn pragma(
    api: Api,
    arg: *mut c_void,
    body: impl FnOnce(&str, Option<&str>) -> Option<(Code, String)>,
) -> Code {
    let words = arg.cast::<*mut c_char>();
    // SAFETY: the argument is an array of three strings: answer, name, value or null.
    let (name, value) = unsafe { (*words.add(1), *words.add(2)) };
    let text = |word| {
        // SAFETY: as above.
        let word = unsafe { CStr::from_ptr(word) };
        word.to_string_lossy().into_owned()
    };
    let value = (!value.is_null()).then(|| text(value));
    match body(&text(name), value.as_deref()) {
        Some((code, answer)) => {
            // SAFETY: the first word is where the answer goes.
            unsafe { put_text(api, arg, &answer) };
            code
        }
        None => NOTFOUND,
    }
}

/// The offset of a read or write of `n` bytes at `at`. SQLite's numbers have signs, and those it means none of do not become
/// large ones here.
pub(super) fn place(n: c_int, at: i64) -> Option<u64> {
    let end = at.checked_add(n.into())?;
    (n >= 0 && end >= at).then(|| at.try_into().ok())?
}

/// Answers with a string in SQLite's memory.
///
/// # Safety
/// `arg` is where a string goes.
pub(super) unsafe fn put_text(api: Api, arg: *mut c_void, text: &str) {
    // SAFETY: as for this function.
    unsafe { arg.cast::<*mut c_char>().write(api.text(text)) };
}

/// Answers `SQLITE_FCNTL_MMAP_SIZE`: sets the limit if it is not negative and gives the former one back, as SQLite's VFSes do.
/// Nothing is ever mapped.
///
/// # Safety
/// `arg` is the argument of that file control.
pub(super) unsafe fn mmap_size(arg: *mut c_void, limit: &mut i64) -> Code {
    let arg = arg.cast::<i64>();
    // SAFETY: the argument is an i64 to read and write.
    unsafe {
        let asked = arg.read();
        arg.write(*limit);
        if asked >= 0 {
            *limit = asked;
        }
    }
    OK
}

/// `xFetch`: the bytes of a page are on disk in no form that could be mapped, so SQLite reads it instead. The methods
/// are there because `PRAGMA mmap_size` only takes a value from a file that has them.
pub(super) unsafe extern "C" fn fetch(
    _: *mut sqlite3_file,
    _: i64,
    _: c_int,
    to: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite gives a place for the result.
    unsafe { to.write(std::ptr::null_mut()) };
    OK
}

/// `xUnfetch`.
pub(super) unsafe extern "C" fn unfetch(_: *mut sqlite3_file, _: i64, _: *mut c_void) -> c_int {
    OK
}
