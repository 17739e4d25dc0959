//! One trip through the command: pack, check, info, unpack, with every byte and every row compared.

use crate::commandline::{Place, read, succeed};
use crate::programs::run_litepack;
use crate::{content, vfs};
use std::path::Path;

/// Packs and unpacks with pages as they are and with pages laid out by column, compares bytes, content and
/// the source, and returns the packed sizes.
pub fn round_trip(place: &Place, source: &Path) -> [u64; 2] {
    [Some("--no-columnar"), None].map(|option| round_trip_with(place, source, option))
}

fn round_trip_with(place: &Place, source: &Path, option: Option<&str>) -> u64 {
    let before = read(source);
    let (packed, back) = (place.path("rt.packed"), place.path("rt.back"));
    let options = std::iter::once("pack").chain(option).map(Path::new);
    succeed("pack", &run_litepack(options.chain([source, &packed])));
    assert!(before == read(source), "packing changed the source");
    assert!(
        !vfs::looks_plain(&packed).expect("readable"),
        "pack made a plain file"
    );
    succeed("check", &run_litepack([Path::new("check"), &packed]));
    succeed("info", &run_litepack([Path::new("info"), &packed]));
    succeed(
        "unpack",
        &run_litepack([Path::new("unpack"), &packed, &back]),
    );
    let after = read(&back);
    assert_eq!(before.len(), after.len(), "unpacked size");
    let differs = before.iter().zip(&after).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first byte that differs");

    let plain = vfs::open_plain(&back).expect("it opens");
    let through = vfs::open_with(&packed, "mode=ro").expect("it opens");
    content::assert_sound(&through, "the packed database");
    let same = content::fingerprint(&plain).expect("a scan");
    assert_eq!(same, content::fingerprint(&through).expect("a scan"));
    drop((plain, through));
    let size = std::fs::metadata(&packed).expect("a file").len();
    std::fs::remove_file(&packed).expect("removable");
    std::fs::remove_file(&back).expect("removable");
    size
}
