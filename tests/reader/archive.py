"""Archives: frames of zstd one behind the other, and encrypted archives."""

import struct

from frames import done, decoded, zstd
from hashes import xxh64
from notes import Refused, WrongKey, check, met
from sealing import opened_block, unsealed

import ctypes

HEAD = 512
SKIPPABLE = range(0x184D2A50, 0x184D2A60)


def database(data, secret=None):
    return joined(sealed_frames(data, secret) if is_sealed(data) else plain_frames(data))


def is_sealed(data):
    return data[8:16] == b"LPsealed"


def joined(frames):
    return b"".join(decoded(frame, 2097152, magic=True) for frame in frames)


def plain_frames(data):
    met("archive", "zstd's seekable format")
    at = 0
    while at < len(data):
        length = done(zstd.ZSTD_findFrameCompressedSize(data[at:], ctypes.c_size_t(len(data) - at)))
        if struct.unpack_from("<I", data, at)[0] not in SKIPPABLE:
            yield data[at : at + length]
        at += length


def sealed_frames(data, secret):
    skippable, length, magic, version, _page_size = struct.unpack_from("<II8sII", data)
    check((skippable, length, magic) == (0x184D2A5D, 496, b"LPsealed"), "head of the archive")
    check(struct.unpack_from("<Q", data, 496)[0] == xxh64(data[:496]), "checksum of the archive's head")
    if version != 1:
        raise Refused(f"version {version} of an encrypted archive")
    met("archive", "encrypted")
    identity, salt = data[24:40], data[40:56]
    check(data[168:496] == bytes(328) and data[504:512] == b"\xff" * 8, "head of the archive")
    key = opened_block(data[56:168], identity, secret)
    if key is None:
        raise WrongKey("wrong key")

    def unsealed_part(kind, number, start, size, sealed):
        context = identity + struct.pack("<IIQI", kind, number, start, size)
        return unsealed(key, salt, number, context, sealed)

    count, zero, magic = struct.unpack("<II8s", data[-16:])
    check((zero, magic) == (0, b"LPsealed"), "end of the archive")
    table = len(data) - 16 - 16 - 8 * count
    at, start = HEAD, 0
    sizes = unsealed_part(2, count, 0, 0, data[table:-16])
    for number, (stored, size) in enumerate(struct.iter_unpack("<II", sizes)):
        yield unsealed_part(1, number, start, size, data[at : at + stored])
        at, start = at + stored, start + size
    check(at == table, "frames of the archive")
