"""What is sealed and signed: AES-256-GCM and HKDF written out, key blocks, and the keys that come of them.

Argon2id alone is a library's, `argon2-cffi` or `cryptography`, whichever is there.
"""

import hashlib
import hmac
import struct
from functools import cache

from notes import Damaged, Refused, WrongKey, check, met


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def expand(prk, info):
    return mac(prk, info + b"\x01")


# AES-256 (FIPS 197), encryption only.


def xtime(a):
    return (a << 1 ^ (0x11B if a & 0x80 else 0)) & 0xFF


def sbox():
    box, p, q = [0] * 256, 1, 1
    while True:
        p ^= xtime(p)
        for shift in (1, 2, 4):
            q ^= q << shift & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        turned = 0
        for shift in (0, 1, 2, 3, 4):
            turned ^= (q << shift | q >> (8 - shift)) & 0xFF
        box[p] = turned ^ 0x63
        if p == 1:
            break
    box[0] = 0x63
    return box


SBOX = sbox()


@cache
def round_keys(key):
    words = [list(key[i : i + 4]) for i in range(0, 32, 4)]
    factor = 1
    for i in range(8, 60):
        word = list(words[-1])
        if i % 8 == 0:
            word = [SBOX[b] for b in word[1:] + word[:1]]
            word[0] ^= factor
            factor = xtime(factor)
        elif i % 8 == 4:
            word = [SBOX[b] for b in word]
        words.append([a ^ b for a, b in zip(words[i - 8], word)])
    return [sum(words[i : i + 4], []) for i in range(0, 60, 4)]


def encrypt_block(keys, block):
    state = [a ^ b for a, b in zip(block, keys[0])]
    for number, key in enumerate(keys[1:], 1):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < 14:
            mixed = []
            for column in range(0, 16, 4):
                a = state[column : column + 4]
                all_of = a[0] ^ a[1] ^ a[2] ^ a[3]
                mixed += [a[i] ^ all_of ^ xtime(a[i] ^ a[(i + 1) % 4]) for i in range(4)]
            state = mixed
        state = [a ^ b for a, b in zip(state, key)]
    return bytes(state)


# GCM (NIST SP 800-38D) with a nonce of 12 bytes.


def times(x, y):
    product = 0
    for bit in range(127, -1, -1):
        if x >> bit & 1:
            product ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return product


def opened(key, nonce, context, sealed):
    """What was sealed; the tag is at the end."""
    check(len(sealed) >= 16, "nothing is sealed")
    keys = round_keys(key)
    text, tag = sealed[:-16], sealed[-16:]
    subkey = int.from_bytes(encrypt_block(keys, bytes(16)), "big")
    hashed = 0
    for part in (context, text, struct.pack(">QQ", 8 * len(context), 8 * len(text))):
        for i in range(0, len(part), 16):
            hashed = times(hashed ^ int.from_bytes(part[i : i + 16].ljust(16, b"\0"), "big"), subkey)
    mask = encrypt_block(keys, nonce + struct.pack(">I", 1))
    if bytes(a ^ b for a, b in zip(hashed.to_bytes(16, "big"), mask)) != tag:
        raise Damaged("a tag is wrong")
    out = bytearray()
    for i in range(0, len(text), 16):
        stream = encrypt_block(keys, nonce + struct.pack(">I", 2 + i // 16))
        out += bytes(a ^ b for a, b in zip(text[i : i + 16], stream))
    return bytes(out)


class NoArgon2(Exception):
    """No library here has Argon2id."""


@cache
def argon2id(passphrase, salt, memory, passes, lanes):
    try:
        from argon2.low_level import Type, hash_secret_raw

        return hash_secret_raw(passphrase, salt, passes, memory, lanes, 32, Type.ID)
    except ImportError:
        pass
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
    except ImportError:
        raise NoArgon2("neither argon2-cffi nor cryptography is installed") from None
    try:
        derivation = Argon2id(salt=salt, length=32, iterations=passes, lanes=lanes, memory_cost=memory)
    except UnsupportedAlgorithm:
        raise NoArgon2("the OpenSSL of cryptography has no Argon2id") from None
    return derivation.derive(passphrase)


class Secret:
    """What a user knows: a raw key, a passphrase, or what Argon2id has made of a passphrase before."""

    def __init__(self, raw=None, passphrase=None, derived=None):
        self.raw, self.passphrase, self.derived = raw, passphrase, derived

    def key_for(self, derivation, salt, memory, passes, lanes):
        met("derivation", derivation)
        if derivation == 0:
            check((memory, passes, lanes) == (0, 0, 0), "bounds of a raw key")
            return self.raw
        check(derivation == 1, f"derivation {derivation}")
        check(19456 <= memory <= 262144 and 2 <= passes <= min(64, 2097152 // memory) and 1 <= lanes <= 16, "bounds")
        if self.derived is not None or self.passphrase is None:
            return self.derived
        return argon2id(self.passphrase, salt, memory, passes, lanes)


class FileSecret(bytes):
    """The secret `F` of a file. What is sealed with its sessions has a multiple of ``padding`` bytes, if that is not 0."""

    padding = 0


def opened_block(block, identity, secret, padding=0):
    """The secret `F` of bytes 16 to 127 of a key block; none if the key is another one."""
    cipher, derivation, memory, passes, lanes = struct.unpack_from("<5I", block)
    if cipher != 1:
        raise Refused(f"cipher {cipher}")
    if secret is None:
        raise WrongKey("no key was given")
    key = secret.key_for(derivation, bytes(block[20:36]), memory, passes, lanes)
    if key is None:
        return None
    extracted = mac(block[20:36], key)
    if mac(expand(extracted, b"litepack key check"), identity + block[:84])[:28] != block[84:112]:
        return None
    data = opened(expand(extracted, b"litepack wrap"), bytes(12), identity + block[:36], block[36:84])
    file_secret = FileSecret(mac(identity + struct.pack("<I", padding) if padding else identity, data))
    file_secret.padding = padding
    return file_secret


def signature(file_secret, content):
    return mac(expand(file_secret, b"litepack records"), content)[:16]


@cache
def session_key(file_secret, salt):
    return expand(file_secret, b"litepack session" + salt)


def unsealed(file_secret, salt, counter, context, sealed):
    """What a session of the file has sealed."""
    check(counter < 1 << 40, "a counter")
    content = opened(session_key(file_secret, bytes(salt)), struct.pack("<QI", counter, 0), context, sealed)
    if not file_secret.padding:
        return content
    check(len(sealed) % file_secret.padding == 0, "a length that is not padded")
    content = content.rstrip(b"\0")
    check(content[-1:] == b"\x80", "padding")
    return content[:-1]


def sealed_len(file_secret, length):
    """Bytes of so many bytes when they are sealed, the tag included."""
    if not file_secret.padding:
        return length + 16
    return -(-(length + 17) // file_secret.padding) * file_secret.padding
