#!/usr/bin/env python3
"""Runs the files of sqllogictest on plain SQLite and on packed databases, and compares every answer.

`file.py` says what is compared. Each file runs in a process of its own, once beside all configurations, and once more
beside each that needs the process alone. What is done is kept in `done.jsonl` of the place for it, a line for each file
and configuration, so a run that was stopped goes on with the next one. Exit code: 0 no difference, 1 some, 2 the files
could not be had or run.
"""

import argparse
import datetime
import hashlib
import json
import os
import random
import re
import secrets
import select
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from file import CONFIGURATIONS, FILLING

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULT = HERE / "result.json"
# Seconds without a word from a file's process: it says something every 2,000 records.
SILENCE = 1800
# What packed databases can be made to do wrong; besides, `die` ends the process.
LIES = ("row", "order", "type", "error", "write", "end")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE",
                        help="files by their names in the corpus, * allowed (default: all)")
    parser.add_argument("--extension", type=Path, default=ROOT / "target/release/liblitepack.so")
    parser.add_argument("--command", type=Path, default=ROOT / "target/release/litepack")
    parser.add_argument("--corpus", type=Path, help="directory of .test files (default: what ./corpus prints)")
    parser.add_argument("--kept", type=Path, default=ROOT / "target/sqllogic", help="for what is done, and the corpus")
    parser.add_argument("--config", default=",".join(CONFIGURATIONS), help="configurations, by commas (default: all)")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="the N-th of M parts of the files")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="where connections are reopened")
    parser.add_argument("--fresh", action="store_true", help="run these files again, also what is done")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further file after this long")
    parser.add_argument("--json", type=Path, help="write the summary there")
    parser.add_argument("--write-docs", action="store_true", help="write result.json, for docs/testing.md")
    parser.add_argument("--lie", choices=(*LIES, "die"), help="have packed databases answer wrongly once in each file")
    options = parser.parse_args()
    options.config = options.config.split(",")
    if unknown := [name for name in options.config if name not in CONFIGURATIONS]:
        parser.error(f"no such configuration: {', '.join(unknown)}")
    if not re.fullmatch(r"[1-9]\d*/[1-9]\d*", options.part):
        parser.error("--part is N/M, as 1/10")
    return options


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def find_corpus(options):
    """(the directory, what it is)"""
    if options.corpus:
        return options.corpus, "a directory"
    got = subprocess.run([HERE / "corpus", options.kept / "corpus"], stdout=subprocess.PIPE, text=True)
    if got.returncode:
        # Among other tests it is left out, and told with others that are (`skip` of tests/skip).
        if skipped := os.environ.get("LITEPACK_SKIPPED"):
            with open(skipped, "a", encoding="utf-8") as file:
                file.write("skipped: sqllogic: the corpus could not be fetched\n")
            sys.exit(0)
        sys.exit(2)
    place, _, what = got.stdout.strip().partition("\t")
    return Path(place), what


def choose(corpus, options):
    """The names of the files of this part."""
    everything = sorted(str(path.relative_to(corpus)) for path in corpus.rglob("*.test"))
    if options.files:
        everything = [name for name in everything if any(Path(name).match(one) for one in options.files)]
    number, parts = map(int, options.part.split("/"))
    chosen = everything[number - 1 :: parts]
    if not chosen:
        fail(f"no such files in {corpus}")
    return chosen


class Run:
    def __init__(self, options, corpus):
        self.options, self.corpus = options, corpus
        for file in (options.extension, options.command):
            if not file.exists():
                fail(f"{file} does not exist\n\nhint: make build")
        self.identity = hashlib.sha256(options.extension.read_bytes()).hexdigest()[:16]
        options.kept.mkdir(parents=True, exist_ok=True)
        # What is compared with a lie is not kept.
        self.done_file = None if options.lie else options.kept / "done.jsonl"
        self.done = {}
        if self.done_file and self.done_file.exists():
            for line in self.done_file.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                # Of two lines the later one counts.
                if one["extension"] == self.identity:
                    self.done[one["file"], one["configuration"]] = one

    def template(self):
        """A packed database with references and long dictionaries, to begin with: a minute's work, so it is kept."""
        packed = self.options.kept / f"filling-{hashlib.sha256(self.options.command.read_bytes()).hexdigest()[:16]}.db"
        if not packed.exists():
            with tempfile.TemporaryDirectory() as place:
                fill(Path(place, "plain.db"))
                self.litepack("pack", "--best", Path(place, "plain.db"), Path(place, "packed.db"))
                shutil.move(Path(place, "packed.db"), packed)
        info = json.loads(self.litepack("info", "--json", packed))
        longest = max(info["dictionaries"], default=0)
        print(f"the database to begin with: {info['references']} references, longest dictionary {longest} bytes stored")
        # A trained dictionary of 1 MiB would take a third of that.
        if not info["references"] or longest < 400_000:
            fail(f"{packed} has no references, or no long dictionary")
        return packed

    def litepack(self, *arguments):
        said = subprocess.run([self.options.command, *arguments], capture_output=True, text=True)
        if said.returncode:
            fail(said.stderr)
        return said.stdout

    def all(self, names):
        together = [name for name in self.options.config if not CONFIGURATIONS[name].get("alone")]
        groups = [together, *([name] for name in self.options.config if name not in together)]
        if self.options.fresh:
            self.done = {key: one for key, one in self.done.items() if key[0] not in names}
        jobs = [(name, [one for one in group if (name, one) not in self.done]) for name in names for group in groups]
        jobs = [(name, group) for name, group in jobs if group]
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="litepack-sqllogic-", dir=memory()) as place:
            template = self.template() if "references" in self.options.config and jobs else None
            for number, (name, group) in enumerate(jobs):
                took = time.monotonic() - begun
                if took > self.options.seconds:
                    print(f"the time is over: {len(jobs) - number} of {len(jobs)} runs are left for the next time")
                    break
                if sys.stderr.isatty():
                    print(f"\r\033[K{number}/{len(jobs)} {took:.0f} s: {name}", end="", file=sys.stderr, flush=True)
                self.one(name, group, place, template)
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr)

    def one(self, name, group, place, template):
        task = {
            "path": str(self.corpus / name), "file": name, "configurations": group, "place": place,
            "template": str(template), "extension": str(self.options.extension.resolve()), "seed": self.options.seed,
            "expected": not CONFIGURATIONS[group[0]].get("alone"), "lie": self.options.lie,
        }
        begun = time.monotonic()
        last, ended = answers(task)
        if "records" not in last:
            # It is of all of the group: they were in one process.
            what = [{"line": last.get("line", 0), "sql": "the process", "plain": "its end", "packed": ended}]
            last = {"records": 0, "unexpected": None, "first_unexpected": None}
            last["differences"] = dict.fromkeys(group, what)
        for configuration in group:
            found = last["differences"][configuration]
            one = {
                "file": name, "configuration": configuration, "extension": self.identity, "seed": self.options.seed,
                "records": last["records"], "unexpected": last["unexpected"],
                "first_unexpected": last["first_unexpected"], "differences": found, "seconds": round(time.monotonic() - begun, 2),
            }
            self.done[name, configuration] = one
            if self.done_file:
                with self.done_file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(one) + "\n")
            for each in found:
                print(f"DIFFERS {name}:{each['line']} {configuration}: {each['sql']}\n  plain:  {each['plain']}\n"
                      f"  packed: {each['packed']}", flush=True)


def answers(task):
    """(the last line that a file's process has said, how it ended)"""
    process = subprocess.Popen([sys.executable, HERE / "file.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    with process:
        process.stdin.write(json.dumps(task))
        process.stdin.close()
        last = {}
        while True:
            if not select.select([process.stdout], [], [], SILENCE)[0]:
                process.kill()
                return last, f"nothing for {SILENCE} seconds"
            line = process.stdout.readline()
            if not line:
                break
            last = json.loads(line)
        told = process.stderr.read().strip()
    return last, f"status {process.returncode}: {told[-2000:]}"


def memory():
    """A file system in memory: what is compared does not depend on the disk, which would take most of the time."""
    place = Path("/dev/shm")
    return place if place.is_dir() and os.access(place, os.W_OK) else None


def fill(path):
    """Text that comes again, near and far, in other pages and in no order: 24 MB."""
    chance = random.Random(4)
    words = ["".join(chance.choice("etaoinshrdlucmwfg") for _ in range(chance.randint(3, 9))) for _ in range(30_000)]
    passages = [" ".join(chance.choice(words) for _ in range(60)) for _ in range(3000)]
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"create table {FILLING}(id integer primary key, body text)")
    db.execute("begin")
    for number in range(16_000):
        own = " ".join(chance.choice(words) for _ in range(60))
        body = f"{chance.choice(passages)} {own} {chance.choice(passages)}"
        db.execute(f"insert into {FILLING} values(?, ?)", (number, body))
    db.execute("commit")
    db.close()


def commit():
    git = ["git", "-C", str(ROOT)]
    return subprocess.run([*git, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout.strip()


def summary(run, names, corpus):
    chosen = [run.done[name, one] for name in names for one in run.options.config if (name, one) in run.done]
    configurations = {}
    for name in run.options.config:
        of_it = [one for one in chosen if one["configuration"] == name]
        configurations[name] = {
            "files": len(of_it), "records": sum(one["records"] for one in of_it),
            "differences": sum(len(one["differences"]) for one in of_it),
        }
    expected = {one["file"]: one for one in chosen if one["unexpected"] is not None}
    return {
        "date": str(datetime.date.today()), "commit": commit(), "extension": run.identity, "corpus": corpus,
        "part": run.options.part, "seeds": sorted({one["seed"] for one in chosen}), "files_in_the_part": len(names),
        "files": len({one["file"] for one in chosen}),
        "records": sum(one["records"] for one in configurations.values()),
        "differences": sum(one["differences"] for one in configurations.values()),
        "plain_not_as_the_file_expects": sum(one["unexpected"] for one in expected.values()),
        "configurations": configurations,
    }


def main():
    options = parse_arguments()
    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        fail(f"the sqlite3 of {sys.executable} loads no extensions\n\nhint: /usr/bin/python3 {sys.argv[0]}")
    corpus, what = find_corpus(options)
    names = choose(corpus, options)
    run = Run(options, corpus)
    print(f"seed {options.seed}, SQLite {sqlite3.sqlite_version}, {len(names)} files, part {options.part}; "
          f"corpus: {what}", flush=True)
    run.all(names)
    found = summary(run, names, what)
    written = json.dumps(found, indent=1) + "\n"
    for path in ([options.json] if options.json else []) + ([RESULT] if options.write_docs else []):
        path.write_text(written, encoding="utf-8")
    for name, one in found["configurations"].items():
        print(f"{name}: {one['files']} files, {one['records']:,} records, {one['differences']} differences")
    print(f"{found['files']} of {len(names)} files, {found['records']:,} answers compared, {found['differences']} "
          f"differ; on plain SQLite {found['plain_not_as_the_file_expects']} are not as the file expects")
    sys.exit(1 if found["differences"] else 0)


if __name__ == "__main__":
    main()
