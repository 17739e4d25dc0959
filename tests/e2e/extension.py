"""The extension in Python's own sqlite3 module, through one of its entry points.

usage: extension.py named|default

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import traceback

EXTENSION = os.environ["LITEPACK_EXTENSION"]
COMMAND = os.environ["LITEPACK_COMMAND"]
MAGIC = b"SQLite format 3\0"
ROWS = 3000
MODES = ["delete", "truncate", "persist", "memory", "off", "wal"]
FILL = f"""
create table t(id integer primary key, name text, data text);
create index by_name on t(name);
insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
  select i, 'name ' || (i * 7919 % 1000), json_object('id', i, 'tags', json_array(i % 7)) from n;
"""


def load(entry_point):
    """Loads the extension with a connection that is thrown away, as the manual says."""
    connection = sqlite3.connect(":memory:")
    connection.enable_load_extension(True)
    if entry_point == "named":
        connection.load_extension(EXTENSION)
    else:
        entry = "sqlite3_litepackdefault_init"
        connection.execute("select load_extension(?, ?)", (EXTENSION, entry))
    connection.close()


def packed(path, parameters=""):
    uri = f"file:{path}?vfs=litepack{parameters}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)


def plain(path):
    return sqlite3.connect(f"file:{path}?vfs=unix", uri=True, isolation_level=None, timeout=10)


def content(connection):
    return list(connection.iterdump())


def one(connection, sql, *parameters):
    return connection.execute(sql, parameters).fetchone()[0]


def sound(connection):
    assert one(connection, "pragma integrity_check") == "ok"


def head(path):
    with open(path, "rb") as file:
        return file.read(16)


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def without_extension(code, path):
    """Runs Python code in a process that never loads the extension; gives what it printed."""
    code = f"import sqlite3\npath = {path!r}\n{code}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    return (result.stdout + result.stderr).strip()


# Checks of the named VFS


def the_version_function_answers(place):
    connection = sqlite3.connect(":memory:")
    assert re.match(r"\d+\.\d+\.\d+", one(connection, "select litepack_version()"))


def functions_reach_later_connections_and_loading_twice_is_harmless(place):
    load("named")
    for name in [":memory:", place + "/a.db"]:
        connection = sqlite3.connect(name)
        assert one(connection, "select litepack_version()")
    connection = packed(place + "/b.db")
    assert one(connection, "select litepack_version()")


def a_new_database_is_packed_and_smaller_and_reopens(place):
    path, twin = place + "/packed.db", place + "/plain.db"
    for connection in [packed(path), plain(twin)]:
        connection.executescript(FILL)
        connection.close()
    assert head(path) != MAGIC and head(twin) == MAGIC
    ours, theirs = os.path.getsize(path), os.path.getsize(twin)
    assert ours * 2 < theirs, f"{ours} bytes packed, {theirs} plain"
    connection = packed(path)
    assert one(connection, "select count(*) from t where name = 'name 7'") == ROWS // 1000
    assert content(connection) == content(plain(twin))
    sound(connection)


def every_journal_mode_writes_and_reopens(place):
    for mode in MODES:
        path = f"{place}/{mode}.db"
        connection = packed(path)
        assert one(connection, f"pragma journal_mode = {mode}") == mode
        connection.executescript(FILL)
        connection.execute("begin")
        connection.execute("delete from t where id % 2")
        connection.execute("commit")
        if mode != "off":
            connection.execute("begin")
            connection.execute("delete from t")
            connection.execute("rollback")
        connection.close()
        connection = packed(path)
        assert one(connection, "select count(*) from t") == ROWS // 2, mode
        kept = one(connection, "pragma journal_mode")
        assert kept == ("wal" if mode == "wal" else "delete"), (mode, kept)
        sound(connection)


def plain_sqlite_refuses_a_packed_file_and_leaves_it_alone(place):
    path = place + "/packed.db"
    connection = packed(path)
    connection.executescript(FILL)
    connection.close()
    before = bytes_of(path)
    for sql in ["select * from t", "create table u(x)", "pragma journal_mode = wal", "vacuum"]:
        code = f"c = sqlite3.connect(path)\nc.execute({sql!r}).fetchall()"
        said = without_extension(code, path)
        assert said.endswith("file is not a database"), said
    assert before == bytes_of(path)
    connection = packed(path)
    assert one(connection, "select count(*) from t") == ROWS


def a_plain_file_stays_plain_under_the_vfs(place):
    path = place + "/plain.db"
    without_extension(f"sqlite3.connect(path).executescript({FILL!r})", path)
    before = bytes_of(path)
    connection = packed(path)
    assert one(connection, "select count(*) from t") == ROWS
    connection.close()
    assert before == bytes_of(path), "reading changed it"
    connection = packed(path)
    connection.execute("delete from t where id > 10")
    connection.execute("vacuum")
    connection.close()
    code = "print(sqlite3.connect(path).execute('select count(*) from t').fetchone()[0])"
    assert without_extension(code, path) == "10"


def info_is_json_and_check_says_ok(place):
    connection = packed(place + "/a.db")
    connection.executescript(FILL)
    info = json.loads(one(connection, "select litepack_info()"))
    assert isinstance(info, dict) and info, info
    assert json.loads(one(connection, "select litepack_info('main')")) == info
    assert one(connection, "select litepack_check()") == "ok"
    connection.execute("attach ? as q", (f"file:{place}/q.db?vfs=litepack",))
    connection.execute("create table q.u as select * from t")
    assert one(connection, "select litepack_check('q')") == "ok"
    assert json.loads(one(connection, "select litepack_info('q')")) != info


def maintenance_works_in_every_journal_mode(place):
    for mode in MODES:
        path = f"{place}/{mode}.db"
        connection = packed(path)
        connection.execute(f"pragma journal_mode = {mode}")
        connection.executescript(FILL)
        connection.execute("delete from t where id % 3")
        connection.execute("pragma wal_checkpoint(truncate)")
        before, length = content(connection), os.path.getsize(path)
        steps = 1
        while one(connection, "select litepack_maintain(0, 1)"):
            steps += 1
            assert steps < 1000, mode
        # A file that would not become shorter is left alone.
        assert (os.path.getsize(path) < length) == (steps > 1), mode
        assert one(connection, "select litepack_maintain(null, 1)") == 0
        assert one(connection, "pragma litepack_maintain") == "0"
        assert one(connection, "select litepack_maintain(null, 0.9, 12, 'main')") == 0
        assert content(connection) == before, mode
        sound(connection)
        assert one(connection, "select litepack_check()") == "ok", mode
        connection.close()


def functions_on_a_plain_database_do_no_harm(place):
    connection = sqlite3.connect(place + "/plain.db")
    connection.execute("create table t(x)")
    for sql in ["select litepack_info()", "select litepack_check()", "select litepack_info('no')"]:
        try:
            connection.execute(sql).fetchall()
        except sqlite3.Error as error:
            assert str(error), sql
    try:
        connection.execute("select litepack_maintain(1, 1)").fetchall()
        raise AssertionError("maintains a plain database")
    except sqlite3.Error as error:
        assert "not a packed database" in str(error), error
    sound(connection)


def backups_run_in_both_directions(place):
    source = packed(place + "/packed.db")
    source.executescript(FILL)
    target = plain(place + "/plain.db")
    source.backup(target, pages=7)
    again = packed(place + "/again.db")
    target.backup(again)
    assert content(source) == content(target) == content(again)
    memory = sqlite3.connect(":memory:")
    again.backup(memory)
    assert content(memory) == content(source)
    for connection in [target, again, memory]:
        sound(connection)
    assert head(place + "/plain.db") == MAGIC and head(place + "/again.db") != MAGIC


def vacuum_into_and_attach_mix_plain_and_packed(place):
    connection = sqlite3.connect(f"file:{place}/plain.db", uri=True, isolation_level=None)
    connection.executescript(FILL)
    uri = f"file:{place}/copy.db?vfs=litepack"
    connection.execute("vacuum into ?", (uri,))
    assert head(place + "/copy.db") != MAGIC
    connection.execute("attach ? as q", (uri,))
    connection.execute("begin")
    connection.execute("delete from t where id <= 100")
    connection.execute("delete from q.t where id > 100")
    connection.execute("commit")
    connection.execute("begin")
    connection.execute("delete from t")
    connection.execute("delete from q.t")
    connection.execute("rollback")
    assert one(connection, "select count(*) from t") == ROWS - 100
    assert one(connection, "select count(*) from q.t") == 100
    sound(connection)


def threads_read_while_one_writes(place):
    for mode in ["wal", "delete"]:
        path = f"{place}/{mode}.db"
        connection = packed(path)
        connection.execute(f"pragma journal_mode = {mode}")
        connection.execute("pragma synchronous = off")
        connection.execute("create table account(id integer primary key, balance int)")
        connection.executemany("insert into account values (?, 100)", [(i,) for i in range(200)])
        problems, done = [], threading.Event()

        def read():
            try:
                mine = packed(path)
                while not done.is_set():
                    total = one(mine, "select sum(balance) from account")
                    assert total == 20000, total
                mine.close()
            except BaseException as problem:
                problems.append(problem)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for i in range(150):
            connection.execute("begin immediate")
            connection.execute("update account set balance = balance - 7 where id = ?", (i,))
            connection.execute("update account set balance = balance + 7 where id = ?", (i + 50,))
            connection.execute("commit")
        done.set()
        for reader in readers:
            reader.join(60)
        assert not problems, problems
        sound(connection)


def a_second_process_sees_what_the_first_wrote(place):
    path = place + "/shared.db"
    connection = packed(path)
    connection.execute("pragma journal_mode = wal")
    connection.executescript(FILL)
    code = f"""
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension({EXTENSION!r})
c = sqlite3.connect('file:' + path + '?vfs=litepack', uri=True, timeout=10)
print(c.execute('select count(*) from t').fetchone()[0])
c.execute("insert into t(name) values ('from the other process')")
c.commit()
"""
    assert without_extension(code, path) == str(ROWS), "nothing else may be printed"
    assert one(connection, "select count(*) from t") == ROWS + 1
    sound(connection)


def archived(place):
    """A database in WAL mode, and its archive made by the command; gives the names of both."""
    path, archive = place + "/logs.db", place + "/logs.db.zst"
    connection = plain(path)
    connection.execute("pragma journal_mode = wal")
    connection.executescript(FILL)
    connection.close()
    made = [COMMAND, "archive", "create", "--frame-size=16384", path, archive]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    return path, archive


def an_archive_answers_like_the_database_and_refuses_writes(place, read=None):
    path, archive = archived(place)
    before = bytes_of(archive)
    read = read or (lambda name: packed(name, "&mode=ro"))
    connection = read(archive)
    connection.execute("pragma cache_size = 10")
    assert content(connection) == content(plain(path))
    group = "select json_extract(data, '$.tags[0]'), count(*) from t group by 1 order by 2, 1"
    assert connection.execute(group).fetchall() == plain(path).execute(group).fetchall()
    sound(connection)
    assert one(connection, "select litepack_check()") == "ok"
    assert json.loads(one(connection, "select litepack_info()"))["pages"] > 10
    for sql in ["delete from t", "create table u(x)", "pragma user_version = 1"]:
        try:
            connection.execute(sql)
            raise AssertionError(f"{sql} was accepted")
        except sqlite3.OperationalError as error:
            assert str(error) == "attempt to write a readonly database", error
    connection.execute("create temp table s as select * from t")
    connection.execute("attach ? as new", (place + "/new.db",))
    connection.execute("create table new.copy as select * from t")
    assert one(connection, "select count(*) from new.copy join t using (id, data)") == ROWS
    connection.close()
    assert bytes_of(archive) == before
    assert not os.path.exists(archive + "-wal") and not os.path.exists(archive + "-shm")


def an_archive_opens_by_its_bare_name(place):
    def read(name):
        return sqlite3.connect(name, isolation_level=None)

    an_archive_answers_like_the_database_and_refuses_writes(place, read)


def threads_read_an_archive(place):
    archive = archived(place)[1]
    sums = []

    def read():
        connection = packed(archive, "&mode=ro")
        sums.append([one(connection, "select sum(length(data)) from t") for _ in range(10)])

    readers = [threading.Thread(target=read) for _ in range(6)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(sums) == 6 and len({one for answers in sums for one in answers}) == 1, sums


def a_zstd_file_without_a_seek_table_is_refused(place):
    path = archived(place)[1]
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - 9)
    for parameters in ["", "&mode=ro"]:
        try:
            one(packed(path, parameters), "select count(*) from t")
            raise AssertionError("it was opened")
        except sqlite3.DatabaseError as error:
            assert str(error) == "file is not a database", error


def an_unknown_setting_is_an_error(place):
    for parameters in ["&level=banana", "&threads=-x"]:
        try:
            packed(place + "/a.db", parameters).execute("create table t(x)")
        except sqlite3.Error:
            continue
        raise AssertionError(f"{parameters} was accepted")
    # The error itself says what is wrong, and nothing was made.
    try:
        packed(place + "/new.db", "&levle=3")
    except sqlite3.Error as error:
        assert "did you mean 'level'?" in str(error), error
    else:
        raise AssertionError("levle was accepted")
    assert not os.path.exists(place + "/new.db")
    connection = packed(place + "/new.db", "&_journal_mode=WAL&timezone=UTC")
    connection.executescript(FILL)


def a_report_names_a_packed_file_opened_without_litepack(place):
    path = place + "/packed.db"
    packed(path).executescript(FILL)
    try:
        one(plain(path), "select litepack_info()")
    except sqlite3.DatabaseError as error:
        # Newer versions of SQLite read the schema before they call any function.
        if sqlite3.sqlite_version_info < (3, 50):
            assert "vfs=litepack" in str(error), error
    else:
        raise AssertionError("it has a report")


def headers_for_servers_are_told_by_statements_alone(place):
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.enable_load_extension(True)
    tell = "select litepack_remote_headers(?, ?)"
    assert one(connection, tell, "https://h.example", "X-A: 1\nX-B: s3cret") == 2
    assert one(connection, tell, "https://h.example", None) == 0
    connection.execute("create view v as select litepack_remote_headers('https://h', 'X-A: 1')")
    for sql in ["select * from v", "select litepack_remote_config('cache_dir', '/nonexistent')"]:
        try:
            one(connection, sql)
        except sqlite3.Error:
            continue
        raise AssertionError(f"{sql} was accepted")


def sqlite_keeps_its_default_vfs(place):
    connection = sqlite3.connect(place + "/new.db")
    connection.execute("create table t(x)")
    connection.close()
    assert head(place + "/new.db") == MAGIC


# Checks of the default VFS


def an_existing_plain_file_stays_plain_and_untouched(place):
    path = place + "/plain.db"
    without_extension(f"sqlite3.connect(path).executescript({FILL!r})", path)
    before = bytes_of(path)
    connection = sqlite3.connect(path)
    assert one(connection, "select count(*) from t") == ROWS
    connection.close()
    assert before == bytes_of(path) and os.listdir(place) == ["plain.db"]
    connection = sqlite3.connect(path, isolation_level=None)
    one(connection, "pragma journal_mode = wal")
    connection.execute("delete from t where id > 10")
    connection.close()
    code = "print(sqlite3.connect(path).execute('select count(*) from t').fetchone()[0])"
    assert without_extension(code, path) == "10"


def new_databases_are_plain_until_packed_ones_are_asked_for(place):
    def new(name):
        connection = sqlite3.connect(f"{place}/{name}", isolation_level=None)
        connection.executescript(FILL)
        sound(connection)
        connection.close()
        return head(f"{place}/{name}") == MAGIC

    memory = sqlite3.connect(":memory:")
    memory.enable_load_extension(True)
    assert new("one.db")
    memory.execute("select litepack_new_databases('packed')")
    try:
        assert not new("two.db")
        connection = sqlite3.connect(place + "/one.db")
        assert one(connection, "select count(*) from t") == ROWS
    finally:
        memory.execute("select litepack_new_databases('plain')")
    assert new("three.db")
    connection = sqlite3.connect(place + "/two.db")
    assert one(connection, "select count(*) from t") == ROWS
    try:
        memory.execute("select litepack_new_databases('nonsense')")
    except sqlite3.Error as error:
        assert "nonsense" in str(error) or "packed" in str(error), error
    else:
        raise AssertionError("nonsense was accepted")


def packed_files_open_by_their_bare_name(place):
    path = place + "/packed.db"
    connection = packed(path)
    connection.executescript(FILL)
    connection.close()
    assert head(path) != MAGIC
    for mode in MODES:
        connection = sqlite3.connect(path, isolation_level=None)
        assert one(connection, f"pragma journal_mode = {mode}") == mode
        connection.execute("update t set name = name || '.' where id % 10 = 1")
        sound(connection)
        connection.close()
    connection = sqlite3.connect(path)
    assert one(connection, "select name from t where id = 1") == "name 919" + "." * len(MODES)


def temporary_and_memory_databases_work(place):
    for name in [":memory:", ""]:
        connection = sqlite3.connect(name, isolation_level=None)
        connection.execute("pragma temp_store = file")
        connection.execute("pragma cache_size = 10")
        connection.executescript(FILL)
        connection.execute("create temp table s as select * from t order by data")
        assert one(connection, "select count(*) from s join t using (id)") == ROWS
        sound(connection)


NAMED = [
    the_version_function_answers,
    functions_reach_later_connections_and_loading_twice_is_harmless,
    sqlite_keeps_its_default_vfs,
    a_new_database_is_packed_and_smaller_and_reopens,
    every_journal_mode_writes_and_reopens,
    plain_sqlite_refuses_a_packed_file_and_leaves_it_alone,
    a_plain_file_stays_plain_under_the_vfs,
    info_is_json_and_check_says_ok,
    maintenance_works_in_every_journal_mode,
    functions_on_a_plain_database_do_no_harm,
    backups_run_in_both_directions,
    vacuum_into_and_attach_mix_plain_and_packed,
    threads_read_while_one_writes,
    a_second_process_sees_what_the_first_wrote,
    an_unknown_setting_is_an_error,
    a_report_names_a_packed_file_opened_without_litepack,
    headers_for_servers_are_told_by_statements_alone,
    an_archive_answers_like_the_database_and_refuses_writes,
    threads_read_an_archive,
    a_zstd_file_without_a_seek_table_is_refused,
]
DEFAULT = [
    the_version_function_answers,
    an_existing_plain_file_stays_plain_and_untouched,
    new_databases_are_plain_until_packed_ones_are_asked_for,
    packed_files_open_by_their_bare_name,
    temporary_and_memory_databases_work,
    every_journal_mode_writes_and_reopens,
    backups_run_in_both_directions,
    threads_read_while_one_writes,
    an_archive_opens_by_its_bare_name,
    threads_read_an_archive,
    a_zstd_file_without_a_seek_table_is_refused,
]


def main(entry_point):
    print(f"SQLite {sqlite3.sqlite_version}, Python {sys.version.split()[0]}")
    try:
        load(entry_point)
    except sqlite3.Error as error:
        print(f"FAILED {entry_point} entry point: {error}")
        print("end of part")
        return
    for check in NAMED if entry_point == "named" else DEFAULT:
        name = check.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory() as place:
            try:
                check(place)
            except Exception:
                print(f"FAILED {entry_point}: {name}")
                traceback.print_exc(file=sys.stdout)
            else:
                print(f"ok {entry_point}: {name}")
    print("end of part", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
