"""A plan: which files, which parts, which columns. Engines have it made once, and read its parts anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from litepack._uri import printable
from litepack.shards import _catalog, _columns
from litepack.shards._columns import FILE, Column, Source, folded
from litepack.shards._errors import Damaged, Mismatch, named
from litepack.shards._filters import Filter
from litepack.shards._find import THREADS, Paths, Shard, absolute, find, is_url
from litepack.shards._read import Part, Reading, opened
from litepack.shards._split import ranges, rowid_of

SPLIT_BYTES = 32 << 20
# Opening a file takes as long as reading this much of it, about.
OPENING_BYTES = 1 << 20


@dataclass(frozen=True)
class Scan:
    """The plan of :func:`scan`. It can be pickled."""

    schema: pa.Schema
    shards: tuple[Shard, ...]
    reading: Reading
    split_bytes: int
    filters: tuple[Filter, ...] = ()
    catalog: str | None = None

    def where(self, filters: Sequence[Filter]) -> Scan:
        """The same without files and rows that more conditions exclude, as far as the catalog and SQL can say."""
        return replace(self, filters=(*self.filters, *filters))

    @property
    def remaining(self) -> list[Shard]:
        """The files that the catalog does not exclude; all of them without one."""
        table = self.reading.source.table
        if self.catalog is None or table is None or not self.filters:
            return list(self.shards)
        return _catalog.without_impossible(self.catalog, self.shards, table, self.filters, self.schema)

    @property
    def parts(self) -> list[Part]:
        """The parts that engines read apart from each other. Large files are opened for it."""
        with ThreadPoolExecutor(THREADS) as pool:
            return [part for parts in pool.map(self._split, self.remaining) for part in parts]

    def grouped(self, size: int) -> list[list[Part]]:
        """The parts, small ones together up to so many bytes of files, for engines in which a task costs much."""
        groups: list[list[Part]] = []
        room = 0
        for part in self.parts:
            needed = max(min(part.shard.size, self.split_bytes), OPENING_BYTES)
            if needed > room:
                groups.append([])
                room = size
            groups[-1].append(part)
            room -= needed
        return groups

    def _split(self, shard: Shard) -> list[Part]:
        count = -(-shard.size // self.split_bytes)
        if self.reading.source.table is None or count < 2:
            return [Part(shard)]
        try:
            with opened(shard) as cursor:
                names = [column.name for column in _columns.columns_of(cursor, self.reading.source, shard.path)]
                rowid = rowid_of(cursor, self.reading.source.table, names)
                if rowid is None:
                    return [Part(shard)]
                found = ranges(cursor, self.reading.source.table, rowid, count)
        except Exception as raised:
            error = named(shard.path, raised)
            # The task that reads it says so, or leaves it out.
            if isinstance(error, Damaged):
                return [Part(shard)]
            raise error from None
        return [Part(shard, first, last) for first, last in found]

    def read(self, part: Part, filters: Sequence[Filter] = ()) -> Iterator[pa.RecordBatch]:
        """The rows of a part, as batches of ``schema``; without rows that the filters exclude, as far as SQL can say."""
        return self.reading.read(part, (*self.filters, *filters))

    def reader(self, filters: Sequence[Filter] = ()) -> pa.RecordBatchReader:
        """All parts one after the other, for programs on this machine: DuckDB, Polars, pandas."""

        def batches() -> Iterator[pa.RecordBatch]:
            scan = self.where(filters)
            for part in scan.parts:
                yield from scan.read(part)

        return pa.RecordBatchReader.from_batches(self.schema, batches())


def scan(
    paths: Paths | None = None,
    *,
    table: str | None = None,
    query: str | None = None,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    merge_schema: bool = False,
    split_bytes: int = SPLIT_BYTES,
    errors: Literal["raise", "skip"] = "raise",
    skipped: str | os.PathLike[str] | None = None,
    batch_rows: int = 65536,
    filters: Sequence[Filter] = (),
    catalog: str | os.PathLike[str] | None = None,
    catalog_trusted: bool = False,
) -> Scan:
    """Plans to read a table, or a query, of each of many files.

    ``paths``: see :func:`find`. ``columns``: which, in this order; ``_file`` is the name of the file. All columns but
    that one without it. ``schema``: the types, where the file's do not say enough (dates, times, decimals, booleans);
    its columns are those that are read.

    The columns of the first file are those of the scan, and another file in which they differ is :class:`Mismatch` when
    it is read. ``merge_schema=True`` opens all files first, takes the columns of all, and reads what a file lacks as
    NULL.

    Files larger than ``split_bytes`` are split by rowid, if a table is read that has one.

    ``errors="skip"`` with a folder ``skipped`` leaves out files that are damaged or have no such table, and of a file
    that is split the parts that are damaged; :func:`skipped` tells what was left out.

    ``filters`` leave out rows, as far as SQL can say; of columns that are read. With a ``catalog``, a file that
    ``litepack catalog`` wrote, they leave out whole files of a table, without opening them: those whose version is that
    in the catalog. Others are read as without it. Without ``paths`` the files are those in the catalog. To know their
    versions, files on servers are opened, unless a pattern lists them; with ``catalog_trusted`` they are taken from the
    catalog, so that a change of a file that is left out is not noticed (of one that is read, it is :class:`Replaced`).
    """
    if (table is None) == (query is None):
        raise ValueError("give either a table or a query")
    if errors not in ("raise", "skip"):
        raise ValueError(f"errors is 'raise' or 'skip', not {errors!r}")
    if (errors == "skip") != (skipped is not None):
        raise ValueError("errors='skip' and skipped=FOLDER, where the reports go, belong together")
    if split_bytes < 1 or batch_rows < 2:
        raise ValueError("split_bytes is at least 1, and batch_rows at least 2")
    if query is not None:
        query = query.strip().rstrip(";")
    source = Source(table, query)
    if paths is None and catalog is None:
        raise ValueError("give paths, a catalog, or both")
    if catalog_trusted and catalog is None:
        raise ValueError("catalog_trusted is for a catalog")
    trusted: dict[str, Shard] = {}
    listed: list[Shard] = []
    if catalog is not None:
        if is_url(os.fspath(catalog)):
            raise ValueError(f"{printable(os.fspath(catalog))}: a catalog is a file on this machine")
        catalog = absolute(os.fspath(catalog))
        listed = _catalog.listed(catalog)
        if catalog_trusted:
            trusted = {shard.path: shard for shard in listed if shard.version is not None and is_url(shard.path)}
    found = find([shard.path for shard in listed], trusted, literal=True) if paths is None else find(paths, trusted)
    # A catalog may lie among its files.
    files = [shard for shard in found if shard.path != catalog]
    if not files:
        raise FileNotFoundError("no files to read")
    folder = None if skipped is None else absolute(os.fspath(skipped))
    first, types = _first_schema(files, source, merge_schema, folder)
    if schema is not None:
        wanted = schema
        for field in schema:
            if field.name != FILE:
                _columns.raw_type(field.type)
    else:
        wanted = pa.schema([(column.name, types[column.name]) for column in first])
    if columns is not None:
        if not columns:
            raise ValueError("columns is empty")
        fields = {field.name: field for field in wanted} | {FILE: pa.field(FILE, pa.string())}
        if missing := [name for name in columns if name not in fields]:
            raise ValueError(f"no column {missing[0]!r}; there are {', '.join(wanted.names)}, and {FILE}")
        wanted = pa.schema([fields[name] for name in columns])
    if missing := [one.column for one in filters if one.column not in wanted.names]:
        raise ValueError(f"filters are on columns that are read, and {missing[0]!r} is none of {', '.join(wanted.names)}")
    known = {folded(column.name) for column in first} | {FILE}
    if not merge_schema and (missing := [name for name in wanted.names if folded(name) not in known]):
        there = ", ".join(sorted([column.name for column in first] + [FILE]))
        raise Mismatch(f"{printable(files[0].path)}: no column {missing[0]}; there are {there}")
    reading = Reading(source, wanted, tuple(first), merge_schema, columns is None and schema is None, folder, batch_rows)
    return Scan(wanted, tuple(files), reading, split_bytes, tuple(filters), catalog)


def _first_schema(
    files: list[Shard], source: Source, merge: bool, skipped: str | None
) -> tuple[list[Column], dict[str, pa.DataType]]:
    """The columns of the first file that can be read, or of all."""

    def look(shard: Shard) -> tuple[list[Column], dict[str, pa.DataType]] | Damaged:
        try:
            with opened(shard) as cursor:
                columns = _columns.columns_of(cursor, source, shard.path)
                return columns, _columns.types_of(cursor, source, columns)
        except Exception as raised:
            error = named(shard.path, raised)
            if skipped is not None and isinstance(error, Damaged):
                return error
            raise error from None

    if not merge:
        for shard in files:
            seen = look(shard)
            if not isinstance(seen, Damaged):
                return seen[0], {column.name: _columns.settled(column, seen[1][column.name]) for column in seen[0]}
            # The task that reads it reports it, unless no file can be read.
            last = seen
        raise last
    with ThreadPoolExecutor(THREADS) as pool:
        all_seen = list(pool.map(look, files))
    # By their folded names.
    columns: dict[str, Column] = {}
    types: dict[str, pa.DataType] = {}
    for shard, one in zip(files, all_seen):
        if isinstance(one, Damaged):
            continue
        for column in one[0]:
            kind, name = one[1][column.name], folded(column.name)
            columns.setdefault(name, column)
            before = types.setdefault(name, kind)
            if pa.types.is_null(before):
                types[name] = kind
            elif before != kind and not pa.types.is_null(kind):
                if {str(before), str(kind)} != {"int64", "double"}:
                    raise Mismatch(f"{printable(shard.path)}: column {column.name} is {kind}, and {before} in files before")
                types[name] = pa.float64()
    if not columns:
        raise next(one for one in all_seen if isinstance(one, Damaged))
    return list(columns.values()), {
        column.name: _columns.settled(column, types[name]) for name, column in columns.items()
    }
