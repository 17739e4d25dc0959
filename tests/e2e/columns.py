"""Compressed columns in Python's own sqlite3 module.

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import json
import os
import sqlite3
import tempfile
import threading
import traceback

EXTENSION = os.environ["LITEPACK_EXTENSION"]
FILL = """
create table events(id integer primary key, at text not null default 'today', data text, raw);
insert into events with recursive n(i) as (select 1 union all select i + 1 from n where i < 8000)
  select i, 'day ' || (i % 300), json_object('id', i, 'title', 'The film number ' || i,
    'tags', json_array('drama', 'genre ' || (i % 17))), null from n;
update events set data = x'00ff' where id = 7;
update events set data = null where id = 8;
create trigger counted after insert on events begin insert into log values (new.data); end;
create table log(data text);
"""
ALL = "select *, typeof(data) from events order by id"


def connect(path, with_extension=True):
    connection = sqlite3.connect(path, isolation_level=None, timeout=20)
    if with_extension:
        connection.enable_load_extension(True)
        connection.load_extension(EXTENSION)
    return connection


def make(place):
    path = os.path.join(place, "app.db")
    connection = connect(path)
    connection.executescript(FILL)
    return path, connection


def one(connection, sql, *parameters):
    return connection.execute(sql, parameters).fetchone()[0]


def enable(connection, **more):
    config = {"table": "events", "column": "data", "compression_level": 19, "dict_chooser": "'all'"}
    assert one(connection, "select zstd_enable_transparent(?)", json.dumps({**config, **more})) == "Done!"


def maintain(connection):
    assert one(connection, "select zstd_incremental_maintenance(null, 1)") == 0


def schema(connection):
    return connection.execute("select type, name, tbl_name, sql from sqlite_schema where name <> 'sqlite_sequence' order by 1, 2").fetchall()


def rows_and_types_stay(place):
    path, connection = make(place)
    before = connection.execute(ALL).fetchall()
    enable(connection)
    assert connection.execute(ALL).fetchall() == before
    maintain(connection)
    assert one(connection, "select count(*) from _events_zstd where _data_dict is not null") > 7900
    assert connection.execute(ALL).fetchall() == before
    assert connect(path).execute(ALL).fetchall() == before


def everything_is_undone(place):
    path, connection = make(place)
    before, rows = schema(connection), connection.execute(ALL).fetchall()
    enable(connection)
    maintain(connection)
    connection.execute("select litepack_disable_transparent('events', 'data')")
    assert schema(connection) == before, schema(connection)
    connection.close()
    assert connect(path, with_extension=False).execute(ALL).fetchall() == rows


def a_rollback_takes_enabling_and_maintenance_back(place):
    _, connection = make(place)
    before, rows = schema(connection), connection.execute(ALL).fetchall()
    connection.execute("begin")
    enable(connection)
    maintain(connection)
    assert connection.execute(ALL).fetchall() == rows
    connection.execute("rollback")
    assert schema(connection) == before
    assert connection.execute(ALL).fetchall() == rows


def others_read_and_write_during_maintenance(place):
    path, connection = make(place)
    connection.execute("pragma journal_mode = wal")
    enable(connection, incremental_compression_step_bytes=20000)
    errors, stop = [], threading.Event()

    def write():
        try:
            other = connect(path)
            for number in range(10000):
                if stop.is_set() and number >= 50:
                    break
                other.execute("insert into events(id, data) values (?, ?)", (10000 + number, f"text {number}"))
                other.execute("update events set data = data || ' and more' where id = ?", (number % 8000 + 10,))
                assert one(other, "select data from events where id = ?", 10000 + number) == f"text {number}"
            other.close()
        except Exception as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(10000):
        if not one(connection, "select zstd_incremental_maintenance(0, 0.5)"):
            break
    stop.set()
    writer.join()
    assert not errors, errors
    maintain(connection)
    for number, data in connection.execute("select id, data from events where id < 10000 and id > 10"):
        assert data.startswith('{"id":%d,' % number), (number, data)
    assert one(connection, "pragma integrity_check") == "ok"


def triggers_and_defaults_work_through_the_view(place):
    _, connection = make(place)
    enable(connection)
    maintain(connection)
    connection.execute("insert into events(id, data) values (10000, 'ten thousand')")
    assert one(connection, "select at from events where id = 10000") == "today"
    assert connection.execute("select data from log").fetchall() == [("ten thousand",)]


def a_bad_configuration_changes_nothing(place):
    _, connection = make(place)
    before = schema(connection)
    for config, word in [
        ('{"table": "events"}', "column"),
        ('{"table": "none", "column": "data", "compression_level": 3, "dict_chooser": "1"}', "none"),
        ('{"table": "events", "column": "data", "compression_level": 3, "dict_chooser": "\'a"}', "dict_chooser"),
    ]:
        try:
            connection.execute("select zstd_enable_transparent(?)", (config,)).fetchone()
            raise AssertionError(f"{config} was taken")
        except sqlite3.OperationalError as error:
            assert word in str(error), error
    assert schema(connection) == before


def a_chooser_calls_innocuous_functions_only(place):
    path, connection = make(place)
    enable(connection)
    calls = []
    connection.create_function("spy", 1, lambda value: calls.append(value) or "a")
    connection.create_function("pure", 1, lambda value: calls.append(value) or "a", deterministic=True)
    connection.create_function("regexp", 2, lambda pattern, value: calls.append(value))
    choosers = ["spy(data)", "pure(data)", "0 and spy(data)", "case when 0 then \"spy\"(data) else 'a' end"]
    choosers += ["(select spy(data))", "data like 'x' or data regexp 'x'", "load_extension('x')"]
    for chooser in choosers:
        connection.execute("update _zstd_configs set config = json_set(config, '$.dict_chooser', ?)", (chooser,))
        for call in ["litepack_columns()", "zstd_incremental_maintenance(null, 1)"]:
            try:
                connection.execute(f"select {call}").fetchone()
                raise AssertionError(f"{chooser} was followed")
            except sqlite3.OperationalError as error:
                assert "dict_chooser" in str(error) and "refused" in str(error), error
    assert not calls, calls
    # SQLite's own functions are innocuous, also in the versions that forgot to say so of JSON.
    chooser = """case when json_valid(data)
      then json_extract(data, '$.tags[0]') || (data ->> '$.tags[1]' like 'genre 1%') || strftime('%Y', id, 'unixepoch')
      else 'rest' end"""
    connection.execute("update _zstd_configs set config = json_set(config, '$.dict_chooser', ?)", (chooser,))
    maintain(connection)
    assert one(connection, "select litepack_columns()")


def a_dictionary_that_calls_for_dictionaries_is_an_error(place):
    path = os.path.join(place, "hostile.db")
    maker = connect(path, with_extension=False)
    maker.create_function("zstd_decompress", 4, lambda *_: b"x", deterministic=True)
    maker.executescript("""
        create table _zstd_dicts(id integer primary key, dict generated always as (zstd_decompress(x'00', 0, id + 1, 1)));
        insert into _zstd_dicts(id) with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
          select i from n;
        create view news as select zstd_decompress(x'00', 0, 1, 1) as title;""")
    maker.close()
    connection = connect(path)
    try:
        connection.execute("select * from news").fetchone()
        raise AssertionError("read")
    except sqlite3.OperationalError as error:
        assert "no dictionary 1" in str(error), error


CHECKS = [
    rows_and_types_stay,
    everything_is_undone,
    a_rollback_takes_enabling_and_maintenance_back,
    others_read_and_write_during_maintenance,
    triggers_and_defaults_work_through_the_view,
    a_bad_configuration_changes_nothing,
    a_chooser_calls_innocuous_functions_only,
    a_dictionary_that_calls_for_dictionaries_is_an_error,
]


def main():
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory() as place:
            try:
                check(place)
            except Exception:
                print(f"FAILED columns: {name}")
                traceback.print_exc()
            else:
                print(f"ok columns: {name}")
    print("end of part", flush=True)


if __name__ == "__main__":
    main()
