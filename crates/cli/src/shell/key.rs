//! The key of an encrypted database on its way to the shell: through a pipe that the shell inherits, as a statement to
//! read. So it is in no argument, no variable of the environment and no file. The shell itself knows no better than to
//! keep it in memory that is not wiped.

use anyhow::{Context, Result, ensure};
use zeroize::Zeroizing;

/// A pipe holds so much before anyone reads: a quarter of a page is left.
const LEN_MAX: usize = 3 << 10;

/// The statement that gives a key, so that nothing is printed.
fn statement(key: &[u8]) -> Result<Zeroizing<Vec<u8>>> {
    let is_text = std::str::from_utf8(key).is_ok() && !key.contains(&0);
    ensure!(
        is_text,
        "the shell takes keys that are text; this one is not UTF-8"
    );
    // The shell reads an end of a line in a way of its own.
    ensure!(
        !key.contains(&b'\r'),
        "the shell takes no keys with a carriage return in them"
    );
    let quotes = key.iter().filter(|byte| **byte == b'\'').count();
    let (begin, end) = (
        b".once /dev/null\nPRAGMA key = '".as_slice(),
        b"';\n".as_slice(),
    );
    let len = begin.len() + key.len() + quotes + end.len();
    ensure!(len <= LEN_MAX, "the shell takes keys of up to 3000 bytes");
    let mut sql = Zeroizing::new(Vec::with_capacity(len));
    sql.extend_from_slice(begin);
    for byte in key {
        sql.push(*byte);
        if *byte == b'\'' {
            sql.push(b'\'');
        }
    }
    sql.extend_from_slice(end);
    Ok(sql)
}

/// The name of a file that the shell can read once, to have the key. It is there until this process ends, or becomes
/// another program that ends.
///
/// # Errors
/// If the key is none for the shell, or there can be no pipe.
#[cfg(unix)]
pub fn readable(key: &[u8]) -> Result<String> {
    use std::os::fd::IntoRawFd as _;
    let sql = statement(key)?;
    // Not closed when this process becomes the shell.
    let (output, input) = rustix::pipe::pipe().context("cannot make a pipe")?;
    let written = rustix::io::write(&input, &sql).context("cannot write to a pipe")?;
    ensure!(written == sql.len(), "a pipe is full");
    Ok(format!("/dev/fd/{}", output.into_raw_fd()))
}

#[cfg(not(unix))]
pub fn readable(key: &[u8]) -> Result<String> {
    let _ = statement(key)?;
    anyhow::bail!("on this system the shell cannot be given a key: give PRAGMA key in it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_no_more_than_a_text_in_a_statement() {
        let text = |key: &[u8]| statement(key).map(|sql| String::from_utf8(sql.to_vec()).unwrap());
        let expected = ".once /dev/null\nPRAGMA key = 'it''s; .quit\n';\n";
        assert_eq!(text(b"it's; .quit\n").unwrap(), expected);
        assert!(text(b"a\0b").is_err() && text(&[0xff]).is_err());
        assert!(text(&[b'\''; 2000]).is_err() && text(&[b'k'; 3000]).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn it_is_read_once() {
        let name = readable(b"secret").unwrap();
        assert!(std::fs::read_to_string(&name).unwrap().contains("'secret'"));
    }
}
