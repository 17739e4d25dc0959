//! Reading from the medium: verified, in few calls, ahead of scans, through caches.

pub(crate) mod cache;
pub(crate) mod coalesced;
pub(crate) mod dictionaries;
pub(crate) mod held_dictionaries;
pub(crate) mod source;
pub(crate) mod tools;
pub(crate) mod verified;
