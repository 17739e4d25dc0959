//! Databases of arbitrary pages behind a header: each page is read at most once, and has some owner.
#![no_main]

use std::convert::Infallible;

use libfuzzer_sys::fuzz_target;
use litepack_btree::{HEADER_LEN, Header, Owner, PageNumber, PageOwnership};

fuzz_target!(|data: &[u8]| {
    const PAGE: usize = 512;
    let mut bytes = data.to_vec();
    bytes.resize(bytes.len().max(HEADER_LEN).next_multiple_of(PAGE), 0);
    bytes[..16].copy_from_slice(b"SQLite format 3\0");
    bytes[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
    let Some(header) = Header::parse(&bytes, bytes.len() as u64) else {
        return;
    };
    let mut read = vec![false; header.pages as usize];
    let found = PageOwnership::find(&header, |page, buf| {
        let index = page.index() as usize;
        assert!(!std::mem::replace(&mut read[index], true), "page {page} is read twice");
        buf.copy_from_slice(&bytes[index * PAGE..][..PAGE]);
        Ok::<_, Infallible>(true)
    });
    let Ok(found) = found;
    for page in (1..=found.pages()).filter_map(PageNumber::new) {
        if let Owner::Tree { tree, .. } = found.owner(page) {
            assert!((tree as usize) < found.trees().len());
        }
    }
});
