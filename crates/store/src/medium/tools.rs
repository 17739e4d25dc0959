//! The tools of a thread to encode and decode.

use litepack_codec::{BriefDifferenceEncoder, Decoder, Encoder, Level};
use litepack_io::cache::Spare;
use litepack_io::workers::WorkerPool;

/// The workers of a handle.
pub(crate) type Workers = WorkerPool<Tools>;

/// The tools of one thread, kept from one job to the next.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) decoder: Decoder,
    pub(crate) spare: Spare,
    pub(crate) differences: BriefDifferenceEncoder,
    /// For pages as they are, and by column.
    encoders: [Option<Encoder>; 2],
}

/// Level 1 makes differences a sixth longer, for a fifth of the time less. Level 4 takes twice the time.
const DIFFERENCE_LEVEL: Level = 3;

impl Default for Tools {
    fn default() -> Tools {
        Tools {
            decoder: Decoder::default(),
            spare: Spare::default(),
            differences: BriefDifferenceEncoder::at_level(DIFFERENCE_LEVEL),
            encoders: [None, None],
        }
    }
}

impl Tools {
    /// An encoder at this level, for pages by column or not.
    pub(crate) fn encoder(&mut self, level: Level, columnar: bool) -> &mut Encoder {
        let [as_is, by_column] = &mut self.encoders;
        let encoder = if columnar { by_column } else { as_is };
        *encoder = encoder.take().filter(|encoder| encoder.level() == level);
        encoder.get_or_insert_with(|| Encoder::with_columnar(level, columnar))
    }
}
