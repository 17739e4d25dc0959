"""Datasette: `datasette packed.db`, with nothing to configure.

packages: datasette
"""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request

from sample import packed, refused, seen

file = packed()
refused(lambda: sqlite3.connect(file).execute("select 1 from Artist"), sqlite3.DatabaseError)


def datasette(*arguments, **options):
    return subprocess.run(["datasette", *arguments], capture_output=True, text=True, **options)


# Without the plugin. What it prints differs from version to version.
without = datasette("inspect", file, env={**os.environ, "DATASETTE_LOAD_PLUGINS": ""})
assert without.returncode != 0 and "file is not a database" in without.stderr + without.stdout, without

# --- the recipe, in a shell: datasette packed.db
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = subprocess.Popen(["datasette", file, "--port", str(port)], stderr=subprocess.PIPE, text=True)
try:
    for _ in range(100):
        try:
            url = f"http://127.0.0.1:{port}/packed.json?_shape=array&sql=select+count(*)+as+n+from+Artist"
            if sys.argv[1:]:
                print(url)
            with urllib.request.urlopen(url) as answer:
                rows = json.load(answer)
            break
        except ConnectionError:
            pass
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error
        except urllib.error.URLError:
            pass
        assert server.poll() is None, server.stderr.read()
        time.sleep(0.1)
    assert rows[0]["n"] > 100, rows
finally:
    server.terminate()
    server.wait()

versions = json.loads(datasette("--get", "/-/versions.json", file).stdout)
plugins = json.loads(datasette("plugins").stdout)
assert any("litepack" in plugin["name"] for plugin in plugins), plugins
seen("datasette", versions["sqlite"]["version"], "`datasette packed.db`, by a plugin", host="Datasette")
