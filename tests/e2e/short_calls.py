"""The command and the extension where each read and each write is interrupted and done in halves: see short_calls.c.

Each check runs in a process of its own. Prints 'ok NAME' or 'FAILED NAME' for each. The functions are checks; their
names say what holds.
"""

import json
import os
import subprocess

from libraries import COMMAND, EXTENSION, main

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ["PYTHON"]

# A program that uses a database; the last line it prints is the content.
WORK = """
import hashlib, random, sqlite3, sys
uri, mode = sys.argv[1:]
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(%r)
db = sqlite3.connect(uri, uri=True, isolation_level=None)
failed = 0
for sql in ("pragma cache_size = 10", f"pragma journal_mode = {mode}",
            "create table if not exists t(id integer primary key, name text, data blob)",
            "create index if not exists by_name on t(name)"):
    for _ in range(5):
        try:
            db.execute(sql)
            break
        except sqlite3.OperationalError as error:
            assert "disk I/O error" in str(error), error
            failed += 1
    else:
        raise AssertionError(f"never done: {sql}")
choose = random.Random(4)
for number in range(60):
    rows = choose.choice([1, 5, 400])
    try:
        db.execute("begin")
        db.executemany("insert into t(name, data) values(?, ?)",
                       [(f"name {choose.randrange(1000)}", choose.randbytes(choose.randrange(300))) for _ in range(rows)])
        db.execute("update t set name = name || '+' where id %% 17 = ?", (number %% 17,))
        db.execute("delete from t where id %% 29 = ?", (number %% 29,))
        db.execute(choose.choice(["commit", "commit", "commit", "rollback"]))
        if number %% 20 == 19:
            db.execute("vacuum")
        if number %% 7 == 6 and mode == "wal":
            db.execute("pragma wal_checkpoint(truncate)")
    except sqlite3.OperationalError as error:
        assert "disk I/O error" in str(error), error
        failed += 1
        if db.in_transaction:
            db.execute("rollback")
def content(db):
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    return hashlib.sha256(repr(db.execute("select * from t order by id").fetchall()).encode()).hexdigest()
before = content(db)
db.close()
db = sqlite3.connect(uri, uri=True)
assert content(db) == before, "another content when it is opened again"
print(failed, before)
""" % EXTENSION


def disturbed(place, *command, **variables):
    """Runs a program so; the result. Some of its calls were disturbed, and it ended well."""
    library, counts = os.path.join(place, "short_calls.so"), os.path.join(place, "counts")
    if not os.path.exists(library):
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, f"{HERE}/short_calls.c", "-ldl"], check=True)
    with open(counts, "w"):
        pass
    environment = os.environ | {"LD_PRELOAD": library, "LITEPACK_DISTURBED": counts} | variables
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=place)
    assert done.returncode == 0, (command[:2], command[3:], done.stdout, done.stderr)
    with open(counts) as file:
        interrupted, halved = (sum(column) for column in zip(*(map(int, line.split()) for line in file)))
    assert interrupted > 0 and halved > 0, (command, interrupted, halved)
    return done.stdout


def content(path):
    with open(path, "rb") as file:
        return file.read()


def plain(place):
    """A plain database, `plain.db`, made without any disturbance."""
    work = [PYTHON, "-c", WORK, f"file:{place}/plain.db?vfs=unix", "delete"]
    subprocess.run(work, check=True, stdout=subprocess.DEVNULL)
    return content(f"{place}/plain.db")


def commands_do_the_same(place):
    original = plain(place)
    run = lambda *arguments: disturbed(place, COMMAND, *arguments)
    run("pack", "plain.db", "packed.db")
    run("check", "packed.db")
    run("unpack", "packed.db", "back.db")
    assert content(f"{place}/back.db") == original
    run("maintain", "--level", "9", "packed.db")
    run("archive", "create", "packed.db", "archive.zst")
    run("archive", "extract", "archive.zst", "out.db")
    assert content(f"{place}/out.db") == original
    run("pack", "--best", "--in-place", "back.db")
    run("unpack", "back.db", "again.db")
    assert content(f"{place}/again.db") == original
    with open(f"{place}/key", "w") as file:
        file.write("a key of some length")
    run("rekey", "--new-key-file", "key", "packed.db")
    run("unpack", "--key-file", "key", "packed.db", "sealed.db")
    assert content(f"{place}/sealed.db") == original
    with open(f"{place}/app.log", "w") as file:
        file.writelines(json.dumps({"number": number}) + "\n" for number in range(5000))
    assert json.loads(run("ingest", "app.log", "--into", "logs.db", "--json"))["rows"] == 5000


def statements_do_the_same(place):
    for mode in ("delete", "truncate", "persist", "wal"):
        expected = subprocess.run([PYTHON, "-c", WORK, f"file:{place}/{mode}.db?vfs=unix", mode], check=True,
                                  capture_output=True, text=True).stdout
        # The first one shows that SQLite itself bears it.
        for name, vfs in (("plain", "unix"), ("packed", "litepack"), ("sealed", f"litepack&hexkey={'5f' * 32}")):
            found = disturbed(place, PYTHON, "-c", WORK, f"file:{place}/{name}-{mode}.db?vfs={vfs}", mode)
            assert found == expected, (mode, name, found, expected)


def syncs_that_are_interrupted_are_errors(place):
    for mode in ("delete", "wal"):
        uri = f"file:{place}/{mode}.db?vfs=litepack"
        found = disturbed(place, PYTHON, "-c", WORK, uri, mode, LITEPACK_INTERRUPT_SYNCS="1")
        assert int(found.split()[0]) > 0, "none was reported"
        disturbed(place, COMMAND, "check", f"{mode}.db")


CHECKS = [commands_do_the_same, statements_do_the_same, syncs_that_are_interrupted_are_errors]

if __name__ == "__main__":
    main(__file__, CHECKS)
