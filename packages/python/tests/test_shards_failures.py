"""Many files as one table, of which some are replaced, damaged, or on a server that fails."""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import threading
import traceback
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_sqlite")

import litepack  # noqa: E402
from litepack import shards  # noqa: E402
from litepack.shards import _read  # noqa: E402

from shard_files import folder, log, logs, make, rows_of  # noqa: E402, F401


def test_a_file_that_is_replaced_is_an_error_that_says_so(logs):
    scan = shards.scan(logs, table="log")
    parts = scan.parts
    make("new.db", log(1, 1000))
    os.replace("new.db", "logs/1.db")
    assert sum(batch.num_rows for batch in scan.read(parts[0])) == 1000
    # Before the first row.
    with pytest.raises(shards.Replaced, match=r"1\.db: the file was changed or replaced"):
        next(scan.read(parts[1]))
    os.remove("logs/2.db")
    with pytest.raises(shards.ShardError, match=r"2\.db"):
        list(scan.read(parts[2]))


@pytest.mark.parametrize("how", ["renamed", "written", "written in WAL mode"])
def test_a_file_that_is_replaced_in_the_middle(how, logs):
    """After its first batch: what was read is of the old file, and the end of it an error, not the rest of the new one."""
    if how == "written in WAL mode":
        with closing(litepack.connect("logs/1.db")) as db:
            db.execute("pragma journal_mode = wal")
    scan = shards.scan("logs/1.db", table="log", batch_rows=100)
    batches = scan.read(scan.parts[0])
    next(batches)
    if how == "renamed":
        make("new.db", log(1, 1000))
        os.replace("new.db", "logs/1.db")
    elif how == "written":
        # Not by SQLite, which would wait for the reader.
        new = pathlib.Path("logs/0.db").read_bytes()
        pathlib.Path("logs/1.db").write_bytes(new)
    else:
        with closing(litepack.connect("logs/1.db")) as db, db:
            db.execute("update log set what = 'changed'")
            db.commit()
            with pytest.raises(shards.Replaced):
                list(batches)
            return
    with pytest.raises(shards.Replaced, match=r"1\.db"):
        list(batches)


def test_a_file_that_is_damaged_and_replaced_is_not_left_out(logs):
    """It is not the one that was planned, so it is an error; and a damaged one that is still the same is left out."""
    scan = shards.scan("logs/1.db", table="log", errors="skip", skipped="left-out")
    content = pathlib.Path("logs/1.db").read_bytes()
    pathlib.Path("logs/1.db").write_bytes(content[: len(content) // 2])
    with pytest.raises(shards.Replaced, match=r"1\.db"):
        rows_of(scan)
    assert shards.skipped("left-out") == []


def test_parts_of_a_file_that_was_written_between_them():
    make("a.db", log(0, 5000))
    scan = shards.scan("a.db", table="log", split_bytes=os.path.getsize("a.db") // 4)
    parts = scan.parts
    assert len(parts) > 2
    list(scan.read(parts[0]))
    with closing(litepack.connect("a.db")) as db, db:
        db.execute("update log set status = 1")
    with pytest.raises(shards.Replaced):
        list(scan.read(parts[1]))


def test_a_large_file_that_is_damaged_is_left_out_as_a_small_one_is():
    rows = ((i, random.Random(i).randbytes(300)) for i in range(5000))
    make("bad.db", rows, "id integer primary key, b blob")
    make("good.db", ((i, b"x") for i in range(10)), "id integer primary key, b blob")
    content = bytearray(pathlib.Path("bad.db").read_bytes())
    # All but the header and what comes first: also the pages above the leaves.
    for place in range(100_000, len(content) - 5000, 50):
        content[place] ^= 0xFF
    pathlib.Path("bad.db").write_bytes(content)
    scan = shards.scan(["good.db", "bad.db"], table="log", split_bytes=100_000, errors="skip", skipped="skipped")
    assert len(rows_of(scan)) == 10
    assert {os.path.basename(report["file"]) for report in shards.skipped("skipped")} == {"bad.db"}


def damage(path):
    content = bytearray(pathlib.Path(path).read_bytes())
    # Behind the header and before the last commit's map: in the middle there are rows.
    for place in range(len(content) // 3, len(content) * 2 // 3, 100):
        content[place] ^= 0xFF
    pathlib.Path(path).write_bytes(content)


def test_damaged_files(logs):
    make("logs/1b.db", log(1, 20000))
    damage("logs/1b.db")
    pathlib.Path("logs/1c.db").write_text("no database, but long enough to look at. " * 100)
    make("logs/1d.db", [], table="other")
    for path, why in (("1b", "malformed"), ("1c", "not a database"), ("1d", "no such table")):
        scan = shards.scan(["logs/0.db", f"logs/{path}.db"], table="log", batch_rows=100)
        with pytest.raises(shards.Damaged, match=rf"{path}\.db.*{why}"):
            rows_of(scan)
    scan = shards.scan(logs, table="log", batch_rows=100, errors="skip", skipped="left-out")
    for _ in range(2):
        # Nothing of the damaged file, although its first batches could be read; and nothing is counted twice.
        assert len(rows_of(scan)) == 3000
        assert [pathlib.Path(report["file"]).name for report in shards.skipped("left-out")] == ["1b.db", "1c.db", "1d.db"]
    with pytest.raises(shards.Damaged):
        shards.scan("logs/1d.db", table="log", errors="skip", skipped="left-out")
    # An error that is not damage is never skipped.
    make("logs/3.db", [(1,)], "id int")
    with pytest.raises(shards.Mismatch):
        rows_of(shards.scan(logs, table="log", errors="skip", skipped="left-out"))


@pytest.mark.parametrize("after", [0, 1])
def test_retries_do_not_read_twice(after, logs, monkeypatch):
    """A failure before the first batch is tried again, one after it is an error: the rows are the engine's by then."""
    scan = shards.scan("logs/0.db", table="log", batch_rows=100)
    once, failures = _read.Reading._once, []

    def failing(self, part, filters):
        for number, batch in enumerate(once(self, part, filters)):
            if number == after and not failures:
                failures.append(1)
                raise OSError("disk I/O error")
            yield batch

    monkeypatch.setattr(_read.Reading, "_once", failing)
    if after == 0:
        assert [row["id"] for row in rows_of(scan)] == list(range(1000))
    else:
        with pytest.raises(shards.ShardError, match=r"0\.db: disk I/O error"):
            rows_of(scan)
    assert failures


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fail_every, seen = 0, 0

    def do_GET(self):
        type(self).seen += 1
        path = pathlib.Path(self.path.lstrip("/").split("?")[0])
        content = path.read_bytes() if path.exists() else b""
        if not content or (self.fail_every and self.seen % self.fail_every == 0):
            self.send_response(503 if content else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        start, end = (int(first), int(last or len(content))) if first else (max(0, len(content) - int(last)), len(content))
        piece = content[start : end + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{start + len(piece) - 1}/{len(content)}")
        self.send_header("ETag", f'"{hash(content) & 0xFFFFFFFF:x}"')
        self.send_header("Content-Length", str(len(piece)))
        self.end_headers()
        self.wfile.write(piece)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    class Own(Server):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_files_on_a_server_that_fails_now_and_then(logs, server):
    server.RequestHandlerClass.fail_every = 5
    urls = [f"http://127.0.0.1:{server.server_port}/logs/{number}.db?token=secret" for number in range(3)]
    scan = shards.scan(urls, table="log", columns=["id", "_file"])
    rows = rows_of(scan)
    assert [row["id"] for row in rows] == [row[0] for number in range(3) for row in log(number)]
    assert rows[0]["_file"] == urls[0].split("?")[0]
    assert all(shard.size and shard.version for shard in scan.shards)


def test_a_file_on_a_server_that_is_replaced(logs, server):
    url = f"http://127.0.0.1:{server.server_port}/logs/0.db?token=secret"
    scan = shards.scan(url, table="log")
    shutil.copy("logs/1.db", "logs/0.db")
    with pytest.raises(shards.Replaced, match="replaced") as raised:
        rows_of(scan)
    assert "secret" not in str(raised.value)
    # In the middle, too: it is longer than what opening brings.
    rows = [(i, os.urandom(500)) for i in range(4000)]
    url = f"http://127.0.0.1:{server.server_port}/{make('big.db', rows, 'id integer primary key, b blob')}"
    scan = shards.scan(url, table="log", batch_rows=100)
    batches = scan.read(scan.parts[0])
    next(batches)
    os.replace(make("new.db", rows[1:], "id integer primary key, b blob"), "big.db")
    with pytest.raises(shards.Replaced, match=r"big\.db"):
        list(batches)
    # Neither when it cannot be opened, where the driver shows the whole URI.
    for url in (f"http://127.0.0.1:{server.server_port}/none.db?token=secret", "http://user:secret@127.0.0.1:9/a.db"):
        with pytest.raises(shards.ShardError, match=r"127\.0\.0\.1:\d+/\w+\.db: ") as raised:
            shards.scan(url, table="log")
        assert "secret" not in "".join(traceback.format_exception(raised.type, raised.value, raised.tb))


@pytest.mark.parametrize("sign", "#/?[]\\@")
def test_no_password_is_shown_whatever_is_in_it(sign):
    for start in (f"http://user:s3cret{sign}pa55", f"http:///user:s3cret{sign}pa55"):
        url = f"{start}@127.0.0.1:9/a.db"
        for call in (
            lambda: shards.scan(url, table="log"), lambda: litepack.arrow(url, "select 1"),
            lambda: litepack.connect(url).execute("select 1").fetchall(), lambda: shards.begin(url),
            lambda: shards.scan("a.db", table="log", catalog=url),
        ):
            with pytest.raises(Exception) as raised:
                call()
            shown = "".join(traceback.format_exception(raised.type, raised.value, raised.tb))
            # The lines of this file are in it, too.
            said = [line for line in shown.splitlines() if not line.startswith("    ")]
            assert said and not [line for line in said if "s3cret" in line or "pa55" in line], shown
            assert url not in shown and quote(url, safe="") not in shown


def test_arrow_shows_no_token():
    for url in ("http://user:s3cret@127.0.0.1:9/a.db", "http://127.0.0.1:9/a.db?token=s3cret"):
        with pytest.raises(Exception, match=r"http://127\.0\.0\.1:9/a\.db: ") as raised:
            litepack.arrow(url, "select 1")
        assert "s3cret" not in "".join(traceback.format_exception(raised.type, raised.value, raised.tb))
