//! Good packed files, changed anywhere behind their checksums, which are mended: everything that is done with a file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| litepack_store::forged::survives(data));
