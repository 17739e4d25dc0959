"""`litepack catalog` as its users run it: files that change, are damaged, are written meanwhile, and a run that is killed.

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import json
import os
import pty
import random
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import traceback
from contextlib import closing

COMMAND = os.environ["LITEPACK_COMMAND"]
SHELL = os.environ["SQLITE3"]
SCHEMA = "create table log(id integer primary key, at text, status int); create index at on log(at);"


def make(path, first, count=100):
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA)
        rows = ((i, f"2026-11-{first % 30 + 1:02}T{i % 24:02}", 200) for i in range(first * 1000, first * 1000 + count))
        db.executemany("insert into log values(?, ?, ?)", rows)


def folder(count=5):
    os.mkdir("logs")
    for number in range(count):
        make(f"logs/{number}.db", number)


def command(*arguments):
    return subprocess.run([COMMAND, "catalog", *arguments], capture_output=True, text=True, timeout=600)


def catalog(*arguments, expect=0):
    done = command(*arguments, "--json")
    assert done.returncode == expect, (done.returncode, done.stderr)
    return json.loads(done.stdout) if done.stdout else done.stderr


def query(sql, database="catalog.db"):
    with closing(sqlite3.connect(database)) as db:
        return db.execute(sql).fetchall()


def counts(done):
    return tuple(done[name] for name in ("files", "read", "unchanged", "removed"))


def any_sqlite_reads_it():
    folder()
    done = command("logs", "-o", "catalog.db")
    assert (done.returncode, done.stdout) == (0, ""), done
    assert done.stderr.startswith("catalog.db: 5 files: 5 read, 0 unchanged, 0 removed, "), done.stderr
    sql = "select path, name, least, greatest, nulls from columns join files on id = file where path like '%3.db' order by name"
    shown = subprocess.run([SHELL, "catalog.db", sql], capture_output=True, text=True, check=True).stdout
    assert shown == "logs/3.db|at|2026-11-04T00|2026-11-04T23|0\nlogs/3.db|id|3000|3099|0\n", shown
    assert query("select sum(rows) from tables") == [(500,)]
    assert query("pragma integrity_check") == [("ok",)]


def only_what_changed_is_read():
    folder()
    subprocess.run([COMMAND, "pack", "--in-place", "logs/1.db"], check=True, capture_output=True)
    assert counts(catalog("logs", "-o", "catalog.db")) == (5, 5, 0, 0)
    assert counts(catalog("logs", "-o", "catalog.db")) == (5, 0, 5, 0)
    os.remove("logs/0.db")
    make("logs/9.db", 9)
    with closing(sqlite3.connect("logs/2.db")) as db, db:
        db.execute("update log set at = '2030' where id = 2000")
    os.utime("logs/3.db")
    assert counts(catalog("logs/*.db", "-o", "catalog.db")) == (5, 3, 2, 1)
    assert query("select max(greatest) from columns where name = 'at'") == [("2030",)]
    assert counts(catalog("logs/*.db", "-o", "catalog.db", "--column", "log.status")) == (5, 5, 0, 0)
    assert query("select distinct least, greatest from columns where name = 'status'") == [(200, 200)]


def a_commit_that_is_in_the_wal_is_a_change():
    make("a.db", 1)
    writer = sqlite3.connect("a.db", isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    assert counts(catalog("a.db", "-o", "catalog.db")) == (1, 1, 0, 0)
    writer.execute("insert into log values(5, '2031', 1)")
    assert counts(catalog("a.db", "-o", "catalog.db")) == (1, 1, 0, 0)
    assert query("select greatest from columns where name = 'at'") == [("2031",)]
    assert counts(catalog("a.db", "-o", "catalog.db")) == (1, 0, 1, 0)
    writer.close()
    assert counts(catalog("a.db", "-o", "catalog.db")) == (1, 1, 0, 0)


def what_cannot_be_read_is_named_and_the_rest_is_there():
    folder()
    with open("logs/1.db", "r+b") as file:
        file.truncate(5000)
    with open("logs/2.db", "wb") as file:
        file.write(random.randbytes(9000))
    open("logs/3.db", "wb").close()
    done = command("logs", "-o", "catalog.db")
    assert done.returncode == 1 and done.stderr.count("litepack: ") == 3, done
    assert "logs/1.db" in done.stderr and "not a SQLite database" in done.stderr and "is empty" in done.stderr, done.stderr
    assert query("select path from files where error is null order by 1") == [("logs/0.db",), ("logs/4.db",)]
    os.remove("logs/2.db")
    make("logs/2.db", 2)
    assert counts(catalog("logs", "-o", "catalog.db", expect=1)) == (5, 3, 2, 0)


def dots_behind_a_link_are_what_the_system_takes_them_for():
    os.makedirs("volume/2026")
    make("volume/x.db", 7)
    os.mkdir("data")
    make("data/x.db", 100)
    os.symlink(os.path.abspath("volume/2026"), "data/current")
    catalog("data/current/../x.db", "-o", "catalog.db")
    assert query("select path from files") == [("volume/x.db",)]
    catalog("data/../data/x.db", "-o", "catalog.db")
    assert query("select path from files") == [("data/x.db",)]


def errors_leave_everything_as_it_was():
    folder()
    catalog("logs", "-o", "catalog.db")
    with open("catalog.db", "rb") as file:
        before = file.read()
    for arguments, why in (
        (["none", "-o", "catalog.db"], "none does not exist"),
        (["logs/x*", "-o", "catalog.db"], "no file is named like"),
        (["logs", "-o", "catalog.db", "--column", "log.none"], "no file has a column log.none"),
        (["logs", "-o", "logs/1.db"], "not a catalog"),
        (["logs", "-o", "none/catalog.db"], "cannot write"),
        (["https://u:s3cret@h/a.db", "-o", "catalog.db"], "no user, password or query"),
        (["ftp://h/a.db", "-o", "catalog.db"], "begins with"),
        (["logs", "-o", "s3://bucket/c"], "written to a file"),
        (["logs", "-o", "catalog.db", "--ca-file", "x"], "are for URLs"),
    ):
        done = command(*arguments)
        assert done.returncode == 2 and why in done.stderr and "s3cret" not in done.stderr, (arguments, done)
    with open("catalog.db", "rb") as file:
        assert file.read() == before
    assert sorted(os.listdir()) == ["catalog.db", "logs"] and len(os.listdir("logs")) == 5


def files_that_are_written_meanwhile_are_whole_or_said_to_be_written():
    folder(3)
    stop = threading.Event()

    def write():
        number = 5000
        while not stop.is_set():
            with closing(sqlite3.connect("logs/1.db", timeout=20)) as db, db:
                db.execute("insert into log values(?, 'x', 1)", (number,))
            number += 1
            time.sleep(random.random() / 50)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            done = command("logs", "-o", "catalog.db", "--json")
            unreadable = json.loads(done.stdout)["unreadable"]
            assert done.returncode == bool(unreadable)
            assert all("written" in one["error"] or "use" in one["error"] for one in unreadable), unreadable
            if not unreadable:
                sql = "select rows, greatest from tables t join columns c using(file) where c.name = 'id' and file = 1"
                ((rows, greatest),) = query(sql)
                assert greatest - 5000 + 101 == rows or greatest < 5000, (rows, greatest)
    finally:
        stop.set()
        writer.join()
    assert counts(catalog("logs", "-o", "catalog.db"))[0] == 3


def a_run_that_is_killed_leaves_the_catalog_before_or_after_it():
    folder(60)
    catalog("logs", "-o", "catalog.db")
    for attempt in range(12):
        for number in range(60):
            os.utime(f"logs/{number}.db")
        process = subprocess.Popen([COMMAND, "catalog", "logs", "-o", "catalog.db"], stderr=subprocess.DEVNULL)
        time.sleep(0.01 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert query("select count(*) from files") == [(60,)] and query("pragma integrity_check") == [("ok",)]
    process = subprocess.Popen([COMMAND, "catalog", "logs", "-o", "catalog.db"], stderr=subprocess.PIPE)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate()
    # It may not have come to the point where it hears the signal.
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert counts(catalog("logs", "-o", "catalog.db"))[0] == 60


def permissions_are_those_of_the_files_and_stay():
    folder(1)
    os.chmod("logs/0.db", 0o640)
    os.chmod("logs", 0o555)
    catalog("logs", "-o", "catalog.db")
    assert os.stat("catalog.db").st_mode & 0o777 == 0o640
    os.chmod("catalog.db", 0o644)
    catalog("logs", "-o", "catalog.db")
    assert os.stat("catalog.db").st_mode & 0o777 == 0o644
    os.chmod("logs", 0o755)
    # Who can read a new catalog can read all the files it describes.
    shutil.rmtree("logs")
    folder(3)
    for modes, mode in [((0o644, 0o600, 0o644), 0o600), ((0o644, 0o640, 0o644), 0o640), ((0o644, 0o640, 0o604), 0o600)]:
        os.remove("catalog.db")
        for number, one in enumerate(modes):
            os.chmod(f"logs/{number}.db", one)
        catalog("logs", "-o", "catalog.db")
        assert os.stat("catalog.db").st_mode & 0o777 == mode, modes


def a_terminal_sees_how_far_it_is():
    folder(3)
    # Each file was just written, and is waited for, unless the command begins seconds later.
    for _ in range(8):
        child, terminal = pty.fork()
        if child == 0:
            for number in range(3):
                os.utime(f"logs/{number}.db", (int(time.time()), int(time.time())))
            os.execv(COMMAND, [COMMAND, "catalog", "logs", "-o", "catalog.db"])
        seen = b""
        try:
            while piece := os.read(terminal, 4096):
                seen += piece
        except OSError:
            pass
        os.waitpid(child, 0)
        os.close(terminal)
        assert b"3 files" in seen, seen
        if b"reading" in seen:
            return
    raise AssertionError(seen)


CHECKS = [
    any_sqlite_reads_it,
    only_what_changed_is_read,
    a_commit_that_is_in_the_wal_is_a_change,
    what_cannot_be_read_is_named_and_the_rest_is_there,
    dots_behind_a_link_are_what_the_system_takes_them_for,
    errors_leave_everything_as_it_was,
    files_that_are_written_meanwhile_are_whole_or_said_to_be_written,
    a_run_that_is_killed_leaves_the_catalog_before_or_after_it,
    permissions_are_those_of_the_files_and_stay,
    a_terminal_sees_how_far_it_is,
]

for check in CHECKS:
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            check()
            print(f"ok catalog: {check.__name__.replace(chr(95), chr(32))}", flush=True)
        except Exception:
            traceback.print_exc()
            print(f"FAILED catalog: {check.__name__.replace(chr(95), chr(32))}", flush=True)
        os.chdir("/")
print("end of part")
