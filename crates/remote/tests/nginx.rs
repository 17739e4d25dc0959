//! A real server: nginx, with and without TLS.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use litepack_remote::{Error, Options, Remote};
use litepack_webserver::free_port;

mod common;
use common::{BLOCK, file, options, read, read_all};

/// nginx in a directory of its own.
struct Nginx {
    directory: tempfile::TempDir,
    process: Child,
    http: u16,
    https: u16,
}

fn run(program: &str, arguments: &[&str], directory: &Path) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output();
    let output = output
        .unwrap_or_else(|error| panic!("{program}: {error}; scripts/need {program} installs it"));
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Nginx {
    fn start(file: &[u8]) -> Nginx {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        // The workers may run as another user.
        #[cfg(unix)]
        fs::set_permissions(at, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(at.join("www")).unwrap();
        fs::write(at.join("www/a.db"), file).unwrap();
        let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem \
                       -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
                       -addext basicConstraints=critical,CA:FALSE";
        run(
            "openssl",
            &request.split_whitespace().collect::<Vec<_>>(),
            at,
        );
        fs::write(at.join("users"), "user:{PLAIN}s3cret\n").unwrap();
        let [http, https] = [free_port(), free_port()];
        let configuration = format!(
            "pid nginx.pid; daemon off; error_log stderr; worker_processes 1;
             events {{ worker_connections 64; }}
             http {{
                 access_log off; gzip on; gzip_types *; gzip_min_length 1; etag on;
                 client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
                 server {{
                     listen 127.0.0.1:{http}; listen 127.0.0.1:{https} ssl;
                     ssl_certificate cert.pem; ssl_certificate_key key.pem;
                     root www;
                     location /noranges/ {{ alias www/; max_ranges 0; }}
                     location /private/ {{ alias www/; auth_basic private; auth_basic_user_file users; }}
                     location /token/ {{ if ($http_authorization != 'Bearer s3cret') {{ return 401; }} alias www/; }}
                     location /dates/ {{ alias www/; etag off; }}
                     location /moved/ {{ return 302 https://localhost:{https}/a.db; }}
                 }}
             }}"
        );
        // Relative aliases are looked up from the prefix.
        let configuration =
            configuration.replace("alias www/", &format!("alias {}/www/", at.display()));
        fs::write(at.join("nginx.conf"), configuration).unwrap();
        let prefix = format!("{}/", at.display());
        let program = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"]
            .into_iter()
            .find(|path| Path::new(path).exists());
        let process = Command::new(program.unwrap_or("nginx"))
            .args(["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("nginx, which scripts/need nginx installs");
        let mut nginx = Nginx {
            directory,
            process,
            http,
            https,
        };
        nginx.wait();
        nginx
    }

    fn wait(&mut self) {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.https)).is_err() {
            if let Some(status) = self.process.try_wait().unwrap() {
                let mut text = String::new();
                let mut stderr = self.process.stderr.take().unwrap();
                std::io::Read::read_to_string(&mut stderr, &mut text).unwrap();
                panic!("nginx ended with {status}: {text}");
            }
            assert!(
                began.elapsed() < Duration::from_secs(300),
                "nginx does not answer"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn http(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.http)
    }

    fn https(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.https)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Trusts the certificate that it made for itself.
    fn trusting(&self) -> Options {
        Options {
            root_certificates: Some(self.path("cert.pem")),
            ..options()
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it only if it is asked.
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.process.wait();
    }
}

#[test]
fn nginx_serves_files_with_and_without_tls() {
    let file = file(100 * BLOCK + 3);
    let nginx = Nginx::start(&file);
    for url in [
        nginx.http("/a.db"),
        nginx.https("/a.db"),
        nginx.http("/moved/a.db"),
    ] {
        let remote = Remote::open(&url, nginx.trusting()).unwrap();
        assert!(read_all(&remote, 4096).unwrap() == file, "{url}");
        let traffic = remote.traffic();
        assert_eq!(
            (traffic.bytes, traffic.retries),
            (file.len() as u64, 0),
            "{url}"
        );
        assert!(traffic.requests < 20, "{url}: {traffic:?}");
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    let nginx = Nginx::start(&file(10));
    let unknown = Remote::open(&nginx.https("/a.db"), options()).unwrap_err();
    assert!(matches!(unknown, Error::Answer { .. }), "{unknown}");
    assert!(unknown.to_string().contains("certificate"), "{unknown}");
    let other_name = format!("https://[::1]:{}/a.db", nginx.https);
    assert!(Remote::open(&other_name, nginx.trusting()).is_err());
    for (text, why) in [
        ("", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\n?", "PEM"),
    ] {
        fs::write(nginx.path("other.pem"), text).unwrap();
        let options = Options {
            root_certificates: Some(nginx.path("other.pem")),
            ..options()
        };
        let error = Remote::open(&nginx.https("/a.db"), options).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn who_the_user_is_goes_by_url_token_and_file() {
    let nginx = Nginx::start(&file(10));
    for path in ["/private/a.db", "/token/a.db"] {
        let error = Remote::open(&nginx.http(path), options()).unwrap_err();
        assert!(
            matches!(error, Error::Refused { status: 401, .. }),
            "{error}"
        );
    }
    let with_user = nginx
        .http("/private/a.db")
        .replace("http://", "http://user:s3cret@");
    Remote::open(&with_user, options()).unwrap();
    let mut with_token = options();
    with_token.headers.add_bearer("s3cret").unwrap();
    Remote::open(&nginx.http("/token/a.db"), with_token).unwrap();
    fs::write(nginx.path("headers"), "Authorization: Bearer s3cret\n").unwrap();
    let mut with_file = options();
    with_file.headers.add_file(&nginx.path("headers")).unwrap();
    Remote::open(&nginx.http("/token/a.db"), with_file).unwrap();
}

#[test]
fn nginx_without_ranges_is_an_error() {
    let nginx = Nginx::start(&file(10 * BLOCK));
    let error = Remote::open(&nginx.http("/noranges/a.db"), options()).unwrap_err();
    assert!(matches!(error, Error::NoRanges { .. }), "{error}");
    let error = Remote::open(&nginx.http("/nothing.db"), options()).unwrap_err();
    assert!(
        matches!(error, Error::Refused { status: 404, .. }),
        "{error}"
    );
}

#[test]
fn a_file_that_is_replaced_on_nginx_is_an_error() {
    for path in ["/a.db", "/dates/a.db"] {
        let nginx = Nginx::start(&file(10 * BLOCK));
        let remote = Remote::open(&nginx.http(path), options()).unwrap();
        assert_eq!(remote.validator().starts_with('"'), path == "/a.db");
        read(&remote, 5 * BLOCK, 1).unwrap();
        let new = nginx.path("www/new");
        fs::write(&new, file(10 * BLOCK)).unwrap();
        let later = std::time::SystemTime::now() + Duration::from_secs(5);
        fs::File::options()
            .write(true)
            .open(&new)
            .unwrap()
            .set_modified(later)
            .unwrap();
        fs::rename(&new, nginx.path("www/a.db")).unwrap();
        let error = read(&remote, 7 * BLOCK, 1).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{path}: {error}");
    }
}
