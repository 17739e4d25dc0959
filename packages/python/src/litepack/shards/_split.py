"""Ranges of rowids with about as many rows each.

Litepack knows them from the pages above the leaves of a table (``PRAGMA litepack_split``), of which it reads a few.

SQL alone does not show those pages. So for a plain local database, and where the pragma finds nothing or fails, the range
from the least to the greatest rowid is cut into cells, and a look-up of the next rowid says of each whether there is a
row in it (``rowid >= start LIMIT 1``: one page). Cells without rows are dropped, the others cut again from their first
row to their last until there are enough; then they are dealt out evenly. Where rowids lie closer and closer, these parts
are uneven.

Uneven parts cost time and never a row: the ranges meet, and reach to both ends of what an integer can be.
"""

from __future__ import annotations

import json
from typing import Any

from litepack.shards._columns import folded, quoted

LEAST, GREATEST = -(2**63), 2**63 - 1
_CELLS = 8  # for each part
_ROUNDS = 6
_PARTS_MAX = 10_000  # of the pragma


def rowid_of(cursor: Any, table: str, names: list[str]) -> str | None:
    """By which name the rowid can be read; None for a table that has none, or is not an ordinary one."""
    cursor.execute("SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE", (table,))
    if cursor.fetchone() != ("table", 0):
        return None
    taken = {folded(name) for name in names}
    return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)


def ranges(cursor: Any, table: str, rowid: str, parts: int) -> list[tuple[int, int]]:
    """At most ``parts`` ranges (first and last rowid, both included) that hold every row there can be."""
    cuts = _by_pages(cursor, table, parts) if parts > 1 else None
    if not cuts:
        return _by_look_ups(cursor, table, rowid, parts)
    edges = [LEAST, *(cut + 1 for cut in cuts if cut < GREATEST), GREATEST + 1]
    return [(first, after - 1) for first, after in zip(edges, edges[1:])]


def _by_pages(cursor: Any, table: str, parts: int) -> list[int] | None:
    """The last rowids of all parts but the last, in ascending order; None if the pragma does not say."""
    cursor.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE", (table,))
    root = cursor.fetchone()
    if root is None or not 0 < root[0] < 2**32:
        return None
    try:
        cursor.execute(f"PRAGMA litepack_split = '{root[0]} {min(parts, _PARTS_MAX)}'")
        row = cursor.fetchone()
    except Exception:  # Damage, for one: reading the rows says so, in SQLite's words.
        return None
    return None if row is None else json.loads(row[0])


def _by_look_ups(cursor: Any, table: str, rowid: str, parts: int) -> list[tuple[int, int]]:
    source = quoted(table)
    cursor.execute(f"SELECT (SELECT min({rowid}) FROM {source}), (SELECT max({rowid}) FROM {source})")
    least, greatest = cursor.fetchone()
    if least is None or parts < 2:
        return [(LEAST, GREATEST)]
    wanted = parts * _CELLS

    def nearest(condition: str, order: str, bound: int) -> int | None:
        cursor.execute(f"SELECT {rowid} FROM {source} WHERE {rowid} {condition} ? ORDER BY {rowid} {order} LIMIT 1", (bound,))
        row = cursor.fetchone()
        return None if row is None else row[0]

    cells = [(least, greatest)]
    for _ in range(_ROUNDS):
        if len(cells) >= wanted:
            break
        each = max(2, -(-wanted // len(cells)))
        finer = [cell for first, last in cells for cell in _cut(first, last, each)]
        if len(finer) == len(cells):
            break
        cells, found = [], LEAST
        for first, last in finer:
            # The row found for an earlier cell answers for all up to it.
            if found < first:
                following = nearest(">=", "ASC", first)
                if following is None:
                    break
                found = following
            if found <= last:
                # From its first row to its last, so that the next round does not cut what is empty.
                end = nearest("<=", "DESC", last)
                cells.append((max(first, found), last if end is None else end))
    starts = [cells[number * len(cells) // parts][0] for number in range(1, parts)] if cells else []
    edges = [LEAST, *sorted(set(starts) - {LEAST}), GREATEST + 1]
    return [(first, after - 1) for first, after in zip(edges, edges[1:])]


def _cut(first: int, last: int, count: int) -> list[tuple[int, int]]:
    width = last - first + 1
    count = min(count, width)
    edges = [first + width * number // count for number in range(count + 1)]
    return [(start, after - 1) for start, after in zip(edges, edges[1:])]
