"""A catalog of many files: what is left out by it, and that answers are the same without."""

from __future__ import annotations

import json
import math
import os
import pathlib
import pickle
import random
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_sqlite")

import litepack  # noqa: E402
from litepack import shards  # noqa: E402
from litepack.shards import Filter, _find  # noqa: E402
from litepack.shards._filters import Bounds, is_impossible  # noqa: E402


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def catalog(*arguments, expect=0):
    done = subprocess.run([litepack.command_path(), "catalog", *arguments, "--json"], capture_output=True, text=True)
    assert done.returncode == expect, done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def make(path, sql, rows=()):
    with closing(litepack.connect(path)) as db, db:
        db.executescript(sql)
        rows = list(rows)
        if rows:
            db.executemany(f"insert into log values ({', '.join('?' * len(rows[0]))})", rows)


LOG = "create table log (id integer primary key, at text, status int); create index at on log (at)"


@pytest.fixture
def logs():
    """Ten files, a day in each."""
    pathlib.Path("logs").mkdir()
    for day in range(10):
        ids = range(day * 1000, day * 1000 + 100)
        make(f"logs/{day}.db", LOG, ((i, f"2026-01-{day + 1:02} {i % 24:02}", 200 + i % 3) for i in ids))
    catalog("logs", "-o", "catalog.db")
    return "logs/*.db"


def rows_of(scan, filters=()):
    return scan.reader(filters).read_all().to_pylist()


def names(found):
    return [pathlib.Path(shard.path).name for shard in found]


def test_files_of_other_days_are_not_opened(logs, monkeypatch):
    day = [Filter("at", ">=", "2026-01-04"), Filter("at", "<", "2026-01-05")]
    scan = shards.scan(logs, table="log", filters=day, catalog="catalog.db")
    assert names(scan.remaining) == ["3.db"] and len(scan.shards) == 10
    assert [part.shard.path for part in scan.parts] == [os.path.abspath("logs/3.db")]
    rows = rows_of(scan)
    assert sorted(row["id"] for row in rows) == list(range(3000, 3100))
    assert rows == rows_of(shards.scan(logs, table="log"), day)
    # The catalog has the list, too; a plan goes to other processes; conditions can come later.
    assert rows_of(pickle.loads(pickle.dumps(shards.scan(table="log", filters=day, catalog="catalog.db")))) == rows
    assert rows_of(shards.scan(table="log", catalog="catalog.db"), day) == rows
    assert names(shards.scan(table="log", catalog="catalog.db").where(day).where([Filter("id", "=", 1)]).remaining) == []
    # A query may be about anything.
    assert len(shards.scan(logs, query="select id + 1 as id from log", filters=[Filter("id", "=", 1)], catalog="catalog.db").remaining) == 10
    # Not indexed, and so not known.
    assert len(scan.where([Filter("status", "=", 7)]).remaining) == 1


def test_a_catalog_that_is_not_true_any_more(logs):
    late = [Filter("at", ">=", "2027")]
    plan = lambda: shards.scan(logs, table="log", filters=late, catalog="catalog.db")  # noqa: E731
    assert plan().remaining == [] and rows_of(plan()) == []
    # Replaced by one of the same size, written, written in WAL mode, new, damaged.
    with closing(litepack.connect("new.db")) as db, db:
        db.executescript(LOG)
        db.execute("insert into log values (1, '2027-01-01', 200)")
    os.replace("new.db", "logs/0.db")
    with closing(litepack.connect("logs/1.db")) as db, db:
        db.execute("update log set at = '2027-01-02' where id = 1000")
    writer = litepack.connect("logs/2.db")
    writer.execute("pragma journal_mode = wal")
    catalog("logs", "-o", "catalog.db")
    assert names(plan().remaining) == ["0.db", "1.db"]
    with writer:
        writer.execute("update log set at = '2027-01-03' where id = 2000")
    shutil.copy("logs/0.db", "logs/new.db")
    assert names(plan().remaining) == ["0.db", "1.db", "2.db", "new.db"]
    assert sorted(row["at"] for row in rows_of(plan())) == ["2027-01-01", "2027-01-01", "2027-01-02", "2027-01-03"]
    writer.close()
    # A scan that takes the list from the catalog names the missing file.
    os.remove("logs/9.db")
    with pytest.raises(FileNotFoundError, match=r"9\.db"):
        shards.scan(table="log", catalog="catalog.db")
    assert len(rows_of(plan())) == 4
    done = catalog("logs", "-o", "catalog.db")
    assert (done["removed"], done["unchanged"], done["files"]) == (1, 8, 10), done


def test_a_commit_to_a_file_by_another_name(folder):
    os.mkdir("place")
    make("place/a.db", LOG, [(1, "a", 1)])
    os.symlink("place/a.db", "link.db")
    with closing(litepack.connect("place/a.db")) as writer:
        writer.execute("pragma journal_mode = wal")
        catalog("link.db", "-o", "link.catalog")
        plan = lambda: shards.scan("link.db", table="log", filters=[Filter("at", "=", "b")], catalog="link.catalog")  # noqa: E731
        assert plan().remaining == []
        with writer:
            writer.execute("insert into log values (2, 'b', 1)")
        assert [row["id"] for row in rows_of(plan())] == [2]


def test_a_change_right_after_the_catalog_is_noticed(folder):
    """Within a step of the clock, with the same size."""
    for number in range(20):
        path = f"{number}.db"
        with closing(litepack.connect(path)) as db, db:
            db.executescript(LOG)
            db.execute("insert into log values (1, 'a', 1)")
        catalog(path, "-o", "one.catalog")
        size = os.path.getsize(path)
        content = pathlib.Path(path).read_bytes()
        with closing(litepack.connect("other.db")) as db:
            db.executescript("drop table if exists log;" + LOG)
            db.execute("insert into log values (1, 'b', 1)")
            db.commit()
        with open(path, "r+b") as file:
            file.write(content)
        assert os.path.getsize(path) == size
        scan = shards.scan(path, table="log", filters=[Filter("at", "=", "b")], catalog="one.catalog")
        assert len(scan.remaining) == 1, number


def test_a_change_that_keeps_the_time_is_noticed(folder):
    """Archives that are made the same each time give all files one time, and a file system uses numbers again."""
    for name, at in (("a.db", "a"), ("b.db", "b")):
        make(name, LOG, [(1, at, 1)])
        os.utime(name, (1, 1))
    catalog("a.db", "-o", "one.catalog")
    number = os.stat("a.db").st_ino
    shutil.copyfile("b.db", "a.db")
    os.utime("a.db", (1, 1))
    assert (os.stat("a.db").st_ino, os.path.getsize("a.db")) == (number, os.path.getsize("b.db"))
    scan = shards.scan("a.db", table="log", filters=[Filter("at", "=", "b")], catalog="one.catalog")
    assert [row["at"] for row in rows_of(scan)] == ["b"]


def test_files_that_cannot_be_read_are_read(logs):
    pathlib.Path("logs/bad.db").write_text("no database, but long enough to look at. " * 100)
    done = catalog("logs", "-o", "catalog.db", expect=1)
    assert len(done["unreadable"]) == 1 and "bad.db" in done["unreadable"][0]["path"]
    nothing = [Filter("id", "=", -1)]
    scan = shards.scan(logs, table="log", filters=nothing, catalog="catalog.db")
    assert names(scan.remaining) == ["bad.db"]
    with pytest.raises(shards.Damaged, match=r"bad\.db"):
        rows_of(scan)
    skipping = shards.scan(logs, table="log", filters=nothing, catalog="catalog.db", errors="skip", skipped="left-out")
    assert rows_of(skipping) == [] and len(shards.skipped("left-out")) == 1


def test_a_catalog_among_its_files(logs):
    catalog("logs", "-o", "logs/catalog.db")
    scan = shards.scan(logs, table="log", catalog="logs/catalog.db")
    assert len(scan.shards) == 10 and len(rows_of(scan)) == 1000
    os.rename("logs", "moved")
    scan = shards.scan(table="log", catalog="moved/catalog.db", filters=[Filter("id", "<", 500)])
    assert names(scan.remaining) == ["0.db"]


def test_what_is_no_catalog(logs):
    pathlib.Path("text").write_text("text" * 1000)
    with closing(litepack.connect("packed.catalog")) as db, db:
        db.execute("create table t (a)")
    for path, error in (("none", FileNotFoundError), ("text", ValueError), ("packed.catalog", ValueError), ("logs/0.db", ValueError)):
        with pytest.raises(error, match="litepack catalog"):
            shards.scan(logs, table="log", catalog=path)
    for arguments in ({}, {"paths": logs, "catalog_trusted": True}):
        with pytest.raises(ValueError, match="catalog"):
            shards.scan(table="log", **arguments)
    with pytest.raises(ValueError, match="'at' is none of id"):
        shards.scan(logs, table="log", columns=["id"], filters=[Filter("at", "=", "x")])


def altered(source, target, sql):
    shutil.copy(source, target)
    with closing(sqlite3.connect(target)) as db, db:
        db.executescript(sql)


ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n)"


def test_a_catalog_runs_no_sql_of_its_own(logs):
    views = {
        "columns": f"create view columns as {ENDLESS} select x as file, 'log' as 'table', 'id' as name, 1 as least, 1 as greatest, 0 as nulls from n",
        "tables": f"create view tables as {ENDLESS} select x as file, 'log' as name, 1 as rows from n",
        "files": f"create view files as {ENDLESS} select x as id, 'a' as path, 'b' as identity, 1 as size, null as error from n",
    }
    for name, view in views.items():
        altered("catalog.db", "hostile.catalog", f"drop table {name}; {view}")
        with pytest.raises(ValueError, match="not as 'litepack catalog' writes"):
            shards.scan(logs, table="log", filters=[Filter("id", "=", 1)], catalog="hostile.catalog")
        command = [litepack.command_path(), "catalog", "logs", "-o", "hostile.catalog"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 2 and "delete this catalog" in done.stderr, done
    # One with more in it than is needed is a catalog all the same.
    altered("catalog.db", "more.catalog", "create view mine as select * from files; analyze")
    assert names(shards.scan(logs, table="log", filters=[Filter("id", "=", 1)], catalog="more.catalog").remaining) == ["0.db"]


def test_values_that_no_catalog_has(logs):
    for sql in (
        "update files set path = x'00' where id = 1", "update files set identity = 5.5, size = 'x'", "update files set size = -1",
        "update columns set nulls = x'00', least = x'00', greatest = x'00'", "update tables set rows = 'x'",
        "update files set path = cast(x'ff' as text) where id = 1", "update files set path = 'a' || char(0) || 'b' where id = 1",
    ):  # fmt: skip
        altered("catalog.db", "odd.catalog", sql)
        for paths in (logs, None):
            try:
                scan = shards.scan(paths, table="log", filters=[Filter("id", "=", 1005)], catalog="odd.catalog")
            except (ValueError, OSError):
                continue
            assert [row["id"] for row in rows_of(scan)] == [1005], sql


def test_names_in_a_catalog_are_no_patterns(folder):
    os.mkdir("logs")
    for name, number in (("a[1].db", 7), ("a1.db", 8)):
        make(f"logs/{name}", LOG, [(number, "x", 1)])
    catalog("logs/a[[]1].db", "-o", "c.catalog")
    assert [row["id"] for row in rows_of(shards.scan(table="log", catalog="c.catalog"))] == [7]
    os.remove("logs/a[1].db")
    with pytest.raises(FileNotFoundError, match=r"a\[1\]\.db"):
        shards.scan(table="log", catalog="c.catalog")
    # Nor folders.
    altered("c.catalog", "folder.catalog", "update files set path = 'logs'")
    with pytest.raises(OSError, match="logs"):
        shards.scan(table="log", catalog="folder.catalog")


VALUES = [
    None, None, 0, 1, -1, 2**62, 2**53 + 1, -(2**63), 0.5, -0.0, 1e300, -math.inf, math.inf, 3.0,
    "", "a", "A", "b", "B", "ab", "é", "\U0001f600", "\uffff", "5", "1e3", "x" * 300, "x" * 200, "y" * 300, "a\0b",
]  # fmt: skip
BLOBS = [b"", b"a", b"\xff"]
COLUMNS = {
    "i": ("integer", "int64", lambda v: v is None or type(v) is int),
    "r": ("real", "double", lambda v: v is None or isinstance(v, (int, float))),
    "t": ("text", "string", lambda v: v is None or isinstance(v, str)),
    "n": ("text collate nocase", "string", lambda v: v is None or isinstance(v, str)),
    "x": ("", "string", lambda v: not isinstance(v, bytes)),
    "m": ("numeric", "double", lambda v: v is None or (isinstance(v, float) and abs(v) < 1e15) or (type(v) is int and abs(v) < 2**53)),
    "d": ("integer", "int64", lambda v: v is None or type(v) is int),
}


def conditions(source, column):
    _, kind, _ = COLUMNS[column]
    wanted = {"int64": int, "double": float, "string": str}[kind]
    fitting = [value for value in VALUES if type(value) is wanted] + ["zz"] * (wanted is str)
    value = source.choice(fitting)
    op = source.choice(["=", "<", "<=", ">", ">=", "is", "in", "null", "between", "startswith", "contains"])
    negated = source.random() < 0.3
    if op == "between":
        low, high = sorted((value, source.choice(fitting)))
        return [Filter(column, ">=", low), Filter(column, "<=", high)]
    if op in ("startswith", "contains"):
        return [Filter(column, op, value[:1], negated)] if wanted is str else [Filter(column, "is", None, negated)]
    if op == "null":
        return [Filter(column, "null", None, negated)]
    if op == "in":
        return [Filter(column, "in", tuple(source.sample(fitting, 2)) + (None,) * (source.random() < 0.3), negated)]
    return [Filter(column, op, value, negated)]


def true(one, value):
    """Whether a condition is true of a value as it is read; NULL is as in SQL."""
    if one.op == "null":
        return (value is None) != one.negated
    if one.op == "is":
        return (value == one.value and (value is None) == (one.value is None)) != one.negated
    if value is None:
        return False
    if one.op == "in":
        found = value in [other for other in one.value if other is not None]
        return not found and None not in one.value if one.negated else found
    result = {
        "=": lambda: value == one.value, "<": lambda: value < one.value, "<=": lambda: value <= one.value,
        ">": lambda: value > one.value, ">=": lambda: value >= one.value,
        "startswith": lambda: value.startswith(one.value), "contains": lambda: one.value in value,
    }[one.op]()  # fmt: skip
    return result != one.negated


def test_answers_are_those_without_a_catalog():
    """Random columns of all types in files of both encodings, with every condition; and not one file too many is kept
    where it is easy to say."""
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    declared = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())
    indexes = "; ".join(f"create index by_{name} on log ({name})" for name in COLUMNS if name != "d")
    schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, (_, kind, _) in COLUMNS.items()])
    pathlib.Path("files").mkdir()
    for number in range(24):
        count = source.choice([0, 1, 1, 2, 2, 3, 20])
        few = {name: source.sample([v for v in VALUES if fits(v)], 2) for name, (_, _, fits) in COLUMNS.items()}
        encoding = "UTF-16le" if number % 6 == 5 else "UTF-8"
        rows = [[source.choice(few[name]) for name in COLUMNS] for _ in range(count)]
        make(f"files/{number:02}.db", f"pragma encoding = '{encoding}'; create table log ({declared}); {indexes}", rows)
    catalog("files", "-o", "catalog.db", "--column", "log.d", "--column", "log.n")
    plain = shards.scan("files", table="log", schema=schema, columns=[*COLUMNS, "_file"])
    known = shards.scan("files", table="log", schema=schema, columns=[*COLUMNS, "_file"], catalog="catalog.db")
    everything = rows_of(plain)
    left_out = {name: 0 for name in COLUMNS}
    for _ in range(400):
        column = source.choice(list(COLUMNS))
        filters = conditions(source, column)
        if source.random() < 0.3:
            filters += conditions(source, source.choice(list(COLUMNS)))
        wanted = [row for row in everything if all(true(one, row[one.column]) for one in filters)]
        scan = known.where(filters)
        kept = {shard.path for shard in scan.remaining}
        lost = [row for row in wanted if row["_file"] not in kept]
        assert not lost, (seed, filters, lost)
        left_out[column] += len(scan.shards) - len(kept)
    # The rows read of them are compared less often: it takes longer.
    for _ in range(30):
        filters = conditions(source, source.choice(list(COLUMNS)))
        found = [row for row in rows_of(known, filters) if all(true(one, row[one.column]) for one in filters)]
        wanted = [row for row in everything if all(true(one, row[one.column]) for one in filters)]
        # An index gives them in its own order.
        assert sorted(found, key=str) == sorted(wanted, key=str), (seed, filters)
    assert all(count > 20 for count in left_out.values()), (seed, left_out)


def test_blobs_and_values_of_other_types_exclude_nothing_that_is_read(folder):
    for number, values in enumerate(([1, b"a"], ["a", b"b"], [1, "a"], [b""], [None])):
        make(f"{number}.db", "create table log (c); create index c on log (c)", [(value,) for value in values])
    catalog(".", "-o", "c.catalog")
    files = [f"{number}.db" for number in range(5)]
    for kind, value, kept in (
        ("int64", 5, [1, 3]), ("int64", 0, [1, 3]), ("string", "z", [0, 1, 2, 3]), ("string", "", [0, 2, 3]), ("binary", b"x", [0, 1, 2, 3]),
    ):  # fmt: skip
        schema = pyarrow.schema({"c": pyarrow.type_for_alias(kind)})
        found = shards.scan(files, table="log", schema=schema, filters=[Filter("c", "=", value)], catalog="c.catalog").remaining
        # Numbers that are greater than the greatest known: text and blobs may be above, and are an error to be told.
        allowed = {f"{number}.db" for number in kept}
        assert allowed <= set(names(found)) and "4.db" not in names(found), (kind, value, names(found))


def test_bounds_that_are_not_known():
    text, whole, real = pyarrow.string(), pyarrow.int64(), pyarrow.float64()
    cases = [
        (Filter("c", "=", "b"), text, Bounds("a", None, 0, 1), False),
        (Filter("c", "=", "A"), text, Bounds("a", None, 0, 1), True),
        (Filter("c", "=", "b"), text, Bounds(None, "a", 0, 1), False),
        (Filter("c", "=", "1"), text, Bounds(1, 2, 0, 1), False),
        (Filter("c", "=", 3), whole, Bounds(1, 2.5, 0, 1), True),
        (Filter("c", "=", 3), whole, Bounds(1, "a", 0, 1), False),
        (Filter("c", "=", 3), whole, Bounds(None, 2, 0, 1), True),
        (Filter("c", "=", 3.0), whole, Bounds(1, 2, 0, 1), False),
        (Filter("c", ">", math.nan), real, Bounds(1, 2, 0, 1), False),
        (Filter("c", "=", True), whole, Bounds(5, 6, 0, 1), False),
        (Filter("c", "=", 7), pyarrow.int32(), Bounds(1, 2, 0, 1), False),
        (Filter("c", "null"), pyarrow.timestamp("us"), Bounds(1, 2, 0, 1), True),
        (Filter("c", "null"), whole, Bounds(1, 2, 0, 1), True),
        (Filter("c", "is", 5, True), whole, Bounds(None, None, 1, 1), False),
        (Filter("c", "=", 5, True), whole, Bounds(None, None, 1, 1), True),
        (Filter("c", "=", 5, True), whole, Bounds(5, 5, 0, 1), False),
        (Filter("c", "startswith", "é"), text, Bounds("z", "\u00e8", 0, 1), True),
        (Filter("c", "startswith", "x"), text, Bounds("xa", "xz", 0, 1), False),
        (Filter("c", "startswith", "x"), text, Bounds("y", "z", 0, 1), True),
    ]
    for one, kind, bounds, expected in cases:
        assert is_impossible(one, kind, bounds) == expected, (one, kind, bounds)


# Web servers.


@pytest.fixture
def server(logs):
    from test_shards_failures import Server
    from http.server import ThreadingHTTPServer
    import threading

    class Own(Server):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_files_on_a_server(server):
    base = f"http://127.0.0.1:{server.server_port}"
    urls = [f"{base}/logs/{day}.db" for day in range(10)]
    done = catalog(*urls, "-o", "urls.catalog")
    assert (done["read"], done["unchanged"]) == (10, 0)
    done = catalog(*urls, "-o", "urls.catalog")
    assert (done["read"], done["unchanged"]) == (0, 10)
    day = [Filter("at", "startswith", "2026-01-04")]
    found = {}
    for trusted in (False, True):
        server.RequestHandlerClass.seen = 0
        scan = shards.scan(urls, table="log", filters=day, catalog="urls.catalog", catalog_trusted=trusted)
        assert names(scan.remaining) == ["3.db"]
        assert sorted(row["id"] for row in rows_of(scan)) == list(range(3000, 3100))
        found[trusted] = server.RequestHandlerClass.seen
    # Of one that is trusted, only the first file (for the columns) and the one that has the day are opened.
    assert found[True] < 8 and found[False] >= 10 + found[True] - 2, found
    # A size that an attacker chose makes no parts without end.
    altered("urls.catalog", "hostile.catalog", "update files set size = 1 << 62")
    scan = shards.scan(urls, table="log", filters=day, catalog="hostile.catalog", catalog_trusted=True)
    assert len(scan.parts) == 1
    # A file that is read is of the version in the catalog, or an error.
    shutil.copy("logs/1.db", "logs/3.db")
    with pytest.raises(shards.Replaced):
        rows_of(shards.scan(urls, table="log", filters=day, catalog="urls.catalog", catalog_trusted=True))
    shutil.copy("logs/3.db", "logs/5.db")
    two = [Filter("at", "startswith", "2026-01-02")]
    safe = shards.scan(urls, table="log", filters=two, catalog="urls.catalog")
    assert names(safe.remaining) == ["1.db", "3.db", "5.db"] and len(rows_of(safe)) == 300
