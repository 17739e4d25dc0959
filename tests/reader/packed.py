"""A packed file: its newest commit, and the database in it. Every checksum, signature and tag is compared."""

import struct
from copy import copy
from functools import cached_property

import columns
from fields import Fields
from frames import decoded
from hashes import xxh3, xxh3_128
from notes import Refused, WrongKey, check, met
from sealing import mac, expand, opened_block, signature, unsealed

MAGIC = b"Litepack\r\n\x1a\n\0\0\0\0"
FANOUT = 128
ENCRYPTED, PADDED, REFERENCES, LOG_BASE = 1, 2, 1, 2
NODE, UNIT, CATALOG, DICTIONARY, LINK, SEGMENT = 2, 1, 3, 4, 5, 6
LOCK_START, LOCK_END = 1073741824, 1073742336


class Extent:
    """A stored unit, item, or former extent of a unit, as a leaf tells of it."""

    def __init__(self, tag, offset, length, number):
        self.codec, self.dictionary = tag - 1 & 7, tag - 1 >> 4
        self.tag, self.offset, self.length, self.number = tag, offset, length, number


class Packed:
    def __init__(self, data, secret=None):
        self.data = data
        check(data[:16] == MAGIC and len(data) >= 2048, "no packed file")
        version, incompatible, self.compatible = struct.unpack_from("<3I", data, 16)
        check(struct.unpack_from("<Q", data, 504)[0] == xxh3(data[:504]), "checksum of the header")
        if version != 1:
            raise Refused(f"format version {version}")
        if incompatible & ~(ENCRYPTED | PADDED):
            raise Refused(f"feature flags {incompatible & ~(ENCRYPTED | PADDED):#x} of the header")
        self.identity = bytes(data[32:48])
        self.seed = int.from_bytes(self.identity[:8], "little")
        self.secret = None
        self.is_encrypted = incompatible & ENCRYPTED != 0
        if self.is_encrypted:
            met("header", "ENCRYPTED")
        self.padding = 0
        if incompatible & PADDED:
            met("header", "PADDED")
            self.padding = struct.unpack_from("<I", data, 28)[0]
            is_power = self.padding & (self.padding - 1) == 0
            check(self.is_encrypted and is_power and 64 <= self.padding <= 4096, "padding")
        if self.is_encrypted:
            self.secret = self.open_key(secret)
        self.start = 12288 if self.is_encrypted else 2048
        self.used = []  # what every extent takes: offset, length
        self.read_record()

    def open_key(self, secret):
        blocks = []
        for at in (4096, 8192):
            block = self.data[at : at + 192]
            if block[:4] == b"LPky" and struct.unpack_from("<Q", block, 184)[0] == xxh3(block[:184], self.seed):
                blocks.append(block)
        check(blocks, "no key block")
        for block in sorted(blocks, key=lambda block: struct.unpack_from("<Q", block, 8), reverse=True):
            found = opened_block(block[16:128], self.identity, secret, self.padding)
            if found is not None:
                return found
        raise WrongKey("wrong key")

    def valid(self, block, magic):
        """A record or a mark, if it is valid."""
        if block[:4] != magic:
            return None
        if self.is_encrypted:
            return block if signature(self.secret, block[:-16]) == block[-16:] else None
        return block if struct.unpack("<Q", block[-8:])[0] == xxh3(block[:-8], self.seed) else None

    def read_record(self):
        """The newest commit. That the file fell back to the one before is not what this reader is for."""
        block = lambda at, length: bytes(self.data[at : at + length])  # noqa: E731
        records = [self.valid(block(at, 256), b"LPcr") for at in (512, 1024)]
        marks = [self.valid(block(at, 64), b"LPmk") for at in (1536, 1792)]
        check(any(records), "no commit")
        seqs = [struct.unpack_from("<Q", record, 8)[0] if record else 0 for record in records]
        newest = 0 if seqs[0] >= seqs[1] else 1
        check(all(struct.unpack_from("<Q", mark, 8)[0] <= max(seqs) for mark in marks if mark), "a commit is gone")
        self.take(records[newest])

    def at(self, record):
        """The same file as an earlier commit has it, whose extents are still there."""
        check(self.valid(record, b"LPcr") is not None, "a copy of a record is not valid")
        found = copy(self)
        for cached in ("dictionaries", "item_units"):
            found.__dict__.pop(cached, None)
        found.used = []
        found.take(record)
        return found

    def take(self, record):
        self.record = record
        features = struct.unpack_from("<I", record, 4)[0]
        unknown = features & ~(REFERENCES | LOG_BASE)
        if unknown:
            raise Refused(f"feature flags {unknown:#x} of a commit")
        if features & REFERENCES:
            met("commit", "REFERENCES")
        if features & LOG_BASE:
            met("commit", "LOG_BASE")
        (self.seq, self.size, self.unit, self.height, self.end) = struct.unpack_from("<QQIIQ", record, 8)
        pointer = lambda at: struct.unpack_from("<QI4xQ", record, at)  # noqa: E731
        self.map, self.catalog, self.space, self.segment, self.items = map(pointer, (40, 64, 88, 136, 160))
        self.stored_units, self.stored_bytes, self.free_bytes = struct.unpack_from("<QQQ", record, 112)
        items_height, reserved, self.item_count = struct.unpack_from("<IIQ", record, 184)
        self.items_height = items_height
        if reserved:
            raise Refused(f"{reserved} in a reserved field of a commit")
        (self.log_current, self.log_next, self.log_end) = struct.unpack_from("<QQQ", record, 200)
        (self.log_unfinished, self.log_link, self.difference_bytes) = struct.unpack_from("<IIQ", record, 224)

    # Extents.

    def extent(self, kind, pointer, is_used=True):
        """The content of an extent that is no unit."""
        offset, length, number = pointer
        check(self.start <= offset and offset + length <= self.end <= len(self.data), "an extent is outside")
        stored = bytes(self.data[offset : offset + length])
        if is_used:
            self.used.append((offset, length))
        if not self.is_encrypted:
            check(xxh3(stored, self.seed) == number, "checksum of an extent")
            return stored
        check(length >= 40, "an extent is short")
        found = mac(expand(self.secret, b"litepack places"), stored[-40:])[:8]
        check(struct.unpack("<Q", found)[0] == number, "an extent has another number")
        met("sealed", kind)
        salt, counter = stored[-24:-8], struct.unpack("<Q", stored[-8:])[0]
        return unsealed(self.secret, salt, counter, self.identity + bytes([kind, 0]), stored[:-24])

    def coded(self, extent):
        """What codecs made, and where it is from: the extent of a unit or an item."""
        check(self.start <= extent.offset and extent.offset + extent.length <= self.end, "an extent is outside")
        stored = bytes(self.data[extent.offset : extent.offset + extent.length])
        if not self.is_encrypted:
            check(xxh3(stored, self.seed) & 0xFFFFFFFF == extent.number, "checksum of a unit")
            return stored
        met("sealed", UNIT)
        salt, counter = extent.number
        return unsealed(self.secret, salt, counter, self.identity + bytes([UNIT, extent.codec]), stored)

    def decode(self, extent, length, prefix=None):
        """The bytes of an extent of so many bytes of the database."""
        content = self.coded(extent)
        met("codec", extent.codec)
        if extent.codec == 0:
            check(prefix is None, "codec of a difference")
            found = content
        else:
            check(extent.codec in (1, 2), f"codec {extent.codec}")
            dictionary = None
            if prefix is None and extent.dictionary:
                met("catalog", "dictionary")
                dictionary = self.dictionaries[extent.dictionary - 1]
            found = decoded(content, length, dictionary, prefix)
            if extent.codec == 2:
                check(prefix is None, "codec of a difference")
                found = columns.pages_of(found, length)
        check(len(found) == length, "a unit has another length")
        return found

    @cached_property
    def dictionaries(self):
        if self.catalog[1] == 0:
            return []
        fields = Fields(self.extent(CATALOG, self.catalog))
        fields.varint(), fields.byte(), fields.varint()
        count = fields.varint()
        check(count <= 4096, "dictionaries")
        found, known = [], {}
        for _ in range(count):
            offset, stored, number, length = fields.unpack("<QIQI")
            wanted = int.from_bytes(fields.bytes(16), "little")
            fields.byte(), fields.varint()
            signatures = fields.varint()
            check(signatures <= 64, "signatures")
            fields.bytes(4 * signatures)
            if stored == 0:
                found.append(None)
                continue
            if offset not in known:
                known[offset] = decoded(self.extent(DICTIONARY, (offset, stored, number)), length, magic=True)
                check(len(known[offset]) == length, "length of a dictionary")
                if length > 240:
                    check(xxh3_128(known[offset]) == wanted, "hash of a dictionary")
                met("catalog", "zstd's format" if known[offset][:4] == b"\x37\xa4\x30\xec" else "raw content")
            found.append(known[offset])
        check(fields.at == len(fields.data), "the catalog goes on")
        return found

    # Trees.

    def leaves(self, pointer, level, index=0):
        """(index, fields of the leaf) below a node."""
        if pointer[1] == 0:
            return
        fields = Fields(self.extent(NODE, pointer))
        kind = fields.byte()
        met("node", kind)
        if level == 0:
            yield index, kind, fields
            return
        check(kind == 2, f"kind {kind} of an inner node")
        tags = fields.runs(FANOUT)
        there = [at for at, tag in enumerate(tags) if tag]
        lengths = [fields.varint() for _ in there]
        offsets = fields.offsets(lengths)
        numbers = [fields.unpack("<Q")[0] for _ in there]
        for at, child in zip(there, zip(offsets, lengths, numbers)):
            yield from self.leaves(child, level - 1, index * FANOUT + at)

    def extents(self, fields, tags):
        """The stored extents of a leaf, by place."""
        there = [at for at, tag in enumerate(tags) if tag]
        lengths = [fields.varint() for _ in there]
        offsets = fields.offsets(lengths)
        if self.is_encrypted:
            salts = self.salts = [fields.bytes(16) for _ in range(fields.varint())]
            check(len(salts) <= 256, "salts")
            if len(salts) > 1:
                met("leaf", "several salts")
            numbers = [self.number(number) for number in fields.offsets([1] * len(there))]
        else:
            numbers = [fields.unpack("<I")[0] for _ in there]
        found = {}
        for at, offset, length, number in zip(there, offsets, lengths, numbers):
            found[at] = Extent(tags[at], offset, length, number)
            self.used.append((offset, length))
        return found

    def number(self, number):
        check(number >> 40 < len(self.salts), "a salt")
        return self.salts[number >> 40], number & (1 << 40) - 1

    @cached_property
    def item_units(self):
        """The bytes of each item, and how many units it has."""
        found = {}
        self.item_counts = {}
        for index, kind, fields in self.leaves(self.items, self.items_height - 1):
            check(kind == (8 if self.is_encrypted else 4), f"kind {kind} of a leaf of items")
            extents = self.extents(fields, fields.runs(FANOUT))
            units = fields.runs(FANOUT)
            for at, extent in extents.items():
                check(units[at] in (1, 2, 4) and units[at] * self.unit <= 65536, "units of an item")
                met("item", f"{units[at]} units")
                number = index * FANOUT + at
                found[number] = self.decode(extent, units[at] * self.unit)
                self.item_counts[number] = fields.varint()
            check(fields.at == len(fields.data), "a leaf goes on")
        check(len(found) == self.item_count, "items")
        return found

    def units(self):
        """(number, bytes) of each unit that is not zero."""
        plain, with_references = (5, 7) if self.is_encrypted else (1, 3)
        named = {}
        stored = differences = 0
        for index, kind, fields in self.leaves(self.map, self.height - 1):
            check(kind in (plain, with_references), f"kind {kind} of a leaf")
            check(kind == plain or self.record[4] & REFERENCES, "a reference without its flag")
            ways = fields.runs(FANOUT) if kind == with_references else [0] * FANOUT
            extents = self.extents(fields, fields.runs(FANOUT))
            stored += sum(way > 0 or at in extents for at, way in enumerate(ways))
            last = 0
            for at, way in enumerate(ways):
                number, extent = index * FANOUT + at, extents.get(at)
                met("way", way)
                if way == 0:
                    if extent is not None:
                        yield number, self.decode(extent, self.unit)
                elif way == 1:
                    value = fields.varint()
                    last += value >> 3 if not value >> 2 & 1 else -((value >> 3) + 1)
                    named[last] = named.get(last, 0) + 1
                    item, start = self.item(last), (value & 3) * self.unit
                    check(extent is None and start < len(item), "an alias")
                    yield number, item[start : start + self.unit]
                elif 2 <= way <= 4:
                    prefix = b""
                    for _ in range(way - 1):
                        last += fields.zigzag()
                        named[last] = named.get(last, 0) + 1
                        prefix += self.item(last)
                    check(extent is not None and extent.codec == 1, "a difference")
                    yield number, self.decode(extent, self.unit, prefix)
                else:
                    check(way == 5 and extent is not None and extent.codec == 1, "a private difference")
                    tag, length = fields.varint(), fields.varint()
                    offset = extent.offset + fields.zigzag()
                    sealed = self.is_encrypted
                    former = self.number(fields.varint()) if sealed else fields.unpack("<I")[0]
                    self.used.append((offset, length))
                    differences += extent.length + 16
                    prefix = self.decode(Extent(tag, offset, length, former), self.unit)
                    yield number, self.decode(extent, self.unit, prefix)
            check(fields.at == len(fields.data), "a leaf goes on")
        check(named == self.item_counts if self.item_count else not named, "how often items are named")
        check((stored, differences) == (self.stored_units, self.difference_bytes), "sums in the record")

    def item(self, number):
        check(number in self.item_units, "no such item")
        return self.item_units[number]

    # Space.

    def free(self):
        """The free ranges, by the chain."""
        changes, pointer = [], self.space
        while True:
            check(len(changes) <= 32, "the chain is too long")
            fields = Fields(self.extent(LINK, pointer))
            kind = fields.byte()
            met("free-space link", kind)
            check(kind in (1, 2), f"kind {kind} of a link")
            before = fields.unpack("<QIQ") if kind == 2 else None
            ranges, at = [], 0
            for _ in range(fields.varint()):
                at += fields.zigzag()
                length = fields.varint()
                ranges.append((at, length >> 1, length & 1))
                at += length >> 1
            changes.append(ranges)
            if kind == 1:
                break
            pointer = before
        free = []
        for ranges in reversed(changes):
            for at, length, became_free in ranges:
                if became_free:
                    free.append((at, at + length))
                else:
                    free = [piece for old in free for piece in without(old, at, at + length)]
        return free

    def check_segment(self):
        if self.segment[1] == 0:
            return
        met("segment", "there")
        fields = Fields(self.extent(SEGMENT, self.segment))
        others, units = fields.varint(), fields.varint()
        places = [(fields.varint(), fields.varint()) for _ in range(others)]
        for _ in range(units):
            fields.varint(), fields.varint()
            places.append((fields.varint(), fields.varint()))
            fields.bytes(24 if self.is_encrypted else 4)
        for offset, length in places:
            check(fields.bytes(length) == self.data[offset : offset + length], "a copy in the segment")
        check(fields.at == len(fields.data), "the segment goes on")

    def check_space(self):
        """Each byte is in one extent, or free."""
        free = self.free() if self.space[1] else []
        parts = [(at, at + length) for at, length in self.used if length]
        parts += [part for part in free if part[0] < part[1]]
        check(len(parts) == len(set(parts)), "an extent is named twice")
        parts.append((LOCK_START, LOCK_END))
        at = self.start
        for begin, end in sorted(parts):
            if begin >= self.end:
                break
            check(begin == at, f"bytes from {at} on are {'nowhere' if begin > at else 'twice'}")
            at = end
        check(at == self.end, "bytes at the end are nowhere")

    def database(self):
        found = self.content()
        if self.size:
            self.check_segment()
            self.check_space()
        return found

    def content(self):
        """The database, whatever else is in the file."""
        if self.size == 0:
            return b""
        out = bytearray(-(-self.size // self.unit) * self.unit)
        self.dictionaries  # also where no unit uses one
        for number, content in self.units():
            check((number + 1) * self.unit <= len(out), "a unit past the end")
            out[number * self.unit : (number + 1) * self.unit] = content
        check(not any(out[self.size :]), "bytes past the end")
        return bytes(out[: self.size])


def without(part, begin, end):
    """What is left of a free range when some of it is taken."""
    if end <= part[0] or part[1] <= begin:
        return [part]
    return [piece for piece in ((part[0], begin), (end, part[1])) if piece[0] < piece[1]]

