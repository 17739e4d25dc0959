//! How a database is named to SQLite: by a URI, whatever bytes are in its path.

use std::io;
use std::path::Path;

/// The URI by which any connection of this program opens a database with Litepack, once it is registered:
/// `file:/home/me/packed.db?vfs=litepack`. It may be followed by `&` and further parameters, such as `mode=ro`.
///
/// ```
/// # #[cfg(unix)]
/// assert_eq!(
///     litepack::uri("/tmp/50 %.db").unwrap(),
///     "file:/tmp/50%20%25.db?vfs=litepack"
/// );
/// ```
///
/// # Errors
/// If the path is empty, or relative and the working directory is not known.
pub fn uri(path: impl AsRef<Path>) -> io::Result<String> {
    let path = std::path::absolute(path)?;
    Ok(format!("{}?vfs=litepack", of_path(&path)))
}

/// The same for a database on a web server, which is only read. SQLite shows the last part of the URL as the name of
/// the file.
///
/// ```
/// assert_eq!(
///     litepack::remote_uri("https://data.example/logs.db.zst?v=2"),
///     "file:/logs.db.zst?vfs=litepack&mode=ro&url=https%3A%2F%2Fdata.example%2Flogs.db.zst%3Fv%3D2"
/// );
/// ```
pub fn remote_uri(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().filter(|name| !name.is_empty());
    let name = encoded(name.unwrap_or("remote").as_bytes(), "");
    let url = encoded(url.as_bytes(), "");
    format!("file:/{name}?vfs=litepack&mode=ro&url={url}")
}

/// An absolute path as SQLite's `file:` URI.
pub(crate) fn of_path(path: &Path) -> String {
    #[cfg(unix)]
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec();
    #[cfg(not(unix))]
    let bytes = {
        let text = path.to_string_lossy();
        let text = text.strip_prefix(r"\\?\").unwrap_or(&text);
        format!("/{}", text.replace('\\', "/")).into_bytes()
    };
    format!("file:{}", encoded(&bytes, "/"))
}

/// Percent-encoded, but for letters, digits and a few marks that mean nothing in a URI.
fn encoded(bytes: &[u8], also_plain: &str) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if plain || also_plain.as_bytes().contains(&byte) {
            text.push(byte.into());
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn paths_become_uris() {
        let uri = of_path(Path::new("/tmp/a b?c=1#d%20/ä.db"));
        assert_eq!(uri, "file:/tmp/a%20b%3Fc%3D1%23d%2520/%C3%A4.db");
        assert!(super::uri("").is_err());
    }

    #[test]
    fn a_url_without_a_name_has_one() {
        let uri = remote_uri("http://data.example/");
        assert!(
            uri.starts_with("file:/remote?vfs=litepack&mode=ro&url=http%3A"),
            "{uri}"
        );
    }
}
