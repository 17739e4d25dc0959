//! Archives answer as the plain file does, and damage in them is found.
//!
//! One program for all of them: each one more takes seconds to link.

mod damage;
mod queries;
