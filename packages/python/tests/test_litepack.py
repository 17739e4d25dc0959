"""The functions of the package. Each test has a process of its own where it matters what is loaded."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import quote

import pytest

import litepack
from litepack._keys import give_key

PLAIN = b"SQLite format 3\0"
LOADABLE = hasattr(sqlite3.Connection, "enable_load_extension")


def head(path):
    return pathlib.Path(path).read_bytes()[:16]


def make(connection):
    with connection:
        connection.execute("create table t (a)")
        connection.executemany("insert into t values (?)", [(f"row {i}",) for i in range(1000)])


def count(connection):
    return connection.execute("select count(*) from t").fetchone()[0]


def run(code, *arguments):
    """Python code in a process in which nothing is loaded."""
    command = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_new_databases_are_packed_and_stay_so():
    with closing(litepack.connect("new.db")) as db:
        make(db)
    assert head("new.db") != PLAIN
    with closing(litepack.connect("new.db")) as db:
        assert count(db) == 1000
        assert db.execute("pragma litepack_check").fetchall()[0][0] == "ok"


def test_plain_databases_stay_plain():
    with closing(sqlite3.connect("plain.db")) as db:
        make(db)
    with closing(litepack.connect("plain.db")) as db, db:
        db.execute("insert into t values ('more')")
    assert head("plain.db") == PLAIN
    with closing(sqlite3.connect("plain.db")) as db:
        assert count(db) == 1001


@pytest.mark.parametrize("key", ["correct 'horse'", "x'" + "0f" * 32 + "'", bytes(range(32))])
def test_a_database_with_a_key_is_encrypted(key):
    with closing(litepack.connect("new.db", key=key)) as db:
        make(db)
        assert db.execute("pragma cipher").fetchone()
    with closing(litepack.connect("new.db", key=key)) as db:
        assert count(db) == 1000
    with closing(litepack.connect("new.db")) as db, pytest.raises(sqlite3.DatabaseError, match="not a database"):
        count(db)
    with pytest.raises(sqlite3.DatabaseError, match="wrong key"):
        litepack.connect("new.db", key="another")


def test_a_key_for_what_is_not_encrypted_is_an_error():
    for connect, name in [(sqlite3.connect, "plain.db"), (litepack.connect, "packed.db")]:
        with closing(connect(name)) as db:
            make(db)
        with pytest.raises(sqlite3.DatabaseError, match="not encrypted"):
            litepack.connect(name, key="secret")
    with pytest.raises(sqlite3.DatabaseError, match="not encrypted"):
        litepack.connect(":memory:", key="secret")
    for wrong in ["", b"secret", "x'00'", "a\0b"]:
        with pytest.raises((sqlite3.DatabaseError, ValueError)) as error:
            litepack.connect("new.db", key=wrong)
        assert "secret" not in str(error.value)


def test_a_sqlite_with_keys_of_its_own_is_not_given_one():
    """One as SQLCipher's, which answers "ok" to any key of any database."""
    asked = []

    def cursor(row):
        return type("Cursor", (), {"fetchone": lambda self: row})()

    class Other:
        def execute(self, sql):
            asked.append(sql)
            return cursor(None if "litepack" in sql else ("ok",))

        def close(self):
            asked.append("close")

    with pytest.raises(sqlite3.NotSupportedError, match="not encrypted by Litepack"):
        give_key("secret")(Other())
    assert asked[-1] == "close" and not any("secret" in sql for sql in asked)


def test_a_key_with_a_null_character_is_refused():
    """SQLite would take what is before it, and a new database be encrypted with that."""
    for connect in (
        lambda: litepack.connect("file:new.db?key=a%00secret", uri=True),
        lambda: litepack.connect("file:new.db?vfs=litepack&key=a%00secret", uri=True),
        lambda: litepack.uri("new.db", key="a\0secret"),
    ):
        with pytest.raises(ValueError, match="null character in the parameter 'key'") as error:
            connect()
        assert "secret" not in str(error.value)
    assert not os.path.exists("new.db")


@pytest.mark.parametrize("query", ["hexkey=", "a=1&HexKey="])
def test_a_key_is_not_sent_to_a_server(query):
    asked = []
    digits = "0f" * 32

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.db?{query}{digits}"
        named = f"file:/a.db?mode=ro&url={quote(url, safe='')}"
        for connect in (
            lambda: litepack.connect(url),
            lambda: litepack.connect(url, key="secret"),
            lambda: litepack.connect(named, uri=True),
            lambda: litepack.uri("a.db", url=url),
        ):
            with pytest.raises(ValueError, match="which the server would get") as error:
                connect()
            assert digits not in str(error.value)
        # Beside it, it is ours; and key= is in many URLs.
        beside = litepack.uri(url.partition("?")[0] + "?key=1", hexkey=digits)
        with pytest.raises(sqlite3.Error):
            sqlite3.connect(beside, uri=True).execute("select 1 from t")
        server.shutdown()
    assert not any(digits in path for path in asked)


@pytest.mark.parametrize("without_methods", ["", "litepack._library.hasattr = lambda *arguments: False"])
def test_the_program_configures_and_other_sql_does_not(without_methods):
    code = f"""
        import sqlite3, litepack, litepack._library
        {without_methods}
        litepack.remote_headers("https://data.example", "X-Key: one")
        litepack.remote_headers("https://data.example", None)
        litepack.remote_config("cache_dir_mb", 5)
        for name, value in [("s3_region", "it's"), ("nonsense", None)]:
            try:
                litepack.remote_config(name, value)
            except sqlite3.OperationalError as error:
                print(error)
        try:
            sqlite3.connect(":memory:").execute("select litepack_remote_config('cache_dir_mb')")
        except sqlite3.DatabaseError as error:
            print(error)
        """
    said = run(code).stdout.splitlines()
    for line, words in zip(said, ["region is not valid", "the settings are", "not authorized"], strict=True):
        assert words in line


def test_connect_does_not_change_what_names_mean():
    code = """
        import sqlite3, litepack
        litepack.connect("packed.db").execute("create table t (a)").connection.close()
        try:
            sqlite3.connect("packed.db").execute("select * from t")
        except sqlite3.DatabaseError as error:
            print(error)
        sqlite3.connect("other.db").execute("create table t (a)")
        print(open("other.db", "rb").read(15))
    """
    assert run(code).stdout == "file is not a database\nb'SQLite format 3'\n"


def test_register_opens_by_name():
    with closing(litepack.connect("packed.db")) as db:
        make(db)
    code = """
        import sqlite3, sys, litepack
        litepack.register(**eval(sys.argv[1]))
        print(sqlite3.connect("packed.db").execute("select count(*) from t").fetchone())
        sqlite3.connect(sys.argv[2]).execute("create table t (a)")
    """
    for options, name in (("{}", "plain.db"), ("{'new_databases': 'packed'}", "new.db")):
        result = run(code, options, name)
        assert (result.stdout, result.stderr) == ("(1000,)\n", "")
    assert head("plain.db") == PLAIN
    assert head("new.db") != PLAIN


@pytest.mark.parametrize(
    "name",
    [
        "simple.db",
        "with space.db",
        "what?.db",
        "a#b.db",
        "100%25.db",
        "ampersand&vfs=unix.db",
        "a+b=c.db",
        "Grüße 数据.db",
        "file:like.db",
        "quote'\".db",
        "back\\slash.db",
        "new\nline.db",
        b"latin-\xe4.db",
        "C:/drive.db",
        ":memory:.db",
    ],
)
@pytest.mark.parametrize("kind", ["relative", "absolute", "path"])
def test_any_path(name, kind, empty_folder):
    raw = name if isinstance(name, bytes) else name.encode()
    path = empty_folder / pathlib.Path(raw.decode(errors="surrogateescape"))
    path.parent.mkdir(exist_ok=True)
    database = {"relative": name, "absolute": str(path), "path": path}[kind]
    with closing(litepack.connect(database)) as db:
        make(db)
    found = [file for file in empty_folder.rglob("*") if file.is_file()]
    assert found == [path]
    assert head(path) != PLAIN


def test_names_that_are_no_files():
    for name in (":memory:", ""):
        with closing(litepack.connect(name)) as db:
            make(db)
            assert count(db) == 1000
    assert list(pathlib.Path().iterdir()) == []
    with pytest.raises(ValueError, match="embedded null character"):
        litepack.connect("a\0b.db")
    with pytest.raises(ValueError, match="embedded null character"):
        litepack.connect(b"a\0b.db")


def test_a_path_that_cannot_be_opened():
    with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
        litepack.connect("no/such/folder/a.db").execute("select 1 from sqlite_master")


def test_uri_as_of_sqlite():
    with closing(litepack.connect("file:a.db?mode=rwc", uri=True)) as db:
        make(db)
    assert head("a.db") != PLAIN
    with closing(litepack.connect("file:a.db?mode=ro#x", uri=True)) as db:
        assert count(db) == 1000
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("delete from t")
    with closing(litepack.connect("file:b.db?vfs=unix", uri=True)) as db:
        make(db)
    assert head("b.db") == PLAIN
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        litepack.connect("file:c.db?mode=rw", uri=True)
    # A name that is no URI is a path, as with sqlite3.
    with closing(litepack.connect("d?.db", uri=True)) as db:
        make(db)
    assert head("d?.db") != PLAIN


def test_uri_with_parameters():
    assert litepack.uri("a b.db", mode="ro", level=9) == "file:a%20b.db?vfs=litepack&mode=ro&level=9"
    assert litepack.uri("/a/b.db") == "file:///a/b.db?vfs=litepack"
    # Nothing that is shown as a name has a secret in it.
    secret = litepack.uri("https://user:password@data.example:8080/logs.db?token=1")
    path, _, query = secret.partition("?")
    assert path == "file:/data.example/logs.db"
    assert query == "vfs=litepack&mode=ro&url=https%3A%2F%2Fuser%3Apassword%40data.example%3A8080%2Flogs.db%3Ftoken%3D1"
    # Schemes are the same in capital letters.
    assert litepack.uri("HTTPS://data.example/a.db") == (
        "file:/data.example/a.db?vfs=litepack&mode=ro&url=HTTPS%3A%2F%2Fdata.example%2Fa.db"
    )
    # A key of an object is everything behind the bucket.
    assert litepack.uri("s3://logs/2026/a?b.db") == (
        "file:/logs/2026/a%3Fb.db?vfs=litepack&mode=ro&url=s3%3A%2F%2Flogs%2F2026%2Fa%3Fb.db"
    )


def test_options_of_sqlite3():
    class Own(sqlite3.Connection):
        pass

    with closing(
        litepack.connect(
            "a.db",
            timeout=1.5,
            detect_types=sqlite3.PARSE_DECLTYPES,
            isolation_level=None,
            check_same_thread=False,
            factory=Own,
            cached_statements=5,
        )
    ) as db:
        assert isinstance(db, Own)
        assert db.isolation_level is None
    with pytest.raises(TypeError):
        litepack.connect("a.db", no_such_option=1)


def test_wal_and_settings():
    with closing(litepack.connect("wal.db")) as writer, closing(litepack.connect("wal.db")) as reader:
        assert writer.execute("pragma journal_mode = wal").fetchone() == ("wal",)
        make(writer)
        assert count(reader) == 1000


@pytest.mark.skipif(not LOADABLE, reason="this Python has no method to load extensions")
def test_load():
    code = """
        import sqlite3, litepack
        db = sqlite3.connect(":memory:")
        litepack.load(db)
        print(db.execute("select length(litepack_version()) > 0").fetchone()[0])
        try:
            db.execute("select load_extension('x')")
        except sqlite3.OperationalError as error:
            print(error)
        litepack.load(db, default=True)
        sqlite3.connect(litepack.uri("a.db"), uri=True).execute("create table t (a)").connection.close()
        print(sqlite3.connect("a.db").execute("select count(*) from t").fetchone())
    """
    result = run(code)
    assert (result.stdout, result.stderr) == ("1\nnot authorized\n(0,)\n", "")


def test_loadable_path():
    for default in (False, True):
        assert pathlib.Path(litepack.loadable_path(default=default)).is_file()


def test_a_folder_whose_name_is_not_utf8(tmp_path):
    """The name is passed on in bytes, as it is."""
    folder = pathlib.Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    shutil.copytree(pathlib.Path(litepack.loadable_path()).parent, folder)
    code = """
        import pathlib, sqlite3, sys, litepack._library as library
        library.BINARIES = pathlib.Path(sys.argv[1])
        library._load_below_python(library.loadable_path())
        print(sqlite3.connect("file:a.db?vfs=litepack", uri=True).execute("select litepack_version() is not null").fetchall())
    """
    assert run(code, folder).stdout == "[(1,)]\n", run(code, folder).stderr


def test_a_python_without_extension_loading():
    """The two ways it can be: the library below has it, or that cannot be reached either."""
    code = """
        import sqlite3, sys, _sqlite3
        import litepack, litepack._library

        class Without(sqlite3.Connection):
            enable_load_extension = property()

        connect = sqlite3.connect
        sqlite3.connect = lambda *a, **k: connect(*a, **{"factory": Without, **k})
        if sys.argv[1] == "unreachable":
            _sqlite3.__file__ = "/no/such/file"
        for call in (
            lambda: litepack.connect("a.db").execute("create table t (a)"),
            lambda: litepack.register(),
            lambda: sqlite3.connect("a.db").execute("select * from t"),
            lambda: litepack.load(sqlite3.connect(":memory:")),
        ):
            try:
                call()
                print("went well")
            except (sqlite3.Error, TypeError) as error:
                print(f"{type(error).__name__}: {error}")
    """
    sentence = f"NotSupportedError: {litepack._library.CANNOT_LOAD}"
    reachable = run(code, "reachable")
    assert reachable.stdout.splitlines() == ["went well"] * 3 + [sentence], reachable.stderr
    unreachable = run(code, "unreachable")
    assert unreachable.stdout.splitlines() == [
        sentence,
        sentence,
        "DatabaseError: file is not a database",
        sentence,
    ], unreachable.stderr


def read_in_child(path):
    with closing(litepack.connect(path)) as db:
        return count(db)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_child_processes(method):
    with closing(litepack.connect("packed.db")) as db:
        make(db)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(read_in_child, ["packed.db"] * 4) == [1000] * 4


def test_command(tmp_path):
    with closing(sqlite3.connect("plain.db")) as db:
        make(db)
    script = pathlib.Path(sys.executable).parent / "litepack"
    for command in ([sys.executable, "-m", "litepack"], [str(script)], [litepack.command_path()]):
        result = subprocess.run([*command, "--version"], capture_output=True, text=True)
        assert result.stdout.splitlines()[0] == f"litepack {litepack.__version__}", result.stderr
        # Options, output and exit codes are those of the command.
        subprocess.run([*command, "pack", "--force", "plain.db", "packed.db"], check=True, capture_output=True)
        assert subprocess.run([*command, "info", "no.db"], capture_output=True).returncode != 0
    with closing(litepack.connect("packed.db")) as db:
        assert count(db) == 1000


def test_arrow_says_what_it_needs():
    with pytest.raises(ImportError, match=r"pip install 'litepack\[arrow\]'"):
        litepack.arrow("a.db", "select 1")


@pytest.mark.parametrize(
    ("module", "extra"), [("shards", "arrow"), ("dask", "dask"), ("daft", "daft"), ("spark", "spark")]
)
def test_modules_say_what_they_need(module, extra):
    """In this environment there is nothing but pytest."""
    result = run(f"import litepack.{module}")
    assert "ImportError: No module named '" in result.stderr, result.stderr
    assert result.stderr.endswith(f": pip install 'litepack[{extra}]'\n"), result.stderr
