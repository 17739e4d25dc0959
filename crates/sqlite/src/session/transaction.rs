//! SQLite's work on a database in a transaction, and in a checkpoint. It says so by the call itself: it writes with
//! the locks for it, or was told to take none because nothing else uses the file.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use litepack_cipher::Key;
use litepack_store::Result;

use super::handle::{Checkpointing, Handle, Session, Writing};
use super::packed::Packed;
use crate::host::file::HostFile;

impl Handle {
    /// SQLite is in a transaction that writes, or at its end.
    pub(crate) fn transaction(&mut self) -> Session<'_, Writing> {
        Session::new(self)
    }

    /// SQLite is in a checkpoint, as a file control says.
    pub(crate) fn checkpoint(&mut self) -> Session<'_, Checkpointing> {
        Session::new(self)
    }
}

impl Session<'_, Writing> {
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.handle.packed.write(offset, bytes)
    }

    pub(crate) fn truncate(&mut self, size: u64) -> Result<()> {
        self.handle.packed.truncate(size)
    }

    /// `FCNTL_SYNC`: the database is consistent.
    pub(crate) fn publish(&mut self) -> Result<()> {
        self.handle.packed.publish()
    }

    /// `xSync`.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.handle.packed.flush()
    }

    /// `COMMIT_PHASETWO`: the database is consistent, and the transaction is over.
    pub(crate) fn committed(&mut self) -> Result<()> {
        self.handle.packed.committed()
    }

    /// Gives an encrypted database another key.
    pub(crate) fn rekey(&mut self, key: Arc<Key>) -> Result<()> {
        self.handle.packed.rekey(key)
    }

    /// `FCNTL_OVERWRITE`: `VACUUM` is about to write the whole database anew.
    pub(crate) fn overwrite_begins(&mut self) {
        self.handle.packed.set_vacuuming(true);
    }
}

impl Session<'_, Checkpointing> {
    /// `CKPT_START`.
    pub(crate) fn begin(&mut self) -> Result<()> {
        let frames = self.handle.frames_in_database();
        self.handle.packed.checkpoint_starts(frames)
    }

    /// `CKPT_DONE`, the last step. SQLite goes on after it in any case, after a panic, too.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.finish_by(Packed::checkpoint_done)
    }

    /// The last step, done so.
    pub(crate) fn finish_by(
        &mut self,
        finish: impl FnOnce(&mut Packed<HostFile>) -> Result<()>,
    ) -> Result<()> {
        let handle = &mut *self.handle;
        handle.backfill = handle.frames_in_database();
        let finished = catch_unwind(AssertUnwindSafe(|| finish(&mut handle.packed)));
        if !matches!(finished, Ok(Ok(()))) {
            self.raise_doubt();
        }
        finished.unwrap_or_else(|panic| resume_unwind(panic))
    }
}
