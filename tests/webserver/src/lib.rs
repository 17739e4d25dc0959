//! A small web server on loopback for tests: it serves what a closure answers to each request, rightly or wrongly, and
//! remembers what it was asked.
#![forbid(unsafe_code)]

mod store;

pub use store::{Store, free_port};

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Connections are given up after so long without a request.
const IDLE: Duration = Duration::from_secs(20);

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, as it should be.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body, if it said how long that is.
    pub body: Vec<u8>,
    /// How many requests came before this one.
    pub number: usize,
}

impl Request {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// First and last byte of the range asked for.
    pub fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = self
            .header("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

/// A reply, byte for byte. Nothing is added to it.
#[derive(Clone, Debug)]
pub struct Reply {
    /// As in `206 Partial Content`.
    pub status: String,
    /// All headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// After so many bytes of the body the connection is closed.
    pub cut: Option<usize>,
    /// Nothing is answered before this is over.
    pub delay: Duration,
    /// In the middle of the body nothing comes for so long.
    pub pause: Duration,
    /// The body goes in chunks.
    pub chunked: bool,
    /// The answer of an old server, which closes after it.
    pub http10: bool,
}

impl Reply {
    /// An answer with nothing in it.
    pub fn status(status: &str) -> Reply {
        Reply {
            status: status.into(),
            headers: vec![("Content-Length".into(), "0".into())],
            body: Vec::new(),
            cut: None,
            delay: Duration::ZERO,
            pause: Duration::ZERO,
            chunked: false,
            http10: false,
        }
    }

    /// A redirect.
    pub fn redirect(to: &str) -> Reply {
        Reply::status("302 Found").with("Location", to)
    }

    /// The right answer to a request for a part of `file`, whose ETag is `etag`.
    pub fn part(file: &[u8], etag: &str, request: &Request) -> Reply {
        if request
            .header("if-match")
            .is_some_and(|wanted| wanted != etag)
        {
            return Reply::status("412 Precondition Failed");
        }
        if request.header("if-none-match") == Some(etag) {
            return Reply::status("304 Not Modified").with("ETag", etag);
        }
        let len = file.len() as u64;
        let (first, last) = match request.range() {
            Some((first, last)) if first < len => (first, last.min(len - 1)),
            Some(_) => {
                return Reply::status("416 Range Not Satisfiable")
                    .with("Content-Range", &format!("bytes */{len}"));
            }
            None => return Reply::whole(file, etag),
        };
        let mut reply = Reply::whole(&file[first as usize..=last as usize], etag);
        reply.status = "206 Partial Content".into();
        reply.with("Content-Range", &format!("bytes {first}-{last}/{len}"))
    }

    /// The answer of a server that knows no ranges.
    pub fn whole(file: &[u8], etag: &str) -> Reply {
        let mut reply = Reply::status("200 OK");
        reply.body = file.to_vec();
        reply
            .with("Content-Length", &file.len().to_string())
            .with("ETag", etag)
    }

    /// With this header, in place of another one of this name.
    pub fn with(mut self, name: &str, value: &str) -> Reply {
        self = self.without(name);
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Without this header.
    pub fn without(mut self, name: &str) -> Reply {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    fn send(&self, mut to: &TcpStream) -> io::Result<bool> {
        thread::sleep(self.delay);
        let version = if self.http10 { "1.0" } else { "1.1" };
        let mut head = format!("HTTP/{version} {}\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if self.chunked {
            head += "Transfer-Encoding: chunked\r\n";
        }
        to.write_all((head + "\r\n").as_bytes())?;
        let (one, two) = self.body.split_at(self.body.len() / 2);
        let mut left = self.cut.unwrap_or(usize::MAX);
        for (half, piece) in [one, two].into_iter().enumerate() {
            if half == 1 && !self.pause.is_zero() {
                to.flush()?;
                thread::sleep(self.pause);
            }
            let n = piece.len().min(left);
            left -= n;
            if self.chunked && n > 0 {
                to.write_all(format!("{n:x}\r\n").as_bytes())?;
            }
            to.write_all(&piece[..n])?;
            if self.chunked && n > 0 {
                to.write_all(b"\r\n")?;
            }
            if n < piece.len() {
                return Ok(false);
            }
        }
        if self.chunked {
            to.write_all(b"0\r\n\r\n")?;
        }
        Ok(!self.http10)
    }
}

type Answer = dyn Fn(&Request) -> Reply + Send + Sync;

/// A running server. It ends with this value.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Box<Answer>,
    requests: Mutex<Vec<Request>>,
    connections: Mutex<Vec<TcpStream>>,
    closed: AtomicBool,
}

impl Server {
    /// Starts one that answers so.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            requests: Mutex::default(),
            connections: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if server.closed.load(Ordering::SeqCst) {
                    return;
                }
                let server = Arc::clone(&server);
                if let Ok(copy) = stream.try_clone() {
                    lock(&server.connections).push(copy);
                }
                thread::spawn(move || {
                    let _ = server.serve(&stream);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
        Server { address, shared }
    }

    /// Serves a file as it should be.
    pub fn of(file: Vec<u8>) -> Server {
        Server::start(move |request| Reply::part(&file, "\"one\"", request))
    }

    /// The URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Cuts all connections.
    pub fn disconnect(&self) {
        for stream in lock(&self.shared.connections).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.disconnect();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = self.read(&mut reader)? {
            if !(self.answer)(&request).send(stream)? {
                break;
            }
        }
        Ok(())
    }

    fn read(&self, reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            lines.push(line.to_string());
        }
        let mut first = lines
            .first()
            .map(String::as_str)
            .unwrap_or_default()
            .split(' ');
        let headers: Vec<(String, String)> = lines
            .iter()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
            .collect();
        let len = headers.iter().find(|(name, _)| name == "content-length");
        let len = len.and_then(|(_, len)| len.parse().ok()).unwrap_or(0);
        let mut body = vec![0; len];
        reader.read_exact(&mut body)?;
        let mut requests = lock(&self.requests);
        let request = Request {
            method: first.next().unwrap_or_default().into(),
            path: first.next().unwrap_or_default().into(),
            headers,
            body,
            number: requests.len(),
        };
        requests.push(request.clone());
        Ok(Some(request))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
