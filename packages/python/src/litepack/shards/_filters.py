"""Conditions of an engine as SQL, so that a file leaves out rows that the engine would drop.

Promises that no row is left out for which the engine's condition is true. The engine checks all conditions again, so
what is not expressed here (or only in part) costs time and no row. Values are bound, names quoted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from litepack.shards._columns import Column, folded, quoted

# The opposites of those that are about order, for values that are not NULL.
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_COMPARISONS = {"=", "<", "<=", ">", ">="}
_ORDER = _COMPARISONS - {"="}
_MAX_VALUES = 500


@dataclass(frozen=True)
class Filter:
    """``column op value``, or its negation.

    ``op``: ``=``, ``<``, ``<=``, ``>``, ``>=``, ``is`` (equal, also NULL to NULL), ``in`` (a tuple), ``null`` (no
    value), ``startswith``, ``contains``. NULL is as in SQL: a comparison with it is not true, and neither is its
    negation.
    """

    column: str
    op: str
    value: Any = None
    negated: bool = False


def compiled(
    filters: tuple[Filter, ...], columns: dict[str, Column], schema: pa.Schema, utf8: bool
) -> tuple[str, list[Any]]:
    """SQL of those that can be expressed for a file with these columns, joined by AND; "" if none can. ``columns`` are
    by their folded names."""
    parts, values = [], []
    for one in filters:
        # One that this file does not have is NULL in all its rows; the engine sees to that.
        column = columns.get(folded(one.column))
        if column is None or one.column not in schema.names:
            continue
        made = _one(one, column, schema.field(one.column).type, utf8)
        if made is not None:
            parts.append(f"({made[0]})")
            values.extend(made[1])
    return " AND ".join(parts), values


def _one(one: Filter, column: Column, wanted: pa.DataType, utf8: bool) -> tuple[str, list[Any]] | None:
    name = quoted(column.name)
    if one.op == "null":
        return f"{name} IS {'NOT ' if one.negated else ''}NULL", []
    values = list(one.value) if one.op == "in" else [one.value]
    if len(values) > _MAX_VALUES or not values:
        return None
    if not all(value is None or _fits(value, wanted) for value in values):
        return None
    numbers_too = ""
    if pa.types.is_string(wanted):
        # The order of bytes is the engines'; a column may have another one. In UTF-16 it is another order of text.
        if not utf8 and (one.op in _ORDER or one.op in ("startswith", "contains")):
            return None
        if column.affinity != "TEXT":
            # Numbers may be in it, which become text in reading, and are less than any text in SQLite.
            if one.negated or any(value is None or _is_number(value) for value in values):
                return None
            numbers_too = f" OR {name} < ''"
        name = f"{name} COLLATE BINARY"
    if one.op in _COMPARISONS:
        sql = f"{name} {one.op} ?"
    elif one.op == "is":
        sql = f"{name} IS ?"
    elif one.op == "in":
        sql = f"{name} IN ({', '.join('?' * len(values))})"
    elif one.op == "startswith" and pa.types.is_string(wanted) and one.value is not None:
        # The comparison is for an index.
        sql = f"{name} >= ? AND substr({quoted(column.name)}, 1, ?) COLLATE BINARY = ?"
        values = [one.value, len(one.value), one.value]
    elif one.op == "contains" and pa.types.is_string(wanted) and one.value is not None:
        sql = f"instr({quoted(column.name)}, ?) > 0"
    else:
        return None
    return (f"NOT ({sql})" if one.negated else sql) + numbers_too, values


@dataclass(frozen=True)
class Bounds:
    """The bounds in a catalog of a column of a table in one file: no value is less than ``least`` or greater than
    ``greatest``, in SQLite's order (None: not known), and how many of the rows have none."""

    least: Any
    greatest: Any
    nulls: int
    rows: int


def is_impossible(one: Filter, wanted: pa.DataType, bounds: Bounds) -> bool:
    """Whether no row can meet a condition, for certain. ``wanted`` is the type as which the column is read."""
    if one.op == "null" or (one.op == "is" and one.value is None):
        if one.negated:
            return bounds.nulls == bounds.rows
        return bounds.nulls == 0
    if one.op == "is" and one.negated:
        return False
    if bounds.nulls == bounds.rows:
        # Of NULL no comparison is true, nor its negation.
        return True
    op = _OPPOSITE.get(one.op) if one.negated else one.op
    values = [value for value in one.value if value is not None] if op == "in" else [one.value]
    if op is None or not values or not all(_fits(value, wanted) for value in values):
        return False
    least, greatest = _comparable(bounds.least, wanted), _comparable(bounds.greatest, wanted)
    # Numbers become text in reading, and so may be any text; and text where numbers are wanted is an error to be told.
    if least is None and (bounds.least is not None or pa.types.is_string(wanted)):
        return False
    return all(_is_outside(op, _comparable(value, wanted), least, greatest) for value in values)


def _comparable(value: Any, wanted: pa.DataType) -> Any:
    """A value in the order of its type, which for text is that of bytes; None if it is not of this type."""
    if pa.types.is_string(wanted):
        return value.encode() if isinstance(value, str) else None
    return value if isinstance(value, (int, float)) else None


def _is_outside(op: str, value: Any, least: Any, greatest: Any) -> bool:
    """Whether ``x op value`` is false for each x between two bounds, of which None is no bound."""
    if op in ("=", "is", "in"):
        return (least is not None and value < least) or (greatest is not None and value > greatest)
    if op in ("<", "<="):
        return least is not None and (least > value or (op == "<" and least == value))
    if op in (">", ">="):
        return greatest is not None and (greatest < value or (op == ">" and greatest == value))
    if op == "startswith" and isinstance(value, bytes):
        return (least is not None and least[: len(value)] > value) or (greatest is not None and greatest < value)
    return False


def _fits(value: Any, wanted: pa.DataType) -> bool:
    """Whether SQLite compares it as the engine does: the same type, and no NaN, which SQLite does not have."""
    if pa.types.is_int64(wanted):
        return type(value) is int and -(2**63) <= value < 2**63
    if pa.types.is_float64(wanted):
        return type(value) is float and not math.isnan(value)
    if pa.types.is_string(wanted):
        # Some functions of SQLite take a zero as the end.
        return type(value) is str and "\0" not in value and _encodes(value)
    return False


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(text: str) -> bool:
    """Whether SQLite may compare this text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
