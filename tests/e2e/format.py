"""Fixtures of every feature of docs/format.md, read by the command and by a second reader (tests/reader).

The second reader was written from docs/format.md alone. It notes which features it meets: the page's tables are compared
with its notes, and the table in tests/fixtures/README.md with both. LITEPACK_WRITE_DOCS=1 renews that table.

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import os
import random
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import traceback
from contextlib import closing
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
FIXTURES = TOP / "tests/fixtures"
PAGE, README = TOP / "docs/format.md", FIXTURES / "README.md"
COMMAND = os.environ["LITEPACK_COMMAND"]
EXTENSION = os.environ["LITEPACK_EXTENSION"]
sys.dont_write_bytecode = True
sys.path[:0] = [str(FIXTURES), str(TOP / "tests/reader")]
import journal  # noqa: E402
import notes  # noqa: E402
import reading  # noqa: E402
import sealing  # noqa: E402
from content import fingerprint  # noqa: E402
from hashes import xxh3, xxh64  # noqa: E402
from packed import Packed  # noqa: E402

PLATFORM_KEY = "x'" + "0" * 62 + "2a'"
# What Argon2id makes of the passphrase of a fixture, for machines without a library that has it.
DERIVED = bytes.fromhex("8dc399c10e03f60d5fe567cab73cb9ed031d74d65a1417d2fb1f9c4cd1939d2a")
# The tables of docs/format.md whose rows are features: under which heading or bold word, what their first column is
# called, and what the reader calls them.
TABLES = {
    ("References", "number"): "way",
    ("Codecs", "number"): "codec",
    ("Layout", "flag"): "layout",
    ("Column", "kind"): "column",
    ("Integers", "byte"): "integers",
    ("Strings", "byte"): "strings",
    ("Strings", "bytes"): "pattern",
    ("Strings", "shape"): "shape",
    ("JSON", "byte"): "JSON",
    ("Free-space chain", "kind, 1 byte"): "free-space link",
    ("What is sealed", "kind"): "sealed",
    ("Frame", "flag"): "log frame",
    ("Frame", "form"): "log form",
}
# Features that the page has in its text: each with words of it, which are there as long as it is.
IN_WORDS = {
    ("page", "2"): "2 index interior",
    ("page", "5"): "5 table interior",
    ("page", "10"): "10 index leaf",
    ("page", "13"): "13 table leaf",
    ("page", "page 1"): "+ 16 on page 1",
    ("page", "cells stored as they are"): "+ 32 if cells are stored as they are",
    ("column", "NULL"): "+ 16 if some are NULL",
    ("several pages", "2"): "2, 4 or 8",
    ("several pages", "4"): "2, 4 or 8",
    ("several pages", "8"): "2, 4 or 8",
    ("several pages", "stored as they are"): "0 if it is stored as it is",
    ("node", "1"): "| kind, 1 byte | 1; [3](#references) with references | 2 |",
    ("node", "2"): "| kind, 1 byte | 1; [3](#references) with references | 2 |",
    ("node", "3"): "| kind, 1 byte | 3 |",
    ("node", "4"): "| kind, 1 byte | 4 |",
    ("node", "5"): "Kinds 5, 7 and 8 are the leaves of",
    ("node", "7"): "Kinds 5, 7 and 8 are the leaves of",
    ("node", "8"): "Kinds 5, 7 and 8 are the leaves of",
    ("leaf", "several salts"): "how many salts (varint), and the salts",
    ("item", "1 units"): "one, two or four units",
    ("item", "2 units"): "one, two or four units",
    ("item", "4 units"): "one, two or four units",
    ("catalog", "zstd's format"): "A dictionary is in zstd's dictionary format",
    ("catalog", "raw content"): "or any other bytes (raw content)",
    ("segment", "there"): "The prefetch segment holds copies",
    ("derivation", "0"): "derivation: 0, the key is raw",
    ("derivation", "1"): "1, it is a passphrase",
    ("log", "version 1"): "version: 1; of a sealed generation 2",
    ("log", "version 2"): "version: 1; of a sealed generation 2",
    ("log", "version 3"): "with version 3; of a sealed generation 4",
    ("log", "version 4"): "with version 3; of a sealed generation 4",
    ("log", "hint"): "A root and all before it that was synced",
    ("log", "SQLite's WAL"): "magic of\nSQLite's WAL",
    ("log record", "1"): "1 frame, 2 cut, 3 node, 4 root",
    ("log record", "2"): "1 frame, 2 cut, 3 node, 4 root",
    ("log record", "3"): "1 frame, 2 cut, 3 node, 4 root",
    ("log record", "4"): "1 frame, 2 cut, 3 node, 4 root",
    ("journal", "SQLite's"): "is one as SQLite writes it",
    ("journal", "sealed"): "encrypted file is this",
    ("archive", "zstd's seekable format"): "zstd's seekable format",
    ("archive", "encrypted"): "Encrypted archives",
}
# Features without a fixture, and why.
MISSING = {
    ("integers", "48"): "tests of `crates/codec` have it",
    ("item", "2 units"): "tests of `crates/store` have it",
    ("catalog", "raw content"): "the dictionaries of all fixtures were trained by zstd",
    ("log frame", "2"): "SQLite writes no frame with other salts than those of its WAL; tests of `crates/log` do",
    ("log record", "2"): "tests of `crates/log` have it",
}
MADE_HERE = "made by the test"


def key_of(text):
    if text == "-":
        return None
    if text.startswith("x'"):
        return sealing.Secret(raw=bytes.fromhex(text[2:-1]))
    return sealing.Secret(passphrase=text.encode(), derived=DERIVED)


def all_fixtures():
    """(path, key, fingerprint or None) of each."""
    with open(FIXTURES / "features/list.tsv", encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                name, key, content = line.rstrip("\n").split("\t")
                yield FIXTURES / "features" / name, key, content
    for path in sorted(FIXTURES.glob("v*-*.db*")) + sorted(FIXTURES.glob("platforms/v*.db")):
        # Compressed columns are in plain databases.
        if not path.name.endswith("-columns.db"):
            yield path, PLATFORM_KEY if "encrypted" in path.name else "-", None


def copied(path):
    """A fixture and what is beside it, in the folder of this check."""
    for end in ("", "-lpw", "-lpjourn"):
        if os.path.exists(f"{path}{end}"):
            shutil.copy(f"{path}{end}", f"{path.name}{end}")
    return path.name


def command(*arguments, key="-"):
    options = []
    if key != "-":
        Path("key").write_text(key, encoding="utf-8")
        os.chmod("key", 0o600)
        options = ["--key-file", "key"]
    return subprocess.run(
        [COMMAND, *arguments[:-1], *options, arguments[-1]], capture_output=True, text=True, timeout=600
    )


def plain_by_command(path, key):
    name = copied(path)
    is_archive = ".zst" in name
    verb = ["archive", "extract"] if is_archive else ["unpack"]
    done = command(*verb, name, "plain.db", key=key)
    assert done.returncode == 0, (path, done.stderr)
    return Path("plain.db").read_bytes()


def content_of(database):
    with closing(sqlite3.connect(":memory:")) as connection:
        # As a file in a rollback mode: a header that says WAL cannot be opened in memory.
        connection.deserialize(database[:18] + b"\1\1" + database[20:])
        return fingerprint(connection)


read = {}  # what the reader found, and which features it met


def both_readers_find_the_same_in_every_fixture():
    count = 0
    for path, key, content in all_fixtures():
        notes.MET.clear()
        found = reading.database(str(path), key_of(key))
        read[path] = frozenset(notes.MET)
        if content is not None:
            assert content_of(found) == content, path
        # Of a transaction over several databases SQLite itself finds out whether it counts: see below.
        if not os.path.exists(f"{path}-lpjourn"):
            assert found == plain_by_command(path, key), path
            for name in os.listdir("."):
                os.unlink(name)
        count += 1
    assert count > 20, count


def argon2_of_the_passphrase_is_what_the_fixture_says():
    try:
        path = next(path for path, key, _ in all_fixtures() if "passphrase" in path.name)
        block = path.read_bytes()[4096:4288]
        memory, passes, lanes = struct.unpack_from("<3I", block, 24)
        found = sealing.argon2id(b"a passphrase of a fixture", block[36:52], memory, passes, lanes)
    except sealing.NoArgon2 as error:
        print(f"skipped: format: Argon2id by another library: {error}", flush=True)
        return
    assert found == DERIVED


def a_journal_counts_while_its_super_journal_is_there():
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(EXTENSION)
    for path, key, content in all_fixtures():
        if not os.path.exists(f"{path}-lpjourn"):
            continue
        packed = Packed(path.read_bytes(), key_of(key))
        name = journal.super_journal(journal.read(Path(f"{path}-lpjourn").read_bytes(), packed)).decode()
        for is_there in (True, False):
            copy = copied(path)
            folder = Path(name).parent
            if is_there:
                folder.mkdir(exist_ok=True)
                Path(name).write_bytes(b"another-journal\0")
            try:
                uri = f"file:{copy}?vfs=litepack" + ("" if key == "-" else f"&key={key}")
                with closing(sqlite3.connect(uri, uri=True)) as connection:
                    changed = connection.execute("select count(*) from story where text = 'changed'").fetchone()[0]
                    assert changed == (0 if is_there else 60), (path, is_there, changed)
                    assert (fingerprint(connection) == content) == is_there, path
            finally:
                Path(name).unlink(missing_ok=True)
                if is_there and not any(folder.iterdir()):
                    folder.rmdir()
    loader.close()


def with_flags(data, at, flags, length, seed):
    """A head or record whose feature flags are others, with the checksum that belongs to it."""
    data = bytearray(data)
    struct.pack_into("<I", data, at, flags)
    begin = at - (20 if length == 512 else 4)
    struct.pack_into("<Q", data, begin + length - 8, xxh3(bytes(data[begin : begin + length - 8]), seed))
    return bytes(data)


def unknown_features_are_refused_by_number():
    data = (FIXTURES / "features/v1-commits.db").read_bytes()
    seed = int.from_bytes(data[32:40], "little")
    bad_version = bytearray(data)
    struct.pack_into("<I", bad_version, 16, 2)
    struct.pack_into("<Q", bad_version, 504, xxh3(bytes(bad_version[:504])))
    cases = [(with_flags(data, 20, 0x40, 512, 0), "0x40"), (bytes(bad_version), "version 2")]
    both_slots = data
    for slot in (512, 1024):
        known = struct.unpack_from("<I", data, slot + 4)[0]
        both_slots = with_flags(both_slots, slot + 4, known | 0x80, 256, seed)
    cases.append((both_slots, "0x8"))
    for forged, word in cases:
        Path("new.db").write_bytes(forged)
        for verb in ("check", "info", "unpack"):
            done = command(verb, "new.db", "plain.db") if verb == "unpack" else command(verb, "new.db")
            assert done.returncode != 0 and word in done.stderr + done.stdout, (verb, word, done)
        try:
            reading.database("new.db")
        except notes.Refused as error:
            assert word in str(error), (word, error)
        else:
            raise AssertionError(f"the reader read {word}")
        assert Path("new.db").read_bytes() == forged, "a file that was refused was written"
    sealed = bytearray((FIXTURES / "features/v1-encrypted-archive.db.zst").read_bytes())
    struct.pack_into("<I", sealed, 16, 2)
    struct.pack_into("<Q", sealed, 496, xxh64(bytes(sealed[:496])))
    Path("new.zst").write_bytes(sealed)
    done = command("archive", "check", "new.zst", key="x'" + "01" * 32 + "'")
    assert done.returncode != 0 and "newer Litepack: encryption 2" in done.stderr, done


def a_file_with_a_prefetch_segment_is_read():
    """It needs half a megabyte, so it is no fixture."""
    some = random.Random(46)
    with closing(sqlite3.connect("plain.db")) as connection, connection:
        connection.execute("create table t(id integer primary key, data blob)")
        connection.executemany("insert into t values(?, ?)", ((i, some.randbytes(700)) for i in range(900)))
    assert command("pack", "plain.db", "packed.db").returncode == 0
    notes.MET.clear()
    assert reading.database("packed.db") == Path("plain.db").read_bytes()
    assert command("pack", "--encrypt", "plain.db", "sealed.db", key=PLATFORM_KEY).returncode == 0
    # Units were opened in other files, and this takes a while.
    Packed(Path("sealed.db").read_bytes(), key_of(PLATFORM_KEY)).check_segment()
    new = {("segment", "there"), ("sealed", "6")}
    assert new <= notes.MET
    read[MADE_HERE] = frozenset(new)


def rows_of_tables(text):
    """(part, number) of each row that is a feature, by the tables of the page."""
    place, table, header = None, None, None
    for line in text.splitlines():
        heading = re.match(r"#+ (.*)|\*\*([\w ]+)[.*]", line)
        if heading:
            place = re.sub(r" \(.*", "", heading[1] or heading[2])
        if not line.startswith("|"):
            table = header = None
            continue
        first = line.strip("|").split("|")[0].strip()
        if header is None:
            header, table = first, TABLES.get((place, first))
            if table is None:
                assert first not in ("number", "kind", "flag", "form", "shape", "byte", "bytes"), (place, first)
            continue
        if table is None or first.startswith("---"):
            continue
        yield table, numbers(table, first)


def numbers(table, first):
    if table == "shape":
        return ["5"] if first.startswith("4 +") else [first]
    if table == "integers":
        named = {"width": "width", "width + 16: differences": "width + 16"}
        return [named.get(first) or first.split(":")[0]]
    if spread := re.match(r"(\d+) to (\d+)$", first):
        # Forms from 2 on are one.
        return [spread[1]] if table == "log form" else [str(n) for n in range(int(spread[1]), int(spread[2]) + 1)]
    return [re.match(r"\d+", first)[0]]


def features():
    """All features that docs/format.md names, in its order."""
    text = PAGE.read_text(encoding="utf-8")
    found = {}
    for name, meaning in re.findall(r"\| (\w+) \| \d+ \| (feature flag .*?) \|", text):
        found["header" if "header" in meaning else "commit", name] = None
    for table, rows in rows_of_tables(text):
        for number in rows:
            found[table, number] = None
    for feature, words in IN_WORDS.items():
        assert words in text, f"docs/format.md does not say “{words}” any more: {feature}"
        found[feature] = None
    return list(found)


def every_feature_has_a_fixture():
    lines = ["| part of the format | number or name | fixtures |", "|---|---|---|"]
    without = []
    for part, number in features():
        having = [path for path, met in read.items() if (part, number) in met]
        names = [f"`{path.relative_to(FIXTURES)}`" if isinstance(path, Path) else path for path in having]
        if not names:
            if (part, number) not in MISSING:
                without.append((part, number))
            names = [f"none: {MISSING.get((part, number))}"]
        elif (part, number) in MISSING:
            raise AssertionError(f"there is a fixture of {part} {number}: {names}")
        more = f", and {len(names) - 3} more" if len(names) > 4 else ""
        lines.append(f"| {part} | {number} | {', '.join(names[:3] if more else names)}{more} |")
    assert not without, f"features without a fixture: {without}"
    text = README.read_text(encoding="utf-8")
    begin = text.index("| part of the format |")
    table = "\n".join(lines) + "\n"
    if os.environ.get("LITEPACK_WRITE_DOCS"):
        README.write_text(text[:begin] + table, encoding="utf-8")
    else:
        assert text[begin:] == table, "tests/fixtures/README.md is stale: LITEPACK_WRITE_DOCS=1 renews it"


CHECKS = [
    both_readers_find_the_same_in_every_fixture,
    argon2_of_the_passphrase_is_what_the_fixture_says,
    a_journal_counts_while_its_super_journal_is_there,
    unknown_features_are_refused_by_number,
    a_file_with_a_prefetch_segment_is_read,
    every_feature_has_a_fixture,
]

for check in CHECKS:
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            check()
            print(f"ok format: {check.__name__.replace(chr(95), chr(32))}", flush=True)
        except Exception:
            traceback.print_exc()
            print(f"FAILED format: {check.__name__.replace(chr(95), chr(32))}", flush=True)
        os.chdir("/")
print("end of part")
