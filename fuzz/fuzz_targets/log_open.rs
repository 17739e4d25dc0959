//! Logs with right checksums and hostile content: opened, read, written, cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let file = litepack_log::testing::hostile::forged(data);
    litepack_log::testing::hostile::use_it(file);
});
