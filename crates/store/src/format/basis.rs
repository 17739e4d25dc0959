//! References: a unit may stand on more than its own extent, or on others instead of one.
//!
//! A unit can be a slice of an *item*, an extent that several units name, or the difference to one or more items, or to
//! a former extent of its own. An item names no item: there are no chains and no rings, because the format has no place
//! for them. Each extent has one owner, an entry of the page map or an item, so that nothing has to be searched for when
//! it moves or goes.

use litepack_cipher::Nonce;

use crate::format::layout::UNIT_MAX;
use crate::format::leaf::{Entry, Extent};

/// Number of an item in the item tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ItemNumber(pub u32);

/// Most items that one difference names.
pub const BASES_MAX: usize = 3;

/// How many units an item may have.
pub const ITEM_UNITS: [u8; 3] = [1, 2, 4];

/// The form of what an entry stands on. `N` is as in [`Extent`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis<N = Nonce> {
    /// Nothing but its extent.
    #[default]
    Alone,
    /// An alias: there is no extent, the unit is this slice of an item.
    Slice(ItemNumber, u8),
    /// A difference: the decoded units of these items are the prefix of the extent.
    Items(Bases),
    /// A private difference: the prefix is the unit that this extent decodes to, which no other unit names.
    Former(Extent<N>),
    /// Of an item, in the item tree: how many units it has, and how many entries of the page map name it.
    Shared { units: u8, users: u32 },
}

/// The items that a difference names: one to [`BASES_MAX`], in order, none twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bases {
    count: u8,
    numbers: [ItemNumber; BASES_MAX],
}

impl Bases {
    /// `None` if there are none or too many, or one is named twice.
    pub fn new(items: &[ItemNumber]) -> Option<Bases> {
        let mut numbers = [ItemNumber(0); BASES_MAX];
        numbers.get_mut(..items.len())?.copy_from_slice(items);
        let mut pairs = items.iter().enumerate();
        let is_twice = pairs.any(|(at, item)| items.iter().skip(at + 1).any(|other| other == item));
        let count = u8::try_from(items.len()).ok()?;
        (count > 0 && !is_twice).then_some(Bases { count, numbers })
    }

    /// The items.
    pub fn as_slice(&self) -> &[ItemNumber] {
        self.numbers
            .get(..self.count.into())
            .unwrap_or(&self.numbers)
    }
}

impl<N> Basis<N> {
    /// The same; a former extent has another nonce.
    pub(crate) fn with<M>(self, nonce: M) -> Basis<M> {
        match self {
            Basis::Alone => Basis::Alone,
            Basis::Slice(item, slice) => Basis::Slice(item, slice),
            Basis::Items(bases) => Basis::Items(bases),
            Basis::Former(former) => Basis::Former(former.with(nonce)),
            Basis::Shared { units, users } => Basis::Shared { units, users },
        }
    }
}

impl Basis {
    /// Items that are named.
    pub(crate) fn items(&self) -> &[ItemNumber] {
        match self {
            Basis::Slice(item, _) => std::slice::from_ref(item),
            Basis::Items(bases) => bases.as_slice(),
            Basis::Alone | Basis::Former(_) | Basis::Shared { .. } => &[],
        }
    }
}

/// An item: an extent that decodes to one unit or several, and how many entries name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) extent: Extent,
    pub(crate) units: u8,
    pub(crate) users: u32,
}

impl Item {
    /// Bytes of all its units, decoded; `None` if units of this size are too long for so many.
    pub(crate) fn decoded_len(&self, unit_size: u32) -> Option<u32> {
        let len = u32::from(self.units) * unit_size;
        (len <= UNIT_MAX).then_some(len)
    }

    /// As the item tree's leaves have it.
    pub(crate) fn entry(&self) -> Entry {
        Entry {
            basis: Basis::Shared {
                units: self.units,
                users: self.users,
            },
            ..self.extent.entry()
        }
    }

    /// `None` if nothing is stored, or what is stored is not an item.
    pub(crate) fn of(entry: &Entry) -> Option<Item> {
        match entry.basis {
            Basis::Shared { units, users } if entry.len > 0 => Some(Item {
                extent: entry.extent(),
                units,
                users,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_are_few_and_differ() {
        let bases = |numbers: &[u32]| {
            let items: Vec<_> = numbers.iter().copied().map(ItemNumber).collect();
            Bases::new(&items).map(|bases| bases.as_slice().to_vec() == items)
        };
        assert_eq!(bases(&[]), None);
        assert_eq!(bases(&[0]), Some(true));
        assert_eq!(bases(&[9, 0, u32::MAX]), Some(true));
        for wrong in [&[1, 1][..], &[1, 2, 1], &[2, 1, 1], &[1, 2, 3, 4]] {
            assert_eq!(bases(wrong), None, "{wrong:?}");
        }
    }
}
