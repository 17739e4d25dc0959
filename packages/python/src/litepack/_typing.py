"""Types for those who check types; nothing here is imported when a program runs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypedDict, Union

from typing_extensions import TypeAlias

Database: TypeAlias = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Parameter: TypeAlias = Union[str, int]


class Connection(Protocol):
    """The common methods of sqlite3, pysqlite3 and APSW."""

    def enable_load_extension(self, enable: bool, /) -> None: ...
    def load_extension(self, name: str, /) -> None: ...


class ConnectOptions(TypedDict, total=False):
    """The options of ``sqlite3.connect``."""

    timeout: float
    detect_types: int
    isolation_level: Literal["DEFERRED", "EXCLUSIVE", "IMMEDIATE"] | None
    check_same_thread: bool
    factory: type[sqlite3.Connection]
    cached_statements: int
    uri: bool
    autocommit: bool


Parameters: TypeAlias = Union["list[Any]", "tuple[Any, ...]", "dict[str, Any]"]
Opener: TypeAlias = Callable[[], Connection]
