//! The little that the store knows of SQLite's file format.

/// First bytes of every plain SQLite database.
pub const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The page size in a SQLite header, if it is one.
pub(crate) fn page_size_in(header: &[u8]) -> Option<u32> {
    let field = header.strip_prefix(SQLITE_MAGIC)?.first_chunk()?;
    match u16::from_be_bytes(*field) {
        1 => Some(65536),
        size if size >= 512 && size.is_power_of_two() => Some(size.into()),
        _ => None,
    }
}
