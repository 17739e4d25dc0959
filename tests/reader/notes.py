"""Notes which features of docs/format.md were met while files were read: (part of the page, number or name)."""

MET = set()


class Damaged(Exception):
    """The file is not what docs/format.md says."""


class Refused(Exception):
    """The file needs something that this reader does not know. The message names it."""


class WrongKey(Exception):
    """There is no key, or another one."""


def met(part, number):
    MET.add((part, str(number)))


def check(holds, what):
    if not holds:
        raise Damaged(what)
