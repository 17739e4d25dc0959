"""SQLAlchemy's dialect: ``create_engine("litepack:///app.db")``."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL

from litepack._library import load_once
from litepack._uri import add_vfs


class Litepack(SQLiteDialect_pysqlite):
    """All of it is SQLAlchemy's dialect for SQLite, but for the name by which SQLite opens the database."""

    driver = "litepack"
    supports_statement_cache = True

    def create_connect_args(self, url: URL) -> Any:
        load_once()
        arguments, options = super().create_connect_args(url)
        return [add_vfs(arguments[0])], {**options, "uri": True}
