//! A server that does what it should: the right bytes, with few requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use litepack_remote::{Cache, DiskCache, Error, Options, Remote};
use litepack_webserver::{Reply, Server};

mod common;
use common::{BLOCK, file, options, read, read_all};

#[test]
fn every_read_gives_the_bytes_of_the_file() {
    for len in [1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 20 * BLOCK + 77] {
        let file = file(len);
        let server = Server::of(file.clone());
        for piece in [1000, 4096, BLOCK, 3 * BLOCK + 1, 40 * BLOCK] {
            let remote = Remote::open(&server.url("/a.db"), options()).unwrap();
            assert_eq!(remote.len(), len as u64);
            assert!(
                read_all(&remote, piece).unwrap() == file,
                "{len} in pieces of {piece}"
            );
            for at in [0, len / 2, len - 1] {
                let expected = &file[at..len.min(at + 5000)];
                assert!(
                    read(&remote, at, 5000).unwrap() == expected,
                    "{len} at {at}"
                );
            }
            assert!(read(&remote, len, 10).unwrap().is_empty());
            assert_eq!(remote.read_at(&mut [0; 10], u64::MAX).unwrap(), 0);
            assert_eq!(remote.read_at(&mut [], 0).unwrap(), 0);
        }
    }
}

#[test]
fn requests_are_get_for_a_range_of_one_version_and_as_it_is() {
    let server = Server::of(file(10 * BLOCK));
    let remote = Remote::open(&server.url("/a.db?key=1"), options()).unwrap();
    read(&remote, 5 * BLOCK + 7, 10).unwrap();
    assert_eq!(remote.validator(), "\"one\"");
    assert!(remote.url().ends_with("/a.db"));
    let requests = server.requests();
    let ranges: Vec<_> = requests
        .iter()
        .map(|request| request.range().unwrap())
        .collect();
    let block = BLOCK as u64;
    assert_eq!(ranges, [(0, 2 * block - 1), (5 * block, 6 * block - 1)]);
    for request in &requests {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("GET", "/a.db?key=1")
        );
        assert_eq!(request.header("accept-encoding"), Some("identity"));
    }
    assert_eq!(requests[0].header("if-match"), None);
    assert_eq!(requests[1].header("if-match"), Some("\"one\""));
}

#[test]
fn a_block_is_fetched_once_and_neighbours_together() {
    let server = Server::of(file(100 * BLOCK));
    let remote = Remote::open(&server.url("/"), options()).unwrap();
    for _ in 0..3 {
        // The first blocks came with opening; each of these is one request.
        for (offset, len) in [
            (0, BLOCK),
            (50 * BLOCK + 1, 4 * BLOCK),
            (70 * BLOCK, 10),
            (10 * BLOCK - 5, 10),
        ] {
            read(&remote, offset, len).unwrap();
        }
    }
    let traffic = remote.traffic();
    assert_eq!((traffic.requests, traffic.retries), (4, 0));
    assert_eq!(traffic.bytes, (2 + 5 + 1 + 2) * BLOCK as u64);
    assert_eq!(traffic.hits, 1 + 2 * (1 + 5 + 1 + 2));
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_scan_takes_few_requests_and_several_at_once() {
    let len = 300 * BLOCK;
    let file = file(len);
    let under_way = Arc::new(std::sync::Mutex::new((0, 0)));
    let (count, served) = (Arc::clone(&under_way), file.clone());
    let several = Arc::new(AtomicBool::new(false));
    let waits = Arc::clone(&several);
    let server = Server::start(move |request| {
        let now = |by: i32| {
            let mut count = count.lock().unwrap();
            count.0 += by;
            count.1 = count.0.max(count.1);
        };
        now(1);
        // Where several are to come at once, the first ones wait for another, if not for ever: some come alone.
        let begun = Instant::now();
        let is_alone = || waits.load(Ordering::SeqCst) && count.lock().unwrap().1 < 2;
        std::thread::sleep(Duration::from_millis(20));
        while is_alone() && begun.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(1));
        }
        now(-1);
        Reply::part(&served, "\"one\"", request)
    });
    // Also of a file that is larger than the cache.
    for (at_once, most, budget) in [(1, 1, 64 << 20), (4, 4, 64 << 20), (4, 4, 12 << 20)] {
        several.store(most > 1, Ordering::SeqCst);
        let options = Options {
            at_once,
            cache: Arc::new(Cache::new(budget)),
            ..options()
        };
        let remote = Remote::open(&server.url("/"), options).unwrap();
        assert!(read_all(&remote, 4096).unwrap() == file);
        let traffic = remote.traffic();
        assert!(traffic.requests < 30, "{traffic:?}");
        assert_eq!(traffic.bytes, len as u64);
        let (now, at_most) = *under_way.lock().unwrap();
        assert_eq!(now, 0);
        assert!(
            if most == 1 {
                at_most == 1
            } else {
                (2..=most).contains(&at_most)
            },
            "{at_most} at once"
        );
    }
}

#[test]
fn handles_share_blocks_of_the_same_file_asked_for_as_the_same_user() {
    let server = Server::of(file(10 * BLOCK));
    let options = options();
    let open =
        |path: &str, options: &Options| Remote::open(&server.url(path), options.clone()).unwrap();
    let first = open("/a", &options);
    read(&first, 0, 10 * BLOCK).unwrap();
    let again = open("/a", &options);
    read(&again, 0, 10 * BLOCK).unwrap();
    // Opening always asks, as the file may have changed.
    assert_eq!(again.traffic().requests, 1);
    let as_tenant = |number: u32| {
        let mut options = options.clone();
        options.headers.add(&format!("X-Tenant: {number}")).unwrap();
        open("/a", &options)
    };
    for other in [open("/b", &options), as_tenant(1), as_tenant(2)] {
        read(&other, 0, 10 * BLOCK).unwrap();
        assert!(other.traffic().requests > 1);
    }
}

/// Who opens a file again asks whether it is still the same, and then has what is here of it.
#[test]
fn a_file_that_is_opened_again_does_not_come_again() {
    let file = file(10 * BLOCK);
    let version = Arc::new(std::sync::Mutex::new("\"one\""));
    let refusing = Arc::new(std::sync::Mutex::new(None));
    let (now, refused, served) = (Arc::clone(&version), Arc::clone(&refusing), file.clone());
    let server = Server::start(move |request| {
        let etag = *now.lock().unwrap();
        if let (Some(status), Some(_)) = (*refused.lock().unwrap(), request.header("if-none-match"))
        {
            return Reply::status(status);
        }
        match (etag, request.header("if-none-match")) {
            // A server that knows the condition and not what belongs to its answer.
            ("\"one\"", Some("\"one\"")) => Reply::status("304 Not Modified"),
            // One that knows it the wrong way round.
            ("\"two\"", Some(_)) => Reply::status("304 Not Modified").with("ETag", etag),
            _ => Reply::part(&served, etag, request),
        }
    });
    let options = options();
    let open = |options: &Options| {
        let remote = Remote::open(&server.url("/"), options.clone()).unwrap();
        let before = remote.traffic();
        assert!(read_all(&remote, BLOCK).unwrap() == file);
        (before.requests, before.bytes)
    };
    let all = 2 * BLOCK as u64;
    assert_eq!(open(&options), (1, all));
    assert_eq!(open(&options), (1, 0));
    let asked = server.requests();
    let asked: Vec<_> = asked
        .iter()
        .filter_map(|request| request.header("if-none-match"))
        .collect();
    assert_eq!(asked, ["\"one\""]);
    // With other headers, or where the cache has nothing of it.
    let mut other = options.clone();
    other.headers.add("X-Tenant: 7").unwrap();
    assert_eq!(open(&other), (1, all));
    let cache = Arc::new(Cache::new(64 << 20));
    let fresh = Options {
        cache,
        ..options.clone()
    };
    assert_eq!(open(&fresh), (1, all));
    // Another version, first from a server with a wrong answer to the condition.
    *version.lock().unwrap() = "\"two\"";
    assert_eq!(open(&options), (2, all));
    *version.lock().unwrap() = "\"three\"";
    assert_eq!(open(&options), (1, all));
    assert_eq!(open(&options), (1, 0));
    // Servers that do not know the condition, and say so in some way, or know it in place of the range.
    for status in [
        "200 OK",
        "400 Bad Request",
        "412 Precondition Failed",
        "501 Not Implemented",
    ] {
        let etag = if status.starts_with('2') {
            "\"200\""
        } else {
            "\"else\""
        };
        *refusing.lock().unwrap() = None;
        *version.lock().unwrap() = etag;
        open(&options);
        *refusing.lock().unwrap() = Some(status);
        assert_eq!(open(&options), (2, all), "{status}");
        *refusing.lock().unwrap() = None;
    }
    // A weak ETag does not say that the bytes are the same.
    *version.lock().unwrap() = "W/\"four\"";
    assert!(matches!(
        Remote::open(&server.url("/"), options.clone()),
        Err(Error::NoVersion { .. })
    ));
}

/// The first bytes are read once by everyone, and are no scan.
#[test]
fn what_lies_behind_the_beginning_comes_alone() {
    let server = Server::of(file(20 * BLOCK));
    let remote = Remote::open(&server.url("/"), options()).unwrap();
    for (offset, len) in [
        (0, 2048),
        (2048, 2 * BLOCK - 3000),
        (2 * BLOCK - 900, BLOCK),
    ] {
        read(&remote, offset, len).unwrap();
    }
    let block = BLOCK as u64;
    let ranges: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.range().unwrap())
        .collect();
    assert_eq!(ranges, [(0, 2 * block - 1), (2 * block, 3 * block - 1)]);
}

#[test]
fn another_version_never_finds_blocks_of_the_one_before() {
    let now = Arc::new(std::sync::Mutex::new((file(10 * BLOCK), "\"one\"")));
    let served = Arc::clone(&now);
    let server = Server::start(move |request| {
        let now = served.lock().unwrap();
        Reply::part(&now.0, now.1, request)
    });
    let directory = tempfile::tempdir().unwrap();
    let mut options = options();
    options.disk_cache = Some(DiskCache {
        directory: directory.path().join("blocks"),
        limit: 10 << 20,
    });
    let remote = Remote::open(&server.url("/"), options.clone()).unwrap();
    read_all(&remote, BLOCK).unwrap();
    let mut other = file(10 * BLOCK);
    other.reverse();
    *now.lock().unwrap() = (other.clone(), "\"two\"");
    let remote = Remote::open(&server.url("/"), options).unwrap();
    assert!(read_all(&remote, BLOCK).unwrap() == other);
}

#[test]
fn a_cache_of_nothing_is_slow_and_right() {
    let file = file(20 * BLOCK);
    let server = Server::of(file.clone());
    for budget in [0, BLOCK as u64 / 2, 3 * BLOCK as u64] {
        let cache = Arc::new(Cache::new(budget));
        let remote = Remote::open(&server.url("/"), Options { cache, ..options() }).unwrap();
        assert!(read_all(&remote, 4096).unwrap() == file);
        // The block read last is at hand whatever the budget.
        assert!(remote.traffic().requests <= 45, "{:?}", remote.traffic());
    }
}

#[test]
fn blocks_on_disk_serve_other_processes_and_damaged_ones_do_not() {
    let file = file(20 * BLOCK + 5);
    let server = Server::of(file.clone());
    let directory = tempfile::tempdir().unwrap();
    let disk_cache = Some(DiskCache {
        directory: directory.path().join("blocks"),
        limit: 10 << 20,
    });
    // A memory cache of its own is as good as another process.
    let open = || {
        let options = Options {
            disk_cache: disk_cache.clone(),
            ..options()
        };
        Remote::open(&server.url("/"), options).unwrap()
    };
    assert!(read_all(&open(), 4096).unwrap() == file);
    let again = open();
    assert!(read_all(&again, 4096).unwrap() == file);
    let traffic = again.traffic();
    // The request asks whether the file is still the same.
    assert_eq!(
        (traffic.requests, traffic.bytes, traffic.disk_hits),
        (1, 0, 21)
    );
    let mut damaged = 0;
    for entry in std::fs::read_dir(directory.path().join("blocks")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = (damaged * 7919) % bytes.len();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        damaged += 1;
    }
    assert_eq!(damaged, 21);
    let again = open();
    assert!(read_all(&again, 4096).unwrap() == file);
    assert_eq!(again.traffic().disk_hits, 0);
}

#[test]
fn threads_read_one_handle() {
    let file = file(40 * BLOCK);
    let server = Server::of(file.clone());
    let remote = Remote::open(&server.url("/"), options()).unwrap();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (remote, file) = (&remote, &file);
            scope.spawn(move || {
                for step in 0..200 {
                    let at = (n * 7919 + step * 4096) % (file.len() - 5000);
                    assert!(read(remote, at, 5000).unwrap() == file[at..at + 5000]);
                }
            });
        }
    });
    // No block was fetched by two of them.
    assert!(remote.traffic().bytes <= file.len() as u64 + 10 * BLOCK as u64);
}
