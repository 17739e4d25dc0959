"""DuckDB, from Arrow. Its own reader of SQLite files cannot load extensions of SQLite.

packages: litepack[arrow] duckdb
"""

import sqlite3
from contextlib import closing

import duckdb
from sample import packed, refused, seen

file = packed()
refused(lambda: sqlite3.connect(file).execute("select 1 from Artist"), sqlite3.DatabaseError)

# --- the recipe
import litepack

tracks = litepack.arrow(file, "select AlbumId, Milliseconds from Track")
albums = litepack.arrow(file, "select AlbumId, Title from Album")
(longest,) = duckdb.sql("""
    select Title, sum(Milliseconds) as total from tracks join albums using (AlbumId) group by all order by 2 desc limit 1
""").fetchall()
# ---

with closing(litepack.connect(file)) as db, db:
    sql = """select Title, sum(Milliseconds) as total from Track join Album using (AlbumId)
             group by 1 order by 2 desc limit 1"""
    assert db.execute(sql).fetchone() == longest, longest
    # And back.
    db.execute("create table longest (title text, total integer)")
    db.execute("insert into longest values (?, ?)", longest)
with closing(litepack.connect(file)) as db:
    assert db.execute("select * from longest").fetchone() == longest
version = litepack.arrow(file, "select sqlite_version() as v").read_all().column("v")[0].as_py()
seen("duckdb", version, "`litepack.arrow(path, sql)`, then a query on the reader", host="DuckDB")
