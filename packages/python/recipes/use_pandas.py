"""pandas, through a connection of ours and through SQLAlchemy.

packages: pandas sqlalchemy
"""

import sqlite3
from contextlib import closing

import pandas
from sample import packed, refused, seen
from sqlalchemy import create_engine

file = packed()
refused(lambda: pandas.read_sql("select * from Artist", sqlite3.connect(file)), pandas.errors.DatabaseError)

# --- the recipe
import litepack

with closing(litepack.connect(file)) as db:
    albums = pandas.read_sql("select * from Album", db)
    albums.groupby("ArtistId").size().rename("albums").to_frame().to_sql("per_artist", db)
    db.commit()
# ---

with closing(litepack.connect(file)) as db:
    again = pandas.read_sql("select sum(albums) as n from per_artist", db)
assert again["n"][0] == len(albums) > 100
seen("pandas", sqlite3.sqlite_version, "`litepack.connect`")

engine = create_engine(f"litepack:///{file}")
albums.to_sql("copy", engine, if_exists="replace", index=False)
assert pandas.read_sql_table("copy", engine).equals(albums)
seen("pandas", sqlite3.sqlite_version, "`litepack://` URL of SQLAlchemy")
