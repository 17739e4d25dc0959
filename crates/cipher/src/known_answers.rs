//! Known answers. Those of the standards show that a primitive is what its name says; ours were computed by another
//! program, with Python's `hmac` and `cryptography`, from docs/internals/encryption.md alone.

use std::fmt::Write;

use crate::block::KeyBlock;
use crate::derive;
use crate::key::{Costs, Key};
use crate::keys::Keys;
use crate::session::{Nonce, Session};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn counting(from: u8, len: u8) -> Vec<u8> {
    (from..from + len).collect()
}

fn array<const N: usize>(from: u8) -> [u8; N] {
    std::array::from_fn(|at| from + at as u8)
}

/// RFC 5869, appendix A.1 and A.3, the first 32 bytes.
#[test]
fn hkdf() {
    let prk = derive::extract(&counting(0, 13), &[0x0b; 22]);
    let out = derive::expand(&prk, &[&counting(0xf0, 5), &counting(0xf5, 5)]).unwrap();
    let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf";
    assert_eq!(hex(&*out), expected);
    let prk = derive::extract(&[], &[0x0b; 22]);
    let out = derive::expand(&prk, &[]).unwrap();
    let expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d";
    assert_eq!(hex(&*out), expected);
}

/// What HKDF and HMAC make of a file's data key, and AES-256-GCM of what is sealed with that.
#[test]
fn keys_of_a_file() {
    let keys = Keys::new(&array(100), &array(0)).unwrap();
    assert_eq!(
        hex(&keys.sign(b"a record")),
        "66e83b697f126405dd80bb0a98fa38c6"
    );
    assert_eq!(keys.number_of(b"an extent"), 17_974_961_406_531_396_324);
    let session = Session::with_salt(&keys, array(200)).unwrap();
    let answers = [
        (
            0,
            "39c9c712023c7278ec97733c2a33efea85e1f55fa3e379cd9030d7f841e2",
        ),
        (
            1,
            "51ba349b9e97a2a2fec6f65ab0bdfa940106313168f0cf599ce2fc9f1078",
        ),
        (
            0x12_3456_789a,
            "aabafb6a3955f1940f348097e0b556db1dcd31c8444d0c66e62422e6d6cb",
        ),
    ];
    for (counter, expected) in answers {
        session.skip_to(counter);
        let mut sealed = b"what is sealed".to_vec();
        let nonce = session.seal(b"context", &mut sealed, 0).unwrap();
        let salt = array(200);
        assert_eq!(nonce, Nonce { salt, counter });
        assert_eq!(hex(&sealed), expected);
        let opened = keys.open(&nonce, b"context", &mut sealed).unwrap();
        assert_eq!(opened, b"what is sealed");
    }
}

/// A data key wrapped by a raw key, and by what Argon2id makes of a passphrase.
#[test]
fn key_blocks() {
    let answers = [
        (Key::raw(&[7; 32]), RAW),
        (Key::passphrase(b"correct horse"), PASSPHRASE),
    ];
    for (key, expected) in answers {
        let key = key.unwrap();
        let wrapped =
            KeyBlock::wrap_with(&key, Costs::default(), &array(0), &array(100), array(50));
        let block = wrapped.unwrap();
        assert_eq!(hex(&block.0), expected);
        assert_eq!(*block.open(&key, &array(0)).unwrap(), array(100));
    }
}

const RAW: &str = concat!(
    "010000000000000000000000000000000000000032333435363738393a3b3c3d3e3f40412237d462",
    "b59c6c55ea22aea8d67d728b9efab44463bc2e5266d8f45099707a112b0be29da4527e626af9b9a7",
    "272fd90eeef99dfc04d991665fd181d91b35f71ea4ff0fb6c0a4fa2e07eb5705",
);
const PASSPHRASE: &str = concat!(
    "0100000001000000004c0000020000000100000032333435363738393a3b3c3d3e3f4041214419b7",
    "fd7536cbef65edc7c9ee3b6a022df746b530ba05a6b788a0342dabc3a1f6a0988ece131643aa97ab",
    "81e4cf4de04b489ab9bab5948ebd0f0a967aa94749df22a536593a4a3820cafc",
);
