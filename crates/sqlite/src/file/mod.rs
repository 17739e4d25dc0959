//! Files as SQLite sees them: packed databases, archives, journals.

pub(crate) mod archive;
pub(crate) mod journal;
pub(crate) mod packed;
pub(crate) mod refused;
pub(crate) mod secure_delete;
pub(crate) mod wal_index;
