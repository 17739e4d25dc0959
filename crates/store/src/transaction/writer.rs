//! The state that a handle keeps for writing, from one transaction to the next.

use litepack_codec::{Encoder, LEVELS, Level};
use litepack_io::fixed;

use crate::format::guard::Sealing;
use crate::options::Options;
use crate::space::erase::Eraser;
use crate::space::held::Needs;
use crate::transaction::newest::Newest;
use crate::transaction::undo::Undo;
use crate::transaction::write_buffer::WriteBuffer;
use crate::transaction::write_queue::WriteQueue;
use litepack_io::cache::CacheReservation;

/// Settings, memory, and what is known of the commit that the next transaction follows.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(super) level: Level,
    pub(super) columnar: bool,
    /// Whether units become private differences.
    pub(super) differences: bool,
    /// A unit as it was, which another one is compared with.
    pub(super) base: Vec<u8>,
    /// Pages of the running transaction; empty between transactions, when it keeps their memory.
    pub(super) buffer: WriteBuffer,
    pub(super) queue: WriteQueue,
    /// Since the first transaction that was large; the next one finds the memory.
    pub(super) reservation: Option<CacheReservation>,
    pub(super) newest: Newest,
    /// Since the first commit to an encrypted file.
    pub(super) sealing: Sealing,
    /// A commit that failed and is not undone on disk yet, or not durably.
    pub(super) undo: Option<Undo>,
    /// Database size below which training is not tried (again).
    pub(super) training_due_at: u64,
    pub(super) eraser: Eraser,
    /// Who knows what others need of the file.
    pub(super) needs: Option<Box<dyn Needs>>,
    /// The whole database is being rewritten.
    pub(super) rewriting: bool,
    /// A commit failed that was to make the file longer: later ones do so only where nothing else has room, until one
    /// succeeds.
    pub(super) could_not_grow: bool,
    pub(crate) compaction: Compaction,
}

/// When commits compact the file.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    /// The running commits are those of a compaction.
    pub(super) is_running: bool,
    /// Bytes this handle has written, and how many they must be before it compacts again.
    pub(super) written_bytes: u64,
    pub(super) due_at: u64,
}

impl Writer {
    pub(super) fn new(options: &Options) -> Writer {
        Writer {
            level: options.level.clamp(*LEVELS.start(), *LEVELS.end()),
            columnar: options.columnar,
            differences: options.differences && fixed::may_differ(),
            base: Vec::new(),
            buffer: WriteBuffer::default(),
            queue: WriteQueue::default(),
            reservation: None,
            newest: Newest::default(),
            sealing: Sealing::default(),
            undo: None,
            training_due_at: 0,
            eraser: Eraser::default(),
            needs: None,
            rewriting: false,
            could_not_grow: false,
            compaction: Compaction::default(),
        }
    }

    /// An encoder for pages as they are stored.
    pub(super) fn encoder(&self) -> Encoder {
        Encoder::with_columnar(self.level, self.columnar)
    }

    /// Whether this handle has written the commit that it is at, or begun to write after it.
    pub(crate) fn knows_space(&self) -> bool {
        self.newest.knows_space()
    }

    /// Drops pages and bytes that were not written.
    pub(super) fn drop_pending(&mut self) {
        self.buffer.clear();
        self.queue.clear();
    }
}

impl Compaction {
    /// Whether a commit may compact the file.
    pub(super) fn is_due(&self) -> bool {
        !self.is_running && self.written_bytes >= self.due_at
    }

    /// A compaction begins: the commits that it makes are not to begin another one.
    pub(crate) fn begin(&mut self) {
        self.is_running = true;
    }

    /// It has ended.
    pub(crate) fn end(&mut self) {
        self.is_running = false;
    }

    /// Waits until so many bytes were written: extents that a compaction could not move it cannot move at the next
    /// commit either.
    pub(crate) fn wait_for(&mut self, bytes: u64) {
        self.due_at = self.written_bytes + bytes;
    }
}
