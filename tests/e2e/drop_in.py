#!/usr/bin/env python3
"""SQLite's library with Litepack inside, in place of the system's: it has the names and options of Debian's, and programs
of Debian do with it on packed and on plain databases what they do with Debian's on the plain ones.

usage: drop_in.py     LITEPACK_COMMAND is the command, LITEPACK_DROP_IN the folder of the library

Prints 'ok NAME' or 'FAILED NAME' for each part.
"""

import ctypes
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

FOLDER = Path(os.environ["LITEPACK_DROP_IN"]).absolute()
OURS = FOLDER / "libsqlite3.so.0"
RUNNER = ["env", f"LD_LIBRARY_PATH={FOLDER}"]
# The folder is for programs from PyPI, of which there are none here.
sys.argv[1:] = [os.devnull]
LOADER = importlib.machinery.SourceFileLoader("adopt", str(Path(__file__).with_name("adopt")))
adopt = importlib.util.module_from_spec(importlib.util.spec_from_loader("adopt", LOADER))
LOADER.exec_module(adopt)

# What a header declares. Debian's library has names of SQLite's inner functions, too, which change with each version.
DECLARED = re.compile(r"sqlite3(changegroup|changeset|rebaser|session)?_\w+")
# The parser of SQLite in one file is made without it; the compiler's own name; and limits that SQLite has raised since.
OTHERWISE = {"ENABLE_UPDATE_DELETE_LIMIT", "COMPILER", "MAX_FUNCTION_ARG", "MAX_PAGE_COUNT"}
BY_SYSTEM = ["the shell `sqlite3`", "Debian's Python", "PHP: PDO", "PHP: `SQLite3`", "Ruby: sqlite3", "Subversion"]


def system():
    found = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return re.search(r"libsqlite3\.so\.0 \(.*=> (.*)", found)[1]


def names(library):
    lines = adopt.said(["nm", "-D", "--defined-only", library]).splitlines()
    return {line.split()[-1] for line in lines}


def it_has_the_names_of_the_systems_library():
    theirs, ours = names(system()), names(OURS)
    declared = {name for name in theirs if DECLARED.fullmatch(name)}
    assert len(declared) > 300 and not declared - ours, declared - ours
    # Neither has versions of names, and nothing else can be seen.
    assert not [name for name in theirs | ours if "@" in name]
    assert all(DECLARED.fullmatch(name) for name in ours), [name for name in ours if not DECLARED.fullmatch(name)]
    for name in ["libsqlite3.so.0", "libe_sqlite3.so"]:
        assert f"soname: [{name}]" in adopt.said(["readelf", "-d", FOLDER / name])


def it_has_its_options():
    def options(runner):
        said = adopt.said([*runner, "sqlite3", ":memory:", "pragma compile_options"]).splitlines()
        return {line for line in said if line.split("=")[0] not in OTHERWISE}

    theirs, ours = options([]), options(RUNNER)
    assert not theirs - ours, theirs - ours


def sql_tells_its_true_source():
    # To the shell it says what that was compiled with, or the shell would end.
    ours = adopt.said([*RUNNER, "sqlite3", ":memory:", "select sqlite_source_id(), sqlite_version()"])
    assert ours != adopt.said(["sqlite3", ":memory:", "select sqlite_source_id(), sqlite_version()"])


def programs_of_the_system_use_it():
    known = {program.name: program for program in adopt.programs()}
    for name in BY_SYSTEM:
        program = known[name]
        with tempfile.TemporaryDirectory() as place:
            adopt.try_out(program, place, RUNNER)
        for mode in ["delete", "wal"]:
            with tempfile.TemporaryDirectory() as place:
                work = program.work or adopt.by_sql
                one, other = (adopt.database(program, f"{place}/{kind}") for kind in ["stock", "ours"])
                wanted = work(program, [], f"{place}/stock", mode)
                assert work(program, RUNNER, f"{place}/ours", mode) == wanted, name
                assert Path(other).read_bytes()[:16] == adopt.MAGIC, name
                if work is not adopt.by_svn:
                    assert adopt.content(other) == adopt.content(one), name
        print("ok drop_in:", name, flush=True)


def a_packed_file_is_opened_after_a_shutdown_too():
    """By the functions alone, as .NET calls them."""
    library = ctypes.CDLL(str(FOLDER / "libe_sqlite3.so"))
    with tempfile.TemporaryDirectory() as place:
        path = f"{place}/a.db"
        adopt.said(["sqlite3", path, "create table t(x); insert into t values (1)"])
        subprocess.run([adopt.COMMAND, "pack", "--in-place", path], check=True, capture_output=True)
        rows = []
        see = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p)
        each = see(lambda _, count, values, names: rows.append(values[0]) or 0)
        for number in range(1, 4):
            db = ctypes.c_void_p()
            assert library.sqlite3_open_v2(path.encode(), ctypes.byref(db), 2, None) == 0
            for sql in [f"insert into t values ({number})", "select count(*) from t"]:
                assert library.sqlite3_exec(db, sql.encode(), each, None, None) == 0
            assert library.sqlite3_close(db) == 0
            assert library.sqlite3_shutdown() == 0
        assert rows == [b"2", b"3", b"4"], rows
        assert Path(path).read_bytes()[:16] != adopt.MAGIC


def main():
    failed = False
    for part in [
        it_has_the_names_of_the_systems_library,
        it_has_its_options,
        sql_tells_its_true_source,
        programs_of_the_system_use_it,
        a_packed_file_is_opened_after_a_shutdown_too,
    ]:
        try:
            part()
            print("ok drop_in:", part.__name__, flush=True)
        except Exception:
            failed = True
            print("FAILED drop_in:", part.__name__, flush=True)
            traceback.print_exc(file=sys.stdout)
    sys.exit(failed)


if __name__ == "__main__":
    main()
