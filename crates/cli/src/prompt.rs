//! A line that the user types, and the terminal does not show.
//!
//! The terminal is as it was before also when Ctrl-C ends the process meanwhile: `job::watch` calls [`restore`].

#[cfg(unix)]
pub use unix::{is_possible, line, restore};

#[cfg(unix)]
mod unix {
    use std::io::{self, IsTerminal as _, Write as _};
    use std::sync::{Mutex, PoisonError};

    use anyhow::{Context, Result, ensure};
    use rustix::io::Errno;
    use rustix::termios::{
        LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
    };
    use zeroize::Zeroizing;

    /// Some systems hand on no more of a line.
    const TYPED_MAX: usize = 1023;
    /// The value of a special key that there is not (`_POSIX_VDISABLE`).
    const DISABLED: u8 = if cfg!(any(target_os = "linux", target_os = "android")) {
        0
    } else {
        0xff
    };

    /// The terminal as it was before a prompt.
    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    /// Whether there is someone to ask.
    pub fn is_possible() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks for a line of at most so many bytes, and reads it without its end. What is typed beyond is not read.
    ///
    /// # Errors
    /// The system's.
    pub fn line(question: &str, len_max: usize) -> Result<Zeroizing<Vec<u8>>> {
        const CANNOT: &str = "cannot ask for a key";
        // Not by the library's own handle, which keeps what it has read.
        let input = io::stdin();
        let before = tcgetattr(&input).context(CANNOT)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // A process that is stopped or ended by these leaves the terminal as it is.
        for key in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
            hidden.special_codes[key] = DISABLED;
        }
        let restored = Restored;
        {
            // Held until the terminal is told, so that a signal finds it told or left alone.
            let mut told = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
            *told = Some(before);
            // What was typed before the question is dropped: the terminal has shown it.
            tcsetattr(&input, OptionalActions::Flush, &hidden).context(CANNOT)?;
        }
        let _ = write!(io::stderr(), "{question}");
        let mut line = Zeroizing::new(vec![0; len_max]);
        let mut len = 0;
        while let Some(rest) = line.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match rustix::io::read(&input, rest) {
                Ok(0) => break,
                Ok(n) => len += n,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context(CANNOT),
            }
            if line.get(len - 1) == Some(&b'\n') {
                len -= 1;
                break;
            }
        }
        ensure!(
            len < TYPED_MAX,
            "a terminal may cut off what is longer than {TYPED_MAX} bytes: use --key-file"
        );
        line.truncate(len);
        drop(restored);
        let _ = writeln!(io::stderr());
        Ok(line)
    }

    struct Restored;

    impl Drop for Restored {
        fn drop(&mut self) {
            restore();
        }
    }

    /// Has the terminal show what is typed again.
    pub fn restore() {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
    }
}

#[cfg(not(unix))]
pub use others::{is_possible, line, restore};

/// The terminal cannot be told to hide a line here, so there is no prompt.
#[cfg(not(unix))]
mod others {
    use anyhow::{Result, bail};
    use zeroize::Zeroizing;

    pub fn is_possible() -> bool {
        false
    }

    pub fn line(_: &str, _: usize) -> Result<Zeroizing<Vec<u8>>> {
        bail!("a key cannot be asked for on this system");
    }

    pub fn restore() {}
}
