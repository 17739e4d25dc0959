#!/usr/bin/env python3
"""Opens the frames of an encrypted archive: a second reader, written from docs/format.md alone.

It writes the frames of zstd, one behind the other. Of the writer nothing is in it; AES-GCM is that of the reader of
packed files. For tests only.

usage: sealed_reader.py FILE KEY_IN_HEX > DATABASE.zst
"""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "store", "tests"))
sys.dont_write_bytecode = True
from encrypted_reader import expand, mac, opened  # noqa: E402


def main(name, digits):
    with open(name, "rb") as stream:
        file = stream.read()
    skippable, length, magic, version, _page_size = struct.unpack_from("<II8sII", file)
    assert (skippable, length, magic, version) == (0x184D2A5D, 496, b"LPsealed", 1)
    identity, salt, block = file[24:40], file[40:56], file[56:168]
    assert file[168:496] == bytes(328) and file[504:512] == b"\xff" * 8
    cipher, derivation, memory, passes, lanes = struct.unpack_from("<5I", block)
    assert (cipher, derivation, memory, passes, lanes) == (1, 0, 0, 0, 0)
    secret = mac(block[20:36], bytes.fromhex(digits))
    assert mac(expand(secret, b"litepack key check"), identity + block[:84])[:28] == block[84:], "the key is wrong"
    data = opened(expand(secret, b"litepack wrap"), bytes(12), identity + block[:36], block[36:84])
    session = expand(mac(identity, data), b"litepack session" + salt)

    def unsealed(kind, number, start, size, sealed):
        context = identity + struct.pack("<IIQI", kind, number, start, size)
        return opened(session, struct.pack("<QI", number, 0), context, sealed)

    count, zero, magic = struct.unpack("<II8s", file[-16:])
    assert (zero, magic) == (0, b"LPsealed")
    table = len(file) - 16 - 16 - 8 * count
    at, start = 512, 0
    for number, (stored, size) in enumerate(struct.iter_unpack("<II", unsealed(2, count, 0, 0, file[table:-16]))):
        sys.stdout.buffer.write(unsealed(1, number, start, size, file[at : at + stored]))
        at, start = at + stored, start + size
    assert at == table


main(*sys.argv[1:])
