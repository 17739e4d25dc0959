#!/usr/bin/env python3
"""SQLite's library with Litepack inside, in place of the system's: it has the names and options of Debian's, and programs
of Debian do with it on packed and on plain databases what they do with Debian's on the plain ones.

usage: drop_in.py FOLDER     LITEPACK_COMMAND is the command, LITEPACK_DROP_IN the folder of the library; what comes from
                             PyPI is put into the folder, and stays there

Prints 'ok NAME' or 'FAILED NAME' for each part.
"""

import ctypes
import importlib.machinery
import importlib.util
import json
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
LOADER = importlib.machinery.SourceFileLoader("adopt", str(Path(__file__).with_name("adopt")))
adopt = importlib.util.module_from_spec(importlib.util.spec_from_loader("adopt", LOADER))
LOADER.exec_module(adopt)

# What a header declares. Debian's library has names of SQLite's inner functions, too, which change with each version.
DECLARED = re.compile(r"sqlite3(changegroup|changeset|rebaser|session)?_\w+")
# The parser of SQLite in one file is made without it; the compiler's own name; and limits that SQLite has raised since.
OTHERWISE = {"ENABLE_UPDATE_DELETE_LIMIT", "COMPILER", "MAX_FUNCTION_ARG", "MAX_PAGE_COUNT"}
# The runtime of .NET.
FROM_PYPI = ["dotnetcore2==3.1.23"]
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
                one, other = (adopt.database(program, f"{place}/{kind}") for kind in ["stock", "ours"])
                wanted = program.work(program, [], f"{place}/stock", mode)
                assert program.work(program, RUNNER, f"{place}/ours", mode) == wanted, name
                assert Path(other).read_bytes()[:16] == adopt.MAGIC, name
                assert program.content(other) == program.content(one), name
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


# By Mono's own provider, from Debian.
MONO = """
using System;
using Mono.Data.Sqlite;

class Program {
    static void Main(string[] given) {
        using (var db = new SqliteConnection("Data Source=" + given[0])) {
            db.Open();
            for (int at = 1; at < given.Length; at++) {
                var command = db.CreateCommand();
                command.CommandText = given[at];
                using (var found = command.ExecuteReader())
                    while (found.Read()) {
                        var row = new string[found.FieldCount];
                        for (int column = 0; column < row.Length; column++) row[column] = found.GetValue(column).ToString();
                        Console.WriteLine(string.Join("|", row));
                    }
            }
        }
    }
}
"""


def mono_uses_it():
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "program.cs")
        source.write_text(MONO)
        adopt.said(["mcs", "-r:System.Data.dll", "-r:Mono.Data.Sqlite.dll", source])
        program = adopt.Program("Mono", "", ["mono", str(source.with_suffix(".exe"))], [])
        adopt.try_out(program, place, RUNNER)


# As the provider `e_sqlite3` of .NET does: the library has its functions by this name, and is in the folder of the program.
DOTNET = """
using System;
using System.Runtime.InteropServices;

class Program {
    const string LIBRARY = "e_sqlite3";
    [DllImport(LIBRARY)] static extern int sqlite3_open_v2(string name, out IntPtr db, int flags, IntPtr vfs);
    [DllImport(LIBRARY)] static extern int sqlite3_prepare_v2(IntPtr db, string sql, int length, out IntPtr found, IntPtr rest);
    [DllImport(LIBRARY)] static extern int sqlite3_step(IntPtr found);
    [DllImport(LIBRARY)] static extern int sqlite3_column_count(IntPtr found);
    [DllImport(LIBRARY)] static extern IntPtr sqlite3_column_text(IntPtr found, int column);
    [DllImport(LIBRARY)] static extern int sqlite3_finalize(IntPtr found);
    [DllImport(LIBRARY)] static extern int sqlite3_close_v2(IntPtr db);

    static void Expect(bool holds, string what) {
        if (!holds) throw new Exception(what);
    }

    static void Main(string[] given) {
        IntPtr db, found;
        Expect(sqlite3_open_v2(given[0], out db, 6, IntPtr.Zero) == 0, "cannot open");
        for (int at = 1; at < given.Length; at++) {
            Expect(sqlite3_prepare_v2(db, given[at], -1, out found, IntPtr.Zero) == 0, given[at]);
            int code;
            while ((code = sqlite3_step(found)) == 100) {
                var row = new string[sqlite3_column_count(found)];
                for (int column = 0; column < row.Length; column++)
                    row[column] = Marshal.PtrToStringAnsi(sqlite3_column_text(found, column));
                Console.WriteLine(string.Join("|", row));
            }
            Expect(code == 101 && sqlite3_finalize(found) == 0, given[at]);
        }
        Expect(sqlite3_close_v2(db) == 0, "cannot close");
    }
}
"""


def dotnet_uses_it():
    adopt.prepare("dotnet", FROM_PYPI, adopt.environment(FROM_PYPI))
    (runtime,) = (adopt.FOLDER / "dotnet").glob("lib/python3*/site-packages/dotnetcore2/bin/dotnet")
    runtime.chmod(0o755)
    with tempfile.TemporaryDirectory() as place:
        source, program = Path(place, "program.cs"), Path(place, "program.dll")
        source.write_text(DOTNET)
        adopt.said(["mcs", f"-out:{program}", "-target:exe", source])
        framework = {"name": "Microsoft.NETCore.App", "version": "3.1.0"}
        options = {"framework": framework, "configProperties": {"System.Globalization.Invariant": True}}
        program.with_suffix(".runtimeconfig.json").write_text(json.dumps({"runtimeOptions": options}))
        os.symlink(FOLDER / "libe_sqlite3.so", f"{place}/libe_sqlite3.so")
        # There is no other library of this name: what it is compared with is SQLite's shell.
        shell = adopt.Program("", "", ["sqlite3"], [])

        def work(program, runner, folder, mode):
            return adopt.by_sql(program if runner else shell, [], folder, mode)

        adopt.try_out(adopt.Program(".NET", "", [str(runtime), str(program)], [], work), place, RUNNER)


def main():
    failed = False
    for part in [
        it_has_the_names_of_the_systems_library,
        it_has_its_options,
        sql_tells_its_true_source,
        programs_of_the_system_use_it,
        a_packed_file_is_opened_after_a_shutdown_too,
        mono_uses_it,
        dotnet_uses_it,
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
