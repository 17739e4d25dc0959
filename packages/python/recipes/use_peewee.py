"""peewee. Its own `load_extension` comes too late: it needs a connection to the packed database.

packages: peewee
"""

import sqlite3

import peewee
from sample import packed, refused, seen

file = packed()
refused(lambda: peewee.SqliteDatabase(file).execute_sql("select 1 from Artist"), peewee.DatabaseError)

# --- the recipe
import litepack

litepack.register()
db = peewee.SqliteDatabase(file)
# ---


class Artist(peewee.Model):
    id = peewee.AutoField(column_name="ArtistId")
    name = peewee.TextField(column_name="Name")

    class Meta:
        database = db
        table_name = "Artist"


class Note(peewee.Model):
    text = peewee.TextField()

    class Meta:
        database = db


db.create_tables([Note])
before = Artist.select().count()
with db.atomic():
    new = Artist.create(name="Somebody new")
    Note.create(text="one")
Artist.update(name="Somebody else").where(Artist.id == new.id).execute()
db.close()

db.connect()
assert Artist.select().count() == before + 1 > 100
assert Artist.get_by_id(new.id).name == "Somebody else"
assert Note.get().text == "one"
db.close()

# With settings of its own, or to have a new database packed:
other = peewee.SqliteDatabase(litepack.uri("new.db", level=9), uri=True)
other.execute_sql("create table t (a)")
other.close()
with open("new.db", "rb") as new_file:
    assert new_file.read(15) != b"SQLite format 3"
seen("peewee", sqlite3.sqlite_version, "by name, after `litepack.register()`")
