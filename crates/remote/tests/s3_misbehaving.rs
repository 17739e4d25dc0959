//! Stores, and servers that give credentials, that misbehave. None gets more than a request, and no error shows one.

use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use litepack_remote::{
    Environment, Error, Options, Remote, UploadOptions, expect_absent, list, upload,
};
use litepack_webserver::{Reply, Request, Server};

mod common;
use common::s3::{
    KEY, SECRET, TOKEN, URL, asking, no_secret, nothing_sent, of_query, refusal, target,
};
use common::{BLOCK, file, options, read_all};

fn open(environment: Environment) -> Result<Remote, Error> {
    let options = Options {
        environment,
        ..options()
    };
    Remote::open(URL, options)
}

fn get(options: &Options) -> Result<Vec<u8>, Error> {
    read_all(&Remote::open(URL, options.clone())?, 100_000)
}

#[test]
fn requests_are_signed_and_the_signature_is_nowhere_else() {
    let bytes = file(3 * BLOCK);
    let server = Server::of(bytes.clone());
    let remote = Remote::open(URL, asking(&server, &[])).unwrap();
    assert_eq!(read_all(&remote, 100_000).unwrap(), bytes);
    for request in server.requests() {
        let (path, query) = target(&request);
        assert_eq!(path, "/shards/a.db");
        assert!(query.contains("X-Amz-Signature=") && query.contains("X-Amz-Security-Token=t0ken"));
        assert!(!query.contains("s3cret"), "{query}");
        assert_eq!(request.header("authorization"), None);
    }
    let shown = format!("{remote:?} {} {}", remote.url(), remote.validator());
    assert!(!shown.contains("X-Amz") && !shown.contains(KEY), "{shown}");
}

/// Whatever it answers, even if it says our own request back to us.
#[test]
fn nothing_that_a_store_answers_makes_an_error_with_a_secret() {
    let statuses = [
        "200 OK",
        "204 No Content",
        "301 Moved Permanently",
        "307 Temporary Redirect",
        "400 Bad Request",
        "401 Unauthorized",
        "403 Forbidden",
        "404 Not Found",
        "412 Precondition Failed",
        "416 Range Not Satisfiable",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "503 Slow Down",
        "700 What",
    ];
    for status in statuses {
        for code in ["AccessDenied", "ExpiredToken", "InvalidAccessKeyId", ""] {
            let server = Server::start(move |request| {
                let code = if code.is_empty() {
                    request.path.as_str()
                } else {
                    code
                };
                let location = request.path.clone();
                refusal(status, code)
                    .with("Location", &location)
                    .with("X-Amz-Bucket-Region", &location)
            });
            let options = asking(&server, &[]);
            let error = get(&options).unwrap_err();
            no_secret(&error);
            assert!(error.to_string().contains(URL), "{error}");
            let go_on = &mut |_| ControlFlow::Continue(());
            for part_size in [10, 10_000] {
                let how = UploadOptions {
                    replace: true,
                    part_size,
                    ..UploadOptions::default()
                };
                let wrong = upload(URL, &&file(1000)[..], 1000, &how, &options, go_on);
                no_secret(&wrong.unwrap_err());
            }
        }
    }
}

/// A code is the one thing that is shown of what a store says.
#[test]
fn a_code_that_repeats_what_was_sent_is_not_shown() {
    let token = "T0kenOfLettersAlone";
    let echoes: [fn(&Request) -> String; 8] = [
        |request| of_query(request, "X-Amz-Signature").into(),
        |request| of_query(request, "X-Amz-Signature")[..40].into(),
        |request| format!("A{}", &of_query(request, "X-Amz-Signature")[..40]),
        |request| of_query(request, "X-Amz-Signature")[20..60].to_uppercase(),
        |request| of_query(request, "X-Amz-Credential").into(),
        |request| of_query(request, "X-Amz-Credential")[..KEY.len()].into(),
        |request| format!("No{}", &of_query(request, "X-Amz-Credential")[..KEY.len()]),
        |request| of_query(request, "X-Amz-Security-Token").into(),
    ];
    for status in ["400 Bad Request", "403 Forbidden", "404 Not Found"] {
        for echo in echoes {
            let server = Server::start(move |request| refusal(status, &echo(request)));
            let options = asking(&server, &[("AWS_SESSION_TOKEN", token)]);
            nothing_sent(&server, &get(&options).unwrap_err());
            for replace in [false, true] {
                let how = UploadOptions {
                    replace,
                    part_size: 10_000,
                    ..UploadOptions::default()
                };
                let go_on = &mut |_| ControlFlow::Continue(());
                let wrong = upload(URL, &&file(1000)[..], 1000, &how, &options, go_on);
                nothing_sent(&server, &wrong.unwrap_err());
            }
            // Where there is nothing, that is no error.
            if let Err(error) = expect_absent(URL, &options) {
                nothing_sent(&server, &error);
            }
        }
    }
    let told = Server::start(|_| refusal("403 Forbidden", "XAdminUserNotFound"));
    let error = get(&asking(&told, &[])).unwrap_err().to_string();
    assert!(error.contains("(XAdminUserNotFound)"), "{error}");
}

#[test]
fn what_is_kept_of_an_answer_repeats_nothing_that_was_sent() {
    let bytes = file(4 * BLOCK);
    for part in [
        "X-Amz-Signature",
        "X-Amz-Credential",
        "X-Amz-Security-Token",
    ] {
        let bytes = bytes.clone();
        let server = Server::start(move |request| {
            let secret = of_query(request, part);
            // An ETag is shown, and names blocks in the cache.
            let etag = format!("\"{secret}\"");
            let mut request = request.clone();
            request.headers.retain(|(name, _)| name != "if-match");
            Reply::part(&bytes, &etag, &request)
        });
        let error = get(&asking(&server, &[])).unwrap_err();
        assert!(error.to_string().contains("repeat"), "{error}");
        nothing_sent(&server, &error);
    }
}

#[test]
fn redirects_are_not_followed() {
    let other = Server::of(file(BLOCK));
    let elsewhere = other.url("/shards/a.db");
    for status in [
        "301 Moved Permanently",
        "302 Found",
        "307 Temporary Redirect",
    ] {
        let to = elsewhere.clone();
        let server = Server::start(move |_| {
            let mut reply = Reply::redirect(&to).with("x-amz-bucket-region", "eu-west-1");
            reply.status = status.into();
            reply
        });
        let error = get(&asking(&server, &[])).unwrap_err();
        assert!(matches!(error, Error::Redirect { .. }), "{error}");
        assert!(error.to_string().contains("AWS_REGION"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
    assert!(other.requests().is_empty());
}

#[test]
fn what_fails_in_passing_is_asked_again() {
    let bytes = file(4 * BLOCK);
    let served = bytes.clone();
    let server = Server::start(move |request| {
        let right = Reply::part(&served, "\"one\"", request);
        match request.number % 4 {
            0 => refusal("503 Slow Down", "SlowDown"),
            1 => refusal("400 Bad Request", "RequestTimeout"),
            2 => Reply {
                cut: Some(1000),
                ..right
            },
            _ => right,
        }
    });
    assert_eq!(get(&asking(&server, &[])).unwrap(), bytes);
}

#[test]
fn answers_of_a_wrong_length_or_another_version_are_errors() {
    let bytes = file(4 * BLOCK);
    let served = bytes.clone();
    let longer = Server::start(move |request| {
        let mut reply = Reply::part(&served, "\"one\"", request);
        if request.number > 0 {
            reply.body.push(0);
            let len = reply.body.len().to_string();
            reply = reply.with("Content-Length", &len);
        }
        reply
    });
    let error = get(&asking(&longer, &[])).unwrap_err();
    assert!(matches!(error, Error::Answer { .. }), "{error}");
    let changed = Server::start(move |request| {
        let etag = if request.number > 0 {
            "\"two\""
        } else {
            "\"one\""
        };
        let mut request = request.clone();
        // A store that does not heed the condition.
        request.headers.retain(|(name, _)| name != "if-match");
        Reply::part(&bytes, etag, &request)
    });
    let error = get(&asking(&changed, &[])).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
}

#[test]
fn credentials_that_expire_are_replaced_in_an_open_handle() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("credentials");
    let write = |key: &str| {
        let text = format!("[default]\naws_access_key_id={key}\naws_secret_access_key={SECRET}\n");
        fs::write(&path, text).unwrap();
    };
    write("FIRST");
    let valid = Arc::new(Mutex::new("FIRST"));
    let (bytes, knows) = (file(4 * BLOCK), Arc::clone(&valid));
    let served = bytes.clone();
    let server =
        Server::start(
            move |request| match request.path.contains(*knows.lock().unwrap()) {
                true => Reply::part(&served, "\"one\"", request),
                false => refusal("400 Bad Request", "ExpiredToken"),
            },
        );
    let environment = Environment::empty()
        .with("AWS_ENDPOINT_URL", &server.url(""))
        .with("AWS_SHARED_CREDENTIALS_FILE", path.to_str().unwrap());
    let remote = open(environment).unwrap();
    let mut buf = [0; 10];
    *valid.lock().unwrap() = "SECOND";
    // There are no new ones yet.
    let error = remote.read_at(&mut buf, 2 * BLOCK as u64).unwrap_err();
    assert!(error.to_string().contains("have expired"), "{error}");
    no_secret(&error);
    write("SECOND");
    assert_eq!(read_all(&remote, 100_000).unwrap(), bytes);
}

#[test]
fn those_of_a_server_are_asked_for_again_before_they_expire() {
    for (seconds, asked) in [(3600, 1), (60, 2)] {
        let at = SystemTime::now() + Duration::from_secs(seconds);
        let at = jiff::Timestamp::try_from(at).unwrap();
        let text = format!(
            r#"{{"AccessKeyId":"A","SecretAccessKey":"b","Token":"c","Expiration":"{at}"}}"#
        );
        let container = Server::start(move |_| Reply::whole(text.as_bytes(), "\"x\""));
        let store = Server::of(file(4 * BLOCK));
        let environment = Environment::empty()
            .with("AWS_ENDPOINT_URL", &store.url(""))
            .with("AWS_CONTAINER_CREDENTIALS_FULL_URI", &container.url("/x"));
        let remote = open(environment).unwrap();
        remote.read_at(&mut [0; 10], 3 * BLOCK as u64).unwrap();
        assert_eq!(container.requests().len(), asked, "{seconds}");
    }
}

/// Not for each of ten thousand requests, of which every one would wait for it.
#[test]
fn a_server_that_gives_no_new_ones_is_left_alone_while_the_old_ones_hold() {
    let at = jiff::Timestamp::try_from(SystemTime::now() + Duration::from_secs(60)).unwrap();
    let text =
        format!(r#"{{"AccessKeyId":"A","SecretAccessKey":"b","Token":"c","Expiration":"{at}"}}"#);
    let container = Server::start(move |request| match request.number {
        0 => Reply::whole(text.as_bytes(), "\"x\""),
        _ => Reply::status("503 Slow Down"),
    });
    let bytes = file(20 * BLOCK);
    let store = Server::of(bytes.clone());
    let environment = Environment::empty()
        .with("AWS_ENDPOINT_URL", &store.url(""))
        .with("AWS_CONTAINER_CREDENTIALS_FULL_URI", &container.url("/x"));
    let options = Options {
        environment,
        ..options()
    };
    let remote = Remote::open(URL, options).unwrap();
    for block in [19, 3, 10] {
        remote.read_at(&mut [0; 10], block * BLOCK as u64).unwrap();
    }
    assert!(store.requests().len() > 3);
    // Once for the first, and twice in one attempt to renew.
    assert_eq!(container.requests().len(), 3);
}

#[test]
fn servers_that_should_give_credentials_and_do_not_cost_some_seconds_at_most() {
    let hangs = Arc::new(AtomicBool::new(true));
    let (slow, still) = (
        Reply {
            delay: Duration::from_secs(1000),
            ..Reply::status("200 OK")
        },
        Arc::clone(&hangs),
    );
    let server = Server::start(move |_| match still.load(Ordering::SeqCst) {
        true => slow.clone(),
        false => Reply::whole(&[b'x'; 200 << 10], "\"x\""),
    });
    let begun = Instant::now();
    for variable in [
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ] {
        let environment = Environment::empty().with(variable, &server.url("/s3cret"));
        let error = open(environment).unwrap_err();
        assert!(matches!(error, Error::Credentials(_)), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
        hangs.store(false, Ordering::SeqCst);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(300),
        "{:?}",
        begun.elapsed()
    );
    let none = Environment::empty().with("AWS_EC2_METADATA_DISABLED", "true");
    let error = open(none).unwrap_err();
    assert!(error.to_string().contains("no AWS credentials"), "{error}");
}

#[test]
fn a_clock_that_is_wrong_is_said_to_be() {
    let now = SystemTime::now() + Duration::from_secs(7200);
    let date = httpdate::fmt_http_date(now);
    let server = Server::start(move |_| {
        refusal("403 Forbidden", "RequestTimeTooSkewed").with("Date", &date)
    });
    let error = get(&asking(&server, &[])).unwrap_err().to_string();
    assert!(error.contains("behind the store's: set it"), "{error}");
}

/// A list that does not fit the question is an error, and one that does not end ends.
#[test]
fn lists_are_not_believed_and_end() {
    let page = |contents: &str, token: Option<&str>| {
        let more = token.map_or_else(String::new, |token| {
            format!("<NextContinuationToken>{token}</NextContinuationToken>")
        });
        format!(
            "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>{}</IsTruncated>\
             {contents}{more}</ListBucketResult>",
            token.is_some()
        )
    };
    let object = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
    let listed = |text: String| {
        let server = Server::start(move |_| Reply::whole(text.as_bytes(), "\"x\""));
        let mut count = 0;
        let each = &mut |objects: Vec<_>| {
            count += objects.len();
            ControlFlow::Continue(())
        };
        let result = list("s3://shards/a/", &asking(&server, &[]), each);
        if let Err(error) = &result {
            nothing_sent(&server, error);
        }
        (result, count)
    };
    // Pages without objects can be stopped, too.
    let next = AtomicUsize::new(0);
    let endless = Server::start(move |_| {
        let token = next.fetch_add(1, Ordering::SeqCst).to_string();
        Reply::whole(page("", Some(&token)).as_bytes(), "\"x\"")
    });
    let mut pages = 0;
    let stop = &mut |objects: Vec<_>| {
        assert!(objects.is_empty());
        pages += 1;
        match pages < 3 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    let stopped = list("s3://shards/a/", &asking(&endless, &[]), stop);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert_eq!(endless.requests().len(), 3);
    let good = page(&(object("a/x.db") + &object("a/") + &object("a/b/c")), None);
    let (result, count) = listed(good);
    result.unwrap();
    assert_eq!(count, 1);
    for (text, why) in [
        (page(&object("b/x.db"), None), "not asked for"),
        (
            page("<Contents><Key>a/x</Key></Contents>", None),
            "without its size",
        ),
        (page(&object("a/x.db"), Some("again")), "the same page"),
        (page(&object(&format!("a/{TOKEN}.db")), None), "repeats"),
        ("<ListBucketResult>".into(), "not a list"),
        ("not XML".into(), "not a list"),
        (" ".repeat(9 << 20), "too long"),
    ] {
        let error = listed(text).0.unwrap_err();
        assert!(error.to_string().contains(why), "{why}: {error}");
    }
}
