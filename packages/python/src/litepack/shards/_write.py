"""A packed file from Arrow batches, and many of them put in place together.

    job = begin(folder, mode)               # once: makes a hidden folder
    name = write(folder, job, batches)      # in each task: a file of its own in there
    commit(folder, job, names, mode)        # once, when all tasks are done; or discard(folder, job)

A task that still runs when its job is discarded fails, as its folder is gone: only ``begin`` makes it.

Promises that nothing that looks finished is in ``folder`` before ``commit``, that a task that is done twice leaves one
file, and that all values can be read back as they were, or are an error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Literal

import pyarrow as pa
import pyarrow.compute as compute

from litepack._library import command_path
from litepack._uri import printable
from litepack.shards._columns import FILE, folded, quoted
from litepack.shards._find import absolute, is_url

Mode = Literal["append", "overwrite", "error"]
_PREFIX, _SUFFIX = "part-", ".db"
_INGEST_ROWS = 65536
_TRIES, _PAUSE = 50, 0.1  # seconds


def staging(folder: str, job: str) -> str:
    """Where the files of a job are until it is committed: beside the folder, so that renaming is enough."""
    if is_url(folder):
        raise ValueError(f"{printable(folder)}: files are written to a folder; copy them to where they shall be")
    folder = absolute(folder)
    return os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}.{job}.unfinished")


def check_target(folder: str, mode: Mode) -> None:
    """Raises before any work if ``commit`` would refuse the folder."""
    if mode not in ("append", "overwrite", "error"):
        raise ValueError(f"mode is 'append', 'overwrite' or 'error', not {mode!r}")
    staging(folder, "")
    folder = absolute(folder)
    if not os.path.lexists(folder):
        return
    if not os.path.isdir(folder) or os.path.islink(folder):
        raise NotADirectoryError(f"{folder}: not a folder")
    present = os.listdir(folder)
    if mode == "error" and present:
        raise FileExistsError(f"{folder}: there are files in it; mode 'append' or 'overwrite'")
    if mode == "overwrite":
        _check_replaceable(folder, present)


def _check_replaceable(folder: str, present: Sequence[str]) -> None:
    """Files that were not written here are not deleted."""
    others = [name for name in present if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX))]
    if others:
        raise FileExistsError(f"{folder}: has {others[0]}, which is none of the files that are written here: not replaced")


def begin(folder: str, mode: Mode = "error") -> str:
    """Names a job that is going to write to the folder, and makes room for its files. The folder must be one that
    :func:`commit` would take."""
    check_target(folder, mode)
    job = uuid.uuid4().hex[:12]
    os.makedirs(staging(folder, job))
    return job


def write(
    folder: str,
    job: str,
    batches: Iterable[pa.RecordBatch],
    *,
    table: str = "data",
    indexes: Sequence[Sequence[str]] = (),
    number: int | None = None,
) -> str | None:
    """Writes one packed file for ``commit``, and returns its name; None if there is no row.

    The file has one table. Times and dates are text in UTC as SQLite's functions read it, decimals are text. NaN, which
    SQLite does not have, and nested values are errors.
    """
    from adbc_driver_sqlite import dbapi

    hidden = staging(folder, job)
    order = "" if number is None else f"{number:05}-"
    name = f"{_PREFIX}{order}{job}-{uuid.uuid4().hex[:8]}{_SUFFIX}"
    rows = 0
    with tempfile.TemporaryDirectory(prefix="litepack-") as work:
        plain = os.path.join(work, "plain.db")
        with closing(dbapi.connect(plain)) as connection, closing(connection.cursor()) as cursor:
            # It is thrown away if anything fails.
            connection.adbc_connection.set_autocommit(True)
            for setting in ("journal_mode = off", "synchronous = off"):
                cursor.execute(f"PRAGMA {setting}").fetchall()
            connection.adbc_connection.set_autocommit(False)
            for batch in batches:
                if not batch.num_rows:
                    continue
                if not rows:
                    if FILE in map(folded, batch.schema.names):
                        raise ValueError(f"column {FILE}: readers have the name of the file there; give it another name")
                    declared = ", ".join(f"{quoted(field.name)} {_declared(field)}" for field in batch.schema)
                    cursor.execute(f"CREATE TABLE {quoted(table)} ({declared})")
                for start in range(0, batch.num_rows, _INGEST_ROWS):
                    piece = _stored(batch.slice(start, _INGEST_ROWS))
                    cursor.adbc_ingest(table, piece, mode="append")
                    rows += piece.num_rows
            for position, names in enumerate(indexes if rows else ()):
                columns = ", ".join(map(quoted, names))
                cursor.execute(f"CREATE INDEX {quoted(f'{table}_{position}')} ON {quoted(table)} ({columns})")
            connection.commit()
        if not rows:
            return None
        if not os.path.isdir(hidden):
            raise FileNotFoundError(f"{hidden}: the job was discarded, or never begun")
        command = [command_path(), "pack", plain, os.path.join(hidden, name)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{name}: {done.stderr.strip()}")
    return name


def commit(folder: str, job: str, names: Iterable[str | None], mode: Mode = "error") -> list[str]:
    """Puts the files of a job in place, and returns their paths.

    A new folder appears in one step, and takes the place of no files. ``overwrite`` gives the former one another name
    right before that, under which it stays if the process is killed in between. ``append`` renames the files one by
    one, and takes back those before one that fails.

    After an error the job is to be discarded.
    """
    check_target(folder, mode)
    folder = absolute(folder)
    wanted = [name for name in names if name is not None]
    # Under another name of the folder attempts that still run begin no file any more, and finish none.
    ready = staging(folder, f"{job}.ready")
    os.rename(staging(folder, job), ready)
    # Files of attempts that were repeated.
    for name in set(os.listdir(ready)) - set(wanted):
        os.remove(os.path.join(ready, name))
    if missing := set(wanted) - set(os.listdir(ready)):
        raise FileNotFoundError(f"{os.path.join(ready, min(missing))}: was written by a task, and is not there")
    if (mode == "append" and os.path.isdir(folder)) or not _is_placed(ready, folder, mode):
        if mode == "append":
            _append(ready, folder, wanted)
        else:
            _replace(ready, folder, staging(folder, f"{job}.former"))
    # The work is done: an error would have it done again.
    try:
        _sync(folder)
        _sync(os.path.dirname(folder))
    except OSError as error:
        warnings.warn(f"{folder}: the files are in place, but may be lost if power fails now: {error}", stacklevel=2)
    return [os.path.join(folder, name) for name in wanted]


def _is_placed(ready: str, folder: str, mode: Mode) -> bool:
    """Puts a folder where there is none, or an empty one. Where another job may have put its files since the folder was
    checked, the system refuses."""
    try:
        os.rename(ready, folder)
    except OSError as error:
        # If it is that, in the same words as before the work.
        check_target(folder, mode)
        if mode == "error" or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _append(ready: str, folder: str, names: Sequence[str]) -> None:
    placed: list[str] = []
    try:
        for name in names:
            os.rename(os.path.join(ready, name), os.path.join(folder, name))
            placed.append(name)
    except BaseException:
        for name in placed:
            os.remove(os.path.join(folder, name))
        raise
    # It is empty, and the work is done: an error would have it done again.
    shutil.rmtree(ready, ignore_errors=True)


def _replace(ready: str, folder: str, former: str) -> None:
    os.rename(folder, former)
    try:
        # A file may have come since the folder was checked. Under this name none comes any more.
        _check_replaceable(folder, os.listdir(former))
        os.rename(ready, folder)
    except BaseException:
        os.rename(former, folder)
        raise
    shutil.rmtree(former, ignore_errors=True)


def discard(folder: str, job: str) -> None:
    """Removes what a job has written that is not committed. Tasks may still run: under another name of the folder they
    begin no file any more, and what one just had in hand is gone soon."""
    gone = staging(folder, f"{job}.gone")
    # The second if its commit has failed.
    for hidden in (staging(folder, job), staging(folder, f"{job}.ready")):
        with contextlib.suppress(FileNotFoundError):
            os.rename(hidden, gone)
    for _ in range(_TRIES):
        shutil.rmtree(gone, ignore_errors=True)
        if not os.path.exists(gone):
            return
        time.sleep(_PAUSE)


def _sync(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _declared(field: pa.Field) -> str:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_boolean(kind):
        return "BOOLEAN"
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_decimal(kind):
        return "TEXT"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "BLOB"
    if pa.types.is_date(kind):
        return "DATE"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    raise TypeError(f"column {field.name}: {kind} cannot be stored in SQLite; make it text first, for example JSON")


def _stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    names, arrays = [], []
    for field, array in zip(batch.schema, batch.columns):
        try:
            arrays.append(_storable(array))
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {field.name}: {error}") from error
        names.append(field.name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _storable(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_floating(kind):
        if compute.any(compute.is_nan(array)).as_py():
            raise pa.ArrowInvalid("holds NaN, which SQLite would store as NULL")
        return array.cast(pa.float64())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return array.cast(pa.int64())
    if pa.types.is_timestamp(kind):
        if kind.tz is not None:
            array = array.cast(pa.timestamp(kind.unit, "UTC"))
            array = array.cast(pa.timestamp(kind.unit))
        return array.cast(pa.string())
    if pa.types.is_date(kind) or pa.types.is_decimal(kind) or pa.types.is_large_string(kind):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_large_binary(kind) else array
