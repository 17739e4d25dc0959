"""`litepack advise` as its users run it: as a table, JSON and a page of HTML, which a browser shows.

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import html.parser
import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import traceback

COMMAND = os.environ["LITEPACK_COMMAND"]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = '</script><img src=x onerror="console.error(1)"><b>"; drop table x; --'


def make(path):
    """A database with some of everything, and names that are markup and SQL."""
    quoted = EVIL.replace('"', '""')
    db = sqlite3.connect(path)
    db.executescript(
        f"""
        pragma synchronous = off;
        create table events(id integer primary key, data text, hash text);
        create index hashes on events(hash);
        create index more on events(hash, id);
        create table "{quoted}"("{quoted}" text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
        insert into events
        select i, json_object('user_id', hex(randomblob(4)), 'kind', 'click', 'n', i), lower(hex(randomblob(16))) from n;
        insert into "{quoted}" select data from events where id < 2000;
        """
    )
    db.close()


def advise(*arguments, expect=0):
    done = subprocess.run([COMMAND, "advise", *arguments], capture_output=True, timeout=60)
    assert done.returncode == expect, (done.returncode, done.stderr.decode())
    return (done.stdout if expect == 0 else done.stderr).decode()


def the_table_names_columns_ways_and_findings():
    make("a.db")
    before = open("a.db", "rb").read()
    text = advise("a.db")
    for words in ["packed best", "table events", "JSON", "hex text", 'DROP INDEX "hashes";', "recommended: packed"]:
        assert words in text, (words, text)
    assert "\x1b" not in text
    assert open("a.db", "rb").read() == before
    assert os.listdir() == ["a.db"]


def the_recommended_command_gives_what_it_promised():
    make("a.db")
    report = json.loads(advise("--json", "a.db"))
    command = report["recommendation"]["command"].split()
    assert command[0] == "litepack"
    subprocess.run([COMMAND, *command[1:]], check=True, capture_output=True)
    size = next(mode["size"] for mode in report["modes"] if mode["name"] == "packed")
    real = os.path.getsize(command[-1])
    assert abs(size["bytes"] / real - 1) < 0.05, (size, real)


def wrong_arguments_are_refused():
    make("a.db")
    for arguments in [["missing.db"], ["a.db", "--sample-mb", "0"], ["a.db", "--html", "a.db"], ["a.db", "--force"]]:
        assert advise(*arguments, expect=2), arguments
    open("page.html", "w").write("mine")
    assert "--force" in advise("a.db", "--html", "page.html", expect=2)
    assert open("page.html").read() == "mine"
    advise("a.db", "--html", "page.html", "--force")
    assert open("page.html").read().startswith("<!doctype html>")


class Figures(html.parser.HTMLParser):
    """The figures of a page, and what else is in it."""

    def __init__(self, page):
        super().__init__()
        self.figures, self.trees, self.findings, self.tags, self.ids = {}, [], [], set(), []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.add(tag)
        self.ids += [attributes["id"]] if "id" in attributes else []
        value = attributes.get("data-value")
        if "data-figure" in attributes:
            self.figures[attributes["data-figure"]] = int(value)
        if "data-tree" in attributes:
            self.trees.append(int(value))
        if "data-finding" in attributes:
            self.findings.append((attributes["data-finding"], int(value)))


def expect_figures(page, report):
    found = Figures(page)
    modes = {mode["name"]: mode["size"]["bytes"] for mode in report["modes"] if mode["size"]}
    assert found.figures == {"database_bytes": report["database_bytes"], **modes}, found.figures
    assert found.trees == [tree["bytes"] for tree in report["trees"]]
    assert found.findings == [(finding["kind"], finding["saves_bytes"]) for finding in report["findings"]]
    assert len(set(found.ids)) == len(found.ids)
    return found


def the_page_has_the_figures_of_json_and_no_markup_of_others():
    make("a.db")
    report = json.loads(advise("--json", "a.db", "--html", "page.html"))
    page = open("page.html").read()
    found = expect_figures(page, report)
    assert "img" not in found.tags and "b" not in found.tags, found.tags
    assert page.count("<script") == 1
    # Nothing is fetched.
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert re.search(r"lang=.en.", page) and "<main>" in page and 'role="img"' in page


def browse(width, *options):
    arguments = [
        "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", f"--window-size={width},900",
    ]
    place = f"--user-data-dir={os.getcwd()}/profile"
    url = f"file://{os.getcwd()}/page.html"
    done = subprocess.run([BROWSER, *arguments, place, *options, url], capture_output=True, timeout=60)
    log = done.stderr.decode(errors="replace")
    assert "CONSOLE" not in log, log
    return done.stdout.decode()


def a_browser_shows_the_page_without_an_error():
    if not BROWSER:
        print("no Chromium here: skipped", flush=True)
        return
    make("a.db")
    report = json.loads(advise("--json", "a.db", "--html", "page.html"))
    expect_figures(browse(1200, "--dump-dom"), report)
    for width in [1200, 400]:
        browse(width, f"--screenshot={os.getcwd()}/{width}.png")
        assert os.path.getsize(f"{width}.png") > 10_000
    # The check can fail: an error of a page is seen.
    page = open("page.html").read()
    open("page.html", "w").write(page.replace("<script>", "<script>missing();"))
    try:
        browse(1200, "--dump-dom")
    except AssertionError:
        return
    raise AssertionError("an error in the page was not seen")


CHECKS = [
    the_table_names_columns_ways_and_findings,
    the_recommended_command_gives_what_it_promised,
    wrong_arguments_are_refused,
    the_page_has_the_figures_of_json_and_no_markup_of_others,
    a_browser_shows_the_page_without_an_error,
]

for check in CHECKS:
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        try:
            check()
            print(f"ok advise: {check.__name__.replace(chr(95), chr(32))}", flush=True)
        except Exception:
            traceback.print_exc()
            print(f"FAILED advise: {check.__name__.replace(chr(95), chr(32))}", flush=True)
        os.chdir("/")
print("end of part")
