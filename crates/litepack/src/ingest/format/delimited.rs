//! CSV and TSV. The first line of a source has the names. A record is a line: one whose quoted value goes on in the
//! next line is not parsed.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

use super::{Parsed, put};
use crate::ingest::row::{Columns, Row, Value};

/// More fields are not parsed.
const FIELDS_MAX: usize = 2000;

/// The format, with the names once they are known.
pub(in crate::ingest) struct Delimited {
    reader: Reader,
    header: Vec<String>,
}

impl Delimited {
    pub(super) fn new(delimiter: u8) -> Delimited {
        Delimited {
            // A line is one record, also where it has a carriage return in it.
            reader: ReaderBuilder::new()
                .delimiter(delimiter)
                .terminator(Terminator::Any(b'\n'))
                .build(),
            header: Vec::new(),
        }
    }

    pub(super) fn lacks_header(&self) -> bool {
        self.header.is_empty()
    }

    /// Whether a line has at least two names, each of its own, and no numbers.
    pub(super) fn looks_like_header(&mut self, line: &[u8]) -> bool {
        let Ok(fields) = self.split(line) else {
            return false;
        };
        let name = |field: &Vec<u8>| {
            let first = field
                .first()
                .is_some_and(|b| b.is_ascii_alphabetic() || b"_@#".contains(b));
            let is_text = std::str::from_utf8(field).is_ok() && !field.contains(&b'\r');
            first && field.len() < 64 && is_text
        };
        let mut names = fields.clone();
        names.sort();
        names.dedup();
        fields.len() > 1 && names.len() == fields.len() && fields.iter().all(name)
    }

    pub(super) fn set_header(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let names = self.split(line)?;
        if names.iter().any(|name| name.contains(&b'\r')) {
            return Err("its lines end with a carriage return alone");
        }
        let names = names.into_iter();
        let names = names.map(|name| String::from_utf8(name).map_err(|_| "a name is not UTF-8"));
        self.header = names.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn split(&mut self, line: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
        self.reader.reset();
        let mut record = line.to_vec();
        record.push(b'\n');
        let mut bytes = vec![0; record.len()];
        let mut ends = vec![0; record.len().min(FIELDS_MAX)];
        let (result, _, _, count) = self.reader.read_record(&record, &mut bytes, &mut ends);
        match result {
            ReadRecordResult::Record => {}
            ReadRecordResult::OutputEndsFull => return Err("too many fields"),
            _ => return Err("a quote is not closed"),
        }
        let mut start = 0;
        let fields = ends[..count].iter().map(|end| {
            let field = bytes[start..*end].to_vec();
            start = *end;
            field
        });
        Ok(fields.collect())
    }

    pub(super) fn parse<'a>(
        &mut self,
        line: &'a [u8],
        row: &mut Row<'a>,
        columns: &mut Columns,
    ) -> Parsed {
        let fields = self.split(line)?;
        if fields.len() != self.header.len() {
            return Err("not as many fields as the header has");
        }
        for (name, field) in self.header.iter().zip(fields) {
            let value = match Value::typed(&field) {
                Value::Text(_) if field.is_empty() => Value::Null,
                Value::Text(_) => Value::Text(Cow::Owned(field)),
                Value::Integer(integer) => Value::Integer(integer),
                Value::Real(real) => Value::Real(real),
                Value::Null => Value::Null,
            };
            put(row, columns, Cow::Owned(name.clone()), value);
        }
        Ok(())
    }
}
