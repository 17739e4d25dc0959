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
    done = subprocess.run([COMMAND, "advise", *arguments], capture_output=True, timeout=600)
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


def luminance(colour):
    colour = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def the_page_can_be_heard_and_read_in_both_schemes():
    make("a.db")
    advise("a.db", "--html", "page.html")
    page = open("page.html").read()
    for table in re.findall(r"<table>.*?</table>", page, re.S):
        assert "<caption" in table, table[:200]
        assert all('scope="col"' in head for head in re.findall(r"<th [^>]*>", table.split("<tbody>")[0]))
        rows = table.split("<tbody>")[1].count("<tr")
        assert rows == table.count('<th scope="row">') > 0, table[:500]
    assert [page.count(f"<{tag}") for tag in ["main", "h1", "header>"]] == [1, 1, 1]
    for section in re.findall(r'<section[^>]*aria-labelledby="([^"]*)"', page):
        assert f'id="{section}"' in page
    assert ":focus-visible" in page and 'role="img" aria-label=' in page
    # Paper is white.
    assert page.count("prefers-color-scheme") == page.count("@media screen and (prefers-color-scheme: dark)") == 1
    light, dark = page.split("@media screen", 1)
    for scheme in [light, dark.split("}")[0]]:
        colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]+)", scheme))
        for text, back in [("ink", "back"), ("ink", "panel"), ("soft", "back"), ("soft", "panel")]:
            assert contrast(colours[text], colours[back]) >= 4.5, (text, back)
        for at in range(7):
            text = "on-light" if at < 4 else "on-dark"
            assert contrast(colours[text], colours[f"s{at}"]) >= 4.5, (at, scheme[:80])


def a_packed_file_has_the_page_too():
    make("a.db")
    subprocess.run([COMMAND, "pack", "a.db", "b.db"], check=True, capture_output=True)
    done = subprocess.run([COMMAND, "info", "b.db", "--json", "--html", "page.html"], check=True, capture_output=True)
    info = json.loads(done.stdout)
    found = Figures(open("page.html").read())
    assert found.figures["packed"] == os.path.getsize("b.db") == info["file_bytes"], found.figures
    again = subprocess.run([COMMAND, "info", "b.db", "--html", "page.html"], capture_output=True)
    assert again.returncode == 2 and b"--force" in again.stderr
    before = open("b.db", "rb").read()
    over = subprocess.run([COMMAND, "info", "b.db", "--html", "b.db", "--force"], capture_output=True)
    assert over.returncode == 2 and open("b.db", "rb").read() == before


def browse(width, *options, page="page.html"):
    arguments = [
        "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0", f"--window-size={width},900",
    ]
    place = f"--user-data-dir={os.getcwd()}/profile"
    url = f"file://{os.getcwd()}/{page}"
    done = subprocess.run([BROWSER, *arguments, place, *options, url], capture_output=True, timeout=600)
    log = done.stderr.decode(errors="replace")
    assert "CONSOLE" not in log, log
    return done.stdout.decode()


def a_browser_shows_the_page_without_an_error():
    if not BROWSER:
        print("skipped: advise.py: no Chromium to show the page in", flush=True)
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


# A window of Chromium is not as narrow as a telephone; a frame is. Beyond its right edge lies nothing but what can be
# scrolled to.
NARROW = """<iframe id=frame src=page.html style="width:420px;height:900px;border:0"></iframe><pre id=found></pre><script>
onload = () => {
  const page = frame.contentDocument, width = page.documentElement.clientWidth + 0.5;
  const right = (element) => element.getBoundingClientRect().right;
  const scrolls = (element) => element && (
    /auto|scroll/.test(frame.contentWindow.getComputedStyle(element).overflowX) && right(element) <= width
    || scrolls(element.parentElement));
  const cut = [...page.body.querySelectorAll("*")].filter((element) => right(element) > width && !scrolls(element));
  const column = [...page.querySelectorAll("th")].find((cell) => cell.textContent.trim() === "smaller");
  found.textContent = JSON.stringify({
    cut: cut.map((element) => element.outerHTML.slice(0, 100)),
    over: page.documentElement.scrollWidth > width,
    seen: Boolean(column) && right(column) <= width,
  });
};
</script>"""


def narrow():
    with open("narrow.html", "w") as file:
        file.write(NARROW)
    shown = browse(1200, "--allow-file-access-from-files", "--virtual-time-budget=10000", "--dump-dom", page="narrow.html")
    return json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', shown)[1]))


def on_a_narrow_screen_nothing_is_cut():
    if not BROWSER:
        print("skipped: advise.py: no Chromium to show the page in", flush=True)
        return
    make("a.db")
    advise("a.db", "--html", "page.html")
    assert narrow() == {"cut": [], "over": False, "seen": True}, narrow()
    # The check can fail.
    page = open("page.html").read()
    open("page.html", "w").write(page.replace("</main>", "<div style='width:500px'>wide</div></main>"))
    assert narrow()["over"] and narrow()["cut"], "what is too wide was not seen"


CHECKS = [
    the_table_names_columns_ways_and_findings,
    the_recommended_command_gives_what_it_promised,
    wrong_arguments_are_refused,
    the_page_has_the_figures_of_json_and_no_markup_of_others,
    the_page_can_be_heard_and_read_in_both_schemes,
    a_packed_file_has_the_page_too,
    a_browser_shows_the_page_without_an_error,
    on_a_narrow_screen_nothing_is_cut,
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
