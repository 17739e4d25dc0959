"""Django's backend for SQLite, with databases that are packed: ``"ENGINE": "litepack.django"``."""

from __future__ import annotations

from typing import Any

from django.db.backends.sqlite3 import base

from litepack._library import load_once
from litepack._uri import add_vfs


class DatabaseWrapper(base.DatabaseWrapper):
    """All of it is Django's, but for the name by which SQLite opens the database."""

    display_name = "SQLite with Litepack"

    def get_connection_params(self) -> dict[str, Any]:
        load_once()
        parameters: dict[str, Any] = super().get_connection_params()
        # Django always passes `uri=True`.
        parameters["database"] = add_vfs(str(parameters["database"]))
        return parameters
