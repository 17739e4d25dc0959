//! Whether the pages of a database make trees, before SQL goes through them.
//!
//! Each page belongs to one place. In a file that is damaged, or made to hold readers up, pages may name each other in
//! a circle, share children, overflow pages or free pages. SQLite has no memory of where it was: it reads such a table
//! without an end, and copies it until the disk is full. Commands that go through all of a database read its structure
//! first, each page once, and refuse what is not sound. Those that read less bound the steps of SQL instead
//! (`bound.rs`).

use std::time::Instant;

use litepack_btree::PageOwnership;

use crate::bytes::pages::{OpenFile, Pages};
use crate::error::refuse;
use crate::{Error, Job, Result};

/// An error if the pages of an open file do not make trees, or that is not known by a time: in an archive, a page can
/// take a second. The caller sees to it that no other connection writes meanwhile.
pub fn expect_trees(of: OpenFile<'_>, job: &Job<'_>, until: Option<Instant>) -> Result<()> {
    let shown = of.shown;
    let Some(mut pages) = Pages::of_some(of)? else {
        return Ok(());
    };
    let header = pages.header.clone();
    let step = job.bytes("looking", pages.size);
    let owners = PageOwnership::find(&header, |page, buf| {
        job.check()?;
        if until.is_some_and(|until| Instant::now() > until) {
            refuse!("{}: reading it takes too long", shown.display());
        }
        step.add(buf.len() as u64);
        Ok::<_, Error>(pages.page(page, buf))
    })?;
    drop(step);
    let Some(damage) = owners.damage().first() else {
        return Ok(());
    };
    let tree = damage
        .tree
        .and_then(|tree| owners.trees().get(tree as usize));
    let whose = tree.map_or_else(
        || "the list of free pages".to_owned(),
        |tree| crate::printable(&tree.name),
    );
    refuse!(
        "{}: the database is malformed, or made to hold readers up: page {} ({whose}): {}; restore it from a backup, or \
         try the command .recover of SQLite's shell",
        shown.display(),
        damage.page,
        damage.why
    )
}
