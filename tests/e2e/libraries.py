"""The extension in the hands of several SQLite libraries of one process, of VFSes that others build on ours, and of
programs that load it in every way there is. SQLite is called as C calls it.

Each check runs in a process of its own. Prints 'ok NAME' or 'FAILED NAME' for each. The functions are checks; their
names say what holds.
"""

import _ctypes
import ctypes
import ctypes.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from ctypes import POINTER, Structure, addressof, byref, c_char_p, c_double, c_int, c_int64, c_void_p, cast

EXTENSION = os.path.abspath(os.environ["LITEPACK_EXTENSION"])
COMMAND = os.environ["LITEPACK_COMMAND"]
MAGIC = b"SQLite format 3\0"
NAMED, DEFAULT = b"sqlite3_litepack_init", b"sqlite3_litepackdefault_init"
OK, ROW = 0, 100
READWRITE_CREATE_URI = 0x2 | 0x4 | 0x40
CONFIG_LOG, FCNTL_VFSNAME = 16, 12
# As many as crates/sqlite/src/c/library.rs has places for.
LIBRARIES = 16
ROWS = 3000
FILL = f"""
create table t(id integer primary key, name text, data text);
create index by_name on t(name);
insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})
  select i, 'name ' || (i * 7919 % 1000), json_object('id', i, 'tags', json_array(i % 7)) from n;
"""
# More than a journal in memory holds.
FILL_MUCH = """
create table if not exists much(x);
insert into much with recursive n(i) as (select 1 union all select i + 1 from n where i < 12000)
  select randomblob(1000) from n;
"""


class SqliteError(Exception):
    pass


def system_library():
    """The SQLite that Python's own module uses, or else the system's."""
    with open("/proc/self/maps") as maps:
        paths = [line.split()[-1] for line in maps if "/libsqlite3" in line]
    found = paths[0] if paths else ctypes.util.find_library("sqlite3")
    assert found, "there is no shared SQLite library"
    return found


class Library:
    """A SQLite library of its own: a copy of the system's."""

    def __init__(self, place, name):
        self.path = f"{place}/libsqlite-{name}.so"
        if not os.path.exists(self.path):
            shutil.copy(os.path.realpath(system_library()), self.path)
        self.c = ctypes.CDLL(self.path, os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND)
        for name in ["column_text", "errmsg", "vfs_find"]:
            function = getattr(self.c, "sqlite3_" + name)
            function.restype = c_void_p if name == "vfs_find" else c_char_p
        self.c.sqlite3_memory_used.restype = c_int64

    def log_to(self, messages):
        """Has the error log collected. Before anything else."""

        @ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
        def log(_, code, message):
            messages.append((code, message.decode()))

        self.log = log
        assert self.c.sqlite3_config(CONFIG_LOG, log, None) == OK

    def open(self, name, vfs=None):
        return Database(self, name, vfs)

    def load(self, entry=None, extension=EXTENSION):
        """Loads the extension with a connection that is thrown away, as the manual says."""
        connection = self.open(":memory:")
        connection.load(entry, extension)
        connection.close()

    def unload(self):
        _ctypes.dlclose(self.c._handle)
        with open("/proc/self/maps") as maps:
            assert self.path not in maps.read(), "it stays loaded"


class Database:
    def __init__(self, library, name, vfs=None):
        self.c, self.db = library.c, c_void_p()
        name = name.encode() if isinstance(name, str) else name
        code = self.c.sqlite3_open_v2(name, byref(self.db), READWRITE_CREATE_URI, vfs)
        if code != OK:
            message = self.message()
            self.c.sqlite3_close(self.db)
            raise SqliteError(f"{message} ({code})")

    def message(self):
        return self.c.sqlite3_errmsg(self.db).decode()

    def close(self):
        assert self.c.sqlite3_close(self.db) == OK, self.message()

    def load(self, entry=None, extension=EXTENSION):
        """By the C function."""
        self.c.sqlite3_enable_load_extension(self.db, 1)
        message = c_char_p()
        code = self.c.sqlite3_load_extension(self.db, extension.encode(), entry, byref(message))
        if code != OK:
            raise SqliteError(message.value.decode())

    def all(self, sql):
        """The rows of the last statement, as texts."""
        rest, rows = c_char_p(sql.encode()), []
        while rest.value:
            statement = c_void_p()
            code = self.c.sqlite3_prepare_v2(self.db, rest, -1, byref(statement), byref(rest))
            if code != OK:
                raise SqliteError(self.message())
            if not statement:
                break
            rows = []
            while (code := self.c.sqlite3_step(statement)) == ROW:
                columns = range(self.c.sqlite3_column_count(statement))
                texts = [self.c.sqlite3_column_text(statement, i) for i in columns]
                rows.append([text if text is None else text.decode() for text in texts])
            if self.c.sqlite3_finalize(statement) != OK:
                raise SqliteError(self.message())
        return rows

    def one(self, sql):
        return self.all(sql)[0][0]

    def vfs_name(self):
        name = c_char_p()
        assert self.c.sqlite3_file_control(self.db, b"main", FCNTL_VFSNAME, byref(name)) == OK
        text = name.value.decode()
        self.c.sqlite3_free(name)
        return text


def packed(library, path, parameters=""):
    return library.open(f"file:{path}?vfs=litepack{parameters}")


def packs_new(library, kind="packed"):
    """From now on the default VFS makes these of new databases: said by SQL that may load code."""
    db = library.open(":memory:")
    library.c.sqlite3_enable_load_extension(db.db, 1)
    assert db.one(f"select litepack_new_databases('{kind}')") == kind
    db.close()


def head(path):
    with open(path, "rb") as file:
        return file.read(16)


def refused(action, *words):
    try:
        action()
    except SqliteError as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError("it was accepted")


def use(library, place, name, vfs="litepack", packs=True):
    """Everything that a packed file has to do with SQLite's functions: journals of all kinds, answers in SQLite's
    memory, functions and aggregates, maintenance, archives."""

    def open_(path):
        return library.open(f"file:{path}?vfs={vfs}" if vfs else path)

    for mode in ["delete", "truncate", "persist", "memory", "off", "wal"]:
        path = f"{place}/{name}-{mode}.db"
        db = open_(path)
        assert db.one(f"pragma journal_mode = {mode}") == mode
        db.all(FILL + FILL_MUCH)
        if mode != "off":
            db.all("begin; delete from much; delete from t where id % 2; rollback")
        db.all("delete from much; vacuum")
        db.close()
        assert (head(path) != MAGIC) == packs, path
        db = open_(path)
        assert db.one("select count(*) from t") == str(ROWS) and db.one("pragma integrity_check") == "ok", mode
        if packs:
            assert db.one("pragma litepack_level") == "3"
            refused(lambda: db.all("pragma litepack_nonsense"), "litepack")
            assert json.loads(db.one("select litepack_info()"))["pages"] > 10
            assert db.one("select litepack_check()") == "ok"
            db.all("delete from t where id % 3")
            assert db.one("select litepack_maintain(null, 1)") == "0"
            assert db.one("pragma litepack_maintain") == "0"
        db.all(f"attach '{place}/{name}-{mode}-other.db' as other; create table other.t as select * from t")
        db.all("begin; delete from t where id <= 900; delete from other.t where id > 900; commit")
        assert db.one("select min(id) > 900 from t union all select max(id) <= 900 from other.t") == "1"
        refused(lambda: db.all("select litepack_info('nowhere')"), "unknown database nowhere")
        db.close()
    db = open_(":memory:")
    assert db.one("select litepack_version()")
    text = "zstd_decompress(zstd_compress('a b c a b c', 19), true)"
    assert db.one(f"select {text}") == "a b c a b c"
    db.all(FILL)
    assert int(db.one("select length(zstd_train_dict(data, 4096, 1000)) from t")) > 100
    refused(lambda: db.all("select zstd_train_dict(data, 4096, 1000) from t where 0"), "no rows")
    db.close()
    plain, archive = f"{place}/{name}-plain.db", f"{place}/{name}.zst"
    db = library.open(f"file:{plain}?vfs=unix")
    db.all(FILL)
    db.close()
    subprocess.run([COMMAND, "archive", "create", plain, archive], check=True, capture_output=True)
    db = library.open(f"file:{archive}?vfs=litepack&mode=ro")
    assert db.one("select count(*) from t") == str(ROWS) and db.one("select litepack_check()") == "ok"
    refused(lambda: db.all("delete from t"), "readonly")
    db.close()


# Several libraries


def two_libraries_and_pythons_own_use_it_side_by_side(place):
    libraries = [Library(place, name) for name in "ab"]
    logs = [[], []]
    for library, log in zip(libraries, logs):
        library.log_to(log)
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(EXTENSION)
    for library in libraries:
        library.load()
    before = [library.c.sqlite3_memory_used() for library in libraries]
    # In turns, and at the same time.
    for library, name in zip(libraries, "ab"):
        use(library, place, name)
    problems, threads = [], []
    for library, name in zip(libraries, "ab"):
        threads.append(threading.Thread(target=use, args=(library, place, "again" + name)))
    threading.excepthook = lambda problem: problems.append(problem.exc_value)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    python = sqlite3.connect(f"file:{place}/python.db?vfs=litepack", uri=True)
    python.executescript(FILL)
    assert python.execute("select litepack_check(), json_valid(litepack_info())").fetchone() == ("ok", 1)
    python.close()
    # Neither library freed memory of the other.
    after = [library.c.sqlite3_memory_used() for library in libraries]
    assert before == after, (before, after)
    # Each has its own log.
    for library, log in zip(libraries, logs):
        del logs[0][:], logs[1][:]
        refused(lambda: packed(library, place + "/bad.db", "&level=banana"), "banana")
        assert any("banana" in message for _, message in log), log
        assert not any(logs[1 - logs.index(log)]), logs


def two_libraries_read_what_the_other_wrote_into_the_same_file(place):
    libraries = [Library(place, name) for name in "ab"]
    for library in libraries:
        library.load()
    for mode in ["delete", "wal"]:
        path = f"{place}/{mode}.db"
        first = packed(libraries[0], path)
        first.all(f"pragma journal_mode = {mode};" + FILL)
        if mode == "wal":
            # A close by the other library takes the WAL away from this one, as in any SQLite.
            first.close()
        for turn in range(6):
            writer, reader = libraries[turn % 2], libraries[1 - turn % 2]
            db = packed(writer, path)
            db.all(f"update t set name = 'turn {turn}' where id % 5 = 0; vacuum")
            db.close()
            db = packed(reader, path)
            assert db.one(f"select count(*) from t where name = 'turn {turn}'") == str(ROWS // 5)
            assert db.one("pragma integrity_check") == "ok" and db.one("select litepack_check()") == "ok"
            db.close()
            if mode != "wal":
                assert first.one(f"select count(*) from t where name = 'turn {turn}'") == str(ROWS // 5)
        if mode != "wal":
            first.close()


def each_library_has_its_own_default_and_its_own_new_databases(place):
    a, b, c = [Library(place, name) for name in "abc"]
    for library in [a, b]:
        library.load(DEFAULT)
    c.load()
    packs_new(a)
    for library, wanted in [(a, "packed"), (b, "plain"), (c, "plain")]:
        path = f"{place}/{wanted}-{library is b}.db"
        db = library.open(path)
        assert db.one("select litepack_new_databases()") == wanted
        db.all("create table if not exists t(x)")
        db.close()
        assert (head(path) != MAGIC) == (wanted == "packed")


def libraries_come_and_go(place):
    for turn in range(3):
        # Elsewhere in memory each time.
        room = ctypes.create_string_buffer(5_000_000 * turn + 1)
        many = [Library(place, f"{(number * 7 + turn) % 20}") for number in range(LIBRARIES + 1)]
        for number, library in enumerate(many[:-1]):
            library.load([NAMED, DEFAULT][number % 2])
            db = packed(library, f"{place}/{turn}-{number}.db")
            db.all(FILL)
            assert db.one("select litepack_check()") == "ok"
            db.close()
        refused(many[-1].load, "SQLite libraries", "litepack")
        refused(lambda: packed(many[-1], place + "/none.db"), "no such vfs")
        assert many[-1].open(":memory:").one("select 1") == "1"
        for number, library in enumerate(many[:-1]):
            db = packed(library, f"{place}/{turn}-{number}.db")
            assert db.one("select count(*) from t") == str(ROWS)
            db.close()
        for library in many:
            library.unload()
        del room


# Shutting down


def a_library_is_shut_down_and_loads_it_again(place):
    library = Library(place, "a")
    for entry, default in 2 * [(NAMED, b"unix"), (DEFAULT, b"litepack-default")]:
        library.load(entry)
        assert vfs_at(library.c.sqlite3_vfs_find(None)).name == default
        path = f"{place}/{default.decode()}.db"
        db = packed(library, path)
        db.all("create table if not exists t(x); insert into t values(litepack_version())")
        assert db.one("select litepack_check()") == "ok"
        db.close()
        assert library.c.sqlite3_shutdown() == OK and library.c.sqlite3_initialize() == OK
        db = library.open(":memory:")
        refused(lambda: db.one("select litepack_version()"), "no such function")
        db.close()
    library.load()
    use(library, place, "after")


# VFSes built on ours


class Vfs(Structure):
    pass


METHODS = {
    "open": (c_int, c_void_p, c_void_p, c_int, c_void_p),
    "delete": (c_int, c_char_p, c_int),
    "access": (c_int, c_char_p, c_int, POINTER(c_int)),
    "full_pathname": (c_int, c_char_p, c_int, c_void_p),
    "dl_open": (c_void_p, c_char_p),
    "dl_error": (None, c_int, c_void_p),
    "dl_sym": (c_void_p, c_void_p, c_char_p),
    "dl_close": (None, c_void_p),
    "randomness": (c_int, c_int, c_void_p),
    "sleep": (c_int, c_int),
    "current_time": (c_int, POINTER(c_double)),
    "get_last_error": (c_int, c_int, c_void_p),
    "current_time_int64": (c_int, POINTER(c_int64)),
    "set_system_call": (c_int, c_char_p, c_void_p),
    "get_system_call": (c_void_p, c_char_p),
    "next_system_call": (c_char_p, c_char_p),
}
METHODS = {name: ctypes.CFUNCTYPE(result, c_void_p, *arguments) for name, (result, *arguments) in METHODS.items()}
Vfs._fields_ = [
    ("version", c_int),
    ("size", c_int),
    ("max_pathname", c_int),
    ("next", c_void_p),
    ("name", c_char_p),
    ("data", c_void_p),
] + list(METHODS.items())
Close = ctypes.CFUNCTYPE(c_int, c_void_p)
IO_METHODS = 19 * ctypes.sizeof(c_void_p)


def vfs_at(address):
    return Vfs.from_address(address)


def built_on(library, below, name):
    """A VFS of someone else's, with the methods of one that is there, and its own data."""
    vfs = Vfs.from_buffer_copy(vfs_at(below))
    vfs.next, vfs.name, vfs.data = None, name, 1
    assert library.c.sqlite3_vfs_register(byref(vfs), 0) == OK
    return vfs


def built_as_proj_does(library, below, name, size=None):
    """As PROJ's SQLite3VFS::create: only the first version's methods, its own xOpen, and files whose methods are a copy
    with another xClose, the former one kept behind the file. Where that is, `size` says each time."""
    vfs = built_on(library, below, name)
    host = vfs_at(below)
    size = size or (lambda: host.size)
    vfs.version, vfs.data, vfs.size = 1, below, host.size + ctypes.sizeof(c_void_p)
    copies = {}

    @Close
    def close(file):
        former = c_void_p.from_address(file + size()).value
        del copies[file]
        c_void_p.from_address(file).value = None
        return Close(former)(file)

    @METHODS["open"]
    def open_(me, name, file, flags, out_flags):
        code = host.open(vfs_at(me).data, name, file, flags, out_flags)
        methods = c_void_p.from_address(file)
        if code == OK:
            copy = ctypes.create_string_buffer(ctypes.string_at(methods.value, IO_METHODS))
            closing = c_void_p.from_buffer(copy, ctypes.sizeof(c_void_p))
            c_void_p.from_address(file + size()).value = closing.value
            closing.value = cast(close, c_void_p).value
            copies[file] = copy
            methods.value = addressof(copy)
        return code

    vfs.open, vfs.callbacks = open_, (open_, close)
    return vfs


def vfses_built_on_ours_work_with_data_of_their_own(place):
    library = Library(place, "a")
    library.load(DEFAULT)
    packs_new(library)
    below = {name: library.c.sqlite3_vfs_find(name) for name in [b"litepack", b"litepack-default"]}
    kept = []
    for ours, vfs in below.items():
        name = ours.decode()
        kept.append(built_on(library, vfs, b"on-" + ours))
        kept.append(built_as_proj_does(library, vfs, b"proj-on-" + ours))
        for style in ["on", "proj-on"]:
            use(library, place, f"{style}-{name}", f"{style}-{name}")
            path = f"{place}/{style}-{name}-wal.db"
            db = library.open(f"file:{path}?vfs={style}-{name}")
            assert db.vfs_name() == f"{name}/unix"
            db.load()
            db.close()
    # They outlive a shutdown.
    assert library.c.sqlite3_shutdown() == OK and library.c.sqlite3_initialize() == OK
    for vfs in kept:
        db = library.open(f"file:{place}/{vfs.name.decode()}-wal.db?vfs={vfs.name.decode()}")
        assert db.one("select count(*) from t") != "0" and db.one("pragma integrity_check") == "ok"
        db.close()


def every_method_may_be_called_with_another_vfs(place):
    library = Library(place, "a")
    library.load(DEFAULT)
    for name in [b"litepack", b"litepack-default"]:
        vfs = vfs_at(library.c.sqlite3_vfs_find(name))
        other = Vfs(version=3, size=8, max_pathname=100, name=b"other", data=1)
        me, text = addressof(other), ctypes.create_string_buffer(600)
        there, now, days = c_int(), c_int64(), c_double()
        path = (place + "/file").encode()
        with open(path, "w") as file:
            file.write("something")
        assert vfs.access(me, path, 0, byref(there)) == OK and there.value == 1
        assert vfs.delete(me, path, 0) == OK and not os.path.exists(path)
        assert vfs.full_pathname(me, b"x", 600, text) == OK and text.value.endswith(b"/x")
        handle = vfs.dl_open(me, EXTENSION.encode())
        assert handle and vfs.dl_sym(me, handle, NAMED) and not vfs.dl_sym(me, handle, b"none")
        vfs.dl_error(me, 600, text)
        assert b"none" in text.value
        vfs.dl_close(me, handle)
        assert vfs.randomness(me, 8, text) > 0 and vfs.sleep(me, 1) >= 1
        assert vfs.current_time(me, byref(days)) == OK and days.value > 2_400_000
        assert vfs.current_time_int64(me, byref(now)) == OK and now.value > 2_400_000 * 86_400_000
        vfs.get_last_error(me, 600, text)
        assert vfs.next_system_call(me, None) and vfs.get_system_call(me, b"open")
        assert vfs.set_system_call(me, b"open", None) == OK
        file = ctypes.create_string_buffer(vfs.size)
        assert vfs.open(me, None, addressof(file), 0x2 | 0x4 | 0x8 | 0x10 | 0x200, None) == OK
        close = Close(c_void_p.from_address(c_void_p.from_buffer(file).value + 8).value)
        assert close(addressof(file)) == OK


# Ways to load it


def it_is_loaded_on_every_connection(place):
    second, default = place + "/litepack.so", place + "/litepackdefault.so"
    for copy in [second, default]:
        shutil.copy(EXTENSION, copy)
    library = Library(place, "a")
    ways = [f"load_extension('{EXTENSION}')", f"load_extension('{EXTENSION}', '{DEFAULT.decode()}')"]
    # Copies of the library are like other versions of it.
    ways += [f"load_extension('{second}')", f"load_extension('{default}')"]
    for first in range(len(ways)):
        for turn in range(2 * len(ways)):
            db = library.open(":memory:")
            library.c.sqlite3_enable_load_extension(db.db, 1)
            way = ways[(first + turn) % len(ways)]
            for _ in range(2):
                assert db.all(f"select {way}") == [[None]], way
            db.load()
            assert db.one("select litepack_version()")
            assert db.one("select zstd_decompress(zstd_compress('abc'), true)") == "abc"
            db.close()
            db = packed(library, f"{place}/{first}-{turn}.db")
            db.all(FILL + "delete from t where id % 3")
            assert db.one("select litepack_maintain(null, 1)") == "0" and db.one("select litepack_check()") == "ok"
            db.close()
        assert library.c.sqlite3_shutdown() == OK and library.c.sqlite3_initialize() == OK


def functions_of_others_are_not_taken_for_ours(place):
    library = Library(place, "a")
    db = library.open(":memory:")
    library.c.sqlite3_enable_load_extension(db.db, 1)

    @ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)
    def other(context, *_):
        library.c.sqlite3_result_int(c_void_p(context), 7)

    assert library.c.sqlite3_create_function(db.db, b"zstd_decompress", 2, 1, None, other, None, None) == OK
    for _ in range(2):
        refused(lambda: db.all(f"select load_extension('{EXTENSION}')"), "cannot register the SQL functions")
        assert db.one("select zstd_decompress(1, 2)") == "7"
    db.load()
    assert db.one("select zstd_decompress(zstd_compress('abc'), true)") == "abc"
    db.close()


def it_stays_loaded_when_the_connection_is_closed(place):
    library = Library(place, "a")
    library.load()
    with open("/proc/self/maps") as maps:
        assert EXTENSION in maps.read()
    use(library, place, "a")


def entry_points_are_automatic_extensions(place):
    for number, entry in enumerate([NAMED, DEFAULT]):
        library = Library(place, f"{number}")
        extension = ctypes.CDLL(EXTENSION)
        assert library.c.sqlite3_auto_extension(getattr(extension, entry.decode())) == OK
        _ctypes.dlclose(extension._handle)
        for _ in range(3):
            db = library.open(":memory:")
            assert (library.c.sqlite3_errcode(db.db), db.message()) == (OK, "not an error")
            assert db.one("select litepack_version()")
            db.close()
        use(library, place, f"{number}")


def the_vfs_says_its_name(place):
    library = Library(place, "a")
    library.load(DEFAULT)
    db = packed(library, place + "/packed.db")
    db.all(FILL)
    assert db.vfs_name() == "litepack/unix"
    db.close()
    db = library.open(place + "/packed.db")
    assert db.vfs_name() == "litepack-default/unix"
    db.close()
    db = library.open(place + "/plain.db")
    assert db.vfs_name() == "unix"
    db.all(FILL)
    db.close()
    made = [COMMAND, "archive", "create", place + "/plain.db", place + "/plain.zst"]
    subprocess.run(made, check=True, capture_output=True)
    by_uri = f"file:{place}/plain.zst?vfs=litepack"
    for name, wanted in [(place + "/plain.zst", "litepack-default"), (by_uri, "litepack")]:
        db = library.open(name)
        assert db.vfs_name() == wanted
        db.close()


CHECKS = [
    two_libraries_and_pythons_own_use_it_side_by_side,
    two_libraries_read_what_the_other_wrote_into_the_same_file,
    each_library_has_its_own_default_and_its_own_new_databases,
    libraries_come_and_go,
    a_library_is_shut_down_and_loads_it_again,
    vfses_built_on_ours_work_with_data_of_their_own,
    every_method_may_be_called_with_another_vfs,
    it_is_loaded_on_every_connection,
    functions_of_others_are_not_taken_for_ours,
    it_stays_loaded_when_the_connection_is_closed,
    entry_points_are_automatic_extensions,
    the_vfs_says_its_name,
]


def main(file, checks):
    """Runs each check in a process of its own, or the one that an argument names in this one."""
    title = os.path.basename(file).removesuffix(".py")
    if len(sys.argv) > 1:
        with tempfile.TemporaryDirectory() as place:
            {check.__name__: check for check in checks}[sys.argv[1]](place)
        return
    failed = False
    for check in checks:
        name = check.__name__
        alone = [sys.executable, "-X", "faulthandler", file, name]
        result = subprocess.run(alone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
        failed |= result.returncode != 0
        print("ok" if result.returncode == 0 else "FAILED", f"{title}:", name.replace("_", " "))
        print(result.stdout, end="")
        if result.returncode < 0:
            print(f"  ended by signal {-result.returncode}")
    print("end of part", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main(__file__, CHECKS)
