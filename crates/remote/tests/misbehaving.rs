//! Servers that do something wrong: an error that says what, or the right bytes after all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use litepack_remote::{Error, Options, Remote, Result};
use litepack_webserver::{Reply, Request, Server};

mod common;
use common::{BLOCK, file, options, read, read_all};

const LEN: usize = 10 * BLOCK;

/// Opens a file and reads a byte far into it, from a server that answers so where the right answer is given.
fn with(
    spoil: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static,
) -> (Server, Result<Remote>) {
    let file = file(LEN);
    let server =
        Server::start(move |request| spoil(request, Reply::part(&file, "\"one\"", request)));
    let remote = Remote::open(&server.url("/a.db?sig=s3cret"), options());
    let remote = remote.and_then(|remote| read(&remote, 5 * BLOCK, 1).map(|_| remote));
    (server, remote)
}

/// The same, if that is an error.
fn error(spoil: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static) -> Error {
    let (_server, result) = with(spoil);
    let error = result.expect_err("an error");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    assert!(error.to_string().contains("http://127.0.0.1:"), "{error}");
    error
}

/// Spoils every request but the one that opens the file.
fn later(spoil: impl Fn(Reply) -> Reply) -> impl Fn(&Request, Reply) -> Reply {
    move |request, reply| {
        if request.number == 0 {
            reply
        } else {
            spoil(reply)
        }
    }
}

#[test]
fn a_server_without_ranges_is_an_error_before_the_file_has_come() {
    let file = file(1 << 20);
    let server = Server::start(move |_| {
        let mut reply = Reply::whole(&file, "\"one\"");
        reply.pause = Duration::from_secs(600);
        reply
    });
    let began = Instant::now();
    let error = Remote::open(&server.url("/"), options()).unwrap_err();
    assert!(matches!(error, Error::NoRanges { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(300));
    let stopped = later(|_| Reply::whole(b"all of it", "\"one\""));
    assert!(matches!(error_of(stopped), Error::NoRanges { .. }));
}

fn error_of(spoil: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static) -> Error {
    error(spoil)
}

#[test]
fn an_answer_for_another_part_is_an_error() {
    for (range, why) in [
        ("bytes 327681-393215/655360", "it has bytes 327681"),
        ("bytes 327680-393214/655360", "to 393214"),
        ("bytes 327680-393216/655360", "to 393216"),
        ("bytes 0-65535/655360", "it has bytes 0"),
        ("bytes 327680-393215/*", "not valid"),
        ("bytes 393215-327680/655360", "not valid"),
        ("nonsense", "not valid"),
    ] {
        let error = error(later(move |reply| reply.with("Content-Range", range)));
        assert!(
            matches!(error, Error::Answer { .. }) && error.to_string().contains(why),
            "{range}: {error}"
        );
    }
    let none = error(later(|reply| reply.without("Content-Range")));
    assert!(none.to_string().contains("no Content-Range"), "{none}");
    let several = error(|_, reply| {
        reply
            .without("Content-Range")
            .with("Content-Type", "multipart/byteranges")
    });
    assert!(matches!(several, Error::Answer { .. }), "{several}");
}

#[test]
fn another_length_of_the_file_is_a_change() {
    let error = error(later(|reply| {
        reply.with("Content-Range", "bytes 327680-393215/655361")
    }));
    assert!(matches!(error, Error::Changed { .. }), "{error}");
}

#[test]
fn a_changed_file_is_an_error_however_the_server_shows_it() {
    let changes: [fn(Reply) -> Reply; 5] = [
        |reply| reply.with("ETag", "\"two\""),
        |reply| reply.with("ETag", "W/\"one\""),
        |reply| reply.without("ETag"),
        |_| Reply::status("412 Precondition Failed"),
        |_| Reply::status("416 Range Not Satisfiable"),
    ];
    for change in changes {
        let error = error(later(change));
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
}

#[test]
fn without_a_strong_etag_the_date_is_what_counts() {
    const DATE: &str = "Sun, 22 Nov 2026 09:00:00 GMT";
    let dated = |reply: Reply| reply.with("ETag", "W/\"one\"").with("Last-Modified", DATE);
    let (server, remote) = with(move |_, reply| dated(reply));
    assert_eq!(remote.unwrap().validator(), format!("W/\"one\" {DATE}"));
    let requests = server.requests();
    assert_eq!(requests[1].header("if-unmodified-since"), Some(DATE));
    assert_eq!(requests[1].header("if-match"), None);
    let changes: [fn(Reply) -> Reply; 3] = [
        |reply| reply.with("Last-Modified", "Sun, 22 Nov 2026 09:00:01 GMT"),
        |reply| reply.with("ETag", "W/\"two\""),
        |reply| reply.without("Last-Modified"),
    ];
    for change in changes {
        let spoil = move |request: &Request, reply| match request.number {
            0 => dated(reply),
            _ => change(dated(reply)),
        };
        let error = error(spoil);
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
    for nothing in ["W/\"one\"", "one"] {
        let error = error(move |_, reply| reply.with("ETag", nothing));
        assert!(matches!(error, Error::NoVersion { .. }), "{error}");
    }
}

#[test]
fn a_changed_file_is_not_mixed_with_what_was_fetched_ahead_or_before() {
    let (old, new) = (file(60 * BLOCK), vec![7; 60 * BLOCK]);
    let replaced = Arc::new(AtomicUsize::new(usize::MAX));
    let (when, one, two) = (Arc::clone(&replaced), old.clone(), new.clone());
    let server =
        Server::start(
            move |request| match request.number >= when.load(Ordering::SeqCst) {
                false => Reply::part(&one, "\"one\"", request),
                true => Reply::part(&two, "\"two\"", request),
            },
        );
    for change_at in 1..12 {
        replaced.store(server.requests().len() + change_at, Ordering::SeqCst);
        let remote = Remote::open(&server.url("/"), options()).unwrap();
        let mut at = 0;
        let result = loop {
            match read(&remote, at, 4096) {
                Ok(bytes) if bytes.is_empty() => break Ok(()),
                Ok(bytes) => {
                    assert!(bytes == old[at..at + bytes.len()], "at {at}");
                    at += bytes.len();
                }
                Err(error) => break Err(error),
            }
        };
        match result {
            Ok(()) => assert!(at == old.len() && change_at > 5),
            Err(error) => assert!(matches!(error, Error::Changed { .. }), "{error}"),
        }
        replaced.store(usize::MAX, Ordering::SeqCst);
    }
}

#[test]
fn an_encoded_answer_is_an_error() {
    let error = error(|_, reply| reply.with("Content-Encoding", "gzip"));
    assert!(error.to_string().contains("gzip"), "{error}");
    assert!(
        with(|_, reply| reply.with("Content-Encoding", "identity"))
            .1
            .is_ok()
    );
}

#[test]
fn what_breaks_off_is_asked_for_again() {
    let spoils: [fn(Reply) -> Reply; 6] = [
        |reply| Reply {
            cut: Some(1000),
            ..reply
        },
        |reply| Reply {
            cut: Some(0),
            ..reply
        },
        |reply| Reply {
            cut: Some(1000),
            chunked: true,
            ..reply.without("Content-Length")
        },
        |reply| Reply {
            cut: Some(1000),
            http10: true,
            ..reply.without("Content-Length")
        },
        |_| Reply::status("nonsense"),
        |_| Reply::status("503 Service Unavailable"),
    ];
    for (number, spoil) in spoils.into_iter().enumerate() {
        let (_server, remote) = with(move |request, reply| match request.number {
            0 | 3 => reply,
            _ => spoil(reply),
        });
        let remote = remote.unwrap_or_else(|error| panic!("{number}: {error}"));
        let traffic = remote.traffic();
        assert_eq!((traffic.requests, traffic.retries), (4, 2), "{number}");
        let error = error(later(spoil));
        assert!(
            matches!(error, Error::Unreachable { attempts: 4, .. }),
            "{number}: {error}"
        );
    }
}

#[test]
fn old_ways_to_send_a_body_are_understood() {
    let ways: [fn(Reply) -> Reply; 4] = [
        |reply| Reply {
            chunked: true,
            ..reply.without("Content-Length")
        },
        |reply| Reply {
            http10: true,
            ..reply
        },
        |reply| Reply {
            http10: true,
            ..reply.without("Content-Length")
        },
        |reply| Reply {
            http10: true,
            ..reply.with("Connection", "close")
        },
    ];
    let file = file(LEN);
    for way in ways {
        let served = file.clone();
        let server = Server::start(move |request| way(Reply::part(&served, "\"one\"", request)));
        let remote = Remote::open(&server.url("/"), options()).unwrap();
        assert!(read_all(&remote, 5000).unwrap() == file);
        assert_eq!(remote.traffic().retries, 0);
    }
}

#[test]
fn a_body_that_is_longer_than_its_range_is_an_error() {
    let longer = |mut reply: Reply| {
        reply.body.push(0);
        reply
    };
    let says = error(later(move |reply| {
        longer(reply).with("Content-Length", "65537")
    }));
    assert!(says.to_string().contains("does not fit"), "{says}");
    let chunked = error(later(move |reply| Reply {
        chunked: true,
        ..longer(reply.without("Content-Length"))
    }));
    assert!(chunked.to_string().contains("goes on"), "{chunked}");
    let until_close = error(later(move |reply| Reply {
        http10: true,
        ..longer(reply.without("Content-Length"))
    }));
    assert!(until_close.to_string().contains("goes on"), "{until_close}");
}

#[test]
fn a_body_that_is_shorter_than_its_range_is_never_taken() {
    let shorter = |mut reply: Reply| {
        reply.body.pop();
        reply
    };
    let says = error(later(move |reply| {
        shorter(reply).with("Content-Length", "65535")
    }));
    assert!(says.to_string().contains("does not fit"), "{says}");
    let chunked = error(later(move |reply| Reply {
        chunked: true,
        ..shorter(reply.without("Content-Length"))
    }));
    assert!(chunked.to_string().contains("65535 of 65536"), "{chunked}");
}

#[test]
fn a_slow_answer_is_given_up_and_asked_for_again() {
    let slow: [fn(Reply) -> Reply; 2] = [
        |reply| Reply {
            delay: Duration::from_secs(600),
            ..reply
        },
        |reply| Reply {
            pause: Duration::from_secs(600),
            ..reply
        },
    ];
    // Both at once.
    std::thread::scope(|scope| {
        for spoil in slow {
            scope.spawn(move || {
                let file = file(LEN);
                let server = Server::start(move |request| {
                    let reply = Reply::part(&file, "\"one\"", request);
                    if request.number == 1 {
                        spoil(reply)
                    } else {
                        reply
                    }
                });
                // A busy machine is not to be taken for a slow server.
                let options = Options {
                    read_timeout: Duration::from_secs(10),
                    ..options()
                };
                let remote = Remote::open(&server.url("/"), options).unwrap();
                read(&remote, 5 * BLOCK, 1).unwrap();
                assert_eq!(remote.traffic().retries, 1);
            });
        }
    });
}

#[test]
fn a_busy_server_is_left_alone_for_as_long_as_it_wants_within_bounds() {
    for (status, asked, longest, expected) in [
        ("429 Too Many Requests", "1", 5, 1),
        ("503 Service Unavailable", "1000000", 1, 1),
    ] {
        let file = file(LEN);
        let server = Server::start(move |request| match request.number {
            1 => Reply::status(status).with("Retry-After", asked),
            _ => Reply::part(&file, "\"one\"", request),
        });
        let longest_wait = Duration::from_secs(longest);
        let remote = Remote::open(
            &server.url("/"),
            Options {
                longest_wait,
                ..options()
            },
        )
        .unwrap();
        let began = Instant::now();
        read(&remote, 5 * BLOCK, 1).unwrap();
        assert!(began.elapsed() >= Duration::from_secs(expected), "{status}");
        assert_eq!(remote.traffic().retries, 1);
    }
}

#[test]
fn a_busy_server_is_not_waited_for_longer_than_the_timeout() {
    let file = file(LEN);
    let server = Server::start(move |request| match request.number {
        0..3 => Reply::status("503 Service Unavailable").with("Retry-After", "3600"),
        _ => Reply::part(&file, "\"one\"", request),
    });
    let options = Options {
        read_timeout: Duration::from_secs(3),
        longest_wait: Duration::from_secs(3600),
        ..options()
    };
    let began = Instant::now();
    let remote = Remote::open(&server.url("/"), options).unwrap();
    let took = began.elapsed();
    assert_eq!(remote.traffic().retries, 3);
    assert!(took >= Duration::from_secs(3), "{took:?}");
    assert!(took < Duration::from_secs(1000), "{took:?}");
}

#[test]
fn headers_that_are_there_twice_have_to_agree() {
    for (name, value) in [
        ("Content-Encoding", "gzip"),
        ("Content-Range", "bytes 0-1/2"),
        ("ETag", "\"other\""),
    ] {
        let error = error(move |_, reply| {
            let mut reply = match name {
                "Content-Encoding" => reply.with(name, "identity"),
                _ => reply,
            };
            reply.headers.push((name.into(), value.into()));
            reply
        });
        assert!(matches!(error, Error::Answer { .. }), "{name}: {error}");
    }
}

#[test]
fn what_will_not_change_is_not_asked_for_again() {
    for status in [
        "400 Bad Request",
        "401 Unauthorized",
        "403 Forbidden",
        "404 Not Found",
        "410 Gone",
        "501 Not Implemented",
    ] {
        let (server, result) = with(move |_, _| Reply::status(status));
        let error = result.unwrap_err();
        assert!(
            matches!(error, Error::Refused { .. }) && error.to_string().contains(&status[..3]),
            "{error}"
        );
        assert_eq!(server.requests().len(), 1);
    }
    let empty = error(|request, _| Reply::part(b"", "\"one\"", request));
    assert!(matches!(empty, Error::Empty { .. }), "{empty}");
}

#[test]
fn nobody_at_the_other_end_is_an_error() {
    let server = Server::of(file(10));
    let url = server.url("/");
    drop(server);
    let error = Remote::open(&url, options()).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let nowhere = Remote::open("http://nowhere.invalid/", options()).unwrap_err();
    assert!(matches!(nowhere, Error::Unreachable { .. }), "{nowhere}");
}

#[test]
fn a_connection_that_was_cut_between_requests_is_made_again() {
    let server = Server::of(file(LEN));
    let remote = Remote::open(&server.url("/"), options()).unwrap();
    for block in 1..5 {
        server.disconnect();
        read(&remote, 2 * block * BLOCK, 1).unwrap();
    }
}

#[test]
fn headers_without_end_are_an_error() {
    let error = error(|_, reply| {
        let long = "x".repeat(1 << 20);
        reply.with("X-Long", &long)
    });
    assert!(error.to_string().contains("headers"), "{error}");
}
