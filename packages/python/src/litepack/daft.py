"""Daft: ``litepack.daft.read("logs/2026-*.db", table="log")``, many files as one lazy DataFrame.

A task is one part, and reads only the columns that the query needs, without rows and files that its conditions exclude as
far as SQL and a catalog can say. Needs ``pip install litepack[daft]``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

try:
    import pyarrow as pa
    from daft import DataFrame, Expression, Schema
    from daft.expressions.visitor import PredicateVisitor
    from daft.io.source import DataSource, DataSourceTask
    from daft.recordbatch import RecordBatch
except ImportError as error:
    raise ImportError(f"{error}: pip install 'litepack[daft]'") from error

from litepack import shards
from litepack.shards import Filter

if TYPE_CHECKING:
    from daft.io.pushdowns import Pushdowns

    from litepack.shards import Part, Scan
    from litepack.shards._find import Paths


def read(paths: Paths | None, sql: str | None = None, **options: Any) -> DataFrame:
    """The rows of ``sql`` on each file, or with ``table="..."`` those of a table; ``options`` are those of
    :func:`litepack.shards.scan`."""
    return Source(shards.scan(paths, query=sql, **options)).read()


@dataclass
class Source(DataSource):
    """A scan as Daft's source."""

    scan: Scan

    @property
    def name(self) -> str:
        return "litepack"

    @property
    def schema(self) -> Schema:
        return Schema.from_pyarrow_schema(self.scan.schema)

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        scan = self.scan
        if pushdowns.filters is not None:
            # Daft checks the conditions itself, on what is read.
            scan = scan.where(Conditions().of(pushdowns.filters))
        if pushdowns.columns:
            needed = {*pushdowns.columns, *pushdowns.filter_required_column_names(), *(one.column for one in scan.filters)}
            # Daft takes columns by position, in the order of the source.
            schema = pa.schema([field for field in scan.schema if field.name in needed])
            scan = replace(scan, schema=schema, reading=replace(scan.reading, schema=schema, all_columns=False))
        for part in scan.parts:
            yield Task(scan, part)


@dataclass
class Task(DataSourceTask):
    """A part as a task of Daft's."""

    scan: Scan
    part: Part

    @property
    def schema(self) -> Schema:
        return Schema.from_pyarrow_schema(self.scan.schema)

    async def read(self) -> AsyncIterator[RecordBatch]:
        for batch in self.scan.read(self.part):
            yield RecordBatch.from_arrow_record_batches([batch], self.scan.schema)


@dataclass(frozen=True)
class Name:
    """A column in an expression."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A value in an expression."""

    value: Any


class Conditions(PredicateVisitor[Any]):
    """An expression of Daft's as a list of conditions that are all true where it is; [] for what has none."""

    def of(self, expr: Expression) -> list[Filter]:
        found = self.visit(expr)
        # A column alone may be a condition, too.
        return found if isinstance(found, list) else []

    def visit_col(self, name: str) -> Any:
        return Name(name)

    def visit_lit(self, value: Any) -> Any:
        return Literal(value)

    def visit_alias(self, expr: Expression, alias: str) -> Any:
        return self.visit(expr)

    def visit_cast(self, expr: Expression, dtype: Any) -> Any:
        return []

    def visit_function(self, name: str, args: list[Expression]) -> Any:
        return []

    def visit_coalesce(self, args: list[Expression]) -> Any:
        return []

    def visit_and(self, left: Expression, right: Expression) -> Any:
        return [one for side in (left, right) for one in self.of(side)]

    def visit_or(self, left: Expression, right: Expression) -> Any:
        return []

    def visit_not(self, expr: Expression) -> Any:
        return []

    def visit_equal(self, left: Expression, right: Expression) -> Any:
        return self._compared(left, "=", right)

    def visit_not_equal(self, left: Expression, right: Expression) -> Any:
        return [replace(one, negated=True) for one in self._compared(left, "=", right)]

    def visit_less_than(self, left: Expression, right: Expression) -> Any:
        return self._compared(left, "<", right)

    def visit_less_than_or_equal(self, left: Expression, right: Expression) -> Any:
        return self._compared(left, "<=", right)

    def visit_greater_than(self, left: Expression, right: Expression) -> Any:
        return self._compared(left, ">", right)

    def visit_greater_than_or_equal(self, left: Expression, right: Expression) -> Any:
        return self._compared(left, ">=", right)

    def visit_between(self, expr: Expression, lower: Expression, upper: Expression) -> Any:
        return self._compared(expr, ">=", lower) + self._compared(expr, "<=", upper)

    def visit_is_in(self, expr: Expression, items: list[Expression]) -> Any:
        column, values = self.visit(expr), [self.visit(item) for item in items]
        if not isinstance(column, Name) or not all(isinstance(value, Literal) for value in values):
            return []
        return [Filter(column.name, "in", tuple(value.value for value in values))]

    def visit_is_null(self, expr: Expression) -> Any:
        column = self.visit(expr)
        return [Filter(column.name, "null")] if isinstance(column, Name) else []

    def visit_not_null(self, expr: Expression) -> Any:
        return [replace(one, negated=True) for one in self.visit_is_null(expr)]

    def _compared(self, left: Expression, op: str, right: Expression) -> list[Filter]:
        one, other = self.visit(left), self.visit(right)
        if isinstance(one, Literal) and isinstance(other, Name):
            one, op, other = other, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op), one
        if not isinstance(one, Name) or not isinstance(other, Literal):
            return []
        return [Filter(one.name, op, other.value)]
