"""Packed and plain files for the tests of many files as one table: fixtures, and rows to put into them."""

from __future__ import annotations

import pathlib
import sqlite3
from contextlib import closing

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_sqlite")

import litepack  # noqa: E402
from litepack.shards import _read  # noqa: E402

COLUMNS = "id integer primary key, at date, status int, ms real, what text, body blob"


def make(path, rows, columns=COLUMNS, table="log", is_packed=True):
    with closing(litepack.connect(path) if is_packed else sqlite3.connect(path)) as db, db:
        db.execute(f"create table {table} ({columns})")
        rows = list(rows)
        if rows:
            db.executemany(f"insert into {table} values ({', '.join('?' * len(rows[0]))})", rows)
    return path


def log(number, count=1000):
    for i in range(number * 10000, number * 10000 + count):
        yield i, f"2026-01-{number + 1:02} {i % 24:02}:00:00", 200 + i % 3, i / 4, f"row {i}", b"%d" % i


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_read, "_PAUSE", 0.01)
    return tmp_path


@pytest.fixture
def logs():
    pathlib.Path("logs").mkdir()
    for number in range(3):
        make(f"logs/{number}.db", log(number))
    return "logs/*.db"


def rows_of(scan, filters=()):
    return scan.reader(filters).read_all().to_pylist()
