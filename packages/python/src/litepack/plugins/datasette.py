"""The plugin that Datasette loads: from then on it opens packed files by their name."""

from datasette.utils.sqlite import sqlite3

from litepack.plugins import register_in

register_in(sqlite3)
