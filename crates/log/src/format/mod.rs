//! The bytes of the file, as docs/format.md describes them under "The log". No I/O.
//!
//! ```text
//! head.rs     the slots of generations, and the hint
//! record.rs   what all records have in common; frames, cuts
//! changes.rs  a page as the bytes in which it differs from another
//! node.rs     the tree that finds the records of a frame: nodes and roots
//! ```

pub(crate) mod changes;
pub(crate) mod head;
pub(crate) mod node;
pub(crate) mod record;
