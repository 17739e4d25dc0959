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
