#!/usr/bin/env python3
"""Runs SQLite's own test suite on plain SQLite and on Litepack, and compares.

Each test file of the `full` set that is not in left_out.tsv runs in a testfixture process of its own, as an ordinary
user, first with plain SQLite and then with the extension as the default VFS and new databases packed. A test that
fails on Litepack only, or is not reached there only, must be listed, with its reason, in expected.tsv. Exit code: 0 no
unlisted difference, 1 some, 2 the suite could not run.
"""

import argparse
import concurrent.futures
import fnmatch
import itertools
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SOURCE = "sqlite3-3.40.1"

# The other ends of a testfixture run, besides failed tests; in brackets so that no test has the same name.
CRASHED, TIMED_OUT, STOPPED = "(crash)", "(timeout)", "(stopped by an error)"
FILES_LEFT, MEMORY_LEFT = "(files left open)", "(memory not freed)"
# What encrypted databases are encrypted with, in hexadecimal.
KEY = "00112233445566778899aabbccddeeff" * 2

# Behind the name of a test that runs on plain SQLite only.
NOT_RUN = " (not run)"

UNPRIVILEGED = "nobody"

# Seconds for one file with plain SQLite.
PLAIN_LIMIT = 100

# How many times as long as plain SQLite a file may take, once that is more than the time limit.
SLOWDOWN = 20

# The endings of a packed database in place of `-wal` and `-journal`, where a test names such a file of a database's.
OTHER_NAMES = {"wal": "lpw", "journal": "lpjourn"}
BESIDE = re.compile(r"(\.db\d?-|\.database-|\bbak-|mydir-|\}-|\$name-|crashfile -|\*)(wal|journal)\b")

# A test gone wild must not take the machine with it.
LIMITS = ["prlimit", "--core=0", "--nofile=1024", f"--as={8 << 30}", f"--fsize={8 << 30}"]


def main():
    options = parse_arguments()
    build(options.cache)
    # Outside the source tree, which an unprivileged user may not be able to reach. Not mkdtemp: some tests
    # leave themselves out when the path has an underscore in it.
    stage = Path(tempfile.gettempdir()) / f"litepack-suite-{secrets.token_hex(8)}"
    stage.mkdir(mode=0o755)
    try:
        return Suite(stage, options).compare()
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE.test",
                        help="test files to run, * allowed (default: all that are not left out)")
    parser.add_argument("--extension", type=Path, default=ROOT / "target" / "release" / "liblitepack.so")
    parser.add_argument("--entry", default="sqlite3_litepackdefault_init", help="entry point of the extension")
    parser.add_argument("--sql", default="select litepack_new_databases('packed')",
                        help="statement to run after loading; '' for none")
    parser.add_argument("--cache", type=Path, default=ROOT / "target" / "sqlite-suite",
                        help="directory for SQLite's sources, its test programs, results and logs")
    parser.add_argument("--encrypted", action="store_true", help="each connection gives a key")
    parser.add_argument("--expected", type=Path, default=HERE / "expected.tsv")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="files to run at a time")
    parser.add_argument("--timeout", type=int, default=60,
                        help="seconds for one file; a file gets more if plain SQLite needed long for it")
    parser.add_argument("--fresh", action="store_true", help="run plain SQLite again instead of using kept results")
    parser.add_argument("--baseline-only", action="store_true", help="run plain SQLite and nothing else")
    return parser.parse_args()


def build(cache):
    if subprocess.run([HERE / "build", cache]).returncode != 0:
        sys.exit(2)


def fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


class Suite:
    """One comparison, in a staging directory that the unprivileged user can read and write."""

    def __init__(self, stage, options):
        self.stage = stage
        self.options = options
        self.user = UNPRIVILEGED if os.getuid() == 0 else None
        self.work_numbers = itertools.count(1)
        self.copy_source("plain")
        shutil.copy(options.cache / "build" / "testfixture", stage / "testfixture")
        shutil.copy(options.cache / "build" / "sqlite3-shell", stage / "sqlite3")
        for script in ["list_files.tcl", "evaluate.tcl"]:
            shutil.copy(HERE / script, stage / script)
        if not options.baseline_only:
            if not options.extension.exists():
                fail(f"{options.extension} does not exist\n\nhint: cargo build --release -p litepack-extension")
            shutil.copy(options.extension, stage / "extension.so")
            self.copy_source("packed")
            for path in (stage / "packed").rglob("*"):
                if path.suffix in {".test", ".tcl"}:
                    rename_beside(path)
        subprocess.run(["chmod", "-R", "a+rX", stage], check=True)
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(stage, owner.pw_uid, owner.pw_gid)

    def copy_source(self, label):
        ignored = shutil.ignore_patterns("fuzzdata*.db", "www")
        shutil.copytree(self.options.cache / SOURCE, self.stage / label / SOURCE, ignore=ignored)

    def tests(self, label):
        return str(self.stage / label / SOURCE / "test")

    def compare(self):
        files = self.select_files()
        plain = self.plain_results(files)
        print_totals("plain SQLite", plain)
        if self.options.baseline_only:
            for file, result in plain.items():
                for test in result["failed"]:
                    print(f"  {file}:{test}")
            return 0
        limits = {file: max(self.options.timeout, SLOWDOWN * result["seconds"]) for file, result in plain.items()}
        label = "encrypted" if self.options.encrypted else "packed"
        packed = self.run_files(label, limits, self.extension_environment())
        print_totals(f"Litepack, {label}", packed)
        return report(find_differences(plain, packed), Expected(self.options), files)

    def extension_environment(self):
        environment = {"SUITE_EXTENSION": str(self.stage / "extension.so"), "SUITE_ENTRY": self.options.entry}
        if self.options.sql:
            environment["SUITE_SQL"] = self.options.sql
        if self.options.encrypted:
            environment["SUITE_KEY"] = KEY
        return environment

    def select_files(self):
        work = self.new_work_directory()
        command = ["./testfixture", "list_files.tcl", self.tests("plain"), str(work)]
        # With the extension, to find out now if it does not load.
        environment = {} if self.options.baseline_only else self.extension_environment()
        listing = self.start(command, work, environment, subprocess.PIPE)
        output, _ = listing.communicate()
        if listing.returncode != 0:
            fail(f"testfixture does not run:\n{output.decode(errors='replace')}")
        if not self.options.files:
            left_out = {file for file, _ in read_reasons(HERE / "left_out.tsv")}
            full = [line for line in output.decode().split("\n") if line.endswith(".test")]
            if unknown := left_out.difference(full):
                fail(f"left_out.tsv: no such test file: {', '.join(sorted(unknown))}")
            return [file for file in full if file not in left_out]
        everything = sorted({path.name for path in (self.stage / "plain").rglob("*.test")})
        chosen = []
        for pattern in self.options.files:
            matches = fnmatch.filter(everything, pattern) or fnmatch.filter(everything, pattern + ".test")
            if not matches:
                fail(f"no test file matches {pattern}")
            chosen += [file for file in matches if file not in chosen]
        return chosen

    def plain_results(self, files):
        """Results of plain SQLite, kept between runs: they change only with testfixture itself."""
        kept_file = self.options.cache / "plain.json"
        built = (self.options.cache / "build" / "testfixture").stat().st_mtime
        kept = {"built": built, "results": {}}
        if kept_file.exists():
            previous = json.loads(kept_file.read_text())
            if previous["built"] == built:
                kept = previous
        missing = [file for file in files if self.options.fresh or file not in kept["results"]]
        if missing:
            limits = dict.fromkeys(missing, PLAIN_LIMIT)
            kept["results"].update(self.run_files("plain", limits, {}))
            kept_file.write_text(json.dumps(kept))
        # Longest first in the run that follows, so that no long file is left for the end.
        by_time = sorted(files, key=lambda file: -kept["results"][file]["seconds"])
        return {file: kept["results"][file] for file in by_time}

    def run_files(self, label, limits, environment):
        """Runs the files that are the keys of `limits`, the values being the time limits in seconds."""
        logs = self.options.cache / "logs" / label
        logs.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        results = {}
        files = list(limits)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            runs = {pool.submit(self.run_file, label, file, limits[file], environment, logs): file for file in files}
            for run in concurrent.futures.as_completed(runs):
                results[runs[run]] = run.result()
                if sys.stderr.isatty():
                    print(f"\r{label}: {len(results)} of {len(files)} files", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)
        print(f"{label}: {len(files)} files in {time.monotonic() - started:.0f} s, logs in {logs}")
        return {file: results[file] for file in files}

    def run_file(self, label, file, limit, environment, logs):
        work = self.new_work_directory()
        source = "plain" if label == "plain" else "packed"
        command = ["./testfixture", "evaluate.tcl", self.tests(source), file, str(work)]
        log = logs / f"{file}.log"
        started = time.monotonic()
        timed_out = False
        with log.open("wb") as output:
            process = self.start(command, work, environment, output)
            try:
                process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                timed_out = True
            kill_group(process)  # also helpers that the test may have left running
            process.wait()
        shutil.rmtree(work, ignore_errors=True)
        result = parse_output(log.read_text(errors="replace"), process.returncode, timed_out)
        result["seconds"] = round(time.monotonic() - started, 2)
        return result

    def start(self, command, work, environment, output):
        clean = {"PATH": "/usr/bin:/bin", "HOME": str(work), "LANG": "C.UTF-8"}
        credentials = {}
        if self.user:
            credentials = {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}
        return subprocess.Popen(LIMITS + command, cwd=self.stage, env=clean | environment, stdin=subprocess.DEVNULL,
                                stdout=output, stderr=subprocess.STDOUT, start_new_session=True, **credentials)

    def new_work_directory(self):
        # Of equal length, as some tests count how long paths may be.
        work = self.stage / f"work{next(self.work_numbers):06}"
        work.mkdir()
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(work, owner.pw_uid, owner.pw_gid)
        return work


def rename_beside(path):
    """Names the files beside databases in a script as those of packed ones are named."""
    script = path.read_bytes().decode("latin-1")
    named = BESIDE.sub(lambda found: found[1] + OTHER_NAMES[found[2]], script)
    if named != script:
        path.write_bytes(named.encode("latin-1"))


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def parse_output(output, returncode, timed_out):
    """The tests that ran and failed, from what tester.tcl and evaluate.tcl print."""
    failed = dict.fromkeys(re.findall(r"^! (.*?) expected: \[", output, re.MULTILINE))
    failed.update(dict.fromkeys(re.findall(r"^(.*)\.\.\.\nError: ", output, re.MULTILINE)))
    summary = re.search(r"^(\d+) errors out of (\d+) tests", output, re.MULTILINE)
    if timed_out:
        failed[TIMED_OUT] = None
    elif returncode < 0 or returncode >= 128:
        failed[CRASHED] = None
    elif summary is None:
        failed[STOPPED] = None
    # Failures reported in some other way are in the last list only, where blanks tell names apart.
    if names := re.search(r"^!Failures on these tests:(.*)", output, re.MULTILINE):
        others = names[1]
        for name in sorted(failed, key=len, reverse=True):
            others = others.replace(name, "")
        failed.update(dict.fromkeys(others.split()))
    if re.search(r"^\d+ files were left open", output, re.MULTILINE):
        failed[FILES_LEFT] = None
    if re.search(r"^Unfreed memory: ", output, re.MULTILINE):
        failed[MEMORY_LEFT] = None
    started = re.findall(r"^~ (.*)", output, re.MULTILINE)
    names = dict.fromkeys(name for name in started if not name.startswith("("))
    return {"count": len(started), "names": list(names), "complete": summary is not None, "failed": list(failed)}


def print_totals(label, results):
    ran = sum(result["count"] for result in results.values())
    failed = sum(len(result["failed"]) for result in results.values())
    print(f"{label}: {ran} tests, {failed} failed")


def find_differences(plain, packed):
    """`FILE:TEST` for every test that plain SQLite passes and Litepack does not pass, or does not reach."""
    differences = []
    for file, result in packed.items():
        before = plain[file]
        differences += [f"{file}:{test}" for test in result["failed"] if test not in before["failed"]]
        if result["complete"]:
            differences += [f"{file}:{test}{NOT_RUN}" for test in not_reached(before["names"], result["names"])]
    return differences


def not_reached(before, reached):
    """The tests that ran before and do not now. Some have random numbers in their names: of those there are as many."""
    def shape(test):
        return re.sub(r"\d+", "#", test)

    missing = Counter(map(shape, before)) - Counter(map(shape, reached))
    reached = set(reached)
    return [test for test in before if shape(test) in missing and test not in reached]


def read_reasons(path):
    """The lines of a list: something, a tab, and the reason for it."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        subject, _, reason = line.partition("\t")
        if not reason.strip():
            fail(f"{path}:{number}: no reason given")
        yield subject, reason


class Expected:
    """expected.tsv: `FILE:TEST`, a tab, and the reason. * stands for anything, {8..12} for each number from 8 to 12.

    Encrypted databases may differ as packed ones may, and in what expected_encrypted.tsv adds.
    """

    def __init__(self, options):
        paths = [options.expected]
        if options.encrypted:
            paths.append(options.expected.with_stem(options.expected.stem + "_encrypted"))
        self.name = paths[-1].name
        self.entries = []
        for path in paths:
            for pattern, _ in read_reasons(path):
                glob = re.compile(re.sub(r"\*|\{(\d+)\.\.(\d+)\}|.", expression, pattern))
                # What the last list adds to does not have to differ here as well.
                self.entries.append((pattern, glob, path is paths[-1]))

    def lists(self, difference):
        return any(glob.fullmatch(difference) for _, glob, _ in self.entries)

    def stale(self, differences, files):
        """Entries of the files that ran and that no difference needs any more."""
        for pattern, glob, may_be_stale in self.entries:
            if not may_be_stale:
                continue
            ran = any(fnmatch.fnmatchcase(file, pattern.split(":")[0]) for file in files)
            if ran and not any(glob.fullmatch(difference) for difference in differences):
                yield pattern


def expression(part):
    """The regular expression for a character, a * or a range of numbers of an entry of expected.tsv."""
    if part[0] == "*":
        return ".*"
    if part[1] is None:
        return re.escape(part[0])
    return "(?:" + "|".join(str(number) for number in range(int(part[1]), int(part[2]) + 1)) + ")"


def report(differences, expected, files):
    unlisted = [difference for difference in differences if not expected.lists(difference)]
    stale = list(expected.stale(differences, files))
    for pattern in stale:
        print(f"stale: {pattern} passes now; remove it from {expected.name}")
    for difference in unlisted:
        print(f"FAILED {difference}")
    print(f"{len(differences)} differences from plain SQLite: {len(differences) - len(unlisted)} listed, "
          f"{len(unlisted)} not listed; {len(stale)} stale entries")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
