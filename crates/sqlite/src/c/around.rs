//! What is around a file on its connection: the key of another database there, where temporary files go, and what
//! the running statement says that SQLite does not hand on.

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::Arc;

use litepack_cipher::Key;

use super::api::{Api, call};
use super::bindings::{sqlite3, sqlite3_file, sqlite3_vfs};
use super::codes::{Code, ERROR, NOTFOUND, OK, fcntl};
use super::library::is_ours;

/// What an encrypted file, or one that may become so, has to know before it is used.
#[derive(Debug, Default)]
pub(crate) struct Around {
    /// The key of the database that the running `VACUUM INTO` copies, or else of the main one.
    pub(crate) key: Option<Arc<Key>>,
    /// Whether that one has a key cannot be told, or what its key is: the code that says why.
    pub(crate) unclear: Option<Code>,
    /// The main database was opened by one of our VFSes. Temporary files are, too, then.
    pub(crate) is_ours: bool,
    /// The connection has a temporary database on disk that is not encrypted.
    pub(crate) has_plain_temp: bool,
    /// The running statement is an `ATTACH` with a key, which SQLite drops.
    pub(crate) is_attached_with_key: bool,
    /// The connection is in a transaction.
    pub(crate) in_transaction: bool,
}

/// The question for the key of an open file, and whether it is encrypted. Only the copy of this library that asks answers
/// it: others may have keys that are laid out in another way.
#[repr(C)]
pub(crate) struct KeyQuestion {
    asker: *const u8,
    is_encrypted: bool,
    key: Option<Arc<Key>>,
}

static HERE: u8 = 0;

impl KeyQuestion {
    fn new() -> KeyQuestion {
        KeyQuestion {
            asker: &raw const HERE,
            is_encrypted: false,
            key: None,
        }
    }

    /// The question at this address, if it is of this copy of the library.
    ///
    /// # Safety
    /// `at` is the argument of [`fcntl::LITEPACK_KEY`], for as long as what is returned is used.
    pub(crate) unsafe fn at<'a>(at: *mut c_void) -> Option<&'a mut KeyQuestion> {
        // SAFETY: any such question begins with who asks, and that is an address of this library only if its code has
        // made the question.
        let is_ours = || unsafe { at.cast::<*const u8>().read() == &raw const HERE };
        // SAFETY: as above.
        (!at.is_null() && is_ours()).then(|| unsafe { &mut *at.cast() })
    }

    /// An encrypted file may have no key to give.
    pub(crate) fn answer(&mut self, is_encrypted: bool, key: Option<Arc<Key>>) {
        (self.is_encrypted, self.key) = (is_encrypted, key);
    }
}

impl Around {
    /// The key, for a database that is there: it has a padding of its own.
    pub(crate) fn key_of_another(&self) -> litepack_cipher::Result<Option<Arc<Key>>> {
        let key = self.key.as_ref().map(|key| match key.padding() {
            Some(_) => key.with_any_padding().map(Arc::new),
            None => Ok(Arc::clone(key)),
        });
        key.transpose()
    }

    /// Looks around on this connection.
    ///
    /// # Safety
    /// `db` is an open connection of this library, its mutex is held, and no method of any of its files is running.
    pub(crate) unsafe fn of(api: Api, db: *mut sqlite3) -> Around {
        // SAFETY: as the caller says.
        unsafe {
            let said = said_by_running(api, db);
            let main = of_file(api, db, c"main");
            let is_known = !matches!(main, OfFile::None);
            let source = match &said {
                Said::VacuumInto(schema) => of_file(api, db, schema),
                Said::SomeVacuum => OfFile::Unclear(ERROR),
                _ => main,
            };
            let mut vfs: *mut sqlite3_vfs = ptr::null_mut();
            let to = (&raw mut vfs).cast();
            let has_vfs = api.file_control_on(db, c"main", fcntl::VFS_POINTER, to) == OK;
            Around {
                unclear: match source {
                    OfFile::Unclear(code) => Some(code),
                    _ => None,
                },
                key: match source {
                    OfFile::Key(key) => Some(key),
                    _ => None,
                },
                is_ours: is_known || (has_vfs && is_ours(vfs)) || api.keeps_temp_in_memory(),
                has_plain_temp: has_plain_temp(api, db),
                is_attached_with_key: matches!(said, Said::AttachWithKey),
                in_transaction: call!(api.table(), get_autocommit(db)) == 0,
            }
        }
    }
}

/// What is known of the file of a database.
#[derive(Debug)]
enum OfFile {
    /// It is none of ours, or there is none.
    None,
    Plain,
    Key(Arc<Key>),
    Unclear(Code),
}

/// Asks the file of a database.
///
/// # Safety
/// As [`Around::of`].
unsafe fn of_file(api: Api, db: *mut sqlite3, schema: &CStr) -> OfFile {
    let mut question = KeyQuestion::new();
    let argument = (&raw mut question).cast();
    // SAFETY: the connection is open; only our files answer this, and the question lives until they have.
    let code = unsafe { api.file_control_on(db, schema, fcntl::LITEPACK_KEY, argument) };
    match (code, question.key) {
        (OK, Some(key)) => OfFile::Key(key),
        (OK, None) if !question.is_encrypted => OfFile::Plain,
        (NOTFOUND | ERROR, _) => OfFile::None,
        (code, _) => OfFile::Unclear(code),
    }
}

/// Whether the temporary database has a file, and it is not encrypted.
///
/// # Safety
/// As [`Around::of`].
unsafe fn has_plain_temp(api: Api, db: *mut sqlite3) -> bool {
    let mut file: *mut sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open, and the argument is where the file goes, which is open if it has methods. It is
    // asked whether it is encrypted without an argument.
    unsafe {
        let to = (&raw mut file).cast();
        if api.file_control_on(db, c"temp", fcntl::FILE_POINTER, to) != OK {
            return false;
        }
        let is_open = file.as_ref().is_some_and(|file| !file.pMethods.is_null());
        let sealed = || api.file_control_on(db, c"temp", fcntl::LITEPACK_SEALED, ptr::null_mut());
        is_open && sealed() == NOTFOUND
    }
}

/// What a running statement says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    AttachWithKey,
    VacuumInto(CString),
    /// It copies into a temporary file, and back.
    Vacuum,
    /// What SQLite says itself in a `VACUUM`, whose own words were not understood.
    SomeVacuum,
}

/// # Safety
/// As [`Around::of`].
unsafe fn said_by_running(api: Api, db: *mut sqlite3) -> Said {
    let (mut statement, mut found) = (ptr::null_mut(), Said::Nothing);
    loop {
        // SAFETY: the connection is open and its mutex held, so its statements stay. The text of one is a string, or
        // null.
        unsafe {
            statement = call!(api.table(), next_stmt(db, statement));
            if statement.is_null() {
                return found;
            }
            if call!(api.table(), stmt_busy(statement)) == 0 {
                continue;
            }
            let text = call!(api.table(), sql(statement));
            if text.is_null() {
                continue;
            }
            match said(CStr::from_ptr(text).to_bytes()) {
                Said::Nothing => {}
                Said::SomeVacuum => found = Said::SomeVacuum,
                said => return said,
            }
        }
    }
}

/// A word or a name of a statement, or one other character.
#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a [u8]),
    Quoted(Vec<u8>),
    Other(u8),
}

impl Token<'_> {
    fn is(&self, word: &[u8]) -> bool {
        matches!(self, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }
}

/// What a statement says, by its text.
fn said(text: &[u8]) -> Said {
    let mut tokens = Vec::new();
    let mut rest = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    while let Some((token, behind)) = next_token(rest) {
        // SQLite keeps those before a statement with it.
        if tokens.is_empty() && token == Token::Other(b';') {
            rest = behind;
            continue;
        }
        // Most statements are others, and may be long.
        if tokens.is_empty() && !token.is(b"attach") && !token.is(b"vacuum") {
            return Said::Nothing;
        }
        tokens.push(token);
        rest = behind;
    }
    match tokens.as_slice() {
        [vacuum, into, ..] if vacuum.is(b"vacuum") && into.is(b"into") => {
            Said::VacuumInto(c"main".into())
        }
        [vacuum, schema, into, ..] if vacuum.is(b"vacuum") && into.is(b"into") => {
            let schema = match schema {
                Token::Word(word) => word.to_vec(),
                Token::Quoted(name) => name.clone(),
                Token::Other(_) => return Said::Nothing,
            };
            CString::new(schema).map_or(Said::Nothing, Said::VacuumInto)
        }
        [vacuum, rest @ ..] if vacuum.is(b"vacuum") => {
            match rest.iter().any(|token| token.is(b"into")) {
                true => Said::Nothing,
                false => Said::Vacuum,
            }
        }
        [attach, rest @ ..] if attach.is(b"attach") && has_key(rest) => Said::AttachWithKey,
        [attach, .., Token::Word(name)] if attach.is(b"attach") && name.starts_with(b"vacuum_") => {
            Said::SomeVacuum
        }
        _ => Said::Nothing,
    }
}

/// Whether an `ATTACH` has a key: `ATTACH [DATABASE] file AS name KEY key`. The word may be a name, too.
fn has_key(tokens: &[Token<'_>]) -> bool {
    let mut depth = 0usize;
    let mut names = None;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Other(b'(') => depth += 1,
            Token::Other(b')') => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            token if names.is_none() && token.is(b"as") => names = Some(at),
            token if token.is(b"key") => {
                let behind = tokens.get(at + 1);
                let is_clause = behind.is_some_and(|token| *token != Token::Other(b';'));
                if is_clause && names.is_some_and(|names| at > names + 1) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// The first token of a statement, without space and comments, and what is behind it.
fn next_token(mut text: &[u8]) -> Option<(Token<'_>, &[u8])> {
    let behind = |text: &'_ [u8], mark: &[u8]| {
        let found = text.windows(mark.len()).position(|part| part == mark);
        found.map_or(text.len(), |at| at + mark.len())
    };
    loop {
        let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
        let space = text.iter().take_while(|byte| is_space(byte)).count();
        text = &text[space..];
        if text.starts_with(b"--") {
            text = &text[behind(text, b"\n")..];
        } else if text.starts_with(b"/*") {
            text = &text[2 + behind(&text[2..], b"*/")..];
        } else {
            break;
        }
    }
    let first = *text.first()?;
    let is_of_word =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || *byte >= 0x80;
    if is_of_word(&first) {
        let len = text.iter().take_while(|byte| is_of_word(byte)).count();
        let (word, rest) = text.split_at(len);
        return Some((Token::Word(word), rest));
    }
    let end = match first {
        b'\'' | b'"' | b'`' => first,
        b'[' => b']',
        other => return Some((Token::Other(other), &text[1..])),
    };
    let (mut name, mut at) = (Vec::new(), 1);
    while let Some(byte) = text.get(at) {
        at += 1;
        if *byte == end {
            // Twice, it is a part of the name.
            if end == b']' || text.get(at) != Some(&end) {
                break;
            }
            at += 1;
        }
        name.push(*byte);
    }
    Some((Token::Quoted(name), &text[at..]))
}

impl Api {
    /// Whether SQLite was compiled to keep all temporary files in memory.
    fn keeps_temp_in_memory(&self) -> bool {
        self.compiled_with(c"TEMP_STORE=3")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_sqlite_drops_is_found() {
        for text in [
            "attach 'a.db' as b key 'c'",
            "ATTACH DATABASE 'it''s' AS \"x\" KEY ?1;",
            "/* as */ attach (select 'as') -- as\n as x key/**/x'00'",
            "attach ?1 as key key ?2",
            "attach 'a' as [key] KEY'b'",
            "attach key as x key y",
            "; ;\nattach 'a' as b key 'c'",
            "\u{feff}attach 'a' as b key 'c'",
        ] {
            assert_eq!(said(text.as_bytes()), Said::AttachWithKey, "{text}");
        }
        for text in [
            "attach 'a.db' as b",
            "attach 'a.db' as key",
            "attach 'a.db' as key;",
            "attach 'x as y key z' as b",
            "attach key as \"b key c\"",
            "attach (select key as x from key) as b",
            "attach 'a' as b -- key c",
            "attach 'a' as b /* key c",
            "select 1 as b, key from t",
            "attach 'unfinished",
            "attach",
            "",
            "--",
        ] {
            assert_eq!(said(text.as_bytes()), Said::Nothing, "{text}");
        }
    }

    #[test]
    fn the_database_that_is_copied_is_found() {
        let of = |text: &str| match said(text.as_bytes()) {
            Said::VacuumInto(schema) => schema.into_string().unwrap(),
            said => format!("{said:?}"),
        };
        assert_eq!(of("vacuum into 'x'"), "main");
        assert_eq!(of("VACUUM/**/aux INTO ?"), "aux");
        assert_eq!(of("vacuum \"a \"\"b\" into ?"), "a \"b");
        assert_eq!(of("vacuum [into] into ?"), "into");
        assert_eq!(of(";vacuum a$b into ?"), "a$b");
        assert_eq!(of("ATTACH '' AS vacuum_0123"), "SomeVacuum");
        assert_eq!(of("vacuum"), "Vacuum");
        assert_eq!(of("vacuum aux;"), "Vacuum");
        assert_eq!(of("vacuum \"into\""), "Vacuum");
        assert_eq!(of("vacuum a b into c"), "Nothing");
    }
}
