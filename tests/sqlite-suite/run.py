#!/usr/bin/env python3
"""Runs SQLite's own test suite on plain SQLite and on Litepack, and compares.

Each test file of the `veryquick` set runs in a testfixture process of its own, as an ordinary user, first with
plain SQLite and then with the extension as the default VFS and new databases packed. A test that fails only on
Litepack must be listed, with its reason, in expected.tsv. Exit code: 0 no unlisted difference, 1 some, 2 the
suite could not run.
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
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / "target" / "sqlite-suite"
SOURCE = "sqlite3-3.40.1"

# What ends a testfixture run besides failed tests; in brackets so that no test has the same name.
CRASHED, TIMED_OUT, STOPPED = "(crash)", "(timeout)", "(stopped by an error)"
FEWER, FILES_LEFT, MEMORY_LEFT = "(fewer tests)", "(files left open)", "(memory not freed)"

UNPRIVILEGED = "nobody"

# Seconds for one file with plain SQLite.
PLAIN_LIMIT = 300

# How many times as long as plain SQLite a file may take, once that is more than the time limit.
SLOWDOWN = 20

# A test gone wild must not take the machine with it.
LIMITS = ["prlimit", "--core=0", f"--as={8 << 30}", f"--fsize={8 << 30}"]


def main():
    options = parse_arguments()
    build()
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
                        help="test files to run, * allowed (default: the veryquick set)")
    parser.add_argument("--extension", type=Path, default=ROOT / "target" / "release" / "liblitepack.so")
    parser.add_argument("--entry", default="sqlite3_litepackdefault_init", help="entry point of the extension")
    parser.add_argument("--sql", default="select litepack_new_databases('packed')",
                        help="statement to run after loading; '' for none")
    parser.add_argument("--expected", type=Path, default=HERE / "expected.tsv")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="files to run at a time")
    parser.add_argument("--timeout", type=int, default=60,
                        help="seconds for one file; a file gets more if plain SQLite needed long for it")
    parser.add_argument("--fresh", action="store_true", help="run plain SQLite again instead of using kept results")
    parser.add_argument("--baseline-only", action="store_true", help="run plain SQLite and nothing else")
    return parser.parse_args()


def build():
    if subprocess.run([HERE / "build", CACHE]).returncode != 0:
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
        shutil.copytree(CACHE / SOURCE, stage / SOURCE, ignore=shutil.ignore_patterns("fuzzdata*.db", "www"))
        shutil.copy(CACHE / "build" / "testfixture", stage / "testfixture")
        shutil.copy(CACHE / "build" / "sqlite3-shell", stage / "sqlite3")
        shutil.copy(HERE / "list_files.tcl", stage / "list_files.tcl")
        if not options.baseline_only:
            if not options.extension.exists():
                fail(f"{options.extension} does not exist\n\nhint: cargo build --release -p litepack-loadable")
            shutil.copy(options.extension, stage / "extension.so")
        subprocess.run(["chmod", "-R", "a+rX", stage], check=True)
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(stage, owner.pw_uid, owner.pw_gid)
        self.tests = stage / SOURCE / "test"

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
        packed = self.run_files("packed", limits, self.extension_environment())
        print_totals("Litepack", packed)
        return report(find_differences(plain, packed), Expected(self.options.expected), files)

    def extension_environment(self):
        environment = {"SUITE_EXTENSION": str(self.stage / "extension.so"), "SUITE_ENTRY": self.options.entry}
        if self.options.sql:
            environment["SUITE_SQL"] = self.options.sql
        return environment

    def select_files(self):
        work = self.new_work_directory()
        command = ["./testfixture", "list_files.tcl", str(self.tests), str(work)]
        # With the extension, to find out now if it does not load.
        environment = {} if self.options.baseline_only else self.extension_environment()
        listing = self.start(command, work, environment, subprocess.PIPE)
        output, _ = listing.communicate()
        if listing.returncode != 0:
            fail(f"testfixture does not run:\n{output.decode(errors='replace')}")
        veryquick = [line for line in output.decode().split("\n") if line.endswith(".test")]
        if not self.options.files:
            return veryquick
        everything = sorted({path.name for path in (self.stage / SOURCE).rglob("*.test")})
        chosen = []
        for pattern in self.options.files:
            matches = fnmatch.filter(everything, pattern) or fnmatch.filter(everything, pattern + ".test")
            if not matches:
                fail(f"no test file matches {pattern}")
            chosen += [file for file in matches if file not in chosen]
        return chosen

    def plain_results(self, files):
        """Results of plain SQLite, kept between runs: they change only with testfixture itself."""
        kept_file = CACHE / "plain.json"
        built = (CACHE / "build" / "testfixture").stat().st_mtime
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
        logs = CACHE / "logs" / label
        logs.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        results = {}
        files = list(limits)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            runs = {pool.submit(self.run_file, file, limits[file], environment, logs): file for file in files}
            for run in concurrent.futures.as_completed(runs):
                results[runs[run]] = run.result()
                if sys.stderr.isatty():
                    print(f"\r{label}: {len(results)} of {len(files)} files", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)
        print(f"{label}: {len(files)} files in {time.monotonic() - started:.0f} s, logs in {logs}")
        return {file: results[file] for file in files}

    def run_file(self, file, limit, environment, logs):
        work = self.new_work_directory()
        command = ["./testfixture", str(self.tests / "permutations.test"), "veryquick", file, f"--testdir={work}"]
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
        work = self.stage / f"work{next(self.work_numbers)}"
        work.mkdir()
        if self.user:
            owner = pwd.getpwnam(self.user)
            os.chown(work, owner.pw_uid, owner.pw_gid)
        return work


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def parse_output(output, returncode, timed_out):
    """The tests that ran and failed, from what tester.tcl prints."""
    failed = dict.fromkeys(re.findall(r"^! (.*?) expected: \[", output, re.MULTILINE))
    failed.update(dict.fromkeys(re.findall(r"^(.*)\.\.\.\nError: ", output, re.MULTILINE)))
    summary = re.search(r"^(\d+) errors out of (\d+) tests", output, re.MULTILINE)
    if timed_out:
        failed[TIMED_OUT] = None
    elif returncode < 0 or returncode >= 128:
        failed[CRASHED] = None
    elif summary is None:
        failed[STOPPED] = None
    elif int(summary[1]) > len(failed):
        # Failures reported in some other way are in the last list, where names cannot contain blanks.
        names = re.search(r"^!Failures on these tests:(.*)", output, re.MULTILINE)
        failed.update(dict.fromkeys(names[1].split() if names else []))
    if re.search(r"^\d+ files were left open", output, re.MULTILINE):
        failed[FILES_LEFT] = None
    if re.search(r"^Unfreed memory: ", output, re.MULTILINE):
        failed[MEMORY_LEFT] = None
    ran = int(summary[2]) if summary else len(re.findall(r"\.\.\. Ok$", output, re.MULTILINE)) + len(failed)
    return {"ran": ran, "complete": summary is not None, "failed": list(failed)}


def print_totals(label, results):
    ran = sum(result["ran"] for result in results.values())
    failed = sum(len(result["failed"]) for result in results.values())
    print(f"{label}: {ran} tests, {failed} failed")


def find_differences(plain, packed):
    """`FILE:TEST` for every test that plain SQLite passes and Litepack does not."""
    differences = []
    for file, result in packed.items():
        before = plain[file]
        differences += [f"{file}:{test}" for test in result["failed"] if test not in before["failed"]]
        if result["complete"] and result["ran"] < before["ran"]:
            differences.append(f"{file}:{FEWER}")
    return differences


class Expected:
    """expected.tsv: `FILE:TEST`, where * stands for anything, a tab, and the reason."""

    def __init__(self, path):
        self.path = path
        self.entries = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line or line.startswith("#"):
                continue
            pattern, _, reason = line.partition("\t")
            if not reason.strip():
                fail(f"{path}:{number}: no reason given")
            glob = re.compile(".*".join(re.escape(part) for part in pattern.split("*")))
            self.entries.append((pattern, glob))

    def lists(self, difference):
        return any(glob.fullmatch(difference) for _, glob in self.entries)

    def stale(self, differences, files):
        """Entries of the files that ran and that no difference needs any more."""
        for pattern, glob in self.entries:
            ran = any(fnmatch.fnmatchcase(file, pattern.split(":")[0]) for file in files)
            if ran and not any(glob.fullmatch(difference) for difference in differences):
                yield pattern


def report(differences, expected, files):
    unlisted = [difference for difference in differences if not expected.lists(difference)]
    stale = list(expected.stale(differences, files))
    for pattern in stale:
        print(f"stale: {pattern} passes now; remove it from {expected.path.name}")
    for difference in unlisted:
        print(f"FAILED {difference}")
    print(f"{len(differences)} differences from plain SQLite: {len(differences) - len(unlisted)} listed, "
          f"{len(unlisted)} not listed; {len(stale)} stale entries")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
