//! Signals that ask this process to end: Ctrl-C, a request to terminate, and the end of its terminal.
//!
//! One that is ignored when the command begins stays ignored: so `nohup` keeps a command from ending with its terminal,
//! and a shell keeps Ctrl-C from jobs in the background. Which these are only Linux says; elsewhere none is left alone.

use anyhow::{Context, Result};

const UNWATCHED: &str = "cannot watch for Ctrl-C";

/// Calls `told` for each, on a thread of its own.
///
/// # Errors
/// The system's.
#[cfg(unix)]
pub fn watch(told: impl Fn() + Send + 'static) -> Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let ignored = ignored();
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let heeded = heeded.filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = signal_hook::iterator::Signals::new(heeded).context(UNWATCHED)?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || signals.forever().for_each(|_| told()))
        .context(UNWATCHED)?;
    Ok(())
}

/// A bit for each signal that this process ignores, the lowest for the first.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.unwrap_or_default()
}

/// Calls `told` for each, on a thread of its own.
///
/// # Errors
/// The system's.
#[cfg(not(unix))]
pub fn watch(told: impl Fn() + Send + 'static) -> Result<()> {
    ctrlc::set_handler(told).context(UNWATCHED)
}
