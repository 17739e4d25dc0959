"""Giving a connection the key of an encrypted database, and being sure that it has it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable


def give_key(key: str | bytes | None) -> Callable[[sqlite3.Connection], None]:
    """What gives the key to a connection that was just opened, and closes that if it cannot."""
    if key is None:
        return lambda connection: None
    pragma = _pragma(key)

    def give(connection: sqlite3.Connection) -> None:
        try:
            # Asked first: a SQLite that has keys of its own would take it, for a database that is none of Litepack's.
            for sql in ("pragma litepack_version", pragma):
                if connection.execute(sql).fetchone() is None:
                    raise sqlite3.NotSupportedError("there is a key, and the database is not encrypted by Litepack")
        except BaseException:
            connection.close()
            raise

    return give


def _pragma(key: str | bytes) -> str:
    if isinstance(key, bytes):
        if len(key) != 32:
            raise ValueError("a key of bytes has 32 of them; a passphrase is a str")
        return f"pragma key = \"x'{key.hex()}'\""
    if "\0" in key:
        raise ValueError("embedded null character in the key")
    quoted = key.replace("'", "''")
    return f"pragma key = '{quoted}'"
