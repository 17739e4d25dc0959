//! Whose a database is, and whether that program can open packed files: one table, which docs/adopt.md shows.
//!
//! A program is known by the number that it writes into the header, by its tables, or by the name and the folder of its
//! file. "Yes" is said only of programs that use the system's SQLite as distributions build them; what counts is the
//! program that is there, into which `litepack run` looks before it starts it.

use std::path::Path;

use serde::Serialize;

/// Whether a program can open packed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Opens {
    /// It does, if it is started as said.
    Yes,
    /// That depends on how it was installed.
    Perhaps,
    /// It has a SQLite of its own, or is not worth it.
    No,
}

/// A program that keeps SQLite databases.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its name.
    pub name: &'static str,
    /// Names of its files; a `*` stands for any characters.
    files: &'static [&'static str],
    /// Folders of which one is above the file, by their names or by several of them in one another; none if the name of
    /// the file says enough. A `*` is as above.
    within: &'static [&'static str],
    /// Tables that, all of them, only its databases have.
    tables: &'static [&'static str],
    /// The number in the header, or 0.
    application_id: u32,
    /// Whether it opens packed files.
    pub opens: Opens,
    /// How, or what to do instead.
    pub how: &'static str,
}

use Opens::{No, Perhaps, Yes};

const RUN: &str = "start it by `litepack run`";
const DISTRIBUTION: &str = "as distributions build it, by `litepack run`; what its makers offer brings a SQLite of its own";
const OWN: &str = "it has a SQLite of its own: leave its databases plain";
const SYSTEM: &str = "the system makes it anew by itself: leave it plain";

const fn program(name: &'static str, opens: Opens, how: &'static str) -> Program {
    Program {
        name,
        files: &[],
        within: &[],
        tables: &[],
        application_id: 0,
        opens,
        how,
    }
}

const PROGRAMS: &[Program] = &[
    // Browsers, mail, editors.
    Program {
        files: &["*.sqlite"],
        within: &[".mozilla", "firefox", "Firefox", ".librewolf", "librewolf"],
        tables: &["moz_places"],
        ..program("Firefox", No, OWN)
    },
    Program {
        files: &["*.sqlite"],
        within: &[".thunderbird", "thunderbird", "Thunderbird"],
        tables: &["conversations", "folderLocations", "messageAttributes"],
        ..program("Thunderbird", No, OWN)
    },
    Program {
        tables: &["urls", "visits", "keyword_search_terms"],
        files: &[
            "History",
            "Cookies",
            "Web Data",
            "Login Data",
            "Favicons",
            "Top Sites",
            "Shortcuts",
        ],
        within: &[
            "chromium",
            "Chromium",
            "google-chrome*",
            "Google/Chrome*",
            "BraveSoftware",
            "microsoft-edge*",
            "vivaldi*",
            ".config/opera*",
            "com.operasoftware.*",
        ],
        ..program("Chromium, Chrome, Edge and their kin", No, OWN)
    },
    Program {
        files: &["state.vscdb", "*.vscdb"],
        ..program("VS Code and its kin", No, OWN)
    },
    Program {
        files: &["db.sqlite"],
        within: &["Signal"],
        tables: &["conversations", "messages", "sessions", "signedPreKeys"],
        ..program("Signal", No, OWN)
    },
    Program {
        files: &["zotero.sqlite"],
        tables: &["itemData", "itemDataValues", "libraries"],
        ..program("Zotero", No, OWN)
    },
    Program {
        files: &["collection.anki2", "collection.anki21"],
        tables: &["notes", "cards", "revlog", "graves"],
        ..program("Anki", No, OWN)
    },
    // Media, at home and on servers.
    Program {
        tables: &["recorder_runs", "states", "events"],
        files: &["home-assistant_v2.db"],
        ..program(
            "Home Assistant",
            Perhaps,
            "in a Python environment of yours, by `litepack run`; not in its container, which has another C library",
        )
    },
    Program {
        tables: &["books", "books_authors_link", "custom_columns"],
        ..program("Calibre", Perhaps, DISTRIBUTION)
    },
    Program {
        files: &[
            "digikam4.db",
            "thumbnails-digikam.db",
            "similarity.db",
            "recognition.db",
        ],
        within: &["digikam", ".digikam", "Pictures"],
        tables: &["AlbumRoots", "Albums", "ImageInformation"],
        ..program("digiKam", Perhaps, DISTRIBUTION)
    },
    Program {
        files: &[
            "MyVideos*.db",
            "MyMusic*.db",
            "Textures*.db",
            "Addons*.db",
            "Epg*.db",
            "TV*.db",
        ],
        within: &[".kodi", "tv.kodi.Kodi"],
        tables: &["movie", "tvshow", "episode", "actor_link"],
        ..program("Kodi", Perhaps, DISTRIBUTION)
    },
    Program {
        files: &["sonarr.db"],
        tables: &["Series", "Episodes", "EpisodeFiles"],
        ..program("Sonarr", No, OWN)
    },
    Program {
        files: &["radarr.db", "lidarr.db", "prowlarr.db", "readarr.db"],
        ..program("Radarr, Lidarr, Prowlarr, Readarr", No, OWN)
    },
    Program {
        files: &["jellyfin.db", "library.db"],
        within: &["jellyfin"],
        ..program("Jellyfin", No, OWN)
    },
    Program {
        files: &["com.plexapp.plugins.library*.db"],
        tables: &["metadata_items", "media_parts", "library_sections"],
        ..program("Plex", No, OWN)
    },
    Program {
        tables: &["images", "film_rolls", "history_hash"],
        ..program("darktable", Perhaps, DISTRIBUTION)
    },
    Program {
        tables: &["PhotoTable", "EventTable", "TagTable"],
        ..program("Shotwell", Yes, RUN)
    },
    Program {
        files: &["gravity.db", "pihole-FTL.db"],
        within: &["pihole", "etc-pihole"],
        tables: &["query_storage", "domain_by_id"],
        ..program("Pi-hole", No, OWN)
    },
    Program {
        files: &["grafana.db"],
        ..program("Grafana", No, OWN)
    },
    Program {
        files: &["gitea.db", "forgejo.db"],
        ..program("Gitea, Forgejo", No, OWN)
    },
    Program {
        tables: &["ciphers", "organizations", "twofactor"],
        ..program("Vaultwarden", No, OWN)
    },
    Program {
        files: &["kuma.db"],
        ..program("Uptime Kuma", No, OWN)
    },
    // Development.
    Program {
        files: &["wc.db"],
        within: &[".svn"],
        tables: &["NODES", "WCROOT", "REPOSITORY"],
        ..program("Subversion", Yes, RUN)
    },
    Program {
        application_id: 0x0f05_5111,
        tables: &["vfile", "vmerge", "vvar"],
        ..program("Fossil, a checkout", Perhaps, DISTRIBUTION)
    },
    Program {
        application_id: 0x0f05_5112,
        tables: &["blob", "delta", "rcvfrom"],
        ..program("Fossil, a repository", Perhaps, DISTRIBUTION)
    },
    Program {
        tables: &["conversations", "responses", "_llm_migrations"],
        ..program("llm, its log", Yes, RUN)
    },
    Program {
        files: &["history.sqlite"],
        within: &[".ipython", ".config/ipython"],
        tables: &["history", "output_history", "sessions"],
        ..program("IPython", Yes, RUN)
    },
    Program {
        tables: &["django_migrations", "django_content_type"],
        ..program("a program made with Django", Yes, RUN)
    },
    Program {
        files: &["history.db"],
        within: &["share/atuin"],
        ..program("Atuin", No, OWN)
    },
    Program {
        files: &[".global-cache"],
        within: &[".cargo"],
        ..program("Cargo", No, OWN)
    },
    // The system.
    Program {
        files: &["commands.db"],
        within: &["lib/command-not-found"],
        ..program("command-not-found", No, SYSTEM)
    },
    Program {
        files: &["rpmdb.sqlite", "history.sqlite"],
        within: &["lib/rpm", "sysimage/rpm", "lib/dnf"],
        ..program(
            "rpm, dnf",
            No,
            "the system is installed with it: leave it plain",
        )
    },
    Program {
        files: &["*.db"],
        within: &[".cache/tracker3", ".cache/tracker"],
        ..program("GNOME's search", No, SYSTEM)
    },
    // Data that several programs read.
    Program {
        application_id: 0x4750_4b47,
        tables: &["gpkg_contents", "gpkg_spatial_ref_sys"],
        ..program(
            "a GeoPackage",
            Perhaps,
            "QGIS and GDAL of a distribution do, by `litepack run`; who gets the file needs it plain",
        )
    },
    Program {
        files: &["*.mbtiles"],
        application_id: 0x4d50_4258,
        ..program(
            "MBTiles",
            Perhaps,
            "programs of a distribution may, by `litepack run`; its images are compressed already",
        )
    },
];

/// The program of a database: by the number in its header, by its tables, by its name and folders.
pub(crate) fn of(path: &Path, application_id: u32, tables: &[&str]) -> Option<&'static Program> {
    let by = |is: &dyn Fn(&Program) -> bool| PROGRAMS.iter().find(|program| is(program));
    by(&|program| application_id != 0 && program.application_id == application_id)
        .or_else(|| {
            by(&|program| {
                let mut wanted = program.tables.iter();
                !program.tables.is_empty() && wanted.all(|table| tables.contains(table))
            })
        })
        .or_else(|| by(&|program| is_named(program, path)))
}

/// The program of this name.
pub(crate) fn named(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

fn is_named(program: &Program, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folders = path.parent().into_iter().flat_map(Path::ancestors);
    let is_within = |pattern: &str| folders.clone().any(|folder| ends(folder, pattern));
    program.files.iter().any(|pattern| fits(&name, pattern))
        && (program.within.is_empty() || program.within.iter().any(|pattern| is_within(pattern)))
}

/// Whether the last folders of a path are these.
fn ends(path: &Path, pattern: &str) -> bool {
    let mut folders = path.components().rev();
    pattern.rsplit('/').all(|part| {
        let folder = folders.next();
        folder.is_some_and(|folder| fits(&folder.as_os_str().to_string_lossy(), part))
    })
}

fn fits(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => name == pattern,
        Some((begin, end)) => (name.strip_prefix(begin)).is_some_and(|rest| rest.ends_with(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_number_then_tables_then_name_and_folder() {
        let of = |path: &str, id, tables: &[&str]| {
            of(Path::new(path), id, tables).map(|found| found.name)
        };
        let history = ["urls", "visits", "keyword_search_terms", "meta"];
        assert_eq!(of("/x", 0x4750_4b47, &history), Some("a GeoPackage"));
        assert_eq!(
            of("/home/me/copy.db", 0, &history),
            Some("Chromium, Chrome, Edge and their kin")
        );
        assert_eq!(
            of(
                "/home/me/.mozilla/firefox/a.default/cookies.sqlite",
                0,
                &["moz_cookies"]
            ),
            Some("Firefox")
        );
        assert_eq!(of("/home/me/cookies.sqlite", 0, &["moz_cookies"]), None);
        assert_eq!(
            of("/home/me/.kodi/userdata/Database/MyVideos131.db", 0, &[]),
            Some("Kodi")
        );
        assert_eq!(of("/home/me/History", 0, &["t"]), None);
        assert_eq!(
            of("/x/home-assistant_v2.db", 0, &[]),
            Some("Home Assistant")
        );
        assert_eq!(of("/x/home-assistant_v2.db.old", 0, &[]), None);
        assert_eq!(
            of("/home/me/.cache/tracker3/files/meta.db", 0, &[]),
            Some("GNOME's search")
        );
        // A part of a folder's name is not enough, nor is a folder of that name elsewhere.
        for path in [
            "/srv/tracker/app.db",
            "/home/me/bug-tracker/app.db",
            "/home/me/.cache/my-tracker3/app.db",
            "/srv/charts/rpm/history.sqlite",
            "/home/me/operations/History",
            "/home/me/Signals/db.sqlite",
        ] {
            assert_eq!(of(path, 0, &[]), None, "{path}");
        }
    }

    #[test]
    fn each_is_found_by_something_and_has_its_own_name() {
        for program in PROGRAMS {
            assert_eq!(named(program.name), Some(program));
            let by_id = of(Path::new("/x"), program.application_id, &[]);
            let by_tables = of(Path::new("/x"), 0, program.tables);
            let folder = program.within.first().copied().unwrap_or("folder");
            let folder = folder.replace('*', "");
            let mut files = program.files.iter().map(|file| {
                let file = file.replace('*', "1");
                of(Path::new(&format!("/x/{folder}/y/{file}")), 0, &[])
            });
            let has_id = program.application_id != 0;
            assert!(!has_id || by_id == Some(program), "{}", program.name);
            let has_tables = !program.tables.is_empty();
            assert!(
                !has_tables || by_tables == Some(program),
                "{}",
                program.name
            );
            assert!(
                files.all(|found| found == Some(program)),
                "{}",
                program.name
            );
            assert!(has_id || has_tables || !program.files.is_empty());
        }
    }

    /// The table in docs/adopt.md; with LITEPACK_WRITE_DOCS it is written.
    #[test]
    fn the_documentation_has_this_table() {
        const BEGIN: &str = "<!-- made from crates/adopt/src/programs.rs: begin -->\n";
        const END: &str = "<!-- end of programs.rs -->";
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/adopt.md");
        let text = std::fs::read_to_string(&page).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (found, after) = rest.split_once(END).unwrap();
        let mut table = "| whose | opens packed files | how |\n|---|---|---|\n".to_owned();
        for program in PROGRAMS {
            let opens = match program.opens {
                Yes => "yes",
                Perhaps => "perhaps",
                No => "no",
            };
            table += &format!("| {} | {opens} | {} |\n", program.name, program.how);
        }
        if std::env::var_os("LITEPACK_WRITE_DOCS").is_some() {
            std::fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        } else {
            assert_eq!(found, table, "LITEPACK_WRITE_DOCS=1 writes it");
        }
    }
}
