//! Writing an object: one request for a small file, a multipart upload for others. Either way the store shows the whole
//! object or none of it.
//!
//! Each piece goes with its MD5, which the store compares. What was begun and did not end is taken back.

use std::io::{self, Read};
use std::ops::{ControlFlow, Range};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest as _, Md5};
use rusty_s3::actions::{
    CompleteMultipartUpload, CompleteMultipartUploadResponse, CreateMultipartUpload,
};
use rusty_s3::{Bucket, Credentials, S3Action as _};
use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body, SendBody};
use url::Url;

use litepack_io::storage::ReadAt;

use super::exchange::{Secrets, exchange, get};
use super::object::{Object, SIGNED_FOR};
use super::refusal::{Refusal, element, text_of};
use crate::agent::{Timeouts, agent};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::retry::{Failure, Retry, failure};
use crate::traffic::Counters;

/// S3 takes so many parts.
const PARTS_MAX: u64 = 10_000;
/// What is read of the file at once.
const CHUNK: usize = 256 << 10;

/// How an object is written.
#[derive(Clone, Copy, Debug)]
pub struct UploadOptions {
    /// Replace an object that exists.
    pub replace: bool,
    /// Bytes in a part, at least: S3 takes no less than 5 MiB. A file that is no longer goes in one request. More if
    /// the file would have more than 10,000 parts. 16 MiB.
    pub part_size: u64,
}

impl Default for UploadOptions {
    fn default() -> UploadOptions {
        UploadOptions {
            replace: false,
            part_size: 16 << 20,
        }
    }
}

/// Makes sure that there is no object at an `s3` URL, and so that the store can be reached at all.
///
/// # Errors
/// [`Error::Exists`]; a URL, settings or credentials that are not valid, a store that does not answer.
pub fn expect_absent(url: &str, options: &Options) -> Result<()> {
    let upload = Upload::new(url, options)?;
    match upload.head() {
        Ok(Some(_)) => Err(Error::Exists {
            url: upload.object.shown(),
        }),
        // Who may write need not be one who may read. What is there already is not replaced even so.
        Err(error) if is_denied(&error) => Ok(()),
        found => found.map(|_| ()),
    }
}

/// Writes `len` bytes of `file` as the object at an `s3` URL. `progress` is told how many bytes are sent, and may stop
/// it.
///
/// # Errors
/// There is such an object and it is not to be replaced; the store refuses or does not answer; the file cannot be read;
/// [`Error::Stopped`]. Then the store shows what it did before.
pub fn upload(
    url: &str,
    file: &dyn ReadAt,
    len: u64,
    how: &UploadOptions,
    options: &Options,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<()> {
    let upload = Upload::new(url, options)?;
    let mut work = Work {
        file,
        replace: how.replace,
        progress,
    };
    if len <= how.part_size {
        upload.put(&mut work, len)?;
    } else {
        upload.in_parts(&mut work, len, how.part_size)?;
    }
    match upload.head() {
        Ok(Some(found)) if found.len == len => Ok(()),
        // The store has said that it has it.
        Err(error) if is_denied(&error) => Ok(()),
        Ok(found) => Err(Error::Answer {
            url: upload.object.shown(),
            why: match found {
                Some(found) => format!("of {len} bytes that were written, it has {}", found.len),
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

type Sent = std::result::Result<Response<Body>, ureq::Error>;

struct Work<'a> {
    file: &'a dyn ReadAt,
    replace: bool,
    progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
}

struct Upload {
    agent: Agent,
    object: Object,
    retry: Retry,
    counters: Counters,
}

impl Upload {
    fn new(url: &str, options: &Options) -> Result<Upload> {
        options.check()?;
        Ok(Upload {
            agent: agent(options, Timeouts::of(options))?,
            object: Object::new(url, options)?,
            retry: Retry::new(options),
            counters: Counters::default(),
        })
    }

    /// Sends a request until there is an answer.
    fn request<T>(
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

    /// What is there; `None` if nothing is.
    fn head(&self) -> Result<Option<Found>> {
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
                    return Ok(Some(Found::of(&response)));
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

    fn put(&self, work: &mut Work<'_>, len: u64) -> Result<()> {
        let sign = |object: &Object, bucket: &Bucket, credentials: &Credentials| {
            let action = bucket.put_object(Some(credentials), object.key());
            action.sign(SIGNED_FOR)
        };
        self.send_piece(work, 0..len, sign, true).map(|_| ())
    }

    fn in_parts(&self, work: &mut Work<'_>, len: u64, part_size: u64) -> Result<()> {
        const MIB: u64 = 1 << 20;
        let part_size = match len.div_ceil(PARTS_MAX) {
            least if least > part_size => least.next_multiple_of(MIB),
            _ => part_size,
        };
        let id = self.begin()?;
        let done = self
            .parts(work, len, part_size, &id)
            .and_then(|(etags, etag)| {
                let error = match self.complete(&id, &etags, work.replace) {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                };
                // An answer may have been lost that said that all is well, and the upload is gone since.
                if self.has(&etag) {
                    return Ok(());
                }
                Err(match error {
                    Error::Refused {
                        url, status: 412, ..
                    } => Error::Exists { url },
                    error => error,
                })
            });
        if done.is_err() {
            self.take_back(&id);
        }
        done
    }

    fn begin(&self) -> Result<String> {
        self.request(
            |object, bucket, credentials| {
                let action = bucket.create_multipart_upload(Some(credentials), object.key());
                action.sign(SIGNED_FOR)
            },
            |url| self.agent.post(url).send_empty(),
            |status| status == StatusCode::OK,
            |response, _| {
                let text = text_of(response.into_body()).ok_or_else(broken_off)?;
                let begun = CreateMultipartUpload::parse_response(&text);
                begun
                    .map(|begun| begun.upload_id().to_string())
                    .map_err(|_| self.unusable("it gives no upload"))
            },
        )
    }

    /// Sends all parts, and returns their ETags, and that which an object of them mostly gets.
    fn parts(
        &self,
        work: &mut Work<'_>,
        len: u64,
        part_size: u64,
        id: &str,
    ) -> Result<(Vec<String>, String)> {
        let (mut etags, mut whole) = (Vec::new(), Md5::new());
        let mut start = 0;
        while start < len {
            let range = start..len.min(start + part_size);
            let number = etags.len() as u16 + 1;
            let sign = |object: &Object, bucket: &Bucket, credentials: &Credentials| {
                let action = bucket.upload_part(Some(credentials), object.key(), number, id);
                action.sign(SIGNED_FOR)
            };
            start = range.end;
            let part = self.send_piece(work, range, sign, false)?;
            etags.push(part.etag.ok_or_else(|| Error::Answer {
                url: self.object.shown(),
                why: "a part has no ETag".into(),
            })?);
            whole.update(part.md5);
        }
        let etag = format!(
            "{:032x}-{}",
            u128::from_be_bytes(whole.finalize().into()),
            etags.len()
        );
        Ok((etags, etag))
    }

    /// Sends a part of the file.
    fn send_piece(
        &self,
        work: &mut Work<'_>,
        range: Range<u64>,
        sign: impl Fn(&Object, &Bucket, &Credentials) -> Url,
        is_object: bool,
    ) -> Result<Part> {
        let md5 = md5_of(work.file, range.clone())?;
        let sum = BASE64_STANDARD.encode(md5);
        let only_new = is_object && !work.replace;
        let url = self.object.shown();
        let send = |signed: &str| {
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
            if only_new {
                request = request.header(header::IF_NONE_MATCH, "*");
            }
            let sent = request.send(SendBody::from_reader(&mut body));
            sent.map_err(|error| match body.failed {
                // It is not the store's fault, and would be the same next time.
                Some(why) => Failure::Lasting(why),
                None => failure(&url, error),
            })
        };
        let retries = || self.counters.now().retries;
        let (mut send, retries_before) = (send, retries());
        let sent = self.retry.run(
            || self.object.shown(),
            &self.counters,
            || {
                exchange(&self.object, &sign, &mut send, |status| {
                    status == StatusCode::OK
                })
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
                let etag = format!("{:032x}", u128::from_be_bytes(md5));
                let again = retries() > retries_before;
                if again && self.has(&etag) {
                    return Ok(Part { md5, etag: None });
                }
                Err(Error::Exists { url })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is an object with this ETag.
    fn has(&self, etag: &str) -> bool {
        let found = self.head().ok().flatten();
        found.is_some_and(|found| found.etag.trim_matches('"') == etag)
    }

    /// Makes an object of the parts. The store may say that it failed after it has said that all is well.
    fn complete(&self, id: &str, etags: &[String], replace: bool) -> Result<()> {
        let body = CompleteMultipartUpload::new(
            &self.object.bucket()?,
            None,
            self.object.key(),
            id,
            etags.iter().map(String::as_str),
        )
        .body();
        self.request(
            |object, bucket, credentials| {
                let key = object.key();
                let etags = etags.iter().map(String::as_str);
                let action = bucket.complete_multipart_upload(Some(credentials), key, id, etags);
                action.sign(SIGNED_FOR)
            },
            |url| {
                let mut request = self.agent.post(url);
                if !replace {
                    request = request.header(header::IF_NONE_MATCH, "*");
                }
                request
                    .header(header::CONTENT_TYPE, "application/xml")
                    .send(&body)
            },
            |status| status == StatusCode::OK,
            |response, _| {
                let text = text_of(response.into_body()).ok_or_else(broken_off)?;
                if CompleteMultipartUploadResponse::parse(&text).is_ok() {
                    return Ok(());
                }
                match element(&text, "Code") {
                    Some("InternalError" | "SlowDown" | "ServiceUnavailable") => {
                        Err(Failure::Passing {
                            why: "the store could not make an object of the parts".into(),
                            after: None,
                        })
                    }
                    _ => Err(self.unusable("it made no object of the parts")),
                }
            },
        )
    }

    /// Removes the parts that were sent. If that fails, too, the store keeps them, unseen, until its rules or its owner
    /// remove them.
    fn take_back(&self, id: &str) {
        let sign = |object: &Object, bucket: &Bucket, credentials: &Credentials| {
            let action = bucket.abort_multipart_upload(Some(credentials), object.key(), id);
            action.sign(SIGNED_FOR)
        };
        let send = |url: &str| self.agent.delete(url).call();
        let _ = self.request(sign, send, |status| status.is_success(), |_, _| Ok(()));
    }

    fn unusable(&self, why: &str) -> Failure {
        Failure::Lasting(Error::Answer {
            url: self.object.shown(),
            why: why.into(),
        })
    }
}

fn broken_off() -> Failure {
    Failure::Passing {
        why: "the answer broke off".into(),
        after: None,
    }
}

/// A part that was sent.
struct Part {
    md5: [u8; 16],
    etag: Option<String>,
}

/// An object that is there.
struct Found {
    len: u64,
    etag: String,
}

impl Found {
    /// By an answer to a request for its first byte.
    fn of(response: &Response<Body>) -> Found {
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        let total = header(header::CONTENT_RANGE).and_then(|range| range.rsplit('/').next());
        let total = total.or_else(|| header(header::CONTENT_LENGTH));
        Found {
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
        let wanted = (range.end - at).min(CHUNK as u64) as usize;
        let n = file.read_at(&mut buf[..wanted], at);
        match n.map_err(Error::Source)? {
            0 => return Err(Error::Source(io::ErrorKind::UnexpectedEof.into())),
            n => {
                hash.update(&buf[..n]);
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
        let wanted = (self.range.end - self.range.start).min(buf.len() as u64) as usize;
        if (self.progress)(self.range.start).is_break() {
            self.failed = Some(Error::Stopped);
            return Err(io::Error::other("stopped"));
        }
        let read = self.file.read_at(&mut buf[..wanted], self.range.start);
        let n = read.map_err(|error| {
            let kind = error.kind();
            self.failed = Some(Error::Source(error));
            io::Error::from(kind)
        })?;
        self.range.start += n as u64;
        Ok(n)
    }
}
