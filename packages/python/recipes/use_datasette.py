"""Datasette: `datasette packed.db`, with nothing to configure.

packages: datasette
"""

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

from sample import packed, refused, seen

file = packed()
refused(lambda: sqlite3.connect(file).execute("select 1 from Artist"), sqlite3.DatabaseError)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


# Datasette loads no plugins when it believes that it is being tested.
WITHOUT = "import sys; sys._called_from_test = True; from datasette.cli import cli; cli()"
without = run(sys.executable, "-c", WITHOUT, file, "--get", "/packed.json")
assert without.returncode != 0 and "file is not a database" in without.stderr, without

# --- the recipe, in a shell: datasette packed.db


def free_port():
    # Below those that systems give by themselves: such a one could be another server's by the time that it is used.
    for port in range(20000 + os.getpid() % 10000, 32000):
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


port = free_port()
server = subprocess.Popen(["datasette", file, "--port", str(port)], stderr=subprocess.STDOUT, stdout=subprocess.DEVNULL)
try:
    url = f"http://127.0.0.1:{port}/packed.json?_shape=array&sql=select+count(*)+as+n+from+Artist"
    for _ in range(6000):
        try:
            with urllib.request.urlopen(url) as answer:
                rows = json.load(answer)
            break
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error
        except urllib.error.URLError:
            # It has not begun to listen yet.
            assert server.poll() is None, "the server has ended"
            time.sleep(0.1)
    assert rows[0]["n"] > 100, rows
finally:
    server.terminate()
    server.wait()

versions = json.loads(run("datasette", "--get", "/-/versions.json", file).stdout)
plugins = json.loads(run("datasette", "plugins").stdout)
assert any("litepack" in plugin["name"] for plugin in plugins), plugins
seen("datasette", versions["sqlite"]["version"], "`datasette packed.db`, by a plugin", host="Datasette")
