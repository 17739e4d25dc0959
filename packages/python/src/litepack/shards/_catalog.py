"""A catalog, which ``litepack catalog`` writes: which files have no row for a condition, without opening them.

Promises that a file is left out only if its version is the one that the catalog speaks of, and no value that a column of
it has there can meet a condition. So a catalog that is old, or lacks files, costs time and never a row. A catalog may be
anybody's: it runs no SQL of its own (what it says of the files is believed).
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from urllib.parse import quote

import pyarrow as pa

from litepack.shards._columns import FILE
from litepack.shards._filters import Bounds, Filter, is_impossible
from litepack.shards._find import Shard, absolute, is_url

_APPLICATION_ID, _VERSION = 0x4C506374, 1
# Names in one statement, of which SQLite takes at least 999.
_MAX_NAMES = 500
# Of the statements that make the tables that are read here, without white space: under their names there may be a view.
_TABLES = {
    "bb47388f46884c220f46c385f445446f8e8cf2fe52dca0556ddcf96cceb1d86c",  # files
    "82a58504e756cb82aeb0ef716d6a0ddfcb7392eec51cfdc7db39489c61a925c0",  # tables
    "29bbd45f48e397cecb986a23822d2d918c204ed40dc978ef821e8e54f2381c91",  # columns
}


def listed(catalog: str) -> list[Shard]:
    """The files in a catalog, as they were then; without a version if they could not be read."""
    with _opened(catalog) as connection:
        rows = connection.execute("SELECT path, CASE WHEN error IS NULL THEN identity END FROM files ORDER BY path")
        return [Shard(_resolved(catalog, path), _size(version), version) for path, version in rows]


def without_impossible(
    catalog: str, shards: Sequence[Shard], table: str, filters: Sequence[Filter], schema: pa.Schema
) -> list[Shard]:
    """The files in which there may be a row that meets all conditions."""
    usable = [one for one in filters if one.column in schema.names and one.column != FILE]
    # As they are spelled there: of a name that has another case it says nothing, and the file is read.
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
    uri = f"file://{quote(absolute(catalog))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")
        try:
            (number,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError:
            number = version = None
        if number != _APPLICATION_ID:
            raise ValueError(f"{catalog}: not a catalog; 'litepack catalog' writes one")
        if version != _VERSION:
            raise ValueError(f"{catalog}: a catalog of version {version}, which this litepack does not know: write it anew")
        try:
            schema = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
            if not {_hash(sql) for (sql,) in schema} >= _TABLES:
                raise sqlite3.DatabaseError("other tables")
            yield connection
        except (sqlite3.Error, _Odd) as error:
            raise ValueError(f"{catalog}: not as 'litepack catalog' writes it ({error}): write it anew") from error


class _Odd(Exception):
    """A value that no catalog has."""


def _hash(sql: str) -> str:
    return hashlib.sha256("".join(sql.split()).encode()).hexdigest()


def _size(version: str | None) -> int:
    """The version begins with it, and is compared with that of the file."""
    size = (version or "0").split()[0]
    if not size.isdecimal() or len(size) > 18:
        raise _Odd("a version without a size")
    return int(size)


def _resolved(catalog: str, path: object) -> str:
    """The name that :func:`find` gives a file."""
    if not isinstance(path, str):
        raise _Odd("a path that is no text")
    return path if is_url(path) else absolute(os.path.join(os.path.dirname(absolute(catalog)), path))
