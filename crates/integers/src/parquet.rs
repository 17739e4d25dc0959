//! The tables as Parquet files, by Arrow's own crates: row number, integer and, in the second table, the word.
//!
//! A row is read through the page index, with the file's metadata in memory, as a program does that keeps the file open. A
//! file of this format is never changed: to change a value is to write all of it anew.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::WriterProperties;

use crate::beside::{FORMATS, Format, places};
use crate::data::{Table, rows, words};
use crate::stats::repeat;

/// Rows that are handed over at a time.
const BATCH: usize = 1 << 14;
/// The column of integers.
const INTEGERS: usize = 1;

/// Ways to write a file: name, compression, dictionaries.
fn ways() -> Result<[(&'static str, Compression, bool); 4]> {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3)?);
    let [bare, dictionary, compressed, both] = FORMATS;
    Ok([
        (bare, Compression::UNCOMPRESSED, false),
        (dictionary, Compression::UNCOMPRESSED, true),
        (compressed, zstd, false),
        (both, zstd, true),
    ])
}

/// Measures all ways on both tables.
///
/// # Errors
/// The crates', and if a value is not what was written.
pub fn measure(
    scratch: &Path,
    count: u64,
    time: Duration,
    say: &dyn Fn(String),
) -> Result<Vec<Format>> {
    let (mut found, words) = (Vec::new(), words());
    for table in Table::ALL {
        for (name, compression, dictionary) in ways()? {
            say(format!("{name}: {}", table.name()));
            let properties = WriterProperties::builder()
                .set_compression(compression)
                .set_dictionary_enabled(dictionary)
                .build();
            let path = scratch.join("table.parquet");
            write(&path, &properties, batches(table, &words, count))?;
            found.push(
                Parquet {
                    path: &path,
                    properties,
                }
                .measure(table, name, count, time)?,
            );
            std::fs::remove_file(path)?;
        }
    }
    Ok(found)
}

/// The rows of a table, some at a time.
fn batches(
    table: Table,
    words: &[String],
    count: u64,
) -> impl Iterator<Item = Result<RecordBatch>> {
    let mut all = rows(words, count).map(|row| (row.integer, row.word));
    let mut number = 0;
    std::iter::from_fn(move || {
        let (integers, words): (Vec<i64>, Vec<&str>) = all.by_ref().take(BATCH).unzip();
        if integers.is_empty() {
            return None;
        }
        let first = number + 1;
        number += integers.len() as i64;
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            (
                "rowid",
                Arc::new(Int64Array::from_iter_values(first..=number)),
            ),
            ("RandomInteger", Arc::new(Int64Array::from(integers))),
        ];
        if table == Table::Two {
            columns.push(("RandomWord", Arc::new(StringArray::from(words))));
        }
        Some(RecordBatch::try_from_iter(columns).map_err(Into::into))
    })
}

fn write(
    path: &Path,
    properties: &WriterProperties,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<()> {
    let file = File::create(path)?;
    let mut writer = None;
    for batch in batches {
        let batch = batch?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => none.insert(ArrowWriter::try_new(
                file.try_clone()?,
                batch.schema(),
                Some(properties.clone()),
            )?),
        };
        writer.write(&batch)?;
    }
    writer.context("there are no rows")?.close()?;
    Ok(file.sync_all()?)
}

/// A file, and how it was written.
struct Parquet<'a> {
    path: &'a Path,
    properties: WriterProperties,
}

impl Parquet<'_> {
    fn measure(&self, table: Table, name: &str, count: u64, time: Duration) -> Result<Format> {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let metadata = ArrowReaderMetadata::load(&File::open(self.path)?, options)?;
        let groups = metadata.metadata().row_groups().iter();
        let integers = groups
            .map(|group| group.column(INTEGERS).compressed_size() as u64)
            .sum();
        let bytes = std::fs::metadata(self.path)?.len();
        let mut mean = None;
        let scan = repeat(time, || {
            let found = self.mean(count)?;
            ensure!(*mean.get_or_insert(found) == found, "another mean");
            Ok(())
        })?;
        let mut numbers = places(count);
        let row = repeat(time, || {
            self.row(&metadata, table, numbers.next().unwrap_or(1))
        })?;
        let mut numbers = places(count);
        let update = repeat(time, || self.update(numbers.next().unwrap_or(1)))?;
        Ok(Format {
            table: table.name().into(),
            format: name.into(),
            bytes,
            integers: Some(integers),
            scan,
            row,
            update,
        })
    }

    /// The mean of all integers, from one column of the file.
    fn mean(&self, count: u64) -> Result<f64> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(self.path)?)?;
        let column = ProjectionMask::roots(builder.parquet_schema(), [INTEGERS]);
        let (mut rows, mut sum) = (0, 0.0);
        for batch in builder
            .with_projection(column)
            .with_batch_size(BATCH)
            .build()?
        {
            let batch = batch?;
            let integers = batch.column(0).as_primitive::<Int64Type>().values();
            rows += integers.len() as u64;
            sum += integers.iter().map(|integer| *integer as f64).sum::<f64>();
        }
        ensure!(rows == count, "{rows} of {count} rows");
        Ok(sum / rows as f64)
    }

    /// Reads the row with this number, counted from 1.
    fn row(&self, metadata: &ArrowReaderMetadata, table: Table, number: u64) -> Result<()> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            File::open(self.path)?,
            metadata.clone(),
        );
        let skip = RowSelector::skip(number as usize - 1);
        let selection = RowSelection::from(vec![skip, RowSelector::select(1)]);
        let mut reader = builder
            .with_row_selection(selection)
            .with_batch_size(1)
            .build()?;
        let batch = reader.next().context("no such row")??;
        let found = batch.column(0).as_primitive::<Int64Type>().value(0);
        ensure!(
            batch.num_rows() == 1 && found as u64 == number,
            "row {found} and not {number}"
        );
        if table == Table::Two {
            ensure!(
                !batch.column(2).as_string::<i32>().value(0).is_empty(),
                "no word"
            );
        }
        Ok(())
    }

    /// Changes the integer of a row: the whole file is written anew and put in the place of the old one.
    fn update(&self, number: u64) -> Result<()> {
        let new = self.path.with_extension("new");
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(self.path)?)?;
        let mut first = 1;
        let batches = reader.with_batch_size(BATCH).build()?.map(|batch| {
            let batch = batch?;
            let place = number.wrapping_sub(first) as usize;
            first += batch.num_rows() as u64;
            if place >= batch.num_rows() {
                return Ok(batch);
            }
            let mut integers = batch
                .column(INTEGERS)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec();
            integers[place] = integers[place].wrapping_add(1);
            let mut columns = batch.columns().to_vec();
            columns[INTEGERS] = Arc::new(Int64Array::from(integers));
            Ok(RecordBatch::try_new(batch.schema(), columns)?)
        });
        write(&new, &self.properties, batches)?;
        Ok(std::fs::rename(new, self.path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_the_rows_and_change_one() {
        let folder = tempfile::tempdir().unwrap();
        let count = 2 * BATCH as u64 + 100;
        let words = words();
        let expected: Vec<i64> = rows(&words, count).map(|row| row.integer).collect();
        for (name, compression, dictionary) in ways().unwrap() {
            let properties = WriterProperties::builder()
                .set_compression(compression)
                .set_dictionary_enabled(dictionary)
                .build();
            let path = folder.path().join("a.parquet");
            write(&path, &properties, batches(Table::Two, &words, count)).unwrap();
            let file = Parquet {
                path: &path,
                properties,
            };
            let integers = || -> Vec<i64> {
                let reader =
                    ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
                let batches = reader.build().unwrap().map(|batch| batch.unwrap());
                let column = |batch: RecordBatch| {
                    batch
                        .column(INTEGERS)
                        .as_primitive::<Int64Type>()
                        .values()
                        .to_vec()
                };
                batches.flat_map(column).collect()
            };
            assert_eq!(integers(), expected, "{name}");
            let number = BATCH as u64 + 7;
            file.update(number).unwrap();
            let mut changed = expected.clone();
            changed[number as usize - 1] = changed[number as usize - 1].wrapping_add(1);
            assert_eq!(integers(), changed, "{name}");
        }
    }

    #[test]
    fn every_way_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let found = measure(folder.path(), 20_000, Duration::ZERO, &|_| ()).unwrap();
        assert_eq!(found.len(), 8);
        assert!(
            found
                .iter()
                .all(|format| format.integers.unwrap() < format.bytes)
        );
        assert!(found[2].bytes < found[0].bytes, "zstd saves something");
    }
}
