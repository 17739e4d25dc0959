//! Hostile frames of a compressed column in both forms, with and without a dictionary that is hostile
//! too: an error, or no more bytes than allowed.
#![no_main]

use litepack_codec::Dictionary;
use litepack_columns::frame::{Decompressor, Form};

const LIMIT: usize = 1 << 20;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&split, data)) = data.split_first() else { return };
    let (dictionary, frame) = data.split_at(usize::from(split).min(data.len()));
    let dictionary = Dictionary::new(dictionary);
    let mut decompressor = Decompressor::default();
    for form in [Form::Compact, Form::Standard] {
        for dictionary in [None, Some(&dictionary)] {
            if let Ok(plain) = decompressor.decompress(frame, dictionary, form, LIMIT) {
                assert!(plain.len() <= LIMIT);
            }
        }
    }
});
