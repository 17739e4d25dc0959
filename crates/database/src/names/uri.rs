//! How a database is named to SQLite: by a URI, whatever bytes are in its path.

use std::io;
use std::path::Path;

/// The URI by which any connection of this program opens a database with Litepack, once it is registered:
/// `file:///home/me/packed.db?vfs=litepack`. It may be followed by `&` and further parameters, such as `mode=ro`. Every
/// path is that of a file, `:memory:` too.
///
/// ```
/// # #[cfg(unix)]
/// assert_eq!(
///     litepack::uri("/tmp/50 %.db").unwrap(),
///     "file:///tmp/50%20%25.db?vfs=litepack"
/// );
/// ```
///
/// # Errors
/// If the path is empty or has a zero byte, or is relative and the working directory is not known.
pub fn uri(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    expect_no_zero(path.as_os_str().as_encoded_bytes())?;
    let path = std::path::absolute(path)?;
    Ok(format!("{}?vfs=litepack", of_path(&path)))
}

/// The same for a database on a web server, which is only read. SQLite shows the last part of the URL's path as the
/// name of the file.
///
/// ```
/// assert_eq!(
///     litepack::remote_uri("https://data.example/logs.db.zst?v=2").unwrap(),
///     "file:///logs.db.zst?vfs=litepack&mode=ro&url=https%3A%2F%2Fdata.example%2Flogs.db.zst%3Fv%3D2"
/// );
/// ```
///
/// # Errors
/// If the URL has a zero byte. Whether it is one at all shows when it is opened.
pub fn remote_uri(url: &str) -> io::Result<String> {
    expect_no_zero(url.as_bytes())?;
    let name = encoded(shown_name(url).as_bytes(), "");
    let url = encoded(url.as_bytes(), "");
    Ok(format!("file:///{name}?vfs=litepack&mode=ro&url={url}"))
}

/// The last part of the path of a URL. Never a part of what is before the path, which may have a password in it.
/// Whatever a lenient parser takes for a URL is read as it reads it: `\` for `/`, and any number of these.
fn shown_name(url: &str) -> &str {
    const SLASHES: [char; 2] = ['/', '\\'];
    let rest = url.split(['?', '#']).next().unwrap_or_default();
    let rest = rest.split_once(':').map_or(rest, |(_scheme, rest)| rest);
    let rest = rest.trim_start_matches(SLASHES);
    let path = rest.split_once(SLASHES).map_or("", |(_host, path)| path);
    let name = path.rsplit(SLASHES).next().unwrap_or_default();
    if name.is_empty() { "remote" } else { name }
}

/// SQLite ends a name at a zero byte, and so would open another one.
fn expect_no_zero(name: &[u8]) -> io::Result<()> {
    if name.contains(&0) {
        let why = "a zero byte cannot be in a name";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

/// An absolute path as SQLite's `file:` URI. It always begins with `//`, so that a path that itself begins so is not
/// taken for a host.
pub fn of_path(path: &Path) -> String {
    #[cfg(unix)]
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec();
    #[cfg(not(unix))]
    let bytes = {
        let text = path.to_string_lossy();
        let text = text.strip_prefix(r"\\?\").unwrap_or(&text);
        let root = if text.starts_with(r"\\") { "" } else { "/" };
        format!("{root}{}", text.replace('\\', "/")).into_bytes()
    };
    format!("file://{}", encoded(&bytes, "/"))
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
        for (path, wanted) in [
            (
                "/tmp/a b?c=1#d%20/ä.db",
                "file:///tmp/a%20b%3Fc%3D1%23d%2520/%C3%A4.db?vfs=litepack",
            ),
            ("//tmp/x", "file:////tmp/x?vfs=litepack"),
            ("//localhost/x", "file:////localhost/x?vfs=litepack"),
        ] {
            assert_eq!(uri(path).unwrap(), wanted);
        }
    }

    #[test]
    fn what_cannot_be_a_name_is_refused() {
        for name in ["", "a\0b"] {
            let error = uri(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        let error = remote_uri("http://data.example/a\0b").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_name_of_a_url_is_from_its_path() {
        for (url, wanted) in [
            ("http://data.example/x/logs.db?a=/b#/c", "logs.db"),
            ("http://data.example/", "remote"),
            ("https://user:secret@data.example", "remote"),
            ("https://user:secret@data.example?x", "remote"),
            ("https://user:secret@data.example/a@b", "a%40b"),
            (r"https:\\user:secret@data.example\logs.db", "logs.db"),
            ("https:user:secret@data.example", "remote"),
        ] {
            let uri = remote_uri(url).unwrap();
            let start = format!("file:///{wanted}?vfs=litepack&mode=ro&url=http");
            assert!(uri.starts_with(&start), "{uri}");
        }
    }
}
