//! The kind of a file by its first bytes: compressed by a program that is undone here, or something that is no log.

use std::io::{self, BufRead, Read};
use std::marker::PhantomData;

/// So many bytes tell how a file is compressed.
pub(super) const MAGIC: u64 = 6;
/// The largest window of zstd, as `zstd --long=27` makes it: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;
/// The memory that a file of xz may ask for, in KiB: a dictionary of 128 MiB.
const XZ_MEMORY: u32 = (128 << 10) + 256;

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

/// How a file that begins so is compressed.
pub(super) fn packing(magic: &[u8]) -> Packing {
    match magic {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        // A frame of zstd, or a skippable one.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Packing::Xz,
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Packing::Bzip2,
        _ => Packing::Plain,
    }
}

/// Undoes it. Memory is bounded, whatever the file asks for.
pub(super) fn decoder<R: BufRead + 'static>(
    packing: Packing,
    from: R,
) -> io::Result<Box<dyn Read>> {
    Ok(match packing {
        Packing::Plain => Box::new(from),
        Packing::Gzip => Box::new(Members::<flate2::bufread::GzDecoder<R>, R>::new(
            packing, from,
        )?),
        Packing::Zstd => Box::new(Members::<zstd::stream::read::Decoder<'static, R>, R>::new(
            packing, from,
        )?),
        Packing::Bzip2 => Box::new(Members::<bzip2::bufread::BzDecoder<R>, R>::new(
            packing, from,
        )?),
        Packing::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(from, true, XZ_MEMORY)),
    })
}

/// The kind of a file that begins so, with what to do, if it is no text.
pub(super) fn refused(head: &[u8]) -> Option<String> {
    const MAGICS: [(&[u8], &str); 21] = [
        (b"PK\x03\x04", "a zip archive"),
        (b"PK\x05\x06", "a zip archive"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"Rar!\x1a\x07", "a RAR archive"),
        (b"\x04\x22\x4d\x18", "compressed by lz4"),
        (b"\x02\x21\x4c\x18", "compressed by lz4"),
        (b"\x1f\x9d", "compressed by compress (.Z)"),
        (b"\x1f\xa0", "compressed by compress (.Z)"),
        (b"\x1f\x1e", "compressed by pack (.z)"),
        (b"LZIP", "compressed by lzip"),
        (b"\x89LZO\0\r\n\x1a\n", "compressed by lzop"),
        (b"\x5d\0\0", "compressed by lzma"),
        (b"\xff\x06\0\0sNaPpY", "compressed by snappy"),
        (b"PAR1", "a Parquet file"),
        (b"SQLite format 3\0", "a SQLite database"),
        (b"Litepack\r\n\x1a\n", "a packed database"),
        (
            b"LPKSHHRH",
            "a journal of systemd; export it by journalctl -o json",
        ),
        (
            b"__CURSOR=",
            "an export of the journal of systemd; use journalctl -o json",
        ),
        (b"ElfFile\0", "an event log of Windows"),
        (b"\x7fELF", "a program"),
        (b"%PDF-", "a PDF file"),
    ];
    // UTF-32 begins so, too.
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        return Some("text in UTF-16; make it UTF-8 first: iconv -f UTF-16 -t UTF-8".to_owned());
    }
    let found = MAGICS.iter().find(|(magic, _)| head.starts_with(magic));
    let is_tar = head.get(257..262) == Some(b"ustar");
    let what = found
        .map(|(_, what)| *what)
        .or(is_tar.then_some("a tar archive"))?;
    Some(
        match what.starts_with("compressed") || what.ends_with("archive") {
            true => format!("{what}, which is not read; unpack it first"),
            false => what.to_owned(),
        },
    )
}

/// A compressed text, behind which others may follow.
trait Member<R>: Read + Sized {
    fn begin(from: R) -> io::Result<Self>;
    fn end(self) -> R;
}

impl<R: BufRead> Member<R> for flate2::bufread::GzDecoder<R> {
    fn begin(from: R) -> io::Result<Self> {
        Ok(flate2::bufread::GzDecoder::new(from))
    }

    fn end(self) -> R {
        self.into_inner()
    }
}

impl<R: BufRead> Member<R> for bzip2::bufread::BzDecoder<R> {
    fn begin(from: R) -> io::Result<Self> {
        Ok(bzip2::bufread::BzDecoder::new(from))
    }

    fn end(self) -> R {
        self.into_inner()
    }
}

impl<R: BufRead> Member<R> for zstd::stream::read::Decoder<'static, R> {
    fn begin(from: R) -> io::Result<Self> {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(from)?.single_frame();
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(decoder)
    }

    fn end(self) -> R {
        self.finish()
    }
}

/// Members one behind the other. Zeros behind the last one fill a block of a tape or a disk, and other bytes are an
/// error that comes once all that is before them was read.
struct Members<M, R> {
    /// None at the end.
    member: Option<M>,
    packing: Packing,
    from: PhantomData<R>,
}

impl<M: Member<R>, R: BufRead> Members<M, R> {
    fn new(packing: Packing, from: R) -> io::Result<Members<M, R>> {
        Ok(Members {
            member: Some(M::begin(from)?),
            packing,
            from: PhantomData,
        })
    }

    /// Goes to the next member.
    fn pass(&mut self, mut rest: R) -> io::Result<()> {
        let next = loop {
            let bytes = match rest.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            let (zeros, length) = (bytes.iter().take_while(|b| **b == 0).count(), bytes.len());
            let next = bytes.get(zeros).copied();
            rest.consume(zeros);
            if zeros < length || length == 0 {
                break next;
            }
        };
        let Some(next) = next else {
            return Ok(());
        };
        let (begins, name) = match self.packing {
            Packing::Bzip2 => (next == b'B', "bzip2"),
            Packing::Zstd => (matches!(next, 0x28 | 0x50..=0x5f), "zstd"),
            _ => (next == 0x1f, "gzip"),
        };
        if !begins {
            let why = format!("what follows the compressed data is not of {name}, and is not read");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        self.member = Some(M::begin(rest)?);
        Ok(())
    }
}

impl<M: Member<R>, R: BufRead> Read for Members<M, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if let Some(member) = self.member.take() {
                self.pass(member.end())?;
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use super::*;

    /// The decompressed bytes, read in small pieces, and the error at their end.
    fn unpack(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
        let from = BufReader::with_capacity(7, io::Cursor::new(bytes.to_vec()));
        let mut decoder = decoder(packing(bytes), from).unwrap();
        let mut out = Vec::new();
        let error = decoder.read_to_end(&mut out).err();
        (out, error.map(|error| error.to_string()))
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_of_gzip_may_be_many_and_end_with_zeros() {
        let (one, two) = (gzip(b"one\n"), gzip(b"two\n"));
        let zeros = vec![0; 1000];
        let both = [&one[..], &two].concat();
        assert_eq!(unpack(&both), (b"one\ntwo\n".to_vec(), None));
        assert_eq!(
            unpack(&[&both[..], &zeros].concat()),
            (b"one\ntwo\n".to_vec(), None)
        );
        assert_eq!(
            unpack(&[&one[..], &zeros, &two].concat()),
            (b"one\ntwo\n".to_vec(), None)
        );
        for behind in [&b"other"[..], b"\x1f\x8c", b"\0\0x"] {
            let (text, error) = unpack(&[&one[..], behind].concat());
            assert_eq!(text, b"one\n");
            assert!(error.is_some(), "{behind:?}");
        }
        let (text, error) = unpack(&both[..both.len() - 3]);
        assert!(text.starts_with(b"one\n") && error.is_some());
    }

    #[test]
    fn xz_and_bzip2_are_read_and_no_half_of_them() {
        // `printf 'one\ntwo\n' | xz` and `| bzip2`.
        let xz: &[u8] = include_bytes!("testdata/lines.xz");
        let bzip2: &[u8] = include_bytes!("testdata/lines.bz2");
        for whole in [xz, bzip2] {
            assert_eq!(unpack(whole), (b"one\ntwo\n".to_vec(), None));
            let twice = [whole, whole].concat();
            assert_eq!(unpack(&twice), (b"one\ntwo\none\ntwo\n".to_vec(), None));
            let padded = [whole, &[0; 512]].concat();
            assert_eq!(unpack(&padded), (b"one\ntwo\n".to_vec(), None));
            let (text, error) = unpack(&[whole, b"other"].concat());
            assert_eq!((&text[..], error.is_some()), (&b"one\ntwo\n"[..], true));
            for end in 7..whole.len() {
                assert!(
                    unpack(&whole[..end]).1.is_some(),
                    "{end} of {}",
                    whole.len()
                );
            }
        }
    }

    #[test]
    fn frames_of_zstd_may_be_many_and_end_with_zeros() {
        let frame = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
        let (one, two) = (frame(b"one\n"), frame(b"two\n"));
        let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
        let all = [&skipped[..], &one, skipped, &two, &[0; 600]].concat();
        assert_eq!(unpack(&all), (b"one\ntwo\n".to_vec(), None));
        for behind in [&b"other"[..], b"\x28", b"\0x"] {
            let (text, error) = unpack(&[&one[..], behind].concat());
            assert_eq!((&text[..], error.is_some()), (&b"one\n"[..], true));
        }
        for end in 6..one.len() {
            assert!(unpack(&one[..end]).1.is_some(), "{end}");
        }
    }

    #[test]
    fn what_is_no_text_is_named() {
        for (head, words) in [
            (&b"PK\x03\x04rest"[..], "zip"),
            (b"\x04\x22\x4d\x18", "lz4"),
            (b"\x1f\x9d\x90", "compress"),
            (b"\xff\xfe1\0", "UTF-16"),
            (b"LPKSHHRH", "journalctl"),
        ] {
            assert!(refused(head).unwrap().contains(words), "{words}");
        }
        let mut tar = vec![b'x'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(refused(&tar).unwrap().contains("tar"));
        for head in [&b""[..], b"BZ", b"\xef\xbb\xbfx", b"\0\0\0", b"127.0.0.1"] {
            assert_eq!(refused(head), None);
        }
    }
}
