"""pysqlite3, the sqlite3 module with a newer SQLite of its own.

packages: pysqlite3-binary
"""

import pysqlite3
from sample import packed, refused, seen

file = packed()
refused(lambda: pysqlite3.connect(file).execute("select 1 from Artist"), pysqlite3.DatabaseError)

# --- the recipe
import litepack

litepack.load(pysqlite3.connect(":memory:"))

db = pysqlite3.connect(litepack.uri(file), uri=True)
with db:
    (before,) = db.execute("select count(*) from Artist").fetchone()
    db.execute("insert into Artist (Name) values (?)", ("Somebody new",))
db.close()
# ---

refused(lambda: pysqlite3.connect(file).execute("select 1 from Artist"), pysqlite3.DatabaseError)
litepack.load(pysqlite3.connect(":memory:"), default=True)
db = pysqlite3.connect(file)
assert db.execute("select count(*) from Artist").fetchone() == (before + 1,)
db.close()
seen(
    "pysqlite3-binary",
    pysqlite3.sqlite_version,
    "`litepack.load`, then `litepack.uri`, or by name with `default=True`",
    host="pysqlite3",
)
