//! Where bytes come from: a file, plain or compressed, or a stream (standard input or a pipe).

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use litepack_database::Result;
use litepack_database::error::{Context, cannot_read};

use super::compressed::{self, Packing};
use super::lines::MARK;

/// How long a stream is waited for.
const PATIENCE: Duration = Duration::from_millis(200);

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    Bytes,
    End,
    /// A stream has nothing yet.
    Waiting,
}

/// An open source of bytes.
pub(super) enum Input {
    Plain(File),
    /// With an error that is reported when what came before it was taken.
    Compressed(Box<dyn Read>, Option<io::Error>),
    Stream(Receiver<io::Result<Vec<u8>>>),
}

impl Input {
    /// A file from its beginning, and which one it is: its name may go to another one at any time.
    pub(super) fn open(path: &Path) -> Result<(Input, Metadata)> {
        let open = || -> io::Result<(Input, Metadata)> {
            let mut file = File::open(path)?;
            let metadata = file.metadata()?;
            let mut magic = Vec::new();
            (&mut file)
                .take(compressed::MAGIC)
                .read_to_end(&mut magic)?;
            file.seek(SeekFrom::Start(0))?;
            let input = match compressed::packing(&magic) {
                Packing::Plain => Input::Plain(file),
                packing => {
                    let file = BufReader::with_capacity(1 << 16, file);
                    Input::Compressed(compressed::decoder(packing, file)?, None)
                }
            };
            Ok((input, metadata))
        };
        open().with_context(|| cannot_read(path))
    }

    /// Standard input (`-`) or a pipe, which another thread reads, as it may be silent.
    pub(super) fn stream(path: &Path) -> Input {
        let (sender, receiver) = sync_channel(4);
        let path = path.to_owned();
        std::thread::spawn(move || {
            let open = || -> io::Result<Box<dyn Read>> {
                match path.as_os_str() == "-" {
                    true => Ok(Box::new(io::stdin())),
                    false => Ok(Box::new(File::open(&path)?)),
                }
            };
            let pass = || -> io::Result<()> {
                let mut file = BufReader::with_capacity(1 << 16, open()?);
                // A writer may give the first bytes one by one.
                let mut magic = Vec::new();
                (&mut file)
                    .take(compressed::MAGIC)
                    .read_to_end(&mut magic)?;
                let packing = compressed::packing(&magic);
                let file = io::Cursor::new(magic).chain(file);
                let mut file = compressed::decoder(packing, file)?;
                let mut first = true;
                loop {
                    let mut chunk = vec![0; 1 << 16];
                    let count = match file.read(&mut chunk) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        count => count?,
                    };
                    chunk.truncate(count);
                    if std::mem::take(&mut first)
                        && let Some(what) = compressed::refused(&chunk)
                    {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                    }
                    if count == 0 || sender.send(Ok(chunk)).is_err() {
                        return Ok(());
                    }
                }
            };
            if let Err(error) = pass() {
                let _ = sender.send(Err(error));
            }
        });
        Input::Stream(receiver)
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Input::Plain(_))
    }

    /// Lets go of a compressed file that was read to its end.
    pub(super) fn close(&mut self) {
        if let Input::Compressed(file, _) = self {
            *file = Box::new(io::empty());
        }
    }

    /// Goes back by so many bytes, in a plain file.
    pub(super) fn go_back(&mut self, count: usize) -> bool {
        match (self, i64::try_from(count)) {
            (Input::Plain(file), Ok(count)) => file.seek(SeekFrom::Current(-count)).is_ok(),
            _ => false,
        }
    }

    /// Appends up to `most` bytes.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, most: usize) -> Result<Filled> {
        let before = buffer.len();
        let read = |from: &mut dyn Read, buffer: &mut Vec<u8>| {
            from.take(most as u64).read_to_end(buffer).map(drop)
        };
        match self {
            // Bytes that came before an error count; the error comes again.
            Input::Plain(file) => match read(file, buffer) {
                Err(error) if buffer.len() == before => Err(error).context("cannot read")?,
                _ => {}
            },
            // Bytes that came before an error count. The decoder may not say it again: a wrong checksum it tells once.
            Input::Compressed(file, late) => {
                let done = late.take().map_or_else(|| read(file, buffer), Err);
                match done {
                    Err(error) if buffer.len() > before => *late = Some(error),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        let why = "cannot decompress: the file is cut off";
                        Err(io::Error::new(error.kind(), why)).context("cannot read")?;
                    }
                    done => done.context("cannot decompress")?,
                }
            }
            Input::Stream(receiver) => match receiver.recv_timeout(PATIENCE) {
                Ok(chunk) => buffer.extend_from_slice(&chunk.context("cannot read")?),
                Err(RecvTimeoutError::Timeout) => return Ok(Filled::Waiting),
                Err(RecvTimeoutError::Disconnected) => return Ok(Filled::End),
            },
        }
        Ok(match buffer.len() > before {
            true => Filled::Bytes,
            false => Filled::End,
        })
    }

    /// The first bytes, from an input at its beginning.
    pub(super) fn head(&mut self) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        loop {
            let wanted = MARK - head.len();
            if wanted == 0 || self.read(&mut head, wanted)? != Filled::Bytes {
                break;
            }
        }
        Ok(head)
    }

    /// Goes to an offset of an input at its beginning, if `before` precedes it there.
    pub(super) fn go_to(&mut self, offset: u64, before: &[u8]) -> Result<bool> {
        let Some(first) = offset.checked_sub(before.len() as u64) else {
            return Ok(false);
        };
        let skipped = match self {
            Input::Plain(file) => file.seek(SeekFrom::Start(first)).map(|_| first),
            Input::Compressed(file, _) => io::copy(&mut file.take(first), &mut io::sink()),
            Input::Stream(_) => return Ok(false),
        };
        let skipped = skipped.context("cannot read")?;
        let mut found = Vec::new();
        loop {
            let wanted = before.len() - found.len();
            if wanted == 0 || self.read(&mut found, wanted)? != Filled::Bytes {
                break;
            }
        }
        Ok(skipped == first && found == before)
    }
}
