//! Access logs of a web server, as columns or as one JSON text a row, with and without indexes.
//!
//! Time rises, a few addresses, paths and browsers make most of the requests, crawlers and bursts
//! of errors are among them: what a real log compresses by is there, and its noise too.

use std::io::{self, Write};

use rusqlite::{Connection, params};
use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{in_transaction, weighted, words::Words, zipf};

/// How a request becomes a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `log(id, time, remote_addr, method, path, status, bytes, ...)`
    Columns,
    /// `log(id, data)` with the same fields as JSON.
    Json,
}

/// Whether secondary indexes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexes {
    /// None.
    Without,
    /// On time, address, path and status.
    With,
}

/// One request, in the field order of its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Request {
    /// RFC 3339, UTC.
    pub time: String,
    /// IPv4.
    pub remote_addr: String,
    /// `GET` mostly.
    pub method: &'static str,
    /// With query, where there is one.
    pub path: String,
    /// HTTP status.
    pub status: u16,
    /// Body bytes sent.
    pub bytes: u32,
    /// Seconds, three decimals.
    pub request_time: f64,
    /// Empty where unknown.
    pub referrer: String,
    /// The browser's own words.
    pub user_agent: String,
}

const FIRST_SECOND: i64 = 1_735_689_600; // 2025-01-01T00:00:00Z
const PATHS: usize = 5_000;
const ADDRESSES: usize = 60_000;
const AGENTS: usize = 400;

/// Requests without end, the same for the same seed.
pub struct Requests {
    rng: fastrand::Rng,
    words: Words,
    milliseconds: i64,
    failing: u32,
}

impl Requests {
    /// Starts with the year 2025.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            words: Words::new(),
            milliseconds: 0,
            failing: 0,
        }
    }

    fn time(&mut self) -> String {
        self.milliseconds += zipf(&mut self.rng, 2_000) as i64;
        OffsetDateTime::from_unix_timestamp(FIRST_SECOND + self.milliseconds / 1000)
            .ok()
            .and_then(|time| time.format(&Rfc3339).ok())
            .expect("the year has four digits")
    }

    fn path(&mut self, rank: usize) -> String {
        let mut own = fastrand::Rng::with_seed(rank as u64);
        let word = |own: &mut fastrand::Rng| self.words.any(own).to_lowercase();
        match rank % 10 {
            0..=2 => format!("/static/{}-{:08x}.js", word(&mut own), own.u32(..)),
            3..=4 => format!("/images/{}/{}.webp", own.u16(..), word(&mut own)),
            5..=6 => format!("/api/v2/{}/{}", word(&mut own), self.rng.u32(1..200_000)),
            7 => {
                let wanted = self.words.any(&mut self.rng).to_lowercase();
                format!("/search?q={wanted}&page={}", 1 + zipf(&mut self.rng, 20))
            }
            _ => format!(
                "/blog/{}-{}-{}",
                word(&mut own),
                word(&mut own),
                word(&mut own)
            ),
        }
    }

    fn status(&mut self) -> u16 {
        if self.failing > 0 {
            self.failing -= 1;
            return [502, 504, 200][weighted(&mut self.rng, &[70, 20, 10])];
        }
        if self.rng.u32(0..20_000) == 0 {
            self.failing = self.rng.u32(50..800);
        }
        [200, 304, 404, 301, 206, 403, 499, 500]
            [weighted(&mut self.rng, &[8200, 900, 450, 250, 90, 60, 40, 10])]
    }
}

/// The same address for the same rank.
fn address(rank: usize) -> String {
    let bits = (rank as u32).wrapping_mul(0x9e37_79b1).rotate_left(7);
    let [a, b, c, d] = bits.to_be_bytes();
    format!("{}.{b}.{c}.{d}", 1 + a % 223)
}

/// The same browser for the same rank.
fn agent(rank: usize) -> String {
    let mut own = fastrand::Rng::with_seed(rank as u64);
    let system = [
        "Windows NT 10.0; Win64; x64",
        "Macintosh; Intel Mac OS X 10_15_7",
        "X11; Linux x86_64",
        "Linux; Android 14; Pixel 8",
        "iPhone; CPU iPhone OS 17_5 like Mac OS X",
    ][zipf(&mut own, 5)];
    let (major, build) = (own.u16(90..137), own.u16(1000..7000));
    match rank % 8 {
        0..=4 => format!(
            "Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) \
             Chrome/{major}.0.{build}.{} Safari/537.36",
            own.u16(10..200)
        ),
        5..=6 => format!("Mozilla/5.0 ({system}; rv:{major}.0) Gecko/20100101 Firefox/{major}.0"),
        _ => format!(
            "Mozilla/5.0 (compatible; crawler-{}/{}.{})",
            rank,
            major % 7,
            build % 10
        ),
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let time = self.time();
        let visitor = zipf(&mut self.rng, ADDRESSES);
        let rank = zipf(&mut self.rng, PATHS);
        let path = self.path(rank);
        let status = self.status();
        let bytes = match status {
            304 | 499 => 0,
            200 | 206 => 180 + (rank as u32 * 7919) % 90_000 + self.rng.u32(0..400),
            _ => 146 + self.rng.u32(0..20),
        };
        let method = ["GET", "POST", "HEAD", "PUT"][weighted(&mut self.rng, &[880, 90, 20, 10])];
        let slow = if status >= 500 { 30_000 } else { 900 };
        let request_time = zipf(&mut self.rng, slow) as f64 / 1000.0;
        let referrer = match self.rng.u8(0..10) {
            0..=4 => String::new(),
            5..=7 => "https://www.example.com/".to_string(),
            _ => {
                let rank = zipf(&mut self.rng, PATHS);
                format!("https://www.example.com{}", self.path(rank))
            }
        };
        Some(Request {
            time,
            remote_addr: address(visitor),
            method,
            path,
            status,
            bytes,
            request_time,
            referrer,
            user_agent: agent(zipf(&mut fastrand::Rng::with_seed(visitor as u64), AGENTS)),
        })
    }
}

/// The format of [`write_text`]'s lines, as nginx names it: `combined`, and the time that each request took.
pub const TEXT_FORMAT: &str = "$remote_addr - - [$time_local] \"$request\" $status $body_bytes_sent \
                               \"$http_referer\" \"$http_user_agent\" $request_time";

/// Writes requests as a web server logs them, one a line.
///
/// # Errors
/// Those of `out`.
pub fn write_text(out: &mut impl Write, rows: u64, seed: u64) -> io::Result<()> {
    for request in Requests::new(seed).take(usize::try_from(rows).unwrap_or(usize::MAX)) {
        let Request {
            time,
            remote_addr,
            method,
            path,
            status,
            bytes,
            request_time,
            referrer,
            user_agent,
        } = request;
        let time = local(&time);
        let referrer = if referrer.is_empty() { "-" } else { &referrer };
        writeln!(
            out,
            "{remote_addr} - - [{time}] \"{method} {path} HTTP/1.1\" {status} {bytes} \"{referrer}\" \"{user_agent}\" \
             {request_time:.3}"
        )?;
    }
    Ok(())
}

/// `2025-01-31T10:43:55Z` as `31/Jan/2025:10:43:55 +0000`.
fn local(time: &str) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = time[5..7].parse().map_or(0, |month: usize| month - 1);
    let (year, day, clock) = (&time[..4], &time[8..10], &time[11..19]);
    format!("{day}/{}/{year}:{clock} +0000", MONTHS[month])
}

/// Writes the same as JSON, an object in each line.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut impl Write, rows: u64, seed: u64) -> io::Result<()> {
    for request in Requests::new(seed).take(usize::try_from(rows).unwrap_or(usize::MAX)) {
        serde_json::to_writer(&mut *out, &request)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Makes the table `log` with `rows` requests, ids from 1.
pub fn create(
    conn: &Connection,
    rows: u64,
    seed: u64,
    layout: Layout,
    indexes: Indexes,
) -> rusqlite::Result<()> {
    in_transaction(conn, |conn| {
        match layout {
            Layout::Columns => fill_columns(conn, rows, seed)?,
            Layout::Json => fill_json(conn, rows, seed)?,
        }
        match (layout, indexes) {
            (_, Indexes::Without) => Ok(()),
            (Layout::Columns, Indexes::With) => conn.execute_batch(
                "create index log_time on log(time);
                 create index log_remote_addr on log(remote_addr);
                 create index log_path on log(path);
                 create index log_status on log(status)",
            ),
            (Layout::Json, Indexes::With) => conn.execute_batch(
                "create index log_time on log(data ->> '$.time');
                 create index log_remote_addr on log(data ->> '$.remote_addr');
                 create index log_path on log(data ->> '$.path');
                 create index log_status on log(data ->> '$.status')",
            ),
        }
    })
}

fn fill_columns(conn: &Connection, rows: u64, seed: u64) -> rusqlite::Result<()> {
    conn.execute_batch(
        "create table log(id integer primary key, time text, remote_addr text, method text,
           path text, status integer, bytes integer, request_time real, referrer text,
           user_agent text)",
    )?;
    let mut insert = conn.prepare("insert into log values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for (id, request) in (1..=rows as i64).zip(Requests::new(seed)) {
        insert.execute(params![
            id,
            request.time,
            request.remote_addr,
            request.method,
            request.path,
            request.status,
            request.bytes,
            request.request_time,
            request.referrer,
            request.user_agent,
        ])?;
    }
    Ok(())
}

fn fill_json(conn: &Connection, rows: u64, seed: u64) -> rusqlite::Result<()> {
    conn.execute_batch("create table log(id integer primary key, data text)")?;
    let mut insert = conn.prepare("insert into log values (?, ?)")?;
    for (id, request) in (1..=rows as i64).zip(Requests::new(seed)) {
        let json = serde_json::to_string(&request).expect("strings and numbers always serialise");
        insert.execute(params![id, json])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{image, number};

    #[test]
    fn the_seed_alone_decides() {
        for layout in [Layout::Columns, Layout::Json] {
            let make = |seed| image(|conn| create(conn, 500, seed, layout, Indexes::With));
            assert_eq!(make(7), make(7));
            assert_ne!(make(7), make(8));
        }
    }

    #[test]
    fn both_layouts_tell_the_same() {
        let columns = number(
            |conn| create(conn, 2_000, 3, Layout::Columns, Indexes::Without),
            "select sum(bytes * status) * 1.0 from log",
        );
        let json = number(
            |conn| create(conn, 2_000, 3, Layout::Json, Indexes::Without),
            "select sum((data ->> '$.bytes') * (data ->> '$.status')) * 1.0 from log",
        );
        assert_eq!(columns, json);
    }

    #[test]
    fn text_and_json_have_a_line_for_each_request() {
        let (mut text, mut json) = (Vec::new(), Vec::new());
        write_text(&mut text, 3, 1).unwrap();
        write_json(&mut json, 3, 1).unwrap();
        let [text, json] = [text, json].map(|bytes| String::from_utf8(bytes).unwrap());
        let first = Requests::new(1).next().unwrap();
        assert_eq!((text.lines().count(), json.lines().count()), (3, 3));
        assert!(text.starts_with(&format!("{} - - [01/Jan/2025:00:00:0", first.remote_addr)));
        assert!(json.starts_with(&format!("{{\"time\":\"{}\"", first.time)));
    }

    #[test]
    fn most_requests_succeed_and_some_fail() {
        let share = number(
            |conn| create(conn, 20_000, 1, Layout::Columns, Indexes::Without),
            "select avg(status = 200) from log",
        );
        assert!((0.7..0.9).contains(&share), "{share}");
    }
}
