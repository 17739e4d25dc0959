"""Spark, Dask and Daft read and write many files; each where it is installed."""

from __future__ import annotations

import os
import pathlib
import subprocess
from contextlib import closing

import pytest

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_sqlite")

import litepack  # noqa: E402
from litepack import shards  # noqa: E402

ROWS = 2000


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    for number in range(3):
        with closing(litepack.connect(folder / f"{number}.db")) as db, db:
            db.execute("create table log (id integer primary key, at date, status int, ms real, what text)")
            ids = range(number * 10000, number * 10000 + ROWS)
            rows = [(i, f"2026-01-{number + 1:02}", 200 + i % 3, None if i % 5 == 0 else i / 2, f"row {i}") for i in ids]
            db.executemany("insert into log values (?, ?, ?, ?, ?)", rows)
    return str(folder / "*.db")


def expected(logs, where="1"):
    """The same from plain connections."""
    rows = []
    for shard in shards.find(logs):
        with closing(litepack.connect(shard.path)) as db:
            rows += db.execute(f"select id, at, status, ms, what from log where {where}").fetchall()
    return sorted(rows)


@pytest.fixture(scope="module")
def catalog(logs, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("catalog") / "catalog.db")
    command = [litepack.command_path(), "catalog", logs, "-o", path]
    subprocess.run(command, check=True, capture_output=True)
    return path


SECOND_DAY = [shards.Filter("id", ">=", 10000), shards.Filter("id", "<", 20000)]


# Dask.


def test_dask(logs, tmp_path):
    pytest.importorskip("dask.dataframe")
    import dask

    import litepack.dask

    with dask.config.set(scheduler="threads"):
        frame = litepack.dask.read(logs, table="log", split_bytes=1024)
        assert frame.npartitions > 3
        found = frame.compute()
        assert str(found.dtypes["id"]) == "int64[pyarrow]"
        rows = pyarrow.Table.from_pandas(found, preserve_index=False).to_pylist()
        assert [tuple(row.values()) for row in rows] == expected(logs)
        counts = litepack.dask.read(logs, "select status, count(*) as n from log group by 1")
        assert counts.groupby("status").n.sum().compute().sum() == 3 * ROWS

        out = str(tmp_path / "out")
        paths = litepack.dask.write_partitions(frame, out, table="log")
        assert len(paths) == frame.npartitions
        assert expected(out + "/*.db") == expected(logs)
        with pytest.raises(FileExistsError):
            litepack.dask.write_partitions(frame, out, table="log")

        def failing(part):
            if len(part) and part.id.min() > 20000:
                raise RuntimeError("this partition fails")
            return part

        with pytest.raises(RuntimeError, match="fails"):
            litepack.dask.write_partitions(frame.map_partitions(failing, meta=frame._meta), out, mode="overwrite")
        assert expected(out + "/*.db") == expected(logs)
        assert os.listdir(tmp_path) == ["out"]


def test_dask_writes_partitions_of_one_kind(tmp_path):
    """Whatever values each has: one has none, another has integers where there are gaps elsewhere."""
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    import dask

    import litepack.dask

    frames = [
        pandas.DataFrame({"i": [1, 2], "f": [1.0, None], "t": pandas.Series(["x", None], dtype=object)}),
        pandas.DataFrame({"i": [3, 4], "f": [None, None], "t": pandas.Series([None, None], dtype=object)}),
    ]
    frames[1]["f"] = frames[1]["f"].astype(object)
    with dask.config.set({"scheduler": "threads", "dataframe.convert-string": False}):
        frame = dataframe.from_map(lambda number: frames[number], [0, 1], meta=frames[0].iloc[:0])
        out = str(tmp_path / "out")
        litepack.dask.write_partitions(frame, out, table="log")
    found = shards.scan(out, table="log").reader().read_all()
    assert [str(field.type) for field in found.schema] == ["int64", "double", "string"]
    assert found.to_pydict() == {"i": [1, 2, 3, 4], "f": [1.0, None, None, None], "t": ["x", None, None, None]}


def test_dask_with_a_catalog(logs, catalog):
    pytest.importorskip("dask.dataframe")
    import litepack.dask

    frame = litepack.dask.read(logs, table="log", catalog=catalog, filters=SECOND_DAY)
    assert frame.npartitions == 1
    assert frame.id.count().compute(scheduler="threads") == ROWS
    nothing = litepack.dask.read(logs, table="log", catalog=catalog, filters=[shards.Filter("id", "<", 0)])
    assert len(nothing.compute(scheduler="threads")) == 0


# Daft.


def test_daft(logs):
    pytest.importorskip("daft")
    import litepack.daft

    frame = litepack.daft.read(logs, table="log", split_bytes=1024)
    rows = sorted(zip(*frame.to_pydict().values()))
    assert [row[:3] for row in rows] == [row[:3] for row in expected(logs)]
    # Columns that it leaves out, and conditions on ones that it does not return, in another order.
    found = frame.where("status = 201 and id < 10").select("what", "id").sort("id").to_pydict()
    assert found == {"what": [f"row {i}" for i in (1, 4, 7)], "id": [1, 4, 7]}
    assert frame.count_rows() == 3 * ROWS
    sums = frame.groupby("status").sum("id").sort("status").to_pydict()
    assert sums == {
        "status": [200, 201, 202], "id": [sum(row[0] for row in expected(logs, f"status = {s}")) for s in (200, 201, 202)]
    }


@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("id >= 10000 and id < 20000 and status = 200", 1),
        ("10005 = id", 1),
        ("id between 5 and 10010", 2),
        ("id in (5, 20005) and what <> 'row 5'", 2),
        ("20000 < id and ms is null", 1),
        ("id < 0", 0),
        ("id is null", 0),
        ("id is not null and ms is not null", 3),
        ("id = 5 or status = 201", 3),
        ("not (id > 5 and status = 201)", 3),
        ("cast(id as text) < '20'", 3),
        ("id + 1 = 6", 3),
        ("what like 'row 2%' and id <= 20000.5", 3),
    ],
)
def test_daft_with_a_catalog(logs, catalog, condition, files):
    pytest.importorskip("daft")
    import asyncio

    import daft
    from daft.io.pushdowns import Pushdowns

    import litepack.daft

    source = litepack.daft.Source(shards.scan(logs, table="log", catalog=catalog))
    rows = sorted(zip(*source.read().where(condition).select("id", "what").to_pydict().values()))
    assert rows == [(row[0], row[4]) for row in expected(logs, condition)]

    async def tasks():
        return [task async for task in source.get_tasks(Pushdowns(filters=daft.sql_expr(condition)))]

    assert len(asyncio.run(tasks())) == files
    # Conditions of ours, on a column that the query does not need.
    frame = litepack.daft.read(None, table="log", catalog=catalog, filters=SECOND_DAY).where(condition)
    rows = [row[4] for row in expected(logs, f"({condition}) and id >= 10000 and id < 20000")]
    assert sorted(frame.select("what").to_pydict()["what"]) == sorted(rows)
    assert frame.count_rows() == len(rows)


# Spark.


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark", minversion="4.0")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = __import__("sys").executable
    # Two tries for each task, as a cluster has four.
    builder = SparkSession.builder.master("local[2,2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def read(spark, path, **options):
    reader = spark.read.format("litepack")
    for name, value in {"table": "log", **options}.items():
        reader = reader.option(name, value)
    return reader.load(path)


def test_spark_reads(spark, logs):
    frame = read(spark, logs, splitBytes="1024")
    assert frame.schema.simpleString() == "struct<id:bigint,at:string,status:bigint,ms:double,what:string>"
    assert frame.rdd.getNumPartitions() > 3
    assert sorted(map(tuple, frame.collect()), key=lambda row: row[0]) == expected(logs)
    files = read(spark, logs, columns="_file,id").groupBy("_file").count().collect()
    assert sorted(row["_file"] for row in files) == [shard.path for shard in shards.find(logs)]


def test_spark_reads_small_files_together(spark, logs):
    assert read(spark, logs).rdd.getNumPartitions() == 1
    assert read(spark, logs, groupBytes=str(2 << 20)).rdd.getNumPartitions() == 2
    apart = read(spark, logs, groupBytes="1")
    assert apart.rdd.getNumPartitions() == 3
    for frame in (apart, read(spark, logs)):
        assert sorted(map(tuple, frame.collect()), key=lambda row: row[0]) == expected(logs)
    # A large file is not put together again from its parts.
    assert read(spark, logs, splitBytes="1024").rdd.getNumPartitions() > 3


def test_spark_with_a_catalog(spark, logs, catalog):
    condition = "id >= 10000 and id < 10010 and status = 200"
    for pushing, partitions in (("true", 1), ("false", 3)):
        frame = read(spark, logs, catalog=catalog, pushFilters=pushing, groupBytes="1").where(condition)
        assert sorted(map(tuple, frame.collect()), key=lambda row: row[0]) == expected(logs, condition)
        # In a query of its own: a plan keeps its partitions.
        frame = read(spark, logs, catalog=catalog, pushFilters=pushing, groupBytes="1").where(condition)
        assert frame.rdd.getNumPartitions() == partitions
    frame = spark.read.format("litepack").option("table", "log").option("catalog", catalog).load()
    assert frame.count() == 3 * ROWS


def test_spark_filters(spark, logs):
    """With filters pushed and not, the answers are those of SQLite; a DataFrame that is used again keeps all its rows."""
    conditions = [
        "id >= 10003 and at = '2026-01-02' and status in (200, 202) and not (status = 200)",
        "ms is null and id < 50 and what <> 'row 5'",
        "what like 'row 2000%' and what like '%9' and (ms > 10004.5 or id = 7)",
        "id = 5 and what = \"'; drop table log; --\"",
    ]
    for condition in conditions:
        rows = expected(logs, condition.replace("\"'; drop table log; --\"", "'''; drop'"))
        for pushing in ("true", "false"):
            found = read(spark, logs, pushFilters=pushing).filter(condition).collect()
            assert sorted(map(tuple, found), key=lambda row: row[0]) == rows, (condition, pushing)
    assert read(spark, logs, pushFilters="true").filter("ms < double('NaN')").count() == sum(
        row[3] is not None for row in expected(logs)
    )
    frame = read(spark, logs)
    few, others = frame.filter("id < 10"), frame.filter("id >= 20000")
    assert few.count() == 10
    assert frame.count() == 3 * ROWS
    assert few.union(others).count() == 10 + ROWS


def test_spark_errors(spark, logs, tmp_path):
    for options, why in (({"tabel": "log"}, "no option 'tabel'"), ({"mergeSchema": "yes"}, "true or false"), ({"table": "no"}, "no such table")):
        with pytest.raises(Exception, match=why):
            read(spark, logs, **options).count()
    (tmp_path / "bad.db").write_text("no database at all, but long enough to look like something. " * 100)
    paths = __import__("json").dumps([logs, str(tmp_path / "bad.db")])
    both = {"table": "log", "paths": paths}
    with pytest.raises(Exception, match=r"bad\.db: .*not a database"):
        spark.read.format("litepack").options(**both).load().count()
    left_out = str(tmp_path / "left-out")
    frame = spark.read.format("litepack").options(**both, errors="skip", skipped=left_out).load()
    assert frame.count() == 3 * ROWS
    assert [pathlib.Path(report["file"]).name for report in shards.skipped(left_out)] == ["bad.db"]


def test_spark_compares_the_columns_of_files(spark, logs, tmp_path):
    path = str(tmp_path / "more.db")
    with closing(litepack.connect(path)) as db, db:
        db.execute("create table log (id integer primary key, at date, status int, ms real, what text, more text)")
        db.execute("insert into log values (-1, 'x', 0, 0, '', 'more')")
    options = {"table": "log", "paths": __import__("json").dumps([logs, path])}

    def load(**more):
        return spark.read.format("litepack").options(**options, **more).load()

    with pytest.raises(Exception, match=r"more\.db: has a column more"):
        load().count()
    merged = load(mergeSchema="true")
    assert merged.columns[-1] == "more" and [row.id for row in merged.where("more is not null").collect()] == [-1]
    # Those who choose columns want no others.
    assert load(columns="id,at,status,ms,what").count() == 3 * ROWS + 1
    schema = "id long, what string"
    assert spark.read.format("litepack").schema(schema).options(**options).load().count() == 3 * ROWS + 1


def test_spark_survives_a_worker_that_is_killed(spark, logs, tmp_path):
    """The worker process of one partition is killed in the middle; its task is repeated, and no row comes twice."""
    marker = str(tmp_path / "killed")

    def once(batches):
        for number, batch in enumerate(batches):
            yield batch
            if number == 0 and 20000 in batch.column(0).to_pylist() and not os.path.exists(marker):
                open(marker, "w").close()
                os.kill(os.getpid(), 9)

    frame = read(spark, logs, batchRows="500").select("id").mapInArrow(once, "id long")
    assert sorted(row.id for row in frame.collect()) == [row[0] for row in expected(logs)]
    assert os.path.exists(marker)


def test_spark_writes(spark, logs, tmp_path):
    out = str(tmp_path / "out")
    frame = read(spark, logs).selectExpr("*", "cast(at as date) as day", "cast(ms as decimal(12,2)) as amount")
    write = frame.repartition(2).write.format("litepack").option("table", "log").option("indexes", "at; status,id")
    write.mode("append").save(out)
    assert len(os.listdir(out)) == 2
    assert expected(out + "/*.db") == expected(logs)
    write.mode("append").save(out)
    assert len(os.listdir(out)) == 4
    write.mode("overwrite").save(out)
    schema = "id long, day date, amount decimal(12,2)"
    back = spark.read.format("litepack").schema(schema).option("table", "log").load(out)
    wanted = frame.selectExpr("id", "day", "amount")
    assert sorted(map(tuple, back.collect())) == sorted(map(tuple, wanted.collect()), key=lambda row: row[0])

    def failing(batches):
        for batch in batches:
            if 20000 in batch.column(0).to_pylist():
                raise RuntimeError("this partition fails")
            yield batch

    broken = read(spark, logs).select("id").mapInArrow(failing, "id long")
    before = sorted(os.listdir(out))
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="this partition fails"):
            broken.write.format("litepack").mode(mode).save(out)
        assert sorted(os.listdir(out)) == before
    with pytest.raises(Exception, match="this partition fails"):
        broken.write.format("litepack").mode("append").save(str(tmp_path / "new"))
    assert os.listdir(tmp_path) == ["out"]
