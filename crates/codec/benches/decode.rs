//! The time to decode a page, split into zstd and the columnar layout.
//!
//! ```sh
//! cargo bench -p litepack-codec                  # all data sets, less than a minute
//! cargo bench -p litepack-codec -- titles        # those whose name contains this
//! cargo bench -p litepack-codec -- --level 19
//! ```
//!
//! The data is made here, the same on every machine. For counting instructions, `--once` makes one pass in `pass`,
//! which is never inlined: `valgrind --tool=callgrind --toggle-collect='decode::pass*' target/release/deps/decode-...
//! --once titles`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use litepack_codec::{Codec, Decoder, Dictionary, Encoder, Level, train};
use litepack_testdata::logs::{self, Indexes, Layout};
use litepack_testdata::{titles, tpch};
use rusqlite::Connection;
use zstd_safe::{DCtx, DParameter, FrameFormat};

const PAGE_LEN: usize = 4096;
/// Pages taken from all over a data set; one in so many is for the dictionary only.
const SAMPLE: usize = 2400;
const TRAINED: usize = 4;
/// The dictionary takes at most this share of the data, and as many bytes.
const DICTIONARY_SHARE: usize = 100;
const DICTIONARY_MAX: usize = 110 << 10;
/// The fastest of so many passes counts, for each batch of so many pages: an interruption spoils a batch of one pass.
const PASSES: usize = 31;
const BATCH: usize = 50;

type Create = fn(&Connection) -> rusqlite::Result<()>;

const DATA: [(&str, Create); 4] = [
    ("titles", |conn| titles::create(conn, 200_000, 1)),
    ("logs", |conn| {
        logs::create(conn, 200_000, 1, Layout::Columns, Indexes::Without)
    }),
    ("logs as JSON", |conn| {
        logs::create(conn, 60_000, 1, Layout::Json, Indexes::With)
    }),
    ("TPC-H", |conn| tpch::create(conn, 0.02)),
];

/// The options of the command line.
struct Options {
    level: Level,
    once: bool,
    name: String,
}

impl Options {
    fn parse() -> Options {
        let mut options = Options {
            level: 3,
            once: false,
            name: String::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo adds it.
                "--bench" => {}
                "--once" => options.once = true,
                "--level" => {
                    let level = arguments.next().and_then(|level| level.parse().ok());
                    options.level = level.expect("--level takes a number");
                }
                name => options.name = name.into(),
            }
        }
        options
    }
}

fn main() {
    let options = Options::parse();
    println!(
        "Microseconds for a page of {PAGE_LEN} bytes, level {}:\n",
        options.level
    );
    println!("| data | pages by column | bytes by stored bytes | decoding | zstd | columns |");
    println!("|---|--:|--:|--:|--:|--:|");
    for (name, create) in DATA {
        if !name.contains(&options.name) {
            continue;
        }
        let mut pages = Pages::of(create, options.level);
        if options.once {
            pages.pass(0..pages.stored.len());
            println!("| {name} | {} pages once |", pages.stored.len());
            continue;
        }
        let share = pages.by_column() * 100 / pages.stored.len();
        let ratio = (pages.stored.len() * PAGE_LEN) as f64 / pages.stored_len() as f64;
        let (all, zstd) = pages.measure();
        let columns = all - zstd;
        println!("| {name} | {share} % | {ratio:.2} | {all:.2} | {zstd:.2} | {columns:.2} |");
    }
}

/// The pages of a data set as they are stored.
struct Pages {
    dictionary: Dictionary,
    stored: Vec<(Codec, Vec<u8>)>,
    decoder: Decoder,
    zstd: DCtx<'static>,
    out: Vec<u8>,
}

impl Pages {
    fn of(create: Create, level: Level) -> Pages {
        let mut conn = Connection::open_in_memory().expect("a database in memory opens");
        create(&conn).expect("the data can be made");
        let file = conn.serialize("main").expect("a database has a file");
        let (pages, _) = file.as_chunks::<PAGE_LEN>();
        let pages = pages.iter().step_by((pages.len() / SAMPLE).max(1));
        let mut encoder = Encoder::new(level);
        let (mut samples, mut lens) = (Vec::new(), Vec::new());
        for page in pages.clone().step_by(TRAINED) {
            let sample = encoder.sample(page);
            samples.extend_from_slice(sample);
            lens.push(sample.len());
        }
        let len = (file.len() / DICTIONARY_SHARE).min(DICTIONARY_MAX);
        let dictionary = train(&samples, &lens, len).expect("there are enough samples");
        let (mut decoder, mut stored) = (Decoder::default(), Vec::new());
        for (_, page) in pages.enumerate().filter(|(index, _)| index % TRAINED != 0) {
            let mut bytes = Vec::new();
            let codec = encoder.encode(page, Some(&dictionary), &mut bytes);
            let codec = codec.expect("there is memory");
            let mut back = [0; PAGE_LEN];
            let decoded = decoder.decode(codec, &bytes, Some(&dictionary), &mut back);
            assert!(decoded == Ok(()) && back == *page, "a page comes back");
            stored.push((codec, bytes));
        }
        let mut zstd = DCtx::create();
        zstd.set_parameter(DParameter::Format(FrameFormat::Magicless))
            .expect("the parameter is valid");
        Pages {
            dictionary,
            stored,
            decoder,
            zstd,
            out: vec![0; PAGE_LEN],
        }
    }

    fn by_column(&self) -> usize {
        let columnar = self.stored.iter();
        columnar
            .filter(|(codec, _)| *codec == Codec::Columnar)
            .count()
    }

    fn stored_len(&self) -> usize {
        self.stored.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Decodes the pages.
    #[inline(never)]
    fn pass(&mut self, pages: std::ops::Range<usize>) {
        for (codec, bytes) in &self.stored[pages] {
            let dictionary = Some(&self.dictionary);
            let decoded = self
                .decoder
                .decode(*codec, bytes, dictionary, &mut self.out);
            decoded.expect("a page decodes");
            black_box(&mut self.out);
        }
    }

    /// Does the part of it that is zstd.
    #[inline(never)]
    fn pass_zstd(&mut self, pages: std::ops::Range<usize>) {
        let dictionary = self
            .dictionary
            .for_decoding()
            .expect("a dictionary of zstd");
        for (codec, bytes) in &self.stored[pages] {
            if *codec != Codec::Raw {
                let out = self.out.as_mut_slice();
                let len = self.zstd.decompress_using_ddict(out, bytes, dictionary);
                len.expect("a frame decompresses");
                black_box(&mut self.out);
            }
        }
    }

    /// The microseconds that a page takes, and those of zstd.
    fn measure(&mut self) -> (f64, f64) {
        let count = self.stored.len();
        let mut best = vec![[Duration::MAX; 2]; count.div_ceil(BATCH)];
        for _ in 0..PASSES {
            for (batch, [all, zstd]) in best.iter_mut().enumerate() {
                let pages = batch * BATCH..count.min((batch + 1) * BATCH);
                let start = Instant::now();
                self.pass(pages.clone());
                *all = start.elapsed().min(*all);
                let start = Instant::now();
                self.pass_zstd(pages);
                *zstd = start.elapsed().min(*zstd);
            }
        }
        let micros = |of: usize| {
            let sum: Duration = best.iter().map(|best| best[of]).sum();
            sum.as_secs_f64() * 1e6 / count as f64
        };
        (micros(0), micros(1))
    }
}
