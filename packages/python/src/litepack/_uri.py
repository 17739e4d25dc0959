"""Names of databases as SQLite's URIs that choose Litepack.

Promises that any path means the same file as it does without a URI, whatever characters it has.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from litepack._typing import Database, Parameter


def uri(database: Database, **parameters: Parameter) -> str:
    """The URI under which SQLite opens a path or URL with Litepack, for programs that pass it on to SQLite.

    ``parameters`` are added to it: SQLite's, such as ``mode="ro"``, or settings of Litepack, such as ``level=9``.

    The extension has to be loaded in the process, by :func:`litepack.register` or :func:`litepack.load`.

    >>> uri("what?.db", mode="ro")
    'file:what%3F.db?vfs=litepack&mode=ro'
    """
    path = os.fsencode(database)
    if b"\0" in path:
        raise ValueError("embedded null character")
    chosen: dict[str, Parameter] = {"vfs": "litepack"}
    if path == b":memory:":
        name, chosen = "file::memory:", {}
    elif not path:
        name, chosen = "file:", {}
    elif path[:8].lower().startswith((b"http://", b"https://")):
        url = os.fsdecode(path)
        # A name only, which is shown to people: so without user, password and query.
        shown = _shown(url)
        name = f"file:/{quote(shown[0] + shown[2] if shown else '…')}"
        chosen.update(mode="ro", url=url)
    elif path[:5].lower() == b"s3://":
        url = os.fsdecode(path)
        # Everything behind the bucket is the key, as it is.
        name = f"file:/{quote(url[5:])}"
        chosen.update(mode="ro", url=url)
    else:
        # Two slashes at the beginning would be a host in a URI.
        name = f"file:{'//' if path.startswith(b'/') else ''}{quote(path)}"
    chosen.update(parameters)
    _check((key, str(value)) for key, value in chosen.items())
    query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in chosen.items())
    return f"{name}?{query}" if query else name


_KEY_IN_URL = re.compile(r"\?(.*&)?hexkey=", re.IGNORECASE | re.DOTALL)


def _check(parameters: Iterable[tuple[str, str]]) -> None:
    """Refuses parameters of which SQLite would cut off the end, as of a key with a null character in it, and a URL that
    would send the key of the database to the server."""
    for name, value in parameters:
        if "\0" in value:
            raise ValueError(f"embedded null character in the parameter {name!r}")
        if name == "url" and _KEY_IN_URL.search(value):
            raise ValueError("hexkey= is in the query of the URL, which the server would get: give the key as key=...")


_SCHEME = re.compile(r"[\0- ]*([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[\w.*?-]+(?:/|\Z)")
_HOST = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


def printable(path: str) -> str:
    """A path as it is, a URL without user, password and query. Where it is not certain where those are, only the scheme
    is left. This never fails: it is for messages about what has failed."""
    scheme = _SCHEME.match(path)
    if scheme is None:
        return path
    name, rest = scheme[1].lower(), path[scheme.end() :]
    if name == "s3" and _BUCKET.match(rest):
        # Everything behind the bucket is the key of an object.
        return path
    shown = None if name == "s3" else _shown(path)
    return f"{name}://{''.join(shown) if shown else '…'}"


def _shown(url: str) -> tuple[str, str, str] | None:
    """Host, port and path of a URL; None where a password may be in them, as one has signs that end it too early."""
    rest = url.partition("://")[2]
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    host = _HOST.fullmatch(authority.rpartition("@")[2])
    if host is None:
        return None
    before, at, _ = rest.rpartition("@")
    # An @ behind the host may be in the path or query, if this looks like a host, and like no user with a password.
    if at and len(before) > len(authority) and (":" in before or "." not in host[1]):
        return None
    path = re.split("[?#]", rest[len(authority) :], maxsplit=1)[0]
    return host[1].lower(), host[2] or "", path


_URI = re.compile(r"(?:file:[^\s']*)?\?vfs=litepack[^\s']*")


def without_uri(text: str) -> str:
    """A driver's message, without the URI that :func:`uri` gave it: there may be a token in that."""
    return _URI.sub("", text)


# Parameters of a URI that mean something: to SQLite, and to Litepack (docs/reference/settings.md).
PARAMETERS = frozenset(
    {"cache", "immutable", "mode", "modeof", "nolock", "psow", "vfs"}
    | {"hexkey", "key", "padding", "plain_temp"}
    | {"bearer", "cache_mb", "header", "level", "retries", "threads", "timeout", "url"}
)


def add_vfs(named: str, parameters: Mapping[str, Parameter] | None = None) -> str:
    """A URI made by others, with Litepack as its VFS unless it names one. ``parameters`` are for a path."""
    rest, hash_sign, fragment = named.partition("#")
    path, _, query = rest.partition("?")
    if not path.startswith("file:"):
        # With `uri=True` SQLite takes what is not a URI as a path.
        return uri(named, **(parameters or {}))
    if parameters:
        more = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in parameters.items())
        query = f"{query}&{more}" if query else more
    there = parse_qsl(query, keep_blank_values=True)
    _check(there)
    if path == "file::memory:" or any(key == "vfs" for key, _ in there):
        return named
    return f"{path}?{query}{'&' if query else ''}vfs=litepack{hash_sign}{fragment}"
