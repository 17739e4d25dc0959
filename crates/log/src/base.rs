//! The page that a first version stands on: as the commit has it that the generation began after.
//!
//! It is read through the record in the slot, and no other. A later commit of the file may have other pages, also one
//! that the log follows. Each first version has a sum of it, so no other page is taken for it.

use std::io;

use litepack_io::memory::zeros;

use crate::binding::BoundTo;
use crate::error::{Error, Result};
use crate::format::head::Generation;
use crate::format::record::{FRAME_HEADER_LEN, page_of, sum_of};

/// That page of the database, if its commit has it and it can be read. For one who writes: a version can do without it.
pub(crate) fn to_stand_on(
    file: Option<&(dyn BoundTo + Send)>,
    generation: &Generation,
    page: u32,
) -> Result<Option<Vec<u8>>> {
    let (Some(file), Some(base)) = (file, &generation.base) else {
        return Ok(None);
    };
    let mut bytes = zeros(generation.page_size)?;
    // Also if it was interrupted, or there is no memory.
    let is_there = file.base_page(base, page, &mut bytes).unwrap_or(false);
    Ok(is_there.then_some(bytes))
}

/// Fills `page` with it, for a first version at `place` that names this sum and is in a frame with this header.
pub(crate) fn read(
    file: Option<&(dyn BoundTo + Send)>,
    generation: &Generation,
    header: Option<[u8; FRAME_HEADER_LEN]>,
    sum: u32,
    place: u64,
    page: &mut [u8],
) -> Result<()> {
    let file = file.ok_or(Error::NoFile)?;
    let (base, header) = (generation.base.as_ref().zip(header))
        .ok_or_else(|| Error::damaged(place, "a first version stands on nothing"))?;
    let number = page_of(&header);
    let is_gone = || Error::NoBase {
        place,
        page: number,
    };
    match file.base_page(base, number, page) {
        Ok(true) if sum_of(page) == sum => Ok(()),
        Ok(_) => Err(is_gone()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(is_gone()),
        Err(error) => Err(error.into()),
    }
}
