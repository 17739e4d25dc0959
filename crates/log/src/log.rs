//! The log as the file that SQLite takes for its WAL: reads, writes, size, truncation and syncs at SQLite's offsets.

mod begin;

use std::sync::Arc;

use litepack_cipher::Keys;
use litepack_io::cache::Cache;
use litepack_io::memory::{append, copy, with_room, zeros};
use litepack_io::storage::Storage;

use crate::base::{self, BaseReads};
use crate::binding::{BoundTo, End, FileState, Needed, Refusal, Verdict};
use crate::error::{Error, Result};
use crate::format::head::{
    Generation, HEAD_LEN, HINT_OFFSET, Head, RECORDS_START, SLOT_OFFSETS, WAL_HEADER_LEN,
};
use crate::format::record::{
    Base, DEPTH_MAX, FRAME_HEADER_LEN, Form, Frame, PageVersion, is_commit, page_of, sum_of,
};
use crate::generation::{Opened, base_of};
use crate::medium::Medium;
use crate::needs::{self, LOOKS_MAX, Synced};
use crate::pages::Pages;

/// Once a generation has begun, the file is cut to so many bytes. SQLite's own limit (`journal_size_limit`) compares the
/// size of the WAL, which is that of its newest generation.
const LEN_KEPT: u64 = 16 << 20;

/// A log that is open. Others may have the same file open; SQLite's locks decide which of them writes.
pub struct Log<S> {
    medium: Medium<S>,
    /// The head of the file as it was last read.
    head: Vec<u8>,
    /// `None` as well if the newest generation does not follow the file.
    opened: Option<Opened>,
    /// Why it does not.
    refused: Option<Refusal>,
    /// What the head says was found out, also if it says nothing.
    is_looked_at: bool,
    /// The file that the log is for, if that can be asked.
    file: Option<Box<dyn BoundTo + Send>>,
    /// Whether the log follows that file is not asked.
    follows_any: bool,
    /// Of that file, if it is encrypted.
    keys: Option<Arc<Keys>>,
    synced: Synced,
    pages: Pages,
    half: Option<Half>,
    /// Whether pages that versions may stand on are worth reading.
    reads: BaseReads,
    /// What the caller says of others, and what it said when this handle last looked.
    view: Option<u64>,
    seen: Option<u64>,
    /// A generation was begun here and not synced yet: what the one before took of the file is still needed.
    is_begun: bool,
    /// A write has failed: what is in the file is found anew.
    is_lost: bool,
}

/// The beginning of a frame, whose page SQLite writes next. Under another view it is nothing, as others may have written
/// since; unless the rest of a new frame is written next, which a VFS above may have held back.
#[derive(Debug)]
struct Half {
    number: u32,
    /// The view under which it was written.
    view: Option<u64>,
    /// Header and page, as far as they were written.
    bytes: Vec<u8>,
}

/// A part of a frame.
struct Piece {
    number: u32,
    /// The first byte, from the beginning of the frame.
    start: usize,
    len: usize,
}

impl<S: std::fmt::Debug> std::fmt::Debug for Log<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({:?})", self.medium)
    }
}

impl<S: Storage> Log<S> {
    /// The log in this file, which may be empty, whatever it follows. Nothing is read yet.
    pub fn new(storage: S) -> Log<S> {
        Log {
            medium: Medium::new(storage),
            head: Vec::new(),
            opened: None,
            refused: None,
            is_looked_at: false,
            file: None,
            follows_any: false,
            keys: None,
            synced: Synced::default(),
            pages: Pages::default(),
            half: None,
            reads: BaseReads::default(),
            view: None,
            seen: None,
            is_begun: false,
            is_lost: false,
        }
    }

    /// The same for this file: what does not follow its newest commit reads as an empty log.
    pub fn bound(storage: S, file: Box<dyn BoundTo + Send>) -> Log<S> {
        Log {
            file: Some(file),
            ..Log::new(storage)
        }
    }

    /// The log in this storage, whatever it follows, with the pages of this file that it stands on. It is only read.
    pub fn over(storage: S, file: Box<dyn BoundTo + Send>) -> Log<S> {
        Log {
            follows_any: true,
            ..Log::bound(storage, file)
        }
    }

    /// The same, with room for pages that were read in a cache, besides the few that the log keeps itself.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<Cache>) -> Log<S> {
        self.pages.set_cache(cache);
        self
    }

    /// The same for a file with these keys: what is written is sealed with them, and no other log is applied.
    #[must_use]
    pub fn with_keys(mut self, keys: Option<Arc<Keys>>) -> Log<S> {
        self.set_keys(keys.as_ref());
        self
    }

    /// The same beside other handles of this process that share this.
    #[must_use]
    pub fn with_synced(self, synced: Synced) -> Log<S> {
        Log { synced, ..self }
    }

    /// The file has these keys now.
    pub fn set_keys(&mut self, keys: Option<&Arc<Keys>>) {
        if self.keys.as_ref().map(Arc::as_ptr) != keys.map(Arc::as_ptr) {
            self.keys = keys.cloned();
            self.forget();
        }
    }

    /// Why the log is not applied, if it is not. What it holds is written over by the next header, or cut off: the caller
    /// copies it first.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn refused(&mut self) -> Result<Option<Refusal>> {
        self.refresh()?;
        Ok(self.refused)
    }

    /// The same of the last look.
    pub fn was_refused(&self) -> Option<Refusal> {
        self.refused
    }

    /// Which log was last read or synced, by its own number, 0 if it is bound to no file; where its records end, and how
    /// much of them is known to be synced.
    pub fn reached(&self) -> (u64, End, End) {
        let Some(opened) = &self.opened else {
            return (0, End::default(), End::default());
        };
        let end = |(place, link)| End { place, link };
        let synced = match opened.synced_here {
            here if here.0 >= opened.synced => end(here),
            _ => end((opened.synced, 0)),
        };
        let tail = end((self.medium.tail(), opened.link));
        (opened.generation.binding.own, tail, synced)
    }

    /// The number of the file that this log begins after; 0 if it is bound to no file.
    pub fn begins_after(&self) -> u64 {
        (self.opened.as_ref()).map_or(0, |opened| opened.generation.binding.after)
    }

    /// The part of its file that the log needs, asked by who is about to write to the file. A power loss does not bring
    /// back a log that needs more. No lock is needed for it.
    ///
    /// # Errors
    /// The storage's.
    pub fn needed(&mut self) -> Result<Needed> {
        let file = self.file.as_deref();
        needs::needed(&self.medium, file, self.keys.as_deref(), &self.synced)
    }

    /// The same as far as can be seen, for an estimate. A power loss may bring back what needs more.
    ///
    /// # Errors
    /// The storage's.
    pub fn seems_needed(&mut self) -> Result<Needed> {
        let file = self.file.as_deref();
        needs::seems_needed(&self.medium, file, self.keys.as_deref(), &self.synced)
    }

    /// Says what the caller knows of others: as long as the number is the same, none of them begins a new generation, and
    /// none adds or changes what is read or written here. Then one look is enough. `None`, as at first: each call looks.
    pub fn set_view(&mut self, view: Option<u64>) {
        self.view = view;
    }

    /// The file.
    pub fn storage(&self) -> &S {
        self.medium.storage()
    }

    /// Fills `buf` from `offset` of the WAL and returns how many bytes there were; fewer than asked only at the end.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::NoBase`], if what is there was lost; or the storage's.
    pub fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.refresh()?;
        match self.read_now(buf, offset) {
            Err(error @ (Error::Damaged { .. } | Error::NoBase { .. })) => {
                // A new generation may have begun meanwhile.
                let before = self.id();
                self.look()?;
                if self.id() == before {
                    return Err(error);
                }
                self.read_now(buf, offset)
            }
            done => done,
        }
    }

    /// Where the record begins that has the header of a frame, from 1 on; `None` if there is no such frame. Of two headers
    /// the one whose record is behind was written later.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn header_place(&mut self, number: u32) -> Result<Option<u64>> {
        self.refresh()?;
        let Some(opened) = &mut self.opened else {
            return Ok(None);
        };
        let places = opened.find(number, &mut self.medium)?;
        Ok(places.map(|places| places.header))
    }

    /// The size of the WAL in bytes.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn size(&mut self) -> Result<u64> {
        self.refresh()?;
        Ok(self.opened.as_ref().map_or(0, |opened| {
            let frame = frame_len(&opened.generation) as u64;
            WAL_HEADER_LEN as u64 + u64::from(opened.index.frames()) * frame
        }))
    }

    /// Writes `bytes` at `offset` of the WAL. What ends a transaction is in the file when this returns.
    ///
    /// # Errors
    /// The storage's; [`Error::Refused`] for what SQLite does not write; [`Error::Damaged`] as [`Log::read`]. What was
    /// written since the last transaction ended is undefined after any of them.
    pub fn write(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let done = self.write_now(bytes, offset);
        self.is_lost |= done.is_err();
        done
    }

    /// Cuts the WAL to this size. The file becomes no longer than that, if its records allow it.
    ///
    /// # Errors
    /// As [`Log::write`].
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        let done = self.truncate_now(size);
        self.is_lost |= done.is_err();
        done
    }

    /// Returns once everything written so far would survive a power loss.
    ///
    /// # Errors
    /// As [`Log::write`].
    pub fn sync(&mut self) -> Result<()> {
        // Others may have begun a new generation, and its records are not for us to write again.
        self.refresh()?;
        self.sync_file()?;
        let Some(opened) = &mut self.opened else {
            return Ok(());
        };
        let tail = self.medium.tail();
        (opened.synced, opened.synced_here) = (tail, (tail, opened.link));
        // Later, in a checkpoint, another process may append meanwhile: what it wrote must not be cut off.
        if std::mem::take(&mut self.is_begun) && tail == RECORDS_START {
            // A longer file is no less right.
            let _ = self.medium.shorten(LEN_KEPT);
        }
        if let Some((root, hint)) = opened.new_hint()
            // Without a hint more is read, and no less is right.
            && self.medium.storage().write_at(&hint, HINT_OFFSET).is_ok()
        {
            opened.hinted = Some(root);
        }
        Ok(())
    }

    /// Syncs the file, for one who keeps others from beginning a generation. What an earlier sync gave up counts, too.
    fn sync_file(&mut self) -> Result<()> {
        if self.synced.has_given_up() {
            self.write_again()?;
        }
        let epoch = self.synced.begins();
        if let Err(error) = self.medium.storage().sync() {
            self.synced.gives_up();
            // SQLite gives up the transaction.
            self.half = None;
            // Where this fails it is done before the next sync.
            let _ = self.write_again();
            return Err(error.into());
        }
        match self.synced.note(epoch, self.id()) {
            true => Ok(()),
            // That of another handle has failed meanwhile, and may have given up what this one has written.
            false => Err(Error::Io(std::io::Error::other(
                "a sync of the log failed in another connection",
            ))),
        }
    }

    /// Writes again what a failed sync may have given up.
    fn write_again(&mut self) -> Result<()> {
        let again = self.medium.write_head_again();
        let again = again.and_then(|()| match &self.opened {
            Some(opened) => (self.medium).write_again(opened.synced, self.medium.tail()),
            None => Ok(()),
        });
        // The next write finds the log anew.
        self.is_lost |= again.is_err();
        again?;
        self.synced.is_written_again();
        Ok(())
    }

    /// Random; another one after each header that SQLite writes. `None` for a log that has none.
    fn id(&self) -> Option<[u8; 16]> {
        self.opened.as_ref().map(|opened| opened.generation.id)
    }

    /// Takes up what others have written.
    fn refresh(&mut self) -> Result<()> {
        if self.is_lost {
            self.forget();
        }
        let is_seen = self.view.is_some() && self.view == self.seen;
        if is_seen && self.opened.is_some() {
            return Ok(());
        }
        self.look()?;
        self.seen = self.view;
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        self.seen = None;
        for _ in 0..LOOKS_MAX {
            let mut head = self.medium.read(0, HEAD_LEN)?;
            if head == self.head && (self.opened.is_some() || self.is_looked_at) {
                return match &mut self.opened {
                    Some(opened) => opened.scan(&mut self.medium),
                    None => Ok(()),
                };
            }
            // First the file: what is in it by then is in the log, too.
            let state = self.state()?;
            if self.file.is_some() {
                head = self.medium.read(0, HEAD_LEN)?;
            }
            let Some(refused) = self.follow(head, state.as_ref())? else {
                return Ok(());
            };
            // Others may have gone on between the two. Of those that were there at one moment it is true.
            let is_so = self.medium.read(0, HEAD_LEN)? == self.head && self.state()? == state;
            if is_so && !state.is_some_and(|state| state.is_unfinished) {
                self.refused = Some(refused);
                self.is_looked_at = true;
                return Ok(());
            }
            self.forget();
            if is_so {
                return Err(Error::NotNeeded(refused));
            }
        }
        Err(Error::restless())
    }

    /// The state of the file that the log is for.
    fn state(&self) -> Result<Option<FileState>> {
        match &self.file {
            Some(file) => Ok(file.state()?),
            None => Ok(None),
        }
    }

    /// Forgets everything that can be found in the file.
    fn forget(&mut self) {
        self.head.clear();
        (self.opened, self.refused) = (None, None);
        self.half = None;
        self.pages.clear();
        (self.is_begun, self.is_lost) = (false, false);
        self.is_looked_at = false;
    }

    /// The head of the file is another one. Why it does not follow a file that says this, if it does not.
    fn follow(&mut self, mut head: Vec<u8>, state: Option<&FileState>) -> Result<Option<Refusal>> {
        let keys = self.keys.clone();
        // Another process may just be writing it.
        for _ in 0..3 {
            let again = self.medium.read(0, HEAD_LEN)?;
            if again == head {
                break;
            }
            head = again;
        }
        match self.medium.head_of(&head, keys.as_deref())? {
            Head::Empty => {
                self.forget();
                if state.is_some_and(|state| state.is_unfinished) {
                    self.head = head;
                    return Ok(Some(Refusal::Missing));
                }
            }
            Head::Torn | Head::Broken => {
                return Err(Error::damaged(0, "it begins with no generation"));
            }
            Head::Newest { generation, .. } if self.id() == Some(generation.id) => {
                if let Some(opened) = &mut self.opened {
                    opened.scan(&mut self.medium)?;
                }
            }
            Head::Newest {
                generation,
                is_other_broken,
                hint,
                slot,
            } => {
                self.forget();
                if let Some(refused) = generation.refused_key(keys.as_deref()) {
                    // What it holds cannot be looked at.
                    self.head = head;
                    return Ok(Some(refused));
                }
                let verdict = match &self.file {
                    Some(_) if !self.follows_any => generation.binding.judge(state),
                    _ => Verdict::Follows,
                };
                let (needed, refused) = match verdict {
                    Verdict::Follows => (End::default(), None),
                    Verdict::FollowsWith(end) => (end, None),
                    Verdict::Refused(why) => (End::default(), Some(why)),
                };
                if refused.is_some() && !is_other_broken {
                    self.head = head;
                    return Ok(refused);
                }
                let (keys, medium) = (keys.as_ref(), &mut self.medium);
                let open = |hint, medium: &mut _| {
                    let opened =
                        Opened::open(generation.clone(), keys, hint, needed.place, medium)?;
                    let is_all = opened.reaches(needed.link, medium)?;
                    Ok::<_, Error>((opened, is_all))
                };
                let (mut opened, mut is_all) = open(hint, medium)?;
                if !is_all && hint.is_some() {
                    // From its beginning the log says for sure what it is.
                    (opened, is_all) = open(None, medium)?;
                }
                let is_start = self.medium.tail() == RECORDS_START;
                if is_other_broken && is_start && !self.medium.is_blank()? {
                    let other = SLOT_OFFSETS.get(1 - slot).copied().unwrap_or(0);
                    return Err(Error::damaged(
                        other,
                        "the newest generation is not described",
                    ));
                }
                if refused.is_some() {
                    self.head = head;
                    return Ok(refused);
                }
                self.opened = Some(opened);
                if !is_all {
                    self.forget();
                    self.head = head;
                    return Ok(Some(Refusal::CutShort));
                }
            }
        }
        self.head = head;
        self.is_looked_at = true;
        Ok(None)
    }

    fn read_now(&mut self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let Some(opened) = &self.opened else {
            return Ok(0);
        };
        let frame_len = frame_len(&opened.generation);
        let wal_header = opened.generation.wal_header;
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = offset.saturating_add(done as u64);
            if let Some(header) = usize::try_from(at).ok().and_then(|at| wal_header.get(at..))
                && !header.is_empty()
            {
                done += copy_some(rest, header);
                continue;
            }
            let Some(piece) = piece(at, rest.len(), frame_len) else {
                break;
            };
            let rest = rest.get_mut(..piece.len).unwrap_or_default();
            let n = self.read_piece(&piece, rest)?;
            done += n;
            if n < piece.len {
                break;
            }
        }
        Ok(done)
    }

    /// Reads a part of one frame.
    fn read_piece(&mut self, piece: &Piece, buf: &mut [u8]) -> Result<usize> {
        let done = self.read_recorded(piece, buf)?;
        let half = self.current_half();
        let half = half.filter(|half| half.number == piece.number);
        let newer = half.and_then(|half| half.bytes.get(piece.start..));
        Ok(done.max(copy_some(buf, newer.unwrap_or_default())))
    }

    /// The beginning of a frame, of which the rest is expected.
    fn current_half(&self) -> Option<&Half> {
        self.half.as_ref().filter(|half| half.view == self.view)
    }

    /// The same of what is in records.
    fn read_recorded(&mut self, piece: &Piece, buf: &mut [u8]) -> Result<usize> {
        let Some(opened) = &mut self.opened else {
            return Ok(0);
        };
        let Some(places) = opened.find(piece.number, &mut self.medium)? else {
            return Ok(0);
        };
        let page_size = opened.generation.page_size;
        let mut done = 0;
        if piece.start < FRAME_HEADER_LEN {
            let header = self.header_at(places.header, piece.number)?;
            done = copy_some(buf, header.get(piece.start..).unwrap_or_default());
        }
        if done < buf.len() {
            let start = (piece.start + done).saturating_sub(FRAME_HEADER_LEN);
            let rest = buf.get_mut(done..).unwrap_or_default();
            if rest.len() == page_size {
                self.read_page(places.page, piece.number, rest)?;
                done += page_size;
            } else {
                let mut page = zeros(page_size)?;
                self.read_page(places.page, piece.number, &mut page)?;
                done += copy_some(rest, page.get(start..).unwrap_or_default());
            }
        }
        Ok(done)
    }

    /// Copies the page of a frame, whose record is at `place`.
    fn read_page(&mut self, place: u64, number: u32, page: &mut [u8]) -> Result<()> {
        if self.pages.read(place, page) {
            return Ok(());
        }
        self.decode(place, Some(number), DEPTH_MAX + 1, page)?;
        self.pages.keep(place, page)
    }

    /// The header of a frame, whose record is at `place`.
    fn header_at(&self, place: u64, number: u32) -> Result<[u8; FRAME_HEADER_LEN]> {
        let opened = self.opened.as_ref().ok_or(NO_HEADER)?;
        let loaded = opened.frame(place, &self.medium)?;
        let header = loaded.frame(&opened.generation, Some(number))?.header;
        header.ok_or_else(|| Error::damaged(place, "a frame has no header"))
    }

    /// Decodes the page in the record at `place`, which is less than so many differences deep. Those that it stands on are
    /// not kept: nothing else stands on them but later versions of it.
    fn decode(
        &mut self,
        mut place: u64,
        mut number: Option<u32>,
        mut limit: u8,
        page: &mut [u8],
    ) -> Result<()> {
        let opened = self.opened.as_ref().ok_or(NO_HEADER)?;
        let no_page = |place| Error::damaged(place, "a frame has no page");
        let mut differences = with_room(usize::from(DEPTH_MAX))?;
        loop {
            let loaded = opened.frame(place, &self.medium)?;
            let frame = loaded.frame(&opened.generation, number)?;
            let version = frame.page.ok_or_else(|| no_page(place))?;
            if let Form::First(sum) = version.form {
                let (file, generation) = (self.file.as_deref(), &opened.generation);
                base::read(file, generation, frame.header, sum, place, page)?;
            }
            let Some(base) = base_of(version.form, limit, place)? else {
                self.pages.decode(version, page, place)?;
                break;
            };
            differences.push((loaded, place));
            (place, number, limit) = (base.place, None, base.depth);
            if self.pages.read(place, page) {
                break;
            }
        }
        while let Some((loaded, place)) = differences.pop() {
            let version = loaded.frame(&opened.generation, None)?.page;
            let version = version.ok_or_else(|| no_page(place))?;
            self.pages.decode(version, page, place)?;
        }
        Ok(())
    }

    fn write_now(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        if offset == 0 {
            let header = bytes.try_into();
            let header = header.map_err(|_| Error::Refused("a part of the header"))?;
            return self.begin(header);
        }
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            // Another process may have written since. Within a frame none has.
            if self.current_half().is_none() || self.is_lost {
                self.refresh()?;
            }
            let opened = self.opened.as_ref().ok_or(NO_HEADER)?;
            let frame_len = frame_len(&opened.generation);
            let at = offset.saturating_add(done as u64);
            let piece = piece(at, rest.len(), frame_len).ok_or(Error::Refused("its place"))?;
            let rest = rest.get(..piece.len).unwrap_or_default();
            self.write_piece(&piece, rest, frame_len)?;
            done += piece.len;
        }
        Ok(())
    }

    /// Writes a part of one frame.
    fn write_piece(&mut self, piece: &Piece, bytes: &[u8], frame_len: usize) -> Result<()> {
        let (number, view) = (piece.number, self.view);
        let opened = self.opened.as_ref().ok_or(NO_HEADER)?;
        let frames = opened.index.frames();
        match &mut self.half {
            Some(half)
                if half.number == number
                    && half.bytes.len() == piece.start
                    && (half.view == view || number > frames) =>
            {
                append(&mut half.bytes, bytes)?;
                half.view = view;
                return self.written(frame_len);
            }
            _ => self.give_up_half()?,
        }
        if piece.start == 0 && number <= frames.saturating_add(1) {
            let bytes = copy(bytes)?;
            let header = bytes
                .get(..FRAME_HEADER_LEN)
                .and_then(|b| b.try_into().ok());
            let is_new = number > frames;
            self.half = Some(Half {
                number,
                view,
                bytes,
            });
            // The header of a frame that is there may be all that SQLite writes before others look.
            let is_alone = piece.len == FRAME_HEADER_LEN && !is_new;
            if is_alone && header.is_some_and(|header| is_commit(&header)) {
                return self.give_up_half();
            }
            return self.written(frame_len);
        }
        let opened = self.opened.as_mut().ok_or(NO_HEADER)?;
        let Some(places) = opened.find(number, &mut self.medium)? else {
            return Err(Error::Refused("a frame that follows none"));
        };
        self.overwrite(piece, bytes, places.header, places.page)
    }

    /// Appends the frame of which a part is here, if that part is all of it.
    fn written(&mut self, frame_len: usize) -> Result<()> {
        let is_whole = self
            .half
            .as_ref()
            .is_some_and(|half| half.bytes.len() == frame_len);
        let Some(half) = self.half.take_if(|_| is_whole) else {
            return Ok(());
        };
        let Some((header, page)) = half.bytes.split_first_chunk() else {
            return Ok(());
        };
        self.append(half.number, Some(*header), page_of(header), Some(page))
    }

    /// SQLite has gone on without the rest of a frame: of one that is there the header counts, if it was written. Half
    /// of a new frame is nothing.
    fn give_up_half(&mut self) -> Result<()> {
        let view = self.view;
        let Some(half) = self.half.take().filter(|half| half.view == view) else {
            return Ok(());
        };
        let opened = self.opened.as_mut().ok_or(NO_HEADER)?;
        let Some(places) = opened.find(half.number, &mut self.medium)? else {
            return Ok(());
        };
        if let Ok(header) = half.bytes.as_slice().try_into() {
            return self.append(half.number, Some(header), page_of(&header), None);
        }
        let piece = Piece {
            number: half.number,
            start: 0,
            len: half.bytes.len(),
        };
        self.overwrite(&piece, &half.bytes, places.header, places.page)
    }

    /// Writes over a part of a frame that is there, whose halves have records at these places.
    fn overwrite(&mut self, piece: &Piece, bytes: &[u8], header: u64, page: u64) -> Result<()> {
        let mut header = self.header_at(header, piece.number)?;
        let (in_header, start) = match FRAME_HEADER_LEN.checked_sub(piece.start) {
            Some(rest) if rest > 0 => (rest.min(bytes.len()), 0),
            _ => (0, piece.start - FRAME_HEADER_LEN),
        };
        let (of_header, of_page) = bytes.split_at_checked(in_header).unwrap_or_default();
        copy_some(header.get_mut(piece.start..).unwrap_or_default(), of_header);
        let new_header = (in_header > 0).then_some(header);
        let mut new_page = None;
        if !of_page.is_empty() {
            let opened = self.opened.as_ref().ok_or(NO_HEADER)?;
            let (place, mut bytes) = (page, zeros(opened.generation.page_size)?);
            self.read_page(place, piece.number, &mut bytes)?;
            copy_some(bytes.get_mut(start..).unwrap_or_default(), of_page);
            new_page = Some(bytes);
        }
        let number = piece.number;
        self.append(number, new_header, page_of(&header), new_page.as_deref())
    }

    /// Appends a record of a frame of this page, or of one of its halves.
    fn append(
        &mut self,
        number: u32,
        header: Option<[u8; FRAME_HEADER_LEN]>,
        page_number: u32,
        page: Option<&[u8]>,
    ) -> Result<()> {
        let mut stored = Vec::new();
        let form = match page {
            Some(page) => Some(self.encode(page_number, page, header.is_some(), &mut stored)?),
            None => None,
        };
        let opened = self.opened.as_mut().ok_or(NO_HEADER)?;
        let frame = Frame {
            number,
            witness: opened.witness(self.medium.tail()),
            header,
            page: form.map(|form| PageVersion {
                form,
                stored: &stored,
            }),
        };
        let before = opened.versions.newest(page_number);
        let place = opened.append_frame(&frame, &mut self.medium)?;
        if let Some(page) = page {
            self.pages.replace(before.unwrap_or(0), place, page)?;
        }
        Ok(())
    }

    /// Appends the next version of a page to `stored`, in the form that takes the fewest bytes.
    fn encode(
        &mut self,
        number: u32,
        page: &[u8],
        has_header: bool,
        stored: &mut Vec<u8>,
    ) -> Result<Form> {
        let opened = self.opened.as_ref().ok_or(NO_HEADER)?;
        if let Some((base, alone)) = opened.versions.base(number) {
            let budget = alone.unwrap_or(guessed_budget(page.len()));
            if self.encode_changes(base, page, budget, stored)? {
                let form = Form::Changes(base);
                return match alone {
                    Some(_) => Ok(form),
                    None => self.or_whole(form, page, stored),
                };
            }
        }
        match self.encode_first(number, page, stored, has_header)? {
            Some(form) => self.or_whole(form, page, stored),
            None => self.pages.encode_whole(page, stored),
        }
    }

    /// The whole page in place of changes, if it takes fewer bytes. It is only tried where that may be.
    fn or_whole(&mut self, form: Form, page: &[u8], stored: &mut Vec<u8>) -> Result<Form> {
        if stored.len() <= page.len() / 8 {
            return Ok(form);
        }
        let mut whole = Vec::new();
        let form_alone = self.pages.encode_whole(page, &mut whole)?;
        if whole.len() >= stored.len() {
            return Ok(form);
        }
        *stored = whole;
        Ok(form_alone)
    }

    /// The same as what changed since the commit that the generation stands on, if that is short.
    fn encode_first(
        &mut self,
        number: u32,
        page: &[u8],
        stored: &mut Vec<u8>,
        has_header: bool,
    ) -> Result<Option<Form>> {
        let generation = self.opened.as_ref().map(|opened| &opened.generation);
        let stands = |generation: &&Generation| has_header && generation.base.is_some();
        let Some(generation) = generation.filter(stands) else {
            return Ok(None);
        };
        let file = self.file.as_deref();
        base::with_page(file, generation, number, &mut self.reads, |base| {
            let fits = Pages::encode_changes(page, base, guessed_budget(page.len()), stored)?;
            Ok(fits.then(|| Form::First(sum_of(base))))
        })
    }

    /// The same as what changed since an earlier version; false if that takes more than `budget`.
    fn encode_changes(
        &mut self,
        base: Base,
        page: &[u8],
        budget: usize,
        stored: &mut Vec<u8>,
    ) -> Result<bool> {
        if let Some(kept) = self.pages.kept(base.place) {
            return Pages::encode_changes(page, kept, budget, stored);
        }
        let mut bytes = zeros(page.len())?;
        let decoded = match self.pages.read(base.place, &mut bytes) {
            true => Ok(()),
            false => self.decode(base.place, None, base.depth, &mut bytes),
        };
        match decoded {
            Ok(()) => Pages::encode_changes(page, &bytes, budget, stored),
            // Reading it is an error. This version can do without it.
            Err(Error::Damaged { .. } | Error::NoBase { .. } | Error::NoFile | Error::Io(_)) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn truncate_now(&mut self, size: u64) -> Result<()> {
        self.refresh()?;
        self.half = None;
        let Some(opened) = self
            .opened
            .as_mut()
            .filter(|_| size >= WAL_HEADER_LEN as u64)
        else {
            self.forget();
            return Ok(self.medium.storage().truncate(0)?);
        };
        let frames = (size - WAL_HEADER_LEN as u64) / frame_len(&opened.generation) as u64;
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        if frames < opened.index.frames() {
            opened.append_cut(frames, &mut self.medium)?;
        }
        self.medium.shorten(size)
    }
}

const NO_HEADER: Error = Error::Refused("a frame before a header");

/// How many bytes changes to a page may take, if it is not known what it takes by itself.
fn guessed_budget(page_size: usize) -> usize {
    page_size / 4
}

/// Bytes of a frame: header and page.
fn frame_len(generation: &Generation) -> usize {
    FRAME_HEADER_LEN + generation.page_size
}

/// The part of a frame that begins at this offset of the WAL, of at most `len` bytes.
fn piece(offset: u64, len: usize, frame_len: usize) -> Option<Piece> {
    let behind = offset.checked_sub(WAL_HEADER_LEN as u64)?;
    let number = u32::try_from(behind / frame_len as u64 + 1).ok()?;
    let start = usize::try_from(behind % frame_len as u64).ok()?;
    let len = len.min(frame_len - start);
    Some(Piece { number, start, len })
}

/// Copies as much as there is and fits.
fn copy_some(to: &mut [u8], from: &[u8]) -> usize {
    to.iter_mut()
        .zip(from)
        .map(|(to, from)| *to = *from)
        .count()
}
