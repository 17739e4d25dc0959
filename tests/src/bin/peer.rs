//! `peer EXTENSION DATABASE`: runs the SQL statements of standard input, separated by NUL, on a
//! connection that has only the functions of sqlite-zstd, and prints every answer.

use litepack_tests::peer::{answer, print};
use std::io::{Read, Write};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [extension, database] = &arguments[..] else {
        return Err("usage: peer EXTENSION DATABASE".into());
    };
    let mut script = String::new();
    std::io::stdin().read_to_string(&mut script)?;
    let connection = rusqlite::Connection::open(database)?;
    litepack_peers::sqlite_zstd::load(&connection, Path::new(extension))?;
    let mut out = std::io::stdout().lock();
    for sql in script.split('\0') {
        print(&mut out, &answer(&connection, sql))?;
    }
    Ok(out.flush()?)
}
