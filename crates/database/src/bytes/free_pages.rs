//! Free pages of a plain database, read as zeros: a packed file of it is smaller, and SQLite makes no difference between
//! such a page and another.
//!
//! The content of a leaf of SQLite's list of free pages means nothing to it. Here the list counts only if it is right:
//! all trees are walked, and each page is in one of them or on the list.

use litepack_btree::{FreeList, PageNumber};
use litepack_io::storage::ReadAt;

use crate::{Error, Job, Result};

/// The pages.
#[derive(Debug)]
pub struct FreePages {
    page_size: u64,
    list: FreeList,
}

impl FreePages {
    /// Those of a database that no connection changes; `None` if its list of them is not right.
    pub fn find(bytes: &impl ReadAt, job: &Job<'_>) -> Result<Option<FreePages>> {
        let len = ReadAt::len(bytes).unwrap_or(0);
        if len == 0 {
            return Ok(Some(FreePages {
                page_size: 4096,
                list: FreeList::default(),
            }));
        }
        let step = job.bytes("looking", len);
        let found = litepack_engine::right_free_list(len, |offset, buf| {
            job.check()?;
            step.add(buf.len() as u64);
            Ok::<_, Error>(ReadAt::read_at(bytes, buf, offset).is_ok_and(|n| n == buf.len()))
        })?;
        Ok(found.map(|(header, list)| FreePages {
            page_size: header.page_size.into(),
            list,
        }))
    }

    /// Makes zeros of what `buf` has of them, from an offset of the database on.
    pub fn blank(&self, offset: u64, buf: &mut [u8]) {
        let end = offset + buf.len() as u64;
        let (first, last) = (offset / self.page_size, end.div_ceil(self.page_size));
        for index in first..last {
            if PageNumber::from_index(index).is_some_and(|page| self.list.contains(page)) {
                let start = (index * self.page_size).max(offset) - offset;
                let stop = ((index + 1) * self.page_size).min(end) - offset;
                if let Some(part) = buf.get_mut(start as usize..stop as usize) {
                    part.fill(0);
                }
            }
        }
    }
}
