//! Files that are measured and thrown away. They are neither compared with the database nor made durable, and no reports
//! come of them.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use litepack_database::error::Context;
use litepack_database::files::content::DatabaseBytes;
use litepack_database::files::source::Source;

use crate::archive::{self, CreateOptions};
use crate::pack::{self, PackOptions};
use crate::{Job, Result};

const CANNOT: &str = "cannot write a temporary file";

/// Packs a plain database that nothing changes meanwhile.
///
/// # Errors
/// As [`crate::pack`].
pub fn packed(plain: &Path, target: &Path, options: &PackOptions, job: &Job<'_>) -> Result<()> {
    let source = Source::open(plain, false)?;
    let file = create(target)?;
    let content = DatabaseBytes::of(&source)?;
    pack::fill(
        content,
        (&file, target),
        options.effort()?,
        None,
        &job.silent(),
    )
}

/// Archives a plain database that nothing changes meanwhile.
///
/// # Errors
/// As [`crate::archive::create`].
pub fn archived(plain: &Path, target: &Path, options: &CreateOptions, job: &Job<'_>) -> Result<()> {
    let source = Source::open(plain, false)?;
    let mut content = DatabaseBytes::of(&source)?;
    let mut output = BufWriter::with_capacity(1 << 20, create(target)?);
    let settings = options.settings()?;
    let made = archive::write(&mut content, &mut output, &settings, job, &mut |_| {});
    made.context(CANNOT).map(drop)
}

fn create(target: &Path) -> Result<File> {
    let mut file = File::options();
    let file = file.read(true).write(true).create(true).truncate(true);
    file.open(target).context(CANNOT)
}
