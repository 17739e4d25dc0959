"""Django's backend for SQLite, with databases that are packed: ``"ENGINE": "litepack.django"``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, unquote

from django.db.backends.sqlite3 import base, client

from litepack._keys import give_key
from litepack._library import command_path, load_once
from litepack._uri import add_vfs


class DatabaseClient(client.DatabaseClient):
    """The shell of ``manage.py dbshell``: ``litepack shell``, in which packed files open. It needs the program
    ``sqlite3``. A database that is not there yet is created, packed, as Django creates it."""

    executable_name = "litepack"

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], None]:
        database, options = os.fsdecode(settings_dict["NAME"]), ["--create"]
        if database.startswith("file:"):
            path, _, query = database.partition("#")[0].partition("?")
            mode = dict(parse_qsl(query)).get("mode")
            if mode == "memory" or path == "file::memory:":
                database = ":memory:"
            else:
                # Behind two slashes there is a host, which may be empty.
                path = path[len("file:") :]
                database = unquote("/" + path[2:].partition("/")[2] if path.startswith("//") else path)
                options = {"ro": ["--readonly"], "rw": []}.get(mode or "rwc", options)
        if settings_dict.get("OPTIONS", {}).get("key") is not None:
            # What does not exist would be made without it. The command asks for the key of what does.
            options = [option for option in options if option != "--create"]
        if not database or database == ":memory:":
            args, _ = super().settings_to_cmd_args_env(settings_dict, parameters)
            return ["sqlite3", *args[1:]], None
        # A name that begins with a dash is none of an option.
        name = f"./{database}" if database.startswith("-") else database
        return [command_path(), "shell", *options, name, "--", *parameters], None


class DatabaseWrapper(base.DatabaseWrapper):
    """All of it is Django's, but for the name by which SQLite opens the database, and its key: ``"OPTIONS": {"key": ...}``,
    as of :func:`litepack.connect`."""

    display_name = "SQLite with Litepack"
    client_class = DatabaseClient

    def get_connection_params(self) -> dict[str, Any]:
        load_once()
        parameters: dict[str, Any] = super().get_connection_params()
        # Django always passes `uri=True`.
        parameters["database"] = add_vfs(str(parameters["database"]))
        # Not in what Django keeps, which it may show.
        self._give_key = give_key(parameters.pop("key", None))
        return parameters

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        self._give_key(connection)
        return connection
