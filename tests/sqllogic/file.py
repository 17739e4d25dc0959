"""Runs one file of sqllogictest on plain SQLite and on packed databases side by side, and compares each answer.

usage: file.py          the task is a JSON object on standard input; each line that is printed is one, too

All databases are given the same statements by connections that are opened, closed and opened again at the same records.
What is compared of a record: the rows with the types of their values, the names of the columns, the number of changes,
the rowid, whether it is an error, its code and its text. At the end: the schema, all rows of all tables, and whether
the packed file is one, is sound to its last byte, and passes `integrity_check`.
"""

import json
import marshal
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
from pathlib import Path

import records

KEY = "00112233445566778899aabbccddeeff" * 2
MAGIC = b"SQLite format 3\0"
# How often a file's connections are closed and opened again.
REOPENED = 4
# Each configuration: the journal mode in the first half and in the second, what is added to the URI, and what each
# connection begins with, the plain one beside it included. `filled` is a database that has references and long
# dictionaries already, and maintenance in the middle. A setting in `alone` holds for the process.
CONFIGURATIONS = {
    "delete": {"journals": ("delete", "delete")},
    "wal": {"journals": ("wal", "wal")},
    "encrypted": {"journals": ("delete", "wal"), "uri": f"&hexkey={KEY}"},
    "references": {"journals": ("wal", "delete"), "filled": True},
    "smallest-cache": {"journals": ("delete", "wal"), "uri": "&cache_mb=0", "setup": "pragma cache_size = 0",
                       "alone": True},
}
FILLING = "filling"
# More differences of one configuration are not counted: what follows a first one says little.
MOST = 20


def say(**what):
    print(json.dumps(what), flush=True)


def load(extension):
    with_it = sqlite3.connect(":memory:")
    with_it.enable_load_extension(True)
    with_it.load_extension(extension)
    with_it.close()


def whole(rows):
    """Rows so that no two different ones are equal: 1, 1.0 and true are not the same, nor are 0.0 and -0.0."""
    # Version 2 writes floats by their bits, and each value in full, however often it is there.
    return marshal.dumps(rows, 2)


def statements(record):
    """Those of a record: nearly always one. Python takes no more at a time."""
    if record.types is not None or ";" not in record.sql.rstrip("; \n"):
        return [record.sql]
    found, begun = [], ""
    for part in record.sql.split(";"):
        begun += part + ";"
        if sqlite3.complete_statement(begun) and begun.strip(" ;\n"):
            found.append(begun)
            begun = ""
    return found


class Side:
    """A database, how it is opened, and what it answers."""

    def __init__(self, name, place, configuration, setup, template=None):
        self.name, self.setup = name, setup
        self.path = place / f"{name}.db"
        self.journals = configuration.get("journals", ("delete", "delete"))
        self.filled = configuration.get("filled", False)
        vfs = "unix" if name == "plain" else "litepack"
        self.uri = f"file:{self.path}?vfs={vfs}{configuration.get('uri', '')}"
        self.differences = []
        self.lie = None
        if self.filled:
            shutil.copy(template, self.path)
        self.open(0)

    def open(self, half):
        self.connection = sqlite3.connect(self.uri, uri=True, isolation_level=None, timeout=10, cached_statements=0)
        self.connection.execute(self.setup or "select 1").fetchall()
        journal = self.journals[half]
        found = self.connection.execute(f"pragma journal_mode = {journal}").fetchone()[0]
        assert found == journal, (self.name, found, journal)

    def maintain(self):
        self.connection.execute("select litepack_maintain(null, 1)").fetchall()

    def run(self, record):
        """(what kind of answer, the answer)"""
        if self.lie and self.lie.holds_back(record):
            return "statement", (1, None)
        try:
            for sql in statements(record):
                cursor = self.connection.execute(sql)
                rows = cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            told = (type(error).__name__, str(error), getattr(error, "sqlite_errorname", None))
            return "error", self.lie.error(record, told) if self.lie else told
        if self.lie:
            rows = self.lie.rows(record, rows)
        if record.types is None and not rows:
            return "statement", (cursor.rowcount, cursor.lastrowid)
        return "rows", ([column[0] for column in cursor.description or ()], rows)

    def content(self):
        """The schema and all rows, without what fills a database before its first record."""
        schema = self.connection.execute(
            f"select type, name, tbl_name, sql from sqlite_schema where tbl_name not glob '{FILLING}*' order by 1, 2, 3"
        ).fetchall()
        yield "schema", schema
        for kind, name, *_ in schema:
            if kind == "table":
                quoted = name.replace('"', '""')
                yield name, self.connection.execute(f'select * from "{quoted}"').fetchall()

    def differs(self, line, sql, plain, packed):
        if len(self.differences) < MOST:
            shown = [text if len(text) <= 500 else f"{text[:500]} ... ({len(text)} characters)" for text in
                     (sql, str(plain), str(packed))]
            self.differences.append({"line": line, "sql": shown[0], "plain": shown[1], "packed": shown[2]})


class Lie:
    """What a packed database is made to answer wrongly, once: a test of the comparison."""

    def __init__(self, kind, first):
        self.kind, self.first, self.told = kind, first, False

    def tells(self, record, kind, possible=True):
        if self.told or self.kind != kind or record.line < self.first or not possible:
            return False
        self.told = True
        return True

    def holds_back(self, record):
        """A row that is to be inserted is not."""
        if self.tells(record, "die"):
            os.kill(os.getpid(), signal.SIGKILL)
        return record.types is None and record.sql.lower().startswith("insert") and self.tells(record, "write")

    def end(self, connection, content):
        """All answers were right, and the rows are gone."""
        if self.kind == "end":
            connection.execute(f'delete from "{next(name for name in content if name != "schema")}"')

    def error(self, record, told):
        return (*told[:1], told[1] + ".", *told[2:]) if self.tells(record, "error") else told

    def rows(self, record, rows):
        if self.tells(record, "row", len(rows) > 0):
            return rows[:-1]
        numbers = [at for at, one in enumerate(rows[0] if rows else ()) if type(one) is int]
        if self.tells(record, "type", bool(numbers)):
            first = list(rows[0])
            first[numbers[0]] = float(first[numbers[0]])
            return [tuple(first), *rows[1:]]
        if self.tells(record, "order", len(set(rows)) > 1):
            return rows[::-1]
        return rows


def can_be_closed(connection):
    """Whether nothing would be lost that the file goes on with."""
    return not connection.in_transaction and not connection.execute("select 1 from sqlite_temp_schema").fetchone()


def filling(connection):
    """A digest of what was there before the first record."""
    sums = "count(*), sum(id), sum(length(body)), min(body), max(body)"
    return connection.execute(f"select {sums} from {FILLING}").fetchall()


def main():
    task = json.load(sys.stdin)
    load(task["extension"])
    chosen = task["configurations"]
    setup = CONFIGURATIONS[chosen[0]].get("setup")
    assert len(chosen) == 1 or not any(CONFIGURATIONS[name].get("alone") for name in chosen)
    of_file = records.read(Path(task["path"]))
    chance = random.Random(f"{task['seed']}:{task['file']}")
    places = range(1, len(of_file))
    reopened = sorted(chance.sample(places, min(REOPENED, len(places))))
    middle = reopened[len(reopened) // 2] if reopened else 0
    with tempfile.TemporaryDirectory(dir=task["place"]) as place:
        compare(task, chosen, of_file, set(reopened), middle, setup, Path(place))


def compare(task, chosen, of_file, reopened, middle, setup, place):
    plain = Side("plain", place, {}, setup)
    packed = [Side(name, place, CONFIGURATIONS[name], setup, task["template"]) for name in chosen]
    for side in packed:
        if task["lie"]:
            side.lie = Lie(task["lie"], of_file[len(of_file) // 3].line)
    filled = {side.name: filling(side.connection) for side in packed if side.filled}
    unexpected, half, first_unexpected = 0, 0, None
    for number, record in enumerate(of_file):
        if number % 2000 == 0:
            say(line=record.line)
        if number in reopened and can_be_closed(plain.connection):
            half = max(half, int(number >= middle))
            for side in (plain, *packed):
                side.connection.close()
                side.open(half)
                if side.filled and number == middle:
                    side.maintain()
        wanted = plain.run(record)
        exact = whole(wanted)
        for side in packed:
            found = side.run(record)
            if whole(found) != exact:
                side.differs(record.line, record.sql, wanted, found)
        if task["expected"] and not as_expected(record, wanted):
            unexpected += 1
            first_unexpected = first_unexpected or record.line
    ends = dict(plain.content())
    for side in packed:
        if side.lie:
            side.lie.end(side.connection, ends)
        at_the_end(side, ends, filled.get(side.name))
    say(records=len(of_file), unexpected=unexpected if task["expected"] else None, first_unexpected=first_unexpected,
        differences={side.name: side.differences for side in packed})


def as_expected(record, answer):
    kind, what = answer
    if record.types is None:
        return (kind == "error") == (record.wanted == "error")
    return kind == "rows" and records.as_written(record, what[1]) == record.wanted


def at_the_end(side, plain, filled):
    try:
        content = dict(side.content())
        for name in plain.keys() | content.keys():
            if whole(plain.get(name)) != whole(content.get(name)):
                side.differs(0, f"content at the end: {name}", plain.get(name), content.get(name))
        for sql in ["pragma integrity_check", "select litepack_check()"]:
            answer = side.connection.execute(sql).fetchall()
            if answer != [("ok",)]:
                side.differs(0, sql, "ok", answer)
        if side.filled and filling(side.connection) != filled:
            side.differs(0, f"{FILLING} at the end", filled, filling(side.connection))
        if side.filled:
            info = json.loads(side.connection.execute("select litepack_info()").fetchone()[0])
            if not info["references"] or not info["dictionaries"]:
                side.differs(0, "references and dictionaries at the end", "some", "none")
        side.connection.close()
        if side.path.read_bytes()[: len(MAGIC)] == MAGIC:
            side.differs(0, "the file", "packed", "plain")
    except sqlite3.Error as error:
        side.differs(0, "at the end", "no error", repr(error))


if __name__ == "__main__":
    main()
