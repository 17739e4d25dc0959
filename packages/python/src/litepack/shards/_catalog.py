"""A catalog, which ``litepack catalog`` writes: which files have no row for a condition, without opening them.

Promises that a file is left out only if its version is the one that the catalog speaks of, and no value that a column of
it has there can meet a condition. So a catalog that is old, or lacks files, costs time and never a row.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from urllib.parse import quote

import pyarrow as pa

from litepack.shards._columns import FILE
from litepack.shards._filters import Bounds, Filter, is_impossible
from litepack.shards._find import Shard, is_url

_APPLICATION_ID, _VERSION = 0x4C506374, 1
# Names in one statement, of which SQLite takes at least 999.
_MAX_NAMES = 500


def listed(catalog: str) -> list[Shard]:
    """The files in a catalog, as they were then; without a version if they could not be read."""
    with _opened(catalog) as connection:
        rows = connection.execute("SELECT path, size, CASE WHEN error IS NULL THEN identity END FROM files ORDER BY path")
        return [Shard(_resolved(catalog, path), size, version) for path, size, version in rows]


def without_impossible(
    catalog: str, shards: Sequence[Shard], table: str, filters: Sequence[Filter], schema: pa.Schema
) -> list[Shard]:
    """The files in which there may be a row that meets all conditions."""
    usable = [one for one in filters if one.column in schema.names and one.column != FILE]
    names = sorted({one.column for one in usable})
    if not 0 < len(names) <= _MAX_NAMES:
        return list(shards)
    with _opened(catalog) as connection:
        files = connection.execute("SELECT id, path, identity FROM files WHERE error IS NULL")
        known = {(_resolved(catalog, path), identity): number for number, path, identity in files}
        found = connection.execute(
            "SELECT columns.file, columns.name, least, greatest, nulls, rows FROM columns JOIN tables"
            " ON tables.file = columns.file AND tables.name = columns.\"table\""
            f" WHERE columns.\"table\" = ? AND columns.name IN ({', '.join('?' * len(names))})",
            (table, *names),
        )
        impossible = set()
        for file, name, *bounds in found:
            kind = schema.field(name).type
            if any(is_impossible(one, kind, Bounds(*bounds)) for one in usable if one.column == name):
                impossible.add(file)
    return [shard for shard in shards if known.get((shard.path, shard.version)) not in impossible]


@contextmanager
def _opened(catalog: str) -> Iterator[sqlite3.Connection]:
    if not os.path.isfile(catalog):
        raise FileNotFoundError(f"{catalog}: no such file; 'litepack catalog' writes one")
    uri = f"file://{quote(os.path.abspath(catalog))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        try:
            (number,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError:
            number = version = None
        if number != _APPLICATION_ID:
            raise ValueError(f"{catalog}: not a catalog; 'litepack catalog' writes one")
        if version != _VERSION:
            raise ValueError(f"{catalog}: a catalog of version {version}, which this litepack does not know: write it anew")
        yield connection


def _resolved(catalog: str, path: str) -> str:
    """The name that :func:`find` gives a file."""
    return path if is_url(path) else os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(catalog)), path))
