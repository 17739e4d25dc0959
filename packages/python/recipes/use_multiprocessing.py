"""multiprocessing: a child that is spawned has nothing loaded, so it opens databases itself.

packages:
"""

import multiprocessing
import sqlite3
from contextlib import closing

import litepack
from sample import packed, refused, seen


# --- the recipe
def count_and_add(file):
    with closing(litepack.connect(file, timeout=30)) as db, db:
        db.execute("insert into Artist (Name) values ('from a child')")
        return db.execute("select count(*) from Artist").fetchone()[0]


def count_by_name(file):
    with closing(sqlite3.connect(file)) as db:
        return db.execute("select count(*) from Artist").fetchone()[0]


def main(file):
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        counts = pool.map(count_and_add, [file] * 8, chunksize=1)
    # Or, where the code that opens databases is not yours:
    with context.Pool(2, initializer=litepack.register) as pool:
        counts += pool.map(count_by_name, [file] * 2)
    return counts


# ---

if __name__ == "__main__":
    file = packed()
    with closing(litepack.connect(file)) as db:
        (before,) = db.execute("select count(*) from Artist").fetchone()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        refused(lambda: pool.apply(count_by_name, (file,)), sqlite3.DatabaseError)
    counts = main(file)
    assert sorted(counts[:8]) == [before + number for number in range(1, 9)], counts
    assert counts[8:] == [before + 8] * 2, counts
    seen("", sqlite3.sqlite_version, "`litepack.connect` in the child, or `Pool(initializer=litepack.register)`",
         host="multiprocessing, spawn")
