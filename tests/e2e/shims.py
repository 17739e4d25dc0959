"""VFSes of others above and below ours: those that PROJ and SQLite's own sources have, and one that moves files.

Those that are here are made here. SQLite's own come with its source, of which LITEPACK_SQLITE_SOURCE names the folder;
else what `make test-sqlite` has fetched is used, or they are left out with a word.

Each check runs in a process of its own. Prints 'ok NAME' or 'FAILED NAME' for each. The functions are checks; their
names say what holds.
"""

import ctypes
import functools
import glob
import os
import subprocess
import sys
from ctypes import byref, c_char_p, c_int, c_void_p

from libraries import (
    DEFAULT,
    FILL,
    FILL_MUCH,
    MAGIC,
    NAMED,
    OK,
    Library,
    METHODS,
    ROWS,
    SqliteError,
    built_as_proj_does,
    built_on,
    head,
    main,
    packs_new,
    vfs_at,
)

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAIN_DB, RESERVE_BYTES = 0x100, 38


def source():
    """SQLite's source, or nothing."""
    target = os.environ.get("CARGO_TARGET_DIR", TOP + "/target")
    named = os.environ.get("LITEPACK_SQLITE_SOURCE")
    found = [named] if named else sorted(glob.glob(target + "/sqlite-suite/sqlite3-*"))
    return next((path for path in found if os.path.exists(path + "/ext/misc/appendvfs.c")), None)


# By the names of SQLite's sources: what the VFS is called, and whether it makes itself the default.
SHIMS = {"appendvfs": "apndvfs", "cksumvfs": "cksmvfs", "vfsstat": "vfslog", "vfstrace": "vfstrace", "memvfs": "memvfs"}


def load_shim(place, library, name):
    """Loads one of SQLite's own VFSes over the present default one."""
    path = f"{place}/{name}.so"
    if not os.path.exists(path):
        file = f"{source()}/ext/misc/{name}.c"
        text = f'#include "{file}"\n'
        if name == "vfstrace":
            file = next(f for f in [file, f"{source()}/src/test_vfstrace.c"] if os.path.exists(f))
            text = f"""#include <sqlite3ext.h>
                SQLITE_EXTENSION_INIT1
                #include "{file}"
                static int discard(const char *text, void *unused){{ return 0; }}
                int sqlite3_vfstrace_init(sqlite3 *db, char **error, const sqlite3_api_routines *api){{
                  SQLITE_EXTENSION_INIT2(api);
                  return vfstrace_register("vfstrace", 0, discard, 0, 1) ? 1 : SQLITE_OK_LOAD_PERMANENTLY;
                }}"""
        with open(f"{place}/{name}.c", "w") as out:
            out.write(text)
        made = ["cc", "-w", "-g", "-O1", "-shared", "-fPIC", "-I", source() + "/src", "-o", path, f"{place}/{name}.c"]
        subprocess.run(made, check=True)
    library.load(f"sqlite3_{name}_init".encode(), path)
    assert library.c.sqlite3_vfs_find(SHIMS[name].encode()), name


def moving(library, below, name, moves=True):
    """As appendvfs: it remembers how large a file of the one below was, has it opened behind a piece of its own, and
    moves it to where SQLite looks for it. What the file leaves behind is overwritten."""
    vfs, host = built_on(library, below, name), vfs_at(below)
    own = 3 * ctypes.sizeof(c_void_p)
    vfs.data, vfs.size = below, host.size + own
    remembered = host.size

    @METHODS["open"]
    def open_(me, name, file, flags, out_flags):
        if not flags & MAIN_DB:
            return host.open(below, name, file, flags, out_flags)
        ctypes.memset(file, 0xA5, remembered + own)
        code = host.open(below, name, file + own, flags, out_flags)
        ctypes.memmove(file, file + own, remembered)
        ctypes.memset(file + remembered, 0xA5, own)
        return code

    def on_host(name):
        @METHODS[name]
        def method(me, *arguments):
            return getattr(host, name)(below, *arguments)

        return method

    kept = {name: on_host(name) for name in ["delete", "access", "full_pathname", "randomness", "sleep"]}
    vfs.open, vfs.kept = open_, [open_, kept]
    for each, method in kept.items():
        setattr(vfs, each, method)
    return vfs


def work(library, path, vfs=None, modes=("delete", "wal", "truncate")):
    """The life of a database; gives whether it is plain."""

    def open_():
        return library.open(f"file:{path}?vfs={vfs}" if vfs else path)

    db = open_()
    if db.one("select count(*) from sqlite_schema") == "0":
        db.all(FILL)
    db.close()
    for mode in modes:
        db, other = open_(), open_()
        db.one(f"pragma journal_mode = {mode}")
        rows = int(db.one("select count(*) from t"))
        db.all(f"begin; delete from t where id in (select min(id) from t); {FILL_MUCH} rollback;")
        db.all("insert into t(name, data) select name, data from t limit 10; delete from t where id = (select min(id) from t)")
        assert other.one("select count(*) from t") == str(rows + 9)
        assert db.one("pragma integrity_check") == "ok"
        assert db.one("pragma wal_checkpoint") == "0"
        db.all(f"create temp table u as select * from t; attach '{path}.{mode}' as more; create table more.v(x)")
        db.close()
        other.close()
    db = open_()
    db.all("vacuum")
    assert db.one("select count(*) from t") == str(ROWS + 9 * len(modes))
    db.close()
    return head(path) == MAGIC


def prepared(library, place):
    """A packed file and a plain one."""
    for path, vfs in [("p.db", "litepack"), ("q.db", "unix")]:
        db = library.open(f"file:{place}/{path}?vfs={vfs}")
        db.all(FILL)
        db.close()


def ours_ask_for_as_much_memory_as_the_one_below(place):
    library = Library(place, "a")
    size = vfs_at(library.c.sqlite3_vfs_find(None)).size
    library.load(DEFAULT)
    for name in [b"litepack", b"litepack-default", None]:
        assert vfs_at(library.c.sqlite3_vfs_find(name)).size == size
    # Of one that needs less than ours.
    library = Library(place, "b")
    small = built_on(library, library.c.sqlite3_vfs_find(None), b"small")
    small.size = 8
    library.c.sqlite3_vfs_register(byref(small), 1)
    library.load(DEFAULT)
    for name in [b"litepack", b"litepack-default", None]:
        assert vfs_at(library.c.sqlite3_vfs_find(name)).size == 2 * ctypes.sizeof(c_void_p)


def files_of_ours_are_moved_while_they_are_open(place):
    library = Library(place, "a")
    library.load(DEFAULT)
    prepared(library, place)
    kept = [moving(library, library.c.sqlite3_vfs_find(name), b"moves-" + name) for name in [b"litepack", b"litepack-default"]]
    for name in ["moves-litepack", "moves-litepack-default"]:
        assert not work(library, f"{place}/p.db", name, ()), kept
        assert work(library, f"{place}/q.db", name, ())
        assert work(library, f"{place}/new-{name}.db", name) == (name == "moves-litepack-default")
    packs_new(library)
    assert not work(library, f"{place}/new-packed.db", "moves-litepack-default")


def one_that_remembers_how_large_files_were_is_older_than_ours(place):
    """As PROJ, which opens its database, and closes it after ours has become the default VFS."""
    library = Library(place, "a")
    unix = library.c.sqlite3_vfs_find(None)
    proj = built_as_proj_does(library, unix, b"proj", lambda: vfs_at(library.c.sqlite3_vfs_find(None)).size)
    path = f"{place}/proj.db"
    open_ = [library.open(f"file:{path}?vfs=proj") for again in range(3)]
    open_[0].all(FILL)
    library.load(NAMED)
    open_[0].close()
    library.load(DEFAULT)
    assert open_[1].one("select count(*) from t") == str(ROWS)
    open_[1].close()
    assert work(library, path, "proj")
    assert open_[2].one("pragma integrity_check") == "ok"
    open_[2].close()
    # And one that is made over ours by what the one before was.
    later = built_as_proj_does(library, library.c.sqlite3_vfs_find(None), b"later", lambda: vfs_at(unix).size)
    packs_new(library)
    assert not work(library, f"{place}/later.db", "later"), (proj, later)


def of_sqlite(check, name):
    @functools.wraps(check)
    def run(place):
        return check(place, name)

    run.__name__ = f"{name}_{check.__name__}"
    return run


def above_ours(place, name):
    for entry, ours in [(NAMED, "litepack"), (DEFAULT, "litepack-default")]:
        library = Library(place, ours)
        library.load(entry)
        prepared(library, place)
        if entry == NAMED:
            vfs = library.c.sqlite3_vfs_find(b"litepack")
            library.c.sqlite3_vfs_register(c_void_p(vfs), 1)
        load_shim(place, library, name)
        vfs = SHIMS[name]
        if name == "memvfs":
            # It opens nothing of what is below.
            with open(place + "/q.db", "rb") as file:
                bytes_ = file.read()
            room = ctypes.create_string_buffer(bytes_, 3 * len(bytes_))
            uri = f"file:/x?vfs=memvfs&ptr={ctypes.addressof(room)}&sz={len(bytes_)}&max={len(room)}"
            db = library.open(uri)
            assert db.one("select count(*) from t") == str(ROWS)
            db.all("pragma journal_mode = memory; update t set name = 'x'; create temp table u as select * from t")
            db.close()
        else:
            for path in ["p.db", "q.db"]:
                assert work(library, f"{place}/{path}", vfs, ("delete", "wal")) == (path == "q.db")
            if name == "cksumvfs":
                db = library.open(f"file:{place}/checked.db?vfs={vfs}")
                reserve = c_int(8)
                assert db.c.sqlite3_file_control(db.db, b"main", RESERVE_BYTES, byref(reserve)) == OK
                db.all(FILL)
                db.close()
                work(library, f"{place}/checked.db", vfs)
                db = library.open(f"file:{place}/checked.db?vfs={vfs}")
                assert db.one("pragma checksum_verification") == "1"
                db.close()
            # New ones are appended to what there is, or new.
            work(library, f"{place}/new.db", vfs, ("delete",))
        for path in ["p.db", "q.db", "new.db", "checked.db"]:
            for file in glob.glob(f"{place}/{path}*"):
                os.unlink(file)


def below_ours(place, name):
    library = Library(place, "a")
    if name == "memvfs":
        load_shim(place, library, name)
        library.load(DEFAULT)
        room = ctypes.create_string_buffer(1 << 20)
        db = library.open(f"file:/x?vfs=litepack&ptr={ctypes.addressof(room)}&sz=0&max={len(room)}")
        try:
            db.all("pragma journal_mode = memory; create table t(x); insert into t values('there')")
            assert db.one("select x from t") == "there"
        except SqliteError as error:
            # A name cannot be made durable where no file has one.
            print("  refused:", error)
        db.close()
        return
    load_shim(place, library, name)
    vfs = library.c.sqlite3_vfs_find(SHIMS[name].encode())
    library.c.sqlite3_vfs_register(c_void_p(vfs), 1)
    library.load(DEFAULT)
    db = library.open(f"file:{place}/plain.db?vfs=unix")
    db.all(FILL)
    db.close()
    assert work(library, f"{place}/plain.db", None, ("delete",))
    if name == "appendvfs":
        # Below ours it takes what is no SQLite database, as a packed file is none, for something to append one to.
        for again in range(2):
            db = library.open(f"file:{place}/named.db?vfs=litepack")
            db.all("create table if not exists t(x); insert into t values(1)")
            db.close()
        return
    for path, vfs in [("named.db", "litepack"), ("default.db", None)]:
        if vfs is None:
            packs_new(library)
        assert not work(library, f"{place}/{path}", vfs, ("delete", "wal"))


CHECKS = [
    ours_ask_for_as_much_memory_as_the_one_below,
    files_of_ours_are_moved_while_they_are_open,
    one_that_remembers_how_large_files_were_is_older_than_ours,
]
OF_SQLITE = [of_sqlite(check, name) for name in SHIMS for check in [above_ours, below_ours]]

if __name__ == "__main__":
    if source():
        CHECKS += OF_SQLITE
    elif len(sys.argv) == 1:
        print("skipped: shims.py: no sources of SQLite's own VFSes, which `make test-sqlite` fetches", flush=True)
    main(__file__, CHECKS)
