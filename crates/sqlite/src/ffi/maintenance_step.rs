//! Maintenance between SQLite's own calls: which locks a step takes, and how the SQL function asks for one.
//!
//! A step writes the file, so it keeps other writers out as a transaction would, by the RESERVED lock, and
//! in WAL mode checkpoints by theirs. Readers need not be kept out: no byte of the database changes.

use std::ffi::{CString, c_int, c_void};
use std::time::Instant;

use litepack_codec::Level;
use litepack_columns::sql::{Error, Result, Sql};
use litepack_columns::tokens::quote;

use super::bindings::{SQLITE_SHM_EXCLUSIVE, SQLITE_SHM_LOCK, SQLITE_SHM_UNLOCK};
use super::columns::Call;
use super::file::{State, report};
use crate::codes::{BUSY, Code, ERROR, LOCK_RESERVED, LOCK_SHARED, NOTFOUND, OK, While, fcntl};
use crate::file::packed::Upkeep;
use crate::maintain_function::{Busy, RETRY};

/// What a step is asked, and what it answers. Another copy of this library, of another version, may be asked: so the
/// layout is C's and begins with its version.
#[repr(C)]
pub(super) struct Request {
    /// [`LAYOUT`].
    layout: u32,
    /// The level to work at; 0 for the file's own.
    level: c_int,
    /// There is more to do.
    more: bool,
    /// What is wrong: a text and its length, or null.
    why: *const u8,
    why_len: usize,
}

/// To be changed with [`Request`].
const LAYOUT: u32 = 1;

impl Request {
    fn new(level: Option<Level>) -> Request {
        Request {
            layout: LAYOUT,
            level: level.unwrap_or(0),
            more: false,
            why: std::ptr::null(),
            why_len: 0,
        }
    }

    /// The request at this address, if it is laid out as here.
    ///
    /// # Safety
    /// `at` is the argument of [`fcntl::LITEPACK_MAINTAIN`], for as long as what is returned is used.
    pub(super) unsafe fn at<'a>(at: *mut c_void) -> Option<&'a mut Request> {
        // SAFETY: as for this function; any request begins with the version of its layout.
        unsafe { (at.cast::<u32>().read() == LAYOUT).then(|| &mut *at.cast()) }
    }

    pub(super) fn refuse(&mut self, why: &'static str) {
        (self.why, self.why_len) = (why.as_ptr(), why.len());
    }

    /// What is wrong.
    fn why(&self) -> &'static str {
        if self.why.is_null() {
            return FAILED;
        }
        // SAFETY: it is a text in a library that is never unloaded.
        let why = unsafe { std::slice::from_raw_parts(self.why, self.why_len) };
        std::str::from_utf8(why).unwrap_or(FAILED)
    }
}

impl State {
    /// Answers a request for a step of maintenance.
    ///
    /// # Safety
    /// `request` is the argument of [`fcntl::LITEPACK_MAINTAIN`].
    pub(super) unsafe fn maintain_at(&mut self, request: *mut c_void) -> Code {
        // SAFETY: as for this function.
        match unsafe { Request::at(request) } {
            Some(request) => self.maintain(request),
            None => {
                let why =
                    "another version of litepack, loaded beside this one, asked for maintenance";
                self.api.log(ERROR, why);
                ERROR
            }
        }
    }

    /// One step of maintenance.
    fn maintain(&mut self, request: &mut Request) -> Code {
        let level = Some(request.level).filter(|level| *level != 0);
        let upkeep = match self.packed.upkeep(level) {
            Ok(upkeep) => upkeep,
            Err(error) => return report(self.api, Err(error), While::Reading),
        };
        match upkeep {
            Upkeep::InTransaction => {
                request.refuse("not inside a transaction that has written");
                ERROR
            }
            Upkeep::Planned => {
                request.more = true;
                OK
            }
            Upkeep::Nothing => OK,
            Upkeep::Step => self.writing(request, |state, request| {
                let step = state.packed.upkeep_step();
                report(
                    state.api,
                    step.map(|more| request.more = more),
                    While::Writing,
                )
            }),
        }
    }

    /// Maintenance for so many seconds, or until nothing is left to do: 1 if there is more to do, else 0.
    pub(super) fn maintain_for(&mut self, seconds: Option<f64>) -> (Code, String) {
        let begun = Instant::now();
        let mut busy = Busy::default();
        loop {
            let mut request = Request::new(None);
            match self.maintain(&mut request) {
                OK if !request.more => return (OK, "0".into()),
                OK => busy = Busy::default(),
                BUSY if busy.is_patient() => std::thread::sleep(RETRY),
                code => return (code, request.why().into()),
            }
            if seconds.is_some_and(|seconds| begun.elapsed().as_secs_f64() >= seconds) {
                return (OK, "1".into());
            }
        }
    }

    /// Runs `body` with all others kept from writing.
    fn writing(
        &mut self,
        request: &mut Request,
        body: impl FnOnce(&mut Self, &mut Request) -> Code,
    ) -> Code {
        let (file, methods) = self.host();
        let (lock, unlock) = (methods.lock, methods.unlock);
        let before = self.packed.lock_level();
        let mut code = OK;
        for level in [LOCK_SHARED, LOCK_RESERVED] {
            if code == OK && self.packed.lock_level() < level {
                // SAFETY: the host's file is open.
                code = unsafe { lock(file, level) };
                if code == OK {
                    code = report(self.api, self.packed.locked(level), While::Reading);
                }
            }
        }
        if code == OK {
            code = self.without_checkpoints(request, body);
        }
        if self.packed.lock_level() > before {
            self.packed.unlocking(before);
            // SAFETY: as above; down from RESERVED there are only SHARED and nothing.
            unsafe { unlock(file, before.min(LOCK_SHARED)) };
        }
        code
    }

    fn without_checkpoints(
        &mut self,
        request: &mut Request,
        body: impl FnOnce(&mut Self, &mut Request) -> Code,
    ) -> Code {
        // WAL_CKPT_LOCK (<https://sqlite.org/walformat.html#wal_locks>).
        const CHECKPOINT_LOCK: c_int = 1;
        match self.packed.is_wal() {
            Err(error) => return report(self.api, Err(error), While::Reading),
            // With an exclusive lock on the file nobody else uses the WAL, and there may be no index.
            Ok(false) => return body(self, request),
            Ok(true) if self.packed.lock_level() > LOCK_RESERVED => return body(self, request),
            Ok(true) => {}
        }
        let (file, methods) = self.host();
        let Some(shm_lock) = methods.shm_lock.filter(|_| self.has_wal_index()) else {
            request.refuse("in WAL mode, read something from the database first");
            return ERROR;
        };
        // SAFETY: the host's file is open, and its WAL index is mapped.
        match unsafe {
            shm_lock(
                file,
                CHECKPOINT_LOCK,
                1,
                SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE,
            )
        } {
            OK => {
                let code = body(self, request);
                // SAFETY: as above.
                unsafe {
                    shm_lock(
                        file,
                        CHECKPOINT_LOCK,
                        1,
                        SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE,
                    )
                };
                code
            }
            code => code,
        }
    }
}

/// What can be said without knowing more; SQLite's error log has the rest.
const FAILED: &str = "maintenance failed; what was done is kept";

/// How a step ended.
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// There is not.
    Done,
    /// Another connection is writing.
    Busy,
}

impl Call<'_> {
    /// Does a step of maintenance on the database `schema`.
    pub(crate) fn maintain(&self, schema: &str, level: Option<Level>) -> Result<Step> {
        // In WAL mode this maps the index, which is where the locks are.
        let any = format!("select 1 from {}.sqlite_schema limit 1", quote(schema));
        self.db().run(&any, &[])?;
        let name = CString::new(schema).map_err(|_| self.error("no database has that name"))?;
        let mut request = Request::new(level);
        let argument = (&raw mut request).cast();
        // SAFETY: the function is running, and nobody but this VFS knows the operation.
        let code = unsafe {
            let api = self.api();
            api.file_control(self.context(), &name, fcntl::LITEPACK_MAINTAIN, argument)
        };
        match code {
            OK if request.more => Ok(Step::More),
            OK => Ok(Step::Done),
            BUSY => Ok(Step::Busy),
            NOTFOUND => Err(self.error("this is not a packed database")),
            code => Err(Error {
                code,
                ..self.error(request.why())
            }),
        }
    }
}
