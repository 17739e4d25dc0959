//! Threads that fetch end with their handle. In a program of its own, since it counts those of the process.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use litepack_remote::Remote;
use litepack_webserver::{Reply, Server};

mod common;
use common::{BLOCK, file, options, read};

#[test]
fn threads_end_with_the_handle_even_in_the_middle_of_an_answer() {
    let file = file(200 * BLOCK);
    let server = Server::start(move |request| {
        let mut reply = Reply::part(&file, "\"one\"", request);
        if request.range().unwrap().0 >= 30 * BLOCK as u64 {
            reply.pause = Duration::from_secs(1000);
        }
        reply
    });
    let workers = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let named =
            |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        tasks
            .filter_map(named)
            .filter(|name| name.trim() == "litepack-fetch")
            .count()
    };
    let mut options = options();
    options.read_timeout = Duration::from_secs(1000);

    let remote = Remote::open(&server.url("/"), options).unwrap();
    assert_eq!(workers(), 0);
    read(&remote, 0, 10).unwrap();
    assert_eq!(workers(), 0);
    for block in 0..30 {
        read(&remote, block * BLOCK, 10).unwrap();
    }
    let began = Instant::now();
    let ahead =
        |request: &litepack_webserver::Request| request.range().unwrap().0 >= 30 * BLOCK as u64;
    while !server.requests().iter().any(ahead) {
        assert!(began.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(workers() > 0);
    drop(remote);
    let began = Instant::now();
    while workers() > 0 {
        assert!(
            began.elapsed() < Duration::from_secs(300),
            "{} workers",
            workers()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
