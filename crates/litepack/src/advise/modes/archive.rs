//! What `litepack archive create` would make: frames from all over the database are compressed as it does it.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Instant;

use super::{Mean, Predicted};
use crate::Result;
use crate::archive::CreateOptions;
use crate::error::Context;
use crate::files::pages::Pages;

/// Frames that are compressed at once.
const TOGETHER: u64 = 64;
/// What each frame adds to the table, and what goes with it.
const ENTRY: f64 = 12.0;
const HEAD: f64 = 17.0;

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
    let cannot = "cannot compress a sample";
    let settings = CreateOptions::default().settings()?;
    let frame = u64::from(settings.frame_size.next_multiple_of(pages.header.page_size));
    let frames = pages.size.div_ceil(frame);
    // From all over, at equal distances, so that every table has its share. In several turns, of which each is from all
    // over, as time may end all but the first.
    let wanted = (sample / 2 / frame).clamp(1, frames);
    let turns = wanted.div_ceil(TOGETHER);
    let mut seen = Mean::default();
    let mut buf = vec![0; frame as usize];
    for turn in 0..turns {
        if turn > 0 && Instant::now() > deadline {
            break;
        }
        let mut bytes = Vec::new();
        for at in (turn..wanted).step_by(turns as usize) {
            let start = (u128::from(at) * u128::from(frames) / u128::from(wanted)) as u64 * frame;
            let there = (pages.size - start).min(frame) as usize;
            if pages.read_at(start, &mut buf[..there]) {
                // The last one may be shorter; it is compressed by itself.
                if there < frame as usize && frames > 1 {
                    continue;
                }
                bytes.extend_from_slice(&buf[..there]);
            }
        }
        if bytes.is_empty() {
            continue;
        }
        let mut frames = Frames::default();
        let settings = litepack_archive::Settings {
            frame_size: frame as u32,
            ..settings.clone()
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        litepack_archive::create(&mut &bytes[..], &mut frames, &settings, go_on).context(cannot)?;
        frames.0.pop();
        frames.0.into_iter().for_each(|len| seen.add(len));
    }
    let of = pages.size as f64 / frame as f64;
    let bytes = seen.mean() * of + ENTRY * frames as f64 + HEAD;
    Ok(Predicted::new(bytes, seen.variance_of_total(of), 0.0))
}
