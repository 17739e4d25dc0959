//! One value: compress and decompress.
//!
//! Reading a value is what has to be fast: with the dictionary at hand it runs no SQL and allocates
//! nothing. Nothing is borrowed while SQL runs: that may call these functions again.

use std::sync::Arc;

use litepack_codec::Dictionary;
use litepack_columns::VALUE_MAX;
use litepack_columns::dictionary::{NO_DICTIONARY, is_content_id, of_bytes};
use litepack_columns::frame::{DICTIONARY_AT_ONCE, Form, is_large, is_much};
use litepack_columns::sql::{CORRUPT, Error, Result, Sql, TOOBIG, Value};

use crate::sql::call::Call;
use crate::sql::columns::bounds;

/// Level of `zstd_compress` when none is given.
const DEFAULT_LEVEL: i32 = 3;
/// A dictionary given as bytes is not kept if it is longer than this.
const GIVEN_KEPT: usize = 32 << 20;
/// `zstd_compress(data [, level [, dictionary [, compact]]])`: a zstd frame.
pub(crate) fn compress(call: &Call<'_>) -> Result<()> {
    let bytes = call.length_of(0).saturating_add(call.length_of(2));
    bounds::expect(call, bytes)?;
    let data = call.argument(0);
    if data == Value::Null {
        call.answer(Value::Null);
        return Ok(());
    }
    let plain = text_or_blob(call, data)?;
    let level = match call.count() {
        1 => DEFAULT_LEVEL,
        _ => level(call)?,
    };
    let dictionary = dictionary(call, call.argument(2))?;
    let form = form(call, call.argument(3))?;
    let known = dictionary.as_ref().map_or(0, |known| known.bytes().len());
    if bytes <= VALUE_MAX {
        // A dictionary that was named by its id is as long as it is.
        bounds::expect(call, plain.len().saturating_add(known))?;
    }
    let work = || {
        let answer = |frame: &[u8]| call.answer(Value::Blob(frame));
        call.state()
            .compress(level, dictionary.as_ref(), form, plain, answer)
    };
    match is_much(level, plain.len(), known) {
        true => bounds::within(call, work),
        false => work(),
    }
}

/// `zstd_compress_col(data, level, dictionary, compact)`: the same, but no dictionary (NULL) means
/// no compression.
pub(crate) fn compress_col(call: &Call<'_>) -> Result<()> {
    if call.argument(2) != Value::Null {
        return compress(call);
    }
    match call.argument(0) {
        Value::Null => call.answer(Value::Null),
        data => call.answer(Value::Blob(text_or_blob(call, data)?)),
    }
    Ok(())
}

/// `zstd_decompress_col(data, is_text, dictionary, compact)`: what `zstd_compress_col` was given; no
/// dictionary (NULL) means that `data` is not compressed.
pub(crate) fn decompress_col(call: &Call<'_>) -> Result<()> {
    if call.argument(2) == Value::Null {
        call.answer_argument(0);
        return Ok(());
    }
    decompress(call)
}

/// `zstd_decompress(data, is_text [, dictionary [, compact]])`: what is in a zstd frame.
pub(crate) fn decompress(call: &Call<'_>) -> Result<()> {
    let bytes = call.length_of(0).saturating_add(call.length_of(2));
    bounds::expect(call, bytes)?;
    let frame = match call.argument(0) {
        Value::Null => {
            call.answer(Value::Null);
            return Ok(());
        }
        Value::Blob(frame) => frame,
        other => {
            let kind = other.type_name();
            return Err(call.error(format_args!("expected compressed data as blob, not {kind}")));
        }
    };
    let is_text = switch(call, call.argument(1), "is_text")?;
    let named = call.argument(2);
    let dictionary = dictionary(call, named)?;
    let form = form(call, call.argument(3))?;
    let limit = call.db().length_limit();
    let bounded = limit.min(VALUE_MAX);
    let mut decompressor = call.state().decompressor.borrow_mut();
    let mut decode = |limit| {
        let dictionary = dictionary.as_deref();
        decompressor
            .decompress(frame, dictionary, form, limit)
            .map(|_| ())
    };
    let mut work = || match decode(bounded) {
        Err(error) if error.code == TOOBIG && bounded < limit => {
            bounds::expect(call, limit)?;
            decode(limit)
        }
        decoded => decoded,
    };
    let decoded = match is_large(frame, form) {
        true => bounds::within(call, work),
        false => work(),
    };
    decoded.map_err(|error| explained(error, named))?;
    let plain = decompressor.plain();
    if !is_text {
        call.answer(Value::Blob(plain));
    } else if made_of_text(named) && std::str::from_utf8(plain).is_err() {
        let error = Error::corrupt("a compressed value is damaged (it is not UTF-8 text)");
        return Err(explained(error, named));
    } else {
        call.answer(Value::Text(plain));
    }
    decompressor.trim();
    Ok(())
}

/// Whether text compressed with this dictionary was valid: only what was compressed here is known.
fn made_of_text(dictionary: Value<'_>) -> bool {
    dictionary.integer().is_some_and(is_content_id)
}

/// Says about damage where it is and what helps.
fn explained(error: Error, dictionary: Value<'_>) -> Error {
    match (error.code, dictionary) {
        (CORRUPT, Value::Integer(NO_DICTIONARY) | Value::Null) => error.context(
            "a value compressed without a dictionary cannot be read, restore it from a backup",
        ),
        (CORRUPT, Value::Integer(id)) => error.context(format_args!(
            "a value compressed with dictionary {id} cannot be read, restore it from a backup (or \
             the right dictionary id, if that was changed)"
        )),
        _ => error,
    }
}

/// The dictionary an argument stands for.
fn dictionary(call: &Call<'_>, named: Value<'_>) -> Result<Option<Arc<Dictionary>>> {
    let state = call.state();
    match named {
        Value::Null | Value::Integer(NO_DICTIONARY) => Ok(None),
        Value::Integer(id) if is_content_id(id) => match state.dictionaries.remembered(id) {
            Some(known) => Ok(Some(known)),
            None => state.dictionaries.get(&call.db(), id).map(Some),
        },
        Value::Integer(id) => {
            let found = call.with_run(|run| run.get(&state.dictionaries, &call.db(), id));
            found.map(Some)
        }
        Value::Blob(bytes) => {
            let same = state.given.borrow().clone();
            let known = match same.filter(|same| same.bytes() == bytes) {
                Some(same) => same,
                None if bytes.len() > DICTIONARY_AT_ONCE => {
                    bounds::within(call, || of_bytes(bytes))?
                }
                None => of_bytes(bytes)?,
            };
            let kept = (bytes.len() <= GIVEN_KEPT).then(|| Arc::clone(&known));
            *state.given.borrow_mut() = kept;
            Ok(Some(known))
        }
        other => Err(call.error(format_args!(
            "a dictionary is given as blob, as id in _zstd_dicts, or as NULL for none, not as {}",
            other.type_name()
        ))),
    }
}

fn text_or_blob<'a>(call: &Call<'_>, data: Value<'a>) -> Result<&'a [u8]> {
    data.bytes().ok_or_else(|| {
        let kind = data.type_name();
        call.error(format_args!(
            "expected text or blob to compress, not {kind}"
        ))
    })
}

/// The level, argument 1. zstd takes one outside its range for the nearest.
fn level(call: &Call<'_>) -> Result<i32> {
    match call.argument(1) {
        Value::Integer(level) => Ok(level.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
        other => Err(call.error(format_args!(
            "the level is an integer, 1 to 22, not {}",
            other.type_name()
        ))),
    }
}

fn form(call: &Call<'_>, compact: Value<'_>) -> Result<Form> {
    // Left out, or NULL, it is an ordinary frame.
    if compact != Value::Null && switch(call, compact, "compact")? {
        Ok(Form::Compact)
    } else {
        Ok(Form::Standard)
    }
}

fn switch(call: &Call<'_>, value: Value<'_>, what: &str) -> Result<bool> {
    match value {
        Value::Integer(value) => Ok(value != 0),
        other => Err(call.error(format_args!("{what} is 0 or 1, not {}", other.type_name()))),
    }
}
