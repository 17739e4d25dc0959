"""The log of a packed file: the frames of SQLite's WAL, and the database that they make of the packed one."""

import struct
from functools import cached_property

from fields import Fields
from frames import decoded
from hashes import xxh3
from notes import check, met
from sealing import expand, mac, unsealed

RECORDS_START, RECORD_LEN_MAX = 4096, 262144
FRAME, CUT, TREE, ROOT = 1, 2, 3, 4
WAL_MAGICS = (0x377F0682, 0x377F0683)


class Slot:
    def __init__(self, data):
        self.version, self.seq = struct.unpack_from("<I4xQ", data, 8)
        self.id, self.wal_header, self.identity = data[24:40], data[40:72], data[72:88]
        self.own, self.after = struct.unpack_from("<QQ", data, 88)
        self.record = data[104:360] if self.version > 2 else None


class Log:
    """The newest generation: its records up to the first one that is not whole."""

    def __init__(self, data, packed):
        self.data, self.packed, self.slot = data, packed, None
        slots = [slot for slot in (self.slot_at(0), self.slot_at(512)) if slot]
        self.pages, self.heads, self.count = {}, {}, 0
        if not slots:
            check(not any(data[:1024]), "no slot of the log is valid")
            return
        self.slot = max(slots, key=lambda slot: slot.seq)
        met("log", f"version {self.slot.version}")
        if self.follows():
            self.scan()

    def slot_at(self, at):
        version = int.from_bytes(self.data[at + 8 : at + 12], "little")
        length = 384 if version in (3, 4) else 128
        slot = bytes(self.data[at : at + length])
        if slot[:8] != b"LPlog\r\n\x1a" or int.from_bytes(slot[-8:], "little") != xxh3(slot[:-8]):
            return None
        sealed = version in (2, 4)
        check(1 <= version <= 4 and sealed == self.packed.is_encrypted, "a log that is not of this kind of file")
        if sealed and self.signature(b"litepack log slot" + slot[:-24]) != slot[-24:-8]:
            return None
        return Slot(slot)

    def signature(self, content):
        return mac(expand(self.packed.secret, b"litepack records"), content)[:16]

    def follows(self):
        slot, packed = self.slot, self.packed
        if slot.own == 0:
            return True
        if slot.identity != packed.identity:
            return False
        return slot.own == packed.log_current or slot.after == packed.log_next

    def scan(self):
        self.salts, self.contents, self.nodes = {}, {}, {}
        at, link = RECORDS_START, 0
        root = None
        while (record := self.record(at, link)) is not None:
            kind, content, length, link, carrier = record
            met("log record", kind)
            if kind == FRAME:
                self.frame(at, Fields(content))
            elif kind == CUT:
                count = Fields(content).varint()
                check(count <= self.count, "a cut")
                for number in range(count + 1, self.count + 1):
                    self.heads.pop(number, None), self.pages.pop(number, None)
                self.count = count
            elif kind == TREE:
                self.nodes[at] = self.tree(at, Fields(content))
            else:
                self.check_root(at, Fields(content), carrier)
                root = at
            at += length
        self.check_hint(root)
        if self.slot.own and self.slot.own == self.packed.log_current:
            check(at >= self.packed.log_end, "the log ends before what is in the file")

    def record(self, at, link):
        """A record that is whole: kind, content, length, link of the next one."""
        head = self.data[at : at + 9]
        if len(head) < 9:
            return None
        length, kind, linked = struct.unpack("<IBI", head)
        record = bytes(self.data[at : at + length])
        if not 9 < length <= RECORD_LEN_MAX or len(record) < length or linked != link or kind not in (1, 2, 3, 4):
            return None
        if not self.packed.is_encrypted:
            seed = xxh3(self.slot.id, at)
            found = xxh3(record[:-8], seed)
            if found.to_bytes(8, "little") != record[-8:]:
                return None
            return kind, record[9:-8], length, found & 0xFFFFFFFF, None
        fields = Fields(record, 9)
        carrier = fields.varint()
        if carrier == 0:
            self.salts[at] = fields.bytes(16)
        counter = fields.varint()
        begin = fields.at
        context = b"litepack log" + self.slot.id + struct.pack("<Q", at) + record[:begin]
        content = unsealed(self.packed.secret, self.salts[at - carrier], counter, context, record[begin:])
        return kind, content, length, struct.unpack("<I", record[-16:-12])[0], carrier

    def frame(self, at, fields):
        flags, number = fields.byte(), fields.varint()
        check(flags < 16 and 1 <= number <= self.count + 1, "a frame")
        for flag in (1, 2, 4, 8):
            if flags & flag:
                met("log frame", flag)
        if flags & 8:
            fields.varint()
        check(number <= self.count or flags & 4 and flags & 3, "half of a new frame")
        self.count = max(self.count, number)
        head = None
        if flags & 1:
            page, size = fields.varint(), fields.varint()
            head = struct.pack(">II", page, size) + self.slot.wal_header[16:24] + fields.bytes(8)
            self.heads[number] = (at, head)
        elif flags & 2:
            head = fields.bytes(24)
            self.heads[number] = (at, head)
        if flags & 4:
            self.contents[at] = self.page(at, fields, head)
            self.pages[number] = at
        check(fields.at == len(fields.data), "a frame goes on")

    @property
    def page_size(self):
        return struct.unpack_from(">I", self.slot.wal_header, 8)[0]

    @cached_property
    def base(self):
        """The database as the commit has it that the generation stands on."""
        check(self.slot.record is not None, "a version stands on no commit")
        return self.packed.at(self.slot.record).content()

    def page(self, at, fields, head):
        form = fields.byte()
        met("log form", 2 if 2 <= form <= 9 else form)
        if form == 0:
            page = fields.rest()
        elif form == 1:
            page = decoded(fields.rest(), self.page_size)
        else:
            check(form <= 10, "a form")
            if form == 10:
                check(head is not None, "a version of no page")
                total = fields.unpack("<I")[0]
                begin = (int.from_bytes(head[:4], "big") - 1) * self.page_size
                page = bytearray(self.base[begin : begin + self.page_size])
                check(xxh3(bytes(page)) & 0xFFFFFFFF == total, "the page that a version stands on")
            else:
                page = bytearray(self.contents[at - fields.varint()])
            where = 0
            while fields.at < len(fields.data):
                where += fields.varint()
                run = fields.bytes(fields.varint())
                check(where + len(run) <= len(page), "changes")
                page[where : where + len(run)] = run
                where += len(run)
        check(len(page) == self.page_size, "length of a page in the log")
        return bytes(page)

    # Nodes and roots say what the records before them said, and a hint which root was synced.

    def places(self, fields, at, count):
        found = []
        for _ in range(count):
            at += fields.zigzag()
            found.append(at)
        return found

    def tree(self, at, fields):
        level, index, count = fields.byte(), fields.varint(), fields.varint()
        check(level < 2 and 1 <= count <= 512, "a node of the log")
        if level == 1:
            found = self.places(fields, at, count)
        else:
            found, last = [], at
            for _ in range(count):
                last += fields.zigzag()
                found.append((last, last + fields.zigzag()))
        check(fields.at == len(fields.data), "a node of the log goes on")
        return level, index, found

    def check_root(self, at, fields, carrier):
        count = fields.varint()
        fields.varint()
        inner = self.places(fields, at, fields.varint())
        told = []
        for place in inner:
            level, _, leaves = self.nodes[place]
            check(level == 1, "a root")
            for leaf in leaves:
                level, _, frames = self.nodes[leaf]
                check(level == 0, "an inner node of the log")
                told += frames
        known = [(self.heads[number][0], self.pages[number]) for number in range(1, self.count + 1)]
        check(count == self.count and told[:count] == known, "a root tells something else")
        if carrier is not None:
            for _ in range(fields.varint()):
                fields.bytes(16), fields.varint(), fields.varint()
        check(fields.at == len(fields.data), "a root goes on")

    def check_hint(self, root):
        hint = bytes(self.data[1024:1088])
        if hint[:4] != b"LPlh" or struct.unpack_from("<Q", hint, 56)[0] != xxh3(hint[:56]):
            return
        length, place, generation = struct.unpack_from("<IQ16s", hint, 4)
        if generation != self.slot.id:
            return
        if self.packed.is_encrypted and self.signature(b"litepack log hint" + hint[:32] + hint[48:56]) != hint[32:48]:
            return
        met("log", "hint")
        check(root is not None and place <= root, "the hint names a root that is not there")
        check(struct.unpack_from("<I", self.data, place)[0] == length, "length of the root")

    def frames(self):
        """(head, page) of each frame, as SQLite's WAL has them."""
        return [(self.heads[number][1], self.contents[self.pages[number]]) for number in range(1, self.count + 1)]

    def applied(self, database):
        if self.slot is None or not self.count:
            return database
        return with_frames(database, self.slot.wal_header, self.frames())


def wal(data, database):
    """The database with what is in a WAL as SQLite has it, which stands beside a file whose `log_next` is 0."""
    met("log", "SQLite's WAL")
    size = struct.unpack_from(">I", data, 8)[0]
    frames = [(data[at : at + 24], data[at + 24 : at + 24 + size]) for at in range(32, len(data), 24 + size)]
    return with_frames(database, data[:32], frames)


def with_frames(database, header, frames):
    """Frames count up to the last one that ends a transaction and whose checksums, SQLite's, are right."""
    magic, _, page_size = struct.unpack_from(">III", header)
    check(magic in WAL_MAGICS, "magic of the WAL")
    order = ">" if magic & 1 else "<"
    sums = summed(header[:24], (0, 0), order)
    check(struct.unpack_from(">II", header, 24) == sums, "checksum of the WAL")
    good = []
    for head, page in frames:
        if len(page) < page_size or head[8:16] != header[16:24]:
            break
        sums = summed(head[:8] + page, sums, order)
        if struct.unpack_from(">II", head, 16) != sums:
            break
        good.append(struct.unpack_from(">II", head) + (page,))
    while good and good[-1][1] == 0:
        good.pop()
    if not good:
        return database
    out = bytearray(database).ljust(good[-1][1] * page_size, b"\0")
    for page, _, content in good:
        out[(page - 1) * page_size : page * page_size] = content
    return bytes(out[: good[-1][1] * page_size])


def summed(data, sums, order):
    a, b = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for i in range(0, len(words), 2):
        a = a + words[i] + b & 0xFFFFFFFF
        b = b + words[i + 1] + a & 0xFFFFFFFF
    return a, b
