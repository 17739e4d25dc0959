//! The tree that finds the newest records of a frame: leaves of 512 frames, inner nodes of 512 leaves, and a root.
//! Nodes that changed are written anew, at the tail; nodes name only what lies before them.

use litepack_io::bytes::{Reader, put_varint, unzigzag, zigzag};
use litepack_io::memory::{OutOfMemory, push, room, with_room};

/// Children of a node.
pub const FANOUT: u32 = 512;
/// Most inner nodes that a root names.
pub const INNER_MAX: usize = 1 << 14;

/// Where the newest version of each half of a frame is. 0 stands for nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub header: u64,
    pub page: u64,
}

impl Places {
    /// These where they are somewhere, else those of `older`.
    pub fn over(self, older: Places) -> Places {
        let newest = |new: u64, old| if new == 0 { old } else { new };
        Places {
            header: newest(self.header, older.header),
            page: newest(self.page, older.page),
        }
    }
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Frames `512 × index + 1` and so on.
    Leaf(Vec<Places>),
    /// Leaves `512 × index` and so on.
    Inner(Vec<u64>),
}

impl Node {
    /// Appends the content of its record at `place`.
    pub fn encode(&self, index: u32, place: u64, out: &mut Vec<u8>) -> Result<(), OutOfMemory> {
        room(out, 16 + FANOUT as usize * 20)?;
        let mut next = Backward { from: place };
        match self {
            Node::Leaf(frames) => {
                out.push(0);
                put_varint(out, index.into());
                put_varint(out, frames.len() as u64);
                for frame in frames {
                    next.put(frame.header, out);
                    let apart = frame.page.wrapping_sub(frame.header).cast_signed();
                    put_varint(out, zigzag(apart));
                }
            }
            Node::Inner(leaves) => {
                out.push(1);
                put_varint(out, index.into());
                put_varint(out, leaves.len() as u64);
                leaves.iter().for_each(|leaf| next.put(*leaf, out));
            }
        }
        Ok(())
    }

    /// Reads the content of a record at `place`: the node and its index. `None` if it is none.
    pub fn decode(content: &[u8], place: u64) -> Option<(u32, Node)> {
        let mut reader = Reader::new(content);
        let level = reader.u8()?;
        let index = reader.varint_u32()?;
        let count = reader
            .varint_u32()
            .filter(|count| (1..=FANOUT).contains(count))?;
        let mut next = Backward { from: place };
        let node = if level == 0 {
            let mut frames = with_room(count as usize).ok()?;
            for _ in 0..count {
                let header = next.take(&mut reader, place)?;
                let apart = unzigzag(reader.varint()?);
                let page = header.wrapping_add_signed(apart);
                frames.push((page > 0 && page < place).then_some(Places { header, page })?);
            }
            Node::Leaf(frames)
        } else if level == 1 {
            let mut leaves = with_room(count as usize).ok()?;
            for _ in 0..count {
                leaves.push(next.take(&mut reader, place)?);
            }
            Node::Inner(leaves)
        } else {
            return None;
        };
        reader.rest().is_empty().then_some((index, node))
    }
}

/// The root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Frames in the log.
    pub frames: u32,
    /// Everything before this place was synced when it was made.
    pub witness: u64,
    /// Places of the inner nodes.
    pub inner: Vec<u64>,
}

impl Root {
    /// Appends the content of its record at `place`.
    pub fn encode(&self, place: u64, out: &mut Vec<u8>) -> Result<(), OutOfMemory> {
        room(out, 32 + self.inner.len() * 10)?;
        put_varint(out, self.frames.into());
        put_varint(out, place - self.witness.min(place));
        put_varint(out, self.inner.len() as u64);
        let mut next = Backward { from: place };
        self.inner.iter().for_each(|inner| next.put(*inner, out));
        Ok(())
    }

    /// Reads the content of a record at `place`, and gives what is behind it.
    pub fn decode(content: &[u8], place: u64) -> Option<(Root, &[u8])> {
        let mut reader = Reader::new(content);
        let frames = reader.varint_u32()?;
        let witness = place.checked_sub(reader.varint()?)?;
        let count = reader.varint_u32()? as usize;
        let mut inner = Vec::new();
        let mut next = Backward { from: place };
        if count > INNER_MAX || count < frames.div_ceil(FANOUT * FANOUT) as usize {
            return None;
        }
        for _ in 0..count {
            push(&mut inner, next.take(&mut reader, place)?).ok()?;
        }
        let root = Root {
            frames,
            witness,
            inner,
        };
        Some((root, reader.rest()))
    }
}

/// A column of places, each as its distance to the one before, the first to the record itself.
struct Backward {
    from: u64,
}

impl Backward {
    fn put(&mut self, place: u64, out: &mut Vec<u8>) {
        put_varint(out, zigzag(place.wrapping_sub(self.from).cast_signed()));
        self.from = place;
    }

    /// The next place, which is below `end`.
    fn take(&mut self, reader: &mut Reader<'_>, end: u64) -> Option<u64> {
        self.from = self.from.wrapping_add_signed(unzigzag(reader.varint()?));
        (self.from > 0 && self.from < end).then_some(self.from)
    }
}
