#!/usr/bin/env python3
"""Runs the test suites of clients of SQLite on plain databases and on packed ones, and compares test by test.

A suite is the client's own, of a pinned version, from its registry. In the packed run SQLite gets Litepack from
`litepack run`, and `inside/sitecustomize.py` has new databases be packed; nothing else is changed. A test that passes
on plain SQLite and fails packed, or does not run there, must be listed in expected.tsv with the reason. Exit code: 0 no
unlisted difference, 1 some, or no packed file was made, 2 a suite could not be had or run.
"""

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
INSIDE = HERE / "inside"
RESULT = HERE / "result.json"
# Later ones count: a test that passes and whose end fails has failed.
ORDER = ("passed", "skipped", "failed")


@dataclass
class Client:
    """A suite: where it comes from, and how it is run."""

    name: str
    version: str
    # Of the source distribution, which has the tests, or of Go's module; none if they are in what is installed.
    hash: str
    # (the client's place, a directory for databases) -> arguments for its Python, and the directory to start it in
    suite: Callable
    unittest: bool = False
    # A Python that has the tests already.
    python: Callable | None = None
    language: str = "Python"
    # It has a SQLite of its own, which `litepack run` does not reach: the suite loads the extension.
    own_sqlite: bool = False
    seconds: int = 3600


def with_pytest(*arguments):
    """pytest as installed, with the plugin that writes outcomes, and no files in the source."""
    return ["-m", "pytest", "-p", "outcomes", "-p", "no:cacheprovider", "-q", "--no-header", *arguments]


def of_sqlite_utils(source, _):
    return with_pytest("tests"), source


def of_sqlalchemy(source, scratch):
    paths = ["test/dialect/sqlite", "test/dialect/test_suite.py", "test/engine", "test/sql", "test/orm/test_query.py",
             "test/orm/test_unitofworkv2.py", "test/orm/test_transaction.py", "test/orm/test_session.py"]
    paths = [path for path in paths if (source / path).exists()]
    return with_pytest("--dburi", f"sqlite:///{scratch}/test.db", "--maxfail", "1000000", *paths), source


DJANGO = """backends transactions transaction_hooks atomic_requests introspection inspectdb schema migrations
    migrate_signals indexes constraints db_functions expressions expressions_case expressions_window aggregation
    aggregation_regress annotations queries lookup ordering bulk_create update delete get_or_create basic
    many_to_many many_to_one one_to_one fixtures fixtures_regress model_fields select_for_update select_related
    prefetch_related dates datetimes timezones cache sessions_tests multiple_database raw_query test_utils"""


def of_django(source, scratch):
    os.makedirs(scratch, exist_ok=True)
    chosen = [name for name in DJANGO.split() if (source / "tests" / name).exists()]
    settings = ["--settings", "django_settings", "--parallel", "1", "--noinput", "--verbosity", "0"]
    return ["runtests.py", *settings, *chosen], source / "tests"


def of_cpython(_, scratch):
    return ["-m", "unittest", "test.test_sqlite3"], Path(scratch)


def of_apsw(_, scratch):
    # Its databases are where it is started.
    return [INSIDE / "apsw_suite.py"], Path(scratch)


def of_go(source, _):
    # A test program that is started by itself, in the source, as `go test` starts it.
    return ["-test.v", "-test.count=1"], source


def python_with_tests():
    """One whose own tests of sqlite3 are there; Debian's has none."""
    for name in (os.environ.get("LITEPACK_CPYTHON"), "python3", "/usr/bin/python3"):
        found = name and shutil.which(name)
        if found and subprocess.run([found, "-c", "import test.test_sqlite3"], capture_output=True).returncode == 0:
            return subprocess.run([found, "-c", "import sys; print(sys.executable)"], capture_output=True,
                                  text=True).stdout.strip()
    return None


CLIENTS = [
    Client("cpython", "of the machine", "", of_cpython, unittest=True, python=python_with_tests),
    Client("sqlite-utils", "4.2.1", "76114b6a5414714e6c70e5fa5c4781b301b590f6951b5da39c8cc60c21382ba1",
           of_sqlite_utils),
    Client("sqlalchemy", "2.1.9", "d700a8b2edfb26282a470333d6bc4a454c4acda4d201a3bea7b72fa76c217d28",
           of_sqlalchemy, seconds=7200),
    Client("apsw", "3.54.1.0", "", of_apsw, unittest=True, own_sqlite=True),
    Client("go-sqlite3", "1.14.53", "h1:mnTM0owzUMrKuLo+0w51NUiB0ir2Fo7kFXlPt/l3BGs=", of_go, language="Go"),
    Client("django", "5.2.19", "ad03d8abc51dbff95ebf34b27123cf0c26a3b62db7ba0cd520783686362533d1",
           of_django, unittest=True, seconds=7200),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("clients", nargs="*", help=f"of {', '.join(client.name for client in CLIENTS)} (default: all)")
    parser.add_argument("--command", type=Path, default=ROOT / "target/release/litepack")
    parser.add_argument("--preload", type=Path, help="what `litepack run` loads (default: what it finds by itself)")
    parser.add_argument("--kept", type=Path, default=ROOT / "target/clients", help="for sources, environments and logs")
    parser.add_argument("--only", help="run tests with this in their names alone (pytest and unittest: -k)")
    parser.add_argument("--write-docs", action="store_true", help="write result.json, for docs/testing.md")
    options = parser.parse_args()
    if unknown := set(options.clients) - {client.name for client in CLIENTS}:
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    return options


class Unavailable(Exception):
    """Why a suite cannot be had or run."""


def run(arguments, **options):
    done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, **options)
    if done.returncode:
        raise Unavailable(f"{' '.join(map(str, arguments))}: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout


class Suite:
    def __init__(self, client, options):
        self.client, self.options = client, options
        self.place = (options.kept / client.name).resolve()
        self.place.mkdir(parents=True, exist_ok=True)

    def get(self):
        """The environment with what the suite needs, and its source, each made once."""
        if self.client.language == "Go":
            return self.get_go()
        if self.client.python:
            self.python, self.source = self.client.python(), None
            if not self.python:
                raise Unavailable("no Python here has test.test_sqlite3: LITEPACK_CPYTHON names one that has")
            return
        needs = HERE / "requirements" / f"{self.client.name}.txt"
        environment, complete = self.place / "environment", self.place / "requirements.txt"
        if not complete.exists() or complete.read_text() != needs.read_text():
            complete.unlink(missing_ok=True)
            shutil.rmtree(environment, ignore_errors=True)
            run(["/usr/bin/python3", "-m", "venv", environment])
            run([environment / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", needs])
            shutil.copy(needs, complete)
        self.python = str(environment / "bin/python")
        self.source = self.place / f"source-{self.client.version}"
        if self.client.hash and not self.source.exists():
            self.unpack()

    def get_go(self):
        """The module's test program, linked to the system's SQLite, and what has new databases be packed."""
        for tool in ("go", "cc"):
            if not shutil.which(tool):
                raise Unavailable(f"there is no {tool}")
        modules, self.helper = self.place / "modules", self.place / "packed.so"
        environment = os.environ | {"GOMODCACHE": str(modules), "GOFLAGS": "-modcacherw -mod=mod"}
        module = f"github.com/mattn/{self.client.name}@v{self.client.version}"
        empty = self.place / "empty"
        empty.mkdir(exist_ok=True)
        (empty / "go.mod").write_text("module clients\n")
        got = json.loads(run(["go", "mod", "download", "-json", module], cwd=empty, env=environment))
        if got["Sum"] != self.client.hash:
            raise Unavailable(f"{module} is {got['Sum']}, not {self.client.hash}")
        self.source, self.python = Path(got["Dir"]), str(self.place / "suite")
        tags = "libsqlite3 sqlite_fts5 sqlite_json sqlite_math_functions"
        run(["go", "test", "-c", "-tags", tags, "-o", self.python, "."], cwd=self.source, env=environment)
        run(["cc", "-shared", "-fPIC", "-O1", "-o", self.helper, INSIDE / "packed.c", "-ldl", "-lsqlite3"])

    def unpack(self):
        """The source distribution, whose bytes are those that were meant."""
        with tempfile.TemporaryDirectory(dir=self.place) as got:
            run([self.python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                 "--no-binary", self.client.name, "--dest", got, f"{self.client.name}=={self.client.version}"])
            (archive,) = Path(got).iterdir()
            found = hashlib.sha256(archive.read_bytes()).hexdigest()
            if found != self.client.hash:
                raise Unavailable(f"{archive.name} has SHA-256 {found}, not {self.client.hash}")
            with tarfile.open(archive) as file:
                file.extractall(got)
            (top,) = (path for path in Path(got).iterdir() if path.is_dir())
            top.rename(self.source)

    def outcomes(self, packed):
        """(the outcome of each test, how many databases were packed and plain in the end, seconds)"""
        label = "packed" if packed else "plain"
        # The same name in both runs, as tests are named by paths, too.
        scratch = Path(tempfile.gettempdir()) / f"litepack-client-{self.client.name}"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        arguments, folder = self.client.suite(self.source, str(scratch / "databases"))
        (scratch / "databases").mkdir(exist_ok=True)
        begun = time.monotonic()
        self.start(label, self.command(packed, arguments), folder, self.environment(packed, scratch))
        if self.client.language == "Go":
            self.write_outcomes_of_go(label, scratch)
        found = read_outcomes(scratch / "outcomes")
        if not found:
            raise Unavailable(f"no test ran: see {self.place / label}.log")
        files = scratch / "files"
        seen = [tuple(map(int, line.split())) for line in files.read_text().splitlines()] if files.exists() else []
        shutil.rmtree(scratch, ignore_errors=True)
        return found, tuple(map(sum, zip(*seen))) or (0, 0), round(time.monotonic() - begun)

    def command(self, packed, arguments):
        command = [self.python, *arguments, *(["-k", self.options.only] if self.options.only else [])]
        if not packed or self.client.own_sqlite:
            return command
        preload = ["--preload", self.options.preload.resolve()] if self.options.preload else []
        return [self.options.command.resolve(), "run", *preload, "--", *command]

    def environment(self, packed, scratch):
        """Of the machine's own only the path of programs."""
        of_python = [INSIDE, self.source] if self.client.hash else [INSIDE]
        environment = {
            "PATH": os.environ["PATH"], "HOME": scratch, "TMPDIR": scratch / "databases", "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(map(str, of_python)), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "1",
            "LITEPACK_CLIENT_OUTCOMES": scratch / "outcomes", "LITEPACK_CLIENT_FILES": scratch / "files",
            "LITEPACK_CLIENT_DATABASES": scratch / "databases",
        }
        if self.client.unittest:
            environment["LITEPACK_CLIENT_UNITTEST"] = "1"
        if self.client.language == "Go":
            environment["LD_PRELOAD"] = self.helper
        if packed:
            environment["LITEPACK_CLIENT_PACKED"] = "1"
        if packed and self.client.own_sqlite:
            environment["LITEPACK_CLIENT_EXTENSION"] = self.options.command.resolve().parent / "liblitepack.so"
        return {name: str(value) for name, value in environment.items()}

    def start(self, label, command, folder, environment):
        with open(self.place / f"{label}.log", "wb") as output:
            process = subprocess.Popen(list(map(str, command)), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                process.wait(timeout=self.client.seconds)
            except subprocess.TimeoutExpired:
                print(f"{self.client.name}, {label}: ended after {self.client.seconds} seconds", flush=True)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def write_outcomes_of_go(self, label, scratch):
        words = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
        said = (self.place / f"{label}.log").read_text(errors="replace")
        ended = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", said, re.M)
        (scratch / "outcomes").write_text("".join(f"{words[how]}\t{name}\n" for how, name in ended))

    def version(self):
        if self.client.python:
            return run([self.python, "-c", "import platform; print(platform.python_version())"]).strip()
        return self.client.version


def read_outcomes(path):
    """The outcome of each test, the worst that it had."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        outcome, name = line.split("\t", 1)
        # Names may hold addresses.
        name = re.sub(r"0x[0-9a-f]{6,}", "0x", name)
        found[name] = max(outcome, found.get(name, outcome), key=ORDER.index)
    return found


def read_reasons(path):
    """(pattern of CLIENT:TEST, reason)"""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line and not line.startswith("#"):
            subject, _, reason = line.partition("\t")
            if not reason.strip():
                print(f"error: {path}:{number}: no reason given", file=sys.stderr)
                sys.exit(2)
            yield subject


def matches(pattern, name):
    """* stands for anything, all else for itself."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.S) is not None


def compare(suite, expected):
    """Prints what differs; the summary of the client."""
    name = suite.client.name
    plain, files_of_plain, took_plain = suite.outcomes(packed=False)
    packed, files, took = suite.outcomes(packed=True)
    passed = [test for test, outcome in plain.items() if outcome == "passed"]
    differs = {f"{name}:{test}": packed.get(test, "not run") for test in passed if packed.get(test) != "passed"}
    mine = [pattern for pattern in expected if pattern.startswith(f"{name}:")]
    unlisted = {test: outcome for test, outcome in differs.items() if not any(matches(one, test) for one in mine)}
    # Of a part of the suite it cannot be told.
    stale = [] if suite.options.only else [one for one in mine if not any(matches(one, test) for test in differs)]
    for test, outcome in unlisted.items():
        print(f"FAILED {test}: {outcome}")
    for pattern in stale:
        print(f"stale: {pattern} passes now; remove it from expected.tsv")
    print(f"{name} {suite.version()}: {len(plain)} tests in {took_plain} s plain, {took} s packed; {len(passed)} pass on "
          f"plain SQLite, of these {len(differs)} not packed, {len(differs) - len(unlisted)} listed. Databases that were "
          f"seen: plain run {files_of_plain[1]} plain, packed run {files[0]} packed and {files[1]} plain", flush=True)
    if not files[0]:
        print(f"FAILED {name}: no packed database was made")
    if files_of_plain[0]:
        print(f"FAILED {name}: the plain run made packed databases")
    return {
        "date": str(datetime.date.today()), "commit": commit(), "version": suite.version(), "tests": len(plain),
        "pass_plain": len(passed), "differ": len(differs), "not_listed": len(unlisted), "packed_files": files[0], "plain_files_in_the_packed_run": files[1],
        "bad": bool(unlisted or not files[0] or files_of_plain[0]),
    }


def commit():
    git = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(git, capture_output=True, text=True).stdout.strip()


def main():
    options = parse_arguments()
    if not options.command.exists():
        print(f"error: {options.command} does not exist\n\nhint: make build", file=sys.stderr)
        sys.exit(2)
    expected = list(read_reasons(HERE / "expected.tsv"))
    results, unavailable = {}, []
    for client in CLIENTS:
        if options.clients and client.name not in options.clients:
            continue
        suite = Suite(client, options)
        try:
            suite.get()
            results[client.name] = compare(suite, expected)
        except Unavailable as why:
            unavailable.append(client.name)
            print(f"skipped: test-clients {client.name}: {why}", flush=True)
    if options.write_docs and not options.only:
        written = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {"clients": {}}
        written["clients"] |= {name: {key: one[key] for key in one if key != "bad"} for name, one in results.items()}
        RESULT.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    bad = [name for name, one in results.items() if one["bad"]]
    print(f"{len(results) - len(bad)} suites passed, {len(bad)} failed, {len(unavailable)} could not be run")
    sys.exit(1 if bad else 2 if unavailable else 0)


if __name__ == "__main__":
    main()
