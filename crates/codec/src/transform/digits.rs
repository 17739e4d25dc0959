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

/// Writes the last `width` digits of a number, or as many as it needs if that is 0, and returns what is behind them,
/// where some bytes may have changed. `None` if there is no room.
#[inline]
pub(crate) fn put(value: u64, width: usize, to: &mut [u8]) -> Option<&mut [u8]> {
    match (small(value, width), to.first_chunk_mut()) {
        (Some((digits, len)), Some(place)) => {
            *place = digits.to_le_bytes();
            to.get_mut(len..)
        }
        _ => put_many(value, width, to),
    }
}

#[inline(never)]
fn put_many(value: u64, width: usize, to: &mut [u8]) -> Option<&mut [u8]> {
    let len = if width == 0 { count(value) } else { width };
    let (place, behind) = to.split_at_mut_checked(len)?;
    fill(place, value);
    Some(behind)
}

/// How many digits a number has.
fn count(value: u64) -> usize {
    value.checked_ilog10().unwrap_or(0) as usize + 1
}

/// The last eight digits of a number, the first in the lowest byte.
#[inline]
fn eight(value: u64) -> u64 {
    let value = value % 100_000_000;
    // Numbers of four digits, then of two, then of one, side by side.
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    (tens | ((pairs - 10 * tens) << 8)) + u64::from_le_bytes([b'0'; 8])
}

/// Fills each place with the last digits of a number, where it is known how many, which is several times as fast.
#[inline]
#[expect(
    clippy::indexing_slicing,
    reason = "a width is at most 8, as checked by the compiler"
)]
pub(crate) fn fill_each<'a, const WIDTH: usize>(
    places: impl Iterator<Item = (&'a mut [u8], &'a i64)>,
) {
    for (place, value) in places {
        let Some(place) = place.first_chunk_mut::<WIDTH>() else {
            return;
        };
        let value = *value as u64;
        if WIDTH == 2 {
            place.copy_from_slice(&two(value));
        } else if WIDTH == 4 {
            let (first, last) = place.split_at_mut(2);
            first.copy_from_slice(&two(value / 100));
            last.copy_from_slice(&two(value));
        } else {
            place.copy_from_slice(&eight(value).to_le_bytes()[8 - WIDTH..]);
        }
    }
}

/// The last two digits of a number.
#[inline]
#[expect(clippy::indexing_slicing, reason = "a remainder of 100 is below 1000")]
pub(crate) fn two(value: u64) -> [u8; 2] {
    let [_, tens, ones, _] = SMALL[(value % 100) as usize];
    [tens, ones]
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
            let last = format!("{:08}", value % 100_000_000);
            prop_assert_eq!(&eight(value).to_le_bytes()[..], last.as_bytes());
            match small(value, width) {
                Some((word, count)) => prop_assert_eq!(&word.to_le_bytes()[..count], expected),
                None => prop_assert!(value > 9999 || width > 3 || (1..4).contains(&width)),
            }
        }
    }
}
