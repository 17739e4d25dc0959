"""The files of sqllogictest: their records, and what SQLite's answer is as such a file writes it.

A record is one statement or query that is meant for SQLite, with the line it begins in. Nothing here knows a database.
"""

import hashlib
from dataclasses import dataclass
from decimal import Decimal

# The name by which a file leaves out a record for SQLite, or has one for it alone.
ENGINE = "sqlite"
THRESHOLD = 8


@dataclass
class Record:
    """One statement, with `wanted` "ok" or "error", or a query, with `wanted` the lines that the file expects."""

    line: int
    sql: str
    # None for a statement.
    types: str | None
    order: str
    threshold: int
    wanted: object


def read(path):
    """All records of a file up to its `halt`."""
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    records, threshold, at = [], THRESHOLD, 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        first = at
        while at < len(lines) and lines[at].strip():
            at += 1
        # What is in front of the record, and the comments, begin with these words.
        block = [line.rstrip("\r") for line in lines[first:at]]
        skipped, start = False, 0
        for start, line in enumerate(block):
            words = line.split()
            if line.startswith("#"):
                continue
            if words[0] == "skipif":
                skipped = skipped or words[1] == ENGINE
            elif words[0] == "onlyif":
                skipped = skipped or words[1] != ENGINE
            else:
                break
        else:
            continue
        words, body = block[start].split(), block[start + 1 :]
        if skipped:
            continue
        if words[0] == "halt":
            break
        if words[0] == "hash-threshold":
            threshold = int(words[1])
        elif words[0] == "statement":
            records.append(Record(first + start + 1, "\n".join(body), None, "", threshold, words[1]))
        elif words[0] == "query":
            end = body.index("----") if "----" in body else len(body)
            order = words[2] if len(words) > 2 else "nosort"
            wanted = body[end + 1 :]
            records.append(Record(first + start + 1, "\n".join(body[:end]), words[1], order, threshold, wanted))
        else:
            raise ValueError(f"{path}:{first + start + 1}: no such record: {words[0]}")
    return records


def as_written(record, rows):
    """An answer as a file has it: a line for each value, or their number and hash."""
    written = [[value(kind, one) for kind, one in zip(record.types, row)] for row in rows]
    if record.order == "rowsort":
        written.sort()
    flat = [one for row in written for one in row]
    if record.order == "valuesort":
        flat.sort()
    if record.threshold and len(flat) > record.threshold:
        digest = hashlib.md5("".join(one + "\n" for one in flat).encode("utf-8", "surrogateescape"))
        return [f"{len(flat)} values hashing to {digest.hexdigest()}"]
    return flat


def value(kind, one):
    if one is None:
        return "NULL"
    if kind == "I":
        return str(integer(one))
    if kind == "R":
        return real(number(one))
    text = one if isinstance(one, str) else f"{one!r}" if isinstance(one, float) else str(one)
    return "".join(c if " " <= c <= "~" else "@" for c in text) or "(empty)"


def real(one):
    """As SQLite's printf writes `%.3f`: 16 digits, and zeros behind them."""
    return f"{Decimal(f'{one:.16g}'):.3f}" if abs(one) >= 1e12 else f"{one:.3f}"


def integer(one):
    """As `sqlite3_column_int` gives it: the lower 32 bits."""
    if isinstance(one, str):
        digits = one.strip()
        end = 1 if digits[:1] in ("-", "+") else 0
        while digits[end : end + 1].isdigit():
            end += 1
        one = int(digits[:end]) if digits[:end].strip("+-") else 0
    one = int(max(-(2.0**63), min(one, 2.0**63 - 1024))) if isinstance(one, float) else int(one)
    return (one + (1 << 31)) % (1 << 32) - (1 << 31)


def number(one):
    try:
        return float(one)
    except ValueError:
        return 0.0
