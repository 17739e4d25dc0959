"""The libraries and the command in this package, and getting the extension into a process.

Loading it once is enough for all later connections of the same SQLite library, which need not be Python's own.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from litepack._typing import Connection

BINARIES = Path(__file__).parent / "binaries"

CANNOT_LOAD = (
    "this Python's sqlite3 cannot load extensions: it was built without --enable-loadable-sqlite-extensions. "
    "Use a Python that was built with it, as those of Debian, Fedora and conda, "
    "or another SQLite: pip install pysqlite3-binary, or apsw"
)

_lock = threading.Lock()
_loaded = False


def loadable_path(*, default: bool = False) -> str:
    """The path of the extension, for programs that load it themselves.

    With ``default`` it is the library with which Litepack becomes the default VFS: packed files open by their name.
    """
    return str(BINARIES / _file_name("litepackdefault" if default else "litepack"))


def command_path() -> str:
    """The path of the ``litepack`` command."""
    return str(BINARIES / ("litepack.exe" if sys.platform == "win32" else "litepack"))


def _file_name(name: str) -> str:
    """The file of a library of this package, as this system calls it."""
    if sys.platform == "win32":
        return f"{name}.dll"
    # The other two are names that programs ask for, without a prefix.
    prefix = "lib" if name == "litepack" else ""
    return f"{prefix}{name}.dylib" if sys.platform == "darwin" else f"{prefix}{name}.so"


def load(connection: Connection, *, default: bool = False) -> None:
    """Loads the extension through a connection of ``sqlite3``, pysqlite3 or APSW.

    Its functions are there on this connection. Packed databases can be opened from now on, by :func:`litepack.uri`:
    one that is open already was opened without Litepack. So any connection will do, also one to ``":memory:"``.

    With ``default`` packed files open by their name, too.
    """
    if not hasattr(connection, "enable_load_extension"):
        raise sqlite3.NotSupportedError(CANNOT_LOAD)
    connection.enable_load_extension(True)
    try:
        connection.load_extension(loadable_path(default=default))
    finally:
        connection.enable_load_extension(False)


def register(*, new_databases: Literal["plain", "packed"] | None = None) -> None:
    """From now on ``sqlite3`` opens packed files by their name, in the whole process. So does pysqlite3 where it is
    installed: peewee and others then use it in place of ``sqlite3``.

    Plain files stay plain. What a new database becomes is "plain" unless ``new_databases`` says otherwise.
    For APSW use ``litepack.load(connection, default=True)``.
    """
    with _lock, closing(sqlite3.connect(":memory:")) as connection:
        _load_into_sqlite3(connection, default=True)
    other = _pysqlite3()
    if other is not None:
        with _lock, closing(other.connect(":memory:")) as connection:
            load(connection, default=True)
    if new_databases is not None:
        _configure("litepack_new_databases", new_databases)
        if other is not None:
            with closing(other.connect(":memory:")) as connection:
                connection.enable_load_extension(True)
                connection.execute("select litepack_new_databases(?)", (new_databases,)).fetchone()


def remote_headers(origin: str, headers: str | None) -> None:
    """Sends these headers, one ``Name: value`` in a line, with every request of this process to the web server
    ``origin`` (``"https://data.example"``). ``None`` removes them.

    This is for databases that are opened from now on, by any SQLite library that uses this package.
    """
    load_once()
    _configure("litepack_remote_headers", origin, headers)


def remote_config(name: str, value: str | int | None) -> None:
    """Sets how this process reads from web servers and object stores, such as ``"cache_dir"`` or ``"s3_endpoint"``.

    The settings are those of the SQL function ``litepack_remote_config``; ``None`` restores the default.
    """
    load_once()
    _configure("litepack_remote_config", name, value)


def _configure(function: str, *values: str | int | None) -> None:
    """Calls a function that sets what holds for the process, on a connection that lets SQL load code: on no other may
    SQL do so."""
    sql = f"select {function}({', '.join('?' * len(values))})"
    with closing(sqlite3.connect(":memory:")) as connection:
        if hasattr(connection, "enable_load_extension"):
            connection.enable_load_extension(True)
            connection.execute(sql, values).fetchone()
            return
    quoted = ["null" if value is None else str(value) if isinstance(value, int) else _quoted(value) for value in values]
    _load_below_python(str(BINARIES / _file_name("litepackconfigure")), f"select {function}({', '.join(quoted)})")


def _quoted(text: str) -> str:
    if "\0" in text:
        raise ValueError("a value contains a NUL character")
    return "'" + text.replace("'", "''") + "'"


def _pysqlite3() -> Any:
    """The module pysqlite3, which has a SQLite of its own; None if there is none that can load extensions."""
    if find_spec("pysqlite3") is None:
        return None
    try:
        module: Any = import_module("pysqlite3.dbapi2")
    except ImportError:
        return None
    return module if hasattr(module.Connection, "enable_load_extension") else None


def load_once() -> None:
    """Has the extension in Python's ``sqlite3``, without changing what names mean."""
    global _loaded
    with _lock:
        if not _loaded:
            with closing(sqlite3.connect(":memory:")) as connection:
                _load_into_sqlite3(connection, default=False)
            _loaded = True


def _load_into_sqlite3(connection: sqlite3.Connection, *, default: bool) -> None:
    if hasattr(connection, "enable_load_extension"):
        load(cast("Connection", connection), default=default)
    else:
        _load_below_python(loadable_path(default=default))


def _load_below_python(path: str, sql: str | None = None) -> None:
    """Loads it, and then runs a statement, through the SQLite library that Python's ``sqlite3`` is linked to, where that is a library of its own.

    A Python can be built without the methods that load extensions, while SQLite has them.
    """
    import _sqlite3
    import ctypes

    handle, message = ctypes.c_void_p(), ctypes.c_char_p()
    try:
        # Symbols are looked up in what it is linked to as well, so this is the library that it uses.
        sqlite = ctypes.CDLL(_sqlite3.__file__)
        for name in ("open", "enable_load_extension", "load_extension", "exec"):
            getattr(sqlite, f"sqlite3_{name}").restype = ctypes.c_int
    except (AttributeError, OSError):
        raise sqlite3.NotSupportedError(CANNOT_LOAD) from None
    try:
        if sqlite.sqlite3_open(b":memory:", ctypes.byref(handle)) != 0:
            raise MemoryError
        sqlite.sqlite3_enable_load_extension(handle, 1)
        if sqlite.sqlite3_load_extension(handle, os.fsencode(path), None, ctypes.byref(message)) != 0:
            raise sqlite3.OperationalError((message.value or b"litepack cannot be loaded").decode(errors="replace"))
        sqlite.sqlite3_enable_load_extension(handle, 0)
        if sql is not None and sqlite.sqlite3_exec(handle, sql.encode(), None, None, ctypes.byref(message)) != 0:
            raise sqlite3.OperationalError((message.value or b"out of memory").decode(errors="replace"))
    finally:
        sqlite.sqlite3_close(handle)
