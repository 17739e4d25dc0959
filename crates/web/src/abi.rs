//! What the page calls. Databases have numbers. Texts and pages go through one buffer, which the page asks for and looks
//! into between two calls; so nothing here takes a pointer.
//!
//! There is one thread, and no call is made from within another. The functions are not safe to name twice in a program,
//! which is all that `unsafe` in their attribute says.
#![allow(
    unsafe_code,
    reason = "the names of exported functions are unsafe attributes"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use litepack_cipher::Key;
use zeroize::Zeroizing;

use crate::database::{Code, Database, Failure};
use crate::host::HostFetch;
use crate::imports::Page;

/// All there is.
struct State {
    databases: BTreeMap<u32, Database<Page>>,
    /// How many were opened. No number is given twice, so that of a closed one is none.
    opened: u32,
    buffer: Vec<u8>,
    /// SQLite's number for the last failure.
    code: i32,
}

static STATE: Mutex<State> = Mutex::new(State {
    databases: BTreeMap::new(),
    opened: 0,
    buffer: Vec::new(),
    code: 0,
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a call answers that failed. The buffer then has the reason.
const FAILED: f64 = -1.0;

/// No longer text or page is passed on at once, in bytes.
const BUFFER_MAX: usize = 1 << 20;

impl State {
    fn failed(&mut self, failure: &Failure) -> f64 {
        self.code = failure.code as i32;
        self.buffer = failure.why.clone().into_bytes();
        FAILED
    }

    /// The database with this number, and the buffer.
    fn database(&mut self, number: u32) -> Option<(&mut Database<Page>, &mut Vec<u8>)> {
        Some((self.databases.get_mut(&number)?, &mut self.buffer))
    }
}

fn no_such_database() -> Failure {
    Failure {
        code: Code::Read,
        why: "the database is closed".into(),
    }
}

fn no_more_databases() -> Failure {
    Failure {
        code: Code::CannotOpen,
        why: "too many databases were opened: start the reader again".into(),
    }
}

/// Gives the buffer this length, and says where it is; 0 if there is no memory for it.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_buffer(len: usize) -> *mut u8 {
    let buffer = &mut state().buffer;
    buffer.clear();
    if len > BUFFER_MAX || litepack_io::memory::resize(buffer, len).is_err() {
        return std::ptr::null_mut();
    }
    buffer.as_mut_ptr()
}

/// Where the buffer is.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_text() -> *const u8 {
    state().buffer.as_ptr()
}

/// How long it is.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_text_len() -> usize {
    state().buffer.len()
}

/// SQLite's number for the last failure.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_code() -> i32 {
    state().code
}

/// Opens a database. The buffer has its absolute URL, so many bytes, and behind it the key, as `PRAGMA key` takes it, or
/// nothing. Returns its number.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_open(url_len: usize, is_elsewhere: u32) -> f64 {
    let mut state = state();
    // Wiped when it goes: nothing else does that to what the module has in memory.
    let buffer = Zeroizing::new(std::mem::take(&mut state.buffer));
    let opened = open(&buffer, url_len, is_elsewhere != 0).and_then(|database| {
        // The last number is the page's for none.
        let number = state.opened;
        state.opened = number.checked_add(1).ok_or_else(no_more_databases)?;
        state.databases.insert(number, database);
        Ok(number)
    });
    match opened {
        Ok(number) => number.into(),
        Err(failure) => state.failed(&failure),
    }
}

fn open(buffer: &[u8], url_len: usize, is_elsewhere: bool) -> Result<Database<Page>, Failure> {
    let cannot = |why: String| Failure {
        code: Code::CannotOpen,
        why,
    };
    let (url, key) = buffer
        .split_at_checked(url_len)
        .ok_or_else(|| cannot("the URL is too long".into()))?;
    let url = str::from_utf8(url).map_err(|_| cannot("the URL is not text".into()))?;
    let key = match key {
        [] => None,
        key => Some(Arc::new(
            Key::written(key).map_err(|error| cannot(error.to_string()))?,
        )),
    };
    Database::open(HostFetch::new(Page, url, is_elsewhere), key.as_ref())
}

/// Closes a database.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_close(database: u32) {
    state().databases.remove(&database);
}

/// The length of a database in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_size(database: u32) -> f64 {
    let mut state = state();
    let size = state
        .database(database)
        .ok_or_else(no_such_database)
        .and_then(|(database, _)| database.size());
    match size {
        #[expect(
            clippy::cast_precision_loss,
            reason = "no database is longer than 2^48"
        )]
        Ok(size) => size as f64,
        Err(failure) => state.failed(&failure),
    }
}

/// Reads so many bytes of a database from an offset into the buffer. Returns how many there were; fewer only at the end.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_read(database: u32, offset: f64, len: usize) -> f64 {
    let mut state = state();
    let read = state
        .database(database)
        .ok_or_else(no_such_database)
        .and_then(|(database, buffer)| {
            buffer.clear();
            let has_room = len <= BUFFER_MAX && litepack_io::memory::resize(buffer, len).is_ok();
            if !has_room || !(0.0..9e15).contains(&offset) {
                return Err(Failure {
                    code: Code::Read,
                    why: "there is no memory for this, or no such place".into(),
                });
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it was looked at"
            )]
            database.read(buffer, offset as u64)
        });
    match read {
        Ok(read) => read as f64,
        Err(failure) => state.failed(&failure),
    }
}

/// Puts what reading took so far into the buffer, as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn litepack_traffic(database: u32) -> f64 {
    let mut state = state();
    match state.database(database) {
        Some((database, buffer)) => {
            *buffer = database.traffic().into_bytes();
            buffer.len() as f64
        }
        None => state.failed(&no_such_database()),
    }
}
