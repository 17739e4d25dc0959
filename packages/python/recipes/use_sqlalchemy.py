"""SQLAlchemy, with the dialect that comes with litepack.

packages: sqlalchemy
"""

import os
import sqlite3
from pathlib import Path

import sqlalchemy
from sample import packed, refused, seen
from sqlalchemy import MetaData, Table, create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

file = packed()
plain_engine = create_engine(f"sqlite:///{file}")
refused(lambda: plain_engine.connect().exec_driver_sql("select 1 from Artist"), sqlalchemy.exc.DatabaseError)

# --- the recipe
engine = create_engine(f"litepack:///{file}")


class Base(DeclarativeBase):
    pass


class Note(Base):
    __tablename__ = "note"
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]


Base.metadata.create_all(engine)
with Session(engine) as session:
    session.add_all([Note(text="one"), Note(text="two")])
    session.commit()
    session.execute(Note.__table__.update().where(Note.id == 1).values(text="uno"))
    session.commit()
# ---

engine.dispose()
engine = create_engine(f"litepack:///{Path(file).absolute()}")
with Session(engine) as session:
    assert session.scalars(select(Note.text).order_by(Note.id)).all() == ["uno", "two"]
    artist = Table("Artist", MetaData(), autoload_with=engine)
    assert session.scalar(select(func.count()).select_from(artist)) > 100
assert engine.dialect.name == "sqlite"

# Other forms of the URL, and names with characters that mean something in a URI.
for url in (f"sqlite+litepack:///{file}", f"litepack:///file:{file}?mode=ro&uri=true"):
    with create_engine(url).connect() as db:
        assert db.exec_driver_sql("select count(*) from note").scalar() == 2
# Settings reach the file, and a misspelt one is an error before anything is opened.
for url in (f"litepack:///{file}?level=9", f"litepack:///{file}?level=9&timeout=3&uri=true", f"litepack:///file:{file}?level=9&uri=true"):
    with create_engine(url).connect() as db:
        assert db.exec_driver_sql("pragma litepack_level").scalar() == "9", url
with create_engine(f"litepack:///{file}?mode=ro").connect() as db:
    refused(lambda: db.exec_driver_sql("delete from note"), sqlalchemy.exc.OperationalError, "readonly")
refused(lambda: create_engine(f"litepack:///{file}?levle=9").connect(), sqlalchemy.exc.ArgumentError, "did you mean 'level'")
refused(lambda: create_engine(f"litepack:///{file}?level=99").connect(), sqlalchemy.exc.DBAPIError, "level")
# A key is taken whole, or refused.
for name, end in (("path.db", ""), ("file:uri.db", "&uri=true")):
    with create_engine(f"litepack:///{name}?key=a%26b%23c%25d{end}").begin() as db:
        db.exec_driver_sql("create table t (a)")
    wrong = create_engine(f"litepack:///{name}?key=a{end}")
    refused(wrong.connect, sqlalchemy.exc.DBAPIError, "wrong key")
    null = "litepack:///" + name.replace(".db", "-null.db") + f"?key=a%00b{end}"
    refused(lambda: create_engine(null), ValueError, "null character")
assert not [path for path in os.listdir() if "null" in path]
assert not [path for path in os.listdir() if "?" in path or ":" in path], os.listdir()
new = Path("what?#100%25 ü.db")
with create_engine(sqlalchemy.URL.create("litepack", database=str(new))).begin() as db:
    db.exec_driver_sql("create table t (a)")
assert not new.read_bytes().startswith(b"SQLite format 3")
with create_engine("litepack://").begin() as db:
    db.exec_driver_sql("create table t (a)")

refused(lambda: plain_engine.connect().exec_driver_sql("select 1 from Artist"), sqlalchemy.exc.DatabaseError)
seen("sqlalchemy", sqlite3.sqlite_version, '`create_engine("litepack:///app.db")`', host="SQLAlchemy")
