//! A packed database as SQLite uses it: its lock, its transactions, its checkpoints, its maintenance.
//!
//! SQLite says by its calls where it is, and `Handle` keeps that. The work allowed on a handle depends on it, so that
//! is a type: a [`Session`] is a handle together with the proof that it is in a state.
//!
//! | state | what holds as long as there is such a session | what it is for |
//! |---|---|---|
//! | [`Unlocked`] | nothing | planning maintenance; getting one of the others |
//! | [`Reading`] | a SHARED lock at least | reports |
//! | [`Writing`] | no other connection writes, nor copies pages of the WAL into the database | a step of maintenance |
//! | [`Checkpointing`] | the checkpoint lock of the WAL index, or the whole file | saying in the index what is in the database |
//!
//! A step of maintenance is for a session that writes:
//!
//! ```
//! use litepack_sqlite::session::{Session, Writing};
//! fn step(session: &mut Session<'_, Writing>) -> bool {
//!     session.step().is_ok()
//! }
//! ```
//!
//! and for no other:
//!
//! ```compile_fail,E0599
//! use litepack_sqlite::session::{Reading, Session};
//! fn step(session: &mut Session<'_, Reading>) -> bool {
//!     session.step().is_ok()
//! }
//! ```
//!
//! The checkpoint lock lets its owner settle what the index says:
//!
//! ```
//! use litepack_sqlite::session::{Checkpointing, Session};
//! fn settle(session: &Session<'_, Checkpointing>) {
//!     session.settle(0);
//! }
//! ```
//!
//! and a lock to write does not:
//!
//! ```compile_fail,E0599
//! use litepack_sqlite::session::{Session, Writing};
//! fn settle(session: &Session<'_, Writing>) {
//!     session.settle(0);
//! }
//! ```
//!
//! Reports need a lock:
//!
//! ```
//! use litepack_sqlite::session::{Reading, Session};
//! fn report(session: &mut Session<'_, Reading>) -> bool {
//!     session.check().is_ok()
//! }
//! ```
//!
//! ```compile_fail,E0599
//! use litepack_sqlite::session::{Session, Unlocked};
//! fn report(session: &mut Session<'_, Unlocked>) -> bool {
//!     session.check().is_ok()
//! }
//! ```
//!
//! ```text
//! handle.rs      handles and sessions
//! packed.rs      the store by SQLite's calls: reads, writes, commits
//! lock.rs        sessions that read or write for ourselves
//! transaction.rs sessions that write or checkpoint for SQLite
//! wal.rs         the WAL index                  index_locks.rs its locks
//! checkpoint.rs  how far a checkpoint is        secure_delete.rs what is erased
//! maintenance.rs steps of maintenance
//! upkeep.rs      what there is to maintain      patience.rs    how long it waits for others
//! anew.rs        its content in a new file
//! ```

mod anew;
mod checkpoint;
mod handle;
mod index_locks;
mod lock;
mod maintenance;
pub(crate) mod packed;
pub(crate) mod patience;
pub(crate) mod secure_delete;
mod transaction;
mod upkeep;
mod wal;

pub(crate) use handle::Handle;
pub use handle::{Checkpointing, Reading, Session, Unlocked, Writing};
pub(crate) use maintenance::{MAINTENANCE_FAILED, NOT_WRITTEN, READ_FIRST};
pub(crate) use upkeep::Upkeep;
