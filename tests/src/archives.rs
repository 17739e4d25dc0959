//! Archives for tests: of a database's bytes by us and by other writers, and a plain database beside its archives.

use crate::commandline::Place;
use crate::vfs;
use litepack_archive::{Settings, create};
use rusqlite::Connection;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use zeekstd::{EncodeOptions, FrameSizePolicy};
use zstd_safe::seekable::SeekableCStream;
use zstd_safe::{InBuffer, OutBuffer};

/// Who makes an archive.
#[derive(Clone, Copy, Debug)]
pub enum Writer {
    /// `litepack archive create`, with frames of so many bytes, rounded up to whole pages.
    Litepack(u32),
    /// The crate zeekstd, with frames of so many bytes.
    Zeekstd(u32),
    /// The library in facebook/zstd's contrib/seekable_format.
    Facebook(u32),
}

impl Writer {
    /// An archive of these bytes, with checksums.
    pub fn archive(self, database: &[u8]) -> Vec<u8> {
        match self {
            Writer::Litepack(frame_size) => litepack(database, frame_size),
            Writer::Zeekstd(frame_size) => zeekstd(database, frame_size),
            Writer::Facebook(frame_size) => facebook(database, frame_size),
        }
    }
}

fn litepack(database: &[u8], frame_size: u32) -> Vec<u8> {
    let settings = Settings {
        frame_size,
        level: 3,
        ..Settings::default()
    };
    let (mut input, mut file) = (database, Vec::new());
    let go_on = &mut |_| ControlFlow::Continue(());
    create(&mut input, &mut file, &settings, go_on).expect("an archive");
    file
}

fn zeekstd(database: &[u8], frame_size: u32) -> Vec<u8> {
    use std::io::Write;
    let mut file = Vec::new();
    let encoder = EncodeOptions::new()
        .checksum_flag(true)
        .frame_size_policy(FrameSizePolicy::Uncompressed(frame_size));
    let mut encoder = encoder.into_encoder(&mut file).expect("an encoder");
    encoder.write_all(database).expect("it is written");
    encoder.finish().expect("an archive");
    file
}

fn facebook(database: &[u8], frame_size: u32) -> Vec<u8> {
    let mut stream = SeekableCStream::create();
    stream.init(3, true, frame_size).expect("a stream");
    let mut file = vec![0; database.len() * 2 + (1 << 20)];
    let mut output = OutBuffer::around(file.as_mut_slice());
    let mut input = InBuffer::around(database);
    while input.pos() < database.len() {
        let step = stream.compress_stream(&mut output, &mut input);
        step.expect("it is written");
    }
    while stream.end_stream(&mut output).expect("an archive") > 0 {}
    let len = output.pos();
    file.truncate(len);
    file
}

/// Makes a plain database.
pub fn plain(
    place: &Place,
    page_size: u32,
    fill: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> PathBuf {
    let path = place.path("plain.db");
    let connection = vfs::open_plain(&path).expect("a new database");
    let pragmas = format!("pragma page_size = {page_size}; pragma synchronous = off");
    connection.execute_batch(&pragmas).expect("pragmas");
    fill(&connection).expect("the data is made");
    connection.close().expect("it closes");
    path
}

/// Makes an archive of a database beside it.
pub fn archive(plain: &Path, name: &str, writer: Writer) -> PathBuf {
    let path = plain.with_file_name(name);
    let bytes = std::fs::read(plain).expect("readable");
    std::fs::write(&path, writer.archive(&bytes)).expect("writable");
    path
}

/// Opens a database as it is recommended for archives.
pub fn open(path: &Path) -> rusqlite::Result<Connection> {
    vfs::open_with(path, "mode=ro")
}
