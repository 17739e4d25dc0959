"""The plain database in a file and what stands beside it, whatever the file is."""

import os

import archive
import journal
import log
from packed import MAGIC, Packed
from sealing import Secret

__all__ = ["Secret", "content", "database"]


def content(path):
    if not os.path.exists(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def database(path, secret=None, is_alone=False):
    """The bytes of the plain database."""
    data = content(path)
    if not data.startswith(MAGIC):
        return archive.database(data, secret)
    packed = Packed(data, secret)
    found = packed.database()
    beside, undo = content(path + "-lpw"), content(path + "-lpjourn")
    if is_alone:
        return found
    if beside:
        is_wal = beside[:4] in (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
        if not is_wal:
            found = log.Log(beside, packed).applied(found)
        elif packed.log_next == 0 and not packed.is_encrypted:
            found = log.wal(beside, found)
    if undo:
        found = journal.played_back(journal.read(undo, packed), found)
    return found
