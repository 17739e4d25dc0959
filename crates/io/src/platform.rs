//! What not every platform has, asked for in one place. In a browser (`wasm32-unknown-unknown`) there are no processes,
//! threads, clocks and files, and the standard library panics where it is asked for one of the first three.

use std::time::{Duration, SystemTime};

/// Whether this is such a platform.
pub const IS_BARE: bool = cfg!(all(target_family = "wasm", target_os = "unknown"));

/// The number of this process; 0 where there are none, and then it is always the same one.
pub fn process_id() -> u32 {
    if IS_BARE { 0 } else { std::process::id() }
}

/// The time of day, if there is a clock.
pub fn now() -> Option<SystemTime> {
    (!IS_BARE).then(SystemTime::now)
}

/// Lets others go on for a while. Where there is no clock there are no others either, and it returns at once.
pub fn sleep(time: Duration) {
    if !IS_BARE {
        std::thread::sleep(time);
    }
}
