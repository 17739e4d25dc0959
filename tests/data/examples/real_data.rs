//! Makes small databases to measure on in a folder, the real ones among them: `... --example real_data FOLDER [MB]`, with
//! so many megabytes of text in each of those, 24 unless it says otherwise.

use std::path::PathBuf;

use anyhow::Context;
use litepack_testdata::logs::{self, Indexes, Layout};
use litepack_testdata::real::{self, agent, attachments, flights, packages, places};
use litepack_testdata::{make_once, titles, tpch};

const SEED: u64 = 20_250_510;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().context("a folder is needed")?);
    let megabytes: usize = arguments.next().map_or(Ok(24), |text| text.parse())?;
    let bytes = megabytes * 1_000_000;
    let target = |name: &str| folder.join(name).with_extension("db");
    make_once(&target("agent"), |conn| {
        agent::create(conn, &real::text_files(bytes)?, SEED).map_err(anyhow::Error::from)
    })?;
    make_once(&target("packages"), |conn| {
        packages::create(conn, &real::stanzas(bytes)?).map_err(anyhow::Error::from)
    })?;
    make_once(&target("flights"), |conn| {
        flights::create(conn, &flights::fetch(&folder)?)
    })?;
    make_once(&target("places"), |conn| {
        places::create(conn, bytes as u64 / 200, SEED)
    })?;
    let rows = bytes as u64 / 120;
    make_once(&target("titles"), |conn| titles::create(conn, rows, SEED))?;
    make_once(&target("logs"), |conn| {
        logs::create(conn, rows, SEED, Layout::Columns, Indexes::With)
    })?;
    make_once(&target("json-logs"), |conn| {
        logs::create(conn, rows, SEED, Layout::Json, Indexes::With)
    })?;
    make_once(&target("tpch"), |conn| {
        tpch::create(conn, megabytes as f64 / 500.0)
    })?;
    make_once(&target("attachments"), |conn| {
        let (files, texts) = (real::compressed_files(bytes)?, real::text_files(bytes / 8)?);
        attachments::create(conn, &files, &texts, SEED).map_err(anyhow::Error::from)
    })
}
