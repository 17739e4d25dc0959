"""Results of queries as Arrow, by the ADBC driver for SQLite. Its Arrow code is used, there is none here."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

from litepack._library import load
from litepack._uri import printable, uri, without_uri

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow

    from litepack._typing import Database, Parameters

_lock = threading.Lock()
_loaded = False


def arrow(
    database: Database, sql: str, parameters: Parameters | None = None, *, batch_rows: int = 65536
) -> pyarrow.RecordBatchReader:
    """The result of a query as a ``pyarrow.RecordBatchReader``, which reads it in batches as they are asked for.

    ``database`` is a path or URL, packed or plain, and is only read. SQLite's columns have no types: the first
    ``batch_rows`` rows decide on those of the result, and later values that do not fit are an error.

    Needs ``pip install litepack[arrow]``.
    """
    connection = connect_adbc(database)
    try:
        import pyarrow

        cursor = connection.cursor()
        batches = execute(cursor, sql, parameters, batch_rows)
    except BaseException:
        connection.close()
        raise

    def read() -> Iterator[pyarrow.RecordBatch]:
        # Here, so that the connection is closed when all is read, or when the reader is given up.
        with connection, cursor, batches:
            yield from batches

    return pyarrow.RecordBatchReader.from_batches(batches.schema, read())


def connect_adbc(database: Database) -> Any:
    """A connection of ``adbc_driver_sqlite.dbapi`` that only reads. The driver has a SQLite of its own."""
    global _loaded
    try:
        import pyarrow  # noqa: F401
        from adbc_driver_sqlite import dbapi
    except ImportError as error:
        raise ImportError(f"{error}: pip install 'litepack[arrow]'") from error
    with _lock:
        if not _loaded:
            with closing(dbapi.connect()) as connection:
                load(connection)
            _loaded = True
    shown, named = printable(os.fsdecode(database)), uri(database, mode="ro")
    try:
        return dbapi.connect(named)
    except Exception as error:
        # The driver shows the URI.
        error.args = (f"{shown}: {without_uri(str(error))}",)
        raise


def execute(cursor: Any, sql: str, parameters: Parameters | None, batch_rows: int) -> pyarrow.RecordBatchReader:
    """Runs a query; ``batch_rows`` rows decide on its types, and are in a batch."""
    cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(batch_rows)})
    cursor.execute(sql, parameters)
    return cursor.fetch_record_batch()
