//! Numbers in decimal.

/// The numbers below 1000: three digits, and how many of these the number needs.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler, which refuses an index out of range; a digit is below 10"
)]
const SMALL: [[u8; 4]; 1000] = {
    let mut small = [[0; 4]; 1000];
    let mut value = 0;
    while value < 1000 {
        small[value] = [
            b'0' + (value / 100) as u8,
            b'0' + (value / 10 % 10) as u8,
            b'0' + (value % 10) as u8,
            1 + (value > 9) as u8 + (value > 99) as u8,
        ];
        value += 1;
    }
    small
};

/// The last `width` digits of a number, or as many as it needs if that is 0: the first in the lowest byte, and how
/// many. Only where that is cheap, and never more than four.
#[inline]
pub(crate) fn small(value: u64, width: usize) -> Option<(u64, usize)> {
    let value = usize::try_from(value).ok()?;
    if let Some([hundreds, tens, ones, count]) = SMALL.get(value) {
        let count = if width == 0 {
            usize::from(*count)
        } else {
            width
        };
        let digits = u32::from_le_bytes([*hundreds, *tens, *ones, 0]);
        return Some((
            u64::from(digits) >> (8 * 3_usize.checked_sub(count)?),
            count,
        ));
    }
    if value < 10_000 && (width == 0 || width == 4) {
        let [_, thousands, hundreds, _] = SMALL.get(value / 100)?;
        let [_, tens, ones, _] = SMALL.get(value % 100)?;
        let digits = u32::from_le_bytes([*thousands, *hundreds, *tens, *ones]);
        return Some((digits.into(), 4));
    }
    None
}

/// How many digits a number has.
pub(crate) fn count(value: u64) -> usize {
    value.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Fills `place` with the last digits of a number.
#[inline]
#[expect(clippy::indexing_slicing, reason = "a remainder of 100 is below 1000")]
pub(crate) fn fill(place: &mut [u8], mut value: u64) {
    for pair in place.rchunks_mut(2) {
        let [_, tens, ones, _] = SMALL[(value % 100) as usize];
        match pair {
            [first, second] => (*first, *second) = (tens, ones),
            rest => rest.fill(ones),
        }
        value /= 100;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_print_as_they_do_elsewhere(value: u64, shift in 0..64, width in 0usize..21) {
            let value: u64 = value >> shift;
            let own = value.to_string().len();
            prop_assert_eq!(count(value), own);
            let len = if width == 0 { own } else { width };
            let expected = format!("{value:020}");
            let expected = &expected.as_bytes()[20 - len..];
            let mut filled = vec![0; len];
            fill(&mut filled, value);
            prop_assert_eq!(&filled, expected);
            match small(value, width) {
                Some((word, count)) => prop_assert_eq!(&word.to_le_bytes()[..count], expected),
                None => prop_assert!(value > 9999 || width > 3 || (1..4).contains(&width)),
            }
        }
    }
}
