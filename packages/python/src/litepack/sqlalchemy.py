"""SQLAlchemy's dialect: ``create_engine("litepack:///app.db")``.

Parameters of the URL are SQLAlchemy's (``timeout``, ``isolation_level``), SQLite's (``mode``) or settings of Litepack
(``level``, ``cache_mb``). Others are an error: it is a misspelt one.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from litepack._library import load_once
from litepack._uri import PARAMETERS, add_vfs

# The parameters that SQLAlchemy takes out of a URL for sqlite3 itself.
DRIVER = frozenset({"cached_statements", "check_same_thread", "detect_types", "isolation_level", "timeout", "uri"})


class Litepack(SQLiteDialect_pysqlite):
    """All of it is SQLAlchemy's dialect for SQLite, but for the name by which SQLite opens the database."""

    driver = "litepack"
    supports_statement_cache = True

    def create_connect_args(self, url: URL) -> Any:
        load_once()
        chosen: dict[str, str] = {}
        known = sorted(DRIVER | PARAMETERS)
        for name, value in url.query.items():
            if name in DRIVER:
                continue
            if name not in PARAMETERS:
                near = get_close_matches(name, known, 1)
                hint = f": did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
                raise ArgumentError(f"unknown parameter {name!r} in a litepack URL{hint}")
            if not isinstance(value, str):
                raise ArgumentError(f"the parameter {name!r} stands twice in a litepack URL")
            chosen[name] = value
        # SQLAlchemy would leave them in the URI as they are, and SQLite end a key at a & or #.
        left_out = list(chosen)
        if not (url.database or "").startswith("file:"):
            # A name that is no URI would be a file that is called so.
            left_out.append("uri")
        arguments, options = super().create_connect_args(url.difference_update_query(left_out))
        return [add_vfs(arguments[0], chosen)], {**options, "uri": True}
