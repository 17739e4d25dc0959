//! A file that is only read, called as SQLite calls it: what it answers, and that a panic on the way is
//! SQLITE_INTERNAL, after which the file only closes.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use litepack_btree::PageNumber;

use super::methods::{OBJECT_SIZE, install, with};
use crate::c::api::tests::{silent, without_memory};
use crate::c::api::{Api, call};
use crate::c::bindings::{sqlite3_file, sqlite3_io_methods};
use crate::c::codes::{
    INTERNAL, IOCAP_IMMUTABLE, IOERR_FSTAT, IOERR_READ, IOERR_SHORT_READ, NOMEM, NOTFOUND, OK,
    READONLY, fcntl,
};
use crate::failure::Failure;
use crate::files::{Database, File};
use crate::options::{Name, Setting};

/// Some bytes, and whether they are still there.
struct Memory {
    bytes: Vec<u8>,
    there: Rc<Cell<bool>>,
}

impl File for Memory {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize, Failure> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn size(&mut self) -> Result<u64, Failure> {
        Ok(self.bytes.len() as u64)
    }

    fn database(&mut self) -> Option<&mut dyn Database> {
        Some(self)
    }
}

impl Database for Memory {
    fn setting(&self, _: Name) -> Result<String, String> {
        Err("none".into())
    }

    fn split(&mut self, _: PageNumber, _: usize) -> Result<String, Failure> {
        Ok("[]".into())
    }

    fn apply(&mut self, _: Setting) -> Result<(), String> {
        Err("none".into())
    }

    fn info(&mut self) -> Result<String, Failure> {
        Ok("{}".into())
    }

    fn check(&mut self) -> Result<String, Failure> {
        Ok("ok".into())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.there.set(false);
    }
}

/// Opens a file of these bytes, and runs `body` on it and its methods.
fn opened(bytes: &[u8], body: impl FnOnce(*mut sqlite3_file, &sqlite3_io_methods)) {
    opened_by(silent(), bytes, body);
}

/// As [`opened`], for this SQLite.
fn opened_by(api: Api, bytes: &[u8], body: impl FnOnce(*mut sqlite3_file, &sqlite3_io_methods)) {
    let there = Rc::new(Cell::new(true));
    let content = Memory {
        bytes: bytes.to_vec(),
        there: Rc::clone(&there),
    };
    let mut memory = vec![0u128; OBJECT_SIZE.div_ceil(16)];
    let file: *mut sqlite3_file = memory.as_mut_ptr().cast();
    // SAFETY: the memory holds a file of ours, and nothing else uses it.
    unsafe {
        install(file, api, "litepack", content);
        let methods = &*(*file).pMethods;
        body(file, methods);
        assert_eq!(call!(methods, xClose(file)), OK);
        assert!((*file).pMethods.is_null());
    }
    assert!(!there.get(), "closing lets go of the content");
}

#[test]
fn bytes_are_given_and_none_taken() {
    opened(b"0123456789", |file, methods| {
        let mut buf = [9u8; 8];
        let mut size = -1;
        let to = buf.as_mut_ptr().cast();
        // SAFETY: the file is open and the buffer has eight bytes.
        unsafe {
            assert_eq!(call!(methods, xFileSize(file, &raw mut size)), OK);
            assert_eq!(size, 10);
            assert_eq!(call!(methods, xRead(file, to, 8, 1)), OK);
            assert_eq!(&buf, b"12345678");
            assert_eq!(call!(methods, xRead(file, to, 8, 7)), IOERR_SHORT_READ);
            assert_eq!(&buf, b"789\0\0\0\0\0");
            assert_eq!(call!(methods, xRead(file, to, 8, 100)), IOERR_SHORT_READ);
            assert_eq!(buf, [0; 8]);
            assert_eq!(call!(methods, xWrite(file, to, 8, 0)), READONLY);
            assert_eq!(call!(methods, xTruncate(file, 0)), READONLY);
            for level in [1, 2, 4] {
                assert_eq!(call!(methods, xLock(file, level)), OK);
            }
            let mut held: c_int = 7;
            assert_eq!(call!(methods, xCheckReservedLock(file, &raw mut held)), OK);
            assert_eq!(held, 0);
            assert_eq!(call!(methods, xUnlock(file, 0)), OK);
            assert_eq!(
                call!(methods, xDeviceCharacteristics(file)),
                IOCAP_IMMUTABLE
            );
            let control = methods.xFileControl.unwrap();
            assert_eq!(control(file, fcntl::SYNC, std::ptr::null_mut()), NOTFOUND);
            let mut limit: i64;
            for (set, former) in [(1 << 20, 0), (-1, 1 << 20), (0, 1 << 20), (-1, 0)] {
                limit = set;
                assert_eq!(control(file, fcntl::MMAP_SIZE, (&raw mut limit).cast()), OK);
                assert_eq!(limit, former, "{set}");
            }
            let mut page = to;
            let fetch = methods.xFetch.unwrap();
            assert_eq!(fetch(file, 0, 8, &raw mut page), OK);
            assert!(page.is_null());
        }
    });
}

#[test]
fn without_memory_for_the_answer_there_is_an_error_and_not_no_answer() {
    opened_by(without_memory(), b"0123456789", |file, methods| {
        let control = methods.xFileControl.unwrap();
        let mut answer: *mut c_char = std::ptr::null_mut();
        let mut pragma = [
            std::ptr::null_mut(),
            c"litepack_version".as_ptr().cast_mut(),
            std::ptr::null_mut(),
        ];
        for op in [fcntl::LITEPACK_INFO, fcntl::LITEPACK_CHECK, fcntl::VFSNAME] {
            // SAFETY: the file is open, and the argument is where a text goes.
            let code = unsafe { control(file, op, (&raw mut answer).cast::<c_void>()) };
            assert_eq!((code, answer), (NOMEM, std::ptr::null_mut()));
        }
        // SAFETY: the file is open, and the argument is an answer's place, a name and no value.
        let code = unsafe { control(file, fcntl::PRAGMA, pragma.as_mut_ptr().cast()) };
        assert_eq!((code, pragma[0]), (NOMEM, std::ptr::null_mut()));
    });
}

#[test]
fn a_panic_is_an_internal_error_and_poisons_the_file() {
    opened(b"0123456789", |file, methods| {
        let mut buf = [0u8; 4];
        let mut size = -1;
        // SAFETY: the file is open and the buffer has four bytes.
        unsafe {
            assert_eq!(with::<Memory>(file, |_| panic!("on purpose")), INTERNAL);
            assert_eq!(call!(methods, xFileSize(file, &raw mut size)), IOERR_FSTAT);
            let to = buf.as_mut_ptr().cast();
            assert_eq!(call!(methods, xRead(file, to, 4, 0)), IOERR_READ);
            let control = methods.xFileControl.unwrap();
            assert_eq!(control(file, fcntl::SYNC, std::ptr::null_mut()), INTERNAL);
            assert_eq!(call!(methods, xUnlock(file, 0)), OK);
        }
    });
}
