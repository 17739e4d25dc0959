//! Samples of a column: for each group its size, a sample in bounded memory, and whether a dictionary pays.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::dictionary::of_bytes;
use crate::frame::{Compressor, Form};
use crate::sql::{ERROR, Result};
use crate::state::Left;
use crate::train::{DICTIONARY_MAX, DICTIONARY_MIN, Reservoir};

/// Largest dictionary made without being asked for: it has to stay in the processor's cache together
/// with what else a query reads. 110 KB gives files 5 % larger on short JSON, 1 MB 4 % smaller.
const USUAL_MAX: u64 = 256 << 10;
/// Sample of a group for each byte of dictionary, at most. Ten times more gains less than 1 %.
const SAMPLE_RATIO: f64 = 16.0;
/// Sample kept back to measure with.
const TRIAL_BYTES: usize = 256 << 10;
/// All samples together.
const MEMORY: usize = 64 << 20;
/// Groups told apart. Those beyond wait until others have their dictionaries.
const GROUPS_MAX: usize = 2000;

/// One group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Rows that can be compressed.
    pub(crate) rows: u64,
    /// Bytes in these.
    pub(crate) bytes: u64,
    /// To train with; none if memory did not suffice for all groups.
    samples: Option<Samples>,
}

#[derive(Debug)]
struct Samples {
    training: Reservoir,
    trial: Reservoir,
}

impl Samples {
    fn bytes(&self) -> usize {
        self.training.bytes() + self.trial.bytes()
    }
}

/// The samples seen of a column, by group.
#[derive(Debug)]
pub(crate) struct Sampler<'a> {
    config: &'a Config,
    groups: BTreeMap<String, Group>,
    memory: usize,
    /// Whether groups were seen that there was no room for.
    crowded: bool,
}

/// The result for a group.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// A dictionary that pays.
    Dictionary(Vec<u8>),
    /// None.
    Left(Left),
    /// Too many groups at a time: sample again.
    Later,
}

impl<'a> Sampler<'a> {
    /// One of a column so configured.
    pub(crate) fn new(config: &'a Config) -> Sampler<'a> {
        Sampler {
            config,
            groups: BTreeMap::new(),
            memory: 0,
            crowded: false,
        }
    }

    /// Largest dictionary a group gets.
    fn largest(&self) -> u64 {
        let smallest = u64::try_from(self.config.min_dict_size_bytes_for_training).unwrap_or(0);
        USUAL_MAX.max(smallest).min(DICTIONARY_MAX as u64)
    }

    /// Shows it a value that can be compressed.
    pub(crate) fn add(&mut self, group: &str, content: &[u8]) {
        if !self.groups.contains_key(group) {
            if self.groups.len() == GROUPS_MAX {
                self.crowded = true;
                return;
            }
            let ratio = self
                .config
                .train_dict_samples_ratio
                .clamp(1.0, SAMPLE_RATIO);
            let bytes = (self.largest() as f64 * ratio) as usize;
            let samples = Samples {
                training: Reservoir::new(usize::MAX, bytes),
                trial: Reservoir::new(usize::MAX, TRIAL_BYTES),
            };
            let new = Group {
                samples: Some(samples),
                ..Group::default()
            };
            self.groups.insert(group.to_string(), new);
        }
        let Some(found) = self.groups.get_mut(group) else {
            return;
        };
        found.rows += 1;
        found.bytes += content.len() as u64;
        if let Some(samples) = &mut found.samples {
            let before = samples.bytes();
            if found.rows % 8 == 0 {
                samples.trial.push(content);
            } else {
                samples.training.push(content);
            }
            self.memory = self.memory + samples.bytes() - before;
            if self.memory > MEMORY {
                self.make_room();
            }
        }
    }

    /// Drops the sample of the smallest group.
    fn make_room(&mut self) {
        let sampled = self
            .groups
            .values_mut()
            .filter(|group| group.samples.is_some());
        if let Some(smallest) = sampled.min_by_key(|group| group.bytes) {
            self.memory -= smallest.samples.take().map_or(0, |samples| samples.bytes());
        }
    }

    /// Whether there were too many groups to judge all of them.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// The groups and what comes of each, one after the other.
    pub(crate) fn verdicts(self) -> impl Iterator<Item = Result<(String, Verdict)>> + use<'a> {
        let (config, largest) = (self.config, self.largest());
        self.groups
            .into_iter()
            .map(move |(name, group)| judge(config, largest, group).map(|verdict| (name, verdict)))
    }
}

fn judge(config: &Config, largest: u64, group: Group) -> Result<Verdict> {
    let left = |why| {
        Ok(Verdict::Left(Left {
            rows: group.rows,
            bytes: group.bytes,
            why,
        }))
    };
    let smallest = u64::try_from(config.min_dict_size_bytes_for_training).unwrap_or(0);
    let size = (group.bytes as f64 * config.dict_size_ratio) as u64;
    if size < smallest.max(DICTIONARY_MIN as u64) {
        return left(format!(
            "too small: {} bytes x dict_size_ratio {} allow a dictionary of {size} bytes, and \
             min_dict_size_bytes_for_training is {smallest}",
            group.bytes, config.dict_size_ratio
        ));
    }
    let Some(samples) = &group.samples else {
        return Ok(Verdict::Later);
    };
    let bytes = match samples.training.train(size.min(largest) as usize) {
        Ok(bytes) => bytes,
        Err(error) if error.code == ERROR => {
            return left("zstd finds nothing in it that a dictionary could hold".into());
        }
        Err(error) => return Err(error),
    };
    let saved = samples.saving(config.compression_level, &bytes)? * group.bytes as f64;
    if saved <= bytes.len() as f64 {
        return left(format!(
            "would not gain: a dictionary of {} bytes would save about {saved:.0} bytes",
            bytes.len()
        ));
    }
    Ok(Verdict::Dictionary(bytes))
}

impl Samples {
    /// The share of its bytes that a dictionary saves, on values it was not trained on.
    fn saving(&self, level: i32, dictionary: &[u8]) -> Result<f64> {
        let dictionary = of_bytes(dictionary)?;
        let mut compressor = Compressor::prepared(level, Some(&dictionary), Form::Compact)?;
        let (mut before, mut after, mut frame) = (0, 0, Vec::new());
        for value in self.trial.values() {
            compressor.compress(value, &mut frame)?;
            before += value.len();
            after += stored_len(frame.len(), -2).min(value.len());
        }
        Ok(1.0 - after as f64 / (before as f64).max(1.0))
    }
}

/// Bytes that a frame takes in a row, with the id of its dictionary.
pub(crate) fn stored_len(frame: usize, id: i64) -> usize {
    let id = match id {
        0 | 1 => 0,
        -128..=127 => 1,
        -32768..=32767 => 2,
        _ => 4,
    };
    frame + id
}
