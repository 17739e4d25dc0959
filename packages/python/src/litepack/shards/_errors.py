"""The errors of one file of many. Every message begins with the file's name."""

from __future__ import annotations

import re

from litepack._uri import printable, without_uri


class ShardError(Exception):
    """A file cannot be read. ``str`` names it and says why."""


class Damaged(ShardError):
    """A file is damaged, is no database, or has no such table: what ``errors="skip"`` leaves out."""


class Replaced(ShardError):
    """A file is not the one that was there when the work was planned: plan again."""


class Mismatch(ShardError):
    """The columns of a file, or a value in it, are not of the kind that the scan has."""


# The driver's text before SQLite's words. It has the query behind them, if that could not be prepared.
_DRIVER = r"(?:[A-Z_]+: )?(?:\[SQLite\] )?(?:[Ff]ailed to \w+(?: query| '[^']*')?: )?"
# SQLITE_CORRUPT and SQLITE_NOTADB; the driver gives no codes. Whole sentences: there are names and values in others.
_DAMAGE = re.compile(
    _DRIVER + r"(?:database disk image is malformed|file is not a database|malformed database schema \(.*|"
    r"no such table: .*)(?:\nquery: .*)?",
    re.DOTALL,
)
_VALUE = re.compile(_DRIVER + r"(?:Type mismatch in column|bad JSON path: )")
_MARK = re.compile(_DRIVER + r"bad JSON path: '(.*)'", re.DOTALL)


def named(path: str, error: Exception) -> Exception:
    """The driver's error, with the name of the file, as the class that fits. Raise it ``from None``: what was raised
    may have a secret in it."""
    if isinstance(error, (ShardError, ImportError, MemoryError)):
        return error
    # A path may have any of those words in it.
    text = without_uri(str(error).strip()).removeprefix(f"{printable(path)}: ")
    kind = Damaged if _DAMAGE.fullmatch(text) else Mismatch if _VALUE.match(text) else ShardError
    if marked := _MARK.match(text):
        # SQLite quotes what it shows.
        text = marked[1].replace("''", "'")
    return kind(f"{printable(path)}: {text}")
