"""Which SQL may configure the process, as C calls SQLite: SQL that may load code, and no other. And what a connection
may write that is told to write nothing.

Each check runs in a process of its own. Prints 'ok NAME' or 'FAILED NAME' for each. The functions are checks; their
names say what holds.
"""

import ctypes
import os
import sys
from ctypes import byref, c_char_p, c_int, c_void_p

from libraries import (
    EXTENSION,
    FILL,
    IO_METHODS,
    METHODS,
    OK,
    Library,
    SqliteError,
    built_on,
    main,
    packed,
    packs_new,
    refused,
    vfs_at,
)

CONFIGURE = b"sqlite3_litepackconfigure_init"
# Of a file's methods this is the tenth, behind their version.
FILE_CONTROL, FCNTL_PDB = 10, 30
Control = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
DBCONFIG_LOAD_EXTENSION, AUTHORIZE_FUNCTION, DENY, IGNORE, UTF8 = 1005, 31, 1, 2, 1
SETS = [
    "litepack_new_databases('packed')",
    "litepack_new_databases(x'7061636b6564')",
    "litepack_new_databases(null)",
    "litepack_remote_headers('https://a.example', 'X-Key: s3cret')",
    "litepack_remote_headers('https://a.example', null)",
    "litepack_remote_config('s3_endpoint', 'http://127.0.0.1:1')",
    "litepack_remote_config('s3_profile', 'admin')",
    "litepack_remote_config('s3_region', 'eu-west-1')",
    "litepack_remote_config('cache_dir', '/tmp')",
    "litepack_remote_config('cache_dir_mb', 5)",
    "litepack_remote_config('ca_file', '/etc/passwd')",
    "litepack_remote_config('ca_file', '/etc/none')",
    "litepack_remote_config('nonsense')",
]
# These tell what may be a secret.
ASKS = [f"litepack_remote_config('{name}')" for name in ["s3_endpoint", "s3_profile", "cache_dir", "ca_file"]]
ALLOWED = "litepack_remote_config('s3_region', 'eu-north-1')"


def loaded(place):
    library = Library(place, "a")
    library.load()
    return library


def set_for_c(db, on):
    """The setting of hosts that load extensions by the C function and let no SQL do so."""
    assert db.c.sqlite3_db_config(db.db, DBCONFIG_LOAD_EXTENSION, c_int(on), None) == OK


def set_for_all(db, on):
    assert db.c.sqlite3_enable_load_extension(db.db, on) == OK


def nothing_works(db):
    said = set()
    for sql in SETS + ASKS:
        try:
            db.one("select " + sql)
        except SqliteError as error:
            assert "not authorized: this holds for the whole process" in str(error), (sql, error)
            said.add(str(error).split(": ", 1)[1])
        else:
            raise AssertionError(sql)
    # The same words for all: none tells whether a file exists.
    assert len(said) == 1 and "sqlite3_litepackconfigure_init" in said.pop()
    assert db.one("select litepack_new_databases()") == "plain"


def sql_configures_where_it_may_load_code_only(place):
    library = loaded(place)
    db = library.open(":memory:")
    set_for_all(db, 0)
    nothing_works(db)
    set_for_c(db, 1)
    nothing_works(db)
    set_for_all(db, 1)
    assert db.one("select " + ALLOWED) == "eu-north-1"
    assert db.one("select litepack_remote_config('s3_region', null) is null") == "1"
    packs_new(library)
    packs_new(library, "plain")
    # Where nothing can be loaded any longer, for SQL was all there was.
    set_for_c(db, 0)
    nothing_works(db)
    set_for_all(db, 0)
    nothing_works(db)


def read_only_databases_and_settings_of_sqlite_make_no_difference(place):
    library = loaded(place)
    packed(library, f"{place}/a.db").all("create table t(x); insert into t values(1), (2), (3)")
    for mode in ["ro", "rw"]:
        db = packed(library, f"{place}/a.db", f"&mode={mode}")
        set_for_c(db, 1)
        for sql in ["pragma query_only = 1", "pragma trusted_schema = 0", "pragma query_only = 0", "begin"]:
            db.all(sql)
            set_for_all(db, 0)
            set_for_c(db, 1)
            nothing_works(db)
            set_for_all(db, 1)
            assert db.all(f"select x, {ALLOWED} from t")[2] == ["3", "eu-north-1"]


def no_schema_configures_anything(place):
    library = loaded(place)
    db = packed(library, f"{place}/a.db")
    set_for_all(db, 1)
    db.all(f"create table t(x); create view v as select {ALLOWED} as x")
    db.all(f"create trigger r after insert on t begin select {ALLOWED}; end")
    for sql in ["select * from v", "insert into t values(1)"]:
        refused(lambda sql=sql: db.all(sql), "unsafe use of")


def a_function_in_place_of_sqlites_own_is_not_believed(place):
    library = loaded(place)

    @ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)
    def answers_null(context, count, values):
        pass

    for on in [set_for_c, set_for_all]:
        for count in [1, -1, 2]:
            db = library.open(":memory:")
            name = b"LOAD_extension"
            made = db.c.sqlite3_create_function_v2(db.db, name, count, UTF8, None, answers_null, None, None, None)
            assert made == OK
            on(db, 1)
            nothing_works(db)
    # Nor is a table of the name by which functions are listed.
    db = library.open(":memory:")
    db.c.sqlite3_create_function_v2(db.db, b"load_extension", 1, UTF8, None, answers_null, None, None, None)
    db.all("create table pragma_function_list(name, builtin); create temp table load_extension(x)")
    db.all("insert into pragma_function_list values('load_extension', 1)")
    set_for_c(db, 1)
    nothing_works(db)


def an_authorizer_that_lets_no_sql_load_code_is_heeded(place):
    library = loaded(place)
    for answer in [DENY, IGNORE]:
        for on in [set_for_c, set_for_all]:
            db = library.open(":memory:")

            @ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_char_p, c_char_p, c_char_p, c_char_p)
            def authorize(_, action, first, second, database, trigger, answer=answer):
                return answer if action == AUTHORIZE_FUNCTION and second == b"load_extension" else OK

            on(db, 1)
            assert db.c.sqlite3_set_authorizer(db.db, authorize, None) == OK
            nothing_works(db)
            assert db.c.sqlite3_set_authorizer(db.db, None, None) == OK
            if on is set_for_all:
                assert db.one("select " + ALLOWED) == "eu-north-1"


def an_entry_point_lets_one_connection_configure(place):
    library = loaded(place)
    # As PHP, better-sqlite3, node:sqlite and Bun do: no SQL loads anything, at no time.
    trusted = library.open(":memory:")
    set_for_c(trusted, 1)
    message = c_char_p()
    load = library.c.sqlite3_load_extension
    assert load(trusted.db, EXTENSION.encode(), CONFIGURE, byref(message)) == OK, message.value
    set_for_c(trusted, 0)
    refused(lambda: trusted.one("select load_extension('x')"), "not authorized")
    for again in range(2):
        assert trusted.one("select " + ALLOWED) == "eu-north-1"
        assert trusted.one("select litepack_new_databases('packed')") == "packed"
        assert trusted.one("select litepack_new_databases('plain')") == "plain"
        other = library.open(":memory:")
        nothing_works(other)
        set_for_c(other, 1)
        nothing_works(other)
        # Loading it by another entry point gives nothing.
        other.load()
        set_for_all(other, 0)
        nothing_works(other)
    trusted.close()
    # The next connection may have its address.
    for again in range(20):
        db = library.open(":memory:")
        set_for_c(db, 1)
        nothing_works(db)
        db.close()


def it_may_be_loaded_by_sql_first_of_all(place):
    library = Library(place, "a")
    db = library.open(":memory:")
    set_for_all(db, 1)
    for again in range(2):
        db.all(f"select load_extension('{EXTENSION}', '{CONFIGURE.decode()}')")
    set_for_all(db, 0)
    assert db.one("select " + ALLOWED) == "eu-north-1"
    refused(lambda: db.one("select litepack_new_databases('nonsense')"), "takes 'packed' or 'plain'")


def a_connection_that_is_told_to_write_nothing_writes_nothing(place):
    library = loaded(place)
    path = f"{place}/a.db"
    db = packed(library, path)
    db.all(FILL)
    db.all("delete from t where id % 3 = 0; vacuum; delete from t where id % 2 = 0")
    column = '{"table": "t", "column": "data", "compression_level": 3, "dict_chooser": "\'\'a\'\'"}'
    db.all(f"select zstd_enable_transparent('{column}')")
    db.all("create table plain(id integer primary key, data text)")
    db.close()
    db = packed(library, path)
    db.all("select count(*) from t; pragma query_only = 1")
    before = open(path, "rb").read()
    tries = [
        "select litepack_maintain(null, 1)",
        "select litepack_maintain(1, 0.5, 19, 'main')",
        "pragma litepack_maintain",
        "pragma litepack_maintain = 1",
        "pragma main.LITEPACK_maintain(3)",
        "select * from pragma_litepack_maintain",
        "select zstd_incremental_maintenance(null, 1)",
        "select litepack_retrain('t', 'data')",
        "select litepack_recompress('t', 'data', null, 1)",
        "select litepack_drop_unused_dictionaries()",
        "select litepack_disable_transparent('t', 'data')",
        "select zstd_enable_transparent('" + column.replace('"t"', '"plain"') + "')",
        "select litepack_create_index('create index i on t(data)')",
        "select litepack_alter_table('t', 'add column more')",
        "select litepack_configure_column('t', 'data', '{\"compression_level\": 9}')",
        "select zstd_train_dict_and_save(name, 1000, 100, null) from t",
        "insert into plain values(1, 'x')",
    ]
    for sql in tries:
        try:
            said = db.all(sql)
        except SqliteError as error:
            if "litepack_maintain(" in sql or sql.startswith("pragma"):
                assert "query_only" in str(error), (sql, error)
            print("  ", sql[:60], "->", error)
        else:
            # Nothing to do is no error.
            assert said in ([["0"]], []), (sql, said)
            print("  ", sql[:60], "->", said)
        assert open(path, "rb").read() == before, sql
        assert db.one("pragma query_only") == "1", sql
    assert db.one("select litepack_check()") == "ok"
    db.all("pragma query_only = 0; pragma litepack_maintain")
    assert open(path, "rb").read() != before
    db.close()


def a_vfs_that_keeps_the_connection_to_itself_gets_no_maintenance_by_pragma(place):
    library = loaded(place)
    below = library.c.sqlite3_vfs_find(b"litepack")
    host = vfs_at(below)
    vfs, kept = built_on(library, below, b"above"), []
    vfs.data = below

    @METHODS["open"]
    def open_(me, name, file, flags, out_flags):
        code = host.open(below, name, file, flags, out_flags)
        methods = c_void_p.from_address(file)
        if code == OK and methods.value:
            copy = ctypes.create_string_buffer(ctypes.string_at(methods.value, IO_METHODS))
            place_of_control = c_void_p.from_buffer(copy, FILE_CONTROL * ctypes.sizeof(c_void_p))
            former = Control(place_of_control.value)

            @Control
            def control(file, operation, argument):
                return OK if operation == FCNTL_PDB else former(file, operation, argument)

            place_of_control.value = ctypes.cast(control, c_void_p).value
            kept.extend([copy, control])
            methods.value = ctypes.addressof(copy)
        return code

    vfs.open = open_
    path = f"{place}/a.db"
    db = library.open(f"file:{path}?vfs=above")
    db.all(FILL)
    db.all("delete from t where id % 3 = 0; vacuum; delete from t where id % 2 = 0; pragma query_only = 1")
    before = open(path, "rb").read()
    refused(lambda: db.all("pragma litepack_maintain"), "which connection asks", "litepack_maintain()")
    refused(lambda: db.all("select litepack_maintain(null, 1)"), "query_only")
    assert open(path, "rb").read() == before
    db.all("pragma query_only = 0; select litepack_maintain(null, 1)")
    assert open(path, "rb").read() != before
    db.close()


CHECKS = [
    sql_configures_where_it_may_load_code_only,
    read_only_databases_and_settings_of_sqlite_make_no_difference,
    no_schema_configures_anything,
    a_function_in_place_of_sqlites_own_is_not_believed,
    an_authorizer_that_lets_no_sql_load_code_is_heeded,
    an_entry_point_lets_one_connection_configure,
    it_may_be_loaded_by_sql_first_of_all,
    a_connection_that_is_told_to_write_nothing_writes_nothing,
    a_vfs_that_keeps_the_connection_to_itself_gets_no_maintenance_by_pragma,
]

if __name__ == "__main__":
    main(__file__, CHECKS)
