//! Says that a database is malformed before it is stored in another form: what is packed is right by its checksums for
//! ever after, and the fault would not be looked for there.

use litepack_btree::{HEADER_LEN, Header, PageOwnership};

/// Looks at the pages of a database of `size` bytes that `read` gives, false where they cannot be read. The words are
/// for standard error.
///
/// # Errors
/// Those of `read`.
pub fn warning<E>(
    name: &str,
    size: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<bool, E>,
) -> Result<Option<String>, E> {
    let mut head = [0; HEADER_LEN];
    if size == 0 || !read(0, &mut head)? {
        return Ok(None);
    }
    let what = match Header::parse(&head, size) {
        None => "its header makes no sense".to_string(),
        Some(header) => {
            let owners =
                PageOwnership::find(&header, |page, buf| read(page.start(header.page_size), buf))?;
            let Some(first) = owners.damage().first() else {
                return Ok(None);
            };
            let tree = first
                .tree
                .and_then(|tree| owners.trees().get(tree as usize));
            let whose = tree.map_or("the list of free pages", |tree| &tree.name);
            let (page, why, all) = (first.page, first.why, owners.damaged());
            format!("page {page} ({whose}) {why}; {all} such places in all")
        }
    };
    Ok(Some(format!(
        "the database in {name} is malformed and is stored as it is: {what}. PRAGMA integrity_check says more"
    )))
}
