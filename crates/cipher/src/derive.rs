//! Keys from keys (HKDF), and from passphrases (Argon2id).

use std::sync::PoisonError;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use litepack_reclaimable::Locked;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, Result};
use crate::key::{Costs, Key, Stretched};

/// The length of a derived key.
pub(crate) const KEY_LEN: usize = 32;

/// 32 bytes that are wiped.
pub(crate) type Bytes = Zeroizing<[u8; KEY_LEN]>;

struct Len;

impl KeyType for Len {
    fn len(&self) -> usize {
        KEY_LEN
    }
}

/// HKDF-Extract with SHA-256.
pub(crate) fn extract(salt: &[u8], secret: &[u8]) -> Prk {
    Salt::new(HKDF_SHA256, salt).extract(secret)
}

/// HKDF-Expand with SHA-256: a key for what the parts of `info`, one after another, say.
pub(crate) fn expand(prk: &Prk, info: &[&[u8]]) -> Result<Bytes> {
    let mut out = Bytes::default();
    let filled = prk.expand(info, Len).and_then(|okm| okm.fill(&mut *out));
    // Only longer keys than HKDF can make fail.
    filled.map_err(|_| Error::System("a key cannot be derived".into()))?;
    Ok(out)
}

/// The key that wraps a data key: the raw key itself, or what Argon2id (version 0x13) makes of the passphrase.
pub(crate) fn stretch(key: &Key, salt: &[u8], costs: Option<Costs>) -> Result<Bytes> {
    let mut out = Bytes::default();
    match costs {
        None if key.is_raw => out.copy_from_slice(&key.bytes),
        Some(costs) if !key.is_raw => passphrase(key, salt, costs, &mut out)?,
        // A passphrase for a file with a raw key, or the other way round.
        _ => return Err(Error::WrongKey),
    }
    Ok(out)
}

/// Stretches a passphrase, or gives what that was the last time. Others that stretch it wait.
fn passphrase(key: &Key, salt: &[u8], costs: Costs, out: &mut Bytes) -> Result<()> {
    let mut known = key.stretched.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.as_ref()
        && known.salt == *salt
        && known.costs == costs
    {
        **out = *known.key;
        return Ok(());
    }
    argon2id(&key.bytes, salt, costs, &mut **out)?;
    if let Ok(salt) = salt.try_into()
        && let Some(key) = Locked::new(**out)
    {
        *known = Some(Stretched { salt, costs, key });
    }
    Ok(())
}

fn argon2id(passphrase: &[u8], salt: &[u8], costs: Costs, out: &mut [u8]) -> Result<()> {
    let Costs {
        memory,
        passes,
        lanes,
    } = costs;
    let refused = |error: argon2::Error| Error::Unsupported(format!("Argon2: {error}"));
    let params = Params::new(memory, passes, lanes, Some(out.len())).map_err(refused)?;
    let mut blocks: Vec<Block> = litepack_io::memory::with_room(params.block_count())?;
    blocks.resize(params.block_count(), Block::default());
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let made = argon2.hash_password_into_with_memory(passphrase, salt, out, &mut blocks);
    blocks.iter_mut().for_each(Zeroize::zeroize);
    made.map_err(refused)
}
