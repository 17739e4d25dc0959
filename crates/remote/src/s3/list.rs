//! The objects of a bucket under a prefix, by ListObjectsV2.
//!
//! A listing comes in pages, and only one of them is in memory. A store's answer is not believed where it does not fit
//! the question: each page is bounded, and so are their number and content.

use std::ops::ControlFlow;

use rusty_s3::actions::{ListObjectsV2, ListObjectsV2Response};
use rusty_s3::{Bucket, Credentials, S3Action as _};
use ureq::Agent;
use ureq::http::StatusCode;

use super::exchange::{Secrets, exchange};
use super::object::{Object, SIGNED_FOR};
use super::refusal::text_within;
use crate::agent::{Timeouts, agent};
use crate::options::Options;
use crate::retry::{failure, retry};
use litepack_ranges::Counters;
use litepack_ranges::{Error, Result};
use litepack_ranges::{Failure, Retry};

/// Bytes of a page: 1000 keys of 1024 bytes, each of which may be written as `%XX`, and what is around them.
const PAGE_BYTES_MAX: u64 = 8 << 20;
/// Ten million keys, if pages are full.
const PAGES_MAX: usize = 10_000;

/// An object, as a store lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// `s3://bucket/key`.
    pub url: String,
    /// In bytes.
    pub size: u64,
    /// The mark that tells this version of it from others.
    pub etag: String,
}

/// Tells `each` the objects whose keys begin as the URL does, without those that have another `/` behind that: what would
/// be in a folder. It is called for every page of the answer, also for one that has none of them, and may stop it. The
/// URL is `s3://bucket/` or `s3://bucket/prefix/`.
///
/// # Errors
/// A URL, settings or credentials that are not valid, a store that refuses or does not answer, or an answer that does not
/// fit; [`Error::Stopped`].
pub fn list(
    url: &str,
    options: &Options,
    each: &mut dyn FnMut(Vec<Listed>) -> ControlFlow<()>,
) -> Result<()> {
    options.check()?;
    let folder = Folder {
        object: Object::of_prefix(url, options)?,
        agent: agent(options, Timeouts::of(options))?,
        retry: retry(options),
        counters: Counters::default(),
    };
    let mut token = None;
    for _ in 0..PAGES_MAX {
        let page = folder.page(token.as_deref())?;
        let contents = page.contents.into_iter();
        let listed =
            contents.map(|content| folder.listed(&content.key, content.size, content.etag));
        if each(
            listed
                .filter_map(Result::transpose)
                .collect::<Result<_>>()?,
        )
        .is_break()
        {
            return Err(Error::Stopped);
        }
        if page.next_continuation_token.is_none() {
            return Ok(());
        }
        if page.next_continuation_token == token {
            return Err(folder.unusable("it goes on with the same page"));
        }
        token = page.next_continuation_token;
    }
    Err(folder.unusable("it does not end"))
}

struct Folder {
    object: Object,
    agent: Agent,
    retry: Retry,
    counters: Counters,
}

impl Folder {
    fn page(&self, token: Option<&str>) -> Result<ListObjectsV2Response> {
        let sign = |object: &Object, bucket: &Bucket, credentials: &Credentials| {
            let mut action = bucket.list_objects_v2(Some(credentials));
            action.with_delimiter("/");
            if !object.key().is_empty() {
                action.with_prefix(object.key());
            }
            if let Some(token) = token {
                action.with_continuation_token(token);
            }
            action.sign(SIGNED_FOR)
        };
        let attempt = || {
            let send = |url: &str| {
                let answer = self.agent.get(url).call();
                answer.map_err(|error| failure(&self.object.shown(), error))
            };
            let is_answer = |status| status == StatusCode::OK;
            let (response, secrets) = exchange(&self.object, sign, send, is_answer)?;
            let text = text_within(response.into_body(), PAGE_BYTES_MAX);
            // It may have broken off.
            let text = text.ok_or_else(|| Failure::Passing {
                why: "the list of objects is not complete, or is too long".into(),
                after: None,
            })?;
            Ok(self.parsed(&text, &secrets)?)
        };
        let shown = || self.object.shown();
        self.retry.run(shown, &self.counters, attempt)
    }

    fn parsed(&self, text: &str, secrets: &Secrets) -> Result<ListObjectsV2Response> {
        // Keys and ETags are shown, and kept.
        if secrets.are_in(text) {
            return Err(self.unusable("it repeats what was sent"));
        }
        ListObjectsV2::parse_response(text)
            .map_err(|_| self.unusable("it is not a list of objects"))
    }

    /// An object of the list; `None` for one that is not in the folder itself.
    fn listed(&self, key: &str, size: Option<u64>, etag: Option<String>) -> Result<Option<Listed>> {
        let Some(name) = key.strip_prefix(self.object.key()) else {
            return Err(self.unusable("it lists objects that were not asked for"));
        };
        if name.is_empty() || name.contains('/') {
            return Ok(None);
        }
        let Some(size) = size else {
            return Err(self.unusable("it lists an object without its size"));
        };
        Ok(Some(Listed {
            url: format!("{}{name}", self.object.shown()),
            size,
            etag: etag.unwrap_or_default(),
        }))
    }

    fn unusable(&self, why: &str) -> Error {
        Error::Answer {
            url: self.object.shown(),
            why: why.into(),
        }
    }
}
