//! Manual pages and completions for packages.

mod common;

use common::Place;

#[test]
fn manual_pages_and_completions_name_the_commands() {
    let place = Place::new();
    place.ok(&["generate", "made"]);
    let read = |file: &str| std::fs::read_to_string(place.path("made").join(file)).unwrap();
    assert!(read("man/litepack.1").contains("litepack\\-pack(1)"));
    assert!(read("man/litepack-shell.1").contains("\\-\\-readonly"));
    assert!(read("man/litepack-columns-enable.1").contains("\\-\\-chooser"));
    assert!(!place.path("made/man/litepack-generate.1").exists());
    // Each says how it is typed, and how it ends.
    let mut pages = 0;
    for page in std::fs::read_dir(place.path("made/man")).unwrap() {
        let page = page.unwrap().path();
        let text = std::fs::read_to_string(&page).unwrap();
        for section in [
            "\n.SH \"EXIT STATUS\"\n",
            "\n.SH EXAMPLES\n",
            "\n.SH VERSION\n",
        ] {
            assert_eq!(
                text.matches(section).count(),
                1,
                "{section}: {page:?}: {text}"
            );
        }
        let (_, examples) = text.split_once(".SH EXAMPLES").unwrap();
        assert!(examples.contains("\nlitepack "), "{examples}");
        pages += 1;
    }
    assert!(pages > 20, "{pages}");
    assert!(read("man/litepack-check.1").contains("damage was found"));
    for (page, synopsis) in [
        ("check", "check\\fR [OPTIONS] <FILE>..."),
        (
            "catalog",
            "catalog\\fR [OPTIONS] \\-\\-output <FILE> <PATH or URL>...",
        ),
        ("ingest", "ingest\\fR [OPTIONS] <SOURCES>..."),
    ] {
        let text = read(&format!("man/litepack-{page}.1"));
        assert!(text.contains(synopsis), "{text}");
    }
    for file in [
        "bash/litepack.bash",
        "zsh/_litepack",
        "fish/litepack.fish",
        "powershell/_litepack.ps1",
    ] {
        let text = read(file);
        assert!(
            text.contains("in-place") && text.contains("shell"),
            "{file}"
        );
    }
    let help = place.ok(&["--help"]).stdout;
    assert!(
        help.contains("shell") && !help.contains("generate"),
        "{help}"
    );
}

/// The completions are those that packages have, for all shells that there are.
#[test]
fn completions_are_printed() {
    let place = Place::new();
    place.ok(&["generate", "made"]);
    for (shell, file) in [
        ("bash", "bash/litepack.bash"),
        ("zsh", "zsh/_litepack"),
        ("fish", "fish/litepack.fish"),
        ("powershell", "powershell/_litepack.ps1"),
    ] {
        let run = place.ok(&["completions", shell]);
        let packaged = std::fs::read_to_string(place.path("made").join(file)).unwrap();
        assert_eq!(run.stdout, packaged, "{shell}");
    }
    assert!(
        place
            .ok(&["completions", "elvish"])
            .stdout
            .contains("in-place")
    );
    place.refused(&["completions", "tcsh"], "bash");
    assert!(place.ok(&["--help"]).stdout.contains("completions"));
}

#[test]
fn the_version_says_what_it_is_made_of() {
    let place = Place::new();
    let version = env!("CARGO_PKG_VERSION");
    let short = place.ok(&["-V"]).stdout;
    assert_eq!(short, format!("litepack {version}\n"));
    let long = place.ok(&["--version"]).stdout;
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!(lines[0], format!("litepack {version}"));
    let words: Vec<(&str, &str)> = lines[1..]
        .iter()
        .map(|line| line.split_once(' ').unwrap())
        .collect();
    let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["commit", "SQLite", "zstd", "format"]);
    let commit = words[0].1;
    assert!(
        commit == "unknown" || commit.len() >= 7 && commit.chars().all(|c| c.is_ascii_hexdigit()),
        "{commit}"
    );
    assert_eq!(words[1].1, rusqlite::version());
    assert!(words[2].1.split('.').count() == 3, "{long}");
    assert_eq!(words[3].1, "1");
}
