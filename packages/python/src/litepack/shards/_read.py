"""One part of one file as Arrow batches, once or not at all.

A failure before the first batch is tried again here. After it, rows have been handed out, so it is an error: an engine
repeats the task and drops what it had of it. With ``skipped`` a part is read to its end into a temporary file before any
of it is handed out, so that a damaged one is left out as a whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from litepack._arrow import connect_adbc, execute
from litepack._uri import printable
from litepack.shards import _columns
from litepack.shards._columns import FILE, Column, Source, folded, quoted
from litepack.shards._errors import Damaged, Mismatch, Replaced, ShardError, named
from litepack.shards._filters import Filter, compiled
from litepack.shards._find import Shard, is_url, verify
from litepack.shards._split import rowid_of

_TRIES = 3
_PAUSE = 0.2  # seconds, doubled each time
# How the driver names a column.
_NUMBER = re.compile(r"\[SQLite\] Type mismatch in column (\d+)")


@dataclass(frozen=True)
class Part:
    """A file, or the rows of it whose rowids are from ``first`` to ``last``."""

    shard: Shard
    first: int | None = None
    last: int | None = None

    def __str__(self) -> str:
        rows = "" if self.first is None else f", rowids {self.first} to {self.last}"
        return f"{printable(self.shard.path)}{rows}"


@dataclass(frozen=True)
class Reading:
    """All that a task needs to know but its part; it can be pickled."""

    source: Source
    schema: pa.Schema
    # As the first file has them, to compare with.
    columns: tuple[Column, ...]
    merge_schema: bool
    # Whether a column that the scan does not have is an error; not where the columns were chosen.
    all_columns: bool
    skipped: str | None
    batch_rows: int

    def read(self, part: Part, filters: tuple[Filter, ...] = ()) -> Iterator[pa.RecordBatch]:
        if self.skipped is None:
            yield from self._tried(part, filters)
            return
        with tempfile.TemporaryFile() as file:
            try:
                with pa.ipc.new_stream(file, self.schema) as writer:
                    for batch in self._tried(part, filters):
                        writer.write_batch(batch)
            except Damaged as error:
                _report(self.skipped, part, error)
                return
            file.seek(0)
            yield from pa.ipc.open_stream(file)

    def _tried(self, part: Part, filters: tuple[Filter, ...]) -> Iterator[pa.RecordBatch]:
        for attempt in range(1, _TRIES + 1):
            handed_out = False
            try:
                for batch in self._once(part, filters):
                    handed_out = True
                    yield batch
                return
            except Exception as raised:
                error = named(part.shard.path, raised)
                if number := _NUMBER.search(str(error)):
                    name = self._fields()[int(number[1])].name
                    error = Mismatch(str(error).replace(number[0], f"column {name}"))
                final = isinstance(error, (Damaged, Mismatch, Replaced)) or not isinstance(error, ShardError)
                if final or handed_out or attempt == _TRIES:
                    raise (_replaced(part.shard) if isinstance(error, ShardError) else None) or error from None
            time.sleep(_PAUSE * 2 ** (attempt - 1))

    def _once(self, part: Part, filters: tuple[Filter, ...]) -> Iterator[pa.RecordBatch]:
        with opened(part.shard) as cursor:
            sql, values = self._sql(cursor, part, filters)
            raw = pa.schema([(field.name, _columns.RAW_TYPES[_columns.raw_type(field.type)]) for field in self._fields()])
            types = pa.schema(list(self._fields()))
            with execute(cursor, sql, values, self.batch_rows) as batches:
                for index, (expected, actual) in enumerate(zip(raw, batches.schema)):
                    # The driver chose a wider type for a value among the first rows.
                    if expected.type != actual.type:
                        raise Mismatch(
                            f"{printable(part.shard.path)}: column {expected.name} is read as {types.field(index).type}, "
                            f"and holds values that are {actual.type}"
                        )
                first = True
                for batch in batches:
                    # The row that the types come from.
                    if first:
                        batch, first = batch.slice(1), False
                    if batch.num_rows:
                        yield self._finished(batch, raw, types, part.shard.path)
            # The file under the name by now, and the one that the last rows were of.
            verify(part.shard, cursor)

    def _fields(self) -> list[pa.Field]:
        return [field for field in self.schema if field.name != FILE] or [pa.field("", pa.int64())]

    def _sql(self, cursor: Any, part: Part, filters: tuple[Filter, ...]) -> tuple[str, list[Any]]:
        found = {folded(column.name): column for column in _columns.columns_of(cursor, self.source, part.shard.path)}
        self._compare(found, part.shard.path)
        sentinels, expressions = [], []
        for field in self._fields():
            raw = _columns.raw_type(field.type)
            sentinels.append(f"{_columns.RAW[raw]} AS {quoted(field.name)}")
            column = found.get(folded(field.name))
            expressions.append(_columns.expression(column, field.type) if column is not None else "NULL")
        cursor.execute("PRAGMA encoding")
        where, values = compiled(filters, found, self.schema, cursor.fetchone()[0] == "UTF-8")
        conditions = [where] if where else []
        if part.first is not None and self.source.table is not None:
            rowid = rowid_of(cursor, self.source.table, list(found))
            if rowid is None:
                raise Mismatch(f"{printable(part.shard.path)}: {self.source.table} has no rowid")
            conditions.append(f"{rowid} BETWEEN ? AND ?")
            values += [part.first, part.last]
        sql = f"SELECT {', '.join(sentinels)} UNION ALL SELECT {', '.join(expressions)} FROM {self.source.sql}"
        return (f"{sql} WHERE {' AND '.join(conditions)}" if conditions else sql), values

    def _compare(self, found: dict[str, Column], path: str) -> None:
        """Whether a file has the columns of the scan; with ``merge_schema`` it may have less of them."""
        names = {folded(name) for name in self.schema.names}
        for column in self.columns:
            if folded(column.name) not in names:
                continue
            here = found.get(folded(column.name))
            if here is None:
                if self.merge_schema:
                    continue
                raise Mismatch(
                    f"{printable(path)}: no column {column.name}, which the first file has; "
                    "with merge_schema it is read as NULL"
                )
            if here.affinity != column.affinity and not self.merge_schema:
                raise Mismatch(
                    f"{printable(path)}: column {column.name} is declared {here.declared or 'without a type'}, "
                    f"and {column.declared or 'without a type'} in the first file"
                )
        more = [column.name for name, column in found.items() if name not in names]
        if more and self.all_columns and not self.merge_schema:
            raise Mismatch(
                f"{printable(path)}: has a column {more[0]}, which the first file does not have; "
                "name the columns to read, or read all with merge_schema"
            )

    def _finished(self, batch: pa.RecordBatch, raw: pa.Schema, types: pa.Schema, path: str) -> pa.RecordBatch:
        try:
            # Text may be any bytes in SQLite.
            batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise Mismatch(f"{printable(path)}: text that is not UTF-8: {error}") from error
        batch = _columns.convert(batch, types, path)
        if FILE not in self.schema.names:
            return batch
        arrays = [
            pa.repeat(printable(path), batch.num_rows) if field.name == FILE else batch.column(field.name)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@contextmanager
def opened(shard: Shard) -> Iterator[Any]:
    """A cursor on a file that is of the version that was planned, in a transaction: all it reads is of one commit."""
    with closing(connect_adbc(shard.path)) as connection, closing(connection.cursor()) as cursor:
        # A file may come from a stranger: nothing in its schema calls what is not meant for that.
        cursor.execute("PRAGMA trusted_schema = OFF")
        cursor.execute("PRAGMA busy_timeout = 10000")
        # The transaction begins here; what is checked after it holds for all of it.
        cursor.execute("SELECT count(*) FROM sqlite_schema")
        cursor.fetchall()
        verify(shard, cursor)
        yield cursor


def _replaced(shard: Shard) -> Replaced | None:
    """Whether a file that could not be read is another one by now, which is then the reason."""
    try:
        if is_url(shard.path):
            with opened(shard):
                pass
        else:
            verify(shard, None)
    except Replaced as error:
        return error
    except Exception:
        pass
    return None


def _report(folder: str, part: Part, error: Damaged) -> None:
    """One file for a part, by a name that a repeated task uses again: so nothing is counted twice."""
    os.makedirs(folder, exist_ok=True)
    name = hashlib.sha256(repr((part.shard.path, part.first, part.last)).encode()).hexdigest()[:32]
    report = {"file": printable(part.shard.path), "first": part.first, "last": part.last, "why": str(error)}
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", delete=False) as file:
        json.dump(report, file)
    os.replace(file.name, os.path.join(folder, f"{name}.json"))


def skipped(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows and files left out by scans that had ``skipped=folder``: dicts of ``file``, ``first``, ``last`` (rowids,
    None for the whole file) and ``why``."""
    if not os.path.isdir(folder):
        return []
    reports = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json") and not name.startswith("."):
            with open(os.path.join(folder, name)) as file:
                reports.append(json.load(file))
    return sorted(reports, key=lambda report: (report["file"], report["first"] or 0))
