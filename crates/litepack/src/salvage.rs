//! Gets what is left out of a damaged packed file.
//!
//! Every page that can be read is what its parent states. Those that cannot are looked for in other copies of the file,
//! at the same place: there they count only if they are what this file's parent states, so an older copy heals what has
//! not changed since, and nothing else. A page whose newest version is in the log is that version or lost, and no older
//! one is taken. The pages that stay lost are left out of the tables ([`litepack_btree::mend`]),
//! SQLite makes indexes anew, and checks the result.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use litepack_btree::mend::{Mended, Pages, RowidRange, mend};
use litepack_btree::page::PageKind;
use litepack_btree::{HEADER_LEN, Header, PageNumber, Tree, quote};
use litepack_database::bytes::reader;
use litepack_database::bytes::snapshot::Frames;
use litepack_database::bytes::wal::LogDamage;
use litepack_database::error::{Context, cannot_read, cannot_write, refuse};
use litepack_database::files::not_applied;
use litepack_database::files::replacement::Replacement;
use litepack_database::files::source::{Source, distrust, open_file};
use litepack_database::names::is_same_file;
use litepack_io::storage::{ReadAt, Storage};
use litepack_store::{Error as StoreError, Spare, Store, identity};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde::Serialize;

use crate::check::Damage;
use crate::{Error, Job, Result, register};

/// Damage is listed up to this many pieces.
const LISTED_MAX: usize = 100;
/// Problems of the result are listed up to this many.
const PROBLEMS_MAX: usize = 10;
/// A database with more pages is not mended: new ones would have no numbers.
const PAGES_MAX: u32 = u32::MAX / 2;
/// Where the header of a database says how it is written: 2 is WAL mode.
const WRITTEN_HOW: u64 = 18;

/// Options of [`salvage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageOptions {
    /// Replace the target if it exists.
    pub replace: bool,
    /// Other copies of the packed file, of this or an earlier state.
    pub from: Vec<PathBuf>,
}

/// What [`salvage`] has found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Salvaged {
    /// Pages of the database.
    pub pages: u64,
    /// Those that are lost.
    pub lost_pages: u64,
    /// Why they are, up to a hundred pieces.
    pub damage: Vec<Damage>,
    /// Tables that have lost rows.
    pub tables: Vec<LostRows>,
    /// Indexes that were made anew.
    pub indexes: Vec<String>,
    /// Indexes that could not be made anew and are left out, and why.
    pub left_out: Vec<LeftOut>,
    /// Indexes of constraints that could not be made anew, are empty, and are used all the same: a program that has what
    /// they need must run `REINDEX` first.
    pub empty: Vec<LeftOut>,
    /// Pages with rows of tables that could not be told apart, which are left out.
    pub unassigned_pages: u64,
    /// The newest commit is damaged or was cut off by a power loss: this is the state before it.
    pub fell_back: bool,
    /// The database had auto_vacuum, which is off now.
    pub had_auto_vacuum: bool,
    /// What SQLite's `integrity_check` says of the result beside "ok".
    pub problems: Vec<String>,
}

/// Rows that a table has lost.
#[derive(Clone, Debug, Serialize)]
pub struct LostRows {
    /// The table.
    pub table: String,
    /// Their rowids: those above the first number, up to and with the second; `None` is no limit. Not every number need have
    /// been one of a row. Of a table without rowids nothing.
    pub rowids: Vec<(Option<i64>, Option<i64>)>,
    /// How many more parts of the table are lost.
    pub more: u64,
}

/// An index that is not there any more.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// The index.
    pub index: String,
    /// SQLite's error.
    pub why: String,
}

impl Salvaged {
    /// Whether all of the database is there.
    pub fn is_whole(&self) -> bool {
        self.lost_pages == 0 && !self.fell_back
    }
}

/// Writes what is left of a damaged packed file as a plain database. The file is only read.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let (packed, saved) = (place.path().join("packed.db"), place.path().join("saved.db"));
/// # litepack::open(&packed)?.execute_batch("create table t(x)")?;
/// use litepack::{Job, SalvageOptions};
///
/// let found = litepack::salvage(&packed, &saved, &SalvageOptions::default(), &Job::default())?;
/// for lost in &found.tables {
///     eprintln!("{} has lost rows: {:?}", lost.table, lost.rowids);
/// }
/// assert!(found.is_whole());
/// # Ok(()) }
/// ```
///
/// # Errors
/// If nothing can be read: the file is no packed file, the first page of the database is lost, or all that leads to
/// pages, or there are changes beside it that cannot be read. If a copy is of another file, the target exists, or
/// writing fails. Then there is no target.
pub fn salvage(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &SalvageOptions,
    job: &Job<'_>,
) -> Result<Salvaged> {
    register()?;
    let mut source = Source::open(source.as_ref(), false)?;
    source.expect_packed()?;
    source.unlock(job.key())?;
    let target = target.as_ref();
    let spares = spares(&source, target, &options.from)?;
    let target = Replacement::of(target, source.path(), options.replace, job)?;
    source.hold_damaged(&spares, job)?;
    not_applied::tell(source.opened(), job);
    let like = source.rights()?;
    let mut image = Image::read(&source, spares, &target, job)?;
    let mut found = Salvaged {
        pages: image.header.pages.into(),
        lost_pages: image.lost.count,
        damage: std::mem::take(&mut image.damage),
        fell_back: image.fell_back,
        ..Salvaged::default()
    };
    if image.lost.count > 0 {
        let Some(path) = target.beside_path() else {
            refuse!(
                "{} is not a file; salvage to one first",
                target.name().display()
            );
        };
        image.mend(path, &mut found)?;
    }
    job.check()?;
    target.publish(&like, job)?;
    Ok(found)
}

/// Opens the copies.
fn spares(source: &Source, target: &Path, from: &[PathBuf]) -> Result<Vec<Arc<dyn Spare>>> {
    let own = identity(source.file()).with_context(|| cannot_read(source.shown()))?;
    let open = |path: &PathBuf| {
        let copy = path.display();
        if is_same_file(path, source.path()) || is_same_file(path, target) {
            refuse!("{copy} cannot be both a copy and what is salvaged");
        }
        let (file, _) = open_file(path, false)?;
        let other = identity(&file).with_context(|| cannot_read(path))?;
        if other != own {
            let name = source.shown().display();
            refuse!("{copy} is not a copy of {name}: it is another packed file");
        }
        Ok(Arc::new(file) as Arc<dyn Spare>)
    };
    from.iter().map(open).collect()
}

/// Pages that are lost, and not written anew.
#[derive(Default)]
struct LostPages {
    /// First and last of each range, in order.
    ranges: BTreeMap<u32, u32>,
    count: u64,
    written: HashSet<u32>,
}

impl LostPages {
    /// Adds a page behind all others.
    fn add(&mut self, page: u32) {
        self.count += 1;
        match self.ranges.last_entry() {
            Some(mut last) if last.get().checked_add(1) == Some(page) => *last.get_mut() = page,
            _ => drop(self.ranges.insert(page, page)),
        }
    }

    fn contains(&self, page: u32) -> bool {
        let range = self.ranges.range(..=page).next_back();
        range.is_some_and(|(_, last)| page <= *last) && !self.written.contains(&page)
    }
}

/// The database as it is written, with zeros for what is lost.
struct Image<'a> {
    file: &'a File,
    name: &'a Path,
    header: Header,
    lost: LostPages,
    job: &'a Job<'a>,
    damage: Vec<Damage>,
    fell_back: bool,
}

impl<'a> Image<'a> {
    /// Writes every page that can be read.
    fn read(
        source: &Source,
        spares: Vec<Arc<dyn Spare>>,
        target: &'a Replacement,
        job: &'a Job<'a>,
    ) -> Result<Image<'a>> {
        let cannot = || cannot_read(source.shown());
        let options = litepack_store::Options {
            spares,
            ..reader::options(source.unlocked())
        };
        let mut store = reader::open(source.file(), &options).with_context(cannot)?;
        let frames = source.bytes().frames;
        let size = frames.map_or(store.size(), |frames| frames.size());
        let first = frames.map_or(HEADER_LEN as u64, Frames::page_size);
        let mut head = vec![0; usize::try_from(first).unwrap_or(HEADER_LEN)];
        read_page(&mut store, frames, 0, &mut head).with_context(|| {
            format!(
                "{}, and without its first page nothing can be salvaged",
                cannot()
            )
        })?;
        let Some(header) = Header::parse(&head, size) else {
            refuse!("{} has no SQLite database in it", source.shown().display());
        };
        let mut image = Image {
            file: target.file(),
            name: target.name(),
            header,
            lost: LostPages::default(),
            job,
            damage: Vec::new(),
            fell_back: store.fell_back(),
        };
        if image.header.pages > PAGES_MAX {
            refuse!("{} pages are too many to be salvaged", image.header.pages);
        }
        let seq = store.seq();
        let cannot_write = || cannot_write(target.name());
        Storage::truncate(target.file(), size).with_context(cannot_write)?;
        job.shares(&[("salvaging", 2.0), ("syncing", 1.0)]);
        let step = job.bytes("salvaging", size);
        let mut buf = vec![0; reader::CHUNK as usize];
        for start in (0..size).step_by(reader::CHUNK as usize) {
            job.check()?;
            let len = reader::CHUNK.min(size - start);
            let buf = &mut buf[..len as usize];
            if !is_read(reader::read(&mut store, frames, start, buf)).with_context(cannot)? {
                image.read_pages(&mut store, source, start, buf)?;
            }
            // The file has zeros there.
            if buf.iter().any(|byte| *byte != 0) {
                Storage::write_at(target.file(), buf, start).with_context(cannot_write)?;
            }
            step.add(len);
        }
        if frames.is_none() && store.seq() != seq || !source.is_unchanged()? {
            refuse!(
                "{} was changed while it was read; close it everywhere",
                source.shown().display()
            );
        }
        Ok(image)
    }

    /// Reads the pages of a part of the database one by one.
    fn read_pages(
        &mut self,
        store: &mut Store<&File>,
        source: &Source,
        start: u64,
        buf: &mut [u8],
    ) -> Result<()> {
        let frames = source.bytes().frames;
        let size = u64::from(self.header.page_size);
        for (at, page) in (0..).zip(buf.chunks_mut(self.header.page_size as usize)) {
            self.job.check()?;
            let offset = start + at * size;
            let Err(error) = read_page(store, frames, offset, page) else {
                continue;
            };
            if !is_lost(&error) {
                return Err(error).with_context(|| cannot_read(source.shown()));
            }
            page.fill(0);
            if self.damage.len() < LISTED_MAX {
                self.damage.push(damage_of(error, offset / size + 1));
            }
            if let Ok(page) = u32::try_from(offset / size + 1) {
                self.lost.add(page);
            }
        }
        Ok(())
    }

    /// Makes a sound database of it, which has this name for now.
    fn mend(&mut self, path: &Path, found: &mut Salvaged) -> Result<()> {
        let cannot = || cannot_write(self.name);
        // Of a file in WAL mode SQLite would make a WAL.
        let mut how = [0; 2];
        ReadAt::read_at(self.file, &mut how, WRITTEN_HOW).with_context(cannot)?;
        Storage::write_at(self.file, &[1, 1], WRITTEN_HOW).with_context(cannot)?;
        let without = tables_without_rowids(path);
        let header = self.header.clone();
        let mended = mend(&header, self, &mut |table: &Tree| {
            !without.contains(&table.name)
        })?;
        let mut indexes = mended.indexes.clone();
        if mended
            .tables
            .iter()
            .any(|loss| loss.table.root == PageNumber::FIRST)
        {
            // What was lost is free or written anew, and SQLite may use it.
            self.lost = LostPages::default();
            self.mend_schema(path)?;
            // What was named no more is free now.
            let header = self.header_now()?;
            indexes.extend(mend(&header, self, &mut |_: &Tree| true)?.indexes);
        }
        let done = self.use_sqlite(path, &indexes, found);
        found.take(mended);
        done?;
        Storage::write_at(self.file, &how, WRITTEN_HOW).with_context(|| cannot_write(self.name))
    }

    /// Takes indexes and triggers out of a schema that has lost their tables: SQLite would refuse it. Of tables without
    /// rowids that have lost all, the roots are made what they should be: what they are could not be read before.
    fn mend_schema(&mut self, path: &Path) -> Result<()> {
        let failed = |error| Error::of_sqlite(self.name, error);
        let roots = || -> rusqlite::Result<Vec<u32>> {
            let db = writable(path)?;
            db.execute_batch(
                "pragma writable_schema = on;
                 delete from sqlite_schema where type in ('index', 'trigger') and lower(tbl_name) not in
                   (select lower(name) from sqlite_schema where type in ('table', 'view'));
                 pragma writable_schema = reset;",
            )?;
            let sql =
                "select rootpage from sqlite_schema s join pragma_table_list l on l.name = s.name
                       where s.type = 'table' and l.schema = 'main' and l.wr";
            let mut roots = db.prepare(sql)?;
            let rows = roots.query_map([], |row| row.get(0))?;
            rows.collect()
        };
        let roots = roots().map_err(failed)?;
        let mut page = vec![0; self.header.page_size as usize];
        for root in roots.into_iter().filter_map(PageNumber::new) {
            // An empty leaf of a table with rowids.
            if self.read(root, &mut page)?
                && page.starts_with(&[PageKind::TableLeaf as u8, 0, 0, 0, 0])
            {
                page[..1].copy_from_slice(&[PageKind::IndexLeaf as u8]);
                self.write(root, &page)?;
            }
        }
        Ok(())
    }

    /// The header as it is by now.
    fn header_now(&self) -> Result<Header> {
        let cannot = || cannot_write(self.name);
        let mut head = [0; HEADER_LEN];
        ReadAt::read_at(self.file, &mut head, 0).with_context(cannot)?;
        let len = ReadAt::len(self.file).with_context(cannot)?;
        match Header::parse(&head, len) {
            Some(header) => Ok(header),
            None => refuse!("{} has no header any more", self.name.display()),
        }
    }

    /// Has SQLite make indexes anew, and look at all.
    fn use_sqlite(&self, path: &Path, indexes: &[Tree], found: &mut Salvaged) -> Result<()> {
        let (job, failed) = (self.job, |error| Error::of_sqlite(self.name, error));
        let db = writable(path).map_err(failed)?;
        let _interrupts = job.interrupts(&db);
        for index in indexes {
            let name = quote(&index.name);
            job.check()?;
            let Err(error) = db.execute_batch(&format!("reindex main.{name}")) else {
                found.indexes.push(index.name.clone());
                continue;
            };
            job.check()?;
            // It may need a function or a collation of the program's. A full disk is another matter.
            if !matches!(error.sqlite_error_code(), None | Some(ErrorCode::Unknown)) {
                return Err(failed(error));
            }
            let left_out = LeftOut {
                index: index.name.clone(),
                why: error.to_string(),
            };
            match db.execute_batch(&format!("drop index main.{name}")) {
                Ok(()) => found.left_out.push(left_out),
                // One of a constraint cannot go.
                Err(_) => found.empty.push(left_out),
            }
        }
        let check = format!("pragma main.integrity_check({PROBLEMS_MAX})");
        let problems = db.prepare(&check).and_then(|mut check| {
            let rows = check.query_map([], |row| row.get::<_, String>(0))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        job.check()?;
        found.problems = problems.unwrap_or_else(|error| vec![error.to_string()]);
        found.problems.retain(|problem| problem != "ok");
        Ok(())
    }
}

/// Opens the new database, to be changed as a whole or thrown away.
fn writable(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    distrust(&db)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)?;
    // What is written are new pages, of which a journal has nothing. With this a schema that does not fit is no error yet.
    db.execute_batch(
        "pragma writable_schema = on; pragma synchronous = off; pragma journal_mode = memory;
         pragma writable_schema = off",
    )?;
    Ok(db)
}

/// Reads a page, in its newest version or not at all.
fn read_page(
    store: &mut Store<&File>,
    frames: Option<&Frames>,
    offset: u64,
    page: &mut [u8],
) -> litepack_store::Result<()> {
    // Once more, as it may pass.
    let read = reader::read(store, frames, offset, page);
    let read = read.or_else(|_| reader::read(store, frames, offset, page));
    let Some(frames) = frames.filter(|frames| frames.has_page(offset)) else {
        return read.map(drop);
    };
    if read.is_ok() {
        return Ok(());
    }
    // The one in the file may be damaged, which the log's covers.
    page.fill(0);
    let Err(why) = frames.lay_over(offset, page) else {
        return Ok(());
    };
    // The one in the file may be the log's.
    page.fill(0);
    let is_whole = is_read(store.read(offset, page))?;
    if is_whole && frames.is_page(offset, page).unwrap_or(false) {
        return Ok(());
    }
    Err(why.into())
}

/// Why a page of this number is lost.
fn damage_of(error: StoreError, number: u64) -> Damage {
    let of_log = match &error {
        StoreError::Damaged(damage) => return damage.clone().into(),
        StoreError::Io(error) => LogDamage::met(error),
        _ => None,
    };
    of_log.map_or_else(
        || {
            let (what, why) = (format!("page {number}"), error.to_string());
            let line = format!("{what}: {why}");
            Damage::new(what, 0, why, line)
        },
        Damage::from,
    )
}

/// Whether a part was read; other errors than damage stay errors.
fn is_read(read: litepack_store::Result<usize>) -> litepack_store::Result<bool> {
    match read {
        Ok(_) => Ok(true),
        Err(error) if is_lost(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether this is how a page is lost: by damage, or as the disk does not give it.
fn is_lost(error: &StoreError) -> bool {
    match error {
        StoreError::Damaged(_) => true,
        StoreError::Io(error) => !matches!(
            error.kind(),
            ErrorKind::OutOfMemory | ErrorKind::Interrupted
        ),
        _ => false,
    }
}

impl Pages for Image<'_> {
    type Error = Error;

    fn read(&mut self, page: PageNumber, buf: &mut [u8]) -> Result<bool> {
        let offset = page.start(self.header.page_size);
        let n = ReadAt::read_at(self.file, buf, offset).with_context(|| cannot_write(self.name))?;
        if let Some(beyond) = buf.get_mut(n..) {
            beyond.fill(0);
        }
        self.job.check()?;
        Ok(!self.lost.contains(page.get()))
    }

    fn write(&mut self, page: PageNumber, bytes: &[u8]) -> Result<()> {
        let offset = page.start(self.header.page_size);
        if self.lost.contains(page.get()) {
            self.lost.written.insert(page.get());
        }
        Storage::write_at(self.file, bytes, offset).with_context(|| cannot_write(self.name))
    }
}

/// The tables without rowids, as far as SQLite can read the schema.
fn tables_without_rowids(path: &Path) -> HashSet<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let names = || -> rusqlite::Result<HashSet<String>> {
        let db = Connection::open_with_flags(path, flags)?;
        distrust(&db)?;
        let sql = "select name from pragma_table_list where schema = 'main' and wr";
        let mut tables = db.prepare(sql)?;
        let rows = tables.query_map([], |row| row.get(0))?;
        rows.collect()
    };
    names().unwrap_or_default()
}

impl Salvaged {
    fn take(&mut self, mended: Mended) {
        self.unassigned_pages = mended.unassigned;
        self.had_auto_vacuum = mended.had_auto_vacuum;
        let limits = |rows: &RowidRange| (rows.after, rows.to);
        let tables = mended.tables.into_iter().map(|loss| LostRows {
            rowids: loss.rows.iter().map(limits).collect(),
            table: loss.table.name,
            more: loss.more,
        });
        self.tables.extend(tables);
    }
}
