"""What the recipes share: a packed database, and a line on what was seen."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

TOOLS = Path(os.environ["LITEPACK_TOOLS"])


def packed(name="packed.db"):
    """A new packed database in the current folder. It has the tables Artist, Album and Track."""
    subprocess.run([TOOLS / "sample", "plain.db"], check=True)
    subprocess.run(["litepack", "pack", "--force", "plain.db", name], check=True)
    return name


def refused(call, error, text="file is not a database"):
    """What is done without the extension ends in an error that can be understood."""
    try:
        call()
    except error as raised:
        assert text in str(raised), raised
    else:
        raise AssertionError("a packed database was opened without the extension")


def seen(package, sqlite, how, *, note="", host=None, works=True):
    """Records that a host program does as it should; called at the end of a recipe."""
    fields = {
        "language": "Python",
        "host": host or package,
        "version": version(package) if package else ".".join(map(str, sys.version_info[:3])),
        "sqlite": sqlite,
        "how": how,
        "note": note,
        "works": "true" if works else "false",
    }
    subprocess.run([TOOLS / "record", *(f"{key}={value}" for key, value in fields.items())], check=True)
