//! A packed database as SQLite uses it: its lock, its transactions, its checkpoints, its maintenance.

pub(crate) mod packed;
pub(crate) mod patience;
pub(crate) mod secure_delete;
