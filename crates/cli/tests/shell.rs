//! `litepack shell`, with the `sqlite3` shell of this machine.
#![cfg(unix)]

mod common;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{Place, Run};
use litepack_webserver::Server;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

const COUNT: &str = "select count(*) from t";

/// The extension beside the command, as its source is now: one that is there may be of yesterday. Where `LITEPACK_BIN`
/// says so, the caller has built both together. To build it alone takes minutes: what it depends on has other features.
fn extension() -> &'static Path {
    static EXTENSION: OnceLock<PathBuf> = OnceLock::new();
    EXTENSION.get_or_init(|| {
        let command = Path::new(env!("CARGO_BIN_EXE_litepack"));
        let extension = command.with_file_name("liblitepack.so");
        if std::env::var_os("LITEPACK_BIN").is_some() {
            return extension;
        }
        let profile = command.parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "litepack-extension"]);
        cargo.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
        extension
    })
}

/// Runs the command with this input.
fn shell<A: AsRef<OsStr>>(place: &Place, arguments: &[A], input: &str) -> Run {
    extension();
    let mut command = place.command(&["shell"]);
    command.args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // A shell that does not read its input has closed it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    Run::of(child.wait_with_output().unwrap())
}

/// The output, if all is well.
fn answer<A: AsRef<OsStr>>(place: &Place, arguments: &[A]) -> String {
    let run = shell(place, arguments, "");
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    run.stdout.trim_end().to_owned()
}

/// `a.db`, plain, `a.packed` and `a.zst`, with 3000 rows.
fn databases() -> Place {
    let place = Place::new();
    place.database("a.db", 4096, 3000);
    place.ok(&["pack", "a.db", "a.packed"]);
    place.ok(&["archive", "create", "a.db", "a.zst"]);
    place
}

fn is_packed(place: &Place, name: &str) -> bool {
    fs::read(place.path(name)).unwrap().starts_with(b"Litepack")
}

#[test]
fn every_kind_of_database_answers() {
    let place = databases();
    for name in ["a.db", "a.packed", "a.zst"] {
        assert_eq!(answer(&place, &[name, COUNT]), "3000", "{name}");
        let run = shell(&place, &[name], &format!("{COUNT};\n.tables\n"));
        let lines: Vec<_> = run.stdout.split_whitespace().collect();
        assert_eq!((run.code, lines), (0, vec!["3000", "t"]), "{name}");
    }
    let both = answer(&place, &["a.packed", "select 1;", ".print two", "select 3"]);
    assert_eq!(both, "1\ntwo\n3");
    answer(&place, &["a.packed", "delete from t where id > 10"]);
    assert_eq!(answer(&place, &["a.packed", COUNT]), "10");
    // By its name, too.
    let later = answer(&place, &["a.db", ".open a.packed", COUNT]);
    assert_eq!(later, "10");
}

#[test]
fn a_database_on_a_server_answers_and_headers_stay_secret() {
    let place = databases();
    let packed = fs::read(place.path("a.packed")).unwrap();
    let server = Server::of(packed);
    fs::write(place.path("head'ers"), "Authorization: Bearer s3cret\n").unwrap();
    let url = server.url("/x/a.packed?v=2");
    let given = ["--headers-file", "head'ers", &url, COUNT];
    assert_eq!(answer(&place, &given), "3000");
    let requests = server.requests();
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(request.header("authorization"), Some("Bearer s3cret"));
    }
    place.refused(&["shell", "--create", &url], "cannot be created");
    place.refused(
        &["shell", "--headers-file", "none", &url],
        "cannot read none",
    );
    place.refused(&["shell", "--headers-file", "none", "a.db"], "for URLs");
    let missing = Server::start(|_| litepack_webserver::Reply::status("404 Not Found"));
    place.refused(&["shell", &missing.url("/x"), COUNT], "status 404");
}

#[test]
fn exit_codes_and_options_are_those_of_the_shell() {
    let place = databases();
    let of = |arguments: &[&str]| {
        let run = shell(&place, arguments, "");
        (run.code, run.stdout)
    };
    let stock = |arguments: &[&str]| {
        let mut command = Command::new("sqlite3");
        command.args(["-init", "/dev/null"]).args(arguments);
        let output = command.output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let plain = place.path("a.db");
    let plain = plain.to_str().unwrap();
    for sql in [
        "select * from nothing",
        "select id from t where id < 4",
        ".exit 7",
    ] {
        for options in [&[][..], &["-json"], &["-separator", "x", "-header"]] {
            let with = [&["a.packed", sql, "--"], options].concat();
            assert_eq!(
                of(&with),
                stock(&[options, &[plain, sql]].concat()),
                "{with:?}"
            );
        }
    }
    let script = "select x;\nselect 'after';\n.exit 3\n";
    let run = shell(&place, &["a.packed"], script);
    assert_eq!((run.code, run.stdout.as_str()), (3, "after\n"));
    let run = shell(&place, &["a.packed", "--", "-bail"], script);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    let run = shell(
        &place,
        &["a.packed", "--", "-safe"],
        &format!(".shell true\n{COUNT};"),
    );
    assert!(run.code != 0 && run.stderr.contains("safe mode"), "{run:?}");
}

#[test]
fn nothing_is_created_by_surprise() {
    let place = databases();
    fs::create_dir(place.path("directory")).unwrap();
    place.refused(&["shell", "missing", "select 1"], "use --create");
    place.refused(&["shell", ":memory:", "select 1"], "does not exist");
    place.refused(&["shell", "directory", "select 1"], "is a directory");
    place.refused(
        &["shell", "--create", "--readonly", "x"],
        "cannot be used with",
    );
    answer(&place, &["--create", "new", "create table t as select 1"]);
    assert!(is_packed(&place, "new"));
    for (name, options) in [("empty", &[][..]), ("empty too", &["--create"])] {
        fs::write(place.path(name), "").unwrap();
        answer(&place, &[options, &[name, "create table t(x)"]].concat());
        assert!(is_packed(&place, name));
    }
    // An existing file is opened as it is.
    assert_eq!(answer(&place, &["--create", "a.db", COUNT]), "3000");
    assert!(!is_packed(&place, "a.db"));
}

#[test]
fn a_database_that_cannot_be_opened_is_not_one_in_memory() {
    let place = databases();
    fs::write(place.path("text"), "hello, world\n".repeat(500)).unwrap();
    let mut damaged = fs::read(place.path("a.packed")).unwrap();
    damaged[..8192].fill(b'x');
    damaged[..8].copy_from_slice(b"Litepack");
    fs::write(place.path("damaged"), &damaged).unwrap();
    let script = "create table u(x);\n.print created\n";
    for name in ["text", "damaged", "--create nowhere/x"] {
        let arguments: Vec<&str> = name.split(' ').collect();
        let run = shell(&place, &arguments, script);
        assert!(run.code != 0 && run.stdout.is_empty(), "{name}: {run:?}");
        assert!(!run.stderr.is_empty());
        let run = shell(&place, &[&arguments[..], &[".print created"]].concat(), "");
        assert!(run.code != 0 && run.stdout.is_empty(), "{name}: {run:?}");
    }
    litepack::register().unwrap();
    let uri = litepack::uri(place.path("a.packed")).unwrap();
    let db = rusqlite::Connection::open(uri).unwrap();
    db.execute_batch("begin exclusive").unwrap();
    let run = shell(&place, &["a.packed", ".print opened"], "");
    assert!(run.code != 0 && run.stderr.contains("locked"), "{run:?}");
}

#[test]
fn reading_only() {
    let place = databases();
    let change = "delete from t";
    for arguments in [
        &["--readonly", "a.packed", change][..],
        &["a.packed", change, "--", "-readonly"],
        &["a.packed", change, "--", "--readonly"],
        &["--readonly", "a.db", change],
        &["a.zst", change],
    ] {
        let run = shell(&place, arguments, "");
        assert_eq!(run.code, 8, "{arguments:?}: {run:?}");
    }
    // The superuser may write everything.
    fs::set_permissions(place.path("a.packed"), fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new()
        .append(true)
        .open(place.path("a.packed"))
        .is_err()
    {
        assert_eq!(shell(&place, &["a.packed", change], "").code, 8);
    }
    assert_eq!(answer(&place, &["a.packed", COUNT]), "3000");
}

/// Names that a shell or SQL would take for something else.
fn hostile_names() -> Vec<OsString> {
    let mut names: Vec<OsString> = [
        "a\"b",
        "a'b",
        "a''b\"\"c",
        "a?mode=memory",
        "a#b",
        "a%20b",
        "a;b",
        " a ",
        "a\\",
        "a\\\"b",
        "a\\n",
        "|b",
        "a\n.shell touch owned\n",
        "\".shell touch owned",
        "a\" && touch owned",
        "$(touch owned)",
        "`touch owned`",
        "a'); select 'owned",
        "&vfs=unix",
        "ä€😀",
        "a\tb",
        "a\u{7f}\u{1}b",
        ".shell touch owned",
        "-- owned",
        "a.zip",
        "file:a?vfs=unix",
        ":memory:",
    ]
    .map(OsString::from)
    .to_vec();
    names.push(OsString::from_vec(b"not\xff\xfeunicode".to_vec()));
    names
}

#[test]
fn hostile_names_are_names() {
    let place = databases();
    for name in hostile_names() {
        fs::copy(place.path("a.packed"), place.path("").join(&name)).unwrap();
        let before = place_names(&place);
        let path = Path::new(".").join(&name).into_os_string();
        let given = [&path, OsStr::new("delete from t where id > 1")];
        assert_eq!(answer(&place, &given), "", "{name:?}");
        assert_eq!(answer(&place, &[&path, OsStr::new(COUNT)]), "1", "{name:?}");
        assert_eq!(place_names(&place), before, "{name:?}");
        fs::remove_file(place.path("").join(&name)).unwrap();
    }
    // Two slashes at the beginning are those of a host in a URI.
    let twice = format!("/{}", place.path("a.packed").display());
    assert_eq!(answer(&place, &[&twice, COUNT]), "3000");
}

#[test]
fn hostile_names_of_the_extension_and_startup_files() {
    let place = databases();
    for name in hostile_names() {
        let directory = place.path("").join(&name);
        fs::create_dir(&directory).unwrap();
        symlink(extension(), directory.join("x")).unwrap();
        fs::write(directory.join("rc"), "select 'read';").unwrap();
        let before = place_names(&place);
        let path = |file: &str| directory.join(file).into_os_string();
        let given = [
            "--extension".into(),
            path("x"),
            "a.packed".into(),
            COUNT.into(),
        ];
        let rc = ["--".into(), "-init".into(), path("rc")];
        assert_eq!(
            answer(&place, &[&given[..], &rc].concat()),
            "read\n3000",
            "{name:?}"
        );
        assert_eq!(place_names(&place), before, "{name:?}");
        fs::remove_dir_all(&directory).unwrap();
    }
}

/// Names without a directory, which could be the beginning of something else: `.read '|touch owned'` runs a program.
#[test]
fn bare_names_of_startup_files() {
    let place = databases();
    for name in [hostile_names(), vec!["|touch owned".into()]].concat() {
        let file = place.path("").join(&name);
        fs::write(&file, "select 'read';").unwrap();
        let before = place_names(&place);
        let given = ["a.packed", COUNT, "--", "-init"].map(OsStr::new);
        let answer = answer(&place, &[&given[..], &[&name]].concat());
        assert_eq!(answer, "read\n3000", "{name:?}");
        assert_eq!(place_names(&place), before, "{name:?}");
        fs::remove_file(&file).unwrap();
    }
}

fn place_names(place: &Place) -> Vec<OsString> {
    let names = fs::read_dir(place.path("")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn the_startup_file_is_for_the_database_that_is_opened() {
    let place = databases();
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    let rc = "pragma foreign_keys = on;\n.headers on\nselect count(*) as rows from t;\n";
    fs::write(home.join(".sqliterc"), rc).unwrap();
    let keys = "pragma foreign_keys";
    assert_eq!(
        answer(&place, &["a.packed", keys]),
        "rows\n3000\nforeign_keys\n1"
    );
    fs::write(place.path("other"), ".print other").unwrap();
    let other = answer(&place, &["a.packed", keys, "--", "-init", "other"]);
    assert_eq!(other, "other\n0");
    // Its statements may fail, as in the shell.
    fs::write(home.join(".sqliterc"), "select * from nothing;").unwrap();
    let run = shell(&place, &["a.packed", COUNT], "");
    assert_eq!((run.code, run.stdout.as_str()), (0, "3000\n"));
}

/// The screen of a terminal when this is typed to the command.
fn on_terminal(place: &Place, arguments: &[&str], typed: &str) -> String {
    extension();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let name = OsStr::from_bytes(name.as_bytes());
    let other_end = File::options().read(true).write(true).open(name).unwrap();
    let mut command = place.command(&["shell"]);
    command.args(arguments).env("TERM", "dumb");
    command.env("SQLITE_HISTORY", place.path("history"));
    command.stdin(other_end.try_clone().unwrap());
    command.stdout(other_end.try_clone().unwrap());
    let mut child = command.stderr(other_end).spawn().unwrap();
    drop(command);
    let mut terminal = File::from(terminal);
    terminal.write_all(typed.as_bytes()).unwrap();
    let mut shown = Vec::new();
    // Reading gives an error once the other side is closed.
    let _ = terminal.read_to_end(&mut shown);
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(child.wait().unwrap().success(), "{shown}");
    shown
}

#[test]
fn a_prompt_says_nothing_of_an_empty_startup_file() {
    let place = databases();
    fs::create_dir(place.path("home")).unwrap();
    fs::write(place.path("home/.sqliterc"), ".print from the file\n").unwrap();
    let typed = format!("{COUNT};\n.exit\n");
    let shown = on_terminal(&place, &["a.packed"], &typed);
    assert!(
        shown.contains("from the file") && shown.contains("sqlite> "),
        "{shown}"
    );
    assert!(
        shown.contains("3000") && !shown.contains("/dev/null"),
        "{shown}"
    );
    let shown = on_terminal(&place, &["a.packed", "--", "-batch"], &typed);
    assert!(
        shown.contains("3000") && !shown.contains("sqlite> "),
        "{shown}"
    );
    // A shell that has an option for it, and one that does not. None is ever to read its own.
    for (refused, options) in [("nothing", "-noinit"), ("-noinit", "-batch -interactive")] {
        let line = format!(
            r#"echo "$*" >>asked
            case "$*" in
                *" {refused} "*) exit 1 ;;
                *sqlite_version*) echo '3.54.1|0' ;;
                *) echo "with $*" ;;
            esac"#
        );
        program(&place, "fake", &line);
        let shown = on_terminal(&place, &["--sqlite3", "./fake", "a.packed"], "");
        let wanted = format!("with -init /dev/null {options} -cmd");
        assert!(shown.contains(&wanted), "{shown}");
    }
    let asked = fs::read_to_string(place.path("asked")).unwrap();
    assert!(
        asked.lines().all(|line| line.contains("-init /dev/null")),
        "{asked}"
    );
}

/// With SQL there is nothing but its answer, on a terminal as elsewhere.
#[test]
fn sql_on_a_terminal_prints_its_answer_and_nothing_else() {
    let place = databases();
    for arguments in [
        &["a.packed", COUNT][..],
        &["a.packed", "--", COUNT],
        &["a.packed", COUNT, "--", "-readonly"],
    ] {
        assert_eq!(
            on_terminal(&place, arguments, "").trim_end(),
            "3000",
            "{arguments:?}"
        );
    }
    // A startup file that says something is heard, and is the user's.
    fs::create_dir(place.path("home")).unwrap();
    fs::write(place.path("home/.sqliterc"), ".headers on\n").unwrap();
    let shown = on_terminal(&place, &["a.packed", "select 1 as one"], "");
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["one", "1"]);
}

/// Where the shell itself looks for a startup file depends on the user and not on HOME, so it may find one where we do
/// not. Read before the database is open, it would be for one in memory.
#[test]
fn the_shell_reads_no_startup_file_itself() {
    let place = databases();
    program(
        &place,
        "fake",
        "case \"$*\" in *sqlite_version*) echo '3.40.1|0';; *) echo \"$1 $2\";; esac",
    );
    let said = || answer(&place, &["--sqlite3", "./fake", "a.packed"]);
    assert_eq!(said(), "-init /dev/null");
    fs::create_dir(place.path("home")).unwrap();
    fs::write(place.path("home/.sqliterc"), ".print x").unwrap();
    assert_eq!(said(), "-init /dev/null");
}

/// As that of the user who calls `sudo`, where that keeps HOME.
#[test]
fn a_startup_file_of_another_user_is_not_read() {
    let place = databases();
    fs::create_dir(place.path("home")).unwrap();
    let file = place.path("home/.sqliterc");
    fs::write(&file, ".print read").unwrap();
    assert_eq!(answer(&place, &["a.packed", COUNT]), "read\n3000");
    // Only the superuser can give files away.
    if chown(&file, Some(1), None).is_ok() {
        let run = shell(&place, &["a.packed", COUNT], "");
        assert_eq!((run.code, run.stdout.as_str()), (0, "3000\n"));
        assert!(run.stderr.contains("belongs to another user"), "{run:?}");
        // One that is asked for is.
        let given = ["a.packed", COUNT, "--", "-init", "home/.sqliterc"];
        assert_eq!(answer(&place, &given), "read\n3000");
    }
}

/// Makes a program of a line for a shell.
fn program(place: &Place, name: &str, line: &str) {
    let text = place.path(&format!("{name}.text"));
    fs::write(&text, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
    copy_program(&text, &place.path(name));
}

/// Copies a program. Another process does it: a program cannot be started while any process has it open for writing,
/// and a child that another test starts here meanwhile would.
fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status();
    assert!(copied.unwrap().success());
}

#[test]
fn what_is_missing_is_said() {
    let place = databases();
    extension();
    place.refused(
        &["shell", "--extension", "none", "a.packed"],
        "no extension none",
    );
    place.refused(
        &["shell", "--sqlite3", "no-shell", "a.packed"],
        "there is no no-shell; install",
    );
    place.refused(
        &["shell", "--sqlite3", "./a.db", "a.packed"],
        "cannot start ./a.db",
    );
    for (answer, words) in [
        ("3.50.0|1", "without loading of extensions"),
        ("", "does not answer"),
    ] {
        program(&place, "fake", &format!("echo '{answer}'"));
        place.refused(&["shell", "--sqlite3", "./fake", "a.packed"], words);
    }
    fs::write(place.path("empty.so"), "").unwrap();
    let run = shell(
        &place,
        &["--extension", "empty.so", "a.packed", ".print opened"],
        "",
    );
    assert!(
        run.code != 0 && run.stdout.is_empty() && run.stderr.contains("empty.so"),
        "{run:?}"
    );
}

#[test]
fn the_extension_is_found_where_packages_put_it() {
    let place = databases();
    for directory in ["bin", "lib", "lib/litepack"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    let command = place.path("bin/litepack");
    copy_program(env!("CARGO_BIN_EXE_litepack"), &command);
    let run = || {
        let arguments = ["shell", "a.packed", COUNT];
        Run::of(place.command_at(&command, &arguments).output().unwrap())
    };
    let nowhere = run();
    assert!(
        nowhere.code == 2 && nowhere.stderr.contains("../lib/litepack"),
        "{nowhere:?}"
    );
    for library in [
        "lib/liblitepack.so",
        "lib/litepack/liblitepack.so",
        "bin/liblitepack.so",
    ] {
        symlink(extension(), place.path(library)).unwrap();
        let found = run();
        assert_eq!(
            (found.code, found.stdout.as_str()),
            (0, "3000\n"),
            "{library}"
        );
        fs::remove_file(place.path(library)).unwrap();
    }
}

#[test]
fn an_object_in_a_store_opens_by_its_url() {
    let place = Place::new();
    place.database("a.db", 4096, 300);
    place.ok(&["pack", "a.db", "a.packed"]);
    let server = Server::of(fs::read(place.path("a.packed")).unwrap());
    extension();
    let mut command = place.command(&["shell", "s3://logs/day/a.packed", COUNT]);
    command.env("AWS_ENDPOINT_URL", server.url(""));
    command
        .env("AWS_ACCESS_KEY_ID", "AKID")
        .env("AWS_SECRET_ACCESS_KEY", "s3cret");
    let run = Run::of(command.output().unwrap());
    assert_eq!((run.stdout.trim(), run.stderr.as_str()), ("300", ""));
    let requests = server.requests();
    assert!(requests.iter().all(|request| {
        request.path.starts_with("/logs/day/a.packed?") && request.path.contains("X-Amz-Signature=")
    }));
    // A URI may come from anyone: it does not say where signed requests go.
    let sql = "select litepack_remote_config('s3_endpoint', 'http://127.0.0.1:1/');\
               attach 'file:/x?vfs=litepack&mode=ro&url=s3%3A%2F%2Flogs%2Fa&s3_endpoint=http://h' as x;";
    let mut command = place.command(&["shell", "a.packed", sql]);
    command
        .env("AWS_ACCESS_KEY_ID", "AKID")
        .env("AWS_SECRET_ACCESS_KEY", "s3cret");
    let run = Run::of(command.output().unwrap());
    assert_ne!(run.code, 0);
    assert!(
        run.stdout.contains("http://127.0.0.1:1/") && !run.stderr.contains("s3cret"),
        "{run:?}"
    );
    let wrong = shell(
        &place,
        &[
            "a.packed",
            "select litepack_remote_config('s3_endpoint', 's3cret')",
        ],
        "",
    );
    assert!(
        wrong.stderr.contains("not a valid URL") && !wrong.stderr.contains("s3cret"),
        "{wrong:?}"
    );
}

/// On a web server, and in an object store.
#[test]
fn an_encrypted_database_elsewhere_answers() {
    let place = databases();
    fs::write(place.path("key"), "it's s3cret\n").unwrap();
    fs::write(place.path("other"), "s3cret\n").unwrap();
    place.ok(&["pack", "--encrypt", "--key-file", "key", "a.db", "a.sealed"]);
    let server = Server::of(fs::read(place.path("a.sealed")).unwrap());
    let url = server.url("/x");
    assert_eq!(answer(&place, &["--key-file", "key", &url, COUNT]), "3000");
    place.refused(
        &["shell", &url, COUNT],
        "is encrypted: give --key-file or --key-env",
    );
    place.refused(&["shell", "--key-file", "other", &url, COUNT], "wrong key");
    let plain = Server::of(fs::read(place.path("a.packed")).unwrap());
    let needless = ["shell", "--key-file", "key", &plain.url("/x"), COUNT];
    place.refused(&needless, "not encrypted");
    let mut command = place.command(&["shell", "--key-file", "key", "s3://logs/day/a", COUNT]);
    command
        .env("AWS_ENDPOINT_URL", server.url(""))
        .env("AWS_ACCESS_KEY_ID", "AKID")
        .env("AWS_SECRET_ACCESS_KEY", "s3cret");
    let run = Run::of(command.output().unwrap());
    assert_eq!((run.stdout.trim(), run.stderr.as_str()), ("3000", ""));
}

/// The key is in no argument, no variable of the environment and no file of the shell's.
#[test]
fn an_encrypted_database_answers_and_its_key_stays_secret() {
    let place = databases();
    fs::write(place.path("key"), "it's s3cret\n").unwrap();
    let pack = ["pack", "--encrypt", "--key-file", "key", "a.db", "a.sealed"];
    place.ok(&pack);
    let given = ["--key-file", "key", "a.sealed", COUNT];
    assert_eq!(answer(&place, &given), "3000");
    assert_eq!(
        answer(
            &place,
            &[
                "--key-file",
                "key",
                "--create",
                "new",
                "create table t(a); select 7"
            ]
        ),
        "7"
    );
    let sealed = fs::read(place.path("new")).unwrap();
    assert!(sealed.starts_with(b"Litepack") && !sealed.windows(12).any(|w| w == b"CREATE TABLE"));
    place.refused(
        &["shell", "a.sealed", COUNT],
        "a.sealed is encrypted: give --key-file or --key-env",
    );
    fs::write(place.path("key"), "wrong").unwrap();
    place.refused(
        &["shell", "--key-file", "key", "a.sealed"],
        "wrong key for a.sealed",
    );
    place.refused(
        &["shell", "--key-file", "key", "a.packed"],
        "is not encrypted",
    );
    // What the shell is given.
    let script = "#!/bin/sh\ncase \"$*\" in *sqlite_version*) exec sqlite3 \"$@\";; esac\necho \"$@\"; env\n";
    fs::write(place.path("spy"), script).unwrap();
    fs::set_permissions(place.path("spy"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(place.path("key"), "it's s3cret\n").unwrap();
    let spy = place.path("spy");
    let spied = [
        "--sqlite3",
        spy.to_str().unwrap(),
        "--key-file",
        "key",
        "a.sealed",
    ];
    let run = shell(&place, &spied, "");
    assert!(run.stdout.contains("/dev/fd/"), "{run:?}");
    assert!(!format!("{run:?}").contains("s3cret"), "{run:?}");
}
