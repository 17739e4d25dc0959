//! SQLite's list of free pages (<https://sqlite.org/fileformat2.html#the_freelist>), read without the b-trees.

use crate::header::{HEADER_LEN, Header};
use crate::page_number::PageNumber;

/// When a list has so many pages, and each time it has twice as many, it is looked through for one that it names twice.
const LOOK_FIRST: usize = 4096;

/// The leaves of a sound list: free pages whose content means nothing to SQLite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeList {
    /// In order.
    leaves: Vec<PageNumber>,
}

impl FreeList {
    /// Reads the list of a database with this header. `None` unless it is sound: it names only pages that can be free,
    /// each once, and as many as the header counts. `read` fills a buffer with a page, and returns false if it cannot
    /// be read; it is called for the trunk pages, about one free page in a thousand.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read<E>(
        header: &Header,
        mut read: impl FnMut(PageNumber, &mut [u8]) -> Result<bool, E>,
    ) -> Result<Option<FreeList>, E> {
        // The first page is never free.
        if header.free_pages >= header.pages {
            return Ok(None);
        }
        let mut page = vec![0; header.page_size as usize];
        let (mut leaves, mut trunks) = (Vec::new(), Vec::new());
        let mut look_at = LOOK_FIRST;
        let mut left = header.free_pages;
        let mut next = header.first_free;
        while let Some(trunk) = next {
            // Each trunk uses up a part of the count, so a list that leads back to itself ends.
            let Some(others) = left.checked_sub(1) else {
                return Ok(None);
            };
            if !header.can_be_free(trunk) || !read(trunk, &mut page)? {
                return Ok(None);
            }
            trunks.push(trunk);
            let parsed = Trunk::parse(page.get(..header.usable()).unwrap_or_default());
            let count = parsed.leaves.len();
            let rest = u32::try_from(count)
                .ok()
                .and_then(|n| others.checked_sub(n));
            let (Some(rest), false) = (rest, parsed.overfull) else {
                return Ok(None);
            };
            left = rest;
            for leaf in parsed.leaves {
                match leaf.filter(|leaf| header.can_be_free(*leaf)) {
                    Some(leaf) => leaves.push(leaf),
                    None => return Ok(None),
                }
            }
            next = parsed.next;
            // A file may count more pages than it stores. So a list that leads back to itself is not followed until the
            // count is used up.
            if leaves.len() + trunks.len() >= look_at {
                if has_twice(&mut leaves) || has_twice(&mut trunks) {
                    return Ok(None);
                }
                look_at = look_at.saturating_mul(2);
            }
        }
        let mut all: Vec<PageNumber> = leaves.iter().chain(&trunks).copied().collect();
        if left != 0 || has_twice(&mut all) {
            return Ok(None);
        }
        leaves.sort_unstable();
        Ok(Some(FreeList { leaves }))
    }

    /// Reads the list of a database of `len` bytes by its header, as [`FreeList::read`] does: the header, and the list.
    /// `None` also if there is no header.
    ///
    /// # Errors
    /// Those of `read`, which fills a buffer from an offset.
    pub fn of_database<E>(
        len: u64,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<bool, E>,
    ) -> Result<Option<(Header, FreeList)>, E> {
        let mut head = [0; HEADER_LEN];
        if !read(0, &mut head)? {
            return Ok(None);
        }
        let Some(header) = Header::parse(&head, len) else {
            return Ok(None);
        };
        let list = FreeList::read(&header, |page, buf| read(page.start(header.page_size), buf))?;
        Ok(list.map(|list| (header, list)))
    }

    /// The leaves, in order.
    pub fn leaves(&self) -> &[PageNumber] {
        &self.leaves
    }

    /// Whether a page is one of the leaves.
    pub fn contains(&self, page: PageNumber) -> bool {
        self.leaves.binary_search(&page).is_ok()
    }
}

/// Whether a page is there twice; puts them in order.
fn has_twice(pages: &mut [PageNumber]) -> bool {
    pages.sort_unstable();
    pages.array_windows().any(|[one, other]| one == other)
}

/// A trunk page of the list.
pub(crate) struct Trunk<L> {
    /// The trunk that comes next.
    pub next: Option<PageNumber>,
    /// The free pages that it names; `None` for what is no number of a page.
    pub leaves: L,
    /// It counts more leaves than there is room for.
    pub overfull: bool,
}

impl Trunk<()> {
    /// Reads the part of a trunk page that SQLite uses.
    pub(crate) fn parse(usable: &[u8]) -> Trunk<impl ExactSizeIterator<Item = Option<PageNumber>>> {
        let (words, _) = usable.as_chunks();
        let mut words = words.iter().map(|word| u32::from_be_bytes(*word));
        let next = words.next().and_then(PageNumber::new);
        let count = words.next().unwrap_or(0) as usize;
        Trunk {
            next,
            overfull: count > words.len(),
            leaves: words.take(count).map(PageNumber::new),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const PAGE: usize = 512;

    /// A database of ten pages whose list has these trunks: the page, the next, and what it says it names.
    fn database(count: u32, first: u32, trunks: &[(usize, u32, &[u32])]) -> Vec<u8> {
        let mut bytes = vec![0; 10 * PAGE];
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16] = 2;
        bytes[32..36].copy_from_slice(&first.to_be_bytes());
        bytes[36..40].copy_from_slice(&count.to_be_bytes());
        for (page, next, leaves) in trunks {
            let words = [*next, leaves.len() as u32];
            let words = words.iter().chain(*leaves);
            for (at, word) in words.enumerate() {
                let at = (page - 1) * PAGE + at * 4;
                bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            }
        }
        bytes
    }

    fn leaves(bytes: &[u8]) -> Option<Vec<u32>> {
        let read = |offset: u64, buf: &mut [u8]| {
            buf.copy_from_slice(&bytes[offset as usize..][..buf.len()]);
            Ok::<_, Infallible>(true)
        };
        let Ok(list) = FreeList::of_database(bytes.len() as u64, read);
        list.map(|(_, list)| list.leaves().iter().map(|page| page.get()).collect())
    }

    #[test]
    fn a_sound_list_has_its_leaves() {
        assert_eq!(leaves(&database(0, 0, &[])), Some(vec![]));
        let two = database(5, 3, &[(3, 7, &[9, 4]), (7, 0, &[2])]);
        assert_eq!(leaves(&two), Some(vec![2, 4, 9]));
    }

    #[test]
    fn a_list_that_leads_back_to_itself_is_not_followed_as_far_as_it_counts() {
        // A packed file that takes next to nothing can have as many pages.
        const LEN: u64 = (PAGE as u64) << 31;
        const COUNT: u32 = (1 << 31) - 1;
        let circles = [
            database(u32::MAX, 3, &[(3, 3, &[])]),
            database(COUNT, 3, &[(3, 3, &[])]),
            database(COUNT, 3, &[(3, 7, &[9]), (7, 3, &[2])]),
        ];
        for bytes in circles {
            let mut reads = 0;
            let read = |offset: u64, buf: &mut [u8]| {
                reads += 1;
                buf.copy_from_slice(&bytes[offset as usize..][..buf.len()]);
                Ok::<_, Infallible>(true)
            };
            assert_eq!(FreeList::of_database(LEN, read), Ok(None));
            assert!(reads <= 2 * LOOK_FIRST, "{reads}");
        }
    }

    #[test]
    fn a_list_with_any_doubt_has_none() {
        let doubtful: [(&str, Vec<u8>); 9] = [
            ("a page twice", database(4, 3, &[(3, 0, &[9, 9, 4])])),
            ("its own trunk", database(3, 3, &[(3, 0, &[3, 4])])),
            ("in a circle", database(4, 3, &[(3, 7, &[9]), (7, 3, &[2])])),
            ("fewer than counted", database(4, 3, &[(3, 0, &[9, 4])])),
            ("more than counted", database(2, 3, &[(3, 0, &[9, 4])])),
            ("behind the end", database(3, 3, &[(3, 0, &[9, 11])])),
            ("page 0", database(3, 3, &[(3, 0, &[9, 0])])),
            ("the first page", database(3, 3, &[(3, 0, &[9, 1])])),
            ("counted, and not there", database(1, 0, &[])),
        ];
        for (why, bytes) in doubtful {
            assert_eq!(leaves(&bytes), None, "{why}");
        }
    }
}
