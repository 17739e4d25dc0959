"""Numbers and bytes, one after another, as docs/format.md writes them."""

import struct

from notes import check


class Fields:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def bytes(self, count):
        check(0 <= count <= len(self.data) - self.at, "cut off")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self):
        return self.bytes(1)[0]

    def unpack(self, form):
        return struct.unpack(form, self.bytes(struct.calcsize(form)))

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            check(shift <= 70, "a number is too long")
            if byte < 128:
                return value

    def zigzag(self):
        return unzigzag(self.varint())

    def until(self, end):
        """The bytes before the next one of this kind, which is passed."""
        found = self.data.find(end, self.at)
        check(found >= 0, "no end")
        text, self.at = self.data[self.at : found], found + 1
        return text

    def rest(self):
        return self.bytes(len(self.data) - self.at)

    def runs(self, count):
        """Runs of numbers that add up to a count."""
        found = []
        while len(found) < count:
            length = self.varint()
            found += [self.varint()] * length
        check(len(found) == count, "runs do not add up")
        return found

    def offsets(self, lengths):
        found, expected, in_line = [], 0, self.varint()
        for length in lengths:
            if in_line == 0:
                expected += self.zigzag()
                in_line = self.varint()
                check(in_line > 0, "a run of no offsets")
            found.append(expected)
            expected += length
            in_line -= 1
        return found


def unzigzag(value):
    return value >> 1 ^ -(value & 1)
