"""Arrow: the result of a query in batches, by the ADBC driver for SQLite.

packages: litepack[arrow]
"""

import gc
from contextlib import closing
from pathlib import Path

import adbc_driver_sqlite.dbapi
from sample import packed, refused, seen

file = packed()


def without():
    with adbc_driver_sqlite.dbapi.connect(file) as db, db.cursor() as cursor:
        cursor.execute("select * from Artist").fetchall()


refused(without, adbc_driver_sqlite.dbapi.Error)

# --- the recipe
import litepack

reader = litepack.arrow(file, "select TrackId, Name, Milliseconds from Track where TrackId > ?", (100,))
total = 0
for batch in reader:
    total += batch.num_rows
# ---

with closing(litepack.connect(file)) as db:
    assert db.execute("select count(*) from Track where TrackId > 100").fetchone() == (total,)

    # Rows of some kinds, in batches smaller than the result.
    with db:
        db.execute("create table kinds (i integer, r real, t text, b blob)")
        db.executemany("insert into kinds values (?, ?, ?, ?)", ((i, i / 2, f"ü{i}", b"%d" % i) for i in range(1000)))
        db.execute("insert into kinds values (null, null, null, null)")
table = litepack.arrow(file, "select * from kinds", batch_rows=100).read_all()
assert [str(field.type) for field in table.schema] == ["int64", "double", "string", "binary"]
assert table.column("i").to_pylist() == [*range(1000), None]
assert table.column("b").to_pylist() == [*(b"%d" % i for i in range(1000)), None]

# It reads only, and refuses what cannot be.
for sql in ("delete from kinds", "create table more (a)"):
    refused(lambda sql=sql: litepack.arrow(file, sql).read_all(), Exception, "readonly")
refused(lambda: litepack.arrow(file, "select * from no_such_table"), Exception, "no such table")
refused(lambda: litepack.arrow("missing.db", "select 1 from a"), Exception, "failed to open")

# A reader that is given up closes its file.
def is_open():
    descriptors = Path("/proc/self/fd").iterdir()
    return any(entry.resolve().name == file for entry in descriptors)


reader = litepack.arrow(file, "select * from Track", batch_rows=10)
reader.read_next_batch()
assert is_open()
del reader
gc.collect()
assert not is_open()

sqlite = litepack.arrow(file, "select sqlite_version() as v").read_all().column("v")[0].as_py()
seen("adbc-driver-sqlite", sqlite, "`litepack.arrow(path, sql)`", note="read-only", host="ADBC (pyarrow)")
