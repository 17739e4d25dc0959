//! The maintenance that a file needs, as one handle knows it.

use litepack_codec::Level;
use litepack_engine::maintenance::{Former, Maintenance, default_level};
use litepack_io::storage::Storage;
use litepack_store::{Needed, Result, Store};

use super::packed::Packed;
use super::patience::Patience;
use crate::host::wal_index::Words;

/// Maintenance through one handle.
#[derive(Default)]
pub(crate) struct Upkeep {
    pub(super) plan: Plan,
    /// How long others have kept it from its next step.
    pub(super) patience: Patience,
}

/// The plan of the work, as far as it is known.
#[expect(clippy::large_enum_variant, reason = "a handle has one of them")]
#[derive(Default)]
pub(super) enum Plan {
    /// Nothing.
    #[default]
    None,
    /// It would not make the file shorter at this commit and level, as long as a log needs this of it. It is not looked for
    /// again until something is written, or the log needs something else.
    PaysNot(u64, Level, Needed),
    /// It was begun.
    Begun(Box<Maintenance>),
}

/// The work that there is to do now.
pub(super) enum Todo {
    Nothing,
    /// It was decided just now; that was enough for a step.
    Planned,
    /// A step, by a session that writes.
    Step,
    /// Nothing now: SQLite is writing through this handle.
    InTransaction,
}

impl Upkeep {
    /// Finds out what there is to do, at this level or the file's own. `former` holds now, and for as long as the commit
    /// is the newest.
    pub(super) fn todo<D: Storage + Words>(
        &mut self,
        packed: &mut Packed<D>,
        level: Option<Level>,
        former: Former,
    ) -> Result<Todo> {
        if packed.store.in_transaction() {
            return Ok(Todo::InTransaction);
        }
        packed.refresh()?;
        if let Plan::Begun(maintenance) = &self.plan
            && level.is_none_or(|level| level == maintenance.level())
        {
            return Ok(Todo::Step);
        }
        packed.set_erase();
        let store = &mut packed.store;
        let level = level.unwrap_or_else(|| default_level(store));
        if store.size() == 0 || store.is_maintained(level) {
            self.plan = Plan::None;
            return Ok(Todo::Nothing);
        }
        let needed = store.seems_needed()?;
        let is_known = |seq, at, then| (seq, at, then) == (store.seq(), level, needed);
        if matches!(self.plan, Plan::PaysNot(seq, at, then) if is_known(seq, at, then)) {
            return Ok(Todo::Nothing);
        }
        let plan = |store: &mut Store<D>| {
            let maintenance = Maintenance::plan(store, level, former)?;
            let pays = maintenance.pays(store)?;
            Ok((maintenance, pays))
        };
        let (maintenance, pays) = store.retry_if_stale(plan, |_| true)?;
        if pays {
            self.plan = Plan::Begun(Box::new(maintenance));
            return Ok(Todo::Planned);
        }
        self.plan = Plan::PaysNot(store.seq(), level, needed);
        Ok(Todo::Nothing)
    }
}
