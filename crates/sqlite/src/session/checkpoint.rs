//! How far a checkpoint through this handle is, by SQLite's calls.

/// A checkpoint, of which SQLite tells its start, its end, and that it lets go of its lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// None is running.
    #[default]
    None,
    /// It writes.
    Running,
    /// It may not write, and why.
    Refused(String),
    /// All that it wrote is committed. A change of the size that comes next belongs to it, and with `synchronous=OFF` no
    /// `xSync` follows that would publish it.
    Committed,
    /// Its pages could not be committed. SQLite ignores the code there, so it is told at the next call that it heeds.
    Failed,
}

impl Checkpoint {
    /// Any other call than a change of the size has come: that no longer belongs to it.
    pub(crate) fn goes_on(&mut self) {
        if *self == Checkpoint::Committed {
            *self = Checkpoint::None;
        }
    }

    /// The commit at its end has succeeded, or has not. One that was refused stays so.
    pub(crate) fn done(&mut self, is_committed: bool) {
        if !matches!(self, Checkpoint::Refused(_)) {
            *self = match is_committed {
                true => Checkpoint::Committed,
                false => Checkpoint::Failed,
            };
        }
    }

    /// An error if it has failed, once.
    pub(crate) fn heed(&mut self) -> litepack_store::Result<()> {
        if *self == Checkpoint::Failed {
            *self = Checkpoint::None;
            let text = "the checkpoint could not be committed";
            return Err(std::io::Error::other(text).into());
        }
        Ok(())
    }

    /// An error if it may not write.
    pub(crate) fn expect_write(&self) -> litepack_store::Result<()> {
        match self {
            Checkpoint::Refused(damaged) => Err(std::io::Error::other(damaged.clone()).into()),
            _ => Ok(()),
        }
    }

    /// Whether the change of the size that has just come belongs to it. None does after that.
    pub(crate) fn takes_size(&mut self) -> bool {
        let is_its = *self == Checkpoint::Committed;
        self.goes_on();
        is_its
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_size_right_after_it_belongs_to_a_checkpoint() {
        let mut checkpoint = Checkpoint::Running;
        assert!(!checkpoint.takes_size());
        checkpoint.done(true);
        assert!(checkpoint.takes_size());
        assert!(!checkpoint.takes_size());
        checkpoint.done(true);
        checkpoint.goes_on();
        assert!(!checkpoint.takes_size());
    }

    #[test]
    fn a_failure_is_told_once_and_a_refusal_stays() {
        let mut failed = Checkpoint::Running;
        failed.done(false);
        failed.goes_on();
        failed.expect_write().unwrap();
        failed.heed().unwrap_err();
        failed.heed().unwrap();
        let mut refused = Checkpoint::Refused("damaged".into());
        refused.done(true);
        refused.goes_on();
        refused.expect_write().unwrap_err();
        assert!(!refused.takes_size());
    }
}
