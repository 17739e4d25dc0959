#!/usr/bin/env python3
"""Compares ways of keeping a SQLite database encrypted: size, time, and bytes written, all by the same statements.

usage: encryption.py EXTENSION COMMAND DIRECTORY [ROWS]

EXTENSION is liblitepack.so, COMMAND is litepack, both released builds. In DIRECTORY virtual environments are made with
APSW, SQLite3 Multiple Ciphers and SQLCipher, and databases. Each step of an engine runs in a process of its own, in
rounds: all engines take their turn before the first has its next one. Printed are medians, and in brackets what they
are to plain SQLite.

Bytes written are those that are given to the system by writes (`wchar` of /proc/self/io): of a WAL, of its checkpoints,
of journals. What a file system makes of them is another matter; `make bench` measures a device.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 5
# How often reads and commits are measured in a round: a process of half a second meets a quiet machine or does not.
REPEATS = 4
READS = 20_000
COMMITS = 2_000
KEY = "00112233445566778899aabbccddeeff" * 2

# Name: package, and what opens it.
ENGINES = {
    "plain SQLite": "apsw",
    "Litepack": "apsw",
    "Litepack, encrypted": "apsw",
    "SQLite3MC (ChaCha20)": "apsw-sqlite3mc",
    "SQLite3MC (AES-256)": "apsw-sqlite3mc",
    "SQLCipher": "sqlcipher3-binary",
}


def connect(engine, path, extension):
    """A function that runs SQL and gives the rows."""
    if ENGINES[engine] == "sqlcipher3-binary":
        import sqlcipher3.dbapi2 as sqlcipher

        connection = sqlcipher.connect(path, isolation_level=None)
        run = lambda sql, values=(): connection.execute(sql, values).fetchall()
        run(f"pragma key = \"x'{KEY}'\"")
        return run
    import apsw

    uri = f"file:{path}"
    if engine.startswith("Litepack"):
        loader = apsw.Connection(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(extension)
        uri += "?vfs=litepack"
        if engine.endswith("encrypted"):
            uri += f"&hexkey={KEY}"
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(uri, flags=flags)
    run = lambda sql, values=(): connection.execute(sql, values).fetchall()
    if engine.startswith("SQLite3MC"):
        cipher = "chacha20" if "ChaCha20" in engine else "aes256cbc"
        run(f"pragma cipher = '{cipher}'")
        run(f"pragma hexkey = '{KEY}'")
    return run


WORDS = "alpha beta gamma delta error warning request response timeout retry user session token cache index".split()


def row(number, rng):
    body = {
        "level": rng.choice(["info", "info", "info", "warn", "error"]),
        "user": rng.randrange(5000),
        "path": "/".join(["", "api", rng.choice(WORDS), str(rng.randrange(1000))]),
        "message": " ".join(rng.choice(WORDS) for _ in range(rng.randrange(6, 30))),
        "took": round(rng.expovariate(0.02), 3),
    }
    minute = number // 20
    at = f"2026-11-{1 + minute // 1440 % 28:02}T{minute // 60 % 24:02}:{minute % 60:02}:{number % 60:02}"
    return number, at, json.dumps(body)


def written():
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])


def load(run, rows):
    """Makes the database by SQL."""
    rng = random.Random(1)
    run("pragma journal_mode = wal")
    run("create table events(id integer primary key, at text, body text)")
    run("create index by_time on events(at)")
    run("begin")
    for number in range(1, rows + 1):
        run("insert into events values (?, ?, ?)", row(number, rng))
    run("commit")
    run("pragma wal_checkpoint(truncate)")


def read(run, rows):
    """Rows by their ids, none of them read before."""
    rng = random.Random(2)
    for _ in range(READS):
        run("select body from events where id = ?", (rng.randrange(1, rows + 1),))


def commit(run, rows):
    """Rows, each a commit, and their checkpoints."""
    rng = random.Random(time.time_ns())
    run("pragma synchronous = normal")
    first = run("select max(id) from events")[0][0] + 1
    for number in range(first, first + COMMITS):
        run("insert into events values (?, ?, ?)", row(number, rng))


STEPS = {"load": load, "read": read, "commit": commit}


def step(engine, name, path, extension, rows):
    """In a process of its own: what it took, as JSON."""
    run = connect(engine, path, extension)
    # Whatever the first access costs (keys, schema) is part of it.
    before, begun, used = written(), time.perf_counter(), time.process_time()
    STEPS[name](run, rows)
    took = {"time": time.perf_counter() - begun, "cpu": time.process_time() - used, "written": written() - before}
    print(json.dumps(took))


def environment(directory, package):
    python = directory / package / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", directory / package], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True)
    return python


def main():
    extension, command, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    rows = int(sys.argv[4]) if len(sys.argv) > 4 else 200_000
    directory.mkdir(parents=True, exist_ok=True)
    pythons = {package: environment(directory, package) for package in set(ENGINES.values())}
    found = {engine: {} for engine in ENGINES}

    def measure(engine, name, path):
        arguments = [pythons[ENGINES[engine]], __file__, "--step", engine, name, path, extension, str(rows)]
        done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True)
        for what, value in json.loads(done.stdout).items():
            found[engine].setdefault((name, what), []).append(value)

    for number in range(ROUNDS):
        for old in directory.glob("measured*"):
            old.unlink()
        prepared = []
        for index, engine in enumerate(ENGINES):
            path = directory / f"measured{index}.db"
            measure(engine, "load", path)
            found[engine].setdefault(("size", "by SQL"), []).append(path.stat().st_size)
            if engine.startswith("Litepack"):
                key = ["--encrypt", "--key-env", "BENCH_KEY"] if engine.endswith("encrypted") else []
                packed = path.with_suffix(".packed")
                source = plain_source(directory, pythons, extension, rows)
                subprocess.run([command, "pack", *key, source, packed], check=True, stdout=subprocess.DEVNULL,
                               env=os.environ | {"BENCH_KEY": f"x'{KEY}'"})
                found[engine].setdefault(("size", "pack"), []).append(packed.stat().st_size)
                packed.replace(path)
            else:
                found[engine].setdefault(("size", "pack"), []).append(path.stat().st_size)
            prepared.append((engine, path))
        for _ in range(REPEATS):
            for engine, path in prepared:
                measure(engine, "read", path)
                measure(engine, "commit", path)
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
    report(found, rows)


def plain_source(directory, pythons, extension, rows):
    """The plain database that is packed, made once."""
    source = directory / "source.db"
    if not source.exists():
        arguments = [pythons["apsw"], __file__, "--step", "plain SQLite", "load", source, extension, str(rows)]
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    return source


def report(found, rows):
    columns = [
        ("file by SQL, MB", ("size", "by SQL"), 1e6),
        ("packed, MB", ("size", "pack"), 1e6),
        ("load, s", ("load", "time"), 1),
        ("first read of a row, µs", ("read", "time"), READS / 1e6),
        ("the same, processor", ("read", "cpu"), READS / 1e6),
        ("commit, µs", ("commit", "time"), COMMITS / 1e6),
        ("the same, processor", ("commit", "cpu"), COMMITS / 1e6),
        ("written for a commit, KB", ("commit", "written"), COMMITS * 1e3),
    ]
    print(f"{rows:,} rows, medians of {ROUNDS}\n")
    print("| | " + " | ".join(title for title, _, _ in columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for engine, values in found.items():
        cells = []
        for _, what, unit in columns:
            value, plain = (statistics.median(of[what]) for of in (values, found["plain SQLite"]))
            cells.append(f"{value / unit:.3g} ({value / plain:.2f})")
        print(f"| {engine} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        step(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5], int(sys.argv[6]))
    else:
        main()
