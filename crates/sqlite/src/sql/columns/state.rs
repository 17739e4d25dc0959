//! The state that a connection's functions keep between calls, and how deep they call each other.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use litepack_codec::Dictionary;
use litepack_columns::dictionary::Dictionaries;
use litepack_columns::frame::{Compressor, Decompressor, Form, compress_aside, is_for_aside};
use litepack_columns::sql::{Error, Result};

/// How many compressors a connection keeps.
const COMPRESSORS_MAX: usize = 4;
/// A buffer for frames larger than this is given back.
const BUFFER_KEPT: usize = 4 << 20;
/// Functions that run SQL that calls functions, and so on, are not deeper than this. Decoding within
/// maintenance is two deep.
const DEPTH_MAX: u32 = 8;

/// The state that one connection keeps between calls.
#[derive(Default)]
pub(crate) struct State {
    /// How many functions are running, each called by SQL of the one before.
    depth: Cell<u32>,
    /// Whether SQL on this connection may configure the process, whatever else it may.
    trusted: Cell<bool>,
    pub(super) dictionaries: Dictionaries,
    /// The last dictionary that was given as bytes, so that it stays prepared.
    pub(super) given: RefCell<Option<Arc<Dictionary>>>,
    pub(super) decompressor: RefCell<Decompressor>,
    /// The one used last comes last.
    compressors: RefCell<Vec<(Purpose, Compressor)>>,
    frame: RefCell<Vec<u8>>,
    /// Whether the application has lifted the bounds of one call.
    pub(crate) unbounded: Cell<bool>,
}

/// The purpose of a compressor.
#[derive(Clone, Copy, PartialEq)]
struct Purpose {
    level: i32,
    /// The dictionary, by its hash.
    dictionary: Option<u128>,
    form: Form,
}

/// A function is running, until this is dropped.
pub(crate) struct Running<'a>(&'a State);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
    }
}

impl State {
    /// A function begins to run.
    ///
    /// # Errors
    /// When too many already do: the SQL that they run calls them again and again.
    pub(crate) fn enter(&self) -> Result<Running<'_>> {
        let depth = self.depth.get();
        if depth == DEPTH_MAX {
            return Err(Error::new(
                "functions of compressed columns call themselves through the schema of a database, which may have \
                 been made to deceive",
            ));
        }
        self.depth.set(depth + 1);
        Ok(Running(self))
    }

    /// Lets SQL on this connection configure the process.
    pub(crate) fn trust(&self) {
        self.trusted.set(true);
    }

    /// Whether the running function was called by SQL of another one of ours.
    pub(super) fn is_nested(&self) -> bool {
        self.depth.get() > 1
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted.get()
    }

    /// Compresses with a compressor kept for the purpose; `use_frame` must not run SQL.
    pub(super) fn compress(
        &self,
        level: i32,
        dictionary: Option<&Arc<Dictionary>>,
        form: Form,
        plain: &[u8],
        use_frame: impl FnOnce(&[u8]),
    ) -> Result<()> {
        let known = dictionary.map_or(0, |known| known.bytes().len());
        if is_for_aside(level, plain.len(), known) {
            use_frame(&compress_aside(level, dictionary, form, plain)?);
            return Ok(());
        }
        let purpose = Purpose {
            level,
            dictionary: dictionary.map(|known| known.hash()),
            form,
        };
        let mut kept = self.compressors.borrow_mut();
        let mut compressor = match kept.iter().position(|(known, _)| *known == purpose) {
            Some(at) => kept.remove(at).1,
            None => Compressor::prepared(level, dictionary, form)?,
        };
        let mut frame = self.frame.borrow_mut();
        compressor.compress(plain, &mut frame)?;
        use_frame(&frame);
        if frame.capacity() > BUFFER_KEPT {
            *frame = Vec::new();
        }
        if !compressor.is_bulky() {
            if kept.len() == COMPRESSORS_MAX {
                kept.remove(0);
            }
            kept.push((purpose, compressor));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_call_themselves_come_to_an_end() {
        let state = State::default();
        let running: Vec<Running<'_>> = (0..DEPTH_MAX)
            .map(|depth| state.enter().unwrap_or_else(|_| panic!("{depth}")))
            .collect();
        assert!(state.enter().is_err());
        drop(running);
        assert!(state.enter().is_ok());
    }
}
