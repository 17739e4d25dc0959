//! `liblitepack-preload.so`: packed files open in programs that cannot be told to load an extension.
//!
//! `LD_PRELOAD` puts it into a process, before the libraries of the program. It owns how the extension gets into each
//! SQLite library there, and promises a process without SQLite that nothing happens.
//!
//! ```text
//! register.rs   which library gets the extension, and when, and what happens without it
//! extension.rs  where the extension is
//! deepbind.rs   libraries that are loaded so that nothing can stand before what they call
//! calls.rs      whether a function was called by the code that it returns to
//! c.rs          what the program calls, the system's loader, SQLite's functions
//! ```
//!
//! It stands before the functions of SQLite that open a database. A call to one of them first has the extension loaded
//! as the default VFS of the library that the call is for, and then goes to where it would have gone without us. Before
//! that, SQLite is not initialised: a program may still configure it.
//!
//! All else is left to the extension, which is loaded then, from beside this file. This one is in processes of every
//! kind, so it is small, has no thread, prints nothing, and is linked to nothing but what every program of Rust is.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod c;
mod calls;
mod deepbind;
mod extension;
mod register;
