//! Logs that stand on a commit of their database (docs/internals/log.md, "First versions").
//!
//! A program of its own: it switches on for the whole process what is not switched on yet.

mod erased;
mod held;
mod power_loss;
mod readers;
mod salvage;
