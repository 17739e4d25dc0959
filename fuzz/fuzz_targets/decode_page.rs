//! Hostile stored bytes for every codec, with and without a dictionary that is hostile too, and as a difference to such
//! bytes.
#![no_main]

use litepack_codec::{Codec, Decoder, Dictionary};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&split, data)) = data.split_first() else { return };
    let (dictionary, stored) = data.split_at(usize::from(split).min(data.len()));
    let mut page = [0; 4096];
    let _ = Decoder::default().decode_difference(stored, dictionary, &mut page);
    let dictionary = Dictionary::new(dictionary);
    // A unit, and an item of four.
    for len in [4096, 16_384] {
        let mut pages = vec![0; len];
        for codec in Codec::ALL {
            let _ = Decoder::default().decode(codec, stored, None, &mut pages);
            let _ = Decoder::default().decode(codec, stored, Some(&dictionary), &mut pages);
        }
    }
});
