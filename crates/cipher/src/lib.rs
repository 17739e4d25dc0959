//! Keys and encryption. Nothing in here knows what is encrypted, or where it is stored.
//!
//! ```text
//! key.rs      a key as the user has it, and what a guess of a passphrase costs
//! block.rs    a file's data key, wrapped by such a key
//! keys.rs     what is derived from a data key: opening what was sealed, and checking what was signed
//! kept.rs     the keys of sessions, for many threads at once
//! session.rs  sealing: a key that only one writer has, and a counter that never goes back
//! padding.rs  lengths that say less of what is sealed
//! derive.rs   HKDF and Argon2id
//! ```
//! The primitives are those of `ring` (AES-256-GCM, HKDF and HMAC with SHA-256) and `argon2`. Two promises are kept
//! here, and docs/internals/encryption.md argues both:
//! - No key seals two messages with one nonce. A [`Session`] has a random salt of 128 bits from which its key is
//!   derived, and its counter is never given back, whatever becomes of the message.
//! - A wrong key is told from damage: a check value that only the right key can have made stands before the data key.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

mod block;
mod derive;
mod error;
mod kept;
mod key;
mod keys;
#[cfg(test)]
mod known_answers;
mod padding;
mod session;
#[cfg(all(test, target_os = "linux"))]
mod testing;

pub use block::{BLOCK_LEN, CipherId, KeyBlock};
pub use error::{Error, Result};
pub use key::{Costs, Key};
pub use keys::{Keys, MAC_LEN, new_data_key};
pub use padding::Padding;
pub use session::{COUNTER_LIMIT, FreshNonce, FreshNonces, Nonce, Salt, Session, TAG_LEN};
