//! Compressing many units on all cores, until there is no more time.

use std::time::Instant;

use litepack_codec::{Dictionary, Encoder, Level};
use litepack_io::interrupt;
use litepack_io::memory::OutOfMemory;
use litepack_io::parallel::parallel;

use super::Mean;

/// Units are compressed in so many rounds, each of which is as good a sample as all of them. Time can end all but the
/// first.
const ROUNDS: usize = 8;

/// A unit of the sample.
pub(crate) struct Unit {
    /// The stratum that it is from.
    pub(crate) stratum: usize,
    /// Which dictionary goes with it.
    pub(crate) dictionary: Option<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// Compresses units, and says for each of so many strata what one takes, and for each unit, if it was compressed.
pub(crate) fn all(
    units: &[Unit],
    strata: usize,
    dictionaries: &[&Dictionary],
    level: Level,
    threads: usize,
    deadline: Instant,
) -> Result<(Vec<Mean>, Vec<Option<u32>>), OutOfMemory> {
    // Round by round, and one dictionary after the other: preparing one takes time.
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by_key(|at| (at % ROUNDS, units[*at].dictionary, *at));
    let shares: Vec<Vec<usize>> = (0..threads.max(1))
        .map(|thread| {
            order
                .iter()
                .copied()
                .skip(thread)
                .step_by(threads.max(1))
                .collect()
        })
        .collect();
    let work = |share: Vec<usize>| -> Result<Vec<(usize, u32)>, OutOfMemory> {
        let mut encoder = Encoder::new(level);
        let (mut stored, mut lens) = (Vec::new(), Vec::with_capacity(share.len()));
        for at in share {
            if interrupt::is_interrupted() || (at % ROUNDS > 0 && Instant::now() > deadline) {
                break;
            }
            let unit = &units[at];
            // A unit that is all zero is not stored.
            if unit.bytes.iter().all(|byte| *byte == 0) {
                lens.push((at, 0));
                continue;
            }
            stored.clear();
            let dictionary = unit.dictionary.map(|at| dictionaries[at]);
            encoder.encode(&unit.bytes, dictionary, &mut stored)?;
            lens.push((at, u32::try_from(stored.len()).unwrap_or(u32::MAX)));
        }
        Ok(lens)
    };
    let (mut means, mut each) = (vec![Mean::default(); strata], vec![None; units.len()]);
    for lens in parallel(shares, work) {
        for (at, len) in lens? {
            means[units[at].stratum].add(f64::from(len));
            each[at] = Some(len);
        }
    }
    Ok((means, each))
}
