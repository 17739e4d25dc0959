//! The encoding that Litepack's page transform chooses for a column.

use anyhow::{Result, anyhow};
use litepack_codec::parts::Columns;

use super::Encoding;
use crate::data::Kind;

#[derive(Default)]
pub(super) struct Ours {
    columns: Columns,
    reals: Vec<f64>,
}

impl Encoding for Ours {
    fn name(&self) -> &'static str {
        "litepack's choice"
    }

    fn by(&self) -> &'static str {
        "litepack-codec"
    }

    fn encode(&mut self, kind: Kind, values: &[i64], out: &mut Vec<u8>) -> Result<()> {
        match kind {
            Kind::Integer => self.columns.put_integers(values, out),
            Kind::Real => {
                let reals = values.iter().map(|bits| f64::from_bits(*bits as u64));
                self.columns.put_reals(reals, out);
            }
        }
        Ok(())
    }

    fn decode(
        &mut self,
        kind: Kind,
        stored: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<()> {
        match kind {
            Kind::Integer => self.columns.take_integers(stored, count, values),
            Kind::Real => {
                self.reals.clear();
                let taken = self.columns.take_reals(stored, count, &mut self.reals);
                values.extend(self.reals.iter().map(|real| real.to_bits() as i64));
                taken
            }
        }
        .map_err(|error| anyhow!("{error}"))
    }
}
