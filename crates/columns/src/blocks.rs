//! The blocks of a zstd frame: where they end, and how many bytes they can hold. Nothing of them is decoded.

use std::convert::Infallible;

use crate::frame::Form;

/// The most that zstd puts into one block.
pub(crate) const BLOCK_MAX: usize = 128 << 10;

/// How many bytes the frame (in standard form: the frames) can hold at most, by the sizes of its
/// blocks; `None` if `bytes` are anything else, or go on after it.
pub(crate) fn content_bound(bytes: &[u8], form: Form) -> Option<usize> {
    let mut bound = 0_usize;
    let Ok(is_whole) = each_block(bytes, form, &mut |_, held| {
        bound = bound.saturating_add(held);
        Ok::<_, Infallible>(())
    });
    is_whole.map(|()| bound)
}

/// Calls `each` for every block, with what is behind it and how many bytes it can hold. `None` if `bytes` are anything
/// but a frame, or go on after it.
///
/// # Errors
/// Those of `each`.
pub(crate) fn each_block<E>(
    bytes: &[u8],
    form: Form,
    each: &mut impl FnMut(&[u8], usize) -> std::result::Result<(), E>,
) -> std::result::Result<Option<()>, E> {
    let mut rest = bytes;
    loop {
        let behind = match form {
            Form::Compact => skip_frame(rest, each)?,
            Form::Standard => skip_magic_and_frame(rest, each)?,
        };
        match behind {
            Some([]) => return Ok(Some(())),
            Some(behind) if form == Form::Standard => rest = behind,
            _ => return Ok(None),
        }
    }
}

fn skip_magic_and_frame<'a, E>(
    bytes: &'a [u8],
    each: &mut impl FnMut(&[u8], usize) -> std::result::Result<(), E>,
) -> std::result::Result<Option<&'a [u8]>, E> {
    let Some((magic, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    match u32::from_le_bytes(*magic) {
        zstd_safe::MAGICNUMBER => skip_frame(rest, each),
        // A frame that decoders skip; anything may be in it.
        0x184d_2a50..=0x184d_2a5f => Ok(rest
            .split_first_chunk::<4>()
            .and_then(|(len, rest)| rest.get(u32::from_le_bytes(*len) as usize..))),
        _ => Ok(None),
    }
}

/// RFC 8878, 3.1.1: a header, blocks that say how long they are, perhaps a checksum.
fn skip_frame<'a, E>(
    bytes: &'a [u8],
    each: &mut impl FnMut(&[u8], usize) -> std::result::Result<(), E>,
) -> std::result::Result<Option<&'a [u8]>, E> {
    let Some((&descriptor, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let single_segment = descriptor & 0x20 != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = [usize::from(single_segment), 2, 4, 8][usize::from(descriptor >> 6)];
    let Some(mut rest) = rest.get(window + dictionary + content..) else {
        return Ok(None);
    };
    loop {
        let Some(([a, b, c], after)) = rest.split_first_chunk::<3>() else {
            return Ok(None);
        };
        let header = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
        let size = header >> 3;
        let (stored, held) = match header >> 1 & 3 {
            0 => (size, size),
            1 => (1, size),
            2 => (size, BLOCK_MAX),
            _ => return Ok(None),
        };
        let Some(behind) = after.get(stored..) else {
            return Ok(None);
        };
        rest = behind;
        each(rest, held)?;
        if header & 1 == 1 {
            let checksum = if descriptor & 4 == 0 { 0 } else { 4 };
            return Ok(rest.get(checksum..));
        }
    }
}
