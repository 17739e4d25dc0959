"""Python's own sqlite3.

packages:
"""

import sqlite3
from contextlib import closing

from sample import packed, refused, seen

file = packed()
with closing(sqlite3.connect(file)) as db:
    refused(lambda: db.execute("select count(*) from Artist"), sqlite3.DatabaseError)

# --- the recipe
import litepack

with closing(litepack.connect(file)) as db, db:
    (before,) = db.execute("select count(*) from Artist").fetchone()
    db.execute("insert into Artist (Name) values (?)", ("Somebody new",))

with closing(litepack.connect(file)) as db:
    assert db.execute("select count(*) from Artist").fetchone() == (before + 1,)
# ---

refused(lambda: sqlite3.connect(file).execute("select 1 from Artist"), sqlite3.DatabaseError)
seen("", sqlite3.sqlite_version, "`litepack.connect`", host="sqlite3")

litepack.register()
with closing(sqlite3.connect(file)) as db:
    assert db.execute("select count(*) from Artist").fetchone() == (before + 1,)
seen("", sqlite3.sqlite_version, "by name, after `litepack.register()`", host="sqlite3")
