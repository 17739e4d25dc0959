//! The effect of frame sizes and levels on a database: how small it gets, and how long one frame takes to decode.
//!
//! `cargo run --release -p litepack-archive --example frame_sizes -- FILE`

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use litepack_archive::{Archive, Cache, Options, Settings, create};

const FRAMES: u64 = 400;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let database = std::fs::read(path)?;
    println!("| frame | level | plain by stored | µs to decode one | s to make |");
    println!("|--:|--:|--:|--:|--:|");
    for frame_size in [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        for level in [3, 10, 19] {
            let settings = Settings {
                frame_size,
                level,
                ..Settings::default()
            };
            let mut archive = Vec::new();
            let begun = Instant::now();
            let made = create(
                &mut database.as_slice(),
                &mut archive,
                &settings,
                &mut |_| ControlFlow::Continue(()),
            )?;
            let seconds = begun.elapsed().as_secs_f64();
            let ratio = made.size as f64 / made.stored as f64;
            println!(
                "| {} KiB | {level} | {ratio:.2} | {:.1} | {seconds:.1} |",
                frame_size >> 10,
                decode(&archive, frame_size)?
            );
        }
    }
    Ok(())
}

/// The median of frames all over the file, in microseconds.
fn decode(archive: &[u8], frame_size: u32) -> litepack_archive::Result<f64> {
    let options = Options {
        cache: Arc::new(Cache::new(0)),
        threads: 1,
        ..Options::default()
    };
    let mut archive = Archive::open(archive, options)?;
    let frames = archive.size() / u64::from(frame_size);
    let mut times = Vec::new();
    for turn in 0..FRAMES {
        // A large odd step goes all over the file.
        let frame = turn * 7919 % frames.max(1);
        let begun = Instant::now();
        archive.read_at(frame * u64::from(frame_size), &mut [0])?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
