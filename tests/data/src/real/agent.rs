//! The session store of a coding agent: messages of JSON, most of them around files that the agent read or wrote, and a
//! table of the files' contents beside them.

use rusqlite::{Connection, params};
use serde_json::json;

use super::Found;
use crate::{in_transaction, zipf};

/// A third of the files are read twice.
const READ_TWICE: u64 = 3;
/// Messages of a session.
const SESSION: usize = 60;
/// A tool shows so many lines of a file at most.
const LINES: usize = 2000;

/// Makes `session`, `message(id, session_id, parent_id, time, role, content)` and `file(path, sha, content)` of these
/// files, in an order of its own.
pub fn create(conn: &Connection, files: &[Found<String>], seed: u64) -> rusqlite::Result<()> {
    in_transaction(conn, |conn| {
        conn.execute_batch(
            "create table session(id text primary key, title text, cwd text, created integer);
             create table message(id integer primary key, session_id text not null, parent_id integer,
               time integer not null, role text not null, content text not null);
             create table file(id integer primary key, path text not null, sha text not null,
               size integer not null, content text not null);
             create index message_by_session on message(session_id, time);
             create unique index file_by_path on file(path)",
        )?;
        let mut store = Store {
            conn,
            rng: fastrand::Rng::with_seed(seed),
            id: 0,
            time: 1_764_000_000_000,
            session: String::new(),
        };
        let mut order: Vec<usize> = (0..files.len()).collect();
        // Neighbours stay together, as an agent reads one package after another.
        for pair in order.chunks_mut(8) {
            store.rng.shuffle(pair);
        }
        for (count, at) in order.iter().enumerate() {
            if count % (SESSION / 4) == 0 {
                store.begin(&files[*at])?;
            }
            store.read(&files[*at])?;
            if store.rng.u64(0..READ_TWICE) == 0 {
                let back = zipf(&mut store.rng, 200).min(count);
                store.read(&files[order[count - back]])?;
            }
            store.keep(&files[*at])?;
        }
        Ok(())
    })
}

struct Store<'a> {
    conn: &'a Connection,
    rng: fastrand::Rng,
    id: i64,
    time: i64,
    session: String,
}

impl Store<'_> {
    fn hex(&mut self, digits: usize) -> String {
        let digit = |_| char::from_digit(self.rng.u32(0..16), 16).unwrap_or('0');
        (0..digits).map(digit).collect()
    }

    fn begin(&mut self, first: &Found<String>) -> rusqlite::Result<()> {
        self.session = format!("{}-{}-4{}", self.hex(8), self.hex(4), self.hex(15));
        let package = first.path.split('/').nth(1).unwrap_or(&first.path);
        self.conn.execute(
            "insert into session values (?, ?, ?, ?)",
            params![
                self.session,
                format!("Look into {package}"),
                format!("/home/dev/src/{package}"),
                self.time
            ],
        )?;
        Ok(())
    }

    fn message(&mut self, role: &str, content: &serde_json::Value) -> rusqlite::Result<()> {
        let parent = (self.id > 0).then_some(self.id);
        self.id += 1;
        self.time += self.rng.i64(200..20_000);
        let mut insert = self
            .conn
            .prepare_cached("insert into message values (?, ?, ?, ?, ?, ?)")?;
        let content = content.to_string();
        insert.execute(params![
            self.id,
            self.session,
            parent,
            self.time,
            role,
            content
        ])?;
        Ok(())
    }

    /// The agent says what it does, calls the tool, and gets the file with line numbers.
    fn read(&mut self, file: &Found<String>) -> rusqlite::Result<()> {
        let call = format!("toolu_{}", self.hex(24));
        let path = format!("/home/dev/src/{}", file.path);
        let input = self.rng.u32(2..40_000);
        let output = self.rng.u32(40..900);
        let comment = file.content.lines().map(|line| {
            line.trim_start_matches(['/', '!', '#', '*', ' ', '<', '-'])
                .trim_end()
        });
        let comment: Vec<&str> = comment.filter(|line| line.len() > 30).take(3).collect();
        let said = json!({
            "role": "assistant",
            "model": "model-large-2",
            "content": [
                {"type": "text", "text": format!("Let me look at {path}. {}", comment.join(" "))},
                {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": path}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": input, "cache_read_input_tokens": input * 3, "output_tokens": output},
        });
        self.message("assistant", &said)?;
        let lines = file.content.lines().take(LINES).enumerate();
        let shown: String = lines
            .map(|(at, line)| format!("{:>6}\t{line}\n", at + 1))
            .collect();
        let answer = json!({
            "role": "user",
            "content": [{"tool_use_id": call, "type": "tool_result", "content": shown}],
        });
        self.message("user", &answer)
    }

    fn keep(&mut self, file: &Found<String>) -> rusqlite::Result<()> {
        let sha = self.hex(40);
        let mut insert = self
            .conn
            .prepare_cached("insert or ignore into file values (null, ?, ?, ?, ?)")?;
        insert.execute(params![
            file.path,
            sha,
            file.content.len() as i64,
            file.content
        ])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{image, number};

    fn files() -> Vec<Found<String>> {
        let file = |at: usize| Found {
            path: format!("src/{at}.rs"),
            content: format!("//! File {at}, which is about something else again.\n").repeat(50),
        };
        (0..60).map(file).collect()
    }

    #[test]
    fn the_seed_and_the_files_decide() {
        let make = |seed| image(|conn| create(conn, &files(), seed));
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }

    #[test]
    fn about_a_third_of_the_files_are_read_twice() {
        let reads = "select count(*) / 60.0 from message where role = 'user'";
        let share = number(|conn| create(conn, &files(), 1), reads);
        assert!((1.15..1.55).contains(&share), "{share}");
    }
}
