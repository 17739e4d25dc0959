//! The part of a log's head that tests look at, by docs/format.md.

/// Whether the newest generation of a log stands on a commit: its slot has another version then.
pub fn stands(log: &[u8]) -> bool {
    let number = |at: usize, len: usize| {
        let bytes = log.get(at..at + len).unwrap_or_default().iter().rev();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let newest = [0, 512].into_iter().max_by_key(|slot| number(slot + 16, 8));
    newest.is_some_and(|slot| matches!(number(slot + 8, 4), 3 | 4))
}
