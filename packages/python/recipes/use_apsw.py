"""APSW, which has a SQLite of its own.

packages: apsw
"""

import os

import apsw
from sample import packed, refused, seen

file = packed()
refused(lambda: apsw.Connection(file).execute("select 1 from Artist").fetchall(), apsw.NotADBError)

# --- the recipe
import litepack

litepack.load(apsw.Connection(":memory:"))

db = apsw.Connection(file, vfs="litepack")
with db:
    (before,) = db.execute("select count(*) from Artist").fetchone()
    db.execute("insert into Artist (Name) values (?)", ("Somebody new",))
db.close()
# ---

refused(lambda: apsw.Connection(file).execute("select 1 from Artist").fetchall(), apsw.NotADBError)
litepack.load(apsw.Connection(":memory:"), default=True)
db = apsw.Connection(file)
assert db.execute("select count(*) from Artist").fetchone() == (before + 1,)
db.close()
# With settings, as a URI: without the flag APSW would take that for the name of a file.
FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
db = apsw.Connection(litepack.uri(file, level=9), flags=FLAGS)
assert db.execute("pragma litepack_level").fetchone() == ("9",)
db.close()
assert not [path for path in os.listdir() if ":" in path or "?" in path], os.listdir()
how = '`litepack.load`, then `apsw.Connection("packed.db", vfs="litepack")`, or by name with `default=True`'
seen("apsw", apsw.sqlite_lib_version(), how, note="URIs with `SQLITE_OPEN_URI`", host="APSW")
