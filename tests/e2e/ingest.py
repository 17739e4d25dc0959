"""`litepack ingest` as its users run it: sources that are rotated, compressed, growing and killed, each line once.

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
import time
import zlib

from logs import COMMAND, FULL, ingest, line, numbers, put, query, until, run, write


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


def old_rows_are_deleted():
    lines = [{"time": time.strftime("%FT%TZ", time.gmtime(time.time() - age)), "age": age} for age in (10, 86400 * 40)]
    with open("app.log", "w") as file:
        file.writelines(json.dumps(one) + "\n" for one in [*lines, {"time": "0000", "age": -1}])
    for form in ("text", "integer"):
        done = ingest("app.log", "--into", f"{form}.db", "--time", form, "--keep", "30d")
        assert (done["rows"], done["deleted"]) == (3, 1), done
        assert query(f"{form}.db", "select age from logs order by 1") == [(-1,), (10,)]


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
        if killed == 0 or choose.random() < 0.7:
            time.sleep(choose.random() * 0.4)
            program.send_signal(signal.SIGKILL)
            program.wait()
            killed += 1
            print("trials of kills: 1")
        if choose.random() < 0.5:
            rotations += 1
            os.rename("access.log", f"access.log.{rotations}")
            open("access.log", "wb").close()
        if program.poll() is not None:
            program = start()
    # The file has more lines than it has after it was truncated, however late that is seen.
    write("access.log", range(number, number + 10), "ab")
    number += 10
    until(lambda: len(numbers("logs.db")) >= number)
    assert numbers("logs.db") == list(range(number))
    with open("access.log", "r+b") as file:
        file.truncate(0)
    write("access.log", range(number, number + 5), "ab")
    until(lambda: len(numbers("logs.db")) >= number + 5)
    assert numbers("logs.db") == list(range(number + 5))
    program.send_signal(signal.SIGINT)
    assert program.wait(600) == 0
    assert query("logs.db", "pragma integrity_check") == [("ok",)]


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
    write("other.log", [5000])
    program = subprocess.Popen([COMMAND, "ingest", "access.log*", "other.log", "--into", "logs.db", "--follow"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: numbers("logs.db") == list(range(5001)))
    packed = gzip.compress(text)
    for name, whole in {"access.log.1": text, "access.log.2.gz": packed}.items():
        with open(name, "wb", buffering=0) as file:
            for at in (0, 2000, len(whole) // 2, len(whole)):
                file.write(whole[file.tell():at])
                time.sleep(0.5)
    # A copy is an error until it is whole and looked at once more. Nothing but the exit code says that it was. All files
    # are looked at before any is read: before the second of these lines is, that was after the first one.
    for number in (5001, 5002):
        write("other.log", [number], "ab")
        until(lambda: numbers("logs.db") == list(range(number + 1)))
    program.send_signal(signal.SIGINT)
    assert program.wait(600) == 0
    assert numbers("logs.db") == list(range(5003)), len(numbers("logs.db"))


def is_read(program, name, length):
    """Whether a program has read so much of a file."""
    with contextlib.suppress(FileNotFoundError):
        for fd in os.listdir(f"/proc/{program.pid}/fd"):
            if os.path.basename(os.readlink(f"/proc/{program.pid}/fd/{fd}")) == name:
                with open(f"/proc/{program.pid}/fdinfo/{fd}") as file:
                    return int(file.readline().split()[1]) >= length
    return False


def two_programs_at_once_store_each_line_once():
    write("access.log", range(60000))
    ingest("-", "--into", "logs.db", input=line(60000))
    run = lambda: subprocess.Popen([COMMAND, "ingest", "access.log", "--into", "logs.db"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    # Both have opened the file before either can write.
    lock = sqlite3.connect("file:logs.db?vfs=litepack", uri=True, isolation_level=None)
    lock.execute("begin immediate")
    both = [run(), run()]
    for program in both:
        until(lambda: program.poll() is not None or is_read(program, "access.log", 4 << 20))
    lock.execute("rollback")
    lock.close()
    said = [one.communicate(timeout=600)[1].decode() for one in both]
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
    said = program.communicate(timeout=600)[1].decode()
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


def a_first_line_without_end_does_not_hang():
    with open("first.log", "wb") as file:
        file.write(b"x" * 9_000_000 + b"\n")
        file.writelines(map(line, range(10)))
    done = ingest("first.log", "--into", "logs.db")
    assert (done["rows"], done["cut"]) == (10, 1), done
    with gzip.open("only.log.gz", "wb") as file:
        file.write(b"x" * 9_000_000)
    assert "format" in json.dumps(ingest("only.log.gz", "--into", "logs.db", expect=2))


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
    assert program.wait(600) == 0
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
    assert program.wait(600) == 0


run(
    [
        combined_logs_become_typed_columns,
        a_file_is_read_once_also_after_rotation_and_compression,
        small_files_that_begin_alike_are_different,
        standard_input_and_pipes_are_read,
        memory_is_bounded,
        tables_of_others_are_refused,
        old_rows_are_deleted,
        following_survives_kills_rotation_and_truncation,
        a_copy_that_is_not_finished_is_not_read_twice,
        following_waits_for_copies_that_are_slow,
        two_programs_at_once_store_each_line_once,
        following_survives_another_writer,
        a_small_log_is_another_one_after_rotation,
        a_first_line_without_end_does_not_hang,
        marks_and_holes_are_no_part_of_a_line,
        compressed_files_are_read_or_refused_by_name,
        a_source_that_cannot_be_read_makes_no_database,
    ]
)
