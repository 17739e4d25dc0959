"""APSW, which has a SQLite of its own.

packages: apsw
"""

import apsw
from sample import packed, refused, seen

file = packed()
refused(lambda: apsw.Connection(file).execute("select 1 from Artist").fetchall(), apsw.NotADBError)

# --- the recipe
import litepack

litepack.load(apsw.Connection(":memory:"))
FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI

db = apsw.Connection(litepack.uri(file), flags=FLAGS)
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
seen("apsw", apsw.sqlite_lib_version(), "`litepack.load`, then `litepack.uri`, or by name with `default=True`", host="APSW")
