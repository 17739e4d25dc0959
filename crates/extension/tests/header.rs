//! The table of SQLite's functions that `litepack.h` makes for a SQLite that gives none.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The functions that are called through the table, by the text of the code: `call!(self.table(), step(...))`.
fn called() -> BTreeSet<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../sqlite/src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    let mut names = BTreeSet::new();
    for file in files {
        let text: String = fs::read_to_string(file).unwrap();
        let text: String = text.split_whitespace().collect();
        for call in text.split("call!(").skip(1) {
            let table = call
                .find("table")
                .filter(|&at| at < call.find(',').unwrap());
            if let Some(at) = table {
                let call = &call[at..];
                let name = call.split(',').nth(1).unwrap().split('(').next();
                names.insert(name.unwrap().to_owned());
            }
        }
    }
    // Looked for, and not called if it is not there.
    names.insert("compileoption_used".into());
    names
}

#[test]
fn it_has_every_function_that_is_called() {
    let header = include_str!("../include/litepack.h");
    let parts = header.split("LITEPACK_HAS(").skip(2);
    let has: BTreeSet<String> = parts
        .map(|part| part.split(')').next().unwrap().to_owned())
        .collect();
    assert!(has.len() > 50);
    assert_eq!(has, called());
}
