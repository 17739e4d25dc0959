//! Logs that stand on a commit of their database (docs/internals/log.md, "First versions").
//!
//! A program of its own: in its process logs stand on databases of any size.

mod erased;
mod held;
mod lying_disk;
mod power_loss;
mod put_back;
mod readers;
mod salvage;
