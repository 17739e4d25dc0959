//! Uploads that go wrong: what is taken back, what is not, and what is said.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use litepack_remote::{Error, Options, UploadOptions, upload};
use litepack_webserver::{Reply, Request, Server};
use md5::{Digest as _, Md5};

mod common;
use common::file;
use common::s3::{URL, asking, refusal, target};

/// Answers an upload in parts as a store does, but for what `wrong` answers.
fn storing(wrong: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Server {
    Server::start(move |request| {
        if let Some(reply) = wrong(request) {
            return reply;
        }
        let (_, query) = target(request);
        let text = |text: &str| Reply::whole(text.as_bytes(), "\"x\"");
        match request.method.as_str() {
            "POST" if query.contains("uploads=") => text(
                "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>shards\
                 </Bucket><Key>a.db</Key><UploadId>7</UploadId></InitiateMultipartUploadResult>",
            ),
            "POST" => text(
                "<CompleteMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ETag>x</ETag>\
                 </CompleteMultipartUploadResult>",
            ),
            "PUT" => Reply::status("200 OK").with("ETag", "\"part\""),
            "DELETE" => Reply::status("204 No Content"),
            _ => Reply::part(&[0; 1000], "\"x\"", request),
        }
    })
}

/// An upload in four parts that does not look long for what the store may have made.
fn how() -> UploadOptions {
    UploadOptions {
        replace: true,
        part_size: 300,
        end_timeout: Duration::from_secs(60),
        look_for: Duration::from_millis(100),
    }
}

fn store(server: &Server) -> Result<(), Error> {
    store_as(server, &how())
}

fn store_as(server: &Server, how: &UploadOptions) -> Result<(), Error> {
    // Long enough that a request is not sent again because the machine is busy: tests count them.
    store_within(server, how, Duration::from_secs(20))
}

fn store_within(server: &Server, how: &UploadOptions, read_timeout: Duration) -> Result<(), Error> {
    let go_on = &mut |_| ControlFlow::Continue(());
    let options = Options {
        read_timeout,
        ..asking(server, &[])
    };
    upload(URL, &&file(1000)[..], 1000, how, &options, go_on)
}

/// The ETag of the object that such an upload makes.
fn etag_of_parts() -> String {
    let mut whole = Md5::new();
    let bytes = file(1000);
    bytes
        .chunks(300)
        .for_each(|part| whole.update(Md5::digest(part)));
    let sum: [u8; 16] = whole.finalize().into();
    format!("\"{:032x}-4\"", u128::from_be_bytes(sum))
}

fn nothing() -> Reply {
    refusal("404 Not Found", "NoSuchKey")
}

fn is_end(request: &Request) -> bool {
    request.method == "POST" && request.path.contains("uploadId=7")
}

fn took_back(server: &Server) -> bool {
    let requests = server.requests();
    requests
        .iter()
        .any(|request| request.method == "DELETE" && request.path.contains("uploadId=7"))
}

#[test]
fn an_upload_that_fails_is_taken_back_and_one_that_works_is_not() {
    let right = storing(|_| None);
    store(&right).unwrap();
    assert!(!took_back(&right));
    let bytes = file(1000);
    let parts: Vec<_> = right
        .requests()
        .into_iter()
        .filter(|r| r.method == "PUT")
        .collect();
    let sent: Vec<u8> = parts.iter().flat_map(|part| part.body.clone()).collect();
    assert_eq!(sent, bytes);
    assert!(parts.iter().all(|part| {
        part.header("content-md5")
            .is_some_and(|sum| sum.len() == 24)
    }));

    let is_third = |request: &Request| request.path.contains("partNumber=3&");
    let refused =
        storing(move |request| is_third(request).then(|| refusal("403 Forbidden", "AccessDenied")));
    assert!(matches!(store(&refused), Err(Error::Refused { .. })));
    assert!(took_back(&refused));
    let down =
        storing(move |request| is_third(request).then(|| refusal("503 Slow Down", "SlowDown")));
    assert!(matches!(store(&down), Err(Error::Unreachable { .. })));
    assert!(took_back(&down));
    // It says that all is well, and in the text that nothing is.
    let lies = storing(move |request| is_end(request).then(|| refusal("200 OK", "InvalidPart")));
    assert!(matches!(store(&lies), Err(Error::Answer { .. })));
    assert!(took_back(&lies));
    // The object in the store is not the one that was sent.
    let short = storing(|request| {
        let is_get = request.method == "GET";
        is_get.then(|| Reply::part(&[0; 999], "\"x\"", request))
    });
    let error = store(&short).unwrap_err().to_string();
    assert!(
        error.contains("999") && error.contains("is there and is bad"),
        "{error}"
    );
}

/// The same in one request, which then finds that there is such an object.
#[test]
fn nor_is_one_in_one_request() {
    let bytes = file(1000);
    let right = {
        let sum: [u8; 16] = Md5::digest(&bytes).into();
        format!("\"{:032x}\"", u128::from_be_bytes(sum))
    };
    for (etag, lost, is_right) in [
        (right.as_str(), true, true),
        ("\"other\"", true, false),
        (right.as_str(), false, false),
    ] {
        let (etag, asked) = (etag.to_string(), AtomicBool::new(!lost));
        let server = Server::start(move |request| match request.method.as_str() {
            "GET" if request.number == 0 => nothing(),
            "PUT" if !asked.swap(true, Ordering::SeqCst) => refusal("503 Slow Down", "SlowDown"),
            "PUT" => refusal("412 Precondition Failed", "PreconditionFailed"),
            _ => Reply::part(&[0; 1000], &etag, request),
        });
        let go_on = &mut |_| ControlFlow::Continue(());
        let how = UploadOptions::default();
        let done = upload(URL, &&bytes[..], 1000, &how, &asking(&server, &[]), go_on);
        assert_eq!(done.is_ok(), is_right, "{done:?}");
    }
}

/// The store made the object, and the answer that says so was lost: asked again, it knows of no such upload.
#[test]
fn an_upload_that_ended_well_is_not_an_error_because_an_answer_was_lost() {
    let etag = etag_of_parts();
    for (etag, is_right) in [(etag.as_str(), true), ("\"other\"", false)] {
        let (etag, ended) = (etag.to_string(), AtomicBool::new(false));
        let server = storing(move |request| {
            if is_end(request) && !ended.swap(true, Ordering::SeqCst) {
                return Some(Reply {
                    cut: Some(0),
                    ..Reply::whole(b"<x/>", "\"x\"")
                });
            }
            match request.method.as_str() {
                _ if is_end(request) => Some(refusal("404 Not Found", "NoSuchUpload")),
                "GET" => Some(Reply::part(&[0; 1000], &etag, request)),
                _ => None,
            }
        });
        let done = store(&server);
        assert_eq!(done.is_ok(), is_right, "{done:?}");
        assert_eq!(took_back(&server), !is_right);
    }
}

/// A store may take minutes to make an object of the parts: longer than other answers are waited for.
#[test]
fn a_store_may_take_long_to_make_an_object_of_the_parts() {
    let server = storing(|request| {
        is_end(request).then(|| Reply {
            delay: Duration::from_secs(4),
            ..Reply::whole(
                b"<CompleteMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ETag>x</ETag>\
                  </CompleteMultipartUploadResult>",
                "\"x\"",
            )
        })
    });
    store_within(&server, &how(), Duration::from_secs(3)).unwrap();
    assert_eq!(ends(&server), 1);
    assert!(!took_back(&server));
}

fn ends(server: &Server) -> usize {
    server.requests().iter().filter(|r| is_end(r)).count()
}

/// No answer in time, or half of one: the store may still be at it. The object it may make is looked for first.
#[test]
fn parts_are_not_taken_back_while_the_store_may_be_at_work() {
    for is_cut in [false, true] {
        let begun: Mutex<Option<Instant>> = Mutex::new(None);
        let etag = etag_of_parts();
        let server = storing(move |request| {
            let mut begun = begun.lock().unwrap();
            if is_end(request) {
                begun.get_or_insert_with(Instant::now);
                return Some(match is_cut {
                    true => Reply {
                        cut: Some(2),
                        ..Reply::whole(b"<x/>", "\"x\"")
                    },
                    false => refusal("504 Gateway Timeout", ""),
                });
            }
            let is_made = begun.is_some_and(|at| at.elapsed() > Duration::from_millis(700));
            match (request.method.as_str(), is_made) {
                ("GET", true) => Some(Reply::part(&[0; 1000], &etag, request)),
                ("GET", false) => Some(nothing()),
                _ => None,
            }
        });
        let how = UploadOptions {
            look_for: Duration::from_secs(60),
            ..how()
        };
        store_as(&server, &how).unwrap();
        assert!(!took_back(&server));
    }
    // It never does: then they are.
    let never = storing(|request| match request.method.as_str() {
        _ if is_end(request) => Some(refusal("504 Gateway Timeout", "")),
        "GET" => Some(nothing()),
        _ => None,
    });
    let begun = Instant::now();
    let error = store(&never).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("may still appear"), "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(100));
    assert!(took_back(&never));
}

/// Another client wrote the same bytes: that is no success, and our parts are not left behind.
#[test]
fn a_refusal_at_once_is_a_refusal_even_if_the_same_is_there() {
    for (status, code) in [
        ("412 Precondition Failed", "PreconditionFailed"),
        ("403 Forbidden", "AccessDenied"),
    ] {
        let (etag, refused) = (etag_of_parts(), AtomicBool::new(false));
        let server = storing(move |request| {
            if is_end(request) {
                refused.store(true, Ordering::SeqCst);
                return Some(refusal(status, code));
            }
            let is_get = request.method == "GET";
            is_get.then(|| match refused.load(Ordering::SeqCst) {
                true => Reply::part(&[0; 1000], &etag, request),
                false => nothing(),
            })
        });
        let how = UploadOptions {
            replace: false,
            ..how()
        };
        match store_as(&server, &how) {
            Err(Error::Exists { .. }) => assert!(status.starts_with("412")),
            Err(Error::Refused { .. }) => assert!(status.starts_with("403")),
            other => panic!("{other:?}"),
        }
        assert!(took_back(&server));
        assert_eq!(ends(&server), 1);
    }
}

/// Two programs write the same object, each only if there is none. The store lets one of them do it, and tells the
/// other to try again.
#[test]
fn who_meets_another_writer_tries_again_and_takes_no_object_for_its_own() {
    let conflict = || refusal("409 Conflict", "ConditionalRequestConflict");
    let sum: [u8; 16] = Md5::digest(file(1000)).into();
    let same = format!("\"{:032x}\"", u128::from_be_bytes(sum));
    // After how many of them there is an object, which the other program made of the same bytes.
    for (conflicts, other_is_done) in [(1, false), (1, true), (u32::MAX, false)] {
        let (tries, same) = (AtomicU32::new(0), same.clone());
        let server = storing(move |request| match request.method.as_str() {
            "PUT" if tries.fetch_add(1, Ordering::SeqCst) < conflicts => Some(conflict()),
            "PUT" if other_is_done => {
                Some(refusal("412 Precondition Failed", "PreconditionFailed"))
            }
            "GET" if tries.load(Ordering::SeqCst) < 2 => Some(nothing()),
            "GET" => Some(Reply::part(&[0; 1000], &same, request)),
            _ => None,
        });
        let how = UploadOptions {
            replace: false,
            part_size: 10_000,
            ..how()
        };
        let done = store_as(&server, &how);
        match (conflicts, other_is_done) {
            (1, false) => done.unwrap(),
            (1, true) => assert!(matches!(done, Err(Error::Exists { .. })), "{done:?}"),
            _ => {
                let error = done.unwrap_err();
                assert!(error.to_string().contains("try again"), "{error}");
            }
        }
    }
    // An upload in parts has to begin anew.
    let server = storing(move |request| match request.method.as_str() {
        "GET" => Some(nothing()),
        _ => is_end(request).then(conflict),
    });
    let how = UploadOptions {
        replace: false,
        ..how()
    };
    let error = store_as(&server, &how).unwrap_err().to_string();
    assert!(
        error.contains("try again") && !error.contains("may still appear"),
        "{error}"
    );
    assert!(took_back(&server));
    assert_eq!(ends(&server), 1);
}

/// Another writer comes between the look and the upload: the store is to refuse.
#[test]
fn what_is_not_to_replace_anything_is_sent_with_a_condition() {
    for replace in [false, true] {
        for part_size in [300, 10_000] {
            let server = storing(|request| match request.method.as_str() {
                "GET" => Some(nothing()),
                _ => None,
            });
            let how = UploadOptions {
                replace,
                part_size,
                ..how()
            };
            // The store says in the end that nothing is there, which is of no matter here.
            let _ = store_as(&server, &how);
            let requests = server.requests();
            let last = requests.iter().rev().find(|r| r.method != "GET").unwrap();
            assert_eq!(is_end(last), part_size == 300);
            let condition = (!replace).then_some("*");
            assert_eq!(last.header("if-none-match"), condition);
        }
    }
}

/// A store that does not know `If-None-Match`, and another client that writes the object while we send ours.
#[test]
fn nothing_is_replaced_in_a_store_that_heeds_no_condition() {
    for part_size in [300, 10_000] {
        let seen = AtomicU32::new(0);
        let server = storing(move |request| {
            // All parts are there before the object is.
            let is_there = part_size > 1000 || seen.load(Ordering::SeqCst) == 4;
            match request.method.as_str() {
                "PUT" => {
                    seen.fetch_add(1, Ordering::SeqCst);
                    None
                }
                "GET" if !is_there => Some(nothing()),
                _ => None,
            }
        });
        let how = UploadOptions {
            replace: false,
            part_size,
            ..how()
        };
        let error = store_as(&server, &how).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        let puts = |r: &&Request| r.method == "PUT" && !r.path.contains("uploadId");
        assert_eq!(server.requests().iter().filter(puts).count(), 0);
        assert_eq!(ends(&server), 0);
        assert_eq!(took_back(&server), part_size == 300);
    }
}

/// The store has said by an MD5 that it has what was sent. That it cannot be looked at is no failure then.
#[test]
fn an_upload_that_is_confirmed_needs_no_look() {
    let sum: [u8; 16] = Md5::digest(file(1000)).into();
    let of_file = format!("\"{:032x}\"", u128::from_be_bytes(sum));
    for (part_size, etag, is_right) in [
        (10_000, of_file.clone(), true),
        (300, etag_of_parts(), true),
        (10_000, "\"other\"".into(), false),
        (300, of_file, false),
    ] {
        let server = storing(move |request| match request.method.as_str() {
            "GET" => Some(refusal("503 Slow Down", "SlowDown")),
            "PUT" => Some(Reply::status("200 OK").with("ETag", &etag)),
            _ if is_end(request) => {
                let text = format!(
                    "<CompleteMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ETag>{}</ETag>\
                     </CompleteMultipartUploadResult>",
                    etag.replace('"', "&quot;")
                );
                Some(Reply::whole(text.as_bytes(), "\"x\""))
            }
            _ => None,
        });
        let how = UploadOptions { part_size, ..how() };
        let done = store_as(&server, &how);
        assert_eq!(done.is_ok(), is_right, "{done:?}");
        assert!(!took_back(&server));
    }
}
