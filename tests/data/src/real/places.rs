//! The history of a browser, generated, in Firefox's tables: addresses, titles, hashes, visits, and the indexes on them.

use rusqlite::{Connection, params};

use crate::words::Words;
use crate::{in_transaction, zipf};

/// Visits for each place.
const VISITS: u64 = 4;
const HOSTS: usize = 400;

/// Makes `moz_places` of so many rows, `moz_historyvisits` and `moz_origins`.
pub fn create(conn: &Connection, places: u64, seed: u64) -> rusqlite::Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let words = Words::new();
    let word = |rng: &mut fastrand::Rng| words.any(rng).to_lowercase();
    in_transaction(conn, |conn| {
        conn.execute_batch(
            "create table moz_origins(id integer primary key, prefix text not null, host text not null,
               frecency integer not null, unique (prefix, host));
             create table moz_places(id integer primary key, url longvarchar, title longvarchar,
               rev_host longvarchar, visit_count integer default 0, hidden integer default 0 not null,
               typed integer default 0 not null, frecency integer default -1 not null,
               last_visit_date integer, guid text, foreign_count integer default 0 not null,
               url_hash integer default 0 not null, description text, preview_image_url text, origin_id integer);
             create table moz_historyvisits(id integer primary key, from_visit integer, place_id integer,
               visit_date integer, visit_type integer, session integer);
             create index moz_places_url_hashindex on moz_places(url_hash);
             create index moz_places_hostindex on moz_places(rev_host);
             create index moz_places_visitcount on moz_places(visit_count);
             create index moz_places_lastvisitdateindex on moz_places(last_visit_date);
             create unique index moz_places_guid_uniqueindex on moz_places(guid);
             create index moz_historyvisits_placedateindex on moz_historyvisits(place_id, visit_date);
             create index moz_historyvisits_dateindex on moz_historyvisits(visit_date)",
        )?;
        let hosts: Vec<String> = (0..HOSTS)
            .map(|_| {
                let end = ["com", "org", "net", "de", "io"][zipf(&mut rng, 5)];
                format!("www.{}{}.{end}", word(&mut rng), word(&mut rng))
            })
            .collect();
        let mut origin = conn.prepare("insert or ignore into moz_origins values (?, ?, ?, ?)")?;
        for (at, host) in hosts.iter().enumerate() {
            origin.execute(params![at as i64 + 1, "https://", host, rng.i32(0..9000)])?;
        }
        let mut place = conn.prepare(
            "insert into moz_places values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, null, ?)",
        )?;
        let mut visit =
            conn.prepare("insert into moz_historyvisits values (null, ?, ?, ?, ?, 0)")?;
        let mut time: i64 = 1_735_689_600_000_000;
        let mut visits = 0_i64;
        for id in 1..=places as i64 {
            let at = zipf(&mut rng, HOSTS);
            let host = &hosts[at];
            let title: Vec<String> = (0..rng.usize(2..9)).map(|_| word(&mut rng)).collect();
            let slug = title.join("-");
            let url = match rng.u8(0..4) {
                0 => format!(
                    "https://{host}/search?q={}&page={}",
                    title.join("+"),
                    rng.u8(1..20)
                ),
                1 => format!("https://{host}/{}/{slug}.html", rng.u32(1000..999_999)),
                _ => format!("https://{host}/{}/{slug}", word(&mut rng)),
            };
            let reversed: String = host.chars().rev().collect();
            let guid: String = (0..12).map(|_| rng.alphanumeric()).collect();
            let hash = 47_356_000_000_000_i64 + rng.i64(0..1 << 32);
            let described = rng.bool().then(|| {
                let text: Vec<String> = (0..rng.usize(8..25)).map(|_| word(&mut rng)).collect();
                text.join(" ")
            });
            time += rng.i64(1_000_000..400_000_000);
            let count = 1 + zipf(&mut rng, 30) as i64;
            place.execute(params![
                id,
                url,
                title.join(" "),
                reversed + ".",
                count,
                i32::from(rng.u8(0..10) == 0),
                i32::from(rng.u8(0..20) == 0),
                rng.i32(-1..30_000),
                time,
                guid,
                0,
                hash,
                described,
                at as i64 + 1
            ])?;
            for _ in 0..rng.u64(1..2 * VISITS) {
                let of = id - (zipf(&mut rng, 2000) as i64).min(id - 1);
                let from = if rng.bool() { visits } else { 0 };
                let date = time + rng.i64(0..1_000_000);
                let kind = 1 + zipf(&mut rng, 7) as i64;
                visit.execute(params![from, of, date, kind])?;
                visits += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::image;

    #[test]
    fn the_seed_alone_decides() {
        let make = |seed| image(|conn| create(conn, 50, seed));
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }
}
