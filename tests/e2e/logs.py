"""For the checks of `litepack ingest`: lines, the command, and questions to the database."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

COMMAND = os.environ["LITEPACK_COMMAND"]
EXTENSION = os.environ["LITEPACK_EXTENSION"]
LOADER = sqlite3.connect(":memory:")
LOADER.enable_load_extension(True)
LOADER.load_extension(EXTENSION)

HEAD = '34.70.2.63 - - [28/Jan/2020:20:20:07 +0000] "GET /a HTTP/1.1" 200 2053'
FULL = f'{HEAD} "http://r/" "Mozilla/5.0 (X11)"'


def line(number):
    return (
        f'10.0.0.{number % 250} - - [24/Nov/2026:10:{number // 60 % 60:02}:{number % 60:02} +0000] '
        f'"GET /page/{number} HTTP/1.1" {404 if number % 10 == 0 else 200} {number} "-" "Mozilla/5.0 (X11) {number}"\n'
    ).encode()


def write(path, numbers, mode="wb"):
    with open(path, mode) as file:
        file.write(b"".join(map(line, numbers)))


def ingest(*arguments, expect=0, **options):
    done = subprocess.run([COMMAND, "ingest", *arguments, "--json"], capture_output=True, timeout=600, **options)
    assert done.returncode == expect, (done.returncode, done.stderr.decode())
    return json.loads(done.stdout) if done.stdout else done.stderr.decode()


def query(database, sql, *values):
    connection = sqlite3.connect(f"file:{database}?vfs=litepack&mode=rw", uri=True, timeout=20)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def numbers(database):
    """The numbers of the lines that were stored, in order."""
    return [n for (n,) in query(database, "select bytes from logs order by bytes")]


def until(reached, seconds=300):
    """Waits for what a program that follows has still to do. How long that takes depends on the machine."""
    end = time.monotonic() + seconds
    while True:
        try:
            if reached():
                return
        except sqlite3.OperationalError as error:
            # The program may not even have begun.
            assert any(why in str(error) for why in ("no such", "unable to open")), error
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.1)


def put(path, *lines, end="\n", encoding="utf-8"):
    with open(path, "w", encoding=encoding, newline="") as file:
        file.writelines(line + end for line in lines)


def run(checks):
    """Each in a folder of its own, or the one alone that an argument names."""
    failed = False
    for check in checks:
        if sys.argv[1:] not in ([], [check.__name__]):
            continue
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            name = check.__name__.replace("_", " ")
            try:
                check()
                print(f"ok ingest: {name}", flush=True)
            except Exception:
                failed = True
                traceback.print_exc()
                print(f"FAILED ingest: {name}", flush=True)
            os.chdir("/")
    print("end of part")
    sys.exit(failed)
