"""sqlite-utils: on the command line and as a library, with nothing to configure.

packages: sqlite-utils
"""

import json
import sqlite3
import subprocess

import sqlite_utils
from sample import packed, refused, seen

file = packed()
refused(lambda: sqlite3.connect(file).execute("select 1 from Artist"), sqlite3.DatabaseError)


def run(*arguments, input=None):
    done = subprocess.run(["sqlite-utils", *arguments], capture_output=True, text=True, input=input)
    assert done.returncode == 0, done
    return done.stdout


# --- the recipe, in a shell: sqlite-utils query packed.db "select ..."
(before,) = json.loads(run("query", file, "select count(*) as n from Artist"))
run("insert", file, "Note", "-", "--pk", "id", input='[{"id": 1, "text": "one"}, {"id": 2, "text": "two"}]')
run("enable-fts", file, "Note", "text")
assert json.loads(run("search", file, "Note", "two"))[0]["id"] == 2
# ---

with open(file, "rb") as packed_file:
    assert packed_file.read(15) != b"SQLite format 3"
seen("sqlite-utils", sqlite3.sqlite_version, "`sqlite-utils query packed.db`, by a plugin")

import litepack  # noqa: E402

litepack.register()
db = sqlite_utils.Database(file)
assert db["Artist"].count == before["n"] > 100
db["Note"].upsert({"id": 2, "text": "zwei"}, pk="id")
assert db["Note"].get(2)["text"] == "zwei"
seen("sqlite-utils", sqlite3.sqlite_version, "as a library, after `litepack.register()`")
