//! WALs that are not applied to the database that they are beside: those of another one, or of another state of it
//! (docs/compatibility.md has what to do with them).

use std::fs::read_dir;

use litepack_log::aside::REFUSED;

use crate::Job;
use crate::bytes::pages::OpenFile;
use crate::bytes::unlocked::Unlocked;
use crate::bytes::wal;
use crate::files::directory::directory;
use crate::names::{PACKED, with_suffix};

/// Names them in warnings. The file is that of a packed database.
pub fn tell(of: OpenFile<'_>, job: &Job<'_>) {
    let path = of.path;
    let beside = with_suffix(path, PACKED.wal);
    let todo = "to get what it holds, put it under that database's name, followed by -lpw";
    // Files that cannot be read are told of elsewhere.
    if let Ok(Some(why)) = wal::refusal(&beside, of.file, of.unlocked.map(Unlocked::keys)) {
        let name = beside.display();
        job.warn(&format!(
            "{name} is not applied: {why}; it is copied before it is written over; {todo}"
        ));
    }
    let Some(prefix) = beside.file_name() else {
        return;
    };
    let prefix = [prefix.as_encoded_bytes(), REFUSED.as_bytes()].concat();
    for entry in read_dir(directory(path)).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(&prefix) {
            let name = entry.path();
            job.warn(&format!(
                "{} was not applied, as it is the WAL of another database, or of another state of this one; {todo}",
                name.display()
            ));
        }
    }
}
