"""Dask: many files as one DataFrame, and a DataFrame as many packed files.

    import litepack.dask

    logs = litepack.dask.read("logs/2026-*.db", "select at, status from log")
    litepack.dask.write_partitions(logs, "folder", table="log")

A task is one part, read to its end: one that is repeated starts again with nothing. Needs ``pip install
litepack[dask]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

try:
    import dask  # noqa: F401
    import pyarrow as pa
except ImportError as error:
    raise ImportError(f"{error}: pip install 'litepack[dask]'") from error

from litepack import shards

if TYPE_CHECKING:
    from litepack.shards import Part, Scan
    from litepack.shards._find import Paths
    from litepack.shards._write import Mode


def read(paths: Paths | None, sql: str | None = None, **options: Any) -> Any:
    """A ``dask.dataframe.DataFrame``: the rows of ``sql`` on each file, or with ``table="..."`` those of a table.

    ``options`` are those of :func:`litepack.shards.scan`; a table is split where a file is large, a query is not.
    """
    import dask.dataframe as dataframe

    scan = shards.scan(paths, query=sql, **options)
    meta = _frame(scan.schema.empty_table())
    parts = scan.parts
    if not parts:
        return dataframe.from_pandas(meta, npartitions=1)
    return dataframe.from_map(_read, parts, scan=scan, meta=meta, label="litepack")


def _read(part: Part, scan: Scan) -> Any:
    return _frame(pa.Table.from_batches(list(scan.read(part)), scan.schema))


def _frame(table: pa.Table) -> Any:
    import pandas

    # Types of Arrow: NULL stays apart from NaN, and whole numbers stay whole.
    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def write_partitions(
    frame: Any, folder: str, *, table: str = "data", indexes: Sequence[Sequence[str]] = (), mode: Mode = "error"
) -> list[str]:
    """Writes a packed file for each partition of a Dask DataFrame, and returns their paths.

    They get their names when all are written, so that a failure leaves the folder as it was. ``mode``: ``error`` if
    there are files in the folder, ``append``, or ``overwrite``. The index of the frame is not written.
    """
    import dask

    schema = pa.Schema.from_pandas(frame._meta, preserve_index=False)
    job = shards.begin(folder, mode)
    try:
        tasks = [
            dask.delayed(_write)(part, schema, folder, job, table, indexes, number)
            for number, part in enumerate(frame.to_delayed())
        ]
        return shards.commit(folder, job, dask.compute(*tasks), mode)
    except BaseException:
        shards.discard(folder, job)
        raise


def _write(
    part: Any, schema: pa.Schema, folder: str, job: str, table: str, indexes: Sequence[Sequence[str]], number: int
) -> str | None:
    batches = _as_declared(pa.Table.from_pandas(part, preserve_index=False), schema).to_batches()
    return shards.write(folder, job, batches, table=table, indexes=indexes, number=number)


def _as_declared(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A partition with the types of the whole, where those are known: its own values may tell less, as where all of a
    column are NULL. Of a column of objects they alone tell, and without any it is text."""
    for position, field in enumerate(table.schema):
        at = schema.get_field_index(field.name)
        kind = schema.field(at).type if at >= 0 else pa.null()
        if pa.types.is_null(kind) or pa.types.is_dictionary(kind):
            kind = pa.string() if pa.types.is_null(field.type) else field.type
        try:
            table = table.set_column(position, field.name, table.column(position).cast(kind))
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {field.name}: {error}") from error
    return table
