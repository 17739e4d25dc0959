#!/usr/bin/env python3
"""A home directory of 40 databases with the schemas of 12 programs is adopted, used by the stock `sqlite3`, and undone.

usage: adopt_home.py     LITEPACK_COMMAND is the command

Those that were written have the content of twins that were plain all the time; those that were not are bit for bit what
they were; and what belongs to programs with a SQLite of their own is never touched.
Prints 'ok NAME' or 'FAILED NAME' for each part.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

COMMAND = os.path.abspath(os.environ["LITEPACK_COMMAND"])
MAGIC = b"SQLite format 3\0"
KEPT = ".litepack-original"
ROWS = 800

# Kind: the program as the report calls it, whether its databases are packed, paths, and the schema (the tables that hold
# the data, with their indexes, as the programs make them).
KINDS = {
    "Home Assistant": (
        True,
        ["homeassistant/{n}/home-assistant_v2.db"] * 4,
        """
        create table event_types(event_type_id integer primary key not null, event_type varchar(64));
        create table event_data(data_id integer primary key not null, hash bigint, shared_data text);
        create table events(event_id integer primary key not null, event_type char(0), time_fired_ts float,
          origin_idx smallint, context_id_bin blob, data_id integer, event_type_id integer,
          foreign key(data_id) references event_data(data_id));
        create index ix_events_time_fired_ts on events(time_fired_ts);
        create table states_meta(metadata_id integer primary key not null, entity_id varchar(255));
        create table state_attributes(attributes_id integer primary key not null, hash bigint, shared_attrs text);
        create table states(state_id integer primary key not null, state varchar(255), last_updated_ts float,
          old_state_id integer, attributes_id integer, context_id_bin blob, metadata_id integer,
          foreign key(attributes_id) references state_attributes(attributes_id));
        create index ix_states_metadata_id_last_updated_ts on states(metadata_id, last_updated_ts);
        create table recorder_runs(run_id integer primary key not null, start datetime, "end" datetime,
          closed_incorrect boolean, created datetime);
        """,
    ),
    "Calibre": (
        True,
        ["Books {n}/metadata.db"] * 4,
        """
        pragma user_version = 26;
        create table authors(id integer primary key, name text not null collate nocase, sort text collate nocase,
          link text not null default '', unique(name));
        create table books(id integer primary key autoincrement, title text not null default 'Unknown' collate nocase,
          sort text collate nocase, timestamp timestamp, pubdate timestamp, series_index real not null default 1.0,
          author_sort text collate nocase, path text not null default '', flags integer not null default 1, uuid text,
          has_cover bool default 0, last_modified timestamp);
        create table books_authors_link(id integer primary key, book integer not null, author integer not null,
          unique(book, author));
        create table comments(id integer primary key, book integer not null, text text not null collate nocase,
          unique(book));
        create table custom_columns(id integer primary key autoincrement, label text not null, name text not null,
          datatype text not null, display text default '{{}}' not null, unique(label));
        create view meta as select id, title, (select name from authors where id = books.id) as authors from books;
        create trigger books_delete_trg after delete on books begin
          delete from books_authors_link where book = old.id; delete from comments where book = old.id; end;
        """,
    ),
    "digiKam": (
        True,
        ["Pictures/{n}/digikam4.db"] * 4,
        """
        create table AlbumRoots(id integer primary key, label text, status integer not null, type integer not null,
          identifier text, specificPath text, unique(identifier, specificPath));
        create table Albums(id integer primary key, albumRoot integer not null, relativePath text not null, date date,
          caption text, collection text, icon integer, unique(albumRoot, relativePath));
        create table Images(id integer primary key, album integer, name text not null, status integer not null,
          category integer not null, modificationDate datetime, fileSize integer, uniqueHash text, unique(album, name));
        create table ImageInformation(imageid integer primary key, rating integer, creationDate datetime,
          orientation integer, width integer, height integer, format text, colorDepth integer);
        create index hash_index on Images(uniqueHash);
        create trigger delete_image delete on Images begin
          delete from ImageInformation where imageid = old.id; end;
        """,
    ),
    "Kodi": (
        True,
        [".kodi/userdata/Database/MyVideos{n}.db"] * 4,
        """
        create table movie(idMovie integer primary key, idFile integer, c00 text, c01 text, c02 text, c05 text,
          premiered text, userrating integer);
        create table tvshow(idShow integer primary key, c00 text, c01 text, c04 text, userrating integer);
        create table episode(idEpisode integer primary key, idFile integer, c00 text, c01 text, c12 varchar(24),
          idShow integer, userrating integer);
        create table actor_link(actor_id integer, media_id integer, media_type text, role text, cast_order integer);
        create unique index ix_movie_file_1 on movie(idFile, idMovie);
        create index ix_actor_link_1 on actor_link(actor_id, media_type, media_id);
        create view movie_view as select idMovie, c00, premiered from movie;
        """,
    ),
    "Subversion": (
        True,
        ["src/{n}/.svn/wc.db"] * 4,
        """
        pragma user_version = 31;
        create table REPOSITORY(id integer primary key autoincrement, root text unique not null, uuid text not null);
        create table WCROOT(id integer primary key autoincrement, local_abspath text unique);
        create table PRISTINE(checksum text not null primary key, compression integer, size integer not null,
          refcount integer not null, md5_checksum text not null);
        create table NODES(wc_id integer not null, local_relpath text not null, op_depth integer not null,
          parent_relpath text, repos_id integer, repos_path text, revision integer, presence text not null,
          kind text not null, checksum text, changed_date integer, changed_author text, properties blob,
          primary key(wc_id, local_relpath, op_depth));
        create unique index I_NODES_PARENT on NODES(wc_id, parent_relpath, local_relpath, op_depth);
        """,
    ),
    "Fossil, a repository": (
        True,
        ["src/{n}.fossil"] * 4,
        """
        pragma application_id = 252006674;
        create table blob(rid integer primary key, rcvid integer, size integer, uuid text unique not null, content blob);
        create table delta(rid integer primary key, srcid integer not null);
        create index delta_i1 on delta(srcid);
        create table rcvfrom(rcvid integer primary key, uid integer, mtime datetime, nonce text unique, ipaddr text);
        create table config(name text primary key not null, value clob, mtime date) without rowid;
        """,
    ),
    "llm, its log": (
        True,
        [".config/io.datasette.llm/{n}/logs.db"] * 4,
        """
        create table _llm_migrations(name text primary key, applied_at text);
        create table conversations(id text primary key, name text, model text);
        create table responses(id text primary key, model text, prompt text, system text, prompt_json text,
          options_json text, response text, response_json text, conversation_id text, duration_ms integer,
          datetime_utc text);
        create index responses_conversation on responses(conversation_id);
        """,
    ),
    "IPython": (
        True,
        [".ipython/profile_{n}/history.sqlite"] * 4,
        """
        create table sessions(session integer primary key autoincrement, start timestamp, end timestamp,
          num_cmds integer, remark text);
        create table history(session integer, line integer, source text, source_raw text, primary key(session, line));
        create table output_history(session integer, line integer, output text, primary key(session, line));
        """,
    ),
    "Firefox": (
        False,
        [".mozilla/firefox/{n}.default/places.sqlite"] * 2,
        """
        pragma user_version = 77;
        create table moz_places(id integer primary key, url longvarchar, title longvarchar, rev_host longvarchar,
          visit_count integer default 0, hidden integer default 0 not null, frecency integer default -1 not null,
          last_visit_date integer, guid text, url_hash integer default 0 not null);
        create index moz_places_url_hashindex on moz_places(url_hash);
        create table moz_historyvisits(id integer primary key, from_visit integer, place_id integer, visit_date integer,
          visit_type integer, session integer);
        """,
    ),
    "Chromium, Chrome, Edge and their kin": (
        False,
        [".config/chromium/Profile {n}/History"] * 2,
        """
        create table meta(key longvarchar not null unique primary key, value longvarchar);
        create table urls(id integer primary key autoincrement, url longvarchar, title longvarchar,
          visit_count integer default 0 not null, last_visit_time integer not null, hidden integer default 0 not null);
        create table visits(id integer primary key autoincrement, url integer not null, visit_time integer not null,
          from_visit integer, transition integer default 0 not null);
        create table keyword_search_terms(keyword_id integer not null, url_id integer not null, term longvarchar not null,
          normalized_term longvarchar not null);
        """,
    ),
    "Zotero": (
        False,
        ["Zotero/{n}/zotero.sqlite"] * 2,
        """
        create table libraries(libraryID integer primary key, type text not null, editable int not null);
        create table items(itemID integer primary key, itemTypeID int not null, dateAdded timestamp, key text not null);
        create table itemDataValues(valueID integer primary key, value unique);
        create table itemData(itemID int, fieldID int, valueID int, primary key(itemID, fieldID));
        """,
    ),
    "Sonarr": (
        False,
        [".config/Sonarr/{n}/sonarr.db"] * 2,
        """
        create table "Series"("Id" integer not null primary key autoincrement, "TvdbId" integer not null,
          "Title" text not null, "Path" text not null, "Overview" text, "Added" datetime);
        create table "Episodes"("Id" integer not null primary key autoincrement, "SeriesId" integer not null,
          "SeasonNumber" integer not null, "Title" text, "Overview" text, "AirDate" text);
        create table "EpisodeFiles"("Id" integer not null primary key autoincrement, "SeriesId" integer not null,
          "Quality" text not null, "Size" integer not null, "DateAdded" datetime not null, "RelativePath" text);
        """,
    ),
}


def value(kind, name, row):
    """A value as such a column has it; no two rows have the same."""
    kind = kind.lower()
    if "int" in kind or "bool" in kind:
        return row
    if "real" in kind or "float" in kind:
        return row * 0.25
    if "blob" in kind:
        return b"%d" % row * 9
    return f"{name} {row}: some words of what people write, {row * 7919 % 1000}, and more of them"


def make(path, schema, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    db.execute(f"pragma page_size = {[4096, 1024, 8192, 4096][seed % 4]}")
    db.executescript(schema)
    tables = [name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")]
    for table in tables:
        if table.startswith("sqlite_"):
            continue
        columns = db.execute(f'pragma table_info("{table}")').fetchall()
        places = ",".join("?" * len(columns))
        rows = ([value(kind, name, row + seed) for _, name, kind, *_ in columns] for row in range(1, ROWS))
        db.executemany(f'insert into "{table}" values ({places})', rows)
    db.commit()
    # Deleted rows, and half of them in WAL mode.
    db.execute(f'delete from "{tables[0]}" where rowid % 9 = 1' if "primary key" in schema else "select 1")
    db.commit()
    if seed % 2:
        db.execute("pragma journal_mode = wal")
    db.close()


def home(place):
    """The databases: kind, whether it is packed, path."""
    found, seed = [], 0
    for kind, (is_packed, paths, schema) in KINDS.items():
        for number, path in enumerate(paths):
            path = place / path.format(n=number)
            make(path, schema.replace("{{}}", "{}"), seed)
            seed += 1
            found.append((kind, is_packed, path))
    assert (len(found), len(KINDS)) == (40, 12)
    return found


def adopt(*arguments):
    result = subprocess.run([COMMAND, "adopt", "--json", *arguments], capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stderr) == (0, ""), result
    return json.loads(result.stdout)


def content(path):
    db = sqlite3.connect(path)
    assert db.execute("pragma integrity_check").fetchone() == ("ok",), path
    found = list(db.iterdump()) + [db.execute(f"pragma {name}").fetchone() for name in ["user_version", "application_id"]]
    db.close()
    return found


def is_packed(path):
    return path.read_bytes()[:16] != MAGIC


def statement(path):
    """SQL that writes: in every table some rows are changed."""
    db = sqlite3.connect(path)
    tables = [name for (name,) in db.execute("select name from sqlite_schema where type = 'table' and name not like 'sqlite%'")]
    sql = ["begin"]
    for table in tables:
        columns = db.execute(f'pragma table_info("{table}")').fetchall()
        # A copy of a row, with another key; or nothing, where that is there.
        names = ", ".join(f'"{name}"' for _, name, *_ in columns)
        values = ", ".join(
            f'"{name}" + 100000' if "int" in kind.lower() else f'"{name}" || \' new\'' for _, name, kind, *_ in columns
        )
        sql.append(f'insert or ignore into "{table}"({names}) select {values} from "{table}" limit 50')
    db.close()
    return "; ".join([*sql, "commit"]) + ";"


def run(place):
    databases = home(place / "home")
    shutil.copytree(place / "home", place / "twins")
    paths = [path for _, _, path in databases]
    before = {path: path.read_bytes() for path in paths}
    twin = {path: place / "twins" / path.relative_to(place / "home") for path in paths}

    found = {Path(entry["file"]): entry for entry in adopt(str(place / "home"))}
    assert sorted(found) == sorted(paths), set(found) ^ set(paths)
    for kind, packed, path in databases:
        entry = found[path]
        assert (entry["program"], entry["opens"] == "no") == (kind, not packed), entry
        assert entry["state"] == "plain" and (entry["obstacle"] is None) == packed, entry
        assert entry["packed_bytes"] < entry["bytes"], entry
    assert all(path.read_bytes() == before[path] for path in paths)
    assert len(list((place / "home").rglob("*.*"))) == len(list((place / "twins").rglob("*.*"))), "a file was left"
    print("ok adopt_home: found", flush=True)

    adopted = [path for _, packed, path in databases if packed]
    others = [path for _, packed, path in databases if not packed]
    left = subprocess.run([COMMAND, "adopt", "--pack", *others], capture_output=True, text=True)
    assert left.returncode == 2 and left.stderr.count("has a SQLite of its own") == len(others), left
    done = adopt("--pack", *map(str, adopted))
    assert [entry["done"] for entry in done] == ["packed"] * len(adopted), done
    assert all(is_packed(path) and Path(f"{path}{KEPT}").read_bytes() == before[path] for path in adopted)
    sizes = sum(entry["before"] for entry in done), sum(entry["after"] for entry in done)
    print(f"ok adopt_home: packed, {len(adopted)} databases, {sizes[0]} -> {sizes[1]} bytes", flush=True)

    # Two of each kind are written, the others read.
    written = [path for at, path in enumerate(adopted) if at % 4 < 2]
    for path in adopted:
        sql = statement(twin[path]) if path in written else "select count(*) from sqlite_schema; pragma integrity_check;"
        said = [
            subprocess.run([*runner, "sqlite3", file, sql], capture_output=True, text=True, timeout=300)
            for runner, file in [([], twin[path]), ([COMMAND, "run", "--"], path)]
        ]
        assert [(one.returncode, one.stderr) for one in said] == [(0, "")] * 2, said
        assert said[0].stdout == said[1].stdout, said
        assert is_packed(path), path
    print("ok adopt_home: used", flush=True)

    done = {Path(entry["file"]): entry["done"] for entry in adopt("--undo", str(place / "home"))}
    assert sorted(done) == sorted(adopted)
    for path in adopted:
        assert not is_packed(path)
        assert done[path] == ("plain, and newer" if path in written else "plain"), (path, done[path])
        assert Path(f"{path}{KEPT}").exists() == (path in written)
        if path in written:
            assert content(path) == content(twin[path]) and path.read_bytes() != before[path], path
        else:
            assert path.read_bytes() == before[path], path
    # They are not what was kept, so they may be somebody else's.
    left = subprocess.run([COMMAND, "adopt", "--forget", *written], capture_output=True, text=True)
    assert left.returncode == 2 and left.stderr.count("delete the other yourself") == len(written), left
    for path in written:
        Path(f"{path}{KEPT}").unlink()
    assert all(path.read_bytes() == before[path] for path in others)
    assert not list((place / "home").rglob("*litepack*"))
    print("ok adopt_home: undone", flush=True)


def main():
    with tempfile.TemporaryDirectory() as place:
        try:
            run(Path(place).resolve())
        except Exception:
            print("FAILED adopt_home", flush=True)
            traceback.print_exc(file=sys.stdout)
            sys.exit(1)


if __name__ == "__main__":
    main()
