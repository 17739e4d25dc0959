//! The aggregates that train a dictionary.

use litepack_columns::dictionary::{ensure_tables, save};
use litepack_columns::sql::{ERROR, Result, Value};
use litepack_columns::train::Reservoir;
use litepack_columns::transaction::atomically;

use crate::sql::call::Call;

/// Limits of what one training keeps.
const SAMPLES_MAX: usize = 1 << 20;
const SAMPLE_BYTES_MAX: usize = 32 << 20;

/// The samples an aggregate has gathered.
pub(crate) struct Training {
    reservoir: Reservoir,
    size: usize,
    /// The chooser key to save it under.
    key: Option<String>,
}

impl Training {
    /// At the first row: its arguments after the first hold for all.
    pub(crate) fn begin(call: &Call<'_>) -> Result<Training> {
        let Value::Integer(size) = call.argument(1) else {
            let kind = call.argument(1).type_name();
            return Err(call.error(format_args!("the size is an integer, not {kind}")));
        };
        // Computed from averages, so often not whole.
        let samples = match call.argument(2) {
            Value::Integer(count) => count as f64,
            Value::Real(count) => count,
            other => {
                let kind = other.type_name();
                return Err(call.error(format_args!("the sample count is a number, not {kind}")));
            }
        };
        if samples < 1.0 {
            return Err(call.error(format_args!("a sample of {samples} rows is too small")));
        }
        let key = match call.argument(3) {
            Value::Null => None,
            key => Some(key.text().ok_or_else(|| {
                let kind = key.type_name();
                call.error(format_args!("the chooser key is text or NULL, not {kind}"))
            })?),
        };
        Ok(Training {
            reservoir: Reservoir::new((samples as usize).min(SAMPLES_MAX), SAMPLE_BYTES_MAX),
            size: usize::try_from(size).unwrap_or(0),
            key,
        })
    }

    /// Each row. Values that are never compressed are left out.
    pub(crate) fn add(&mut self, call: &Call<'_>) {
        if let Some(bytes) = call.argument(0).bytes() {
            self.reservoir.push(bytes);
        }
    }

    /// For tests: without a row.
    #[cfg(test)]
    pub(crate) fn of_nothing() -> Training {
        Training {
            reservoir: Reservoir::new(1, 1),
            size: 0,
            key: None,
        }
    }

    /// For tests: how many this thread has dropped.
    #[cfg(test)]
    pub(crate) fn dropped() -> usize {
        DROPPED.get()
    }

    fn dictionary(&self, call: &Call<'_>) -> Result<Vec<u8>> {
        let trained = self.reservoir.train(self.size);
        trained.map_err(|error| match error.code {
            ERROR => call.error(error.message),
            _ => error,
        })
    }
}

#[cfg(test)]
thread_local! {
    static DROPPED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
impl Drop for Training {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
    }
}

/// `zstd_train_dict(data, size, sample_count)`: a dictionary.
pub(crate) fn train(call: &Call<'_>, training: Training) -> Result<()> {
    call.answer(Value::Blob(&training.dictionary(call)?));
    Ok(())
}

/// `zstd_train_dict_and_save(data, size, sample_count, chooser_key)`: the id of a new dictionary in
/// `_zstd_dicts`.
pub(crate) fn train_and_save(call: &Call<'_>, training: Training) -> Result<()> {
    let dictionary = training.dictionary(call)?;
    let db = call.db();
    let id = atomically(&db, || {
        ensure_tables(&db)?;
        save(&db, training.key.as_deref(), &dictionary)
    })?;
    call.answer(Value::Integer(id));
    Ok(())
}
