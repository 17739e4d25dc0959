//! Packed databases after a crash, a power loss, a full disk, damage, and beside other processes.
//!
//! One program for all of them: each one more takes seconds to link.

mod freed_pages;
mod hot_journal;
mod kill9;
mod leftovers;
mod log;
mod lying_disk;
mod power_loss;
mod processes;
mod raw_wal;
mod restore;
mod rot;
mod secure_delete;
mod several_databases;
mod without_litepack;
