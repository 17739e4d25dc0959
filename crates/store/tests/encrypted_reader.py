#!/usr/bin/env python3
"""Reads an encrypted packed file whose units are stored as they are: a second reader, written from docs/format.md alone.

It compares every signature and tag, and writes the database. Nothing of it is shared with what wrote the file: AES-GCM
and HKDF are written out below. It is slow, and for tests only.

usage: encrypted_reader.py FILE KEY_IN_HEX > DATABASE
"""

import hashlib
import hmac
import struct
import sys

FANOUT = 128


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
    keys = round_keys(key)
    text, tag = sealed[:-16], sealed[-16:]
    subkey = int.from_bytes(encrypt_block(keys, bytes(16)), "big")
    hashed = 0
    for part in (context, text, struct.pack(">QQ", 8 * len(context), 8 * len(text))):
        for i in range(0, len(part), 16):
            hashed = times(hashed ^ int.from_bytes(part[i : i + 16].ljust(16, b"\0"), "big"), subkey)
    mask = encrypt_block(keys, nonce + struct.pack(">I", 1))
    if bytes(a ^ b for a, b in zip(hashed.to_bytes(16, "big"), mask)) != tag:
        raise ValueError("a tag is wrong")
    out = bytearray()
    for i in range(0, len(text), 16):
        stream = encrypt_block(keys, nonce + struct.pack(">I", 2 + i // 16))
        out += bytes(a ^ b for a, b in zip(text[i : i + 16], stream))
    return bytes(out)


class Fields:
    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.bytes(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def runs(self):
        tags = []
        while len(tags) < FANOUT:
            count = self.varint()
            tags += [self.varint()] * count
        return tags

    def offsets(self, lengths):
        found, expected, in_line = [], 0, self.varint()
        for length in lengths:
            if in_line == 0:
                expected += self.zigzag()
                in_line = max(self.varint(), 1)
            found.append(expected)
            expected += length
            in_line -= 1
        return found


class File:
    def __init__(self, data, key):
        self.data = data
        magic, version, incompatible = struct.unpack_from("<16sII", data)
        assert (magic, version, incompatible) == (b"Litepack\r\n\x1a\n\0\0\0\0", 1, 1)
        self.identity = data[32:48]
        places = [data[at : at + 192] for at in (4096, 8192)]
        place = max(places, key=lambda place: struct.unpack_from("<Q", place, 8))
        assert place[:4] == b"LPky" and struct.unpack_from("<II", place, 16) == (1, 0)
        prk = mac(place[36:52], key)
        check = mac(expand(prk, b"litepack key check"), self.identity + place[16:100])
        if check[:28] != place[100:128]:
            raise ValueError("wrong key")
        context = self.identity + place[16:52]
        data_key = opened(expand(prk, b"litepack wrap"), bytes(12), context, place[52:100])
        self.prk = mac(self.identity, data_key)

    def signed(self, at, length):
        body, signature = self.data[at : at + length - 16], self.data[at + length - 16 : at + length]
        return body if mac(expand(self.prk, b"litepack records"), body)[:16] == signature else None

    def open(self, kind, codec, salt, counter, sealed):
        key = expand(self.prk, b"litepack session" + salt)
        nonce = struct.pack("<Q", counter) + bytes(4)
        return opened(key, nonce, self.identity + bytes([kind, codec]), sealed)

    def extent(self, kind, offset, length, number):
        stored = self.data[offset : offset + length]
        found = mac(expand(self.prk, b"litepack places"), stored[-40:])[:8]
        if struct.unpack("<Q", found)[0] != number:
            raise ValueError("an extent has another number")
        salt, counter = stored[-24:-8], struct.unpack("<Q", stored[-8:])[0]
        return self.open(kind, 0, salt, counter, stored[:-24])

    def units(self, pointer, level, index):
        """(number, content) of each unit below a node."""
        fields = Fields(self.extent(2, *pointer))
        kind, tags = fields.bytes(1)[0], fields.runs()
        there = [i for i, tag in enumerate(tags) if tag]
        lengths = [fields.varint() for _ in there]
        offsets = fields.offsets(lengths)
        if level > 0:
            assert kind == 2
            numbers = [struct.unpack("<Q", fields.bytes(8))[0] for _ in there]
            for i, child in zip(there, zip(offsets, lengths, numbers)):
                yield from self.units(child, level - 1, index * FANOUT + i)
            return
        assert kind == 5, "no references"
        salts = [fields.bytes(16) for _ in range(fields.varint())]
        numbers = fields.offsets([1] * len(there))
        for i, offset, length, number in zip(there, offsets, lengths, numbers):
            codec = (tags[i] - 1) % 8
            assert codec == 0, "stored as it is"
            stored = self.data[offset : offset + length]
            content = self.open(1, codec, salts[number >> 40], number & (1 << 40) - 1, stored)
            yield index * FANOUT + i, content

    def database(self):
        records = [record for record in (self.signed(at, 256) for at in (512, 1024)) if record]
        record = max(records, key=lambda record: struct.unpack_from("<Q", record, 8))
        assert record[:4] == b"LPcr"
        marks = [mark for mark in (self.signed(at, 64) for at in (1536, 1792)) if mark]
        assert all(mark[:4] == b"LPmk" for mark in marks) and len(marks) == 2
        size, unit_size, height = struct.unpack_from("<QII", record, 16)
        offset, length, _, number = struct.unpack_from("<QIIQ", record, 40)
        out = bytearray(-(-size // unit_size) * unit_size)
        for unit, content in self.units((offset, length, number), height - 1, 0):
            assert len(content) == unit_size
            out[unit * unit_size : (unit + 1) * unit_size] = content
        return bytes(out[:size])


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        read = File(file.read(), bytes.fromhex(sys.argv[2]))
    sys.stdout.buffer.write(read.database())
