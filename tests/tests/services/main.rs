//! Litepack's work beyond SQLite: dictionaries, maintenance, parameters and refusals.
//!
//! One program for all of them: each one more takes seconds to link.

mod dictionaries;
mod free_pages;
mod hosts;
mod interrupts;
mod maintenance;
mod refusals;
mod uri_parameters;
