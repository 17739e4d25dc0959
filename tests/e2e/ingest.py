"""`litepack ingest` as its users run it: rotated, compressed, growing, hostile and killed.

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import bz2
import contextlib
import gzip
import json
import lzma
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import zlib

COMMAND = os.environ["LITEPACK_COMMAND"]
EXTENSION = os.environ["LITEPACK_EXTENSION"]
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
LOADER = sqlite3.connect(":memory:")
LOADER.enable_load_extension(True)
LOADER.load_extension(EXTENSION)


def line(number):
    return (
        f'10.0.0.{number % 250} - - [24/Nov/2026:10:{number // 60 % 60:02}:{number % 60:02} +0000] '
        f'"GET /page/{number} HTTP/1.1" {404 if number % 10 == 0 else 200} {number} "-" "Mozilla/5.0 (X11) {number}"\n'
    ).encode()


def write(path, numbers, mode="wb"):
    with open(path, mode) as file:
        file.write(b"".join(map(line, numbers)))


def ingest(*arguments, expect=0, **options):
    done = subprocess.run([COMMAND, "ingest", *arguments, "--json"], capture_output=True, timeout=120, **options)
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


def combined_logs_become_typed_columns():
    write("access.log", range(1, 1001))
    done = ingest("access.log", "--into", "logs.db", "--index", "path")
    assert (done["lines"], done["rows"], done["unparsed"]) == (1000, 1000, 0), done
    assert done["sources"][0]["format"] == "combined"
    with open("logs.db", "rb") as file:
        assert not file.read(16).startswith(b"SQLite format")
    row = query("logs.db", "select time, remote_addr, method, path, protocol, status, bytes, referer, user_agent from logs")[9]
    assert row == ("2026-11-24T10:00:10Z", "10.0.0.10", "GET", "/page/10", "HTTP/1.1", 404, 10, None, "Mozilla/5.0 (X11) 10"), row
    plan = query("logs.db", "explain query plan select * from logs where time > '2026' and path = 'x'")
    assert "INDEX logs_path" in str(plan), plan
    assert query("logs.db", "pragma integrity_check") == [("ok",)]


def a_file_is_read_once_also_after_rotation_and_compression():
    write("access.log", range(1, 501))
    with open("access.log", "ab") as file:
        file.write(line(501)[:30])
    done = ingest("access.log", "--into", "logs.db")
    assert done["rows"] == 500 and done["sources"][0]["half_line_bytes"] == 30, done
    assert ingest("access.log", "--into", "logs.db")["rows"] == 0
    with open("access.log", "ab") as file:
        file.write(line(501)[30:])
    os.rename("access.log", "access.log.1")
    write("access.log", range(502, 601))
    # Only the new name is given: the rest of the old file is found.
    assert ingest("access.log", "--into", "logs.db")["rows"] == 100
    assert numbers("logs.db") == list(range(1, 601))
    with open("access.log.1", "rb") as plain, gzip.open("access.log.2.gz", "wb") as packed:
        packed.write(plain.read())
    os.remove("access.log.1")
    with open("access.log", "rb") as plain:
        subprocess.run(["zstd", "-q", "-o", "access.log.1.zst"], stdin=plain, check=True)
    write("access.log", range(601, 651))
    assert ingest("access.log*", "--into", "logs.db")["rows"] == 50
    assert numbers("logs.db") == list(range(1, 651))
    # Copied and truncated, as copytruncate does.
    write("access.log", range(651, 661), "ab")
    with open("access.log", "rb") as old, open("access.log.0", "wb") as copy:
        copy.write(old.read())
    write("access.log", range(661, 700))
    assert ingest("access.log", "access.log.0", "--into", "logs.db")["rows"] == 10 + 39
    assert numbers("logs.db") == list(range(1, 700))


def small_files_that_begin_alike_are_different():
    for name in "ab":
        with open(f"{name}.log", "w") as file:
            file.write('{"message":"started"}\n')
    assert ingest("a.log", "b.log", "--into", "logs.db")["rows"] == 2
    for name in "ab":
        with open(f"{name}.log", "a") as file:
            file.write('{"message":"%s"}\n' % name)
    assert ingest("a.log", "b.log", "--into", "logs.db")["rows"] == 2
    assert len(query("logs.db", "select * from logs")) == 4


def other_formats_are_recognised():
    samples = {
        "json": b'{"ts":1764000000.5,"level":"info","n":1,"nested":{"a":[1]},"big":123456789012345678901,"level":"twice"}\n',
        "logfmt": b'time=2026-11-24T10:00:00Z level=info msg="a \\"b\\"" took=0.25 zip=007\n',
        "syslog": b"<34>1 2026-11-24T10:00:00.003Z host app 12 ID47 [a@1 b=\"]\"] hello\n",
        "csv": b'time,name,count\n2026-11-24T10:00:00Z,"a, b",3\n',
        "tsv": b"time\tname\tcount\n2026-11-24T10:00:00Z\ta b\t3\n",
        "common": b'::1 - bob [24/Nov/2026:10:00:00 +0100] "GET /a b HTTP/1.0" 200 -\n',
    }
    for name, text in samples.items():
        with open(name, "wb") as file:
            file.write(text)
        done = ingest(name, "--into", f"{name}.db")
        assert done["sources"][0]["format"] == name and done["rows"] == 1, (name, done)
    one = lambda name, columns: query(f"{name}.db", f"select {columns} from logs")[0]
    assert one("json", "time, level, n, nested, typeof(big), extra") == (
        "2025-11-24T16:00:00.5Z", "info", 1, '{"a":[1]}', "text", '{"level":"twice"}')
    assert one("logfmt", "time, level, msg, took, zip") == ("2026-11-24T10:00:00Z", "info", 'a "b"', 0.25, "007")
    assert one("syslog", "time, facility, severity, host, app, pid, data, message") == (
        "2026-11-24T10:00:00.003Z", 4, 2, "host", "app", 12, '[a@1 b="]"]', "hello")
    assert one("csv", "time, name, count") == one("tsv", "time, 'a, b', count") == ("2026-11-24T10:00:00Z", "a, b", 3)
    assert one("common", "time, remote_user, path, bytes") == ("2026-11-24T09:00:00Z", "bob", "/a b", None)
    with open("old", "wb") as file:
        file.write(b"Nov  4 10:00:00 box sshd[77]: Failed password\n" * 3)
    assert ingest("old", "--into", "old.db")["sources"][0]["format"] == "syslog"
    assert one("old", "host, app, pid, message") == ("box", "sshd", 77, "Failed password")
    with open("custom", "wb") as file:
        file.write(b'24/Nov/2026:10:00:00 +0000|0.031|GET /a HTTP/1.1|-\n')
    pattern = "$time_local|$request_time|$request|$upstream_addr"
    assert ingest("custom", "--into", "custom.db", "--format", pattern, "--time", "integer")["rows"] == 1
    assert one("custom", "time, request_time, path, upstream_addr") == (1795514400, 0.031, "/a", None)
    ingest("csv", "--into", "json-column.db", "--json-column")
    assert json.loads(query("json-column.db", "select json from logs")[0][0]) == {"name": "a, b", "count": 3}


def standard_input_and_pipes_are_read():
    text = b"".join(map(line, range(100)))
    assert ingest("-", "--into", "logs.db", input=text + line(100)[:-1])["rows"] == 101
    assert ingest("-", "--into", "logs.db", input=gzip.compress(text))["rows"] == 100
    os.mkfifo("pipe")
    writer = subprocess.Popen(["sh", "-c", "cat > pipe"], stdin=subprocess.PIPE)
    writer.stdin.write(text)
    writer.stdin.close()
    assert ingest("pipe", "--into", "logs.db")["rows"] == 100
    writer.wait()


def hostile_lines_cost_nothing_but_themselves():
    bad = [b"\x00\xff\xfe nonsense", b'{"a":', b"x" * 3_000_000, b"[" * 5000]
    with open("hostile.log", "wb") as file:
        file.write(line(1))
        file.write(line(2).replace(b"Mozilla", b"\xff\x00zilla"))
        for other in bad:
            file.write(other + b"\n")
            file.writelines(map(line, range(3, 10)))
    done = ingest("hostile.log", "--into", "logs.db")
    assert (done["lines"], done["rows"], done["unparsed"], done["cut"]) == (34, 30, 4, 1), done
    kept = query("logs.db", "select line, length, why from litepack_unparsed order by id")
    assert kept[0][0] == bad[0] and kept[1][0] == bad[1].decode(), kept[:2]
    assert kept[2] == ("x" * 4096, 3_000_000, "too long"), kept[2][1:]
    agent = query("logs.db", "select user_agent from logs where bytes = 2")[0][0]
    assert agent == b"\xff\x00zilla/5.0 (X11) 2", agent
    with open("names.json", "w") as file:
        for number in range(500):
            file.write(json.dumps({f'c{number}"; drop table logs; --': number, "rowid": 1, "Source_ID": 2, "": 3}) + "\n")
    assert ingest("names.json", "--into", "names.db", "--max-columns", "20")["rows"] == 500
    assert len(query("names.db", "select * from pragma_table_info('logs')")) == 23
    assert query("names.db", "select sum(extra ->> 'rowid'), max(json_valid(extra)) from logs") == [(500, 1)]


def memory_is_bounded():
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, capture_output=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    with gzip.open("bomb.log.gz", "wb", compresslevel=1) as file:
        file.write(line(1))
        for _ in range(300):
            file.write(b"x" * 1_000_000)
    with gzip.open("hole.log.gz", "wb", compresslevel=1) as file:
        file.write(line(2))
        for _ in range(300):
            file.write(b"\0" * 1_000_000)
        file.write(line(3))
    command = [COMMAND, "ingest", "bomb.log.gz", "hole.log.gz", "--into", "logs.db"]
    used = subprocess.run([sys.executable, "-c", measure, *command], capture_output=True, check=True)
    assert int(used.stdout) < 120_000, used.stdout
    assert query("logs.db", "select length, length(line) from litepack_unparsed") == [(300_000_000, 4096)]
    assert numbers("logs.db") == [1, 2, 3]


def tables_of_others_are_refused():
    with sqlite3.connect("other.db") as other:
        other.execute("create table logs(a, b, c)")
    other.close()
    write("access.log", range(10))
    assert "did not make" in ingest("access.log", "--into", "other.db", expect=2)
    # Ours, but for a rule that takes rows away.
    for number, change in enumerate((("status", "status unique on conflict ignore"), ("extra", "extra check(1)"))):
        name = f"ruled{number}.db"
        ingest("access.log", "--into", name)
        connection = sqlite3.connect(f"file:{name}?vfs=litepack", uri=True)
        (sql,) = connection.execute("select sql from sqlite_schema where name = 'logs'").fetchone()
        quoted = '"%s"' % change[0]
        assert quoted in sql, sql
        connection.executescript("drop table logs;" + sql.replace(quoted, change[1], 1))
        connection.close()
        assert "did not make" in ingest("access.log", "--into", name, expect=2), name
    ingest("access.log", "--into", "unique.db")
    connection = sqlite3.connect("file:unique.db?vfs=litepack", uri=True)
    connection.execute("delete from logs")
    connection.execute("create unique index u on logs(status)")
    connection.commit()
    connection.close()
    assert "did not make" in ingest("access.log", "--into", "unique.db", expect=2)
    ingest("access.log", "--into", "logs.db")
    connection = sqlite3.connect("file:logs.db?vfs=litepack", uri=True)
    connection.execute("create trigger t after insert on logs begin delete from logs; end")
    connection.commit()
    connection.close()
    assert "has to be a file" in ingest("access.log", "--into", ":memory:", expect=2)
    assert "no format" in ingest("access.log", "--into", "misspelt.db", "--format", "jsn", expect=2)
    assert "no column" in ingest("access.log", "--into", "misspelt.db", "--index", "pth", expect=2)
    write("access.log", range(10, 20), "ab")
    assert "trigger" in ingest("access.log", "--into", "logs.db", expect=2)
    assert "neither a file nor a pipe" in json.dumps(ingest(".", "--into", "new.db", expect=2))
    assert "the database itself" in json.dumps(ingest("misspelt.db", "--into", "misspelt.db", expect=2))
    with open("damaged.gz", "wb") as file:
        file.write(gzip.compress(b"".join(map(line, range(5000))))[:-2000])
    done = ingest("damaged.gz", "access.log", "--into", "new.db", expect=2)
    assert done["rows"] > 20 and done["sources"][0]["error"], done
    wrong = bytearray(gzip.compress(b"".join(map(line, range(5000, 5100)))))
    wrong[-8] ^= 1
    with open("checksum.gz", "wb") as file:
        file.write(wrong)
    for rows in (100, 0):
        done = ingest("checksum.gz", "--into", "new.db", expect=2)
        assert done["rows"] == rows and done["sources"][0]["error"], done


def lines_of_csv_keep_carriage_returns():
    with open("a.csv", "wb") as file:
        file.write(b"time,path,msg\r\n2026-11-24T10:00:00Z,/a,ok\rthe rest\n2026-11-24T10:00:01Z,/b,x\r\n")
    done = ingest("a.csv", "--into", "a.db", "--format", "csv")
    assert (done["rows"], done["unparsed"]) == (2, 0), done
    assert query("a.db", "select path, msg from logs order by path") == [("/a", "ok\rthe rest"), ("/b", "x")]


def a_header_that_cannot_be_read_is_an_error():
    """The next line is not taken for it."""
    rows = b"2026-11-24T10:00:00Z,17\n2026-11-24T10:01:00Z,18\n"
    headers = {"latin": b"zeit,gr\xf6sse\n", "quote": b'time,"n\n', "long": b"time," + b"n" * 2_000_000 + b"\n"}
    for name, header in headers.items():
        with open(name, "wb") as file:
            file.write(header + rows)
        done = ingest(name, "--into", f"{name}.db", "--format", "csv", expect=2)
        assert done["rows"] == 0 and "names of its columns" in done["sources"][0]["error"], done
        assert query(f"{name}.db", "select count(*) from litepack_unparsed") == [(0,)]
        with open(name, "wb") as file:
            file.write(b"time,n\n" + rows)
        assert ingest(name, "--into", f"{name}.db", "--format", "csv")["rows"] == 2
    with gzip.open("mac.gz", "wb") as file:
        file.write(b"time,n\r" + rows.replace(b"\n", b"\r"))
    assert "carriage return" in json.dumps(ingest("mac.gz", "--into", "mac.db", "--format", "csv", expect=2))


def old_rows_are_deleted():
    lines = [{"time": time.strftime("%FT%TZ", time.gmtime(time.time() - age)), "age": age} for age in (10, 86400 * 40)]
    with open("app.log", "w") as file:
        file.writelines(json.dumps(one) + "\n" for one in [*lines, {"time": "0000", "age": -1}])
    for form in ("text", "integer"):
        done = ingest("app.log", "--into", f"{form}.db", "--time", form, "--keep", "30d")
        assert (done["rows"], done["deleted"]) == (3, 1), done
        assert query(f"{form}.db", "select age from logs order by 1") == [(-1,), (10,)]


def a_copy_that_is_not_finished_is_not_read_twice():
    noise = random.Random(7)
    text = b"".join(line(n)[:-2] + b" %d\"\n" % noise.getrandbits(200) for n in range(20000))
    with open("access.log", "wb") as file:
        file.write(text)
    assert ingest("access.log", "--into", "logs.db")["rows"] == 20000
    zstd = subprocess.run(["zstd", "-q"], input=text, stdout=subprocess.PIPE, check=True).stdout
    copies = {"access.log.1": text, "access.log.2.gz": gzip.compress(text), "access.log.3.zst": zstd}
    for name, whole in copies.items():
        with open(name, "wb") as file:
            file.write(whole[:len(whole) // 2])
        done = ingest(name, "--into", "logs.db", expect=2)
        assert done["rows"] == 0 and done["sources"][0]["error"], done
        with open(name, "ab") as file:
            file.write(whole[len(whole) // 2:])
        assert ingest(name, "--into", "logs.db")["rows"] == 0
    assert numbers("logs.db") == list(range(20000))


def following_waits_for_copies_that_are_slow():
    noise = random.Random(8)
    text = b"".join(line(n)[:-2] + b" %d\"\n" % noise.getrandbits(200) for n in range(5000))
    with open("access.log", "wb") as file:
        file.write(text)
    program = subprocess.Popen([COMMAND, "ingest", "access.log*", "--into", "logs.db", "--follow"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: numbers("logs.db") == list(range(5000)))
    packed = gzip.compress(text)
    for name, whole in {"access.log.1": text, "access.log.2.gz": packed}.items():
        with open(name, "wb", buffering=0) as file:
            for at in (0, 2000, len(whole) // 2, len(whole)):
                file.write(whole[file.tell():at])
                time.sleep(0.5)
    # A copy is an error until it is whole and looked at once more. Nothing but the exit code says that it was.
    time.sleep(5)
    program.send_signal(signal.SIGINT)
    assert program.wait(20) == 0
    assert numbers("logs.db") == list(range(5000)), len(numbers("logs.db"))


def two_programs_at_once_store_each_line_once():
    write("access.log", range(60000))
    ingest("-", "--into", "logs.db", input=line(60000))
    run = lambda: subprocess.Popen([COMMAND, "ingest", "access.log", "--into", "logs.db"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    # Both have opened the file before either can write.
    lock = sqlite3.connect("file:logs.db?vfs=litepack", uri=True, isolation_level=None)
    lock.execute("begin immediate")
    both = [run(), run()]
    time.sleep(1)
    lock.execute("rollback")
    lock.close()
    said = [one.communicate(timeout=120)[1].decode() for one in both]
    assert sorted(one.returncode for one in both) == [0, 2] and "another program" in str(said), said
    ingest("access.log", "--into", "logs.db")
    assert numbers("logs.db") == list(range(60001)), (len(numbers("logs.db")), said)


def following_survives_another_writer():
    """Both make the same columns, in turns."""
    command = [COMMAND, "ingest", "a.log", "old.gz", "--into", "logs.db", "--follow", "--keep", "30d",
               "--index", "never", "--index", "n"]
    def put(name, **values):
        with open(name, "a") as file:
            file.write(json.dumps({"n": 0, **values}) + "\n")
    put("a.log")
    old = time.strftime("%FT%TZ", time.gmtime(time.time() - 86400 * 40))
    put("a.log", time=old)
    with gzip.open("old.gz", "wt") as file:
        file.write('{"old": 1}\n')
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    rows = lambda count: until(lambda: query("logs.db", "select count(*) from logs") == [(count,)])
    # The old row is gone, and the compressed file is read.
    until(lambda: query("logs.db", "select count(*), sum(old) from logs") == [(2, 1)])
    for number in range(3):
        put("b.log", **{f"c{number}": 1})
        ingest("b.log", "--into", "logs.db")
        put("a.log", **{f"C{number}": 2})
        rows(4 + 2 * number)
    names = []
    for fd in os.listdir(f"/proc/{program.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/{program.pid}/fd/{fd}"))
    assert "a.log" in str(names) and "old.gz" not in str(names), names
    program.send_signal(signal.SIGINT)
    said = program.communicate(timeout=20)[1].decode()
    assert program.returncode == 0 and said.count('no column "never" yet') == 1, said
    # A column that never comes keeps neither what is old nor other indexes.
    assert query("logs.db", "select sum(c0), sum(c1), sum(c2), sum(old), count(*) from logs") == [(3, 3, 3, 1, 8)]
    assert query("logs.db", "select name from sqlite_schema where type = 'index' order by name") == [("logs_n",), ("logs_time",)]


def a_small_log_is_another_one_after_rotation():
    started = '{"m":"started"}\n'
    def put(path):
        with open(path, "w") as file:
            file.write(started)
    put("a.log")
    assert ingest("a.log", "--into", "logs.db")["rows"] == 1
    for number in (1, 2):
        os.rename("a.log", f"a.log.{number}")
        put("a.log")
        assert ingest("a.log", "--into", "logs.db")["rows"] == 1, number
    os.mkdir("x")
    os.mkdir("y")
    put("x/app.log")
    put("y/app.log")
    for place in "xy":
        assert ingest("app.log", "--into", "../names.db", cwd=place)["rows"] == 1, place
        assert ingest("app.log", "--into", "../names.db", cwd=place)["rows"] == 0, place


def only_a_time_is_the_time():
    now = time.strftime("%FT%TZ", time.gmtime())
    with open("app.log", "w") as file:
        file.write(json.dumps({"time": 0.031, "ts": now}) + "\n")
        file.write(json.dumps({"Time": 12, "level": "info"}) + "\n")
    with open("pattern.log", "w") as file:
        file.write("0.031 x\n")
    done = ingest("app.log", "--into", "logs.db", "--keep", "30d")
    assert (done["rows"], done["deleted"]) == (2, 0), done
    rows = query("logs.db", "select time, extra from logs order by rowid")
    assert rows == [(now, '{"time":0.031}'), (None, '{"Time":12}')], rows
    done = ingest("pattern.log", "--into", "logs.db", "--keep", "30d", "--format", "$time $name")
    assert (done["rows"], done["deleted"]) == (1, 0), done


def a_first_line_without_end_does_not_hang():
    with open("first.log", "wb") as file:
        file.write(b"x" * 9_000_000 + b"\n")
        file.writelines(map(line, range(10)))
    done = ingest("first.log", "--into", "logs.db")
    assert (done["rows"], done["cut"]) == (10, 1), done
    with gzip.open("only.log.gz", "wb") as file:
        file.write(b"x" * 9_000_000)
    assert "format" in json.dumps(ingest("only.log.gz", "--into", "logs.db", expect=2))


def following_survives_kills_rotation_and_truncation():
    seed = int(os.environ.get("LITEPACK_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}")
    choose = random.Random(seed)
    rounds = 100 if os.environ.get("LITEPACK_LONG") else 8
    start = lambda: subprocess.Popen(
        # A pattern: a file may come and go while nothing runs, and then its old name does not lead to it.
        [COMMAND, "ingest", "access.log*", "--into", "logs.db", "--format", "combined", "--follow"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    number, rotations = 0, 0
    open("access.log", "wb").close()
    program = start()
    killed = 0
    for _ in range(rounds):
        for _ in range(choose.randrange(1, 6)):
            more = choose.choice([1, 10, 3000])
            text = b"".join(map(line, range(number, number + more)))
            number += more
            at = choose.randrange(len(text))
            with open("access.log", "ab", buffering=0) as file:
                file.write(text[:at])
                time.sleep(choose.random() * 0.1)
                file.write(text[at:])
        if choose.random() < 0.7:
            time.sleep(choose.random() * 0.4)
            program.send_signal(signal.SIGKILL)
            program.wait()
            killed += 1
        if choose.random() < 0.5:
            rotations += 1
            os.rename("access.log", f"access.log.{rotations}")
            open("access.log", "wb").close()
        if program.poll() is not None:
            program = start()
    assert killed > 0
    until(lambda: len(numbers("logs.db")) >= number)
    assert numbers("logs.db") == list(range(number))
    with open("access.log", "r+b") as file:
        file.truncate(0)
    time.sleep(0.5)
    write("access.log", range(number, number + 5), "ab")
    until(lambda: len(numbers("logs.db")) >= number + 5)
    assert numbers("logs.db") == list(range(number + 5))
    program.send_signal(signal.SIGINT)
    assert program.wait(20) == 0
    assert query("logs.db", "pragma integrity_check") == [("ok",)]


HEAD = '34.70.2.63 - - [28/Jan/2020:20:20:07 +0000] "GET /a HTTP/1.1" 200 2053'
FULL = f'{HEAD} "http://r/" "Mozilla/5.0 (X11)"'


def put(path, *lines, end="\n", encoding="utf-8"):
    with open(path, "w", encoding=encoding, newline="") as file:
        file.writelines(line + end for line in lines)


def no_column_is_shifted():
    """Text behind a format makes another one of it, or an error, and never goes into its columns."""
    put("main.log", f'{FULL} "203.0.113.7"')
    put("time.log", f"{FULL} 0.003")
    put("traefik.log", f'{FULL} 162 "router" "http://172.17.0.3:80" 22ms')
    put("vhost.log", *(f'{host}:{port} {FULL}' for host, port in (("example.com", 443), ("[2001:db8::1]", 80))), end="\r\n")
    formats = {"main": "main", "time": "combined $request_time", "traefik": "traefik", "vhost": "vhost"}
    for name, form in formats.items():
        done = ingest(f"{name}.log", "--into", f"{name}.db")
        assert (done["sources"][0]["format"], done["unparsed"]) == (form, 0), done
        size = "bytes_sent" if name == "vhost" else "bytes"
        rows = query(f"{name}.db", f"select remote_addr, {size}, referer, user_agent from logs")
        assert set(rows) == {("34.70.2.63", 2053, "http://r/", "Mozilla/5.0 (X11)")}, rows
    rows = query("vhost.db", "select server_name, server_port from logs order by 2")
    assert rows == [("[2001:db8::1]", 80), ("example.com", 443)], rows
    # Fields that no format has, and the two that one number may be.
    for name, more in {"other": ' "example.com"', "more": " 1 2 3", "words": " a b"}.items():
        put(f"{name}.log", FULL + more)
        done = ingest(f"{name}.log", "--into", f"{name}.db", expect=2)
        error = done["sources"][0]["error"]
        assert "cannot tell the format" in error and "34.70.2.63" in error and not os.path.exists(f"{name}.db"), done
    put("number.log", *[f"{FULL} 162"] * 300)
    error = ingest("number.log", "--into", "number.db", expect=2)["sources"][0]["error"]
    assert "'combined %D'" in error and "'combined %T'" in error, error
    assert ingest("number.log", "--into", "number.db", "--format", "combined %D")["rows"] == 300
    assert query("number.db", "select distinct request_microseconds from logs") == [(162,)]
    # A pattern of the user.
    pattern = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time'
    put("custom.log", f"{HEAD} 0.003", FULL, HEAD, f"{FULL} 0.003", f"{HEAD} 0.003 0.004")
    done = ingest("custom.log", "--into", "custom.db", "--format", pattern)
    assert (done["rows"], done["unparsed"]) == (1, 4) and "fits 1 of the first 5" in done["sources"][0]["doubt"], done
    assert query("custom.db", "select request_time from logs") == [(0.003,)]
    # A user whose name has a space could be two fields.
    put("users.log", *[FULL] * 99, FULL.replace("- - [", "- john doe ["))
    done = ingest("users.log", "--into", "users.db")
    assert (done["rows"], done["unparsed"], done["sources"][0]["doubt"]) == (99, 1, None), done


def a_line_that_waits_is_told():
    def told(*arguments):
        return subprocess.run([COMMAND, "ingest", *arguments], capture_output=True, check=True).stderr.decode()

    put("half.log", FULL, end="")
    said = told("half.log", "--into", "half.db")
    assert f"has no end yet ({len(FULL)} bytes)" in said and "half.log" in said, said
    with open("half.log", "a") as file:
        file.write("\n")
    said = told("half.log", "--into", "half.db")
    assert "no end" not in said and "1 rows added" in said, said
    put("docker.log", '{"log":"x","stream":"stdout","time":"2024-01-01T00:00:00Z"}')
    done = ingest("docker.log", "--into", "docker.db")
    assert (done["rows"], done["sources"][0]["waiting"]) == (0, 1), done
    assert "1 parts of a line wait" in told("docker.log", "--into", "docker.db")
    put("blank.log", "", "")
    assert ingest("blank.log", "--into", "blank.db")["sources"][0]["half_line_bytes"] == 0


def values_are_no_names():
    put("words.tsv", "bob\tuser\tred", "alice\tadmin\tblue")
    put("null.tsv", "alice\tGET\tnull", "bob\tGET\t200")
    for name in ("words.tsv", "null.tsv"):
        done = ingest(name, "--into", "no.db", expect=2)
        assert "'tsv'" in done["sources"][0]["error"] and not os.path.exists("no.db"), done
    put("again.csv", "time,n", "2024-01-01 00:00:00,1", "time,n", "2024-01-01 00:00:01,2")
    done = ingest("again.csv", "--into", "again.db")
    assert (done["rows"], query("again.db", "select n from logs")) == (2, [(1,), (2,)]), done
    put("export", "__CURSOR=s=1;i=2", "__REALTIME_TIMESTAMP=1423944916372858", "MESSAGE=Started")
    assert "journalctl" in ingest("export", "--into", "no.db", expect=2)["sources"][0]["error"]
    put("settings", "PATH=/usr/bin", "HOME=/root")
    assert "'logfmt'" in ingest("settings", "--into", "no.db", expect=2)["sources"][0]["error"]


def two_formats_in_one_file_are_told():
    put("mixed.log", *[FULL] * 60, *[f'{FULL} "203.0.113.7"'] * 40, *[f"{FULL} 0.003"] * 100)
    run = subprocess.run([COMMAND, "ingest", "mixed.log", "--into", "mixed.db", "--json"], capture_output=True, check=True)
    done = json.loads(run.stdout)
    assert done["sources"][0]["format"] == "combined $request_time" and done["unparsed"] == 100, done
    for said in (run.stderr.decode(), done["sources"][0]["doubt"]):
        assert "fits 100 of the first 200" in said and "'combined' fits 60" in said and FULL in said, said
    put("late.log", *[FULL] * 1000, *[f'{FULL} "203.0.113.7"'] * 500, *[f"example.com:443 {FULL}"] * 500)
    done = ingest("late.log", "--into", "late.db")
    assert (done["rows"], done["unparsed"]) == (1000, 1000), done
    assert query("late.db", "select distinct typeof(bytes), identity, remote_user, user_agent from logs") == [
        ("integer", None, None, "Mozilla/5.0 (X11)")]


def lines_with_an_iso_time_are_what_they_are():
    elb = '2017-11-23T01:24:08.529348Z ELB-DOMAIN 66.249.66.206:34140 192.168.1.48:443 0.000744 0.000009 0.000012 - - 710 31845 "- - - " "-" - -'
    put("elb.log", elb)
    assert ingest("elb.log", "--into", "elb.db")["sources"][0]["format"] == "elb"
    assert query("elb.db", "select remote_addr, remote_port, sent_bytes, path from logs") == [("66.249.66.206", 34140, 31845, None)]
    others = {
        "mysql": "2023-01-01T12:00:00.123456Z 0 [Note] [MY-010304] [Server] Skipping generation",
        "spring": "2025-01-14T16:10:41.762-07:00  INFO 93649 --- [main] e.c.o.CourseCreation   : Starting",
    }
    others |= {
        "level": "2022-02-15T18:40:14Z main ERROR: preparing",
        "thread": "2022-02-15T18:40:14Z main-1 com.foo.Bar: preparing",
        "text": "Jan 28 20:20:07 Starting the service",
    }
    for name, text in others.items():
        put(name, text)
        done = ingest(name, "--into", f"{name}.db", expect=2)
        assert "cannot tell the format" in done["sources"][0]["error"] and not os.path.exists(f"{name}.db"), done


def marks_and_holes_are_no_part_of_a_line():
    mark = "\ufeff"
    put("a.json", mark + '{"time":"2024-01-01T00:00:00Z","a":1}', '{"time":"2024-01-01T00:00:01Z","a":2}')
    put("b.log", mark + FULL, FULL, mark + FULL)
    assert ingest("a.json", "--into", "a.db")["rows"] == 2
    assert ingest("b.log", "--into", "b.db")["rows"] == 3
    assert query("b.db", "select distinct remote_addr from logs") == [("34.70.2.63",)]
    put("c.csv", mark + "time,n", "2024-01-01T00:00:00Z,1")
    assert ingest("c.csv", "--into", "c.db")["rows"] == 1
    # copytruncate, and a writer that goes on where it was.
    write("access.log", range(1, 101))
    assert ingest("access.log", "--into", "logs.db")["rows"] == 100
    for size, first in ((3_000_000, 101), (50, 201)):
        with open("access.log", "wb") as file:
            file.write(b"\0" * size)
        write("access.log", range(first, first + 100), "ab")
        assert ingest("access.log", "--into", "logs.db")["unparsed"] == 0
    assert numbers("logs.db") == list(range(1, 301))
    # Room that its writer fills later.
    with open("iis.log", "wb") as file:
        file.write(line(1) + b"\0" * 65536)
    assert ingest("iis.log", "--into", "iis.db")["rows"] == 1
    with open("iis.log", "r+b") as file:
        file.seek(len(line(1)))
        file.write(line(2))
    assert ingest("iis.log", "--into", "iis.db")["rows"] == 1
    assert numbers("iis.db") == [1, 2]
    with open("room.log", "wb") as file:
        file.write(line(1) + b"\0" * 65536)
    program = subprocess.Popen([COMMAND, "ingest", "room.log", "--into", "room.db", "--follow"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: numbers("room.db") == [1])
    with open("room.log", "r+b") as file:
        file.seek(len(line(1)))
        file.write(line(2))
    until(lambda: numbers("room.db") == [1, 2])
    program.send_signal(signal.SIGINT)
    assert program.wait(20) == 0
    # Half a line, and a hole behind it that is larger than what is read ahead, or as small as holes are.
    for size in (9 << 20, 4):
        with open(f"{size}.log", "wb") as file:
            file.write(line(1) + line(2)[:40] + b"\0" * size + line(3))
        done = ingest(f"{size}.log", "--into", f"{size}.db")
        assert (done["rows"], done["unparsed"]) == (2, 1) and numbers(f"{size}.db") == [1, 3], done
    with open("wide.log", "wb") as file:
        file.write("\ufeff{}\n".encode("utf-16-le"))
    assert "UTF-16" in ingest("wide.log", "--into", "wide.db", expect=2)["sources"][0]["error"]
    assert "UTF-16" in ingest("-", "--into", "wide.db", expect=2, input=b"\xff\xfe{\0")["sources"][0]["error"]


def compressed_files_are_read_or_refused_by_name():
    text = b"".join(map(line, range(1, 101)))
    with open("zeros.gz", "wb") as file:
        file.write(gzip.compress(text) + b"\0" * 512)
    for rows in (100, 0):
        assert ingest("zeros.gz", "--into", "zeros.db")["rows"] == rows
    zstd = subprocess.run(["zstd", "-q"], input=text, capture_output=True, check=True).stdout
    for name, content in {"zeros.bz2": bz2.compress(text), "zeros.zst": zstd, "zeros.xz": lzma.compress(text)}.items():
        with open(name, "wb") as file:
            file.write(content + b"\0" * 512)
        for rows in (100, 0):
            assert ingest(name, "--into", f"{name}.db")["rows"] == rows, name
    with open("other.gz", "wb") as file:
        file.write(gzip.compress(text) + b"other")
    done = ingest("other.gz", "--into", "other.db", expect=2)
    assert done["rows"] == 100 and "not of gzip" in done["sources"][0]["error"], done
    with open("two.gz", "wb") as file:
        file.write(gzip.compress(text) + gzip.compress(b"".join(map(line, range(101, 201)))))
    assert ingest("two.gz", "--into", "two.db")["rows"] == 200
    packed = {"a.xz": lzma.compress(text), "a.bz2": bz2.compress(text), "two.xz": lzma.compress(text) * 2}
    for name, content in packed.items():
        with open(name, "wb") as file:
            file.write(content)
        rows = 200 if name == "two.xz" else 100
        assert ingest(name, "--into", f"{name}.db")["rows"] == rows, name
        assert ingest(name, "--into", f"{name}.db")["rows"] == 0
        assert ingest("-", "--into", f"{name}.in.db", input=content)["rows"] == rows
        with open(name, "wb") as file:
            file.write(content[:-20])
        assert "cut off" in ingest(name, "--into", f"{name}.cut.db", expect=2)["sources"][0]["error"], name
    write("rotated", range(1, 2001))
    assert ingest("rotated", "--into", "rotated.db")["rows"] == 2000
    with open("rotated", "rb") as file, open("rotated.xz", "wb") as out:
        out.write(lzma.compress(file.read()))
    assert ingest("rotated.xz", "--into", "rotated.db")["rows"] == 0
    # One that asks for a dictionary of 1.5 GiB.
    large = bytearray(packed["a.xz"])
    size = (large[12] + 1) * 4
    assert large[14:16] == b"\x21\x01", large[:32]
    large[16] = 37
    large[12 + size - 4:12 + size] = zlib.crc32(large[12:12 + size - 4]).to_bytes(4, "little")
    with open("large.xz", "wb") as file:
        file.write(large)
    assert "mem" in ingest("large.xz", "--into", "large.db", expect=2)["sources"][0]["error"]
    magics = {"zip": b"PK\x03\x04", "lz4": b"\x04\x22\x4d\x18", "7z": b"7z\xbc\xaf\x27\x1c", "compress": b"\x1f\x9d\x90"}
    for name, magic in magics.items():
        with open(name, "wb") as file:
            file.write(magic + b"\0" * 100)
        done = ingest(name, "--into", "no.db", expect=2)
        assert name in done["sources"][0]["error"] and "unpack" in done["sources"][0]["error"], done
    with tarfile.open("x.tar.gz", "w:gz") as file:
        file.add("zeros.gz")
    assert "tar" in ingest("x.tar.gz", "--into", "no.db", expect=2)["sources"][0]["error"]
    assert not os.path.exists("no.db")


def a_source_that_cannot_be_read_makes_no_database():
    for source in ("missing.log", "."):
        ingest(source, "--into", "new.db", expect=2)
    assert "no file is named" in ingest("*.none", "--into", "new.db", expect=2)
    put("strange.log", "what is this")
    ingest("strange.log", "missing.log", "--into", "new.db", expect=2)
    assert os.listdir() == ["strange.log"]
    # An empty log is a log.
    open("empty.log", "w").close()
    ingest("empty.log", "missing.log", "--into", "new.db", expect=2)
    assert query("new.db", "select count(*) from logs") == [(0,)]
    program = subprocess.Popen([COMMAND, "ingest", "later*.log", "--into", "later.db", "--follow"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    assert not os.path.exists("later.db")
    write("later1.log", range(3))
    until(lambda: numbers("later.db") == [0, 1, 2])
    program.send_signal(signal.SIGINT)
    assert program.wait(20) == 0


def a_dry_run_shows_and_writes_nothing():
    write("access.log", range(1, 1001))
    put("main.log", f'{FULL} "203.0.113.7"', "what is this", f'{FULL} "-"')
    put("strange.log", "what is this")
    names = sorted(os.listdir())
    found = ingest("access.log", "main.log", "--dry-run")
    assert (found[0]["format"], found[0]["fits"], found[0]["sample"], len(found[0]["rows"])) == ("combined", 200, 200, 10), found
    row = dict(zip(found[0]["columns"], found[0]["rows"][0]))
    assert (row["bytes"], row["status"], row["referer"]) == (1, 200, None), row
    assert (found[1]["format"], found[1]["unparsed_lines"][0][1]) == ("main", "what is this") and found[1]["doubt"], found
    found = ingest("strange.log", "missing.log", "--dry-run", "--into", "new.db", expect=2)
    assert all(one["error"] for one in found), found
    run = subprocess.run([COMMAND, "ingest", "main.log", "--dry-run"], capture_output=True, check=True)
    said = run.stdout.decode()
    assert "'main'" in said and "2 of 3" in said and "203.0.113.7" in said and "what is this" in said, said
    assert sorted(os.listdir()) == names
    assert subprocess.run([COMMAND, "ingest", "main.log"], capture_output=True).returncode == 2


def names_of_fields_hold_until_others_come():
    put("ex.log", "#Software: IIS", "#Fields: date time c-ip sc-status", "2024-01-01 00:00:00 10.0.0.1 200", "2024-01-01 00:00:01 10.0.0.1")
    done = ingest("ex.log", "--into", "iis.db")
    assert (done["rows"], done["unparsed"], done["sources"][0]["format"]) == (1, 1, "w3c"), done
    with open("ex.log", "a") as file:
        file.write("2024-01-01 00:00:02 10.0.0.2 404\n#Fields: date time sc-status c-ip cs(User-Agent)\n")
        file.write("2024-01-01 00:00:03 500 10.0.0.3 a+b\n")
    assert ingest("ex.log", "--into", "iis.db")["rows"] == 2
    with open("ex.log", "a") as file:
        file.write("2024-01-01 00:00:04 501 10.0.0.4 a+b\n")
    assert ingest("ex.log", "--into", "iis.db")["rows"] == 1
    rows = query("iis.db", "select time, c_ip, sc_status, cs_user_agent from logs order by time")
    assert rows == [
        ("2024-01-01T00:00:00Z", "10.0.0.1", 200, None), ("2024-01-01T00:00:02Z", "10.0.0.2", 404, None),
        ("2024-01-01T00:00:03Z", "10.0.0.3", 500, "a+b"), ("2024-01-01T00:00:04Z", "10.0.0.4", 501, "a+b")], rows


def parts_of_lines_of_containers_are_joined():
    put("pod.log", "2024-01-01T00:00:00Z stdout P one ", "2024-01-01T00:00:01Z stderr F other")
    done = ingest("pod.log", "--into", "pod.db")
    assert (done["lines"], done["rows"], done["sources"][0]["format"]) == (2, 1, "cri"), done
    with open("pod.log", "a") as file:
        file.write("2024-01-01T00:00:02Z stdout F two\n2024-01-01T00:00:03Z stdout P end")
    assert ingest("pod.log", "--into", "pod.db")["rows"] == 1
    with open("pod.log", "rb") as file, gzip.open("pod.log.1.gz", "wb") as out:
        out.write(file.read() + b"\n")
    os.remove("pod.log")
    # Nothing follows in a compressed file.
    assert ingest("pod.log.1.gz", "--into", "pod.db")["rows"] == 1
    assert query("pod.db", "select message from logs order by rowid") == [("other",), ("one two",), ("end",)]
    whole = "x" * 40_000
    parts = [whole[at:at + 16384] for at in range(0, 40_000, 16384)]
    parts[-1] += "\n"
    put("docker.log", *(json.dumps({"log": part, "stream": "stdout", "time": "2024-01-01T00:00:00Z"}) for part in parts))
    assert ingest("docker.log", "--into", "docker.db")["rows"] == 1
    assert query("docker.db", "select log from logs") == [(whole,)]


def rows_of_earlier_versions_are_found():
    """By the SQL in docs/logs.md."""
    with open(os.path.join(DOCS, "logs.md"), encoding="utf-8") as file:
        section = file.read().split("## Databases of earlier versions")[1].split("\n## ")[0]
    find, mend = [part.split("```")[0] for part in section.split("```sql")[1:]]
    write("access.log", range(10))
    ingest("access.log", "--into", "logs.db")
    connection = sqlite3.connect("file:logs.db?vfs=litepack", uri=True, isolation_level=None)
    for column in ("host", "app", "time:2024"):
        connection.execute(f'alter table logs add column "{column}"')
    good = dict(source_id=1, remote_addr="2001:db8::1", bytes=5, host="box1", app="sshd")
    rows = [good, dict(source_id=2, bytes='2053 "http://r/"'), dict(source_id=3, remote_addr="example.com:443", remote_user="- frank"),
            dict(source_id=7, host="0", app=None), dict(source_id=5, host="ELB", app="66.249.66.206"), dict(source_id=6, host="stdout")]
    for row in rows:
        names = ", ".join(row)
        connection.execute(f"insert into logs({names}) values ({', '.join('?' * len(row))})", list(row.values()))
    found = [connection.execute(sql).fetchall() for sql in find.split(";") if sql.strip()]
    assert [sorted(row[0] for row in rows) for rows in found] == [[2], [3], [5, 6, 7], ["time:2024"]], found
    connection.executescript(mend)
    connection.close()
    assert query("logs.db", "select count(*) from logs where source_id = 7") == [(0,)]
    # The format of a source is remembered; lines that do not fit it are counted.
    connection = sqlite3.connect("file:logs.db?vfs=litepack", uri=True, isolation_level=None)
    connection.execute("update litepack_sources set format = 'common'")
    connection.close()
    write("access.log", range(10, 20), "ab")
    done = ingest("access.log", "--into", "logs.db")
    assert (done["rows"], done["unparsed"]) == (0, 10), done


CHECKS = [
    combined_logs_become_typed_columns,
    a_file_is_read_once_also_after_rotation_and_compression,
    small_files_that_begin_alike_are_different,
    other_formats_are_recognised,
    standard_input_and_pipes_are_read,
    hostile_lines_cost_nothing_but_themselves,
    memory_is_bounded,
    tables_of_others_are_refused,
    lines_of_csv_keep_carriage_returns,
    a_header_that_cannot_be_read_is_an_error,
    old_rows_are_deleted,
    following_survives_kills_rotation_and_truncation,
    a_copy_that_is_not_finished_is_not_read_twice,
    following_waits_for_copies_that_are_slow,
    two_programs_at_once_store_each_line_once,
    following_survives_another_writer,
    a_small_log_is_another_one_after_rotation,
    only_a_time_is_the_time,
    a_first_line_without_end_does_not_hang,
    no_column_is_shifted,
    a_line_that_waits_is_told,
    values_are_no_names,
    two_formats_in_one_file_are_told,
    lines_with_an_iso_time_are_what_they_are,
    marks_and_holes_are_no_part_of_a_line,
    compressed_files_are_read_or_refused_by_name,
    a_source_that_cannot_be_read_makes_no_database,
    a_dry_run_shows_and_writes_nothing,
    names_of_fields_hold_until_others_come,
    parts_of_lines_of_containers_are_joined,
    rows_of_earlier_versions_are_found,
]

for check in CHECKS:
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            check()
            print(f"ok ingest: {check.__name__.replace(chr(95), chr(32))}", flush=True)
        except Exception:
            traceback.print_exc()
            print(f"FAILED ingest: {check.__name__.replace(chr(95), chr(32))}", flush=True)
        os.chdir("/")
print("end of part")
