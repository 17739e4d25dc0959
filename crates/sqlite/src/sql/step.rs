//! How the SQL function asks a file for a step of maintenance: by a file control of ours.

use std::ffi::{CStr, CString, c_int, c_void};

use litepack_btree::quote;
use litepack_codec::Level;
use litepack_columns::sql::{Error, Sql};

use super::call::Call;
use crate::c::codes::{BUSY, INTERRUPT, NOTFOUND, OK, fcntl};
use crate::failure::Failure;
use crate::files::Database;
use crate::session::{MAINTENANCE_FAILED, READ_FIRST};

/// The question to a step, and its answer. Another copy of this library, of another version, may be asked: so the
/// layout is C's and begins with its version.
#[repr(C)]
pub(crate) struct Request {
    /// [`LAYOUT`].
    layout: u32,
    /// The level to work at; 0 for the file's own.
    level: c_int,
    /// There is more to do.
    more: bool,
    /// The error: a text and its length, or null.
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
    pub(crate) unsafe fn at<'a>(at: *mut c_void) -> Option<&'a mut Request> {
        // SAFETY: the caller says that a request is there, and any begins with the version of its layout. Only one of
        // this layout is looked at further.
        unsafe { (at.cast::<u32>().read() == LAYOUT).then(|| &mut *at.cast()) }
    }

    /// Has the database do the step.
    pub(crate) fn answer(&mut self, database: &mut dyn Database) -> Result<(), Failure> {
        let level = Some(self.level).filter(|level| *level != 0);
        match database.maintain(level) {
            Ok(more) => {
                self.more = more;
                Ok(())
            }
            Err(failure) => {
                // Only such a text outlives the call.
                if let Some(why) = failure.fixed_words() {
                    (self.why, self.why_len) = (why.as_ptr(), why.len());
                }
                Err(failure)
            }
        }
    }

    /// The error's text.
    fn why(&self) -> &'static str {
        if self.why.is_null() {
            return MAINTENANCE_FAILED;
        }
        // SAFETY: it is a text in a library that is never unloaded.
        let why = unsafe { std::slice::from_raw_parts(self.why, self.why_len) };
        std::str::from_utf8(why).unwrap_or(MAINTENANCE_FAILED)
    }
}

/// How a step ended.
pub(crate) enum Step {
    /// There is more to do.
    More,
    /// There is not.
    Done,
    /// Another connection is in the way; to be tried again.
    Busy,
}

impl Call<'_> {
    /// Does a step of maintenance on the database `schema`.
    pub(crate) fn maintain(
        &self,
        schema: &str,
        level: Option<Level>,
    ) -> litepack_columns::sql::Result<Step> {
        let name = CString::new(schema).map_err(|_| self.error("no database has that name"))?;
        let read = || {
            let any = format!("select 1 from {}.sqlite_schema limit 1", quote(schema));
            self.db().run(&any, &[])
        };
        // No read before it is needed: it would wait for a writer as any statement does, and count that as no refusal.
        let (mut code, mut request) = self.ask(&name, level);
        if request.why() == READ_FIRST {
            // This maps the index, which is where the locks are.
            match read() {
                Err(error) if error.code & 0xff == BUSY => return Ok(Step::Busy),
                mapped => mapped?,
            };
            (code, request) = self.ask(&name, level);
        }
        match code {
            OK if request.more => Ok(Step::More),
            OK => Ok(Step::Done),
            BUSY if request.why.is_null() => Ok(Step::Busy),
            INTERRUPT => Err(Error::interrupted()),
            NOTFOUND => Err(self.error("this is not a packed database")),
            code => {
                if request.why.is_null() {
                    // A statement reports an error of the database better.
                    read()?;
                }
                Err(Error {
                    code,
                    ..self.error(request.why())
                })
            }
        }
    }

    fn ask(&self, name: &CStr, level: Option<Level>) -> (c_int, Request) {
        let mut request = Request::new(level);
        let argument = (&raw mut request).cast();
        // SAFETY: the context is that of the running function. Only our VFS has this operation, and its argument is a
        // request, which lives until the call returns.
        let code = unsafe {
            let api = self.api();
            api.file_control(self.context(), name, fcntl::LITEPACK_MAINTAIN, argument)
        };
        (code, request)
    }
}
