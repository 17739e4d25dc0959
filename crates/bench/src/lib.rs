//! Litepack's benchmark: seeded data, engines that take turns, workloads, reports.
//!
//! Nothing here is shipped. `bin/bench` measures, `bin/demo` shows; the data are those of `tests/data`. A new engine is
//! one file in [`engines`], a new workload one file in [`workloads`].
#![forbid(unsafe_code)]

pub mod child;
pub mod cold;
mod command;
pub mod damage;
pub mod dataset;
pub mod demo;
#[cfg(target_os = "linux")]
pub mod device;
pub mod engines;
pub mod lab;
pub mod machine;
pub mod memory_limit;
pub mod report;
pub mod rows;
pub mod stats;
pub mod whole_file;
pub mod workloads;
