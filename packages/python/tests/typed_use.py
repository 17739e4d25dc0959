"""Uses the package as a user who checks types does; mypy reads it, nothing runs it."""

import pathlib
import sqlite3
from typing import assert_type

import litepack

assert_type(litepack.connect("a.db", timeout=1.0, isolation_level=None), sqlite3.Connection)
litepack.connect(pathlib.Path("a.db")).execute("select 1")
litepack.connect(b"a.db")
litepack.connect("a.db", key="secret").close()
litepack.connect("a.db", key=b"0" * 32, timeout=1.0).close()
litepack.load(sqlite3.connect(":memory:"), default=True)
litepack.register(new_databases="packed")
assert_type(litepack.uri("a.db", mode="ro", level=9), str)
assert_type(litepack.loadable_path(), str)
litepack.arrow("a.db", "select ?", (1,), batch_rows=10).read_all()

litepack.register(new_databases="compressed")  # type: ignore[arg-type]
litepack.connect(1)  # type: ignore[arg-type]
litepack.connect("a.db", no_such_option=1)  # type: ignore[call-arg]
