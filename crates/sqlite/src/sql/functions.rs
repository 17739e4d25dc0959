//! The SQL functions, in one table: name, arguments, what they do, and the line that the reference has on them.
//!
//! It is what is registered with every connection, and what `docs/reference/sql.md` lists.

use std::ffi::{CStr, c_int};
use std::ops::RangeInclusive;

use litepack_columns::sql::Result;

use crate::sql::call::Call;
use crate::sql::columns::{Training, bounds, maintenance, schema, training, values};
use crate::sql::{keys, maintain as maintain_function, packed};
use Act::{Compute, Configure, Operate, Train};

/// A SQL function.
pub(crate) struct Function {
    pub(crate) name: &'static CStr,
    /// Its arguments, the optional ones in brackets.
    pub(crate) arguments: &'static str,
    pub(crate) act: Act,
    /// Its effect, in Markdown.
    #[cfg_attr(
        not(all(test, feature = "remote")),
        expect(dead_code, reason = "for the reference, which a test writes")
    )]
    pub(crate) about: &'static str,
}

/// The kind of work of a function, and its body.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// Its arguments alone give the result, and it may run from anywhere.
    Compute(fn(&Call<'_>) -> Result<()>),
    /// It reads or changes the database, so it runs by the program's own statements only.
    Operate(fn(&Call<'_>) -> Result<()>),
    /// With arguments it sets or tells what holds for the process. Then it runs where code may be loaded alone, and by
    /// the program's own statements.
    Configure(fn(&Call<'_>) -> Result<()>),
    /// An aggregate that trains a dictionary: what is done at the end.
    Train(fn(&Call<'_>, Training) -> Result<()>),
}

/// Functions that belong together.
pub(crate) struct Section {
    #[cfg_attr(
        not(all(test, feature = "remote")),
        expect(dead_code, reason = "for the reference, which a test writes")
    )]
    pub(crate) title: &'static str,
    pub(crate) functions: &'static [Function],
}

impl Function {
    /// How many arguments it takes.
    pub(crate) fn counts(&self) -> RangeInclusive<c_int> {
        let count = |text: &str| {
            let names = text.split([',', '[', ']']);
            names.filter(|name| !name.trim().is_empty()).count() as c_int
        };
        let needed = self.arguments.split('[').next().unwrap_or_default();
        count(needed)..=count(self.arguments)
    }
}

/// Every function there is.
pub(crate) const SECTIONS: &[Section] = &[
    Section {
        title: "Packed files",
        functions: &[
            Function {
                name: c"litepack_version",
                arguments: "",
                act: Compute(packed::version),
                about: "returns the version of the extension",
            },
            Function {
                name: c"litepack_info",
                arguments: "[schema]",
                act: Operate(packed::info),
                about: "returns a JSON report ([fields](json.md#packed-file)) on a packed database or an archive; NULL \
             for any other; an error for a packed file that was opened without Litepack",
            },
            Function {
                name: c"litepack_check",
                arguments: "[schema]",
                act: Operate(packed::check),
                about: "verifies every byte; returns `ok`, or a line for each piece of damage; NULL for a plain database",
            },
            Function {
                name: c"litepack_maintain",
                arguments: "seconds, load [, level [, schema]]",
                act: Operate(maintain_function::maintain),
                about: "makes a used packed file about as small as a fresh one ([below](#maintenance)); returns 1 if \
             there is more to do, else 0",
            },
            Function {
                name: c"litepack_attach",
                arguments: "file, schema, key",
                act: Operate(keys::attach),
                about: "attaches an encrypted database, or makes one, as `ATTACH file AS schema KEY key` would if SQLite \
             handed the key on; `key` is written as for `PRAGMA key`, or a blob of 32 bytes",
            },
            Function {
                name: c"litepack_new_databases",
                arguments: "[kind]",
                act: Configure(packed::new_databases),
                about: "sets what the default VFS makes of new databases, `packed` or `plain`, and returns it",
            },
        ],
    },
    #[cfg(feature = "remote")]
    Section {
        title: "Remote files",
        functions: &[
            Function {
                name: c"litepack_remote_headers",
                arguments: "origin, headers",
                act: Configure(super::remote::headers),
                about: "sends these headers, one `Name: value` in a line, with every request to the origin; NULL removes \
             them. Returns how many there are",
            },
            Function {
                name: c"litepack_remote_config",
                arguments: "name [, value]",
                act: Configure(super::remote::configure),
                about: "sets or returns a setting of remote files, such as `cache_dir`; NULL restores the default",
            },
        ],
    },
    Section {
        title: "Compressed columns",
        functions: &[
            Function {
                name: c"zstd_enable_transparent",
                arguments: "config",
                act: Operate(schema::enable_column),
                about: "enables compression of a column ([configuration](../columns.md#configuration)); returns `Done!`",
            },
            Function {
                name: c"zstd_incremental_maintenance",
                arguments: "seconds, load",
                act: Operate(maintenance::incremental),
                about: "compresses the rows that are not compressed yet; returns 1 if there is more to do, else 0",
            },
            Function {
                name: c"zstd_compress",
                arguments: "data [, level [, dictionary [, compact]]]",
                act: Compute(values::compress),
                about: "returns a frame; defaults: level 3, no dictionary, compact 0. `dictionary`: a blob, an id in \
             `_zstd_dicts`, NULL or -1 for none",
            },
            Function {
                name: c"zstd_decompress",
                arguments: "frame, is_text [, dictionary [, compact]]",
                act: Compute(values::decompress),
                about: "returns text if `is_text`, else a blob",
            },
            Function {
                name: c"zstd_compress_col",
                arguments: "data, level, dictionary, compact",
                act: Compute(values::compress_col),
                about: "the same as `zstd_compress`; with `dictionary` NULL returns the data itself, as a blob",
            },
            Function {
                name: c"zstd_decompress_col",
                arguments: "data, is_text, dictionary, compact",
                act: Compute(values::decompress_col),
                about: "the same as `zstd_decompress`; with `dictionary` NULL returns the data itself",
            },
            Function {
                name: c"litepack_unbounded",
                arguments: "[on]",
                act: Operate(bounds::unbounded),
                about: "with 1 lifts, on this connection, the [bounds](#bounds) of what a schema may call; 0 restores \
             them. Returns whether they are lifted",
            },
            Function {
                name: c"zstd_train_dict",
                arguments: "value, size, sample_count",
                act: Train(training::train),
                about: "aggregate: returns a dictionary",
            },
            Function {
                name: c"zstd_train_dict_and_save",
                arguments: "value, size, sample_count, key",
                act: Train(training::train_and_save),
                about: "aggregate: stores a dictionary in `_zstd_dicts` and returns its id; `key` may be NULL",
            },
            Function {
                name: c"litepack_disable_transparent",
                arguments: "table, column",
                act: Operate(schema::disable_column),
                about: "decompresses a column; after the last one the table is a table again, with the schema text, \
             indexes and triggers it had",
            },
            Function {
                name: c"litepack_columns",
                arguments: "",
                act: Operate(maintenance::columns),
                about: "returns a JSON array on all compressed columns ([fields](json.md#compressed-columns))",
            },
            Function {
                name: c"litepack_create_index",
                arguments: "sql",
                act: Operate(schema::index),
                about: "runs a `CREATE INDEX` statement written as for the plain table",
            },
            Function {
                name: c"litepack_alter_table",
                arguments: "table, action",
                act: Operate(schema::alter_table),
                about: "runs `'ADD COLUMN …'`, `'RENAME COLUMN a TO b'` or `'DROP COLUMN c'`",
            },
            Function {
                name: c"litepack_configure_column",
                arguments: "table, column, changes",
                act: Operate(schema::configure_column),
                about: "changes the configuration by a JSON object, from the next maintenance on",
            },
            Function {
                name: c"litepack_retrain",
                arguments: "table, column",
                act: Operate(maintenance::retrain_column),
                about: "trains new dictionaries on the present rows, and returns how many; rows keep theirs until they \
             are recompressed",
            },
            Function {
                name: c"litepack_recompress",
                arguments: "table, column, seconds, load",
                act: Operate(maintenance::recompress_column),
                about: "recompresses rows that have another level or dictionary than the present one; returns 1 if there \
             is more to do, else 0",
            },
            Function {
                name: c"litepack_drop_unused_dictionaries",
                arguments: "",
                act: Operate(maintenance::drop_dictionaries),
                about: "drops dictionaries of maintenance that no row uses, and returns how many",
            },
        ],
    },
];

#[cfg(all(test, feature = "remote"))]
mod tests {
    use super::*;

    const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/sql.md");
    const BEGIN: &str = "<!-- generated: functions -->\n";
    const END: &str = "<!-- end -->\n";

    /// With the least and most arguments.
    const NAMES: &[(&str, c_int, c_int)] = &[
        ("litepack_version", 0, 0),
        ("litepack_info", 0, 1),
        ("litepack_check", 0, 1),
        ("litepack_maintain", 2, 4),
        ("litepack_attach", 3, 3),
        ("litepack_new_databases", 0, 1),
        ("litepack_remote_headers", 2, 2),
        ("litepack_remote_config", 1, 2),
        ("zstd_enable_transparent", 1, 1),
        ("zstd_incremental_maintenance", 2, 2),
        ("zstd_compress", 1, 4),
        ("zstd_decompress", 2, 4),
        ("zstd_compress_col", 4, 4),
        ("zstd_decompress_col", 4, 4),
        ("litepack_unbounded", 0, 1),
        ("zstd_train_dict", 3, 3),
        ("zstd_train_dict_and_save", 4, 4),
        ("litepack_disable_transparent", 2, 2),
        ("litepack_columns", 0, 0),
        ("litepack_create_index", 1, 1),
        ("litepack_alter_table", 2, 2),
        ("litepack_configure_column", 3, 3),
        ("litepack_retrain", 2, 2),
        ("litepack_recompress", 4, 4),
        ("litepack_drop_unused_dictionaries", 0, 0),
    ];

    fn all() -> impl Iterator<Item = &'static Function> {
        SECTIONS.iter().flat_map(|section| section.functions)
    }

    #[test]
    fn the_functions_are_these_and_each_is_documented() {
        let found: Vec<_> = all()
            .map(|function| {
                let name = function.name.to_str().unwrap();
                assert!(!function.about.is_empty(), "{name}");
                (name, *function.counts().start(), *function.counts().end())
            })
            .collect();
        assert_eq!(found, NAMES);
    }

    /// Functions that set or tell something of the whole process: each is refused where no code may be loaded.
    #[test]
    fn these_configure_the_process() {
        let configures = |function: &&Function| matches!(function.act, Configure(_));
        let found: Vec<_> = all().filter(configures).map(|it| it.name).collect();
        let wanted = [
            c"litepack_new_databases",
            c"litepack_remote_headers",
            c"litepack_remote_config",
        ];
        assert_eq!(found, wanted);
    }

    /// The tables of the reference.
    fn tables() -> String {
        let mut text = String::new();
        for section in SECTIONS {
            text += &format!("\n### {}\n\n", section.title);
            text += "| function | what it does | kind |\n|---|---|---|\n";
            for function in section.functions {
                let kind = match function.act {
                    Compute(_) => "pure",
                    Operate(_) | Train(_) => "direct",
                    Configure(_) => "process",
                };
                let (name, arguments) = (function.name.to_str().unwrap(), function.arguments);
                let about = function.about;
                text += &format!("| `{name}({arguments})` | {about} | {kind} |\n");
            }
        }
        text + "\n"
    }

    /// `LITEPACK_WRITE_DOCS=1 cargo test -p litepack-sqlite reference` writes it.
    #[test]
    fn the_reference_has_them() {
        let text = std::fs::read_to_string(REFERENCE).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (written, after) = rest.split_once(END).unwrap();
        if std::env::var_os("LITEPACK_WRITE_DOCS").is_some() {
            let text = format!("{before}{BEGIN}{}{END}{after}", tables());
            std::fs::write(REFERENCE, text).unwrap();
        } else {
            assert_eq!(written, tables(), "write it with LITEPACK_WRITE_DOCS=1");
        }
    }
}
