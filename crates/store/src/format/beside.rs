//! The names of the files that SQLite keeps beside a packed one: the name of the packed file, and this.
//!
//! Not as SQLite calls them. A program without Litepack looks for a WAL and for a journal before it looks at the database,
//! and writes the pages in there into the packed file. Under these names it finds none, and says that the file is not a
//! database.
//!
//! They are as long as SQLite's, whose place in memory they take, and have one hyphen: SQLite's Unix VFS finds by it the
//! database whose owner and permissions the file gets.

/// In place of `-wal`.
pub const WAL_SUFFIX: &str = "-lpw";
/// In place of `-journal`.
pub const JOURNAL_SUFFIX: &str = "-lpjourn";
