//! Whole files with right checksums and hostile content: header, records, map nodes, catalog, free space.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| litepack_store::hostile::try_everything(data));
