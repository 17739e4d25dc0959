//! One transaction: lines become rows, and how far the source was read goes with them. Nothing is read within it, so
//! the database is locked no longer than that takes.

use std::time::{Duration, Instant};

use rusqlite::TransactionBehavior;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::format::Format;
use super::input::Filled;
use super::row::{Columns, Row, Value};
use super::source::Source;
use super::{Session, now, now_text, tables};
use crate::Result;
use crate::error::refuse;

/// So many lines go into a transaction,
const LINES: u64 = 10_000;
/// and a stream is read for so long before it is committed what came.
const PERIOD: Duration = Duration::from_secs(1);

/// What a transaction did.
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
                    ended = true;
                    break;
                }
                // What was read before the damage counts.
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
        match &self.options.format {
            Some(name) if known != Some(name) => return source.set_format(name),
            _ if known.is_some() => return Ok(()),
            _ => {}
        }
        let pending = source.lines.pending();
        let Some(end) = memchr::memrchr(b'\n', pending) else {
            if ended && !pending.is_empty() && !source.input.is_plain() {
                let name = Format::detect(std::iter::once(pending), now());
                return match name {
                    Some(name) => source.set_format(name),
                    None => unknown(source),
                };
            }
            if ended && source.lines.is_long() && !source.input.is_plain() {
                return unknown(source);
            }
            // A first line that is too long tells nothing, and has to make room for the next one.
            if pending.len() > self.options.max_line {
                source.lines.has_line();
            }
            return Ok(());
        };
        let most = self.options.max_line;
        let lines = pending[..end]
            .split(|b| *b == b'\n')
            .skip(usize::from(source.lines.is_long()))
            .filter(|line| line.len() <= most)
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
        if lines.is_empty() && !ended && !source.lines.is_full() {
            return Ok(());
        }
        match Format::detect(lines.into_iter(), now()) {
            Some(name) => source.set_format(name),
            None => unknown(source),
        }
    }

    /// Stores up to [`LINES`] lines that were read. False if there are no more.
    fn store_batch(&mut self, source: &mut Source, complete: bool) -> Result<bool> {
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
        let [lines, unparsed, cut] = [0, 1, 2].map(|at: usize| source.counted[at] - before[at]);
        self.report.lines += lines;
        self.report.unparsed += unparsed;
        self.report.cut += cut;
        self.report.rows += lines - unparsed;
        self.step.add(source.lines.offset() - offset);
        Ok(true)
    }

    fn transaction(&mut self, source: &mut Source, complete: bool) -> rusqlite::Result<Stored> {
        // The lock is not taken for nothing.
        let is_there = source.lines.has_line() || complete && source.lines.half() > 0;
        if !is_there {
            return Ok(Stored::Nothing);
        }
        let (now, read_at) = (now(), now_text());
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
            if source.header.is_none() {
                match format.takes_header(line.bytes) {
                    Ok(false) => {}
                    Ok(true) if line.is_cut() => return Ok(Stored::NoHeader("it is too long")),
                    Ok(true) => {
                        source.header = Some(line.bytes.to_vec());
                        continue;
                    }
                    Err(why) => return Ok(Stored::NoHeader(why)),
                }
            }
            source.counted[0] += 1;
            let row = match line.is_cut() {
                true => Err("too long"),
                false => parse(format, line.bytes, columns, now, id),
            };
            match row {
                Ok(values) => {
                    if !columns.missing().is_empty() {
                        drop(insert);
                        tables::create(&transaction, table, columns)?;
                        insert = transaction.prepare_cached(&tables::insert(table, columns))?;
                    }
                    for index in 0..columns.names().len() {
                        let value = values.get(index).and_then(Option::as_ref);
                        insert.raw_bind_parameter(index + 1, value.unwrap_or(&Value::Null))?;
                    }
                    insert.raw_execute()?;
                }
                Err(why) => {
                    source.counted[1] += 1;
                    source.counted[2] += u64::from(line.is_cut());
                    let mut insert = transaction.prepare_cached(
                        "insert into main.litepack_unparsed(source_id, offset, length, line, why, read_at) \
                         values (?1, ?2, ?3, ?4, ?5, ?6)",
                    )?;
                    let line_value = Value::text(line.bytes);
                    insert.execute(rusqlite::params![
                        id,
                        line.offset.cast_signed(),
                        line.length.cast_signed(),
                        line_value,
                        why,
                        read_at
                    ])?;
                }
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

fn unknown(source: &Source) -> Result<()> {
    refuse!(
        "cannot tell the format of {} from its first lines; name it with --format",
        source.path.display()
    )
}

fn parse<'a>(
    format: &mut Format,
    line: &'a [u8],
    columns: &mut Columns,
    now: i64,
    source: i64,
) -> std::result::Result<Vec<Option<Value<'a>>>, &'static str> {
    let mut row = Row::default();
    format.parse(line, &mut row, columns, now)?;
    row.finish(source, columns.keeps_json())
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
