//! A mail store: messages of text, and attachments that come again when a message is answered or sent on.

use rusqlite::{Connection, params};

use super::Found;
use crate::{in_transaction, zipf};

/// Makes `mail(id, subject, body)` and `attachment(id, mail_id, name, data)`. Each of the `files` is attached two to
/// three times on average, a few of them many times; `texts` are what the messages say.
pub fn create(
    conn: &Connection,
    files: &[Found<Vec<u8>>],
    texts: &[Found<String>],
    seed: u64,
) -> rusqlite::Result<()> {
    let mut rng = fastrand::Rng::with_seed(seed);
    in_transaction(conn, |conn| {
        conn.execute_batch(
            "create table mail(id integer primary key, subject text not null, body text not null);
             create table attachment(id integer primary key, mail_id integer not null, name text not null,
               data blob not null);
             create index attachment_by_mail on attachment(mail_id)",
        )?;
        let mut mail = conn.prepare("insert into mail values (?, ?, ?)")?;
        let mut attach = conn.prepare("insert into attachment values (null, ?, ?, ?)")?;
        let mut id = 0;
        for (count, file) in files.iter().enumerate() {
            let again = 1 + usize::from(count > 0) + usize::from(rng.u8(0..5) == 0) * 2;
            for turn in 0..again {
                let file = match turn {
                    0 => file,
                    _ => &files[count - zipf(&mut rng, count + 1)],
                };
                let text = rng.choice(texts).map_or("", |text| &text.content);
                let body = &text[..text.floor_char_boundary(rng.usize(200..3000))];
                id += 1;
                mail.execute(params![id, format!("Re: {}", file.path), body])?;
                attach.execute(params![id, file.path, file.content])?;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{image, number};

    fn make(conn: &Connection, seed: u64) -> rusqlite::Result<()> {
        let file = |at: usize| Found {
            path: format!("{at}.png"),
            content: vec![at as u8; 3000],
        };
        let files: Vec<_> = (0..50).map(file).collect();
        let texts = [Found {
            path: "a".into(),
            content: "some words ".repeat(300),
        }];
        create(conn, &files, &texts, seed)
    }

    #[test]
    fn the_seed_and_the_files_decide() {
        assert_eq!(image(|conn| make(conn, 7)), image(|conn| make(conn, 7)));
    }

    #[test]
    fn each_comes_again() {
        let sql = "select count(*) / 50.0 from attachment";
        let times = number(|conn| make(conn, 1), sql);
        assert!((1.8..3.2).contains(&times), "{times}");
    }
}
