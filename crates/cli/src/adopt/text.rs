//! Reports of `litepack adopt` for people.

use std::fmt::{Display, Formatter, Result};
use std::path::Path;

use indicatif::HumanBytes;
use litepack::{Sizes, printable, printable_path};
use litepack_adopt::{Found, Opens, State};

/// What is known of a database.
pub fn of(found: &Found) -> String {
    let mut lines = vec![printable_path(&found.file)];
    let whose = found.program.unwrap_or("not known whose");
    let mut size = format!("{}, {whose}", HumanBytes(found.bytes));
    if let Some(packed) = found.packed_bytes {
        size += &format!("; packed about {}", HumanBytes(packed));
        if !found.is_worthwhile {
            size += ", which is not worth it";
        }
    }
    lines.push(size);
    if let (Some(opens), Some(how)) = (found.opens, found.how) {
        let opens = match opens {
            Opens::Yes => "yes",
            Opens::Perhaps => "perhaps",
            Opens::No => "no",
        };
        lines.push(format!("opens packed files: {opens}, {how}"));
    }
    let kept = found
        .kept
        .as_deref()
        .map(printable_path)
        .unwrap_or_default();
    match found.state {
        State::Plain => {}
        State::Adopted => lines.push(format!(
            "packed; the original is {kept} (--undo makes it plain, --forget lets the original go)"
        )),
        State::Packed => lines.push("packed; no original is kept".into()),
        State::PlainBesideOriginal => lines.push(format!(
            "plain, and an original is kept, {kept}: it was undone with newer rows, packing was interrupted, or a \
             program has put another database there"
        )),
        State::OriginalAlone => {
            lines.push("an original whose database is not there, or is no database any more; give it that name".into());
        }
    }
    // That a program cannot open it was said.
    if let Some(obstacle) = &found.obstacle
        && found.opens != Some(Opens::No)
    {
        lines.push(format!("stays as it is: {}", printable(obstacle)));
    }
    if let Some(error) = &found.error {
        lines.push(printable(error));
    }
    lines.join("\n    ") + "\n"
}

/// Where the original is.
pub fn kept(path: &Path) -> String {
    let kept = litepack_adopt::kept(path);
    format!("the original is {}", printable_path(&kept))
}

/// What packing has saved.
pub fn sizes(sizes: Sizes) -> String {
    format!(
        "{} -> {}",
        HumanBytes(sizes.before),
        HumanBytes(sizes.after)
    )
}

/// All that was found.
#[derive(Default)]
pub struct Totals {
    databases: u64,
    bytes: u64,
    worthwhile: u64,
    before: u64,
    after: u64,
}

impl Totals {
    /// Counts one.
    pub fn add(&mut self, found: &Found) {
        self.databases += 1;
        self.bytes += found.bytes;
        let can = found.is_worthwhile && found.obstacle.is_none();
        if let Some(packed) = found.packed_bytes.filter(|_| can) {
            self.worthwhile += 1;
            self.before += found.bytes;
            self.after += packed;
        }
    }
}

impl Display for Totals {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Totals {
            databases,
            worthwhile,
            ..
        } = self;
        let s = if *databases == 1 { "" } else { "s" };
        write!(f, "{databases} database{s}, {}", HumanBytes(self.bytes))?;
        match worthwhile {
            0 => write!(f, "; none of them is worth packing in place"),
            _ => write!(
                f,
                "; {worthwhile} could be packed in place: {} -> {}",
                HumanBytes(self.before),
                HumanBytes(self.after)
            ),
        }
    }
}
