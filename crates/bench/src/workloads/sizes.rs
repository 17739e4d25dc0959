//! How much smaller files get, and which share that is of what an archive of the whole file saves.

use anyhow::Result;

use super::Workload;
use crate::dataset::Dataset;
use crate::engines::{Group, Litepack, stored_bytes};
use crate::lab::Lab;
use crate::rows::{Cache, Ratio, Row, Unit, compare};
use crate::whole_file;

/// Makes each data set's file in each way.
pub struct Sizes;

impl Workload for Sizes {
    fn name(&self) -> &'static str {
        "sizes"
    }

    fn about(&self) -> &'static str {
        "How many times smaller than the plain file: after `litepack pack`, with and without `--best`, \
         and as others keep it. R is the ratio of the whole file under `zstd -19 --long=27`, of which \
         nothing can be read without unpacking all; beside each ratio stands its share of R. sqlite-zstd \
         compresses one column, at level 19 with one dictionary, and takes part where that is all the \
         text and has no index; sqlite_zstd_vfs has its defaults. Aims, without and with `--best`: titles \
         1.10 R and 1.45 R; logs 0.80 R and 1.00 R; TPC-H 0.80 R and 1.05 R; an agent's sessions 0.75 R and \
         0.95 R; package lists 0.95 R and 1.10 R; flights 1.25 R and 1.45 R; random blobs grow by less than \
         1 %. Sessions, package lists and attachments are made of files of this machine, so that other machines \
         have other figures. A quick run has generated data, R for titles only, and no `--best` for TPC-H and \
         small pages."
    }

    fn group(&self) -> Group {
        Group::Sizes
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let all = Dataset::ALL.iter();
        let all = all.filter(|data| !(lab.scale.quick && data.is_found()));
        let rows = all.map(|data| run_data(lab, *data));
        // A set without data has no rows.
        let rows = rows.filter(|rows| !matches!(rows, Ok(rows) if rows.is_empty()));
        rows.collect()
    }
}

fn run_data(lab: &Lab, data: Dataset) -> Result<Vec<Row>> {
    // All of it would take a quick run longer than its other work.
    let with_best = !lab.scale.quick || !matches!(data, Dataset::Tpch | Dataset::SmallPages);
    // Titles in smaller pages are to zstd what they are in larger ones.
    let with_whole_file = match data {
        Dataset::Titles => true,
        Dataset::SmallPages => false,
        _ => !lab.scale.quick,
    };
    if data.is_found()
        && let Err(error) = lab.source(data)
    {
        let title = data.title(lab.scale.size);
        lab.leave_out("a data set", format!("{title}: {error:#}"));
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for engine in lab.engines(Group::Sizes) {
        if engine.takes(data) && (with_best || engine.name() != Litepack::BEST) {
            let made = lab.prepared(&**engine, data);
            found.push((engine.name(), made.map(|path| stored_bytes(&path))));
        }
    }
    if with_whole_file {
        let bytes = whole_file::compressed_bytes(&lab.source(data)?, |share| {
            let title = data.title(lab.scale.size);
            lab.say(format!("compressing {title} whole: {:.0} %", share * 100.0));
        });
        found.insert(1, (whole_file::NAME, bytes));
    }
    let mut rows: Vec<Row> = found
        .into_iter()
        .map(|(engine, bytes)| {
            row(
                Sizes.name(),
                "File size",
                data.title(lab.scale.size),
                engine,
                bytes,
            )
        })
        .collect();
    compare(&mut rows);
    add_ratios(&mut rows, data);
    Ok(rows)
}

/// A file's size, or why there is no file.
pub(super) fn row(
    workload: &'static str,
    title: &str,
    data: String,
    engine: &'static str,
    bytes: Result<u64>,
) -> Row {
    Row {
        workload,
        title: title.into(),
        data,
        engine,
        cache: Cache::Irrelevant,
        unit: Unit::Bytes,
        values: bytes.iter().map(|bytes| *bytes as f64).collect(),
        failure: bytes.err().map(|error| format!("{error:#}")),
        ..Row::EMPTY
    }
}

fn add_ratios(rows: &mut [Row], data: Dataset) {
    let whole_file = rows
        .iter()
        .find(|row| row.engine == whole_file::NAME)
        .and_then(|row| row.to_plain);
    for row in rows {
        row.ratio = row.to_plain.map(|to_plain| Ratio {
            times: 1.0 / to_plain,
            of_whole_file: whole_file.map(|whole_file| whole_file / to_plain),
            aim: aim(row.engine, data),
        });
    }
}

/// The share of R that a file should reach.
fn aim(engine: &str, data: Dataset) -> Option<f64> {
    let (default, best) = match data {
        Dataset::Titles => (1.1, 1.45),
        Dataset::Logs(_) | Dataset::JsonLogs(_) => (0.8, 1.0),
        Dataset::Tpch => (0.8, 1.05),
        Dataset::Agent => (0.75, 0.95),
        Dataset::Packages => (0.95, 1.1),
        Dataset::Flights => (1.25, 1.45),
        Dataset::SmallPages | Dataset::Blobs | Dataset::Places | Dataset::Attachments => {
            return None;
        }
    };
    match engine {
        Litepack::NAME => Some(default),
        Litepack::BEST => Some(best),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_told_as_a_share_of_the_archives() {
        let sizes = [
            ("plain", 1000),
            (whole_file::NAME, 100),
            (Litepack::NAME, 125),
            ("other", 500),
        ];
        let mut rows = sizes.map(|(engine, bytes)| row("w", "", String::new(), engine, Ok(bytes)));
        compare(&mut rows);
        add_ratios(&mut rows, Dataset::Tpch);
        let found = rows.map(|row| {
            let ratio = row.ratio?;
            Some((ratio.times, ratio.of_whole_file?, ratio.aim))
        });
        assert_eq!(
            found,
            [
                None,
                Some((10.0, 1.0, None)),
                Some((8.0, 0.8, Some(0.8))),
                Some((2.0, 0.2, None)),
            ]
        );
    }

    #[test]
    fn without_an_archive_there_is_no_share() {
        let sizes = [("plain", 1000), (Litepack::BEST, 500)];
        let mut rows = sizes.map(|(engine, bytes)| row("w", "", String::new(), engine, Ok(bytes)));
        compare(&mut rows);
        add_ratios(&mut rows, Dataset::Titles);
        assert_eq!(
            rows[1].ratio,
            Some(Ratio {
                times: 2.0,
                of_whole_file: None,
                aim: Some(1.45)
            })
        );
    }
}
