"""What Python runs first in every process of a client's suite, by PYTHONPATH; plain and packed.

In a packed run SQLite has Litepack from `litepack run`, and what it creates is packed from here on. In both the
outcome of each test of unittest is written down (`outcomes.py` does that for pytest), and of each database that is
opened or deleted whether its file is a packed one.
"""

import atexit
import os
import sys

MAGIC = b"SQLite format 3\0"
# A packed file begins with these, as docs/format.md says.
PACKED = b"Litepack\r\n"


def new_databases_are_packed():
    """Has the SQLite that Python's module is linked with make packed files. Some Pythons load no extensions by SQL."""
    import ctypes
    import sqlite3

    import _sqlite3

    sqlite3.connect(":memory:").close()
    sqlite = ctypes.CDLL(_sqlite3.__file__)
    db = ctypes.c_void_p()
    assert sqlite.sqlite3_open(b":memory:", ctypes.byref(db)) == 0
    sqlite.sqlite3_enable_load_extension(db, 1)
    code = sqlite.sqlite3_exec(db, b"select litepack_new_databases('packed')", None, None, None)
    assert code == 0, f"litepack_new_databases: {code}"
    sqlite.sqlite3_close(db)


class Files:
    """The databases that were opened, and what their files were in the end, or when they were deleted.

    Not before: to close a file is to drop the locks that the process has on it.
    """

    def __init__(self):
        self.open, self.packed, self.plain = set(), 0, 0

    def see(self, path):
        try:
            with open(path, "rb") as file:
                head = file.read(16)
        except (OSError, ValueError):
            return
        if head == MAGIC:
            self.plain += 1
        elif head.startswith(PACKED):
            self.packed += 1

    def event(self, name, arguments):
        if name == "sqlite3.connect":
            path = arguments[0]
            if isinstance(path, (str, bytes, os.PathLike)):
                path = os.fsdecode(path)
                if path.startswith("file:"):
                    path = path[5:].split("?")[0]
                if path and not path.startswith(":"):
                    self.open.add(os.path.abspath(path))
        elif name in ("os.remove", "os.rename") and isinstance(arguments[0], (str, bytes, os.PathLike)):
            # A name in a directory that is given by its number may be another file's here.
            if arguments[-1] != -1:
                return
            path = os.path.abspath(os.fsdecode(arguments[0]))
            self.see(path)
            self.open.discard(path)
        elif name == "shutil.rmtree":
            below = os.path.abspath(os.fsdecode(arguments[0])) + os.sep
            for one in [one for one in self.open if one.startswith(below)]:
                self.see(one)
                self.open.discard(one)

    def end(self):
        for one in self.open:
            self.see(one)
        write(os.environ["LITEPACK_CLIENT_FILES"], f"{self.packed} {self.plain}\n")


def write(path, line):
    with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(line)


def watch_files():
    files, busy = Files(), []

    def hook(name, arguments):
        # What is done here to see a file raises events, too.
        if not busy and name in ("sqlite3.connect", "os.remove", "os.rename", "shutil.rmtree"):
            busy.append(True)
            try:
                files.event(name, arguments)
            finally:
                busy.clear()

    sys.addaudithook(hook)
    atexit.register(files.end)


def write_outcomes_of_unittest(to):
    import unittest

    def wrap(name, outcome):
        former = getattr(unittest.TestResult, name)

        def added(self, test, *rest):
            former(self, test, *rest)
            of = outcome if name != "addSubTest" else "failed" if rest[-1] is not None else None
            if of and hasattr(test, "id"):
                write(to, f"{of}\t{test.id()}\n")

        setattr(unittest.TestResult, name, added)

    for name, outcome in [("addSuccess", "passed"), ("addExpectedFailure", "passed"), ("addSkip", "skipped"),
                          ("addError", "failed"), ("addFailure", "failed"), ("addUnexpectedSuccess", "failed"),
                          ("addSubTest", None)]:
        wrap(name, outcome)


if "LITEPACK_CLIENT_OUTCOMES" in os.environ:
    # A client with a SQLite of its own sees to it by itself.
    if os.environ.get("LITEPACK_CLIENT_PACKED") and "LITEPACK_CLIENT_EXTENSION" not in os.environ:
        new_databases_are_packed()
    watch_files()
    if os.environ.get("LITEPACK_CLIENT_UNITTEST"):
        write_outcomes_of_unittest(os.environ["LITEPACK_CLIENT_OUTCOMES"])
