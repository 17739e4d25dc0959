"""peewee where pysqlite3 is installed, which it then uses in place of sqlite3.

packages: peewee pysqlite3-binary
"""

import peewee
import pysqlite3
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

# New databases are what register() says, in both.
litepack.register(new_databases="packed")
other = peewee.SqliteDatabase("new.db")
other.execute_sql("create table t (a)")
other.close()
with open("new.db", "rb") as new_file:
    assert new_file.read(15) != b"SQLite format 3"
assert db.execute_sql("select sqlite_version()").fetchone() == (pysqlite3.sqlite_version,)
seen("peewee", pysqlite3.sqlite_version, "by name, after `litepack.register()`", host="peewee with pysqlite3")
