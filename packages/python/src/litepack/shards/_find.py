"""Which files there are: paths, patterns and URLs become :class:`Shard`.

Promises that a version tells a file from any other that takes its place: for a local file its size, times of change and
number (and those of its WAL), for one on a server its length and ETag or date.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Union

from litepack._arrow import connect_adbc
from litepack._uri import printable
from litepack.shards._errors import Replaced, ShardError, named

Paths = Union[str, "os.PathLike[str]", "Iterable[str | os.PathLike[str]]"]
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PATTERN = re.compile(r"[*?[]")
# Waiting for servers, not computing.
THREADS = 16


@dataclass(frozen=True, repr=False)
class Shard:
    """A file: its path or URL, its size in bytes, and its version (None where that is not known yet)."""

    path: str
    size: int
    version: str | None = None

    def __repr__(self) -> str:
        # A presigned URL is a secret.
        return f"Shard({printable(self.path)!r}, {self.size}, {self.version!r})"


def is_url(path: str) -> bool:
    return _URL.match(path) is not None


def absolute(path: str) -> str:
    """The absolute path of the same file, without ``.`` and ``..``. Links stay what they are, as in a catalog. But what
    ``..`` is behind a link depends on where that leads, which the text does not tell."""
    plain = os.path.abspath(path)
    if os.pardir not in path.split(os.sep):
        return plain
    real = os.path.realpath(path)
    return plain if os.path.realpath(plain) == real else real


def find(paths: Paths, known: Mapping[str, Shard] = {}, literal: bool = False) -> list[Shard]:
    """The files that ``paths`` name, in the order of their names.

    A path, a pattern (``logs/*.db``, ``logs/**/*.db``), a folder (its files ``*.db``), a URL, or a list of these. Web
    servers cannot list their files, so their URLs have no patterns. In an object store, ``s3://bucket/logs/*.db`` and
    ``s3://bucket/logs/`` need s3fs to list the files. Nothing found is an error, for each that is named.

    URLs that are ``known`` are taken from there. All others are opened, for their sizes and versions. Where the names are
    ``literal``, each is that of one file.
    """
    names = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: dict[str, Shard] = {}
    urls: list[str] = []
    for given in names:
        name = os.fspath(given)
        if not isinstance(name, str):
            raise TypeError("paths are str or os.PathLike[str]")
        if name in known:
            found[name] = known[name]
        elif not is_url(name):
            for path in [_file(name)] if literal else _local(name):
                found[path] = Shard(path, os.stat(path).st_size, local_version(path))
        elif literal:
            urls.append(name)
        elif name.lower().startswith(("http://", "https://")):
            # A ? begins the query; what is left of a pattern cannot be in a URL.
            if "*" in name.split("?")[0]:
                raise ValueError(f"{printable(name)}: a web server does not list its files: name each one")
            urls.append(name)
        elif _PATTERN.search(name) or name.endswith("/"):
            for shard in _listed(name):
                if shard.version is None:
                    urls.append(shard.path)
                else:
                    found[shard.path] = shard
        else:
            urls.append(name)
    with ThreadPoolExecutor(THREADS) as pool:
        for shard in pool.map(_opened, urls):
            found[shard.path] = shard
    return sorted(found.values(), key=lambda shard: shard.path)


def _local(name: str) -> list[str]:
    if os.path.isdir(name):
        return _some(glob.glob(os.path.join(glob.escape(name), "*.db")), name, "has no files *.db")
    # A file may be named like a pattern.
    if os.path.exists(name) or not _PATTERN.search(name):
        return [_file(name)]
    matches = [path for path in glob.glob(name, recursive=True) if os.path.isfile(path)]
    return _some(matches, name, "no file matches")


def _file(name: str) -> str:
    if not os.path.isfile(name):
        raise FileNotFoundError(f"{name}: no such file")
    return absolute(name)


def _some(paths: list[str], name: str, why: str) -> list[str]:
    if not paths:
        raise FileNotFoundError(f"{name}: {why}")
    return [absolute(path) for path in paths]


def _listed(pattern: str) -> list[Shard]:
    """The objects that a store lists, with sizes and ETags, so that no file has to be opened. Without an ETag they have
    no version."""
    if pattern[:5].lower() != "s3://":
        raise ValueError(f"{printable(pattern)}: only s3:// and local folders can be listed: name each file by its URL")
    try:
        import fsspec

        system = fsspec.filesystem("s3")
    except ImportError as error:
        raise ImportError(f"{printable(pattern)}: a pattern needs s3fs to list the files: pip install s3fs") from error
    # It remembers what it has listed for as long as the process lives.
    system.invalidate_cache()
    if pattern.endswith("/"):
        details = system.glob(f"{glob.escape(pattern)}*.db", detail=True)
    elif system.isfile(pattern):
        # A file may be named like a pattern.
        return [Shard(pattern, 0)]
    else:
        details = system.glob(pattern, detail=True)
    shards = [
        Shard(f"s3://{name}", int(entry["size"]), _version(int(entry["size"]), str(entry.get("ETag") or "")))
        for name, entry in details.items()
        if entry["type"] == "file"
    ]
    if not shards:
        raise FileNotFoundError(f"{printable(pattern)}: no file matches")
    return shards


def _opened(url: str) -> Shard:
    try:
        with closing(connect_adbc(url)) as connection, closing(connection.cursor()) as cursor:
            remote = _remote(cursor, url)
    except Exception as error:
        raise named(url, error) from None
    return Shard(url, remote[0], _version(*remote))


def _remote(cursor: Any, url: str) -> tuple[int, str]:
    cursor.execute("PRAGMA litepack_remote")
    row = cursor.fetchone()
    if row is None:
        raise ShardError(f"{printable(url)}: the extension does not say which version of the file it reads")
    report = json.loads(row[0])
    return int(report["size"]), str(report["validator"] or "")


def _version(size: int, validator: str) -> str | None:
    return f'{size} {validator.strip(chr(34))}' if validator else None


def local_version(path: str) -> str:
    """Of a local file, as ``litepack catalog`` writes it. Commits in WAL mode are in the WAL at first, so it belongs to the
    version; an empty one is none."""
    status = os.stat(path)
    # Programs can set the time of the content, but not that of the inode.
    version = f"{_state(status)} {status.st_ctime_ns} {status.st_ino}"
    for suffix in ("-wal", "-lpw"):
        try:
            # SQLite has it beside the file itself, where that has another name.
            wal = os.stat(os.path.realpath(path) + suffix)
        except FileNotFoundError:
            continue
        if wal.st_size:
            version += f" {_state(wal)}"
    return version


def _state(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns}"


def verify(shard: Shard, cursor: Any) -> None:
    """Raises :class:`Replaced` if what is open, or lies under its name now, is not what was planned."""
    if shard.version is None:
        return
    if is_url(shard.path):
        now = _version(*_remote(cursor, shard.path))
    else:
        try:
            now = local_version(shard.path)
        except FileNotFoundError:
            now = "gone"
    if now != shard.version:
        raise Replaced(
            f"{printable(shard.path)}: the file was changed or replaced since the work was planned "
            f"(was: {shard.version}; is: {now}): load the files again, and repeat the query"
        )
