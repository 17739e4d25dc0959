"""SQLite databases stored compressed, several times smaller on disk, and used as always.

    import litepack

    db = litepack.connect("app.db")      # a sqlite3.Connection

A file that is packed is read and written packed, a plain one stays plain, and a new one becomes packed.

Programs that open databases by themselves call :func:`register` first. From then on packed files open by their name
in Python's ``sqlite3``, and everything else is as it was.
"""

from __future__ import annotations

import os
import sqlite3
from importlib.metadata import version
from typing import TYPE_CHECKING

from litepack._arrow import arrow
from litepack._keys import give_key
from litepack._library import command_path, load, loadable_path, load_once, register, remote_config, remote_headers
from litepack._uri import add_vfs, uri

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from litepack._typing import ConnectOptions, Database

__all__ = [
    "arrow",
    "command_path",
    "connect",
    "load",
    "loadable_path",
    "register",
    "remote_config",
    "remote_headers",
    "uri",
]
__version__ = version("litepack")


def connect(
    database: Database, *, key: str | bytes | None = None, **options: Unpack[ConnectOptions]
) -> sqlite3.Connection:
    """Opens a database, packed or not, and returns a connection of Python's ``sqlite3``.

    ``database`` is what :func:`sqlite3.connect` takes: a path as ``str``, ``bytes`` or ``pathlib.Path``, ``":memory:"``,
    or with ``uri=True`` a URI. A path may have any characters in it. ``options`` are those of :func:`sqlite3.connect`.

    What there is is not changed: a packed file is used packed, a plain one plain. A file that does not exist is created,
    and is packed. ``uri=True`` with ``"file:app.db?mode=rw"`` creates none.

    ``"http://..."`` and ``"https://..."`` open a file on a web server, ``"s3://bucket/key"`` one in an object store,
    read-only, and fetch what a query needs.

    ``key`` is that of an encrypted database, and a new one is encrypted with it: a passphrase as ``str``, or 32 ``bytes``.
    A wrong key, or one for a database that is not encrypted, raises :class:`sqlite3.DatabaseError`.
    """
    load_once()
    give = give_key(key)
    named = add_vfs(os.fsdecode(database)) if options.pop("uri", False) else uri(database)
    # Which overload it is depends on the options; their types are checked above.
    opened: sqlite3.Connection = sqlite3.connect(named, uri=True, **options)  # type: ignore[call-overload]
    give(opened)
    return opened
