//! The size of an archive by `litepack archive create`: frames from all over the database are compressed as it does it.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Instant;

use litepack::archive::CreateOptions;
use litepack_archive::Settings;
use litepack_database::Result;
use litepack_database::bytes::pages::Pages;
use litepack_database::bytes::reader::threads;
use litepack_database::error::Context;
use litepack_io::interrupt;

use super::{Mean, Predicted};

/// Frames that are compressed at once.
const TOGETHER: u64 = 64;
/// Bytes that each frame adds to the table, and those around the table.
const ENTRY: f64 = 12.0;
const HEAD: f64 = 17.0;

/// With fewer frames than this the range is wider by this share, unless they are all.
const FEW: u64 = 8;
const UNSURE: f64 = 0.2;

/// Notes how long each frame is: it is written by one call. The last one is the table.
#[derive(Default)]
struct Frames(Vec<f64>);

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes.len() as f64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Predicts the size, from half as many bytes as are read of leaves.
pub(crate) fn predict(pages: &mut Pages<'_>, sample: u64, deadline: Instant) -> Result<Predicted> {
    let CreateOptions {
        frame_size, level, ..
    } = CreateOptions::default();
    let settings = Settings {
        frame_size,
        level,
        threads: threads(),
        key: None,
    };
    let frame = u64::from(settings.frame_size.next_multiple_of(pages.header.page_size));
    let frames = pages.size.div_ceil(frame);
    // From all over, at equal distances, so that every table has its share. In several turns, of which each is from all
    // over, as time may end all but the first.
    let wanted = (sample / 2 / frame).clamp(1, frames);
    let turns = wanted.div_ceil(TOGETHER);
    let mut seen = Mean::default();
    // The last frame may be shorter, and is compressed by itself: in a small database it is much of it.
    let full = pages.size / frame;
    let mut last = (full == frames).then_some(0.0);
    let mut buf = vec![0; frame as usize];
    for turn in 0..turns {
        if turn > 0 && Instant::now() > deadline {
            break;
        }
        let mut bytes = Vec::new();
        for at in (turn..wanted).step_by(turns as usize) {
            let start = (u128::from(at) * u128::from(frames) / u128::from(wanted)) as u64;
            if start < full && pages.read_at(start * frame, &mut buf) {
                bytes.extend_from_slice(&buf);
            }
        }
        if !bytes.is_empty() {
            let compressed = compressed(&bytes, frame, &settings)?;
            compressed.into_iter().for_each(|len| seen.add(len));
        }
        let there = pages.size.saturating_sub(full * frame) as usize;
        if turn == 0 && there > 0 && pages.read_at(full * frame, &mut buf[..there]) {
            let compressed = compressed(&buf[..there], frame, &settings)?;
            last = Some(compressed.into_iter().sum());
        }
    }
    let full = full as f64;
    let last = last.unwrap_or_else(|| seen.mean() * (pages.size as f64 / frame as f64 - full));
    let bytes = seen.mean() * full + last + ENTRY * frames as f64 + HEAD;
    // How different frames are cannot be told from a few.
    let unsure = match seen.count {
        count if count as f64 >= full => 0.0,
        0..FEW => UNSURE,
        _ => 0.0,
    };
    Ok(Predicted::new(bytes, seen.variance_of_total(full), unsure))
}

/// The length of each frame that these bytes make.
fn compressed(bytes: &[u8], frame: u64, settings: &litepack_archive::Settings) -> Result<Vec<f64>> {
    let mut frames = Frames::default();
    let settings = litepack_archive::Settings {
        frame_size: frame as u32,
        ..settings.clone()
    };
    let go_on = &mut |_| match interrupt::is_interrupted() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    litepack_archive::create(&mut &bytes[..], &mut frames, &settings, go_on)
        .context("cannot compress a sample")?;
    frames.0.pop();
    Ok(frames.0)
}
