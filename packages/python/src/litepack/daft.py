"""Daft: ``litepack.daft.read("logs/2026-*.db", table="log")``, many files as one lazy DataFrame.

A task is one part, and reads only the columns that the query needs. Needs ``pip install litepack[daft]``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from daft import DataFrame, Schema
from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import RecordBatch

from litepack import shards

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
        if pushdowns.columns:
            # Daft checks the conditions itself, on what is read.
            needed = {*pushdowns.columns, *pushdowns.filter_required_column_names()}
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
