"""Polars, from Arrow.

packages: litepack[arrow] polars
"""

import sqlite3

import polars
from sample import packed, refused, seen

file = packed()
refused(lambda: polars.read_database("select * from Artist", sqlite3.connect(file)), sqlite3.DatabaseError)

# --- the recipe
import litepack

tracks = polars.from_arrow(litepack.arrow(file, "select AlbumId, Milliseconds from Track"))
longest = tracks.group_by("AlbumId").agg(polars.col("Milliseconds").sum()).sort("Milliseconds").tail(1)
# ---

db = litepack.connect(file)
sql = "select sum(Milliseconds) from Track group by AlbumId order by 1 desc limit 1"
assert db.execute(sql).fetchone() == (longest["Milliseconds"][0],)

# And back, through a connection.
with db:
    db.execute("create table longest (AlbumId integer, Milliseconds integer)")
    db.executemany("insert into longest values (?, ?)", longest.rows())
db.close()
again = polars.read_database("select * from longest", litepack.connect(file))
assert again.equals(longest)
version = litepack.arrow(file, "select sqlite_version() as v").read_all().column("v")[0].as_py()
seen("polars", version, "`polars.from_arrow(litepack.arrow(path, sql))`", host="Polars")
