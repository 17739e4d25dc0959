//! Random reads from a server that does something wrong at random: the right bytes or an error, within bounds, never
//! anything else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use litepack_remote::{Cache, DiskCache, Options, Remote};
use litepack_webserver::{Reply, Server};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

mod common;
use common::{BLOCK, file, options, read};

/// The right answer, or with the chance `wrong` something else.
fn spoil(random: &mut SmallRng, reply: Reply, wrong: f64, opens: bool, late: Duration) -> Reply {
    if !random.random_bool(wrong) {
        return reply;
    }
    let len = reply.body.len();
    match random.random_range(0..15) {
        0 => Reply {
            cut: Some(random.random_range(0..=len)),
            ..reply
        },
        1 => Reply {
            delay: late,
            ..reply
        },
        2 => Reply {
            pause: late,
            ..reply
        },
        3 => Reply {
            chunked: true,
            ..reply.without("Content-Length")
        },
        4 => Reply {
            http10: true,
            ..reply.without("Content-Length")
        },
        5 => Reply {
            http10: true,
            cut: Some(random.random_range(0..=len)),
            ..reply.without("Content-Length")
        },
        6 => Reply::status(
            ["500 Oops", "502 Oops", "503 Oops", "429 Oops"][random.random_range(0..4)],
        ),
        7 => Reply::status(
            ["200 OK", "204 No", "403 No", "404 No", "412 No", "416 No"][random.random_range(0..6)],
        ),
        8 => reply.with("ETag", "\"two\""),
        9 => reply.with("Content-Range", &format!("bytes 1-{len}/{}", 30 * BLOCK)),
        10 => reply.with("Content-Encoding", "gzip"),
        // When it is opened, this would be the version that is opened.
        11 if !opens => Reply {
            body: vec![0; len],
            ..reply.with("ETag", "\"two\"")
        },
        12 => Reply {
            body: vec![0; len - 1],
            ..reply
        },
        13 => Reply {
            body: vec![0; len + 1],
            chunked: true,
            ..reply.without("Content-Length")
        },
        _ => Reply::redirect("/elsewhere"),
    }
}

#[test]
fn right_or_an_error() {
    let long = std::env::var_os("LITEPACK_LONG").is_some();
    let first: u64 = rand::random();
    let (mut right, mut errors) = (0, 0);
    let rounds = if long { 200 } else { 12 };
    for round in 0.. {
        // A machine may be so slow that each answer is late. Then there are more rounds, of more patience.
        let slower = 1 << (round / rounds);
        if slower > 1 && right > 100 && errors > 0 {
            break;
        }
        assert!(slower < 100, "{right} right, {errors} errors");
        let seed = first.wrapping_add(round);
        println!("seed {seed}");
        let mut random = SmallRng::seed_from_u64(seed);
        let file = Arc::new(file(30 * BLOCK + random.random_range(0..BLOCK)));
        let wrong = [0.02, 0.2, 0.6][(round % 3) as usize];
        let served = Arc::clone(&file);
        let server = Server::start(move |request| {
            let mut random = SmallRng::seed_from_u64(seed ^ ((request.number as u64) << 32));
            let reply = Reply::part(&served, "\"one\"", request);
            let opens = request.header("if-match").is_none();
            spoil(
                &mut random,
                reply,
                wrong,
                opens,
                Duration::from_millis(400) * slower,
            )
        });
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            read_timeout: Duration::from_millis(150) * slower,
            longest_wait: Duration::from_millis(10),
            cache: Arc::new(Cache::new(random.random_range(0..64) * BLOCK as u64)),
            disk_cache: random.random_bool(0.3).then(|| DiskCache {
                directory: directory.path().join("blocks"),
                limit: 1 << 20,
            }),
            ..options()
        };
        let began = Instant::now();
        let Some(remote) =
            (0..20).find_map(|_| Remote::open(&server.url("/"), options.clone()).ok())
        else {
            errors += 1;
            continue;
        };
        let mut at = 0;
        for _ in 0..60 {
            let len = random.random_range(1..3 * BLOCK).min(file.len() - at);
            match read(&remote, at, len) {
                Ok(bytes) => {
                    assert!(
                        bytes == file[at..at + len],
                        "seed {seed}: {len} bytes at {at}"
                    );
                    right += 1;
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    errors += 1;
                }
            }
            at = match random.random_bool(0.7) {
                true if at + len < file.len() => at + len,
                _ => random.random_range(0..file.len()),
            };
        }
        // 80 calls of at most 4 attempts of less than a second each, and far less on the whole.
        let most = Duration::from_secs(1000) * slower;
        assert!(began.elapsed() < most, "seed {seed}");
    }
}
