//! Reading from the medium an archive is on. Only the thread that owns a handle does; workers get bytes.

use std::io;

use litepack_io::storage::ReadAt;

/// Fills all of `buf`; what is not there is an error.
pub(crate) fn read_exact(source: &impl ReadAt, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let found = source.read_at(buf, offset)?;
    if found == buf.len() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!(
            "the archive ends at byte {} and was longer when it was opened",
            offset.saturating_add(found as u64)
        ),
    ))
}
