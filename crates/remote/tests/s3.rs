//! Objects in a store that checks signatures.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use litepack_remote::{
    DiskCache, Environment, Error, Options, Remote, UploadOptions, expect_absent, list, upload,
};
use litepack_webserver::{Reply, Server, Store};

mod common;
use common::{BLOCK, file, options, read, read_all};

const MIB: usize = 1 << 20;

/// The store, found by variables, with others in place of some of them.
fn found(store: &Store, instead: &[(&str, &str)]) -> Options {
    let mut environment = Environment::empty();
    for (name, value) in store.variables() {
        environment = environment.with(name, &value);
    }
    for (name, value) in instead {
        environment = environment.with(name, value);
    }
    Options {
        environment,
        ..options()
    }
}

fn put(url: &str, bytes: &[u8], replace: bool, options: &Options) -> Result<(), Error> {
    let how = UploadOptions {
        replace,
        part_size: 5 << 20,
        ..UploadOptions::default()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    upload(url, &bytes, bytes.len() as u64, &how, options, go_on)
}

fn get(url: &str, options: &Options) -> Result<Vec<u8>, Error> {
    read_all(&Remote::open(url, options.clone())?, 100_000)
}

/// No error shows who asked, or how.
#[track_caller]
fn says(error: &Error, expected: &str) {
    let text = format!("{error} {error:?}");
    assert!(text.contains(expected), "{expected}: {text}");
    for secret in [
        Store::SECRET,
        Store::KEY,
        "Signature",
        "X-Amz",
        "wrong-secret",
        "Bearer",
        "t0ken",
    ] {
        let shown = text.replace("SignatureDoesNotMatch", "");
        assert!(!shown.contains(secret), "{secret}: {text}");
    }
}

#[test]
fn what_is_written_is_read_and_nothing_is_replaced_unasked() {
    let Some(store) = Store::start() else { return };
    let options = found(&store, &[]);
    for (key, len) in [
        ("small.db", 100_000),
        ("2026/a b+c&d=e?f#g%20 ä.db", BLOCK + 1),
        ("large.db", 11 * MIB + 7),
    ] {
        let (url, bytes) = (store.url(key), file(len));
        expect_absent(&url, &options).unwrap();
        put(&url, &bytes, false, &options).unwrap();
        assert_eq!(get(&url, &options).unwrap(), bytes, "{key}");
        // The store says that it is the same.
        let again = Remote::open(&url, options.clone()).unwrap().traffic();
        assert_eq!((again.requests, again.bytes), (1, 0), "{key}");
        assert_eq!(fs::read(store.file(key)).unwrap(), bytes, "{key}");
        let error = expect_absent(&url, &options).unwrap_err();
        says(&error, &url);
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        let other = file(len + 1);
        let error = put(&url, &other, false, &options).unwrap_err();
        assert!(matches!(error, Error::Exists { .. }), "{error}");
        assert_eq!(fs::read(store.file(key)).unwrap(), bytes, "{key}");
        put(&url, &other, true, &options).unwrap();
        assert_eq!(fs::read(store.file(key)).unwrap(), other, "{key}");
    }
    assert!(!store.has_parts());
}

/// Another client writes the object after we have seen that there is none.
#[test]
fn a_faster_writer_is_not_replaced() {
    let Some(store) = Store::start() else { return };
    let options = found(&store, &[]);
    let (url, ours, theirs) = (store.url("x.db"), file(300_000), file(1000));
    let mut is_written = false;
    let progress = &mut |_| {
        if !is_written {
            is_written = true;
            put(&url, &theirs, true, &options).unwrap();
        }
        ControlFlow::Continue(())
    };
    let how = UploadOptions::default();
    let error = upload(&url, &&ours[..], 300_000, &how, &options, progress).unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(fs::read(store.file("x.db")).unwrap(), theirs);
}

#[test]
fn an_upload_that_is_stopped_or_fails_leaves_nothing() {
    let Some(store) = Store::start() else { return };
    let options = found(&store, &[]);
    let (url, bytes) = (store.url("x.db"), file(11 * MIB));
    let how = UploadOptions {
        replace: false,
        part_size: 5 << 20,
        ..UploadOptions::default()
    };
    for stop_at in [0, 3 * MIB as u64, 6 * MIB as u64] {
        let mut saw_parts = false;
        let progress = &mut |done| {
            saw_parts |= store.has_parts();
            match done >= stop_at {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let stopped = upload(
            &url,
            &&bytes[..],
            bytes.len() as u64,
            &how,
            &options,
            progress,
        );
        assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
        assert!(!store.file("x.db").exists() && !store.has_parts());
        assert!(saw_parts || stop_at < 5 * MIB as u64);
    }
    // The file is shorter than was said.
    let go_on = &mut |_| ControlFlow::Continue(());
    let short = upload(&url, &&bytes[..], 12 * MIB as u64, &how, &options, go_on);
    assert!(matches!(short, Err(Error::Source(_))), "{short:?}");
    assert!(!store.file("x.db").exists() && !store.has_parts());
    expect_absent(&url, &options).unwrap();
}

#[test]
fn who_may_not_is_told_why() {
    let Some(store) = Store::start() else { return };
    let (url, bytes) = (store.url("a.db"), file(1000));
    put(&url, &bytes, false, &found(&store, &[])).unwrap();
    for (instead, expected) in [
        (
            ("AWS_SECRET_ACCESS_KEY", "wrong-secret"),
            "SignatureDoesNotMatch",
        ),
        // Other stores say InvalidAccessKeyId.
        (("AWS_ACCESS_KEY_ID", "NOBODY"), "XAdminUserNotFound"),
        (("AWS_REGION", "us-west-2"), "AWS_REGION"),
    ] {
        let options = found(&store, &[instead]);
        says(&get(&url, &options).unwrap_err(), expected);
        says(
            &put(&store.url("b"), &bytes, false, &options).unwrap_err(),
            expected,
        );
        says(&expect_absent(&url, &options).unwrap_err(), expected);
    }
    let options = found(&store, &[]);
    says(
        &get(&store.url("none.db"), &options).unwrap_err(),
        "NoSuchKey",
    );
    let nowhere = "s3://no-such-bucket/a.db";
    says(&get(nowhere, &options).unwrap_err(), "NoSuchBucket");
    says(
        &expect_absent(nowhere, &options).unwrap_err(),
        "NoSuchBucket",
    );
}

#[test]
fn an_object_that_changes_is_an_error() {
    let Some(store) = Store::start() else { return };
    let options = found(&store, &[]);
    let url = store.url("a.db");
    put(&url, &file(10 * BLOCK), false, &options).unwrap();
    let remote = Remote::open(&url, options.clone()).unwrap();
    assert_eq!(remote.url(), url);
    read(&remote, BLOCK, 10).unwrap();
    let mut other = file(10 * BLOCK);
    other[0] ^= 1;
    put(&url, &other, true, &options).unwrap();
    let error = read(&remote, 5 * BLOCK, 10).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
}

#[test]
fn credentials_come_from_files_and_servers() {
    let Some(store) = Store::start() else { return };
    let (url, bytes) = (store.url("a.db"), file(1000));
    put(&url, &bytes, false, &found(&store, &[])).unwrap();
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let environment = Environment::empty()
        .with("AWS_ENDPOINT_URL_S3", &store.endpoint())
        .with("AWS_REGION", Store::REGION);
    let reads = |environment: Environment| {
        let options = Options {
            environment,
            ..options()
        };
        assert_eq!(get(&url, &options).unwrap(), bytes);
    };
    let (key, secret) = (Store::KEY, Store::SECRET);

    let pair = format!("[work]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n");
    let files = environment
        .clone()
        .with("AWS_SHARED_CREDENTIALS_FILE", &write("credentials", &pair));
    reads(files.with("AWS_PROFILE", "work"));

    let json = format!(
        r#"{{"AccessKeyId":"{key}","SecretAccessKey":"{secret}","Expiration":"2126-01-01T00:00:00Z"}}"#
    );
    let expected = write("token", "t0ken\n");
    let body = json.clone();
    let container = Server::start(move |request| match request.header("authorization") {
        Some("t0ken") => Reply::whole(body.as_bytes(), "\"x\""),
        _ => Reply::status("401 Unauthorized"),
    });
    let told = environment
        .clone()
        .with("AWS_CONTAINER_CREDENTIALS_FULL_URI", &container.url("/x"))
        .with("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &expected);
    reads(told.clone());
    // Credentials that hold for long are asked for once in a process.
    reads(told);
    assert_eq!(container.requests().len(), 1);

    let body = json.clone();
    let instance = Server::start(move |request| {
        let token = request.header("x-aws-ec2-metadata-token");
        match (request.method.as_str(), request.path.as_str()) {
            ("PUT", "/latest/api/token") => Reply::whole(b"t0ken", "\"x\""),
            _ if token != Some("t0ken") => Reply::status("401 Unauthorized"),
            (_, "/latest/meta-data/iam/security-credentials/") => Reply::whole(b"role", "\"x\""),
            (_, "/latest/meta-data/iam/security-credentials/role") => {
                Reply::whole(body.as_bytes(), "\"x\"")
            }
            _ => Reply::status("404 Not Found"),
        }
    });
    reads(
        environment
            .clone()
            .with("AWS_EC2_METADATA_SERVICE_ENDPOINT", &instance.url("")),
    );

    let xml = format!(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}\
         </AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><Expiration>2126-01-01T00:00:00Z</Expiration>\
         </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    );
    let tokens = Server::start(move |request| {
        let form = String::from_utf8_lossy(&request.body);
        let is_right = request.method == "POST"
            && form.contains("Action=AssumeRoleWithWebIdentity")
            && form.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Freader")
            && form.contains("WebIdentityToken=t0ken");
        match is_right && !request.path.contains("t0ken") {
            true => Reply::whole(xml.as_bytes(), "\"x\""),
            false => Reply::status("403 Forbidden"),
        }
    });
    reads(
        environment
            .with("AWS_WEB_IDENTITY_TOKEN_FILE", &expected)
            .with("AWS_ROLE_ARN", "arn:aws:iam::1:role/reader")
            .with("AWS_ENDPOINT_URL_STS", &tokens.url("/")),
    );
}

#[test]
fn the_disk_cache_is_shared_and_has_no_secret_in_it() {
    let Some(store) = Store::start() else { return };
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("cache");
    let with_disk = |instead: &[(&str, &str)]| Options {
        disk_cache: Some(DiskCache {
            directory: directory.clone(),
            limit: 64 << 20,
        }),
        ..found(&store, instead)
    };
    let (url, bytes) = (store.url("a.db"), file(10 * BLOCK));
    put(&url, &bytes, false, &found(&store, &[])).unwrap();
    assert_eq!(get(&url, &with_disk(&[])).unwrap(), bytes);
    // As another process would, with credentials of its own: it asks whether the object is the same, to see that it may.
    let remote = Remote::open(&url, with_disk(&[("AWS_SESSION_TOKEN", "")])).unwrap();
    assert_eq!(read_all(&remote, 100_000).unwrap(), bytes);
    assert_eq!(remote.traffic().requests, 1);
    assert_eq!(remote.traffic().disk_hits, 10);
    // Who may not gets nothing, though all of it is here.
    let wrong = with_disk(&[("AWS_SECRET_ACCESS_KEY", "wrong-secret")]);
    let refused = Remote::open(&url, wrong).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    let names = || fs::read_dir(&directory).unwrap().flatten();
    assert_eq!(names().count(), 10);
    for entry in names() {
        let content = fs::read(entry.path()).unwrap();
        let name = entry.file_name();
        for secret in [Store::KEY, Store::SECRET, "X-Amz"] {
            assert!(!name.to_string_lossy().contains(secret));
            assert!(!contains(&content, secret.as_bytes()), "{name:?}");
        }
    }
    assert!(!Path::new(&directory).join("tmp").exists());
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_folder_is_listed_in_pages_with_what_opening_says_of_each_object() {
    let Some(store) = Store::start() else { return };
    let options = found(&store, &[]);
    for key in ["2026/a b+c&d=e%20.db", "2026/deep/x.db", "2027.db"] {
        put(&store.url(key), &file(1000), true, &options).unwrap();
    }
    for number in 0..1100 {
        fs::write(store.file(&format!("2026/{number:04}.db")), [0; 7]).unwrap();
    }
    let mut found = Vec::new();
    let each = &mut |objects| {
        found.extend(objects);
        ControlFlow::Continue(())
    };
    list(&store.url("2026/"), &options, each).unwrap();
    assert_eq!(found.len(), 1101);
    let named = |key: &str| found.iter().find(|object| object.url == store.url(key));
    let object = named("2026/a b+c&d=e%20.db").unwrap();
    let remote = Remote::open(&object.url, options.clone()).unwrap();
    assert_eq!(
        (object.size, object.etag.clone()),
        (1000, remote.validator())
    );
    assert!(named("2026/1099.db").is_some_and(|object| object.size == 7));
    let stop = &mut |_| ControlFlow::Break(());
    let error = list(&store.url("2026/"), &options, stop).unwrap_err();
    assert!(matches!(error, Error::Stopped), "{error}");
    let none = &mut |objects: Vec<_>| {
        assert!(objects.is_empty());
        ControlFlow::Continue(())
    };
    list(&store.url("none/"), &options, none).unwrap();
    let error = list("s3://nobucket/x/", &options, none).unwrap_err();
    says(&error, "NoSuchBucket");
    for wrong in [
        "s3://shards",
        "s3://shards/a",
        "s3://shards/../",
        "https://x/",
    ] {
        let error = list(wrong, &options, none).unwrap_err();
        assert!(matches!(error, Error::Settings(_)), "{error}");
    }
}
