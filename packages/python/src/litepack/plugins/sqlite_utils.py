"""The plugin that sqlite-utils loads: from then on it opens packed files by their name."""

from sqlite_utils.utils import sqlite3

from litepack.plugins import register_in

register_in(sqlite3)
