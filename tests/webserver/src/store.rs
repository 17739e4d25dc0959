//! An object store on loopback that checks signatures: Versity's S3 gateway, which is built with Go once and kept in the
//! target directory.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use litepack_skip::{Expected, skip};

/// The module and version that is built.
const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const PROGRAM: &str = "versitygw";

/// A running store, with one bucket. It ends with this value.
pub struct Store {
    process: Child,
    directory: PathBuf,
    port: u16,
}

impl Store {
    /// The key that it knows.
    pub const KEY: &str = "AKIDLITEPACKTEST";
    /// The secret that belongs to it.
    pub const SECRET: &str = "s3cretOfTheTest/+=";
    /// Its region.
    pub const REGION: &str = "eu-north-1";
    /// Its bucket.
    pub const BUCKET: &str = "shards";

    /// Starts one; says why there is none if it cannot be built.
    pub fn start() -> Option<Store> {
        static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let program = match BUILT.get_or_init(build) {
            Ok(program) => program,
            Err(why) => {
                // Without Go there is none, and nothing asks for Go.
                skip(
                    Expected::ByChoice,
                    format!("no object store: {}", first_line(why)),
                );
                return None;
            }
        };
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("litepack-store-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        for part in ["data", "meta"] {
            fs::create_dir_all(directory.join(part)).expect("a directory for the store");
        }
        fs::create_dir(directory.join("data").join(Store::BUCKET)).expect("a bucket");
        let port = free_port();
        let process = Command::new(program)
            .args(["--port", &format!("127.0.0.1:{port}"), "--quiet"])
            .args([
                "--region",
                Store::REGION,
                "--keep-alive",
                "posix",
                "--sidecar",
            ])
            .args([directory.join("meta"), directory.join("data")])
            .env_clear()
            .env("ROOT_ACCESS_KEY", Store::KEY)
            .env("ROOT_SECRET_KEY", Store::SECRET)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the store starts");
        let mut store = Store {
            process,
            directory,
            port,
        };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(300), "no store");
            thread::sleep(Duration::from_millis(20));
        }
        let ended = store.process.try_wait().expect("a child process");
        assert!(ended.is_none(), "the store has ended: {ended:?}");
        Some(store)
    }

    /// The variables by which AWS tools find it.
    pub fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint()),
            ("AWS_REGION", Store::REGION.into()),
            ("AWS_ACCESS_KEY_ID", Store::KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", Store::SECRET.into()),
        ]
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The URL of an object.
    pub fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", Store::BUCKET)
    }

    /// The file in which it keeps an object.
    pub fn file(&self, key: &str) -> PathBuf {
        self.directory.join("data").join(Store::BUCKET).join(key)
    }

    /// Whether there are parts of uploads that have not ended.
    pub fn has_parts(&self) -> bool {
        fn any_file(path: &Path) -> bool {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries
                .map(|entry| entry.path())
                .any(|path| path.is_file() || any_file(&path))
        }
        any_file(&self.file(".sgwtmp/multipart"))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A port that nothing listens on, each time another one. It is below those that systems give by themselves: one of these
/// could be given to another server, or to a connection, before the server that it is for has it.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let first = std::process::id().wrapping_mul(16).wrapping_add(number);
    let mut ports = (0..12_000).map(|at| 20_000 + (first.wrapping_add(at) % 12_000) as u16);
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a port on loopback")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The program, built if it is not there.
fn build() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    // .../target/debug/deps/test
    let target = this.ancestors().nth(3).ok_or("no target directory")?;
    let place = target.join(PROGRAM);
    let program = place.join(PROGRAM);
    if program.exists() {
        return Ok(program);
    }
    eprintln!("building {MODULE}, which takes minutes the first time");
    let beside = target.join(format!("{PROGRAM}-{}", std::process::id()));
    let built = Command::new("go")
        .args(["install", MODULE])
        .env("GOBIN", &beside)
        .output()
        .map_err(|error| format!("go: {error}"))?;
    if !built.status.success() {
        let _ = fs::remove_dir_all(&beside);
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    // Another test may have been faster.
    if fs::rename(&beside, &place).is_err() {
        let _ = fs::remove_dir_all(&beside);
    }
    Ok(program)
}
