//! Redirects: followed as far as they should be, and who the user is stays between the user and the URL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use litepack_remote::{Error, Options, Remote};
use litepack_webserver::{Reply, Server};

mod common;
use common::{BLOCK, file, options, read};

fn secretive() -> Options {
    let mut options = options();
    options.headers.add_bearer("s3cret").unwrap();
    options.headers.add("X-Api-Key: s3cret").unwrap();
    options
}

#[test]
fn where_a_redirect_led_is_remembered() {
    let file = file(10 * BLOCK);
    let served = file.clone();
    let server = Server::start(move |request| match request.path.as_str() {
        "/a/b.db" => Reply::redirect("../c?d=e"),
        "/c?d=e" => Reply::redirect("/f"),
        _ => Reply::part(&served, "\"one\"", request),
    });
    let remote = Remote::open(&server.url("/a/b.db"), secretive()).unwrap();
    for block in [9, 5, 7] {
        assert!(read(&remote, block * BLOCK, 10).unwrap() == file[block * BLOCK..][..10]);
    }
    let requests = server.requests();
    let paths: Vec<_> = requests
        .iter()
        .map(|request| request.path.as_str())
        .collect();
    assert_eq!(paths, ["/a/b.db", "/c?d=e", "/f", "/f", "/f", "/f"]);
    // The same origin all along.
    assert!(
        requests
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer s3cret"))
    );
    assert!(remote.url().ends_with("/a/b.db"));
}

#[test]
fn another_origin_is_not_told_who_the_user_is() {
    let elsewhere = Server::of(file(10 * BLOCK));
    let target = elsewhere.url("/signed?key=1");
    let server = Server::start(move |_| Reply::redirect(&target));
    let remote = Remote::open(&server.url("/"), secretive()).unwrap();
    read(&remote, 5 * BLOCK, 1).unwrap();
    // The same port of a host with another name is another origin as well.
    let with_user = server.url("/").replace("http://", "http://user:s3cret@");
    let other_user = Remote::open(&with_user, options()).unwrap();
    read(&other_user, 5 * BLOCK, 1).unwrap();
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("authorization").is_some())
    );
    assert_eq!(elsewhere.requests().len(), 4);
    for request in elsewhere.requests() {
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.header("x-api-key"), None);
        assert!(!format!("{request:?}").contains("s3cret"));
        assert!(request.range().is_some());
    }
}

#[test]
fn a_user_in_the_url_is_sent_as_it_should_be() {
    let server = Server::of(file(10));
    let url = server.url("/").replace("http://", "http://user:p%40ss@");
    let remote = Remote::open(&url, options()).unwrap();
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some("Basic dXNlcjpwQHNz")
    );
    assert!(!remote.url().contains("p%40ss") && !format!("{remote:?}").contains("dXNlcjpwQHNz"));
    let twice = Remote::open(&url, secretive()).unwrap_err();
    assert!(matches!(twice, Error::Settings(_)), "{twice}");
}

#[test]
fn a_key_in_the_url_is_sent_to_nobody() {
    let server = Server::of(file(10));
    for query in ["hexkey=00ff", "a=b&HexKey=00ff", "a&hexkey"] {
        let error = Remote::open(&server.url(&format!("/a.db?{query}")), options()).unwrap_err();
        assert!(matches!(error, Error::Settings(_)), "{error}");
        assert!(!error.to_string().contains("00ff"));
    }
    assert!(server.requests().is_empty());
    Remote::open(&server.url("/hexkey=?a=hexkey"), options()).unwrap();
}

#[test]
fn what_was_signed_for_a_while_is_signed_again() {
    let file = file(10 * BLOCK);
    let served = file.clone();
    let signed = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        let now = signed.load(Ordering::SeqCst);
        match request.path.strip_prefix("/signed?") {
            None => Reply::redirect(&format!(
                "/signed?{}",
                signed.fetch_add(1, Ordering::SeqCst) + 1
            )),
            // Each signature is good for two requests.
            Some(number) if number == now.to_string() && !request.number.is_multiple_of(4) => {
                Reply::part(&served, "\"one\"", request)
            }
            Some(_) => Reply::status("403 Forbidden"),
        }
    });
    let remote = Remote::open(&server.url("/a"), options()).unwrap();
    for block in 1..10 {
        let at = (block * 7 % 10) * BLOCK;
        assert!(read(&remote, at, 10).unwrap() == file[at..][..10]);
    }
    assert!(
        server
            .requests()
            .iter()
            .filter(|request| request.path == "/a")
            .count()
            > 2
    );
}

#[test]
fn a_mirror_that_is_gone_is_left() {
    let file = file(10 * BLOCK);
    let (first, second) = (Server::of(file.clone()), Server::of(file));
    let (one, two) = (first.url("/"), second.url("/"));
    let moved = Arc::new(AtomicBool::new(false));
    let is_moved = Arc::clone(&moved);
    let server = Server::start(move |_| {
        Reply::redirect(if is_moved.load(Ordering::SeqCst) {
            &two
        } else {
            &one
        })
    });
    let remote = Remote::open(&server.url("/"), options()).unwrap();
    drop(first);
    moved.store(true, Ordering::SeqCst);
    read(&remote, 5 * BLOCK, 1).unwrap();
    assert_eq!(remote.traffic().retries, 0);
}

#[test]
fn a_refusal_that_lasts_is_an_error_after_asking_at_the_users_url_once() {
    let file = file(10 * BLOCK);
    let server = Server::start(
        move |request| match (request.path.as_str(), request.number) {
            ("/a", _) => Reply::redirect("/b"),
            (_, 1) => Reply::part(&file, "\"one\"", request),
            _ => Reply::status("403 Forbidden"),
        },
    );
    let remote = Remote::open(&server.url("/a"), options()).unwrap();
    let error = read(&remote, 5 * BLOCK, 1).unwrap_err();
    assert!(
        matches!(error, Error::Refused { status: 403, .. }),
        "{error}"
    );
    let paths: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.path.clone())
        .collect();
    assert_eq!(paths, ["/a", "/b", "/b", "/a", "/b"]);
}

#[test]
fn redirects_without_end_or_goal_are_errors() {
    for (target, why) in [
        ("/again", "more than 10 times"),
        ("file:///etc/passwd", "not on the web"),
        ("http://", "not a URL"),
    ] {
        let server = Server::start(move |_| Reply::redirect(target));
        let error = Remote::open(&server.url("/"), options()).unwrap_err();
        assert!(
            matches!(error, Error::Redirect { .. }) && error.to_string().contains(why),
            "{target}: {error}"
        );
        assert!(server.requests().len() <= 11);
    }
    let server = Server::start(|_| Reply::redirect("/").without("Location"));
    let error = Remote::open(&server.url("/"), options()).unwrap_err();
    assert!(error.to_string().contains("not to a URL"), "{error}");
}
