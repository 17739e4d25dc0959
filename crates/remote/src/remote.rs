//! An opened file on a web server or in an object store: a URL and options, made what `litepack-ranges` reads by range.

use std::ops::Deref;

use litepack_ranges::{Error, Handling, KeepBlocks, RangedFile, Result};

use crate::client::{Client, Start};
use crate::disk::Disk;
use crate::location::Location;
use crate::options::Options;
use crate::s3::{Object, is_object};

/// A file on a server, of one version for as long as it is open.
#[derive(Debug)]
pub struct Remote(RangedFile<Client>);

impl Remote {
    /// Opens the file at an `http`, `https` or `s3` URL, with one request for its first blocks.
    ///
    /// # Errors
    /// A URL or options that are not valid, and those of [`RangedFile::open`].
    pub fn open(url: &str, options: Options) -> Result<Remote> {
        options.check()?;
        if has_key(url) {
            return Err(Error::Settings(KEY_IN_URL.into()));
        }
        let mut headers = options.headers.clone();
        let start = if is_object(url) {
            Start::Store(Box::new(Object::new(url, &options)?))
        } else {
            let (location, basic) = Location::parse(url)?;
            if let Some(basic) = basic {
                headers.add(&format!("Authorization: {basic}"))?;
            }
            Start::Web(location)
        };
        let disk = options.disk_cache.as_ref().map(Disk::open).transpose()?;
        let client = Client::new(start, headers, &options)?;
        let handling = Handling {
            at_once: options.at_once,
            cache: options.cache,
            kept: disk.map(|disk| Box::new(disk) as Box<dyn KeepBlocks>),
        };
        RangedFile::open(client, handling).map(Remote)
    }
}

impl Deref for Remote {
    type Target = RangedFile<Client>;

    fn deref(&self) -> &RangedFile<Client> {
        &self.0
    }
}

/// Why a URL is refused that would send the key of a database to its server.
const KEY_IN_URL: &str = "the URL has hexkey= in its own query, and the server would be sent the key: give it as a \
                          parameter of SQLite's, beside url=, or by PRAGMA key";

/// Whether a URL has a key for Litepack in its query.
fn has_key(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let names = query.split(['&', '#']).map(|part| part.split('=').next());
    names
        .flatten()
        .any(|name| name.eq_ignore_ascii_case("hexkey"))
}
