//! Commands that take several files. One file is reported as always. Of several each is reported under its name; one
//! that cannot be read does not keep the others from it, and the exit code is that of the worst: an error, then damage.

use std::path::{Path, PathBuf};

use anyhow::Result;
use litepack::{Error, printable_path};
use serde_json::{Value, json};

use crate::info::remote;
use crate::output::{self, failed, print};
use crate::{DONE, ERROR, NO, words};

/// The report on a file.
pub struct Said {
    /// Its fields.
    pub json: Value,
    /// The same for people.
    pub text: String,
    /// Whether it is sound.
    pub ok: bool,
    /// Its name, if that is not the one that it was given by.
    pub name: Option<String>,
}

/// How texts of several files are told apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Each line begins with the name.
    Lines,
    /// The name is above the text.
    Blocks,
}

/// Reports each of these files, and says with which code to exit.
///
/// # Errors
/// If the only file cannot be reported, the user has stopped it, or nothing can be written.
pub fn each(
    files: &[PathBuf],
    as_json: bool,
    layout: Layout,
    mut report: impl FnMut(&Path) -> Result<Said>,
) -> Result<u8> {
    if let [file] = files {
        let said = report(file)?;
        match as_json {
            true => output::json(&said.json)?,
            false => print(&said.text)?,
        }
        return Ok(if said.ok { DONE } else { NO });
    }
    let (mut code, mut all) = (DONE, Vec::new());
    for (at, file) in files.iter().enumerate() {
        let said = match report(file) {
            Ok(said) => said,
            Err(error) if is_interrupted(&error) => return Err(error),
            Err(error) => {
                code = ERROR;
                let error = words(&error);
                failed(&shown(file), &error);
                all.push(json!({"file": name(file), "error": error}));
                continue;
            }
        };
        if !said.ok && code == DONE {
            code = NO;
        }
        if as_json {
            let mut fields = json!({"file": said.name.unwrap_or_else(|| name(file))});
            if let (Value::Object(fields), Value::Object(more)) = (&mut fields, said.json) {
                fields.extend(more);
            }
            all.push(fields);
            continue;
        }
        let name = shown(file);
        match layout {
            Layout::Lines => {
                let lines = said.text.lines().map(|text| format!("{name}: {text}\n"));
                print(lines.collect::<String>())?;
            }
            Layout::Blocks => {
                let above = if at > 0 { "\n" } else { "" };
                print(format_args!("{above}{name}:\n{}", said.text))?;
            }
        }
    }
    if as_json {
        output::json(Value::Array(all))?;
    }
    Ok(code)
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    (error.downcast_ref::<Error>()).is_some_and(Error::is_interrupted)
}

/// The name of a file in JSON. There may be a password in a URL.
fn name(file: &Path) -> String {
    match remote::url(file).and_then(|url| url.split_once("://")) {
        Some((scheme, _)) => format!("{scheme}://…"),
        None => file.to_string_lossy().into_owned(),
    }
}

/// The same for people.
fn shown(file: &Path) -> String {
    match remote::url(file) {
        Some(_) => name(file),
        None => printable_path(file),
    }
}
