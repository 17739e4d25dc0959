"""From SQLite's columns to Arrow's types, and whether the columns of all files agree.

SQLite's types belong to values. A column's declared type decides what is stored where it can be converted (its
*affinity*), so it decides here where it leaves no choice, and the first rows of the first file do elsewhere. A value
that does not fit is an error, wherever in a file it is: nothing is rounded or cut.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from litepack._uri import printable
from litepack.shards._errors import Damaged, Mismatch

FILE = "_file"
SAMPLE = 1000
# The types that the driver gives; other types are made from these.
RAW = {"int64": "0", "double": "0.0", "string": "''", "binary": "x''"}
RAW_TYPES = {"int64": pa.int64(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary()}


@dataclass(frozen=True)
class Column:
    """A column as one file has it: its name and its affinity (INTEGER, REAL, TEXT, BLOB, NUMERIC; "" is unknown)."""

    name: str
    affinity: str
    declared: str = ""


@dataclass(frozen=True)
class Source:
    """The rows that are read of each file: a table, or a query."""

    table: str | None
    query: str | None

    @property
    def sql(self) -> str:
        """The text behind FROM."""
        return quoted(self.table) if self.table is not None else f"({self.query}\n)"


_LETTERS = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def folded(name: str) -> str:
    """Equal for names of tables and columns that SQLite takes for the same: only A to Z have no case there."""
    return name.translate(_LETTERS)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def affinity(declared: str) -> str:
    """SQLite's rule (https://sqlite.org/datatype3.html, 3.1)."""
    declared = declared.upper()
    if "INT" in declared:
        return "INTEGER"
    if any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if not declared or "BLOB" in declared:
        return "BLOB"
    if any(word in declared for word in ("REAL", "FLOA", "DOUB")):
        return "REAL"
    return "NUMERIC"


def columns_of(cursor: Any, source: Source, path: str) -> list[Column]:
    """The columns that a file has. A missing table is :class:`Damaged`, and so can be skipped."""
    found = _columns_of(cursor, source, path)
    if any(folded(column.name) == FILE for column in found):
        raise Mismatch(
            f"{printable(path)}: has a column {FILE}, which is the name of the file here: "
            f"read a query that gives it another name, 'select {FILE} as file, ... from ...'"
        )
    return found


def _columns_of(cursor: Any, source: Source, path: str) -> list[Column]:
    if source.table is not None:
        sql = "SELECT type FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE"
        cursor.execute(sql, (source.table,))
        row = cursor.fetchone()
        if row is None:
            raise Damaged(f"{printable(path)}: no such table: {source.table}")
        # A view is SQL that the writer of the file chose.
        if row[0] == "view":
            raise Mismatch(f"{printable(path)}: {source.table} is a view: read it as a query, 'select * from ...'")
        cursor.execute("SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden IN (0, 2, 3)", (source.table,))
        return [Column(name, affinity(declared or ""), declared or "") for name, declared in cursor.fetchall()]
    cursor.execute(f"CREATE TEMP VIEW litepack_query AS {source.query}")
    try:
        cursor.execute("SELECT name, type FROM pragma_table_xinfo('litepack_query', 'temp')")
        # The type of an expression is unknown; one of a plain column is that column's.
        found = [Column(name, affinity(kind) if kind else "", kind or "") for name, kind in cursor.fetchall()]
    finally:
        cursor.execute("DROP VIEW litepack_query")
    return found


def types_of(cursor: Any, source: Source, columns: list[Column]) -> dict[str, pa.DataType]:
    """The Arrow types of columns, by their affinity or else by the first rows; null where those have no value."""
    known = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}
    types = {column.name: known[column.affinity] for column in columns if column.affinity in known}
    open_ones = [column for column in columns if column.name not in types]
    if open_ones:
        kinds = ", ".join(f"group_concat(DISTINCT typeof({quoted(column.name)}))" for column in open_ones)
        names = ", ".join(quoted(column.name) for column in open_ones)
        cursor.execute(f"SELECT {kinds} FROM (SELECT {names} FROM {source.sql} LIMIT {SAMPLE})")
        for column, seen in zip(open_ones, cursor.fetchone()):
            types[column.name] = _by_values(column, set((seen or "").split(",")))
    return types


def _by_values(column: Column, seen: set[str]) -> pa.DataType:
    if "text" in seen:
        return pa.string()
    if "blob" in seen:
        return pa.binary()
    # A column of amounts whose first rows are whole numbers.
    if "real" in seen or ("integer" in seen and any(word in column.declared.upper() for word in ("DEC", "NUMERIC"))):
        return pa.float64()
    if "integer" in seen:
        return pa.int64()
    return pa.null()


def settled(column: Column, kind: pa.DataType) -> pa.DataType:
    """The type of a column of which :func:`types_of` saw no value in any file."""
    if not pa.types.is_null(kind):
        return kind
    return pa.binary() if "BLOB" in column.declared.upper() else pa.string()


def raw_type(wanted: pa.DataType) -> str:
    """As which of the driver's types a column is read that shall be of another one in the end."""
    if pa.types.is_integer(wanted) or pa.types.is_boolean(wanted):
        return "int64"
    if pa.types.is_floating(wanted):
        return "double"
    if pa.types.is_binary(wanted) or pa.types.is_large_binary(wanted):
        return "binary"
    if pa.types.is_string(wanted) or pa.types.is_large_string(wanted):
        return "string"
    if pa.types.is_timestamp(wanted) or pa.types.is_date(wanted) or pa.types.is_decimal(wanted):
        return "string"
    raise ValueError(f"no column of SQLite can be read as {wanted}")


def expression(column: Column, wanted: pa.DataType) -> str:
    """SQL that gives the column as the raw type of ``wanted``, or an error that names the column.

    The driver takes a type from the first batch and converts what comes later, so what a value becomes would depend on
    where it is. So values it would convert are an error here. (`json_extract` raises what its path says.)
    """
    name = quoted(column.name)
    raw = raw_type(wanted)
    words = f"column {column.name} is read as {wanted}, and holds a value of type ".replace("'", "''")
    error = f"json_extract('{{}}', '{words}' || typeof({name}))"
    if pa.types.is_timestamp(wanted) or pa.types.is_date(wanted):
        # As SQLite's own functions have it: ISO 8601 text, or seconds since 1970.
        words = f"column {column.name} is read as {wanted}, and holds no seconds since 1970, but ".replace("'", "''")
        # SQLite's functions end with the year 9999: milliseconds, for one, are beyond it.
        moment = f"strftime('%Y-%m-%d %H:%M:%S', {name}, 'unixepoch')"
        return (
            f"CASE typeof({name}) WHEN 'text' THEN {name} WHEN 'null' THEN NULL WHEN 'integer' THEN "
            f"coalesce({moment}, json_extract('{{}}', '{words}' || {name})) ELSE {error} END"
        )
    if raw == "string":
        other = name if column.affinity == "TEXT" else f"CAST({name} AS TEXT)"
        return f"CASE typeof({name}) WHEN 'blob' THEN {error} ELSE {other} END"
    if raw == "binary":
        return f"CASE WHEN typeof({name}) IN ('blob', 'text', 'null') THEN {name} ELSE {error} END"
    if raw == "double" and column.affinity != "REAL":
        # An integer that a double does not hold.
        return (
            f"CASE WHEN typeof({name}) = 'integer' AND {name} NOT BETWEEN -9007199254740992 AND 9007199254740992 "
            f"THEN {error} ELSE {name} END"
        )
    # Other values than these are an error of the driver, in every batch.
    return name


def convert(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """A batch of raw types as one of the types of ``schema``."""
    arrays = []
    for field, array in zip(schema, batch.columns):
        try:
            arrays.append(_cast(array, field.type))
        except pa.ArrowInvalid as error:
            raise Mismatch(f"{printable(path)}: column {field.name} is read as {field.type}: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    if pa.types.is_boolean(wanted):
        import pyarrow.compute as compute

        others = compute.any(compute.greater(compute.abs_checked(array), 1)).as_py()
        if others or compute.any(compute.less(array, 0)).as_py():
            raise pa.ArrowInvalid("a number other than 0 and 1")
    if pa.types.is_timestamp(wanted) or pa.types.is_date(wanted):
        # Text without a zone is in UTC, as SQLite has it.
        try:
            moments = array.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            moments = array.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        if pa.types.is_timestamp(wanted) and wanted.tz is not None:
            moments = moments.cast(pa.timestamp("us", "UTC"))
        found = moments.cast(wanted)
        if pa.types.is_date(wanted) and not found.cast(moments.type).equals(moments):
            raise pa.ArrowInvalid("a time of a day, which a date does not have")
        return found
    found = array.cast(wanted)
    if pa.types.is_floating(wanted) and not found.cast(array.type).equals(array):
        raise pa.ArrowInvalid("a number that has more digits")
    return found
