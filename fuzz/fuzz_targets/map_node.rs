//! Bytes in the place of nodes of the page map and the item tree: of each level and kind. What decodes is written and
//! read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    litepack_store::hostile::try_nodes(data);
});
