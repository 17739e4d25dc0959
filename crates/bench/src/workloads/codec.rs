//! Pages as such: what encoding and decoding one costs, without files and without SQLite.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use litepack_codec::{Codec as Encoding, Decoder, Dictionary, Encoder, Level, train};
use litepack_testdata::logs::Indexes;

use super::{Workload, compared, mix};
use crate::dataset::Dataset;
use crate::engines::Group;
use crate::lab::{Lab, Turn};
use crate::rows::{Cache, PAGE_LEN, Row, Unit};

/// Encodes and decodes a sample of each data set's pages.
pub struct Codec;

const DATA: [Dataset; 4] = [
    Dataset::Titles,
    Dataset::Logs(Indexes::Without),
    Dataset::JsonLogs(Indexes::With),
    Dataset::Tpch,
];

/// Pages taken from all over a data set; one in this many is for the dictionary only.
const SAMPLE: u32 = 2400;
const TRAINED: usize = 4;
/// As a packer makes them: at most this share of the data, and as many bytes.
const DICTIONARY_SHARE: usize = 100;
const DICTIONARY_LEN: Range<usize> = 4 << 10..110 << 10;
/// A turn goes through the sample so often, in batches of so many pages, and the fastest pass counts for each
/// batch: an interruption spoils a batch of one pass, and not the turn.
const PASSES: usize = 7;
const BATCH: usize = 50;

/// How pages are stored.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    level: Level,
    columnar: bool,
    dictionary: bool,
}

impl Way {
    const fn by_column(name: &'static str, level: Level) -> Way {
        Way {
            name,
            level,
            columnar: true,
            dictionary: true,
        }
    }
}

/// All ways; the others are compared with the first.
const WAYS: [Way; 8] = [
    Way {
        name: Codec::YARDSTICK,
        level: 3,
        columnar: false,
        dictionary: false,
    },
    Way {
        name: "zstd 3, dictionary",
        level: 3,
        columnar: false,
        dictionary: true,
    },
    Way::by_column("by column, 1", 1),
    Way::by_column("by column, 3", 3),
    Way::by_column("by column, 6", 6),
    Way::by_column("by column, 9", 9),
    Way::by_column("by column, 12", 12),
    Way::by_column("by column, 19", 19),
];

/// The measurements of each way.
#[derive(Clone, Copy)]
enum Work {
    Size,
    Encode,
    Decode,
}

impl Codec {
    /// The way that others are compared with, in the place of plain SQLite.
    const YARDSTICK: &'static str = "zstd 3";
}

impl Workload for Codec {
    fn name(&self) -> &'static str {
        "codec"
    }

    fn about(&self) -> &'static str {
        "Pages from all over the file, one after the other on one processor: what they are stored in, and the time for a page. \
         A number is the level; pages by column have a dictionary, too, one for the whole file. No SQLite takes part: ratios are \
         to zstd at level 3 without a dictionary. Aim: decoding at most 2 × the time."
    }

    fn group(&self) -> Group {
        Group::Files
    }

    fn yardstick(&self) -> &'static str {
        Self::YARDSTICK
    }

    fn run(&self, lab: &Lab) -> Result<Vec<Vec<Row>>> {
        let mut groups = Vec::new();
        for data in DATA {
            let pages = Pages::of(lab, data)?;
            let mut contestants: Vec<Result<Contestant>> = WAYS
                .iter()
                .map(|way| Contestant::new(*way, &pages))
                .collect();
            for work in [Work::Size, Work::Encode, Work::Decode] {
                groups.push(work.run(lab, data, &pages, &mut contestants));
            }
        }
        Ok(groups)
    }
}

/// A sample of a data set's pages.
struct Pages {
    measured: Vec<Vec<u8>>,
    trained: Vec<Vec<u8>>,
    dictionary_len: usize,
}

impl Pages {
    fn of(lab: &Lab, data: Dataset) -> Result<Pages> {
        let file = std::fs::File::open(lab.source(data)?)?;
        let len = file.metadata()?.len() as usize;
        let all = len / PAGE_LEN;
        let stride = (all / lab.scale.operations(SAMPLE) as usize).max(1);
        let mut pages = Pages {
            measured: Vec::new(),
            trained: Vec::new(),
            dictionary_len: (len / DICTIONARY_SHARE)
                .clamp(DICTIONARY_LEN.start, DICTIONARY_LEN.end),
        };
        for (index, page) in (0..all).step_by(stride).enumerate() {
            let mut bytes = vec![0; PAGE_LEN];
            file.read_exact_at(&mut bytes, (page * PAGE_LEN) as u64)?;
            if index % TRAINED == 0 {
                pages.trained.push(bytes);
            } else {
                pages.measured.push(bytes);
            }
        }
        Ok(pages)
    }
}

/// One way of storing pages, with the pages as it stores them.
struct Contestant {
    encoder: Encoder,
    decoder: Decoder,
    dictionary: Option<Dictionary>,
    stored: Vec<(Encoding, Vec<u8>)>,
}

impl Contestant {
    fn new(way: Way, pages: &Pages) -> Result<Contestant> {
        let mut encoder = Encoder::with_columnar(way.level, way.columnar);
        let dictionary = if way.dictionary {
            let (mut samples, mut lens) = (Vec::new(), Vec::new());
            for page in &pages.trained {
                let sample = encoder.sample(page);
                samples.extend_from_slice(sample);
                lens.push(sample.len());
            }
            let trained = train(&samples, &lens, pages.dictionary_len);
            Some(trained.context("the pages are too few to train a dictionary on")?)
        } else {
            None
        };
        let stored = pages.measured.iter().map(|page| {
            let mut bytes = Vec::new();
            let codec = encoder.encode(page, dictionary.as_ref(), &mut bytes)?;
            Ok((codec, bytes))
        });
        let stored = stored.collect::<Result<_>>()?;
        Ok(Contestant {
            encoder,
            decoder: Decoder::default(),
            dictionary,
            stored,
        })
    }

    fn encode(&mut self, pages: &Pages) -> Result<Turn> {
        let dictionary = self.dictionary.as_ref();
        let mut out = Vec::with_capacity(PAGE_LEN);
        let value = fastest(&pages.measured, |page| {
            out.clear();
            self.encoder.encode(page, dictionary, &mut out)?;
            Ok(())
        })?;
        Ok(Turn { value, answer: 0 })
    }

    fn decode(&mut self) -> Result<Turn> {
        let mut page = vec![0; PAGE_LEN];
        let mut answer = 0;
        let value = fastest(&self.stored, |(codec, bytes)| {
            let dictionary = self.dictionary.as_ref();
            self.decoder.decode(*codec, bytes, dictionary, &mut page)?;
            answer = mix(answer, &page);
            Ok(())
        })?;
        Ok(Turn { value, answer })
    }

    fn stored_bytes(&self) -> usize {
        self.stored.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// The seconds that `work` takes for one of the items.
fn fastest<T>(items: &[T], mut work: impl FnMut(&T) -> Result<()>) -> Result<f64> {
    ensure!(!items.is_empty(), "the data set is too small");
    let mut best = vec![Duration::MAX; items.len().div_ceil(BATCH)];
    for _ in 0..PASSES {
        for (batch, best) in items.chunks(BATCH).zip(&mut best) {
            let start = Instant::now();
            batch.iter().try_for_each(&mut work)?;
            *best = start.elapsed().min(*best);
        }
    }
    Ok(best.iter().sum::<Duration>().as_secs_f64() / items.len() as f64)
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Size => "size",
            Work::Encode => "encode",
            Work::Decode => "decode",
        }
    }

    fn run(
        self,
        lab: &Lab,
        data: Dataset,
        pages: &Pages,
        contestants: &mut [Result<Contestant>],
    ) -> Vec<Row> {
        let (unit, rounds) = match self {
            Work::Size => (Unit::Bytes, 1),
            Work::Encode | Work::Decode => (Unit::SecondsPerPage, lab.rounds),
        };
        let title = "Encoding and decoding pages";
        let turns = lab.take_turns(title, rounds, contestants, |contestant, _| match self {
            Work::Size => Ok(Turn {
                value: contestant.stored_bytes() as f64,
                answer: 0,
            }),
            Work::Encode => contestant.encode(pages),
            Work::Decode => contestant.decode(),
        });
        let row = Row {
            workload: Codec.name(),
            title: title.into(),
            data: data.title(lab.scale.size),
            way: Some(self.name()),
            cache: Cache::Irrelevant,
            unit,
            ..Row::EMPTY
        };
        compared(&row, WAYS.iter().map(|way| way.name), turns)
    }
}
