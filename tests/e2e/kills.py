"""`kill -9` of programs with several SQLite libraries: in one process, each with a database of its own, and in several
processes, with one database. Afterwards each acknowledged transaction is there, and no part of another.

Each check runs in a process of its own. Prints 'ok NAME' or 'FAILED NAME' for each. The functions are checks; their
names say what holds. LITEPACK_SEED repeats a run, as far as the times of the kills allow.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

from libraries import COMMAND, EXTENSION, Library, SqliteError, main, packed

ROUNDS = 100 if os.environ.get("LITEPACK_LONG") else 6
SCHEMA = """
create table if not exists txn(n integer primary key, items int);
create table if not exists item(n int, i int, body text, primary key(n, i));
create index if not exists by_body on item(body);
"""


def seeded():
    seed = int(os.environ.get("LITEPACK_SEED", time.time_ns() % 1_000_000))
    print(f"LITEPACK_SEED={seed}")
    return random.Random(seed)


def work(execute, choose, name, mode):
    """Numbered transactions, VACUUM and maintenance, until the process is killed. Tells the number of each that is
    committed. `execute` answers with the first value."""
    while True:
        try:
            # SQLite does not wait for others here.
            execute(f"pragma journal_mode = {mode}")
            break
        except SqliteError as error:
            assert "locked" in str(error), error
            time.sleep(0.05)
    execute(SCHEMA)
    number = int(execute("select coalesce(max(n), 0) from txn"))
    while True:
        number += 1
        items = choose.choice([1, 3, 10, 800])
        execute(f"""begin immediate; insert into txn values({number}, {items});
            insert into item with recursive i(i) as (select 1 union all select i + 1 from i where i < {items})
              select {number}, i, printf('body %d of %d', i, {number}) from i;
            delete from item where n < {number - 15}; update txn set items = 0 where n < {number - 15}; commit""")
        os.write(1, f"done {name} {number}\n".encode())
        if choose.random() < 0.1:
            execute("vacuum")
        if choose.random() < 0.2:
            execute("select litepack_maintain(0.02, 0.5)")


def victim(place, seed, mode, names):
    """Each name is a database, and a SQLite library of its own in a thread of its own."""

    def one(name, number):
        library = Library(place, name)
        library.load()
        db = packed(library, f"{place}/{name}.db")
        db.all("pragma busy_timeout = 20000")
        first = lambda rows: rows[0][0] if rows else None
        work(lambda sql: first(db.all(sql)), random.Random(seed + number), name, mode)

    threads = [threading.Thread(target=one, args=(name, number)) for number, name in enumerate(names)]
    for thread in threads:
        thread.start()


def start(place, seed, mode, *names):
    command = [sys.executable, __file__, "victim", place, str(seed), mode, *names]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill(program):
    """Kills a program that has not ended by itself with an error; what it said."""
    program.send_signal(signal.SIGKILL)
    said, complaint = program.communicate(timeout=600)
    assert program.returncode == -signal.SIGKILL, (program.returncode, complaint)
    assert not complaint, complaint
    print("trials of kills: 1")
    # A line may be cut off; then it was not said.
    lines = [line.split() for line in said.split("\n")[:-1]]
    return {name: int(number) for _, name, number in lines}


def expect(path, acknowledged):
    """Of numbered transactions all that were acknowledged are there, and at most one more; the last one."""
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(EXTENSION)
    db = sqlite3.connect(f"file:{path}?vfs=litepack", uri=True, timeout=60)
    ask = lambda sql: db.execute(sql).fetchone()[0]
    assert ask("pragma integrity_check") == "ok"
    if not ask("select count(*) from sqlite_schema where name = 'by_body'"):
        assert acknowledged == 0, acknowledged
        return 0
    last = ask("select coalesce(max(n), 0) from txn")
    assert acknowledged <= last <= acknowledged + 1, (acknowledged, last)
    assert ask("select count(*) from txn") == last, "transactions are missing"
    parts = "select count(*) from txn where items <> (select count(*) from item where item.n = txn.n)"
    assert ask(parts) == 0, "transactions are there in part"
    assert ask("select count(*) from item where n not in (select n from txn) or body <> printf('body %d of %d', i, n)") == 0
    db.close()
    return last


def two_libraries_of_one_process_are_killed(place):
    choose, last = seeded(), {"a": 0, "b": 0}
    for _ in range(ROUNDS):
        program = start(place, choose.randrange(1 << 32), choose.choice(["delete", "wal", "persist"]), *last)
        time.sleep(choose.uniform(0.1, 1.5))
        said = kill(program)
        last = {name: expect(f"{place}/{name}.db", said.get(name, number)) for name, number in last.items()}
    assert min(last.values()) > 0, last


def two_libraries_of_several_processes_are_killed(place):
    """The system's library, and the one that is linked into the command, which ingests and maintains."""
    choose, last = seeded(), 0
    lines = [json.dumps({"number": number}) for number in range(40000)]
    with open(f"{place}/app.log", "w") as file:
        file.write("\n".join(lines) + "\n")
    database = f"{place}/a.db"
    ingest = [COMMAND, "ingest", f"{place}/app.log", "--into", database]
    for _ in range(ROUNDS):
        program = start(place, choose.randrange(1 << 32), choose.choice(["delete", "wal"]), "a")
        others = []
        end = time.monotonic() + choose.uniform(0.3, 2)
        while time.monotonic() < end:
            if os.path.exists(database) and os.path.getsize(database) > 4096:
                command = choose.choice([ingest, [COMMAND, "maintain", database]])
                others.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(choose.uniform(0.05, 0.3))
            if others and choose.random() < 0.7:
                others.pop().kill()
                print("trials of kills: 1")
        said = kill(program)
        for other in others:
            other.kill()
            other.wait()
        last = expect(database, said.get("a", last))
    done = subprocess.run([*ingest, "--json"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done
    db = sqlite3.connect(f"file:{database}?vfs=litepack", uri=True)
    found = [number for number, in db.execute("select number from logs order by number")]
    assert found == list(range(40000)), "lines are missing, or twice"
    assert last > 0


CHECKS = [two_libraries_of_one_process_are_killed, two_libraries_of_several_processes_are_killed]

if __name__ == "__main__":
    if sys.argv[1:2] == ["victim"]:
        victim(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])
    else:
        main(__file__, CHECKS)
