//! An open generation: what was found of it so far, and finding what was appended since.

use std::sync::Arc;

use litepack_cipher::{Keys, Salt};
use litepack_io::bytes::Reader;
use litepack_io::storage::Storage;

use crate::error::{Error, Result};
use crate::format::head::{Generation, HINT_LEN, Hint, RECORDS_START};
use crate::format::node::Root;
use crate::format::record::{Base, CUT, FRAME, Form, Frame, ROOT, Record, length, page_of};
use crate::index::FrameIndex;
use crate::medium::Medium;
use crate::records::{Loaded, Records, is_vouched_for, link_at, load, open};
use crate::seal::Seal;
use crate::sessions::Sessions;
use crate::versions::Versions;

/// Bytes read first where a record may have been appended, and bytes read when there was one.
const PEEK: usize = 512;
const CHUNK: usize = 1 << 16;
/// A frame tells how far the log is durable at least every so many bytes.
const WITNESS_EVERY: u64 = 1 << 18;

/// What is known of the newest generation.
#[derive(Debug)]
pub(crate) struct Opened {
    pub generation: Generation,
    /// If its records are sealed.
    seal: Option<Seal>,
    /// The link of the next record.
    pub link: u32,
    pub index: FrameIndex,
    pub versions: Versions,
    /// Everything before was synced.
    pub synced: u64,
    /// The same as far as this handle has seen to it, with the link of what comes behind.
    pub synced_here: (u64, u32),
    /// From here on the records were read one after another.
    read_from: u64,
    /// A place that the file names, and the link of a record that begins there.
    watched: (u64, Option<u32>),
    /// What the newest witness says, and where it is.
    told: (u64, u64),
    /// The newest root, as a hint names it.
    pub root: Option<Hint>,
    /// What the hint in the file names.
    pub hinted: Option<Hint>,
}

impl Opened {
    /// A generation without records, sealed if there are keys.
    pub fn new(generation: Generation, keys: Option<&Arc<Keys>>) -> Opened {
        Opened {
            generation,
            seal: keys.map(|keys| Seal::new(Arc::clone(keys))),
            link: 0,
            index: FrameIndex::default(),
            versions: Versions::default(),
            synced: RECORDS_START,
            synced_here: (RECORDS_START, 0),
            read_from: RECORDS_START,
            watched: (0, None),
            told: (RECORDS_START, RECORDS_START),
            root: None,
            hinted: None,
        }
    }

    /// Opens a generation that is in the file, by its hint if there is one, to be asked whether it reaches `end`.
    pub fn open<S: Storage>(
        generation: Generation,
        keys: Option<&Arc<Keys>>,
        hint: Option<Hint>,
        end: u64,
        medium: &mut Medium<S>,
    ) -> Result<Opened> {
        let mut opened = Opened::new(generation, keys);
        opened.watched = (end, None);
        medium.begin()?;
        if let Some(hint) = hint {
            let place = hint.root;
            let loaded = opened.load(ROOT, place, medium)?;
            let record = &loaded.record;
            let end = place + record.len as u64;
            opened.begin_at(record, loaded.content(), place, &hint)?;
            opened.link = record.next_link;
            (opened.synced, opened.read_from) = (end, end);
            opened.hinted = Some(hint);
            medium.go_to(opened.synced);
        }
        opened.scan(medium)?;
        loop {
            let tail = medium.tail();
            let is_end = tail >= opened.synced && {
                let seal = opened.seal.as_ref();
                !is_vouched_for(medium, &opened.generation, seal, tail)?
            };
            if is_end {
                return Ok(opened);
            }
            // Another process may have appended both: what vouches, and what it vouches for.
            opened.scan(medium)?;
            if medium.tail() == tail {
                return Err(Error::damaged(
                    tail,
                    "a record that was synced is not whole",
                ));
            }
        }
    }

    /// Whether the records reach the place that the caller has named, and are those of which a record there has this
    /// link; 0 is any. False, too, for one before the hint that cannot be told: without the hint it can.
    pub fn reaches<S: Storage>(&self, link: u32, medium: &Medium<S>) -> Result<bool> {
        let (end, mut found) = self.watched;
        if link != 0 && end < self.read_from {
            let seal = self.seal.as_ref();
            found = link_at(medium, &self.generation, seal, end)?;
        }
        Ok(medium.tail() >= end && (link == 0 || found == Some(link)))
    }

    /// Takes up what was appended since the last time.
    pub fn scan<S: Storage>(&mut self, medium: &mut Medium<S>) -> Result<()> {
        let mut wanted = PEEK;
        loop {
            let mut bytes = medium.read(medium.tail(), wanted)?;
            let mut at = 0;
            let short = loop {
                let place = medium.tail();
                if place == self.watched.0 {
                    self.watched.1 = Some(self.link);
                }
                let rest = bytes.get_mut(at..).unwrap_or_default();
                let seal = self.seal.as_ref();
                match open(rest, place, &self.generation, seal, medium)? {
                    Some(record) if record.link == self.link => {
                        let content = rest.get(record.content.clone()).unwrap_or_default();
                        if let Some(seal) = &mut self.seal {
                            seal.note(&record, place)?;
                        }
                        self.apply(&record, content, place)?;
                        self.link = record.next_link;
                        at += record.len;
                        medium.go_to(place + record.len as u64);
                    }
                    Some(_) => break None,
                    // It may go on behind what was read.
                    None => break Some(length(rest).unwrap_or(4)).filter(|len| *len > rest.len()),
                }
            };
            match short {
                Some(len) if bytes.len() == wanted && (at > 0 || len > wanted) => {
                    wanted = len.max(CHUNK);
                }
                _ => return Ok(()),
            }
        }
    }

    /// Begins at the root that a hint names.
    fn begin_at(&mut self, record: &Record, content: &[u8], place: u64, hint: &Hint) -> Result<()> {
        let damaged = || Error::damaged(place, "the hint names another root");
        let end = place + record.len as u64;
        let (root, rest) = Root::decode(content, place).ok_or_else(damaged)?;
        if let Some(seal) = &mut self.seal {
            let sessions = Sessions::decode(rest, place, end)?;
            seal.begin_at(sessions.ok_or_else(damaged)?);
            seal.note(record, place)?;
        } else if !rest.is_empty() {
            return Err(damaged());
        }
        self.found_root(root, record, place);
        (self.root == Some(*hint)).then_some(()).ok_or_else(damaged)
    }

    /// Notes what a record says.
    fn apply(&mut self, record: &Record, content: &[u8], place: u64) -> Result<()> {
        let damaged = || Error::damaged(place, "a record has no valid content");
        match record.kind {
            FRAME => {
                let frame = Frame::decode(content, place, &self.generation);
                let frame = frame.ok_or_else(damaged)?;
                self.noted(&frame, place)?;
            }
            CUT => {
                let frames = Reader::new(content).varint_u32();
                self.index.cut(frames.ok_or_else(damaged)?, place)?;
            }
            ROOT => {
                let (root, rest) = Root::decode(content, place).ok_or_else(damaged)?;
                let is_one = match self.seal {
                    Some(_) => Sessions::decode(rest, place, place)?.is_some(),
                    None => rest.is_empty(),
                };
                if !is_one || root.frames != self.index.frames() {
                    return Err(damaged());
                }
                self.found_root(root, record, place);
            }
            _ => {}
        }
        Ok(())
    }

    /// A record of a frame is at `place`.
    pub fn noted(&mut self, frame: &Frame<'_>, place: u64) -> Result<()> {
        if let Some(witness) = frame.witness {
            self.witnessed(witness, place);
        }
        let (has_header, has_page) = (frame.header.is_some(), frame.page.is_some());
        self.index.note(frame.number, place, has_header, has_page)?;
        // Which page is in half a frame is not known here: others stand on the version before then.
        if let (Some(header), Some(page)) = (frame.header, frame.page) {
            (self.versions).note(page_of(&header), place, page.form, page.stored.len());
        }
        Ok(())
    }

    fn witnessed(&mut self, witness: u64, place: u64) {
        self.synced = self.synced.max(witness);
        self.told = (witness, place);
    }

    /// What the next record of a frame should tell.
    pub fn witness(&self, place: u64) -> Option<u64> {
        let (told, at) = self.told;
        let is_due = self.synced > told || place.saturating_sub(at) >= WITNESS_EVERY;
        is_due.then_some(self.synced)
    }

    /// A root was read at `place`, in this record.
    fn found_root(&mut self, root: Root, record: &Record, place: u64) {
        self.witnessed(root.witness, place);
        let salt = record.session.map(|(salt, _)| salt);
        self.rooted(root, place, record.len, salt);
    }

    /// A root of so many bytes is at `place`, sealed in a session.
    fn rooted(&mut self, root: Root, place: u64, len: usize, salt: Option<Salt>) {
        self.index.begin_at(root);
        let salt = salt.unwrap_or_default();
        let session = salt.first_chunk().copied().unwrap_or_default();
        let is_whole = (self.seal.as_ref()).is_none_or(|seal| seal.sessions().is_whole());
        let len = u32::try_from(len).ok().filter(|_| is_whole);
        self.root = len.map(|len| Hint {
            root: place,
            len,
            session,
        });
    }

    /// Where the halves of a frame are.
    pub fn find<S: Storage>(
        &mut self,
        number: u32,
        medium: &mut Medium<S>,
    ) -> Result<Option<crate::format::node::Places>> {
        let records = Records {
            medium,
            generation: &self.generation,
            seal: self.seal.as_mut(),
            link: &mut self.link,
        };
        self.index.find(number, &records)
    }

    /// Appends a record of a frame.
    pub fn append_frame<S: Storage>(
        &mut self,
        frame: &Frame<'_>,
        medium: &mut Medium<S>,
    ) -> Result<u64> {
        let mut content = Vec::new();
        frame.encode(medium.tail(), &self.generation, &mut content)?;
        let place = self.append(FRAME, &content, frame.witness.is_some(), medium)?;
        self.noted(frame, place)?;
        if self.index.is_due() {
            let mut records = Records {
                medium,
                generation: &self.generation,
                seal: self.seal.as_mut(),
                link: &mut self.link,
            };
            let root = self.index.grow(&mut records, self.synced)?;
            let mut content = Vec::new();
            let place = records.medium.tail();
            root.encode(place, &mut content)?;
            if let Some(seal) = records.seal.as_deref() {
                seal.sessions().encode(place, &mut content)?;
            }
            records.append(ROOT, &content, true)?;
            let len = usize::try_from(medium.tail() - place).unwrap_or(0);
            let salt = self.seal.as_ref().and_then(Seal::own_salt);
            self.rooted(root, place, len, salt);
        }
        Ok(place)
    }

    /// Appends a record that only so many frames are left.
    pub fn append_cut<S: Storage>(&mut self, frames: u32, medium: &mut Medium<S>) -> Result<()> {
        let mut content = Vec::new();
        litepack_io::bytes::put_varint(&mut content, frames.into());
        let place = self.append(CUT, &content, false, medium)?;
        self.index.cut(frames, place)
    }

    fn append<S: Storage>(
        &mut self,
        kind: u8,
        content: &[u8],
        vouches: bool,
        medium: &mut Medium<S>,
    ) -> Result<u64> {
        let mut records = Records {
            medium,
            generation: &self.generation,
            seal: self.seal.as_mut(),
            link: &mut self.link,
        };
        records.append(kind, content, vouches)
    }

    /// The frame that has a record at `place`.
    pub fn frame<S: Storage>(&self, place: u64, medium: &Medium<S>) -> Result<LoadedFrame> {
        let loaded = self.load(FRAME, place, medium)?;
        Ok(LoadedFrame { loaded, place })
    }

    fn load<S: Storage>(&self, kind: u8, place: u64, medium: &Medium<S>) -> Result<Loaded> {
        load(medium, &self.generation, self.seal.as_ref(), kind, place)
    }

    /// The hint for the newest root, if the file has another one.
    pub fn new_hint(&self) -> Option<(Hint, [u8; HINT_LEN])> {
        let root = self.root.filter(|_| self.hinted != self.root)?;
        let keys = self.seal.as_ref().map(Seal::keys);
        Some((root, root.encode(&self.generation, keys)))
    }
}

/// A record of a frame.
pub(crate) struct LoadedFrame {
    loaded: Loaded,
    place: u64,
}

impl LoadedFrame {
    /// What it holds; if `number` is given, of that frame.
    pub fn frame(&self, generation: &Generation, number: Option<u32>) -> Result<Frame<'_>> {
        let frame = Frame::decode(self.loaded.content(), self.place, generation);
        let frame = frame.filter(|frame| number.is_none_or(|number| number == frame.number));
        frame.ok_or_else(|| Error::damaged(self.place, "another frame is there"))
    }
}

/// The version that one of this form stands on, of those less than `limit` differences deep.
pub(crate) fn base_of(form: Form, limit: u8, place: u64) -> Result<Option<Base>> {
    match form.base() {
        Some(base) if base.depth == 0 || base.depth >= limit || base.place >= place => {
            Err(Error::damaged(place, "a difference stands on nothing"))
        }
        base => Ok(base),
    }
}
