//! Folders that a program copies to other machines. It would copy a packed database as soon as it is there, also to
//! machines whose programs cannot open it, and a half-written one as well; and it may put back what it has.

use std::ffi::OsStr;
use std::fs::read_dir;
use std::path::Path;

/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// By what a folder is known.
enum Marker {
    /// A file in it, with this name.
    File(&'static str),
    /// A directory in it.
    Directory(&'static str),
    /// A name in it that begins and ends so.
    Like(&'static str, &'static str),
    /// Its own name.
    Named(&'static str),
    /// The beginning of its own name.
    Begins(&'static str),
}

use Marker::{Begins, Directory, File, Like, Named};

const MARKERS: &[(&str, Marker)] = &[
    // A directory of that name is in every home directory that has Dropbox.
    ("Dropbox", File(".dropbox")),
    ("Dropbox", Directory(".dropbox.cache")),
    ("OneDrive", Named("OneDrive")),
    ("OneDrive", Begins("OneDrive - ")),
    ("OneDrive", File(".849C9593-D756-4E56-8D6E-42412F2A707B")),
    ("iCloud", Named("Mobile Documents")),
    ("iCloud", Named("com~apple~CloudDocs")),
    ("a cloud folder of macOS", Named("CloudStorage")),
    ("Syncthing", Directory(".stfolder")),
    ("Syncthing", File(".stfolder")),
    ("Nextcloud", Like(".sync_", ".db")),
    ("Nextcloud", Like("._sync_", ".db")),
    ("Nextcloud", File(".nextcloudsync.log")),
    ("ownCloud", File(".owncloudsync.log")),
    ("Google Drive", Directory(".tmp.drivedownload")),
    ("Resilio Sync", File(".sync/ID")),
];

/// The program that keeps a copy of the file on other machines, and the folder that it does that for.
pub(crate) fn by(file: &Path) -> Option<(&'static str, &Path)> {
    let folders = file
        .ancestors()
        .skip(1)
        .filter(|folder| *folder != Path::new(""));
    folders
        .filter_map(|folder| Some((marked(folder)?, folder)))
        .next()
}

fn marked(folder: &Path) -> Option<&'static str> {
    let name = folder.file_name().unwrap_or_default();
    let by_one = MARKERS.iter().find(|(_, marker)| match marker {
        File(name) => folder.join(name).is_file(),
        Directory(name) => folder.join(name).is_dir(),
        Named(known) => name == *known,
        Begins(known) => begins(name, known),
        Like(..) => false,
    });
    let by_name = || {
        let entries = read_dir(folder).ok()?.flatten().take(ENTRIES_MAX);
        let names = entries.map(|entry| entry.file_name());
        let mut known = names.filter_map(|name| {
            MARKERS.iter().find(|(_, marker)| match marker {
                Like(begin, end) => {
                    begins(&name, begin) && name.as_encoded_bytes().ends_with(end.as_bytes())
                }
                _ => false,
            })
        });
        known.next()
    };
    by_one.or_else(by_name).map(|(program, _)| *program)
}

fn begins(name: &OsStr, with: &str) -> bool {
    name.as_encoded_bytes().starts_with(with.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_their_markers_in_whichever_directory_above() {
        for (program, marker) in MARKERS {
            let place = tempfile::tempdir().unwrap();
            let folder = match marker {
                Named(name) => place.path().join(name),
                Begins(name) => place.path().join(format!("{name}Company")),
                _ => place.path().join("folder"),
            };
            let file = folder.join("a/b/x.db");
            std::fs::create_dir_all(folder.join("a/b")).unwrap();
            let write = |name: &str| {
                let path = folder.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "").unwrap();
            };
            match marker {
                Named(_) | Begins(_) => {}
                _ if by(&file).is_some() => panic!("this test is in a synchronised folder"),
                File(name) => write(name),
                Directory(name) => std::fs::create_dir(folder.join(name)).unwrap(),
                Like(begin, end) => write(&format!("{begin}0123{end}")),
            }
            assert_eq!(by(&file), Some((*program, &*folder)));
        }
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".dropbox")).unwrap();
        assert_eq!(by(&home.path().join("x.db")), None);
    }
}
