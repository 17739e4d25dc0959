//! One transaction: lines become rows, and how far the source was read goes with them. Nothing is read within it, so
//! the database is locked no longer than that takes.

use std::time::{Duration, Instant};

use litepack_database::Result;
use litepack_database::error::refuse;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Statement, TransactionBehavior};

use super::format::Taken;
use super::format::detect::{self, Choice};
use super::input::Filled;
use super::lines::{Line, pieces};
use super::row::{Columns, Row, Value};
use super::source::Source;
use super::{Session, now, now_text, tables};

/// So many lines go into a transaction,
const LINES: u64 = 10_000;
/// and a stream is read for so long before it is committed what came.
const PERIOD: Duration = Duration::from_secs(1);

/// The result of a transaction.
enum Stored {
    Lines,
    /// There was no line.
    Nothing,
    /// Nothing: another program stored lines of this source meanwhile.
    Overtaken,
    /// Nothing: the line with the names cannot be read, and why. The next line must not be taken for it.
    NoHeader(&'static str),
}

impl Session<'_> {
    /// Reads a source to its end.
    pub(super) fn read_to_end(&mut self, source: &mut Source) -> Result<()> {
        while self.read_on(source)? {}
        Ok(())
    }

    /// Reads what is there, up to a batch, and stores it. False at the end.
    pub(super) fn read_on(&mut self, source: &mut Source) -> Result<bool> {
        self.job.check()?;
        let started = Instant::now();
        let mut ended = false;
        let mut failed = None;
        while !source.lines.is_full() && started.elapsed() < PERIOD {
            self.job.check()?;
            match source.lines.fill(&mut source.input) {
                Ok(Filled::Bytes | Filled::Waiting) => {}
                Ok(Filled::End) => {
                    source.lines.give_back(&mut source.input);
                    ended = true;
                    break;
                }
                // Lines read before the damage count.
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // The last line of a compressed file or a stream is complete without a newline.
        let complete = ended && !source.input.is_plain();
        self.choose_format(source, ended || failed.is_some())?;
        while source.format.is_some() && self.store_batch(source, complete)? {
            self.job.check()?;
        }
        if ended {
            source.lines.shrink();
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(!ended),
        }
    }

    fn choose_format(&mut self, source: &mut Source, ended: bool) -> Result<()> {
        let known = source.format.as_ref().map(|(name, _)| name);
        let named = self.options.format.as_ref();
        if known.is_some() && (named.is_none() || named == known) {
            return Ok(());
        }
        source.lines.skip_hole();
        let pending = source.lines.pending();
        let all_read = ended && !source.input.is_plain();
        let end = match memchr::memrchr(b'\n', pending) {
            Some(end) => end,
            // The only line of a source that is complete without an end.
            None if all_read && !source.lines.is_long() => pending.len(),
            None => 0,
        };
        let most = self.options.max_line;
        let lines = pending
            .get(..end)
            .unwrap_or_default()
            .split(|b| *b == b'\n')
            .skip(usize::from(source.lines.is_long()))
            .flat_map(pieces);
        let lines: Vec<&[u8]> = lines
            .filter(|line| !line.is_empty() && line.len() <= most)
            .collect();
        if lines.is_empty() && named.is_none() {
            // A first line that is too long tells nothing, and has to make room for the next one.
            let long = source.lines.is_long() || pending.len() > most;
            if long && !all_read {
                source.lines.has_line();
                return Ok(());
            }
            // A source that is full of empty lines alone.
            let full = end > 0 && source.lines.is_full();
            if !long && !full {
                return Ok(());
            }
        }
        let choice = match named {
            // A file that goes on was looked at before.
            Some(name) if lines.is_empty() || source.id.is_some() => Choice {
                name: name.clone(),
                fits: [0, 0],
                doubt: None,
            },
            Some(name) => match detect::check(name, lines.into_iter(), now()) {
                Some(choice) => choice,
                None => return source.set_format(name, true),
            },
            None => match detect::detect(lines.into_iter(), now()) {
                Ok(choice) => choice,
                Err(why) => refuse!(
                    "cannot tell the format of {}: {why}; name it with --format",
                    source.path.display()
                ),
            },
        };
        source.set_format(&choice.name, named.is_some())?;
        source.fits = Some(choice.fits);
        if let Some(doubt) = choice.doubt {
            let (path, name) = (source.path.display(), &choice.name);
            self.job
                .warn(&format!("{path}: the format '{name}' {doubt}"));
            source.doubt = Some(doubt);
        }
        Ok(())
    }

    /// Stores up to [`LINES`] lines that were read. False if there are no more.
    fn store_batch(&mut self, source: &mut Source, complete: bool) -> Result<bool> {
        // The lock is not taken for nothing, and no database made.
        if !source.has_more(complete) {
            return Ok(false);
        }
        self.settle()?;
        let before = source.counted;
        let offset = source.lines.offset();
        match self.transaction(source, complete) {
            Ok(Stored::Lines) => {}
            Ok(Stored::Nothing) => return Ok(false),
            Ok(Stored::Overtaken) => refuse!(
                "another program reads {} into this database",
                source.path.display()
            ),
            Ok(Stored::NoHeader(why)) => {
                source.counted = before;
                refuse!(
                    "the first line of {} has to have the names of its columns, and cannot be read: {why}",
                    source.path.display()
                )
            }
            Err(error) => {
                source.counted = before;
                return Err(self.sqlite(error));
            }
        }
        let [lines, unparsed, cut, rows] =
            [0, 1, 2, 3].map(|at: usize| source.counted[at] - before[at]);
        self.report.lines += lines;
        self.report.unparsed += unparsed;
        self.report.cut += cut;
        self.report.rows += rows;
        self.step.add(source.lines.offset() - offset);
        Ok(true)
    }

    fn transaction(&mut self, source: &mut Source, complete: bool) -> rusqlite::Result<Stored> {
        let (now, read_at) = (now(), now_text());
        self.bind()?;
        let (table, columns) = (&self.options.table, &mut self.columns);
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let id = match source.id {
            Some(id) => {
                if !Source::is_current(&transaction, id, source.stored)? {
                    return Ok(Stored::Overtaken);
                }
                id
            }
            None => {
                if source.is_taken(&transaction)? {
                    return Ok(Stored::Overtaken);
                }
                let new =
                    "insert into main.litepack_sources(offset, lines, unparsed) values (0, 0, 0)";
                transaction.execute(new, [])?;
                transaction.last_insert_rowid()
            }
        };
        // The next statements go straight to where a row belongs.
        self.bound.lift();
        let before = source.counted;
        let Some((_, format)) = &mut source.format else {
            return Ok(Stored::Nothing);
        };
        let mut insert = transaction.prepare_cached(&tables::insert(table, columns))?;
        while source.counted[0] - before[0] < LINES {
            let line = match source.lines.next() {
                Some(line) => line,
                None if complete => match source.lines.rest() {
                    Some(line) => line,
                    None => break,
                },
                None => break,
            };
            if line.bytes.is_empty() {
                continue;
            }
            match format.takes_header(line.bytes) {
                Ok(false) => {}
                Ok(true) if line.is_cut() => return Ok(Stored::NoHeader("it is too long")),
                Ok(true) => continue,
                Err(why) => return Ok(Stored::NoHeader(why)),
            }
            let mut row = Row::default();
            let taken = match line.is_cut() {
                true => {
                    format.misses(line.bytes);
                    Err("too long")
                }
                false => format.parse(line.bytes, &mut row, columns, now),
            };
            let values = match taken {
                Ok(Taken::Names) => continue,
                Ok(Taken::Part) => {
                    source.counted[0] += 1;
                    continue;
                }
                Ok(Taken::Row | Taken::Other) => row.finish(id, columns.keeps_json()),
                Err(why) => Err(why),
            };
            source.counted[0] += 1;
            match values {
                Ok(values) => {
                    if !columns.missing().is_empty() {
                        drop(insert);
                        tables::create(&transaction, table, columns)?;
                        insert = transaction.prepare_cached(&tables::insert(table, columns))?;
                    }
                    store_row(&mut insert, columns, &values)?;
                    source.counted[3] += 1;
                }
                Err(why) => {
                    source.counted[1] += 1;
                    source.counted[2] += u64::from(line.is_cut());
                    store_unparsed(&transaction, id, &line, why, &read_at)?;
                }
            }
        }
        // Nothing follows any more that could belong to what is kept.
        while complete && source.lines.half() == 0 {
            let mut row = Row::default();
            let Some(taken) = format.rest(&mut row, columns) else {
                break;
            };
            if taken.is_ok()
                && let Ok(values) = row.finish(id, columns.keeps_json())
            {
                drop(insert);
                tables::create(&transaction, table, columns)?;
                insert = transaction.prepare_cached(&tables::insert(table, columns))?;
                store_row(&mut insert, columns, &values)?;
                source.counted[3] += 1;
            }
        }
        drop(insert);
        let [lines, unparsed] = [0, 1].map(|at: usize| source.counted[at] - before[at]);
        source.store(&transaction, id, [lines, unparsed], &read_at)?;
        transaction.commit()?;
        source.id = Some(id);
        source.stored = source.lines.offset();
        Ok(Stored::Lines)
    }
}

fn store_row(
    insert: &mut Statement<'_>,
    columns: &Columns,
    values: &[Option<Value<'_>>],
) -> rusqlite::Result<()> {
    for index in 0..columns.names().len() {
        let value = values.get(index).and_then(Option::as_ref);
        insert.raw_bind_parameter(index + 1, value.unwrap_or(&Value::Null))?;
    }
    insert.raw_execute().map(drop)
}

fn store_unparsed(
    connection: &Connection,
    source: i64,
    line: &Line<'_>,
    why: &str,
    read_at: &str,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "insert into main.litepack_unparsed(source_id, offset, length, line, why, read_at) \
         values (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let (offset, length) = (line.offset.cast_signed(), line.length.cast_signed());
    let text = Value::text(line.raw);
    insert.execute(rusqlite::params![
        source, offset, length, text, why, read_at
    ])?;
    Ok(())
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(integer) => ValueRef::Integer(*integer),
            Value::Real(real) => ValueRef::Real(*real),
            Value::Text(text) => match std::str::from_utf8(text).is_ok() && !text.contains(&0) {
                true => ValueRef::Text(text),
                false => ValueRef::Blob(text),
            },
        }))
    }
}
