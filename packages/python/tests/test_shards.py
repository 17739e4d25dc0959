"""Many files as one table: which files and rows there are, which types, and which conditions are pushed."""

from __future__ import annotations

import math
import os
import pathlib
import pickle
import random
import shutil
from contextlib import closing

import pytest

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_sqlite")

import litepack  # noqa: E402
from litepack import shards  # noqa: E402
from litepack._uri import printable  # noqa: E402
from litepack.shards import Filter, _find, _read, _split  # noqa: E402
from litepack.shards._errors import named  # noqa: E402

from shard_files import folder, log, logs, make, rows_of  # noqa: E402, F401


def test_all_rows_of_all_files(logs):
    scan = shards.scan(logs, table="log", columns=["id", "what", "body", "_file"])
    assert [str(field.type) for field in scan.schema] == ["int64", "string", "binary", "string"]
    rows = rows_of(scan)
    assert [row["id"] for row in rows] == [row[0] for number in range(3) for row in log(number)]
    assert rows[0] == {"id": 0, "what": "row 0", "body": b"0", "_file": os.path.abspath("logs/0.db")}
    assert "_file" not in shards.scan(logs, table="log").schema.names
    # A folder, a list, a query; a plan goes to other processes.
    assert len(rows_of(pickle.loads(pickle.dumps(shards.scan("logs", table="log"))))) == 3000
    sums = shards.scan(["logs/0.db", pathlib.Path("logs/1.db")], query="select count(*) as n from log;")
    assert rows_of(sums) == [{"n": 1000}, {"n": 1000}]


def test_polars_and_duckdb(logs):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    frame = polars.from_arrow(shards.scan(logs, table="log").reader())
    assert frame["id"].sum() == sum(row[0] for number in range(3) for row in log(number))
    reader = shards.scan(logs, table="log").reader()
    assert duckdb.sql("select count(*), min(what) from reader").fetchall() == [(3000, "row 0")]


def test_only_the_name_of_the_file(logs):
    rows = rows_of(shards.scan(logs, table="log", columns=["_file"]))
    assert [row["_file"] for row in rows] == [os.path.abspath(f"logs/{n}.db") for n in range(3) for _ in range(1000)]


def test_nothing_found_is_an_error(logs):
    for paths in ("none/*.db", "logs/9.db", ["logs/0.db", "none.db"]):
        with pytest.raises(FileNotFoundError, match="no"):
            shards.scan(paths, table="log")
    with pytest.raises(ValueError, match="does not list"):
        shards.scan("https://data.example/*.db", table="log")
    with pytest.raises(ValueError, match="only s3"):
        shards.find("gs://bucket/*.db")


class Store:
    """An object store as s3fs has it: what it has listed it says again, until it is told to forget that."""

    def __init__(self):
        self.files, self.remembered, self.patterns = {}, None, []

    def invalidate_cache(self, path=None):
        self.remembered = None

    def isfile(self, name):
        return name.partition("://")[2] in self.files

    def glob(self, pattern, detail):
        assert detail
        self.patterns.append(pattern)
        if self.remembered is None:
            self.remembered = dict(self.files)
        return {name: {"type": "file", "size": 7, "ETag": etag} for name, etag in self.remembered.items()}


def test_an_object_store_is_listed_anew(monkeypatch):
    fsspec, store = pytest.importorskip("fsspec"), Store()
    monkeypatch.setattr(fsspec, "filesystem", lambda scheme: store)
    store.files["b/1.db"] = '"one"'
    assert shards.find("s3://b/*.db") == [shards.Shard("s3://b/1.db", 7, "7 one")]
    store.files.update({"b/1.db": '"two"', "b/2.db": '"new"'})
    assert [shard.version for shard in shards.find("s3://b/logs/")] == ["7 two", "7 new"]
    assert store.patterns == ["s3://b/*.db", "s3://b/logs/*.db"]


def test_folders_and_keys_named_like_patterns(monkeypatch):
    """As on a disk: a folder is that of its name, and so is a key."""
    fsspec = pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    class Memory(MemoryFileSystem):
        store, pseudo_dirs = {}, [""]

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.replace("s3://", "/"))

        def glob(self, path, **options):
            found = super().glob(path, **options)
            return {name.lstrip("/"): {**entry, "ETag": "e"} for name, entry in found.items()}

    store = Memory(skip_instance_cache=True)
    monkeypatch.setattr(fsspec, "filesystem", lambda scheme: store)
    monkeypatch.setattr(_find, "_opened", lambda url: shards.Shard(url, 7, "7 opened"))
    for name in ("logs1/a.db", "logs[1]/a.db", "l*s/a.db", "x1.db", "x[1].db", "x?.db"):
        store.pipe(f"/b/{name}", b"x")

    def found(pattern):
        return [shard.path for shard in shards.find(f"s3://b/{pattern}")]

    assert found("logs[1]/") == ["s3://b/logs[1]/a.db"]
    assert found("l*s/") == ["s3://b/l*s/a.db"]
    assert found("x[1].db") == ["s3://b/x[1].db"]
    assert found("x?.db") == ["s3://b/x?.db"]
    assert found("x[12].db") == ["s3://b/x1.db"]


def test_what_is_listed_without_a_version_is_opened(monkeypatch):
    """Parts of a file that is replaced between them would be of both."""
    fsspec, store = pytest.importorskip("fsspec"), Store()
    monkeypatch.setattr(fsspec, "filesystem", lambda scheme: store)
    monkeypatch.setattr(_find, "_opened", lambda url: shards.Shard(url, 9, "9 date"))
    store.files.update({"b/1.db": None, "b/2.db": '"two"'})
    found = shards.find("s3://b/*.db")
    assert found == [shards.Shard("s3://b/1.db", 9, "9 date"), shards.Shard("s3://b/2.db", 7, "7 two")]


def test_names_behind_links(folder):
    """The folder behind .. is the one that the system finds there, not the one of the text."""
    for name in ("data", "volume/2026"):
        pathlib.Path(name).mkdir(parents=True)
    os.symlink("../volume/2026", "data/current")
    make("data/x.db", [(1,)], "a int")
    make("volume/x.db", [(2,)], "a int")
    for paths in ("data/current/../x.db", "data/current/..", "data/current/../*.db", ["data/current/../x.db"]):
        scan = shards.scan(paths, table="log")
        assert rows_of(scan) == [{"a": 2}]
        assert [shard.path for shard in scan.shards] == [str(folder / "volume/x.db")]
    # Where both are the same, it is the text, as in a catalog.
    assert shards.find("data/../data/current/../../data/x.db")[0].path == str(folder / "data/x.db")
    pathlib.Path("volume/bad.db").write_text("no database, but long enough to look at. " * 100)
    left = "data/current/../left-out"
    rows_of(shards.scan("volume", table="log", schema=pyarrow.schema([("a", "int64")]), errors="skip", skipped=left))
    assert len(shards.skipped(left)) == 1
    job = shards.begin("data/current/../out")
    name = shards.write("data/current/../out", job, pyarrow.table({"a": [3]}).to_batches())
    assert shards.commit("data/current/../out", job, [name]) == [str(folder / "volume/out" / name)]
    assert sorted(os.listdir("data")) == ["current", "x.db"]


def test_names_for_people():
    assert printable("https://user:secret@h:8080/a.db?token=secret") == "https://h:8080/a.db"
    # Nothing in the key of an object is a query.
    assert printable("s3://b/a?1#2.db") == "s3://b/a?1#2.db"
    assert printable("s3://b/a@2.db") == "s3://b/a@2.db"
    assert printable("https://user:p@ss[@[::1]:8080/a.db") == "https://[::1]:8080/a.db"
    assert printable("https://cdn.example/npm/@a/b@1.2/c.db?x=y@z") == "https://cdn.example/npm/@a/b@1.2/c.db"
    assert printable("/data/http://h?x") == "/data/http://h?x"
    # Where it is not certain what is the password.
    for rest in (
        "user:12/secret@h/a.db", "user:12?secret@h/a.db", "user:12#secret@h/a.db", "user:12\\secret@h/a.db",
        "user:sec/ret@h/a.db", "user:secret", "/user:secret@h/a.db", "\t/user:secret@h/a.db", "us/er:secret@h.x/a.db",
        "secret/2@h/a.db", "user:secret@/a.db", "user:secret@h:port/a.db", "[secret", "",
    ):
        assert printable(f"https://{rest}") == "https://…"
        assert "secret" not in litepack.uri(f"https://{rest}").partition("?")[0]
    assert printable("s3://user:secret@b/a.db") == printable("s3:///user:secret@b/a.db") == "s3://…"
    shard = shards.Shard("https://h/a.db?token=secret", 1, "1 x")
    assert "secret" not in repr(shards.Part(shard)) and "h/a.db" in repr(shard)


def test_a_path_is_no_reason():
    """Words of an error in the name of a file that cannot be opened."""
    pathlib.Path("malformed.db").mkdir()
    path = os.path.abspath("malformed.db")
    with pytest.raises(Exception, match="open") as raised:
        with _read.opened(shards.Shard(path, 1)):
            pass
    error = named(path, raised.value)
    assert str(error).startswith(f"{path}: ") and str(error).count(path) == 1
    assert type(error) is shards.ShardError


def test_names_of_tables_and_columns_are_no_reason():
    """Words of an error in what SQLite says of something else."""
    make("a.db", [(b"x",)], "malformed text")
    make("b.db", [("x",)], "b text")
    skip = {"errors": "skip", "skipped": "left-out"}
    with pytest.raises(shards.Mismatch, match="column malformed is read as string"):
        rows_of(shards.scan("a.db", table="log", **skip))
    for what in (
        "malformed", "[no such table: log]", "[file is not a database]", "json_extract('{}', 'malformed')",
        "json('malformed')",
    ):
        with pytest.raises(shards.ShardError) as raised:
            rows_of(shards.scan("b.db", query=f"select {what} as a from log", **skip))
        assert not isinstance(raised.value, shards.Damaged), what
    assert shards.skipped("left-out") == []
    # Those are reasons.
    for words in (
        "IO: Failed to step query: database disk image is malformed", "database disk image is malformed",
        "INVALID_ARGUMENT: [SQLite] Failed to prepare query: file is not a database\nquery: select * from log",
        "INVALID_ARGUMENT: [SQLite] Failed to prepare query: malformed database schema (x) - near y\nquery: select 1",
        "INVALID_ARGUMENT: [SQLite] Failed to prepare query: no such table: x\nquery: select 1",
    ):
        assert type(named("a.db", Exception(words))) is shards.Damaged, words
    for words in ("malformed JSON", "malformed MATCH expression: [x]"):
        assert type(named("a.db", Exception(f"IO: Failed to step query: {words}"))) is shards.ShardError, words


def test_wrong_arguments(logs):
    for arguments in (
        {}, {"table": "log", "query": "select 1"}, {"table": "log", "errors": "ignore"}, {"table": "log", "columns": ["no"]},
        {"table": "log", "errors": "skip"}, {"table": "log", "split_bytes": 0},
    ):
        with pytest.raises(ValueError):
            shards.scan(logs, **arguments)


@pytest.mark.parametrize("is_packed", [True, False])
@pytest.mark.parametrize("kind", ["dense", "two clusters", "random", "extremes", "one row", "none"])
def test_ranges_hold_every_row_once(kind, is_packed):
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    ids = {
        "dense": range(5000),
        "two clusters": [*range(3000), *range(2**61, 2**61 + 2000)],
        "random": list({source.randrange(-(2**62), 2**62) for _ in range(5000)}),
        "extremes": [-(2**63), 2**63 - 1, 0],
        "one row": [7],
        "none": [],
    }[kind]
    make("a.db", ((i, "x" * 100) for i in ids), "id integer primary key, t text", is_packed=is_packed)
    scan = shards.scan("a.db", table="log", split_bytes=max(1, os.path.getsize("a.db") // 8))
    counts = [sum(batch.num_rows for batch in scan.read(part)) for part in scan.parts]
    found = [row["id"] for part in scan.parts for batch in scan.read(part) for row in batch.to_pylist()]
    assert sorted(found) == sorted(ids)
    firsts = [(part.first, part.last) for part in scan.parts]
    if len(firsts) > 1:
        assert firsts[0][0] == -(2**63) and firsts[-1][1] == 2**63 - 1
        assert all(before[1] + 1 == after[0] for before, after in zip(firsts, firsts[1:]))
    if len(ids) > 1000:
        assert len(counts) >= 8 and max(counts) < 2.5 * len(ids) / len(counts)


@pytest.mark.parametrize("cuts", [[], [5], [-(2**63)], [2**63 - 1], [-(2**63), 0, 2**63 - 1], None, "error"])
def test_ranges_meet_wherever_the_cuts_are(cuts):
    class Cursor:
        """Of a table with rows 1 to 9."""

        def execute(self, sql, arguments=()):
            if "rootpage" in sql:
                self.row = (7,)
            elif "litepack_split" in sql:
                if cuts == "error":
                    raise RuntimeError("the packed file is damaged")
                self.row = None if cuts is None else (str(cuts),)
            elif "min(" in sql:
                self.row = (1, 9)
            else:
                bound = arguments[0]
                rows = [id for id in range(1, 10) if (id >= bound if ">=" in sql else id <= bound)]
                self.row = (min(rows) if ">=" in sql else max(rows),) if rows else None

        def fetchone(self):
            return self.row

    found = _split.ranges(Cursor(), "t", "rowid", 3)
    assert found[0][0] == -(2**63) and found[-1][1] == 2**63 - 1
    assert all(before[1] + 1 == after[0] for before, after in zip(found, found[1:]))
    assert all(first <= last for first, last in found)
    assert len(found) == (3 if cuts in ([], None, "error") else len([cut for cut in cuts if cut < 2**63 - 1]) + 1)


def test_tables_that_have_no_rowid_are_one_part():
    with closing(litepack.connect("a.db")) as db, db:
        db.execute("create table log (a text primary key) without rowid")
        db.execute("create table named (rowid text, _rowid_ text, oid text)")
        db.execute("create view seen as select * from log")
        db.execute("insert into log values ('x')")
        db.execute("insert into named values ('x', 'y', 'z')")
    for table in ("log", "named"):
        scan = shards.scan("a.db", table=table, split_bytes=100)
        assert len(scan.parts) == 1 and len(rows_of(scan)) == 1
    with pytest.raises(shards.Mismatch, match="a view"):
        shards.scan("a.db", table="seen")


@pytest.mark.parametrize(
    ("declared", "values", "kind"),
    [
        ("integer", [1, 2.5], "int64"),
        ("integer", [1, "many"], "int64"),
        ("text", ["a", b"b"], "string"),
        ("real", [1.5, "x"], "double"),
        ("decimal(10,2)", [1.5, 2**53 + 1], "double"),
        ("blob", [b"a", 1], "binary"),
        ("", [1, "x"], "int64"),
    ],
)
@pytest.mark.parametrize("far", [False, True])
def test_a_value_that_does_not_fit_is_an_error_wherever_it_is(declared, values, kind, far):
    """Not converted, neither among the first rows, which decide on the driver's types, nor later."""
    good, bad = values
    make("a.db", [(good,)] * 10, f"c {declared}")
    make("b.db", [(good,)] * (300 if far else 1) + [(bad,)], f"c {declared}")
    scan = shards.scan(["a.db", "b.db"], table="log", batch_rows=100)
    assert str(scan.schema.field("c").type) == kind
    with pytest.raises(shards.Mismatch, match=r"b\.db: column c"):
        rows_of(scan)


def test_values_are_the_same_in_the_first_batch_and_later():
    """The driver writes a real number in a text column in one way among the first rows, and in another later."""
    make("a.db", [("x",), (0.1,)] * 300, "c")
    values = [row["c"] for row in rows_of(shards.scan("a.db", table="log", batch_rows=100))]
    assert values == ["x", "0.1"] * 300


def test_text_that_is_not_utf8():
    make("a.db", [], "c text")
    with closing(litepack.connect("a.db")) as db, db:
        db.execute("insert into log values (cast(x'ff' as text))")
    with pytest.raises(shards.ShardError, match=r"a\.db"):
        rows_of(shards.scan("a.db", table="log"))


def expect_no_fit(schema, name, value, why=""):
    """One row more than in a.db, with this value, is an error."""
    shutil.copy("a.db", "b.db")
    with closing(litepack.connect("b.db")) as db, db:
        db.execute(f"insert into log ({name}) values (?)", (value,))
    with pytest.raises(shards.Mismatch, match=f"b.db: column {name}{why}"):
        rows_of(shards.scan("b.db", table="log", schema=schema))


def test_types_that_are_asked_for():
    rows = [("2026-01-02 03:04:05", "1.25", 1, 9), (1767323045, "3", 0, None), (None, None, None, None)]
    make("a.db", rows, "at timestamp, amount text, flag int, small int")
    schema = pyarrow.schema(
        {"at": pyarrow.timestamp("us", "UTC"), "amount": pyarrow.decimal128(9, 2), "flag": pyarrow.bool_(), "small": pyarrow.int8()}
    )
    found = shards.scan("a.db", table="log", schema=schema).reader().read_all()
    assert found.schema == schema
    assert [str(value) for value in found["at"].to_pylist()] == ["2026-01-02 03:04:05+00:00"] + [
        "2026-01-02 03:04:05+00:00", "None"]
    assert [str(value) for value in found["amount"].to_pylist()] == ["1.25", "3.00", "None"]
    assert found["flag"].to_pylist() == [True, False, None]
    # The last are milliseconds.
    for name, value in (("flag", 2), ("small", 300), ("at", "soon"), ("amount", "1.234"), ("at", 1767323045000)):
        expect_no_fit(schema, name, value)


def test_nothing_is_cut_or_rounded():
    make("a.db", [("2026-01-02", 0.5), (1767312000, 1e9), (None, None)], "day date, x real")
    schema = pyarrow.schema({"day": pyarrow.date32(), "x": pyarrow.float32()})
    found = rows_of(shards.scan("a.db", table="log", schema=schema))
    assert [str(row["day"]) for row in found] == ["2026-01-02"] * 2 + ["None"]
    assert [row["x"] for row in found] == [0.5, 1e9, None]
    for name, value, why in (("day", "2026-01-02 05:00:00", "a time of a day"), ("day", 1767312001, "a time"), ("x", 0.1, "digits")):
        expect_no_fit(schema, name, value, f" .*{why}")


def test_a_column_with_the_name_of_ours():
    make("a.db", [(1, "x")], "id int, _file text")
    make("b.db", [(1,)], "id int")
    for paths in ("a.db", ["b.db", "a.db"]):
        with pytest.raises(shards.Mismatch, match=r"a\.db: has a column _file"):
            rows_of(shards.scan(paths, table="log", columns=["id"]))
    assert rows_of(shards.scan("a.db", query="select _file as name from log")) == [{"name": "x"}]
    make("c.db", [(1, "x")], "id int, _FILE text")
    with pytest.raises(shards.Mismatch, match=r"c\.db: has a column _file"):
        shards.scan("c.db", table="log")
    for name in ("_file", "_File"):
        with pytest.raises(ValueError, match="_file"):
            shards.write("out", shards.begin("out"), pyarrow.table({name: ["x"]}).to_batches())


def test_files_without_values_have_no_say():
    make("a.db", [], "n numeric, x")
    make("b.db", [(None, None)], "n numeric, x")
    make("c.db", [(1, 0.5)], "n numeric, x")
    for names in (["a.db", "b.db", "c.db"], ["c.db", "b.db", "a.db"]):
        scan = shards.scan(names, table="log", merge_schema=True)
        assert [str(field.type) for field in scan.schema] == ["double", "double"]
        assert {"n": 1.0, "x": 0.5} in rows_of(scan)
    assert [str(field.type) for field in shards.scan(["a.db", "b.db"], table="log", merge_schema=True).schema] == ["string"] * 2


def test_files_whose_columns_differ():
    make("a.db", [(1, "x")], "id int, t text")
    make("b.db", [(2, "y", 1.5)], "id int, t text, r real")
    make("c.db", [(3,)], "id int")
    make("d.db", [("4", "z")], "id text, t text")
    for second, why in (("b.db", "has a column r"), ("c.db", "no column t"), ("d.db", "declared TEXT")):
        with pytest.raises(shards.Mismatch, match=f"{second}: .*{why}"):
            rows_of(shards.scan(["a.db", second], table="log"))
    assert len(rows_of(shards.scan(["a.db", "b.db"], table="log", columns=["id", "t"]))) == 2
    merged = rows_of(shards.scan(["a.db", "b.db", "c.db"], table="log", merge_schema=True))
    assert merged == [{"id": 1, "t": "x", "r": None}, {"id": 2, "t": "y", "r": 1.5}, {"id": 3, "t": None, "r": None}]
    with pytest.raises(shards.Mismatch, match=r"d\.db: column id is string"):
        shards.scan(["a.db", "d.db"], table="log", merge_schema=True)


def test_names_whose_case_differs():
    """SQLite takes A to Z for a to z in names, and no other letters."""
    make("a.db", [(1, "x", 1)], 'id integer primary key, at text, "é" int')
    make("b.db", [(2, "y", 2)], 'ID integer primary key, At text, "É" int', table="Log")
    names = ["a.db", "b.db"]
    merged = shards.scan(names, table="log", merge_schema=True)
    assert merged.schema.names == ["id", "at", "é", "É"]
    assert rows_of(merged) == [{"id": 1, "at": "x", "é": 1, "É": None}, {"id": 2, "at": "y", "é": None, "É": 2}]
    columns = {"table": "LOG", "columns": ["id", "at"]}
    assert rows_of(shards.scan(names, **columns)) == [{"id": 1, "at": "x"}, {"id": 2, "at": "y"}]
    schema = pyarrow.schema([("AT", "string")])
    for merge in (True, False):
        assert rows_of(shards.scan("b.db", table="log", schema=schema, merge_schema=merge)) == [{"AT": "y"}]
    # Conditions, and parts by rowid.
    for scan in (
        shards.scan(names, filters=[Filter("at", "=", "y")], **columns),
        shards.scan(names, filters=[Filter("AT", "=", "y")], table="log", schema=schema),
    ):
        sql, values = read_sql(scan, "b.db")
        assert '"At" COLLATE BINARY = ?' in sql and values == ["y"]
    make("c.db", ((i, "z") for i in range(5000)), "Id integer primary key, AT text", table="LOG", is_packed=False)
    scan = shards.scan("c.db", table="log", split_bytes=4096)
    assert len(scan.parts) > 1 and len(rows_of(scan)) == 5000
    # A column that a file has not is missed, however the schema spells it.
    make("d.db", [(1,)], "id int")
    with pytest.raises(shards.Mismatch, match=r"d\.db: no column at"):
        rows_of(shards.scan(["a.db", "d.db"], table="log", schema=schema))


def read_sql(scan, path):
    with _read.opened(shards.find(path)[0]) as cursor:
        return scan.reading._sql(cursor, shards.Part(shards.find(path)[0]), scan.filters)


VALUES = {
    "id": [0, 5, -1, 2**63 - 1, 10**30, 1.5, True, None, "5"],
    "ms": [0.0, -0.0, 2.5, math.inf, -math.inf, math.nan, 1, None],
    "what": ["row 5", "", "row", "ROW 5", "é", "'; drop table log; --", "5", "\0", "x" * 10, None, "\ud800"],
    "at": ["2026-01-02 05:00:00", "2026", "1e3", "", None],
    "any": ["5", 5, None],
}


def true(one, value):
    """Whether a condition is true of a value, as the engines have it: order of code points, NULL is never true."""
    comparisons = {
        "=": lambda a, b: a == b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
        ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }
    if one.op == "null":
        result = value is None
    elif one.op == "is":
        result = value == one.value and (value is None) == (one.value is None)
    elif one.op == "in":
        result = value in [v for v in one.value if v is not None]
        if value is None or (not result and None in one.value):
            return False
    elif value is None or one.value is None:
        return False
    elif one.op == "startswith":
        result = value.startswith(one.value)
    elif one.op == "contains":
        result = one.value in value
    elif isinstance(one.value, float) and math.isnan(one.value):
        # NaN equals itself and is greater than all numbers; the files have none.
        result = one.op in ("<", "<=")
    else:
        result = comparisons[one.op](value, one.value)
    return result != one.negated


def test_filters_leave_out_no_row_that_matches():
    """Every operator with every value on every kind of column, in files of both encodings, beside a check of each row."""
    rows = [
        (0, None, 200, 0.0, "row 5", b"", "x"), (5, "2026-01-02 05:00:00", 1, 2.5, "", b"x", 5),
        (-1, "2026", 2, -math.inf, "ROW 5", None, "5"), (7, "2025-12-31", None, math.inf, "é\U0001f600", None, None),
        (8, "1e3", None, None, "row\0nul", None, ""), (2**63 - 1, "", None, 1e300, None, None, 0.5), (9, "x", 1, 1.0, "rów", b"", "z"),
        (11, "2026-01-02", 1, 3.0, "\uffff", b"", "rowing"), (12, None, None, None, "\u0100", b"", None),
    ]
    columns = "id integer, at date, status int, ms real, what text collate nocase, body blob, any"
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    for encoding in ("UTF-8", "UTF-16le"):
        path = f"{encoding}.db"
        with closing(litepack.connect(path)) as db, db:
            db.execute(f"pragma encoding = '{encoding}'")
            db.execute(f"create table log ({columns})")
            db.executemany("insert into log values (?,?,?,?,?,?,?)", rows)
            db.execute("create index what on log (what)")
            db.execute("create index at on log (at)")
        for scan in (shards.scan(path, table="log"), shards.scan(path, query="select * from log")):
            everything = rows_of(scan)
            assert len(everything) == len(rows)
            fewer = 0
            for column, values in VALUES.items():
                conditions = [Filter(column, "null"), Filter(column, "null", None, True)]
                kind = str if str(scan.schema.field(column).type) == "string" else (int, float)
                for value in values:
                    # An engine casts a value to the column's type before it pushes it.
                    if value is not None and not isinstance(value, kind):
                        continue
                    text = isinstance(value, str)
                    for op in ("=", "<", "<=", ">", ">=", "is", "in", *(("startswith", "contains") if text else ())):
                        for negated in (False, True):
                            conditions.append(Filter(column, op, (value, None) if op == "in" else value, negated))
                # All of them take a quarter of a minute. The last two are where the orders of SQLite are others.
                some = source.sample(conditions, min(len(conditions), 20))
                some += [Filter(column, ">", "é")] if column == "what" else [Filter(column, "<", "2026")] * (column == "at")
                for one in some:
                    left = rows_of(scan, [one])
                    lost = [row for row in everything if true(one, row[column]) and row not in left]
                    assert not lost, (encoding, one, lost)
                    fewer += len(left) < len(everything)
            assert fewer > 20


def test_pushed_filters_use_an_index(logs):
    make("big.db", log(0, 20000))
    with closing(litepack.connect("big.db")) as db, db:
        db.execute("create index at on log(at)")
    plan = shards.scan("big.db", table="log", columns=["id"])
    with _read.opened(plan.shards[0]) as cursor:
        for one in (Filter("at", ">=", "2026-01-01 23"), Filter("id", "=", 5), Filter("at", "startswith", "2026-01-01 07")):
            sql, values = plan.reading._sql(cursor, plan.parts[0], (one,))
            # The column of a condition need not be among those that are read; it is then not pushed.
            if one.column in plan.schema.names:
                cursor.execute(f"explain query plan {sql}", values)
                assert any("SEARCH" in str(row) for row in cursor.fetchall())


def test_names_are_quoted():
    with closing(litepack.connect("a.db")) as db, db:
        db.execute('''create table "a"" b; drop" ("c"" 'd" text, "select" int)''')
        db.execute('''insert into "a"" b; drop" values (?, 1)''', (b"x",))
        db.execute('''update "a"" b; drop" set "c"" 'd" = 'x' ''')
    scan = shards.scan("a.db", table='a" b; drop')
    assert rows_of(scan, [Filter("c\" 'd", "=", "x"), Filter("select", "in", (1, 2))]) == [{"c\" 'd": "x", "select": 1}]
    with closing(litepack.connect("a.db")) as db, db:
        db.execute('''update "a"" b; drop" set "c"" 'd" = x'00' ''')
    with pytest.raises(shards.Mismatch, match="column c\" 'd"):
        rows_of(shards.scan("a.db", table='a" b; drop'))


def test_it_writes_nothing(logs):
    for query in ("delete from log", "select 1 as a; delete from log", "select load_extension('x') as a"):
        with pytest.raises(Exception, match="syntax|not authorized|incomplete|one statement"):
            rows_of(shards.scan(logs, query=query))
