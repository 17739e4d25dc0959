"""Jobs that write many files: what is there afterwards, and what is not, whatever fails on the way."""

from __future__ import annotations

import math
import os
import pathlib
import shutil
import subprocess
from contextlib import closing

import pytest

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_sqlite")

import litepack  # noqa: E402
from litepack import shards  # noqa: E402


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_written_files_are_read_back(folder):
    table = pyarrow.table(
        {
            "i": pyarrow.array([1, None, 2**63 - 1]),
            "f": pyarrow.array([0.5, None, math.inf]),
            "s": pyarrow.array(["a'b", None, ""]),
            "b": pyarrow.array([b"\0", None, b""]),
            "t": pyarrow.array([0, None, 1767323045123456], pyarrow.timestamp("us", "Europe/Berlin")),
            "d": pyarrow.array([1, None, -1], pyarrow.int32()).cast(pyarrow.date32()),
            "n": pyarrow.array(["123456789012345678.25", None, "-0.10"]).cast(pyarrow.decimal128(20, 2)),
            "y": pyarrow.array([True, None, False]),
        }
    )
    job = shards.begin("out")
    names = [shards.write("out", job, table.to_batches(), table="log", indexes=[["i", "s"]], number=n) for n in range(2)]
    assert not os.path.exists("out")
    paths = shards.commit("out", job, names)
    assert sorted(os.listdir()) == ["out"]
    schema = table.schema.set(4, pyarrow.field("t", pyarrow.timestamp("us", "UTC")))
    read = shards.scan("out", table="log", schema=schema).reader().read_all()
    assert read.slice(0, 3).to_pylist() == table.to_pylist()
    assert read.num_rows == 6
    with closing(litepack.connect(paths[0])) as db:
        assert db.execute("select sql from sqlite_schema where type = 'index'").fetchall() != []
    assert pathlib.Path(paths[0]).read_bytes()[:15] != b"SQLite format 3"


def test_what_cannot_be_stored_is_an_error():
    for array in (pyarrow.array([math.nan]), pyarrow.array([[1]]), pyarrow.array([2**63], pyarrow.uint64())):
        with pytest.raises((ValueError, TypeError), match="column c"):
            shards.write("out", "job", pyarrow.table({"c": array}).to_batches())
    assert os.listdir() == []


def test_a_task_that_outlives_its_job_writes_nothing(folder, monkeypatch):
    """It has read its rows when the job is discarded, or the command is about to put the file in place."""
    rows = pyarrow.table({"c": [1]}).to_batches()
    job = shards.begin("out")

    def discarded():
        yield from rows
        shards.discard("out", job)

    with pytest.raises(FileNotFoundError, match="discarded"):
        shards.write("out", job, discarded())
    assert os.listdir() == []
    other, run = shards.begin("out"), subprocess.run

    def late(*arguments, **options):
        shards.discard("out", other)
        return run(*arguments, **options)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(OSError, match="part-"):
        shards.write("out", other, rows)
    assert os.listdir() == []


def test_a_file_that_appears_while_a_job_is_discarded_is_removed(folder, monkeypatch):
    job, remove, late = shards.begin("out"), shutil.rmtree, ["one", "two"]

    def slow(path, **options):
        if late:
            pathlib.Path(path, late.pop()).write_text("")
            return
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", slow)
    shards.discard("out", job)
    assert os.listdir() == []


def test_a_task_that_outlives_the_commit_of_its_job_adds_nothing(folder, monkeypatch):
    job, rows = shards.begin("out"), pyarrow.table({"c": [1]}).to_batches()
    first, run = shards.write("out", job, rows), subprocess.run

    def late(*arguments, **options):
        shards.commit("out", job, [first])
        return run(*arguments, **options)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(OSError, match="part-"):
        shards.write("out", job, rows)
    assert os.listdir("out") == [first] and os.listdir() == ["out"]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_what_cannot_be_tidied_up_is_no_failure(folder, monkeypatch, mode):
    """The files are in place: an error would have the job done again."""
    for number in range(2):
        job = shards.begin("out", mode)
        name = shards.write("out", job, pyarrow.table({"c": [number]}).to_batches())
        if number:
            monkeypatch.setattr(os, "rmdir", lambda *_, **__: (_ for _ in ()).throw(OSError("busy")))
        shards.commit("out", job, [name], mode)
    assert len(os.listdir("out")) == (2 if mode == "append" else 1)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_a_folder_that_another_job_makes_meanwhile(folder, monkeypatch, mode, last):
    """Right after the check, or at the last moment: its rows stay, and so do files of others."""
    rename = os.rename
    job = shards.begin("out", mode)
    name = shards.write("out", job, pyarrow.table({"c": ["mine"]}).to_batches())
    other = shards.begin("other")
    there = shards.write("other", other, pyarrow.table({"c": ["other"]}).to_batches())
    shards.commit("other", other, [there])

    def late(source, target):
        if not last:
            rename(source, target)
        if os.path.exists("other") and str(source if last else target).endswith(".ready.unfinished"):
            rename("other", "out")
            pathlib.Path("out/mine.txt").write_text("keep")
        if last:
            rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    if mode == "append":
        shards.commit("out", job, [name], mode)
    else:
        with pytest.raises(FileExistsError, match="there are files" if mode == "error" else r"mine\.txt"):
            shards.commit("out", job, [name], mode)
        shards.discard("out", job)
    assert sorted(os.listdir("out")) == sorted(["mine.txt", there, *([name] if mode == "append" else [])])
    assert os.listdir() == ["out"]


def test_a_file_that_comes_while_a_folder_is_replaced(folder, monkeypatch):
    """After both checks by name: it is seen when the former folder has its other name, and that is taken back."""
    rename, names = os.rename, []
    for _ in range(2):
        job = shards.begin("out", "overwrite")
        names.append(shards.write("out", job, pyarrow.table({"c": [1]}).to_batches()))
        if not names[1:]:
            shards.commit("out", job, names, "overwrite")

    def late(source, target):
        if str(target).endswith(".former.unfinished"):
            pathlib.Path("out/mine.txt").write_text("keep")
        rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(FileExistsError, match=r"mine\.txt"):
        shards.commit("out", job, names[1:], "overwrite")
    shards.discard("out", job)
    assert sorted(os.listdir("out")) == sorted(["mine.txt", names[0]])
    assert os.listdir() == ["out"]


@pytest.mark.parametrize("mode", ["error", "append", "overwrite"])
def test_what_cannot_be_synced_is_a_warning(folder, monkeypatch, mode):
    """The files are in place: an error would have the job done again, and append would add its rows twice."""
    job = shards.begin("out", mode)
    name = shards.write("out", job, pyarrow.table({"c": [1]}).to_batches())
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no space")))
    with pytest.warns(UserWarning, match="in place.*no space"):
        paths = shards.commit("out", job, [name], mode)
    assert os.listdir("out") == [name] and [os.path.basename(path) for path in paths] == [name]


def test_commits(folder, monkeypatch):
    def job(mode):
        name = shards.begin("out", "append")
        batches = pyarrow.table({"c": [mode]}).to_batches()
        lost = shards.write("out", name, batches)
        kept = shards.write("out", name, batches)
        # A repeated attempt makes a second file. The job names only one of them.
        assert lost != kept
        try:
            return shards.commit("out", name, [kept, None], mode)
        except BaseException:
            shards.discard("out", name)
            raise

    def found():
        return sorted(row["c"] for row in shards.scan("out", table="data").reader().read_all().to_pylist())

    job("error")
    assert found() == ["error"]
    with pytest.raises(FileExistsError, match="mode"):
        job("error")
    job("append")
    assert found() == ["append", "error"]
    job("overwrite")
    assert found() == ["overwrite"]
    assert os.listdir() == ["out"]
    pathlib.Path("out/mine.txt").write_text("keep")
    with pytest.raises(FileExistsError, match=r"mine\.txt"):
        job("overwrite")
    assert found() == ["overwrite"]
    # A rename that fails takes the others back.
    last = shards.begin("out", "append")
    names = [shards.write("out", last, pyarrow.table({"c": ["f"]}).to_batches()) for _ in range(2)]
    rename, done = os.rename, []

    def failing(source, target):
        # After the folder of the job and the first file.
        if len(done) == 2:
            raise OSError("no space")
        done.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="no space"):
        shards.commit("out", last, names, "append")
    assert len(done) == 2 and found() == ["overwrite"]
    monkeypatch.setattr(os, "rename", rename)
    shards.discard("out", last)
    assert os.listdir() == ["out"]
