//! Reading units that are stored by reference: slices of items, and differences.
//!
//! Items stay in the cache as pages do, so that a scan over units with the same bases decodes each base once.

use std::sync::Arc;

use litepack_codec::{DecodeError, DictId};
use litepack_io::memory::OutOfMemory;
use litepack_io::storage::ReadAt;

use crate::error::{Damage, Error, Result, SOME_PAGE};
use crate::format::basis::{BASES_MAX, Basis, Item, ItemNumber};
use crate::format::leaf::{Entry, Extent};
use crate::format::unit::Unit;
use crate::medium::source::{Base, Source};
use crate::medium::verified::NodeSource;
use crate::snapshot::handle::Snapshot;
use crate::snapshot::image::Image;
use crate::snapshot::pages::PageReader;

/// The unit that an item is of: any but the first, which is in none.
const ANY: Unit = Unit(1);

impl<R: ReadAt> Snapshot<R> {
    /// Appends the decoded units of an item. False if there is no such item.
    pub(crate) fn read_item(&mut self, number: ItemNumber, out: &mut Vec<u8>) -> Result<bool> {
        let (pages, image) = self.reader();
        let item = image.items.get(number, &pages.medium)?;
        let Some(item) = item.filter(|item| item.decoded_len(image.unit_size).is_some()) else {
            return Ok(false);
        };
        pages.append_units(image, &Source::of(&item, 0), out)?;
        Ok(true)
    }

    /// Reads, verifies and decodes an item from the file, even if it is in memory.
    pub(crate) fn decode_item(
        &mut self,
        name: &str,
        item: &Item,
        room: &mut Vec<u8>,
    ) -> Result<()> {
        let (pages, image) = self.reader();
        let too_long = || Error::damaged(name, item.extent.offset, "is too long");
        let len = item.decoded_len(image.unit_size).ok_or_else(too_long)?;
        litepack_io::memory::resize(room, len as usize)?;
        let decoded = pages.decode(image, &item.extent, room);
        decoded.map_err(|error| match error {
            Error::Damaged(damage) => Error::damaged(name, damage.offset, damage.why),
            error => error,
        })
    }
}

impl Image {
    /// The number in the catalog of what a unit is stored with.
    pub(crate) fn dictionary_of(&self, entry: &Entry, nodes: &impl NodeSource) -> Result<DictId> {
        let Basis::Slice(number, _) = entry.basis else {
            return Ok(entry.storage.dict);
        };
        let item = self.items.get(number, nodes)?;
        Ok(item.map_or(0, |item| item.extent.storage.dict))
    }

    /// The extents that a unit is decoded from, which does not stand alone.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the unit, and the item that is missing or has no such slice.
    pub(crate) fn source(
        &self,
        unit: Unit,
        entry: &Entry,
        nodes: &impl NodeSource,
    ) -> Result<Source> {
        let damaged = |why: String| {
            Error::Damaged(Damage {
                what: self.name_of(unit),
                offset: entry.offset,
                why,
            })
        };
        let item = |number: ItemNumber| -> Result<Item> {
            let found = self.items.get(number, nodes).map_err(|error| match error {
                Error::Damaged(damage) => damaged(format!("item {}: {damage}", number.0)),
                error => error,
            })?;
            let missing = || damaged(format!("item {}, which it needs, is missing", number.0));
            let item = found.ok_or_else(missing)?;
            match item.decoded_len(self.unit_size) {
                Some(_) => Ok(item),
                None => Err(damaged(format!("item {} is too long", number.0))),
            }
        };
        match entry.basis {
            Basis::Slice(number, slice) => {
                let item = item(number)?;
                if slice >= item.units {
                    return Err(damaged(format!("item {} has no slice {slice}", number.0)));
                }
                Ok(Source::of(&item, slice))
            }
            Basis::Items(named) => {
                let mut bases = [None; BASES_MAX];
                for (base, number) in bases.iter_mut().zip(named.as_slice()) {
                    let Item { extent, units, .. } = item(*number)?;
                    *base = Some(Base {
                        item: Some(*number),
                        extent,
                        units,
                    });
                }
                Ok(Source {
                    extent: entry.extent(),
                    units: 1,
                    slice: 0,
                    bases,
                })
            }
            Basis::Former(former) => Ok(Source {
                extent: entry.extent(),
                units: 1,
                slice: 0,
                bases: [
                    Some(Base {
                        item: None,
                        extent: former,
                        units: 1,
                    }),
                    None,
                    None,
                ],
            }),
            Basis::Alone | Basis::Shared { .. } => Err(damaged("is no unit".into())),
        }
    }
}

impl<R: ReadAt> PageReader<R> {
    /// Reads, verifies and decodes a unit into `page`. The pages it is decoded from may be in the cache, and are kept
    /// there.
    pub(super) fn load_source(
        &mut self,
        image: &Image,
        unit: Unit,
        source: &Source,
        page: &mut [u8],
    ) -> Result<()> {
        let name = || image.name_of(unit);
        let mut room = std::mem::take(&mut self.bases);
        room.clear();
        let loaded = if source.bases().next().is_none() {
            self.append_units(image, source, &mut room)
                .and_then(|()| {
                    let start = usize::from(source.slice) * page.len();
                    match room.get(start..start + page.len()) {
                        Some(part) => page.copy_from_slice(part),
                        None => {
                            return Err(Error::damaged(name(), source.extent.offset, "too short"));
                        }
                    }
                    Ok(())
                })
                .map_err(|error| of_page(error, name(), "the item that it is a part of"))
        } else {
            self.append_bases(image, unit, source, &mut room)
                .and_then(|()| self.decode_difference(&source.extent, &room, page, name()))
        };
        self.bases = room;
        loaded
    }

    /// Appends all bases of a source, decoded.
    fn append_bases(
        &mut self,
        image: &Image,
        unit: Unit,
        source: &Source,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for base in source.bases() {
            let appended = self.append_units(image, &base.source(0), out);
            appended.map_err(|error| of_page(error, image.name_of(unit), &base.name()))?;
        }
        Ok(())
    }

    /// Appends a former unit, decoded. The cache may have what is damaged in the file: then it is an error, too.
    pub(crate) fn append_former(
        &mut self,
        image: &Image,
        former: &Extent,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let base = Base {
            item: None,
            extent: *former,
            units: 1,
        };
        let source = base.source(0);
        if self.medium.cache.has_page(&source, image.unit_size) {
            self.medium.stored_unit(former, &mut Vec::new())?;
        }
        self.append_units(image, &source, out)
    }

    /// Appends all units that an extent decodes to by itself.
    pub(crate) fn append_units(
        &mut self,
        image: &Image,
        source: &Source,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let unit_size = image.unit_size as usize;
        let start = out.len();
        litepack_io::memory::resize(out, start + usize::from(source.units) * unit_size)?;
        let room = out.get_mut(start..).unwrap_or_default();
        let cache = &self.medium.cache;
        let mut slices = (0..source.units).zip(room.chunks_mut(unit_size));
        if slices.all(|(slice, page)| cache.read_page(&source.at(slice), page, true)) {
            return Ok(());
        }
        self.decode(image, &source.extent, room)?;
        for (slice, page) in (0..source.units).zip(room.chunks(unit_size)) {
            let (cache, spare) = (&self.medium.cache, &mut self.tools.spare);
            cache.put_page(ANY, &source.at(slice), page, spare);
        }
        Ok(())
    }

    /// Fills `out` with what an extent decodes to by itself.
    pub(super) fn decode(&mut self, image: &Image, extent: &Extent, out: &mut [u8]) -> Result<()> {
        let stored = self.coalesced.unit(&self.medium, extent)?;
        let dictionary = self.medium.dictionary_for(&image.catalog, extent.storage)?;
        let dictionary = dictionary.as_deref().map(Arc::as_ref);
        let codec = extent.storage.codec;
        let decoded = self.tools.decoder.decode(codec, stored, dictionary, out);
        decoded.map_err(|error| undecoded(error, extent))
    }

    fn decode_difference(
        &mut self,
        extent: &Extent,
        prefix: &[u8],
        page: &mut [u8],
        name: String,
    ) -> Result<()> {
        let named = |error| match error {
            Error::Damaged(damage) => Error::Damaged(Damage {
                what: name.clone(),
                ..damage
            }),
            error => error,
        };
        let stored = self.coalesced.unit(&self.medium, extent).map_err(named)?;
        let decoder = &mut self.tools.decoder;
        let decoded = decoder.decode_difference(stored, prefix, page);
        decoded.map_err(|error| named(undecoded(error, extent)))
    }
}

fn undecoded(error: DecodeError, extent: &Extent) -> Error {
    match error {
        DecodeError::OutOfMemory => OutOfMemory.into(),
        error => Error::damaged(SOME_PAGE, extent.offset, error.to_string()),
    }
}

/// Damage of something that a page needs: it names both. And what that needs in turn, such as a dictionary.
fn of_page(error: Error, page: String, needed: &str) -> Error {
    match error {
        Error::Damaged(damage) => {
            let why = if damage.what == SOME_PAGE {
                damage.why
            } else {
                format!("{}: {}", damage.what, damage.why)
            };
            Error::Damaged(Damage {
                what: page,
                offset: damage.offset,
                why: format!("{needed}: {why}"),
            })
        }
        error => error,
    }
}
