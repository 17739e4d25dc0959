//! The coders of columns on their own, to measure them beside others. Litepack itself does not use this.

use super::bytes::Reader;
use super::record::{Field, REAL, Values, integer_of, is_integer, serial_of, word_of};
use super::undo::Buffers;
use super::{bytes::Span, column, ints};
use crate::DecodeError;

/// Codes columns as in a page laid out by column.
#[derive(Default)]
pub struct Columns {
    integers: Vec<i64>,
    /// The values that the records of a page would hold.
    bodies: Vec<u8>,
    fields: Vec<Field>,
    work: column::ColumnWork,
    buffers: Buffers,
    values: Values,
}

impl Columns {
    /// Appends a column of integers.
    pub fn put_integers(&mut self, values: &[i64], out: &mut Vec<u8>) {
        self.integers.clear();
        self.integers.extend_from_slice(values);
        ints::encode(&mut self.integers, out);
    }

    /// Appends the `count` integers of a column to `values`.
    ///
    /// # Errors
    /// When the column does not decode.
    pub fn take_integers(
        &mut self,
        column: &[u8],
        count: usize,
        values: &mut Vec<i64>,
    ) -> Result<(), DecodeError> {
        ints::decode(&mut Reader::new(column), count, values).map_err(|_| DecodeError::Malformed)
    }

    /// Appends a column of reals, as SQLite has them in a column with that affinity: those that are integers of at most
    /// six bytes are stored as such.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an integer made of a real is used only if it gives the real back"
    )]
    pub fn put_reals(&mut self, values: impl Iterator<Item = f64>, out: &mut Vec<u8>) {
        self.bodies.clear();
        self.fields.clear();
        for value in values {
            let (start, integer) = (self.bodies.len(), value as i64);
            let short = (integer as f64).to_bits() == value.to_bits() && serial_of(integer).1 <= 6;
            let serial = if short {
                let (serial, len) = serial_of(integer);
                let word = word_of(integer, len).to_le_bytes();
                self.bodies.extend(word.into_iter().take(len as usize));
                serial.into()
            } else {
                self.bodies.extend_from_slice(&value.to_be_bytes());
                REAL
            };
            let span = Span::new(start, self.bodies.len());
            self.fields.push(Field { serial, span });
        }
        column::encode(&self.bodies, &self.fields, &mut self.work, out);
    }

    /// Appends the `count` reals of a column, as they are in memory, to `values`.
    ///
    /// # Errors
    /// When the column does not decode.
    pub fn take_reals(
        &mut self,
        column: &[u8],
        count: usize,
        values: &mut Vec<f64>,
    ) -> Result<(), DecodeError> {
        self.buffers.arena.begin(column, 8 * count);
        self.values.clear();
        let mut input = Reader::new(column);
        column::decode(&mut input, count, &mut self.buffers, &mut self.values)
            .map_err(|_| DecodeError::Malformed)?;
        let bytes = self.buffers.arena.bytes();
        for (serial, piece) in self.values.serials.iter().zip(&self.values.pieces) {
            let serial = u64::from(*serial);
            values.push(match piece.of(bytes).try_into() {
                Ok(real) if serial == REAL => f64::from_be_bytes(real),
                _ if is_integer(serial) => integer_of(serial, *piece, bytes) as f64,
                _ => return Err(DecodeError::Malformed),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_back() {
        let mut columns = Columns::default();
        let (mut stored, mut back) = (Vec::new(), Vec::new());
        let integers: Vec<i64> = (0..500).map(|i| i * i * i - 7000).collect();
        columns.put_integers(&integers, &mut stored);
        columns.take_integers(&stored, 500, &mut back).unwrap();
        assert_eq!(back, integers);
        let lists: [Vec<f64>; 2] = [
            (0..500).map(|i| f64::from(i) / 4.0 + 0.1).collect(),
            vec![
                0.5,
                -0.0,
                0.0,
                1.0,
                -3.0,
                1e300,
                140737488355327.0,
                1e15,
                f64::NEG_INFINITY,
            ],
        ];
        for reals in lists {
            let (mut stored, mut back) = (Vec::new(), Vec::new());
            columns.put_reals(reals.iter().copied(), &mut stored);
            columns.take_reals(&stored, reals.len(), &mut back).unwrap();
            let bits =
                |values: &[f64]| values.iter().map(|real| real.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&back), bits(&reals));
        }
    }
}
