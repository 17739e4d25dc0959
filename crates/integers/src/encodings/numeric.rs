//! Pcodec: a library that finds out how a column of numbers came about, and codes what is left. Not asked for by any
//! format here; it shows what there would be to gain.

use anyhow::{Result, ensure};
use pco::ChunkConfig;
use pco::standalone::{simple_compress, simple_decompress};

use super::Encoding;
use crate::data::Kind;

pub(super) struct Pcodec;

impl Encoding for Pcodec {
    fn name(&self) -> &'static str {
        "Pcodec"
    }

    fn by(&self) -> &'static str {
        "pco 1.1"
    }

    fn encode(&mut self, kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        let config = ChunkConfig::default();
        out.extend(match kind {
            Kind::Integer => simple_compress(values, &config)?,
            Kind::Real => {
                let reals: Vec<f64> = values
                    .iter()
                    .map(|bits| f64::from_bits(*bits as u64))
                    .collect();
                simple_compress(&reals, &config)?
            }
        });
        Ok(())
    }

    fn decode(
        &mut self,
        kind: Kind,
        stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        let start = values.len();
        match kind {
            Kind::Integer => values.extend(simple_decompress::<i64>(stored)?),
            Kind::Real => {
                let reals = simple_decompress::<f64>(stored)?;
                values.extend(reals.iter().map(|real| real.to_bits() as i64));
            }
        }
        ensure!(values.len() - start == count, "a wrong length");
        Ok(())
    }
}
