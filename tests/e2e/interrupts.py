"""Whatever takes long in the extension ends when the connection is interrupted or its progress handler says so, in the
system's SQLite, which may be older than `sqlite3_is_interrupted` (3.41).

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import contextlib
import os
import sqlite3
import tempfile
import threading
import time
import traceback

EXTENSION = os.environ["LITEPACK_EXTENSION"]
# A try is too late where the machine is busy, or so fast that the statement has come to its end: the next comes sooner.
TRIES = 8
# Before SQLite 3.41 Litepack asks so often.
PULSE = 0.02
# Of a statement that takes less than this, the time says nothing.
SHORT = 5 * PULSE
FILL = """
create table t(id integer primary key, d text);
begin;
insert into t with recursive n(i) as (select 1 union all select i + 1 from n limit 300000)
  select i, json_object('id', i, 'n', hex(i * 7919 % 1000003), 'k', i % 97, 'z', hex(randomblob(40))) from n;
commit;
"""
DOUBLE = "insert into t select id + (select max(id) from t), d from t"
SAMPLES = """
create temp table s as with recursive n(i) as (select 1 union all select i + 1 from n limit 60)
  select hex(randomblob(60000)) as d from n;
"""
# begun() is a function of this test that says 1.
CHECKS = ["select litepack_check() where begun()", "pragma litepack_check", "pragma main.litepack_check"]
# Each stores all anew after the other, and nothing after itself.
MAINTAINED = {
    "select litepack_maintain(null, 1.0, 9 * begun())": "pragma litepack_maintain",
    "pragma litepack_maintain": "select litepack_maintain(null, 1.0, 9)",
}
LONG = [
    *CHECKS,
    *MAINTAINED,
    "select length(zstd_train_dict(d, 1000000, 1000000)) from s where begun()",
    "select length(zstd_compress(zeroblob(60000000 * begun()), 22))",
]


def load():
    connection = sqlite3.connect(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(EXTENSION)
    connection.close()


def time_of(connection, sql):
    """Of the processor, so that it is no longer on a busy machine."""
    begun = time.process_time()
    connection.execute(sql).fetchall()
    return time.process_time() - begun


def opened(place):
    path = os.path.join(place, "a.db")
    is_new = not os.path.exists(path)
    uri = f"file:{path}?vfs=litepack"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("pragma synchronous = off")
    if is_new:
        connection.executescript(FILL)
        # However fast the machine is, there is time enough to ask.
        while time_of(connection, "select litepack_check()") < 3 * PULSE:
            connection.execute(DOUBLE)
    connection.executescript(SAMPLES)
    return connection


class Work:
    """What a connection does, and when it has begun: SQLite itself interrupts a statement that does not run yet."""

    def __init__(self, connection):
        self.connection = connection
        self.begun = threading.Event()
        connection.create_function("begun", 0, self.begin)

    def begin(self):
        self.at = time.monotonic()
        self.begun.set()
        return 1

    def authorized(self, action, *_):
        # Of a pragma, right before it is answered.
        if action == sqlite3.SQLITE_PRAGMA:
            self.begin()
        return sqlite3.SQLITE_OK

    def prepare(self, sql):
        """Sees to it that a statement has something to do."""
        if sql in MAINTAINED:
            self.connection.execute(MAINTAINED[sql]).fetchall()
        self.begun.clear()

    @contextlib.contextmanager
    def by_a_thread(self, after):
        """Interrupts again and again: SQLite forgets it while no statement runs."""
        ended = threading.Event()

        def interrupt():
            self.begun.wait()
            over = ended.wait(after)
            while not over:
                self.connection.interrupt()
                over = ended.wait(0.001)

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            self.begun.set()
            thread.join()

    @contextlib.contextmanager
    def by_a_thread_beside_another_statement(self, after):
        rows = self.connection.execute("select id from t")
        assert next(rows) == (1,)
        with self.by_a_thread(after):
            yield
        # SQLite keeps the interrupt until no statement runs.
        rows.close()

    @contextlib.contextmanager
    def by_a_progress_handler(self, after):
        def is_over():
            return self.begun.is_set() and time.monotonic() > self.at + after

        self.connection.set_progress_handler(is_over, 1000)
        try:
            yield
        finally:
            self.connection.set_progress_handler(None, 0)

    def expect_interrupted(self, sql, interrupting):
        """A statement ends with an error before three quarters of the time that it takes by itself.

        `interrupting(after)` is a context in which the connection is interrupted so many seconds after it has begun.
        """
        self.connection.set_authorizer(self.authorized)
        self.prepare(sql)
        self.connection.execute(sql).fetchall()
        whole = time.monotonic() - self.at
        said = []
        for after in [whole / 4 / 2**number for number in range(TRIES - 1)] + [0]:
            self.prepare(sql)
            with interrupting(after):
                try:
                    # As far as the first row. SQLite itself interrupts the step behind it.
                    self.connection.execute(sql).close()
                    error = None
                except sqlite3.OperationalError as refused:
                    error = str(refused)
                assert self.begun.is_set(), f"{sql}: {error}"
                took = time.monotonic() - self.at
            assert error in (None, "interrupted"), f"{sql}: {error}"
            assert self.connection.execute("select 7").fetchall() == [(7,)], "the next statement runs"
            assert not self.connection.in_transaction
            if error and (took < whole * 3 / 4 or whole < SHORT):
                return
            said.append(f"after {after:.4f} s of {whole:.4f} s {error or 'it came to its end'}, {took:.4f} s")
        raise AssertionError(f"{sql}: " + "; ".join(said))


def whatever_takes_long_ends_when_it_is_interrupted(place):
    connection = opened(place)
    work = Work(connection)
    for sql in LONG:
        work.expect_interrupted(sql, work.by_a_thread)
    assert connection.execute("select litepack_check()").fetchall() == [("ok",)]
    assert connection.execute("pragma litepack_check").fetchall() == [("ok",)]


def also_while_another_statement_runs(place):
    work = Work(opened(place))
    for sql in CHECKS:
        work.expect_interrupted(sql, work.by_a_thread_beside_another_statement)


def a_progress_handler_ends_it_too(place):
    work = Work(opened(place))
    for sql in LONG:
        # Training is one call for each row, and SQLite itself calls the handler between two.
        if "train" not in sql:
            work.expect_interrupted(sql, work.by_a_progress_handler)


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
            begun = time.process_time()
            try:
                connection.execute(f"select n from {view}").fetchall()
                raise AssertionError(f"{view} came to its end")
            except (sqlite3.Error, OverflowError) as error:
                assert "litepack_unbounded(1)" in str(error), error
            assert time.process_time() - begun < 15


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


HELPERS = [load, time_of, opened, Work, main]
if __name__ == "__main__":
    main()
