"""Whatever takes long in the extension ends when the connection is interrupted or its progress handler says so, in the
system's SQLite, which may be older than `sqlite3_is_interrupted` (3.41).

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import os
import sqlite3
import tempfile
import threading
import time
import traceback

EXTENSION = os.environ["LITEPACK_EXTENSION"]
# On a busy machine, too.
SOON = 3.0
FILL = """
create table t(id integer primary key, d text);
begin;
insert into t with recursive n(i) as (select 1 union all select i + 1 from n limit 300000)
  select i, json_object('id', i, 'n', hex(i * 7919 % 1000003), 'k', i % 97, 'z', hex(randomblob(40))) from n;
commit;
"""
SAMPLES = """
create temp table s as with recursive n(i) as (select 1 union all select i + 1 from n limit 250)
  select hex(randomblob(60000)) as d from n;
"""
LONG = [
    ("select litepack_check()", 0.06),
    ("pragma litepack_check", 0.06),
    ("pragma main.litepack_check", 0.06),
    ("select litepack_maintain(null, 1.0, 9)", 0.06),
    ("pragma litepack_maintain", 0.06),
    ("select length(zstd_train_dict(d, 1000000, 1000000)) from s", 0.3),
    ("select length(zstd_compress(zeroblob(200000000), 22))", 0.5),
]


def load():
    connection = sqlite3.connect(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(EXTENSION)
    connection.close()


def opened(place, fill=FILL):
    path = os.path.join(place, "a.db")
    is_new = not os.path.exists(path)
    uri = f"file:{path}?vfs=litepack"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("pragma synchronous = off")
    if is_new:
        connection.executescript(fill)
    connection.executescript(SAMPLES)
    return connection


class Ended(AssertionError):
    """A statement was not interrupted. It may have ended before."""


def expect_interrupted(connection, sql, begun, after):
    try:
        answer = connection.execute(sql).fetchall()
    except sqlite3.OperationalError as error:
        took = time.monotonic() - begun - after
        assert str(error) == "interrupted", f"{sql}: {error}"
        assert took < SOON, f"{sql}: ended {took:.1f} s after the interrupt"
    else:
        raise Ended(f"{sql} came to its end: {str(answer)[:60]}")
    assert connection.execute("select 7").fetchall() == [(7,)], "the next statement runs"
    assert not connection.in_transaction


def whatever_takes_long_ends_when_it_is_interrupted(place):
    connection = opened(place)
    for sql, after in LONG:
        # Sooner, where the machine is faster.
        while True:
            timer = threading.Timer(after, connection.interrupt)
            begun = time.monotonic()
            timer.start()
            try:
                expect_interrupted(connection, sql, begun, after)
                break
            except Ended:
                if time.monotonic() - begun > after or after < 0.004:
                    raise
                after /= 3
            finally:
                timer.cancel()
                timer.join()
    assert connection.execute("select litepack_check()").fetchall() == [("ok",)]
    assert connection.execute("pragma litepack_check").fetchall() == [("ok",)]


def also_while_another_statement_runs(place):
    connection = opened(place)
    rows = connection.execute("select id from t")
    assert next(rows) == (1,)
    for sql, after in LONG[:3]:
        timer = threading.Timer(after, connection.interrupt)
        timer.start()
        try:
            connection.execute(sql).fetchall()
            raise AssertionError(f"{sql} came to its end")
        except sqlite3.OperationalError as error:
            assert str(error) == "interrupted", f"{sql}: {error}"
        timer.join()
        # SQLite keeps the interrupt until no statement runs.
        rows.close()
        rows = connection.execute("select id from t")
        assert next(rows) == (1,)


def a_progress_handler_ends_it_too(place):
    connection = opened(place)
    for sql, after in LONG[:5] + LONG[6:]:
        begun = time.monotonic()
        connection.set_progress_handler(lambda: time.monotonic() > begun + after, 1000)
        try:
            answer = connection.execute(sql).fetchall()
            raise Ended(f"{sql} came to its end: {str(answer)[:60]}")
        except sqlite3.OperationalError as error:
            assert str(error) == "interrupted", f"{sql}: {error}"
            assert time.monotonic() - begun - after < SOON, sql
        finally:
            connection.set_progress_handler(None, 0)


def an_interrupt_of_another_connection_is_not_heard(place):
    connection, other = opened(place), sqlite3.connect(":memory:", check_same_thread=False)
    ended = threading.Event()

    def disturb():
        while not ended.wait(0.001):
            other.interrupt()

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        assert connection.execute("pragma litepack_check").fetchall() == [("ok",)]
        assert connection.execute("select litepack_check()").fetchall() == [("ok",)]
    finally:
        ended.set()
        thread.join()


def a_strangers_view_is_bounded(place):
    path = os.path.join(place, "view.db")
    with sqlite3.connect(path) as author:
        author.execute("create view big as select length(zstd_compress(zeroblob(900000000), 22)) as n")
        author.execute("create view slow as select length(zstd_compress(hex(randomblob(30000000)), 22)) as n")
    for trusted in ("off", "on"):
        connection = sqlite3.connect(path)
        connection.execute(f"pragma trusted_schema = {trusted}")
        for view in ("big", "slow"):
            begun = time.monotonic()
            try:
                connection.execute(f"select n from {view}").fetchall()
                raise AssertionError(f"{view} came to its end")
            except (sqlite3.Error, OverflowError) as error:
                assert "litepack_unbounded(1)" in str(error), error
            assert time.monotonic() - begun < 15


def main():
    load()
    for name, check in list(globals().items()):
        if getattr(check, "__module__", "") != "__main__" or check in HELPERS or not callable(check):
            continue
        with tempfile.TemporaryDirectory() as place:
            try:
                check(place)
                print(f"ok {name}", flush=True)
            except BaseException:
                traceback.print_exc()
                print(f"FAILED {name}", flush=True)
    print("end of part")


HELPERS = [load, opened, expect_interrupted, main]
if __name__ == "__main__":
    main()
