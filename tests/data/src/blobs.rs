//! Random blobs, which no codec can shrink: what Litepack costs when it cannot help.

use rusqlite::{Connection, params};

use crate::in_transaction;

const SMALLEST: f64 = 1024.0;
const LARGEST: f64 = 256.0 * 1024.0;

/// Makes `blob(id integer primary key, name text, data blob)` with `rows` blobs of 1 KiB to
/// 256 KiB, about 46 KiB on average.
pub fn create(conn: &Connection, rows: u64, seed: u64) -> rusqlite::Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    in_transaction(conn, |conn| {
        conn.execute_batch(
            "create table blob(id integer primary key, name text not null, data blob not null)",
        )?;
        let mut insert = conn.prepare("insert into blob(id, name, data) values (?, ?, ?)")?;
        let mut data = Vec::new();
        for id in 1..=rows as i64 {
            let length = SMALLEST * (LARGEST / SMALLEST).powf(rng.f64());
            data.resize(length as usize, 0);
            rng.fill(&mut data);
            insert.execute(params![id, format!("photo-{id:06}.jpg"), data])?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{image, number};

    #[test]
    fn the_seed_alone_decides() {
        let make = |seed| image(|conn| create(conn, 5, seed));
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }

    #[test]
    fn blobs_have_the_stated_sizes() {
        let average = number(
            |conn| create(conn, 500, 1),
            "select avg(length(data)) / 1024.0 from blob",
        );
        assert!((38.0..54.0).contains(&average), "{average} KiB");
    }
}
