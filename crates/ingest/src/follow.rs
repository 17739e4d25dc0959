//! Goes on as files grow. A file that was renamed is read on for a while, as its writer may not know yet; the new one
//! of its name is opened beside it. One that was truncated begins anew.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use litepack_database::{Error, Result};

use super::lines::MARK;
use super::source::{Identity, Source, absolute, identity, rename, rotated};
use super::{Session, expand};

/// How often files are looked at.
const POLL: Duration = Duration::from_millis(200);
/// For so long a file is read on after it lost its name.
const RETIRED: Duration = Duration::from_secs(60);
/// How often old rows are deleted.
const EXPIRE: Duration = Duration::from_secs(60);

/// A file as it was at a look: which one, its length, and when it was changed (seconds and nanoseconds).
type State = (Identity, u64, i64, i64);

/// Files that cannot be read, and are not tried again until they change or another file has the name.
type Failed = HashMap<PathBuf, Option<State>>;

fn state(path: &Path) -> Option<State> {
    let now = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
    Some((identity(&now), now.len(), now.mtime(), now.mtime_nsec()))
}

struct Followed {
    source: Source,
    known: u64,
    /// Since when its name belongs to another file.
    retired: Option<Instant>,
    ended: bool,
}

impl Followed {
    fn new(source: Source) -> Followed {
        Followed {
            known: source.stored,
            source,
            retired: None,
            ended: false,
        }
    }
}

impl Session<'_> {
    /// Reads sources until it is stopped, or until streams alone have ended.
    pub(super) fn follow(&mut self, patterns: &[&Path]) -> Result<()> {
        let mut followed: Vec<Followed> = Vec::new();
        let mut failed = Failed::new();
        let mut expired: Option<Instant> = None;
        let mut told = false;
        let end = loop {
            if let Err(error) = self.job.check() {
                break Err(error);
            }
            if let Err(error) = self.look(patterns, &mut followed, &mut failed) {
                break Err(error);
            }
            match self.read_followed(&mut followed, &mut failed) {
                Err(error) => break Err(error),
                Ok(true) => {}
                Ok(false) => {
                    let streams = followed
                        .iter()
                        .all(|one| one.source.identity.is_none() && one.ended);
                    if streams && !followed.is_empty() {
                        break Ok(());
                    }
                    std::thread::sleep(POLL);
                }
            }
            // There is a log, though it may be empty.
            if !followed.is_empty() {
                self.settle()?;
            }
            if self.kind == super::Kind::File && expired.is_none_or(|at| at.elapsed() > EXPIRE) {
                match self.tidy() {
                    Ok(()) => {}
                    // A column may still come; its index waits for it.
                    Err(error @ Error::Refused(_)) => {
                        if !std::mem::replace(&mut told, true) {
                            self.job.warn(&format!("{} yet", error.in_one_line()));
                        }
                    }
                    // Another program writes; the next time does it.
                    Err(Error::InUse { .. }) => {}
                    Err(error) => break Err(error),
                }
                expired = Some(Instant::now());
            }
        };
        for one in &followed {
            self.note(&one.source, one.known, Ok(()))?;
        }
        end
    }

    /// Opens files that are new, also under a name that is followed.
    fn look(
        &mut self,
        patterns: &[&Path],
        followed: &mut Vec<Followed>,
        failed: &mut Failed,
    ) -> Result<()> {
        let mut paths = Vec::new();
        for pattern in patterns {
            // A pattern may match nothing yet.
            paths.extend(expand(&[pattern]).unwrap_or_default());
        }
        for (path, is_named) in self.with_renamed(paths)? {
            let seen = state(&path);
            let now = seen.map(|(now, ..)| now);
            let stream = path.as_os_str() == "-" || (now.is_none() && path.exists());
            if followed.iter().any(|one| one.source.path == path && stream) {
                continue;
            }
            if !stream {
                let Some(now) = now else { continue };
                for one in followed.iter_mut().filter(|one| one.source.path == path) {
                    if one.source.identity != Some(now) && one.retired.is_none() {
                        one.retired = Some(Instant::now());
                    }
                }
                if let Some(one) = followed
                    .iter_mut()
                    .find(|one| one.source.identity == Some(now))
                {
                    if let Some(id) = one.source.id {
                        rename(&self.connection, id, &absolute(&one.source.path), &path);
                    }
                    one.source.path = path;
                    continue;
                }
            }
            if failed.get(&path) == Some(&seen) {
                continue;
            }
            let opened = self.open_source(&path);
            if opened.is_ok() && failed.remove(&path).is_some() {
                self.forgive(&path);
            }
            match opened {
                // It is not the file that was renamed.
                Ok(source) if !is_named && source.id.is_none() => {}
                // The same content under another name, which is still followed: compressed, or copied before it is
                // truncated.
                Ok(source)
                    if source.id.is_some()
                        && followed.iter().any(|one| one.source.id == source.id) =>
                {
                    let same = followed.iter().position(|one| one.source.id == source.id);
                    if let Some(one) = same.and_then(|at| followed.get_mut(at))
                        && !one.source.is_unchanged()
                    {
                        // It was copied, and is truncated now: the copy has the rest.
                        *one = Followed::new(source);
                    } else if !source.input.is_plain() {
                        failed.insert(path, seen);
                    }
                }
                Ok(source) => followed.push(Followed::new(source)),
                Err(error) => self.fails(&path, seen, failed, error)?,
            }
        }
        followed.retain(|one| one.retired.is_none_or(|at| at.elapsed() < RETIRED));
        Ok(())
    }

    /// Notes that a file cannot be read now. A copy that is slow fails at many looks, and is told once.
    fn fails(
        &mut self,
        path: &Path,
        seen: Option<State>,
        failed: &mut Failed,
        error: Error,
    ) -> Result<()> {
        if failed.insert(path.to_owned(), seen).is_none() {
            self.job.warn(&error.in_one_line());
        }
        self.forgive(path);
        self.failed(path, error)
    }

    /// Takes errors of a file back.
    fn forgive(&mut self, path: &Path) {
        let path = path.display().to_string();
        for source in &mut self.report.sources {
            if source.path == path {
                source.error = None;
            }
        }
        self.report
            .sources
            .retain(|source| source.path != path || source.format.is_some());
    }

    /// Reads what is new. False if nothing was.
    fn read_followed(&mut self, followed: &mut Vec<Followed>, failed: &mut Failed) -> Result<bool> {
        let mut any = false;
        let mut at = 0;
        while let Some(one) = followed.get_mut(at) {
            at += 1;
            let stream = one.source.identity.is_none();
            if one.ended && (stream || !one.source.input.is_plain()) {
                continue;
            }
            if !one.source.is_unchanged() {
                // Truncated, or written anew: what is there now is opened again under its name.
                at -= 1;
                let gone = followed.remove(at);
                self.note(&gone.source, gone.known, Ok(()))?;
                any = true;
                continue;
            }
            let seen =
                state(&one.source.path).filter(|(now, ..)| one.source.identity == Some(*now));
            // Little was there when it was opened: by now it may show that it is a copy of a known file, or compressed.
            if one.source.id.is_none() && one.source.lines.half() < MARK as u64 && seen.is_some() {
                let again = self.open_source(&one.source.path);
                let path = one.source.path.clone();
                let again = match again {
                    Err(error @ (Error::Sqlite { .. } | Error::Interrupted { .. })) => {
                        return Err(error);
                    }
                    Err(error) => {
                        self.fails(&path, seen, failed, error)?;
                        at -= 1;
                        followed.remove(at);
                        continue;
                    }
                    Ok(again) => again,
                };
                let double =
                    again.id.is_some() && followed.iter().any(|one| one.source.id == again.id);
                if double {
                    at -= 1;
                    followed.remove(at);
                    continue;
                }
                let Some(one) = followed.get_mut(at - 1) else {
                    continue;
                };
                one.known = again.stored;
                one.source = again;
            }
            let Some(one) = followed.get_mut(at - 1) else {
                continue;
            };
            let before = one.source.counted[0];
            match self.read_on(&mut one.source) {
                Ok(more) => {
                    one.ended = !more;
                    if one.ended {
                        one.source.input.close();
                    }
                }
                // A reader or another writer takes its time. The rows were not stored, so they are read again.
                Err(error @ Error::InUse { .. }) => {
                    let streams = followed.iter().any(|one| one.source.identity.is_none());
                    if streams {
                        return Err(error);
                    }
                    self.job.warn(&error.in_one_line());
                    for gone in std::mem::take(followed) {
                        self.note(&gone.source, gone.known, Ok(()))?;
                    }
                    self.reload()?;
                    return Ok(false);
                }
                Err(error @ (Error::Sqlite { .. } | Error::Interrupted { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    self.job.warn(&error.in_one_line());
                    at -= 1;
                    let gone = followed.remove(at);
                    failed.insert(gone.source.path.clone(), seen);
                    self.note(&gone.source, gone.known, Err(error))?;
                    continue;
                }
            }
            any |= one.source.counted[0] > before || !one.ended;
        }
        Ok(any)
    }

    /// These paths, and before them the files that had their names when they were read last: the rest of such a path
    /// belongs to its new file. With each goes whether it is one of the paths.
    pub(super) fn with_renamed(&self, paths: Vec<PathBuf>) -> Result<Vec<(PathBuf, bool)>> {
        let mut renamed = self.renamed(&paths)?;
        renamed.retain(|path| !paths.contains(path));
        let renamed = renamed.into_iter().map(|path| (path, false));
        let paths = paths.into_iter().map(|path| (path, true));
        Ok(renamed.chain(paths).collect())
    }

    /// Files that were renamed between two runs or two looks, as rotation does: the database knows their inode under a
    /// name that belongs to another file now.
    fn renamed(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let mut renamed = Vec::new();
        for path in paths {
            let known = || -> rusqlite::Result<Vec<Identity>> {
                self.bind()?;
                let sql = "select device, inode from main.litepack_sources where path = ?1 and inode is not null";
                let mut statement = self.connection.prepare_cached(sql)?;
                let rows = statement.query_map([absolute(path).to_string_lossy()], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?;
                rows.collect()
            };
            let mut known = known().map_err(|error| self.sqlite(error))?;
            let own = std::fs::metadata(path).ok().map(|own| identity(&own));
            known.retain(|known| own != Some(*known));
            if known.is_empty() {
                continue;
            }
            renamed.extend(rotated(path).into_iter().filter(|other| {
                std::fs::metadata(other).is_ok_and(|other| known.contains(&identity(&other)))
            }));
        }
        Ok(renamed)
    }
}
