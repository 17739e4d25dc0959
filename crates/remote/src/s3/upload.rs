//! Writing an object: one request for a small file, a multipart upload ([`parts`](super::parts)) for others. Either way
//! the store shows the whole object or none of it.
//!
//! Each piece goes with its MD5, which the store compares.

use std::cell::Cell;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest as _, Md5};
use rusty_s3::{Bucket, Credentials};
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body, SendBody};
use url::Url;

use litepack_io::storage::ReadAt;

use super::exchange::{Secrets, exchange, get};
use super::object::{Condition, Object, sign};
use super::refusal::{CONFLICT, Refusal};
use crate::agent::{Timeouts, agent};
use crate::options::Options;
use crate::retry::{failure, retry};
use litepack_ranges::Counters;
use litepack_ranges::{Error, Result};
use litepack_ranges::{Failure, Retry};

/// Bytes read of the file at once.
const CHUNK: usize = 256 << 10;

/// How an object is written.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions {
    /// Replace an object that exists.
    pub replace: bool,
    /// Bytes in a part, at least: S3 takes no less than 5 MiB. A file that is no longer goes in one request. More if
    /// the file would have more than 10,000 parts. 16 MiB.
    pub part_size: u64,
    /// How long the store may take to make an object of the parts, for each attempt. 15 minutes.
    pub end_timeout: Duration,
    /// If no answer says whether there is such an object now: how long it is looked for before the parts are taken
    /// back. 60 s.
    pub look_for: Duration,
}

impl Default for UploadOptions {
    fn default() -> UploadOptions {
        UploadOptions {
            replace: false,
            part_size: 16 << 20,
            end_timeout: Duration::from_secs(900),
            look_for: Duration::from_secs(60),
        }
    }
}

/// Makes sure that there is no object at an `s3` URL, and so that the store can be reached at all.
///
/// # Errors
/// [`Error::Exists`]; a URL, settings or credentials that are not valid, a store that does not answer.
pub fn expect_absent(url: &str, options: &Options) -> Result<()> {
    Upload::new(url, &UploadOptions::default(), options)?.expect_absent()
}

/// Writes `len` bytes of `file` as the object at an `s3` URL. `progress` is told how many bytes are sent, and may stop
/// it.
///
/// # Errors
/// There is such an object and it is not to be replaced; the store refuses; the file cannot be read;
/// [`Error::Stopped`]. Then the store shows what it did before. A store that does not answer may have the object even so
/// ([`Error::Unreachable`]), and one that answers wrongly may have another one ([`Error::Answer`]), which the error says.
pub fn upload(
    url: &str,
    file: &dyn ReadAt,
    len: u64,
    how: &UploadOptions,
    options: &Options,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let upload = Upload::new(url, how, options)?;
    let mut work = Outgoing {
        file,
        how,
        progress,
    };
    let is_right = if len <= how.part_size {
        upload.put(&mut work, len)?
    } else {
        upload.in_parts(&mut work, len, how.part_size)?
    };
    match upload.head() {
        Ok(Some(found)) if found.len == len => Ok(()),
        // The store has said that it has what was sent, by its MD5.
        Err(_) if is_right => Ok(()),
        // It has said that it has something, and we may not look.
        Err(error) if is_denied(&error) => Ok(()),
        Ok(found) => Err(Error::Answer {
            url: upload.object.shown(),
            why: match found {
                Some(_) if is_right => {
                    "it was written, and another client has replaced it since".into()
                }
                Some(found) => format!(
                    "the object is there and is bad: of {len} bytes that were written, it has {}; write it again, or \
                     remove it",
                    found.len
                ),
                None => "what was written is not there".into(),
            },
        }),
        Err(error) => Err(error),
    }
}

/// We are known, and may not do this.
fn is_denied(error: &Error) -> bool {
    matches!(error, Error::Refused { status: 403, code, .. } if code == "AccessDenied")
}

/// Another request for the same object was under way.
fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Refused { code, .. } if code == CONFLICT)
}

type Sent = std::result::Result<Response<Body>, ureq::Error>;

pub(super) struct Outgoing<'a> {
    pub(super) file: &'a dyn ReadAt,
    pub(super) how: &'a UploadOptions,
    pub(super) progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

pub(super) struct Upload {
    pub(super) agent: Agent,
    /// For the request that may take the store long.
    pub(super) patient: Agent,
    pub(super) object: Object,
    pub(super) retry: Retry,
    pub(super) counters: Counters,
}

impl Upload {
    fn new(url: &str, how: &UploadOptions, options: &Options) -> Result<Upload> {
        options.check()?;
        Ok(Upload {
            agent: agent(options, Timeouts::of(options))?,
            patient: agent(options, Timeouts::of(options).with_answer(how.end_timeout))?,
            object: Object::new(url, options)?,
            retry: retry(options),
            counters: Counters::default(),
        })
    }

    /// Sends a request until there is an answer.
    pub(super) fn request<T>(
        &self,
        sign: impl Fn(&Object, &Bucket, &Credentials) -> Url,
        mut send: impl FnMut(&str) -> Sent,
        is_answer: impl Fn(StatusCode) -> bool,
        mut take: impl FnMut(Response<Body>, &Secrets) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        self.retry.run(
            || self.object.shown(),
            &self.counters,
            || {
                let send =
                    |url: &str| send(url).map_err(|error| failure(&self.object.shown(), error));
                let (response, secrets) = exchange(&self.object, &sign, send, &is_answer)?;
                take(response, &secrets)
            },
        )
    }

    pub(super) fn expect_absent(&self) -> Result<()> {
        match self.head() {
            Ok(Some(_)) => Err(Error::Exists {
                url: self.object.shown(),
            }),
            // Who may write need not be one who may read.
            Err(error) if is_denied(&error) => Ok(()),
            found => found.map(|_| ()),
        }
    }

    /// The conditions of a request that makes an object.
    pub(super) fn conditions(&self, work: &Outgoing<'_>) -> &'static [Condition] {
        match work.how.replace {
            true => &[],
            false => self.object.only_new(),
        }
    }

    /// The object that is there; `None` if there is none.
    fn head(&self) -> Result<Option<ExistingObject>> {
        self.request(
            get,
            |url| {
                self.agent
                    .get(url)
                    .header(header::RANGE, "bytes=0-0")
                    .call()
            },
            |status| matches!(status.as_u16(), 200 | 206 | 404 | 416),
            |response, secrets| {
                if response.status() != StatusCode::NOT_FOUND {
                    return Ok(Some(ExistingObject::of(&response)));
                }
                // Other things may be missing: the bucket, or who asks.
                let (head, body) = response.into_parts();
                let refusal = Refusal::read(&head.headers, body, secrets);
                if refusal.is_of_object() {
                    return Ok(None);
                }
                Err(Failure::Lasting(Error::Refused {
                    url: self.object.shown(),
                    status: 404,
                    hint: refusal.hint(404, ""),
                    code: refusal.code,
                }))
            },
        )
    }

    /// Sends the file in one request. Returns whether the store has said that it has what was sent.
    fn put(&self, work: &mut Outgoing<'_>, len: u64) -> Result<bool> {
        // There are stores that do not heed the conditions.
        if !work.how.replace {
            self.expect_absent()?;
        }
        let conditions = self.conditions(work);
        let signed = |object: &Object, bucket: &Bucket, credentials: &Credentials| {
            sign(
                bucket.put_object(Some(credentials), object.key()),
                conditions,
            )
        };
        let sent = self.send_piece(work, 0..len, signed, conditions)?;
        Ok(sent
            .etag
            .is_some_and(|etag| is_etag(&etag, &sum_of(sent.md5))))
    }

    /// Sends a part of the file.
    pub(super) fn send_piece(
        &self,
        work: &mut Outgoing<'_>,
        range: Range<u64>,
        sign: impl Fn(&Object, &Bucket, &Credentials) -> Url,
        conditions: &[Condition],
    ) -> Result<Part> {
        let md5 = md5_of(work.file, range.clone())?;
        let sum = BASE64_STANDARD.encode(md5);
        let url = self.object.shown();
        let mut send = |signed: &str| {
            let mut body = Piece {
                file: work.file,
                range: range.clone(),
                progress: &mut *work.progress,
                failed: None,
            };
            let mut request = self
                .agent
                .put(signed)
                .header(header::CONTENT_LENGTH, range.end - range.start)
                .header("content-md5", &sum);
            for condition in conditions {
                request = request.header(condition.name, condition.value);
            }
            let sent = request.send(SendBody::from_reader(&mut body));
            sent.map_err(|error| match body.failed {
                // It is not the store's fault, and would be the same next time.
                Some(why) => Failure::Lasting(why),
                None => failure(&url, error),
            })
        };
        // Whether an answer may have been lost that said that the object is made, and what was said last of another one.
        let (is_unclear, conflict) = (Cell::new(false), Cell::new(None));
        let sent = self.retry.run(
            || self.object.shown(),
            &self.counters,
            || {
                let is_answer = |status| status == StatusCode::OK;
                let sent = exchange(&self.object, &sign, &mut send, is_answer);
                conflict.set(None);
                match sent {
                    Err(Failure::Lasting(error)) if is_conflict(&error) => {
                        conflict.set(Some(error));
                        Err(Failure::Passing {
                            why: "another request for this object is under way".into(),
                            after: None,
                        })
                    }
                    Err(Failure::Passing { .. }) => {
                        is_unclear.set(true);
                        sent
                    }
                    sent => sent,
                }
            },
        );
        match sent {
            Ok((response, _)) => {
                let etag = response.headers().get(header::ETAG);
                let etag = etag.and_then(|etag| etag.to_str().ok());
                Ok(Part {
                    md5,
                    etag: etag.map(str::to_string),
                })
            }
            Err(Error::Refused {
                url, status: 412, ..
            }) => {
                // Sent again because an answer was lost, it finds what it made itself.
                let etag = sum_of(md5);
                if is_unclear.get() && self.has(&etag) {
                    return Ok(Part {
                        md5,
                        etag: Some(etag),
                    });
                }
                Err(Error::Exists { url })
            }
            Err(error @ Error::Unreachable { .. }) if !is_unclear.get() => {
                Err(conflict.take().unwrap_or(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is an object with this ETag.
    pub(super) fn has(&self, etag: &str) -> bool {
        let found = self.head().ok().flatten();
        found.is_some_and(|found| is_etag(&found.etag, etag))
    }
}

/// Whether a store calls it so.
pub(super) fn is_etag(told: &str, etag: &str) -> bool {
    told.trim_matches('"') == etag
}

/// An MD5 as it is in an ETag.
pub(super) fn sum_of(md5: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(md5))
}

/// A part that was sent.
pub(super) struct Part {
    pub(super) md5: [u8; 16],
    pub(super) etag: Option<String>,
}

/// An object that is there.
struct ExistingObject {
    len: u64,
    etag: String,
}

impl ExistingObject {
    /// By an answer to a request for its first byte.
    fn of(response: &Response<Body>) -> ExistingObject {
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        let total = header(header::CONTENT_RANGE).and_then(|range| range.rsplit('/').next());
        let total = total.or_else(|| header(header::CONTENT_LENGTH));
        ExistingObject {
            len: total.and_then(|total| total.parse().ok()).unwrap_or(0),
            etag: header(header::ETAG).unwrap_or_default().into(),
        }
    }
}

/// The MD5 of a part of the file.
fn md5_of(file: &dyn ReadAt, range: Range<u64>) -> Result<[u8; 16]> {
    let mut hash = Md5::new();
    let mut buf = vec![0; CHUNK];
    let mut at = range.start;
    while at < range.end {
        #[expect(clippy::cast_possible_truncation, reason = "it is at most a chunk")]
        let wanted = (range.end - at).min(CHUNK as u64) as usize;
        let n = file.read_at(buf.get_mut(..wanted).unwrap_or_default(), at);
        match n.map_err(Error::Source)? {
            0 => return Err(Error::Source(io::ErrorKind::UnexpectedEof.into())),
            n => {
                hash.update(buf.get(..n).unwrap_or_default());
                at += n as u64;
            }
        }
    }
    Ok(hash.finalize().into())
}

/// A part of the file on its way.
struct Piece<'a> {
    file: &'a dyn ReadAt,
    range: Range<u64>,
    progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    failed: Option<Error>,
}

impl Read for Piece<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is at most the length of `buf`"
        )]
        let wanted = (self.range.end - self.range.start).min(buf.len() as u64) as usize;
        if (self.progress)(self.range.start).is_break() {
            self.failed = Some(Error::Stopped);
            return Err(io::Error::other("stopped"));
        }
        let wanted = buf.get_mut(..wanted).unwrap_or_default();
        let read = self.file.read_at(wanted, self.range.start);
        let n = read.map_err(|error| {
            let kind = error.kind();
            self.failed = Some(Error::Source(error));
            io::Error::from(kind)
        })?;
        self.range.start += n as u64;
        Ok(n)
    }
}
