//! Hostile streams of pages laid out by column, and hostile pages to be laid out.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut page = [0; 4096];
    litepack_codec::undo_columns(data, &mut page);
    // An item of four.
    litepack_codec::undo_columns(data, &mut [0; 16_384]);
    // The page that a hostile stream stands for is good enough to try the other way.
    assert!(litepack_codec::comes_back(&page, data));
    let len = data.len().min(page.len());
    page.fill(0);
    page[..len / 2].copy_from_slice(&data[..len / 2]);
    page[4096 - (len - len / 2)..].copy_from_slice(&data[len / 2..len]);
    assert!(litepack_codec::comes_back(&page, data));
});
