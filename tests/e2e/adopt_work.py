"""What programs do that are not given SQL: a desktop program, servers, Home Assistant. For `adopt`.

Each function does the same on a plain and on a packed database, and returns what the program says of it in the end. Its
arguments are the program, what is put before its command, the folder of the database, and the journal mode.
"""

import contextlib
import html
import http.cookiejar
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

# Seconds that something may take on a busy machine.
PATIENCE = 120


def said(command, **options):
    """What a program has printed. It has ended well, and said nothing else."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout.strip()


def asked(runner, folder, *sql):
    return said([*runner, "sqlite3", "-cmd", f".timeout {PATIENCE}000", "a.db", *sql], cwd=folder)


def until(holds):
    """Waits until something holds, and returns that."""
    end = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.2)
    return found


# Called by names of their own


def by_utils(program, runner, folder, mode):
    """A process for each statement, and it has transactions of its own."""
    call = [*runner, *program.command]
    said([*call, "enable-wal" if mode == "wal" else "disable-wal", "a.db"], cwd=folder)
    said([*call, "query", "a.db", "update t set name = 'changed' where id % 3 = 0"], cwd=folder)
    said([*call, "insert", "a.db", "new", "-"], cwd=folder, input='[{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]')
    said([*call, "vacuum", "a.db"], cwd=folder)
    return said([*call, "query", "a.db", "select count(*), sum(id), max(name) from t"], cwd=folder)


def make_copy(folder):
    """A working copy of Subversion; the path of its database."""
    copy = Path(folder, "copy")
    said(["svnadmin", "create", folder + "/repository"])
    said(["svn", "checkout", "--quiet", f"file://{folder}/repository", copy])
    for number in range(200):
        copy.joinpath(f"file{number}").write_text(f"{number}\n")
    said(["svn", "add", "--quiet", *(f"file{number}" for number in range(200))], cwd=copy)
    said(["svn", "commit", "--quiet", "-m", "first"], cwd=copy)
    return str(copy / ".svn/wc.db")


def by_svn(program, runner, folder, mode):
    call, copy = [*runner, *program.command], Path(folder, "copy")
    for number in range(200, 300):
        copy.joinpath(f"file{number}").write_text(f"{number}\n")
    copy.joinpath("file1").write_text("changed\n")
    said([*call, "add", "--quiet", *(f"file{number}" for number in range(200, 300))], cwd=copy)
    said([*call, "commit", "--quiet", "-m", "more"], cwd=copy)
    said([*call, "move", "--quiet", "file2", "file3-moved"], cwd=copy)
    return state(runner, copy)


def state(runner, copy):
    return said([*runner, "svn", "status"], cwd=copy) + said([*runner, "svn", "info", "--show-item", "revision"], cwd=copy)


def of_copy(path):
    """Its database has times, so that no two are the same."""
    return state([], Path(path).parents[1])


def by_vscode(program, runner, folder, mode):
    """What the extension `SQLite` of VS Code starts, and what it writes to it: `sqlite.sqlite3` is the script."""
    script = Path(folder, "packed-sqlite3")
    script.write_text(f'#!/bin/sh\nexec {" ".join([*runner, *program.command])} "$@"\n')
    script.chmod(0o755)
    # By this it knows that it is SQLite's shell. If not, it takes one of its own.
    assert re.match(r"3\.\d+\.\d+ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", said([script, "-version"]))
    lines = [f".open '{folder}/a.db'", "select 1 from sqlite_master;", ".print end"]
    for sql in [f"pragma journal_mode = {mode};", "update t set name = 'x, y' where id < 9;", "select * from t where id < 12;"]:
        lines += [sql, ".print end"]
    call = [script, "-csv", "-header", "-bail", "-nullvalue", "NULL"]
    return said(call, input="\n".join([*lines, ".exit", ""]), cwd=folder)


# Servers


@contextlib.contextmanager
def served(command, folder, **options):
    """Starts a server, and stops it. `{port}` in the command is a free port; gives the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        command = [str(part).format(port=port) for part in command]
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **options)

        def answers():
            assert server.poll() is None, log.seek(0) or log.read()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        try:
            until(answers)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(PATIENCE)
            finally:
                server.kill()


def by_datasette(program, runner, folder, mode):
    """It opens the database to read, and with `--immutable` without locks."""
    asked(runner, folder, f"pragma journal_mode = {mode}", "update t set name = 'x' where id % 3 = 0")
    found = []
    for option in [[], ["--immutable"]]:
        call = [*runner, *program.command, *option, "a.db", "--port", "{port}"]
        with served(call, folder) as address:
            for page in ["/a/t.json?_size=50&_sort_desc=id", "/a.json?sql=select+count(*),+max(name)+from+t", "/a/t/7.json"]:
                with urllib.request.urlopen(address + page, timeout=PATIENCE) as answer:
                    page = json.load(answer)
                found.append((page["rows"], page.get("filtered_table_rows_count")))
    return repr(found)


def by_phpliteadmin(program, runner, folder, mode):
    """In a browser: its page for SQL, and the one that vacuums."""
    for part in ["phpliteadmin.php", "languages"]:
        os.symlink(f"/usr/share/phpliteadmin/{part}", f"{folder}/{part}")
    # It finds databases by how plain ones begin; so a packed one is named.
    Path(folder, "phpliteadmin.config.php").write_text(
        "<?php $directory = false; $password = ''; $databases = [['path' => 'a.db', 'name' => 'a']];"
    )
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    with served([*runner, *program.command, "127.0.0.1:{port}", "-t", folder], folder) as address:

        def page(view, **form):
            data = urllib.parse.urlencode(form).encode() if form else None
            with browser.open(f"{address}/phpliteadmin.php?view={view}", data, PATIENCE) as answer:
                return answer.read().decode()

        token = re.search(r"name=['\"]token['\"] value=['\"](\w+)", page("sql"))[1]
        sql = [line.format(mode=mode) for line in program.sql]
        shown = page("sql", token=token, query="Go", delimiter=";", queryval=";\n".join(sql) + ";")
        assert "vacuum" in page("vacuum", token=token, vacuum="1").lower()
    cells = re.findall(r"<td class='td[12]'>(.*?)</td>", shown)
    assert len(cells) > 9, shown
    return "|".join(html.unescape(cell) for cell in cells)


# On a screen


TITLE = "DB Browser for SQLite - "


@contextlib.contextmanager
def screen():
    """A screen that nobody sees; the environment for it."""
    reading, writing = os.pipe()
    call = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1200x800x24", "-nolisten", "tcp"]
    server = subprocess.Popen(call, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(writing)
    try:
        with os.fdopen(reading) as display, tempfile.TemporaryDirectory() as home:
            yield {**os.environ, "DISPLAY": ":" + display.readline().strip(), "HOME": home, "XDG_RUNTIME_DIR": home}
    finally:
        server.terminate()
        server.wait(PATIENCE)


def by_browser(program, runner, folder, mode):
    """It runs a script, and "Write Changes" (Ctrl+S) stores what that has done."""
    asked(runner, folder, f"pragma journal_mode = {mode}")
    Path(folder, "work.sql").write_text(
        "insert into t(name, data) select 'more', data from t where id <= 500;"
        "update t set name = 'changed' where id % 3 = 0; delete from t where id % 7 = 0;"
        "create table u as select name, count(*) as n from t group by name;"
    )
    with screen() as environment:

        def is_stored():
            windows = subprocess.run(["xdotool", "search", "--name", TITLE], capture_output=True, env=environment)
            for number in windows.stdout.split():
                subprocess.run(["xdotool", "windowfocus", number, "key", "ctrl+s"], env=environment, capture_output=True)
            return asked(runner, folder, "select count(*) from sqlite_schema where name = 'u'") == "1"

        call = [*runner, *program.command, "-o", "checkversion/enabled=false", "-s", "work.sql", "a.db"]
        window = subprocess.Popen(call, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until(is_stored)
        finally:
            window.terminate()
            window.wait(PATIENCE)
    return asked(runner, folder, "select count(*), sum(id), max(name) from t", "select * from u order by n, name limit 9")


# Home Assistant

# The core of Home Assistant with its recorder: it starts, records, purges and repacks, lets its file be copied, and stops.
HOME_ASSISTANT = """
import asyncio, shutil, sys
from homeassistant import config_entries, loader
from homeassistant.components import recorder
from homeassistant.components.recorder import backup
from homeassistant.core import HomeAssistant
from homeassistant.helpers import area_registry, device_registry, entity, entity_registry, translation
from homeassistant.helpers.recorder import async_initialize_recorder
from homeassistant.setup import async_setup_component

folder, first = sys.argv[1], int(sys.argv[2])

async def main():
    hass = HomeAssistant(folder)
    hass.config.skip_pip = True
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    for module in [loader, entity, translation]:
        module.async_setup(hass)
    for registry in [area_registry, device_registry, entity_registry]:
        await registry.async_load(hass)
    async_initialize_recorder(hass)
    assert await async_setup_component(hass, "recorder", {"recorder": {"commit_interval": 0}})
    await hass.async_start()
    instance = recorder.get_instance(hass)

    async def recorded():
        await hass.async_block_till_done()
        # A task may have given itself another one.
        for _ in range(5):
            await hass.async_add_executor_job(instance.block_till_done)

    for number in range(first, first + 600):
        name = f"sensor.number_{number % 7}"
        hass.states.async_set(name, str(number), {"unit_of_measurement": "C", "friendly_name": name})
        if number % 50 == 0:
            hass.bus.async_fire("an_event", {"number": number})
            await recorded()
    await recorded()
    # As a backup does it.
    await backup.async_pre_backup(hass)
    await hass.async_add_executor_job(shutil.copy, folder + "/home-assistant_v2.db", folder + f"/backup-{first}.db")
    await backup.async_post_backup(hass)
    await hass.services.async_call("recorder", "purge_entities", {"entity_id": ["sensor.number_3"]}, blocking=True)
    await hass.services.async_call("recorder", "purge", {"keep_days": 10, "repack": True}, blocking=True)
    await recorded()
    await hass.async_stop()

asyncio.run(main())
"""
# Without times, and what follows from them.
RECORDED = """
select m.entity_id, state, shared_attrs from states join states_meta m using(metadata_id)
  left join state_attributes using(attributes_id) order by m.entity_id, state;
select t.event_type, count(*), group_concat(shared_data) from events join event_types t using(event_type_id)
  left join event_data using(data_id) where t.event_type = 'an_event' group by t.event_type;
select count(*), sum(closed_incorrect) from recorder_runs;
select name, sql from sqlite_schema order by name;
pragma freelist_count;
pragma integrity_check;
"""


def make_home(folder, python):
    """A folder of Home Assistant with some days behind it; the path of its database."""
    said([python, "-c", HOME_ASSISTANT, folder, "0"])
    path = folder + "/home-assistant_v2.db"
    db = sqlite3.connect(path)
    # To be purged.
    db.execute("update states set last_updated_ts = last_updated_ts - 20 * 86400 where state_id < 300")
    db.commit()
    db.close()
    return path


def recorded(path, runner=()):
    return said([*runner, "sqlite3", path, RECORDED])


def by_home_assistant(program, runner, folder, mode):
    path = f"{folder}/home-assistant_v2.db"
    said([*runner, *program.command, folder, "600"])
    # Each is whole by itself.
    copies = [recorded(f"{folder}/backup-{first}.db", runner) for first in [0, 600]]
    if runner:
        moved_away(program, runner, path)
    return "\n".join([recorded(path, runner), *copies])


def moved_away(program, runner, path):
    """Without `litepack run` it takes the file for damaged, gives it another name, and begins a new one. Nothing is lost:
    it goes on after the file got its name back."""
    with tempfile.TemporaryDirectory() as folder:
        before, name = Path(path).read_bytes(), f"{folder}/home-assistant_v2.db"
        shutil.copy(path, name)
        subprocess.run([*program.command, folder, "1200"], check=True, capture_output=True, timeout=300)
        (moved,) = Path(folder).glob("home-assistant_v2.db.corrupt.*")
        assert moved.read_bytes() == before
        assert Path(name).read_bytes() != before
        moved.rename(name)
        for suffix in ["-wal", "-shm"]:
            assert not os.path.exists(name + suffix)
        assert recorded(name, runner) == recorded(path, runner)
        said([*runner, *program.command, folder, "1200"])
        assert recorded(name, runner).splitlines()[-1] == "ok"
