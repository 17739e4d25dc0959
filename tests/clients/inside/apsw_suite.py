"""APSW's own suite. It has a SQLite of its own, which `litepack run` does not reach: the extension is loaded into it.

After `sqlite3_shutdown`, which one of the tests calls, SQLite has its own default VFS again: so it is loaded anew then.
"""

import os
import runpy
import sys

import apsw

initialize = apsw.initialize


def initialize_packed():
    initialize()
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(os.environ["LITEPACK_CLIENT_EXTENSION"], "sqlite3_litepackdefault_init")
    assert connection.execute("select litepack_new_databases('packed')").get == "packed"
    connection.close()


if os.environ.get("LITEPACK_CLIENT_PACKED"):
    apsw.initialize = initialize_packed
    apsw.initialize()
sys.argv[0] = "apsw.tests"
runpy.run_module("apsw.tests", run_name="__main__", alter_sys=True)
