"""Many packed files in an object store, and the same query by Spark, Dask and one process over the plain files.

usage: demo.py WORK [--shards N] [--rows N] [--web | --url PREFIX] [--fail-every N] [--json FILE]

Each engine has a process of its own, so its time is with starting it; the time of the query alone is beside it. With
--web, or without Go, the files are on a web server instead. With --url they are read from there (upload WORK/packed
first). Exits with 1 if two answers differ.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import closing

import store

HERE = pathlib.Path(__file__).parent
QUERY = "select status, count(*) as n, sum(bytes) as bytes from log where path like '/api/%' group by status"
START, DAY = 1767225600, 86400
PATHS = [f"/{kind}/{name}" for kind in ("api", "static", "page") for name in range(40)]


def generate(work, shards, rows):
    """A day's log in each file: plain, packed, and as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    import litepack

    for kind in ("plain", "packed", "parquet"):
        (work / kind).mkdir(parents=True, exist_ok=True)
    source = random.Random(1)

    def one(day):
        name = f"log-{day:04}"
        plain, packed = work / "plain" / f"{name}.db", work / "packed" / f"{name}.db"
        if packed.exists():
            return
        plain.unlink(missing_ok=True)
        moment = START + day * DAY
        with closing(sqlite3.connect(plain)) as db, db:
            db.execute("create table log (id integer primary key, at integer, ip text, path text, status integer, bytes integer, agent text)")
            db.execute("create index log_at on log (at)")
            entries = []
            for number in range(rows):
                moment += source.randrange(2)
                entries.append((
                    day * 10_000_000 + number, moment, f"10.{source.randrange(4)}.{source.randrange(256)}.{source.randrange(256)}",
                    source.choice(PATHS), source.choices((200, 304, 404, 500), (90, 5, 4, 1))[0],
                    source.randrange(200, 20000), f"agent/{source.randrange(30)}.0 (device {source.randrange(9)})",
                ))
            db.executemany("insert into log values (?,?,?,?,?,?,?)", entries)
        names = ("id", "at", "ip", "path", "status", "bytes", "agent")
        table = pa.table(dict(zip(names, map(list, zip(*entries)))))
        parquet.write_table(table, work / "parquet" / f"{name}.parquet", compression="zstd")
        subprocess.run([litepack.command_path(), "pack", plain, packed], check=True, capture_output=True)

    for day in range(shards):
        one(day)
        if sys.stderr.isatty():
            print(f"\r{day + 1} of {shards} files", end="", file=sys.stderr)


def total(rows):
    """Sums over the files, in one order, to compare."""
    sums = {}
    for status, n, size in rows:
        before = sums.get(int(status), (0, 0))
        sums[int(status)] = (before[0] + int(n), before[1] + int(size))
    return sorted([status, *both] for status, both in sums.items())


def by_plain(arguments):
    rows = []
    for path in sorted(pathlib.Path(arguments["plain"]).glob("*.db")):
        with closing(sqlite3.connect(path)) as db:
            rows += db.execute(QUERY).fetchall()
    return rows


def by_process(arguments):
    from litepack import shards

    return [tuple(row.values()) for row in shards.scan(arguments["paths"], query=QUERY).reader().read_all().to_pylist()]


def by_dask(arguments):
    import dask

    import litepack.dask

    with dask.config.set(scheduler="processes", num_workers=2):
        frame = litepack.dask.read(arguments["paths"], QUERY).compute()
    return frame.astype("int64").values.tolist()


def spark_session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
                        "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def by_spark(arguments):
    frame = spark_session().read.format("litepack").option("query", QUERY).option("paths", json.dumps(arguments["paths"])).load()
    return [tuple(row) for row in frame.collect()]


def by_day(arguments):
    """The lines of one day: how many files were opened for them, and how many lines there are."""
    from litepack import shards

    begin = START + arguments["day"] * DAY
    filters = [shards.Filter("at", ">=", begin), shards.Filter("at", "<", begin + DAY)]
    scan = shards.scan(arguments["paths"], table="log", filters=filters, **arguments["options"])
    return [len(scan.parts), scan.reader().read_all().num_rows]


def scan_packed(arguments):
    """All columns of all rows of one file as Arrow."""
    from litepack import shards

    return sum(batch.num_rows for batch in shards.scan(arguments["folder"], table="log").reader())


def scan_parquet(arguments):
    import pyarrow.dataset as dataset

    return sum(batch.num_rows for batch in dataset.dataset(arguments["folder"]).to_batches())


TASKS = {task.__name__: task for task in (by_plain, by_process, by_dask, by_spark, by_day, scan_packed, scan_parquet)}


def run(name, **arguments):
    """A task in a process of its own: its answer, seconds in all, seconds of its function."""
    begun = time.monotonic()
    command = [sys.executable, __file__, "--task", name, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr[-3000:]}")
    answer, seconds = json.loads(done.stdout.splitlines()[-1])
    return answer, time.monotonic() - begun, seconds


def task(name, arguments):
    begun = time.monotonic()
    answer = TASKS[name](json.loads(arguments))
    seconds = time.monotonic() - begun
    print(json.dumps([answer, seconds]))


def catalog(paths, target):
    """Makes a catalog, and makes it again: seconds of both."""
    import litepack

    target.unlink(missing_ok=True)
    seconds = []
    for _ in range(2):
        begun = time.monotonic()
        subprocess.run([litepack.command_path(), "catalog", *paths, "-o", target], check=True, capture_output=True)
        seconds.append(time.monotonic() - begun)
    return seconds


def one_day(options, work, urls, listed, counters):
    """A query for one day, on the disk and on the server, without a catalog and with one. A catalog is made of ``listed``."""
    disk = [str(work / "packed")]
    places = {"disk": (disk, disk), "server": (urls, listed)}
    rows = []
    for place, (paths, listed) in places.items():
        before = counters()
        target = work / f"{place}.catalog"
        seconds = catalog(listed, target)
        made = [now - then for now, then in zip(counters(), before)]
        rows.append({"what": f"{place}: making the catalog", "seconds": seconds[0], "requests": made[0], "bytes": made[1], "again": seconds[1]})
        used = {"without": {}, "with it": {"catalog": str(target)}}
        if place == "server":
            used["with it, trusted"] = {"catalog": str(target), "catalog_trusted": True}
        for name, how in used.items():
            before = counters()
            (files, lines), _, seconds = run("by_day", paths=paths, options=how, day=options.shards // 2)
            spent = [now - then for now, then in zip(counters(), before)]
            assert lines == options.rows, (name, lines)
            rows.append({"what": f"{place}: one day, {name}", "files": files, "seconds": seconds, "requests": spent[0], "bytes": spent[1]})
    return rows


def size(folder):
    return sum(path.stat().st_size for path in folder.iterdir() if path.suffix in (".db", ".parquet"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--rows", type=int, default=10000)
    parser.add_argument("--url")
    parser.add_argument("--web", action="store_true")
    parser.add_argument("--fail-every", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--engines", default="process,dask,spark")
    options = parser.parse_args()
    work = options.work.resolve() / f"{options.shards}x{options.rows}"
    generate(work, options.shards, options.rows)
    ports = work / "port"
    ports.unlink(missing_ok=True)
    gateway = None if options.web or options.url else store.program(options.work.resolve())
    with contextlib.ExitStack() as stack:
        command = [sys.executable, HERE / "server.py", work / "packed", ports, str(options.fail_every)]
        if gateway:
            upstream, variables = stack.enter_context(store.running(gateway, work, sorted((work / "packed").glob("*.db"))))
            command.append(str(upstream))
        server = stack.enter_context(subprocess.Popen(command))
        stack.callback(server.terminate)
        while not ports.exists():
            time.sleep(0.05)
        base = f"http://127.0.0.1:{ports.read_text()}"
        if gateway:
            os.environ.update(variables, AWS_ENDPOINT_URL=base)
            urls, prefix = [f"s3://{store.BUCKET}/*.db"], f"s3://{store.BUCKET}/"
        else:
            prefix = options.url.rstrip("/") if options.url else base
            urls, prefix = [f"{prefix}/log-{day:04}.db" for day in range(options.shards)], None

        def counters():
            with urllib.request.urlopen(f"{base}/counters") as answer:
                return json.load(answer)

        plain, whole, seconds = run("by_plain", plain=str(work / "plain"))
        wanted = total(plain)
        report = [{"engine": "one process, plain files on the disk", "seconds": whole, "query": seconds, "requests": 0, "bytes": 0, "failed": 0}]
        names = {"process": "one process, litepack.shards", "dask": "Dask, 2 processes", "spark": "Spark, local[2]"}
        differ = False
        for engine in filter(None, options.engines.split(",")):
            before = counters()
            answer, whole, seconds = run(f"by_{engine}", paths=urls)
            after = [now - then for now, then in zip(counters(), before)]
            report.append({"engine": names[engine], "seconds": whole, "query": seconds, "requests": after[0], "bytes": after[1], "failed": after[2]})
            if total(answer) != wanted:
                differ = True
                print(f"{engine}: another answer: {total(answer)}, not {wanted}", file=sys.stderr)
        days = one_day(options, work, urls, [prefix] if prefix else urls, counters)
        scans = {}
        for label, name, folder in (("plain", "scan_packed", "plain"), ("packed", "scan_packed", "packed"), ("Parquet", "scan_parquet", "parquet")):
            rows, _, seconds = run(name, folder=str(work / folder))
            assert rows == options.shards * options.rows, (label, rows)
            scans[label] = {"bytes": size(work / folder), "rows_per_second": rows / seconds}
    print(f"| {options.shards} files, {options.shards * options.rows} rows | all, s | query, s | requests | MB transferred | failed requests |")
    print("|---|--:|--:|--:|--:|--:|")
    for row in report:
        print(f"| {row['engine']} | {row['seconds']:.1f} | {row['query']:.1f} | {row['requests']} | {row['bytes'] / 1e6:.1f} | {row['failed']} |")
    print("\n| the lines of one day of them | files read | s | requests | MB transferred |\n|---|--:|--:|--:|--:|")
    for row in days:
        again = f" (again: {row['again']:.1f})" if "again" in row else ""
        files = row.get("files", options.shards)
        print(f"| {row['what']} | {files} | {row['seconds']:.2f}{again} | {row['requests']} | {row['bytes'] / 1e6:.2f} |")
    print("\n| all columns to Arrow, one process, local | MB | rows/s |\n|---|--:|--:|")
    for label, row in scans.items():
        print(f"| {label} | {row['bytes'] / 1e6:.1f} | {row['rows_per_second']:,.0f} |")
    if options.json:
        options.json.write_text(json.dumps({"engines": report, "days": days, "scans": scans}, indent=1))
    print("the answers differ" if differ else "all answers are equal")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--task"]:
        task(*sys.argv[2:])
    else:
        main()
