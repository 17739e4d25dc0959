"""Pages of SQLite that are laid out by column ("A page laid out by column" of docs/format.md)."""

import datetime
import struct

from fields import Fields
from notes import check, met

INTERIOR, TABLE = (2, 5), (5, 13)


def pages_of(stream, length):
    """The page, or the pages, of which this is the stream; `length` is that of them all."""
    stream = Fields(stream)
    if stream.data[:1] == b"\1":
        pages = several(stream, length)
    else:
        pages = b"".join(group(stream, 1, length))
    check(stream.at == len(stream.data) and len(pages) == length, "a page has another length")
    return pages


def several(stream, length):
    stream.byte()
    count = stream.byte()
    check(count in (2, 4, 8), "how many pages")
    met("several pages", count)
    groups = list(stream.bytes(count))
    pages = [stream.bytes(length // count) if number == 0 else None for number in groups]
    if 0 in groups:
        met("several pages", "stored as they are")
    for number in sorted(set(groups) - {0}):
        places = [at for at, of in enumerate(groups) if of == number]
        for at, page in zip(places, group(stream, len(places), length // count)):
            pages[at] = page
    return b"".join(pages)


class Layout:
    def __init__(self, stream, cells):
        flags = stream.byte()
        check(flags < 16, "a layout")
        for flag in (1, 2, 4, 8):
            if flags & flag:
                met("layout", flag)
        self.header = stream.bytes(5) if flags & 1 else None
        self.order = list(range(cells))
        if flags & 2:
            low = stream.bytes(cells)
            high = stream.bytes(cells) if cells > 256 else bytes(cells)
            self.order = [a | b << 8 for a, b in zip(low, high)]
            check(sorted(self.order) == list(range(cells)), "an order of cells")
        self.gaps = {}
        if flags & 4:
            found, at = [], 0
            for _ in range(stream.varint()):
                at += stream.varint()
                found.append((at, stream.varint()))
            self.gaps = {at: stream.bytes(length) for at, length in found}
        self.between = stream.bytes(stream.varint()) if flags & 8 else None


def group(stream, count, length):
    """The pages of a group, or one page."""
    tag = stream.byte()
    kind, first, with_raw = tag & 15, tag & 16, tag & 32
    check(kind in (2, 5, 10, 13) and tag < 64, "a tag")
    met("page", kind)
    heads = []
    for at in range(count):
        file_header = b""
        if first and at == 0:
            met("page", "page 1")
            file_header = stream.bytes(100)
        cells = stream.varint()
        check(cells <= length, "cells")
        heads.append((file_header, cells, Layout(stream, cells), stream.bytes(4) if kind in INTERIOR else b""))
    total = sum(head[1] for head in heads)
    raw = [False] * total
    if with_raw:
        met("page", "cells stored as they are")
        bits = stream.bytes(-(-total // 8))
        raw = [bits[at // 8] >> at % 8 & 1 == 1 for at in range(total)]
    kept = [stream.bytes(stream.varint()) for is_raw in raw if is_raw]
    others = total - len(kept)
    children = integers(stream, others) if kind in INTERIOR else None
    rowids = integers(stream, others) if kind in TABLE else None
    records = None
    if kind != 5:
        widths = integers(stream, others)
        records = [[] for _ in range(others)]
        for number in range(max(widths, default=0)):
            having = [record for record, width in zip(records, widths) if width > number]
            for record, value in zip(having, column(stream, len(having))):
                record.append(value)
    made = []
    for at in range(others):
        cell = b""
        payload = b"" if records is None else record_of(records[at])
        if children is not None:
            cell += struct.pack(">I", children[at])
        if records is not None:
            cell += sqlite_varint(len(payload))
        if rowids is not None:
            cell += sqlite_varint(rowids[at] & (1 << 64) - 1)
        made.append(cell + payload)
    kept, made = iter(kept), iter(made)
    all_cells = [next(kept) if is_raw else next(made) for is_raw in raw]
    pages, begin = [], 0
    for head in heads:
        pages.append(page_of(kind, head, all_cells[begin : begin + head[1]], length))
        begin += head[1]
    return pages


def page_of(kind, head, cells, length):
    file_header, count, layout, right_most = head
    page = bytearray(length)
    page[: len(file_header)] = file_header
    pointers = len(file_header) + 8 + len(right_most)
    end = length
    for number, index in enumerate(layout.order):
        gap = layout.gaps.get(number, b"")
        end -= len(gap)
        page[end : end + len(gap)] = gap
        end -= len(cells[index])
        check(end >= pointers + 2 * count, "cells do not fit")
        page[end : end + len(cells[index])] = cells[index]
        struct.pack_into(">H", page, pointers + 2 * index, end)
    if count in layout.gaps:  # below the last cell
        gap = layout.gaps[count]
        end -= len(gap)
        page[end : end + len(gap)] = gap
    if layout.between is not None:
        start = pointers + 2 * count
        check(len(layout.between) == end - start, "what lies between")
        page[start:end] = layout.between
    header = layout.header or bytes(2) + struct.pack(">H", end & 0xFFFF) + b"\0"
    at = len(file_header)
    page[at : at + 8] = bytes([kind]) + header[:2] + struct.pack(">H", count) + header[2:]
    page[at + 8 : at + 8 + len(right_most)] = right_most
    return bytes(page)


def sqlite_varint(value):
    if value >= 1 << 56:
        return bytes([value >> shift & 127 | 128 for shift in range(57, 7, -7)]) + bytes([value & 255])
    groups = [value & 127]
    while value := value >> 7:
        groups.append(value & 127 | 128)
    return bytes(reversed(groups))


def record_of(values):
    types = b"".join(sqlite_varint(serial) for serial, _ in values)
    length = len(types) + 1
    while len(sqlite_varint(length)) + len(types) != length:
        length += 1
    return sqlite_varint(length) + types + b"".join(content for _, content in values)


# Values are a serial type and its bytes.

SIZES = (1, 2, 3, 4, 6, 8)


def integer(value):
    if value in (0, 1):
        return 8 + value, b""
    for serial, size in enumerate(SIZES, 1):
        if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
            return serial, value.to_bytes(size, "big", signed=True)
    raise ValueError(value)


def text(content):
    return 13 + 2 * len(content), content


def blob(content):
    return 12 + 2 * len(content), content


def column(stream, count):
    kind = stream.byte()
    check(kind < 32, "a column")
    if not kind & 16:
        return values(stream, kind, count)
    met("column", "NULL")
    bits = stream.bytes(-(-count // 8))
    null = [bits[at // 8] >> at % 8 & 1 == 1 for at in range(count)]
    found = iter(values(stream, kind & 15, count - sum(null)))
    return [(0, b"") if is_null else next(found) for is_null in null]


def values(stream, kind, count):
    met("column", kind)
    if kind == 0:
        return [(0, b"")] * count
    if kind == 1:
        return [integer(value) for value in integers(stream, count)]
    if kind == 2:
        return [(7, content) for content in planes(stream, count, 8)]
    if kind == 3:
        return [text(content) for content in strings(stream, count)]
    if kind == 4:
        return [blob(content) for content in strings(stream, count)]
    if kind == 5:
        return [text(content) for content in json(stream, count)]
    if kind == 6:
        return mixed(stream, count)
    if kind == 7:
        return [blob(jsonb(content)) for content in json(stream, count)]
    if kind == 8:
        return decimals(stream, count)
    check(kind == 9, f"column kind {kind}")
    different = stream.varint()
    check(1 <= different <= 256, "different values")
    inner = stream.byte()
    check(inner in (1, 2, 6, 8), "kind of different values")
    chosen = values(stream, inner, different)
    return [chosen[at] for at in stream.bytes(count)]


def mixed(stream, count):
    types = [stream.varint() for _ in range(count)]
    whole = iter(integers(stream, sum(serial in (1, 2, 3, 4, 5, 6, 8, 9) for serial in types)))
    found = []
    for serial in types:
        if serial in (8, 9):
            check(next(whole) == serial - 8, "an integer of types 8 and 9")
            found.append((serial, b""))
        elif 1 <= serial <= 6:
            found.append((serial, next(whole).to_bytes(SIZES[serial - 1], "big", signed=True)))
        else:
            length = 8 if serial == 7 else (serial - 12) // 2 if serial >= 12 else 0
            found.append((serial, stream.bytes(length)))
    return found


def decimals(stream, count):
    how = stream.byte()
    digits, all_real = how & 15, how & 16
    found = []
    for value in integers(stream, count):
        real = value / 10**digits
        if all_real or not real.is_integer():
            found.append((7, struct.pack(">d", real)))
        else:
            found.append(integer(int(real)))
    return found


def planes(stream, count, width):
    """Strings of this width: the first bytes of all, then the second, and so on."""
    each = [stream.bytes(count) for _ in range(width)]
    return [bytes(part[at] for part in each) for at in range(count)]


def wrapped(value):
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def integers(stream, count):
    if count == 0:
        return []
    how = stream.byte()
    if how == 64:
        met("integers", 64)
        runs = stream.varint()
        check(1 <= runs <= count, "runs")
        lengths, firsts = integers(stream, runs), integers(stream, runs)
        check(all(length >= 0 for length in lengths) and sum(lengths) + runs == count, "runs do not add up")
        steps, found = iter(integers(stream, sum(lengths))), []
        for length, value in zip(lengths, firsts):
            found.append(value)
            for _ in range(length):
                found.append(wrapped(found[-1] + next(steps)))
        return found
    met("integers", {0: "width", 16: "width + 16", 32: 32, 48: 48}.get(how & 240, how))
    if how < 9:
        least = stream.zigzag()
        return [wrapped(least + part) for part in little(stream, count, how)]
    if 16 <= how < 25:
        first, least = stream.zigzag(), stream.zigzag()
        return sums(first, [least + part for part in little(stream, count - 1, how - 16)])
    check(how in (32, 48), f"integers {how}")
    if how == 32:
        return by_length(stream, count)
    first = stream.zigzag()
    return sums(first, by_length(stream, count - 1))


def sums(first, steps):
    found = [first]
    for step in steps:
        found.append(wrapped(found[-1] + step))
    return found


def little(stream, count, width):
    return [int.from_bytes(part, "little") for part in planes(stream, count, width)]


def by_length(stream, count):
    lengths = stream.bytes(count)
    parts = [b""] * count
    for byte in range(8):
        having = [at for at, length in enumerate(lengths) if length > byte]
        for at, part in zip(having, stream.bytes(len(having))):
            parts[at] += bytes([part])
    return [int.from_bytes(part, "little", signed=True) for part in parts]


def strings(stream, count, may_choose=True):
    if count == 0:
        return []
    how = stream.byte()
    met("strings", how)
    if how == 0:
        return [stream.until(b"\0") for _ in range(count)]
    if how == 1:
        return [stream.bytes(length) for length in integers(stream, count)]
    if how == 2:
        return patterned(stream, count)
    if how == 3 and may_choose:
        different = stream.varint()
        check(1 <= different <= 256, "different strings")
        chosen = strings(stream, different, may_choose=False)
        return [chosen[at] for at in stream.bytes(count)]
    if how == 4:
        shared, found = stream.bytes(count), []
        for length in shared:
            check(length <= len(found[-1] if found else b""), "shared bytes")
            found.append((found[-1][:length] if found else b"") + stream.until(b"\0"))
        return found
    check(how in (5, 6), f"strings {how}")
    pattern = stream.bytes(stream.varint())
    width = sum(byte - 128 for byte in pattern if byte > 128)
    check(width > 0 and 128 not in pattern, "a hexadecimal pattern")
    contents = [stream.bytes(width) for _ in range(count)] if how == 5 else planes(stream, count, width)
    found = []
    for content in contents:
        content, out = Fields(content), b""
        for byte in pattern:
            out += content.bytes(byte - 128).hex().encode() if byte > 128 else bytes([byte])
        found.append(out)
    return found


def patterned(stream, count):
    pattern = Fields(stream.bytes(stream.varint()))
    found = [b""] * count
    while pattern.at < len(pattern.data):
        byte = pattern.byte()
        if byte > 3:
            found = [before + bytes([byte]) for before in found]
            continue
        met("pattern", byte)
        if byte == 1:
            parts = [b"%d" % value for value in integers(stream, count)]
        elif byte == 2:
            digits = pattern.byte()
            parts = [b"%0*d" % (digits, value) for value in integers(stream, count)]
        elif byte == 3:
            parts = planes(stream, count, pattern.byte())
        else:
            shape = pattern.byte()
            parts = [date(value, shape) for value in integers(stream, count)]
        found = [before + part for before, part in zip(found, parts)]
    return found


def date(value, shape):
    met("shape", min(shape & 15, 5))
    separator, shape = "T" if shape & 16 else " ", shape & 15
    check(1 <= shape <= 10, "a shape")
    digits = max(shape - 4, 0)
    value, fraction = divmod(value, 10**digits)
    seconds = value * {1: 86400, 2: 3600, 3: 60}.get(shape, 1)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    shown = f"{moment.year:04}-{moment.month:02}-{moment.day:02}"
    if shape > 1:
        shown += separator + f"{moment.hour:02}:{moment.minute:02}:{moment.second:02}"[: 3 * min(shape, 4) - 4]
    if digits:
        shown += f".{fraction:0{digits}}"
    return shown.encode()


def json(stream, count):
    how_many = stream.byte()
    check(1 <= how_many <= 64, "templates")
    templates = [stream.until(b"\xff").split(b"\0") for _ in range(how_many)]
    chosen = stream.bytes(count) if how_many > 1 else bytes(count)
    keys = {}
    for template in templates:
        for part in template[:-1]:
            keys.setdefault(part[1:], 0)
    for at in chosen:
        for part in templates[at][:-1]:
            keys[part[1:]] += 1
    parts = {key: iter(json_values(stream, number)) for key, number in keys.items()}
    found = []
    for at in chosen:
        template = templates[at]
        found.append(b"".join(part + next(parts[part[1:]]) for part in template[:-1]) + template[-1])
    return found


def json_values(stream, count):
    how = stream.byte()
    met("JSON", how)
    if how == 3:
        kinds = stream.bytes(count)
        quoted = iter(strings(stream, kinds.count(0)))
        whole = iter(integers(stream, kinds.count(1)))
        other = iter(strings(stream, kinds.count(2)))
        check(max(kinds, default=0) < 3, "a kind of values")
        return [
            b'"%s"' % next(quoted) if kind == 0 else b"%d" % next(whole) if kind == 1 else next(other) for kind in kinds
        ]
    if how == 0:
        return [b'"%s"' % content for content in strings(stream, count)]
    if how == 1:
        return [b"%d" % value for value in integers(stream, count)]
    check(how == 2, f"JSON values {how}")
    return strings(stream, count)


def jsonb(content):
    stream = Fields(content)
    made = element(stream)
    check(stream.at == len(content), "JSON goes on")
    return made


def element(stream):
    """SQLite's binary form of the JSON that comes."""
    byte = stream.data[stream.at : stream.at + 1]
    if byte in (b"[", b"{"):
        stream.byte()
        parts = []
        while stream.data[stream.at : stream.at + 1] not in (b"]", b"}"):
            if stream.data[stream.at : stream.at + 1] in (b",", b":"):
                stream.byte()
            parts.append(element(stream))
        stream.byte()
        return sized(11 if byte == b"[" else 12, b"".join(parts))
    for number, word in enumerate((b"null", b"true", b"false")):
        if stream.data.startswith(word, stream.at):
            stream.bytes(len(word))
            return sized(number, b"")
    if byte in (b'"', b"~"):
        raw = byte == b"~"
        stream.bytes(2 if raw else 1)
        start = stream.at
        while stream.data[stream.at : stream.at + 1] != b'"':
            stream.bytes(2 if stream.data[stream.at : stream.at + 1] == b"\\" and not raw else 1)
        inner = stream.data[start : stream.at]
        stream.byte()
        return sized(10 if raw else 8 if b"\\" in inner else 7, inner)
    start = stream.at
    while stream.at < len(stream.data) and stream.data[stream.at] not in b",:]}":
        stream.byte()
    number = stream.data[start : stream.at]
    check(number != b"", "JSON is cut off")
    return sized(5 if any(mark in number for mark in b".eE") else 3, number)


def sized(kind, content):
    length = len(content)
    if length <= 11:
        return bytes([kind | length << 4]) + content
    for code, size in ((12, 1), (13, 2), (14, 4)):
        if length < 1 << 8 * size:
            return bytes([kind | code << 4]) + length.to_bytes(size, "big") + content
    raise ValueError(length)
