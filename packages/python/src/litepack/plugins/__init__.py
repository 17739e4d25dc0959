"""Plugins of programs that open databases themselves. A program works as before if Litepack cannot be loaded."""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import closing
from typing import Any

from litepack._library import load, register


def register_in(driver: Any) -> None:
    """Registers Litepack in the SQLite that a program uses: Python's, or another with the same interface."""
    try:
        if driver is sqlite3:
            register()
        else:
            with closing(driver.connect(":memory:")) as connection:
                load(connection, default=True)
    except Exception as error:
        warnings.warn(f"packed databases cannot be opened: {error}", RuntimeWarning, stacklevel=2)
