//! An upload in parts, and how it ends.
//!
//! An upload that was begun and did not end is taken back. Making an object of many parts can take a store minutes, and
//! the answer may get lost. So nothing is taken back before the object has been looked for.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use md5::{Digest as _, Md5};
use rusty_s3::actions::{
    CompleteMultipartUpload, CompleteMultipartUploadResponse, CreateMultipartUpload,
};
use rusty_s3::{Bucket, Credentials, S3Action as _};
use ureq::http::{StatusCode, header};

use super::exchange::exchange;
use super::object::{Object, SIGNED_FOR, sign};
use super::refusal::{element, text_of};
use super::upload::{Outgoing, Upload, is_etag, sum_of};
use crate::retry::failure;
use litepack_ranges::Failure;
use litepack_ranges::{Error, Result};

/// S3 takes so many parts.
const PARTS_MAX: u64 = 10_000;
/// The message when no answer tells how it ended.
const MAY_APPEAR: &str = "; the new object is not there, and may still appear";
/// The longest wait between two looks at what is there.
const LOOK_EVERY: Duration = Duration::from_secs(3);

impl Upload {
    /// Sends the file in parts. Returns whether the store has said that it has what was sent.
    pub(super) fn in_parts(
        &self,
        work: &mut Outgoing<'_>,
        len: u64,
        part_size: u64,
    ) -> Result<bool> {
        const MIB: u64 = 1 << 20;
        let part_size = match len.div_ceil(PARTS_MAX) {
            least if least > part_size => least.next_multiple_of(MIB),
            _ => part_size,
        };
        let id = self.begin()?;
        let done = self
            .parts(work, len, part_size, &id)
            .and_then(|(etags, etag)| self.end(work, len, &id, &etags, &etag));
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
        work: &mut Outgoing<'_>,
        len: u64,
        part_size: u64,
        id: &str,
    ) -> Result<(Vec<String>, String)> {
        let (mut etags, mut whole) = (Vec::new(), Md5::new());
        let mut start = 0;
        while start < len {
            let range = start..len.min(start + part_size);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a part is so large that 10,000 are enough"
            )]
            let number = etags.len() as u16 + 1;
            let sign = |object: &Object, bucket: &Bucket, credentials: &Credentials| {
                let action = bucket.upload_part(Some(credentials), object.key(), number, id);
                action.sign(SIGNED_FOR)
            };
            start = range.end;
            let part = self.send_piece(work, range, sign, &[])?;
            etags.push(part.etag.ok_or_else(|| Error::Answer {
                url: self.object.shown(),
                why: "a part has no ETag".into(),
            })?);
            whole.update(part.md5);
        }
        let etag = format!("{}-{}", sum_of(whole.finalize().into()), etags.len());
        Ok((etags, etag))
    }

    /// Makes an object of the parts. Returns whether the store has said that it is the one that was meant.
    fn end(
        &self,
        work: &mut Outgoing<'_>,
        len: u64,
        id: &str,
        etags: &[String],
        etag: &str,
    ) -> Result<bool> {
        if !work.how.replace {
            self.expect_absent()?;
        }
        let is_unclear = Cell::new(false);
        let error = match self.complete(work, id, etags, &is_unclear) {
            Ok(made) => return Ok(is_etag(&made, etag)),
            Err(error) => error,
        };
        // The object there is ours only if an answer that said so may have been lost. Otherwise another writer wrote
        // the same.
        if is_unclear.get() && self.appears(work, len, etag)? {
            return Ok(true);
        }
        Err(match error {
            Error::Refused {
                url, status: 412, ..
            } => Error::Exists { url },
            Error::Unreachable { url, attempts, why } => Error::Unreachable {
                url,
                attempts,
                why: why + MAY_APPEAR,
            },
            Error::Refused {
                url,
                status,
                code,
                hint,
            } if is_unclear.get() => Error::Refused {
                url,
                status,
                code,
                hint: hint + MAY_APPEAR,
            },
            error => error,
        })
    }

    /// Whether there is an object with this ETag, now or before long.
    fn appears(&self, work: &mut Outgoing<'_>, len: u64, etag: &str) -> Result<bool> {
        let begun = Instant::now();
        loop {
            if self.has(etag) {
                return Ok(true);
            }
            if begun.elapsed() >= work.how.look_for {
                return Ok(false);
            }
            if (work.progress)(len).is_break() {
                return Err(Error::Stopped);
            }
            thread::sleep(LOOK_EVERY.min(work.how.look_for / 10));
        }
    }

    /// Asks for an object of the parts, and returns its ETag. The store may say that it failed after it has said that
    /// all is well. `is_unclear` becomes true if some answer leaves open whether there is one.
    fn complete(
        &self,
        work: &Outgoing<'_>,
        id: &str,
        etags: &[String],
        is_unclear: &Cell<bool>,
    ) -> Result<String> {
        let body = CompleteMultipartUpload::new(
            &self.object.bucket()?,
            None,
            self.object.key(),
            id,
            etags.iter().map(String::as_str),
        )
        .body();
        let conditions = self.conditions(work);
        let signed = |object: &Object, bucket: &Bucket, credentials: &Credentials| {
            let key = object.key();
            let etags = etags.iter().map(String::as_str);
            let action = bucket.complete_multipart_upload(Some(credentials), key, id, etags);
            sign(action, conditions)
        };
        let mut send = |url: &str| {
            let mut request = self.patient.post(url);
            for condition in conditions {
                request = request.header(condition.name, condition.value);
            }
            let sent = request
                .header(header::CONTENT_TYPE, "application/xml")
                .send(&body);
            sent.map_err(|error| failure(&self.object.shown(), error))
        };
        let mut once = || {
            let is_answer = |status| status == StatusCode::OK;
            let (response, _) = exchange(&self.object, signed, &mut send, is_answer)?;
            let text = text_of(response.into_body()).ok_or_else(broken_off)?;
            if let Ok(made) = CompleteMultipartUploadResponse::parse(&text) {
                return Ok(made.etag().to_string());
            }
            match element(&text, "Code") {
                Some("InternalError" | "SlowDown" | "ServiceUnavailable") => {
                    Err(Failure::Passing {
                        why: "the store could not make an object of the parts".into(),
                        after: None,
                    })
                }
                Some(_) => Err(self.unusable("it made no object of the parts")),
                None => Err(broken_off()),
            }
        };
        self.retry.run(
            || self.object.shown(),
            &self.counters,
            || {
                let made = once();
                is_unclear.set(is_unclear.get() || matches!(made, Err(Failure::Passing { .. })));
                made
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
