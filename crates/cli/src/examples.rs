//! The parts of manual pages besides options: examples of commands, and the meaning of exit codes. A test reads each
//! example as the command does.

/// A line to type, and what it does.
pub type Example = (&'static str, &'static str);

const EXIT: &[(&str, &str)] = &[("0", "done"), ("2", "an error"), ("130", "interrupted")];
const EXIT_DAMAGE: &[(&str, &str)] = &[
    ("0", "no damage"),
    ("1", "damage was found"),
    ("2", "a file could not be checked, whatever others are"),
    ("130", "interrupted"),
];
const EXIT_LIMIT: &[(&str, &str)] = &[
    ("0", "all is done"),
    ("1", "stopped at the time limit; what was done is kept"),
    ("2", "an error"),
    ("130", "interrupted"),
];
const EXIT_ADOPT: &[(&str, &str)] = &[
    ("0", "done"),
    (
        "2",
        "a database that was to be changed could not be; it is as it was, and others are done",
    ),
    ("130", "interrupted; databases that were done stay so"),
];
const EXIT_CATALOG: &[(&str, &str)] = &[
    ("0", "done"),
    ("1", "files could not be read; the catalog says why"),
    ("2", "an error; the catalog is as it was"),
    ("130", "interrupted"),
];
const EXIT_INGEST: &[(&str, &str)] = &[
    ("0", "done, or with --follow stopped by Ctrl-C"),
    (
        "2",
        "an error, or a source that could not be read to its end; what was read is kept",
    ),
    ("130", "interrupted; what was read is kept"),
];
const EXIT_RUN: &[(&str, &str)] = &[
    ("2", "an error before the program has started"),
    ("126", "the program cannot be run"),
    ("127", "there is no such program"),
    ("any", "else that of the program"),
];
const EXIT_SHELL: &[(&str, &str)] = &[
    ("2", "an error before the shell has started"),
    ("any", "else that of the shell"),
];

/// The meaning of the exit codes of a command, by its name with that of its parent.
pub fn exit_codes(command: &str) -> &'static [(&'static str, &'static str)] {
    match command {
        "check" | "archive check" => EXIT_DAMAGE,
        "maintain" | "columns maintain" => EXIT_LIMIT,
        "catalog" => EXIT_CATALOG,
        "ingest" => EXIT_INGEST,
        "adopt" => EXIT_ADOPT,
        "shell" => EXIT_SHELL,
        "run" => EXIT_RUN,
        _ => EXIT,
    }
}

/// Examples of a command, by its name with that of its parent.
pub fn examples(command: &str) -> &'static [Example] {
    match command {
        "" => &[
            ("litepack pack app.db packed.db", "Pack a database."),
            ("litepack shell packed.db", "Query it in the sqlite3 shell."),
            (
                "litepack advise app.db",
                "See what packing would save, and what else would help.",
            ),
        ],
        "pack" => &[
            ("litepack pack app.db packed.db", "Pack a database."),
            (
                "litepack pack --in-place app.db",
                "Replace a database that is not in use by its packed form.",
            ),
            (
                "litepack pack --best logs.db s3://bucket/logs.db",
                "Make the smallest file, and upload it.",
            ),
            (
                "litepack pack --encrypt app.db packed.db",
                "Pack and encrypt it, with a key that is asked for.",
            ),
        ],
        "adopt" => &[
            (
                "litepack adopt /srv /home/me",
                "See which databases there are, whose they are, and what packing would save.",
            ),
            (
                "litepack adopt --pack app.db",
                "Pack one in place, and keep its original.",
            ),
            (
                "litepack adopt --undo app.db",
                "Make it plain again, with what was written since.",
            ),
            (
                "litepack adopt --forget app.db",
                "Delete the original that was kept.",
            ),
        ],
        "salvage" => &[
            (
                "litepack salvage bad.db saved.db",
                "Write what is left of a damaged file as a plain database, and say which rows are lost.",
            ),
            (
                "litepack salvage --from backup.db bad.db saved.db",
                "Take from an older copy of the packed file what is the same in it.",
            ),
        ],
        "rekey" => &[
            (
                "litepack rekey packed.db",
                "Give an encrypted file another key, or encrypt one that is not; the keys are asked for.",
            ),
            (
                "litepack rekey --key-file old --new-key-file new --new-data-key packed.db",
                "Encrypt all content anew, so that the former key is of no use for it.",
            ),
        ],
        "unpack" => &[
            (
                "litepack unpack packed.db app.db",
                "Restore the plain database.",
            ),
            (
                "litepack unpack --in-place app.db",
                "Replace a packed file by the plain database.",
            ),
        ],
        "info" => &[
            (
                "litepack info packed.db",
                "See what tables and indexes take.",
            ),
            (
                "litepack info --json one.db two.db logs.db.zst",
                "The same of several files, as JSON.",
            ),
            (
                "litepack info https://data.example/logs.db",
                "Ask a web server.",
            ),
        ],
        "check" => &[
            ("litepack check packed.db", "Verify every byte."),
            (
                "litepack check backup/one.db backup/two.db.zst",
                "Verify several files.",
            ),
        ],
        "maintain" => &[
            (
                "litepack maintain packed.db",
                "Make a used file small again.",
            ),
            (
                "litepack maintain --seconds 60 --load 0.2 packed.db",
                "The same for a minute, beside others who write.",
            ),
        ],
        "ingest" => &[
            (
                "litepack ingest /var/log/nginx/access.log --into logs.db",
                "Read a log into a packed database.",
            ),
            (
                "litepack ingest '/var/log/nginx/access.log*' --into logs.db --follow --keep 30d",
                "Go on as the log grows, and keep a month.",
            ),
        ],
        "catalog" => &[(
            "litepack catalog logs/ -o logs/catalog.db",
            "Say what is in the databases of a directory.",
        )],
        "columns" | "columns enable" => &[(
            "litepack columns enable app.db event data",
            "Enable compression of a column.",
        )],
        "columns maintain" => &[(
            "litepack columns maintain --vacuum app.db",
            "Compress rows, and make the file smaller.",
        )],
        "columns status" => &[(
            "litepack columns status app.db",
            "See what is compressed, and how well.",
        )],
        "columns disable" => &[(
            "litepack columns disable app.db event data",
            "Decompress a column.",
        )],
        "archive" | "archive create" => &[(
            "litepack archive create app.db app.db.zst",
            "Make an archive that zstd can read, too.",
        )],
        "archive extract" => &[(
            "litepack archive extract app.db.zst app.db",
            "Restore the plain database.",
        )],
        "archive info" => &[(
            "litepack archive info app.db.zst",
            "See what it is made of.",
        )],
        "archive check" => &[("litepack archive check app.db.zst", "Verify every frame.")],
        "advise" => &[
            (
                "litepack advise app.db",
                "See where bytes go, and what would help.",
            ),
            (
                "litepack advise app.db --html report.html",
                "The same as a page.",
            ),
        ],
        "tune" => &[(
            "litepack tune logs.db --queries mine.sql --chart logs.svg",
            "Try formats and settings with your queries.",
        )],
        "shell" => &[
            ("litepack shell packed.db", "Open a prompt."),
            (
                "litepack shell packed.db 'select count(*) from event' -- -json",
                "Run SQL, with an option of sqlite3.",
            ),
        ],
        "run" => &[
            (
                "litepack run -- sqlite3 packed.db",
                "Open a packed database in SQLite's own shell.",
            ),
            (
                "litepack run -- python3 script.py",
                "Run a program of yours that opens packed databases by their names.",
            ),
        ],
        "completions" => &[(
            "litepack completions bash",
            "Print completions; write them where the shell looks for them.",
        )],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _, Parser as _};

    /// Each command has examples, and can read them.
    #[test]
    fn examples_are_of_commands_as_they_are() {
        expect_examples(&crate::Arguments::command(), "");
    }

    fn expect_examples(command: &Command, path: &str) {
        let examples = super::examples(path);
        assert!(!examples.is_empty(), "{path} has no example");
        assert!(!super::exit_codes(path).is_empty());
        for (line, what) in examples {
            // Quotes are around words with spaces.
            let words = line
                .split('\'')
                .enumerate()
                .flat_map(|(at, part)| match at % 2 {
                    1 => vec![part],
                    _ => part.split_whitespace().collect(),
                });
            let read = crate::Arguments::try_parse_from(words);
            assert!(read.is_ok(), "{line}: {}", read.err().unwrap());
            assert!(what.ends_with('.'), "{what}");
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            expect_examples(sub, format!("{path} {}", sub.get_name()).trim_start());
        }
    }
}
