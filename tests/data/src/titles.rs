//! IMDb-shaped JSON titles: one table, one JSON column, about 215 bytes a row.
//!
//! The shape is that of the public `title.basics` list: three quarters are television episodes
//! that come in runs of one series, titles repeat words by Zipf's law, most fields correlate.

use rusqlite::{Connection, params};
use serde::Serialize;

use crate::{in_transaction, weighted, words::Words, zipf};

/// One title, in the field order of its JSON.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Title {
    /// `tt` and at least seven digits, rising.
    pub tconst: String,
    /// One of ten kinds.
    pub title_type: &'static str,
    /// The title as shown.
    pub primary_title: String,
    /// The same, or a title in another language.
    pub original_title: String,
    /// 0 or 1.
    pub is_adult: u8,
    /// Year of release, if known.
    pub start_year: Option<u16>,
    /// Year a series ended.
    pub end_year: Option<u16>,
    /// Length, if known.
    pub runtime_minutes: Option<u16>,
    /// One to three genres, if known.
    pub genres: Option<Vec<&'static str>>,
}

impl Title {
    /// The JSON text that is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always serialise")
    }
}

const KINDS: [(&str, u32); 9] = [
    ("short", 260),
    ("movie", 190),
    ("video", 80),
    ("tvSeries", 75),
    ("tvMovie", 40),
    ("tvMiniSeries", 15),
    ("tvSpecial", 14),
    ("videoGame", 10),
    ("tvShort", 3),
];

const GENRES: [&str; 28] = [
    "Drama",
    "Comedy",
    "Talk-Show",
    "Short",
    "Documentary",
    "News",
    "Romance",
    "Family",
    "Reality-TV",
    "Animation",
    "Crime",
    "Action",
    "Adventure",
    "Game-Show",
    "Music",
    "Adult",
    "Sport",
    "Fantasy",
    "Mystery",
    "Horror",
    "Thriller",
    "History",
    "Biography",
    "Sci-Fi",
    "Musical",
    "War",
    "Western",
    "Film-Noir",
];

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The common properties of one series' episodes.
#[derive(Clone)]
struct Series {
    left: u32,
    season: u32,
    episode: u32,
    style: usize,
    year: Option<u16>,
    runtime: Option<u16>,
    genres: Option<Vec<&'static str>>,
}

/// Titles without end, the same for the same seed.
pub struct Titles {
    rng: fastrand::Rng,
    words: Words,
    number: u64,
    series: Option<Series>,
}

impl Titles {
    /// Starts at `tt0000001`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            words: Words::new(),
            number: 0,
            series: None,
        }
    }

    fn year(&mut self) -> Option<u16> {
        let age = zipf(&mut self.rng, 130) as u16;
        (self.rng.u8(0..10) > 0).then_some(2025 - age)
    }

    fn runtime(&mut self, usual: &[u16]) -> Option<u16> {
        let usual = usual[zipf(&mut self.rng, usual.len())];
        match self.rng.u8(0..10) {
            0..=3 => Some(usual),
            4 => Some(usual + self.rng.u16(0..usual / 2 + 2)),
            _ => None,
        }
    }

    fn genres(&mut self) -> Option<Vec<&'static str>> {
        let mut genres: Vec<&str> = (0..weighted(&mut self.rng, &[4, 40, 30, 26]))
            .map(|_| GENRES[zipf(&mut self.rng, GENRES.len())])
            .collect();
        genres.sort_unstable();
        genres.dedup();
        (!genres.is_empty()).then_some(genres)
    }

    fn free_title(&mut self) -> String {
        let mut title = self.words.any(&mut self.rng);
        for _ in 0..weighted(&mut self.rng, &[10, 28, 28, 18, 9, 5, 3, 2]) {
            title.push(' ');
            title.push_str(&self.words.any(&mut self.rng));
        }
        match self.rng.u8(0..40) {
            0 => title.push('!'),
            1 => title.push('?'),
            2 => title.push_str(&format!(": {}", self.words.name(&mut self.rng))),
            3 => title.push_str(&format!(", Part {}", self.rng.u8(1..4))),
            4 => title = format!("\"{title}\""),
            _ => {}
        }
        title
    }

    fn episode_title(&mut self, series: &Series) -> String {
        match series.style {
            0 => format!("Episode #{}.{}", series.season, series.episode),
            1 => format!(
                "Episode dated {} {} {}",
                self.rng.u8(1..29),
                MONTHS[self.rng.usize(0..12)],
                series.year.unwrap_or(2001),
            ),
            2 => format!(
                "{} {}/{} {}",
                self.words.name(&mut self.rng),
                self.words.name(&mut self.rng),
                self.words.name(&mut self.rng),
                self.words.name(&mut self.rng),
            ),
            _ => self.free_title(),
        }
    }

    fn new_series(&mut self) -> Series {
        Series {
            left: 1 + zipf(&mut self.rng, 200) as u32,
            season: 1 + zipf(&mut self.rng, 12) as u32,
            episode: self.rng.u32(1..6),
            style: weighted(&mut self.rng, &[30, 14, 4, 52]),
            year: self.year(),
            runtime: self.runtime(&[30, 60, 22, 25, 45, 44, 10, 90, 5, 120]),
            genres: self.genres(),
        }
    }

    fn episode(&mut self, tconst: String, series: &mut Series) -> Title {
        series.left -= 1;
        series.episode += 1;
        if self.rng.u8(0..24) == 0 {
            series.season += 1;
            series.episode = 1;
            series.year = series.year.map(|year| (year + 1).min(2025));
        }
        let title = self.episode_title(series);
        Title {
            tconst,
            title_type: "tvEpisode",
            original_title: title.clone(),
            primary_title: title,
            is_adult: 0,
            start_year: series.year,
            end_year: None,
            runtime_minutes: series.runtime,
            genres: series.genres.clone(),
        }
    }

    fn single(&mut self, tconst: String) -> Title {
        let weights: Vec<u32> = KINDS.iter().map(|(_, weight)| *weight).collect();
        let title_type = KINDS[weighted(&mut self.rng, &weights)].0;
        let primary_title = self.free_title();
        let original_title = if self.rng.u8(0..12) == 0 {
            self.free_title()
        } else {
            primary_title.clone()
        };
        let start_year = self.year();
        let ended = title_type.ends_with("Series") && self.rng.bool();
        Title {
            tconst,
            title_type,
            primary_title,
            original_title,
            is_adult: u8::from(self.rng.u8(0..50) == 0),
            start_year,
            end_year: start_year
                .filter(|_| ended)
                .map(|y| (y + self.rng.u16(0..8)).min(2025)),
            runtime_minutes: self.runtime(&[90, 10, 15, 5, 7, 100, 80, 12, 20, 60, 3, 120, 45]),
            genres: self.genres(),
        }
    }
}

impl Iterator for Titles {
    type Item = Title;

    fn next(&mut self) -> Option<Title> {
        self.number += 1 + u64::from(self.rng.u8(0..8) == 0);
        let tconst = format!("tt{:07}", self.number);
        if let Some(mut series) = self.series.take() {
            let title = self.episode(tconst, &mut series);
            self.series = (series.left > 0).then_some(series);
            return Some(title);
        }
        if self.rng.u8(0..9) == 0 {
            self.series = Some(self.new_series());
        }
        Some(self.single(tconst))
    }
}

/// Makes `title(id integer primary key, data text)` with `rows` titles, ids from 1.
pub fn create(conn: &Connection, rows: u64, seed: u64) -> rusqlite::Result<()> {
    in_transaction(conn, |conn| {
        conn.execute_batch("create table title(id integer primary key, data text not null)")?;
        let mut insert = conn.prepare("insert into title(id, data) values (?, ?)")?;
        for (id, title) in (1..=rows as i64).zip(Titles::new(seed)) {
            insert.execute(params![id, title.to_json()])?;
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
        let make = |seed| image(|conn| create(conn, 500, seed));
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }

    #[test]
    fn rows_are_about_as_long_as_real_ones() {
        let average = number(
            |conn| create(conn, 20_000, 1),
            "select avg(length(data)) from title",
        );
        assert!((200.0..230.0).contains(&average), "{average} bytes");
    }

    #[test]
    fn three_quarters_are_episodes() {
        let share = number(
            |conn| create(conn, 20_000, 1),
            "select avg(data ->> '$.titleType' = 'tvEpisode') from title",
        );
        assert!((0.65..0.85).contains(&share), "{share}");
    }
}
