"""`litepack ingest`: the formats, columns and values of lines, and messages about lines that do not fit.

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import gzip
import json
import os
import sqlite3
import subprocess
import time

from logs import COMMAND, FULL, HEAD, ingest, line, put, query, run, write

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


def other_formats_are_recognised():
    samples = {
        "json": b'{"ts":1764000000.5,"level":"info","n":1,"nested":{"a":[1]},"big":123456789012345678901,"level":"twice"}\n',
        "logfmt": b'time=2026-11-24T10:00:00Z level=info msg="a \\"b\\"" took=0.25 zip=007\n',
        "syslog": b"<34>1 2026-11-24T10:00:00.003Z host app 12 ID47 [a@1 b=\"]\"] hello\n",
        "csv": b'time,name,count\n2026-11-24T10:00:00Z,"a, b",3\n',
        "tsv": b"time\tname\tcount\n2026-11-24T10:00:00Z\ta b\t3\n",
        "common": b'::1 - bob [24/Nov/2026:10:00:00 +0100] "GET /a b HTTP/1.0" 200 -\n',
    }
    for name, text in samples.items():
        with open(name, "wb") as file:
            file.write(text)
        done = ingest(name, "--into", f"{name}.db")
        assert done["sources"][0]["format"] == name and done["rows"] == 1, (name, done)
    one = lambda name, columns: query(f"{name}.db", f"select {columns} from logs")[0]
    assert one("json", "time, level, n, nested, typeof(big), extra") == (
        "2025-11-24T16:00:00.5Z", "info", 1, '{"a":[1]}', "text", '{"level":"twice"}')
    assert one("logfmt", "time, level, msg, took, zip") == ("2026-11-24T10:00:00Z", "info", 'a "b"', 0.25, "007")
    assert one("syslog", "time, facility, severity, host, app, pid, data, message") == (
        "2026-11-24T10:00:00.003Z", 4, 2, "host", "app", 12, '[a@1 b="]"]', "hello")
    assert one("csv", "time, name, count") == one("tsv", "time, 'a, b', count") == ("2026-11-24T10:00:00Z", "a, b", 3)
    assert one("common", "time, remote_user, path, bytes") == ("2026-11-24T09:00:00Z", "bob", "/a b", None)
    with open("old", "wb") as file:
        file.write(b"Nov  4 10:00:00 box sshd[77]: Failed password\n" * 3)
    assert ingest("old", "--into", "old.db")["sources"][0]["format"] == "syslog"
    assert one("old", "host, app, pid, message") == ("box", "sshd", 77, "Failed password")
    with open("custom", "wb") as file:
        file.write(b'24/Nov/2026:10:00:00 +0000|0.031|GET /a HTTP/1.1|-\n')
    pattern = "$time_local|$request_time|$request|$upstream_addr"
    assert ingest("custom", "--into", "custom.db", "--format", pattern, "--time", "integer")["rows"] == 1
    assert one("custom", "time, request_time, path, upstream_addr") == (1795514400, 0.031, "/a", None)
    ingest("csv", "--into", "json-column.db", "--json-column")
    assert json.loads(query("json-column.db", "select json from logs")[0][0]) == {"name": "a, b", "count": 3}


def hostile_lines_cost_nothing_but_themselves():
    bad = [b"\x00\xff\xfe nonsense", b'{"a":', b"x" * 3_000_000, b"[" * 5000]
    with open("hostile.log", "wb") as file:
        file.write(line(1))
        file.write(line(2).replace(b"Mozilla", b"\xff\x00zilla"))
        for other in bad:
            file.write(other + b"\n")
            file.writelines(map(line, range(3, 10)))
    done = ingest("hostile.log", "--into", "logs.db")
    assert (done["lines"], done["rows"], done["unparsed"], done["cut"]) == (34, 30, 4, 1), done
    kept = query("logs.db", "select line, length, why from litepack_unparsed order by id")
    assert kept[0][0] == bad[0] and kept[1][0] == bad[1].decode(), kept[:2]
    assert kept[2] == ("x" * 4096, 3_000_000, "too long"), kept[2][1:]
    agent = query("logs.db", "select user_agent from logs where bytes = 2")[0][0]
    assert agent == b"\xff\x00zilla/5.0 (X11) 2", agent
    with open("names.json", "w") as file:
        for number in range(500):
            file.write(json.dumps({f'c{number}"; drop table logs; --': number, "rowid": 1, "Source_ID": 2, "": 3}) + "\n")
    assert ingest("names.json", "--into", "names.db", "--max-columns", "20")["rows"] == 500
    assert len(query("names.db", "select * from pragma_table_info('logs')")) == 23
    assert query("names.db", "select sum(extra ->> 'rowid'), max(json_valid(extra)) from logs") == [(500, 1)]


def lines_of_csv_keep_carriage_returns():
    with open("a.csv", "wb") as file:
        file.write(b"time,path,msg\r\n2026-11-24T10:00:00Z,/a,ok\rthe rest\n2026-11-24T10:00:01Z,/b,x\r\n")
    done = ingest("a.csv", "--into", "a.db", "--format", "csv")
    assert (done["rows"], done["unparsed"]) == (2, 0), done
    assert query("a.db", "select path, msg from logs order by path") == [("/a", "ok\rthe rest"), ("/b", "x")]


def a_header_that_cannot_be_read_is_an_error():
    """The next line is not taken for it."""
    rows = b"2026-11-24T10:00:00Z,17\n2026-11-24T10:01:00Z,18\n"
    headers = {"latin": b"zeit,gr\xf6sse\n", "quote": b'time,"n\n', "long": b"time," + b"n" * 2_000_000 + b"\n"}
    for name, header in headers.items():
        with open(name, "wb") as file:
            file.write(header + rows)
        done = ingest(name, "--into", f"{name}.db", "--format", "csv", expect=2)
        assert done["rows"] == 0 and "names of its columns" in done["sources"][0]["error"], done
        assert query(f"{name}.db", "select count(*) from litepack_unparsed") == [(0,)]
        with open(name, "wb") as file:
            file.write(b"time,n\n" + rows)
        assert ingest(name, "--into", f"{name}.db", "--format", "csv")["rows"] == 2
    with gzip.open("mac.gz", "wb") as file:
        file.write(b"time,n\r" + rows.replace(b"\n", b"\r"))
    assert "carriage return" in json.dumps(ingest("mac.gz", "--into", "mac.db", "--format", "csv", expect=2))


def only_a_time_is_the_time():
    now = time.strftime("%FT%TZ", time.gmtime())
    with open("app.log", "w") as file:
        file.write(json.dumps({"time": 0.031, "ts": now}) + "\n")
        file.write(json.dumps({"Time": 12, "level": "info"}) + "\n")
    with open("pattern.log", "w") as file:
        file.write("0.031 x\n")
    done = ingest("app.log", "--into", "logs.db", "--keep", "30d")
    assert (done["rows"], done["deleted"]) == (2, 0), done
    rows = query("logs.db", "select time, extra from logs order by rowid")
    assert rows == [(now, '{"time":0.031}'), (None, '{"Time":12}')], rows
    done = ingest("pattern.log", "--into", "logs.db", "--keep", "30d", "--format", "$time $name")
    assert (done["rows"], done["deleted"]) == (1, 0), done


def no_column_is_shifted():
    """Text behind a format makes another one of it, or an error, and never goes into its columns."""
    put("main.log", f'{FULL} "203.0.113.7"')
    put("time.log", f"{FULL} 0.003")
    put("traefik.log", f'{FULL} 162 "router" "http://172.17.0.3:80" 22ms')
    put("vhost.log", *(f'{host}:{port} {FULL}' for host, port in (("example.com", 443), ("[2001:db8::1]", 80))), end="\r\n")
    formats = {"main": "main", "time": "combined $request_time", "traefik": "traefik", "vhost": "vhost"}
    for name, form in formats.items():
        done = ingest(f"{name}.log", "--into", f"{name}.db")
        assert (done["sources"][0]["format"], done["unparsed"]) == (form, 0), done
        size = "bytes_sent" if name == "vhost" else "bytes"
        rows = query(f"{name}.db", f"select remote_addr, {size}, referer, user_agent from logs")
        assert set(rows) == {("34.70.2.63", 2053, "http://r/", "Mozilla/5.0 (X11)")}, rows
    rows = query("vhost.db", "select server_name, server_port from logs order by 2")
    assert rows == [("[2001:db8::1]", 80), ("example.com", 443)], rows
    # Fields that no format has, and the two that one number may be.
    for name, more in {"other": ' "example.com"', "more": " 1 2 3", "words": " a b"}.items():
        put(f"{name}.log", FULL + more)
        done = ingest(f"{name}.log", "--into", f"{name}.db", expect=2)
        error = done["sources"][0]["error"]
        assert "cannot tell the format" in error and "34.70.2.63" in error and not os.path.exists(f"{name}.db"), done
    put("number.log", *[f"{FULL} 162"] * 300)
    error = ingest("number.log", "--into", "number.db", expect=2)["sources"][0]["error"]
    assert "'combined %D'" in error and "'combined %T'" in error, error
    assert ingest("number.log", "--into", "number.db", "--format", "combined %D")["rows"] == 300
    assert query("number.db", "select distinct request_microseconds from logs") == [(162,)]
    # A pattern of the user.
    pattern = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time'
    put("custom.log", f"{HEAD} 0.003", FULL, HEAD, f"{FULL} 0.003", f"{HEAD} 0.003 0.004")
    done = ingest("custom.log", "--into", "custom.db", "--format", pattern)
    assert (done["rows"], done["unparsed"]) == (1, 4) and "fits 1 of the first 5" in done["sources"][0]["doubt"], done
    assert query("custom.db", "select request_time from logs") == [(0.003,)]
    # A user whose name has a space could be two fields.
    put("users.log", *[FULL] * 99, FULL.replace("- - [", "- john doe ["))
    done = ingest("users.log", "--into", "users.db")
    assert (done["rows"], done["unparsed"], done["sources"][0]["doubt"]) == (99, 1, None), done


def addresses_with_ports_are_taken_where_the_user_says_what_they_are():
    """Azure's gateways write X-Forwarded-For so. `combined "$upstream_addr"` has lines that look the same."""
    forwarded = ["203.0.113.7:50123", "203.0.113.7:1, [2001:db8::1]:443", "-"]
    put("access.log", *(f'{FULL} "{one}"' for one in forwarded))
    unknown = ingest("access.log", "--into", "no.db", expect=2)["sources"][0]
    assert unknown["format"] is None and "'main' fits 1 of 3" in unknown["error"], unknown
    ingest("access.log", "--into", "logs.db", "--format", "main")
    with open("access.log", "a") as file:
        file.write(f'{FULL} "198.51.100.1:2"\n{FULL} "example.com:80"\n')
    # The file goes on as it was begun.
    ingest("access.log", "--into", "logs.db")
    stored = [value for (value,) in query("logs.db", "select http_x_forwarded_for from logs order by rowid")]
    assert stored == [*forwarded[:2], None, "198.51.100.1:2"], stored
    assert query("logs.db", "select count(*) from litepack_unparsed") == [(1,)]


def a_line_that_waits_is_told():
    def told(*arguments):
        return subprocess.run([COMMAND, "ingest", *arguments], capture_output=True, check=True).stderr.decode()

    put("half.log", FULL, end="")
    said = told("half.log", "--into", "half.db")
    assert f"has no end yet ({len(FULL)} bytes)" in said and "half.log" in said, said
    with open("half.log", "a") as file:
        file.write("\n")
    said = told("half.log", "--into", "half.db")
    assert "no end" not in said and "1 rows added" in said, said
    put("docker.log", '{"log":"x","stream":"stdout","time":"2024-01-01T00:00:00Z"}')
    done = ingest("docker.log", "--into", "docker.db")
    assert (done["rows"], done["sources"][0]["waiting"]) == (0, 1), done
    assert "1 parts of a line wait" in told("docker.log", "--into", "docker.db")
    put("blank.log", "", "")
    assert ingest("blank.log", "--into", "blank.db")["sources"][0]["half_line_bytes"] == 0


def values_are_no_names():
    put("words.tsv", "bob\tuser\tred", "alice\tadmin\tblue")
    put("null.tsv", "alice\tGET\tnull", "bob\tGET\t200")
    for name in ("words.tsv", "null.tsv"):
        done = ingest(name, "--into", "no.db", expect=2)
        assert "'tsv'" in done["sources"][0]["error"] and not os.path.exists("no.db"), done
    put("again.csv", "time,n", "2024-01-01 00:00:00,1", "time,n", "2024-01-01 00:00:01,2")
    done = ingest("again.csv", "--into", "again.db")
    assert (done["rows"], query("again.db", "select n from logs")) == (2, [(1,), (2,)]), done
    put("export", "__CURSOR=s=1;i=2", "__REALTIME_TIMESTAMP=1423944916372858", "MESSAGE=Started")
    assert "journalctl" in ingest("export", "--into", "no.db", expect=2)["sources"][0]["error"]
    put("settings", "PATH=/usr/bin", "HOME=/root")
    assert "'logfmt'" in ingest("settings", "--into", "no.db", expect=2)["sources"][0]["error"]


def two_formats_in_one_file_are_told():
    put("mixed.log", *[FULL] * 60, *[f'{FULL} "203.0.113.7"'] * 40, *[f"{FULL} 0.003"] * 100)
    run = subprocess.run([COMMAND, "ingest", "mixed.log", "--into", "mixed.db", "--json"], capture_output=True, check=True)
    done = json.loads(run.stdout)
    assert done["sources"][0]["format"] == "combined $request_time" and done["unparsed"] == 100, done
    for said in (run.stderr.decode(), done["sources"][0]["doubt"]):
        assert "fits 100 of the first 200" in said and "'combined' fits 60" in said and FULL in said, said
    put("late.log", *[FULL] * 1000, *[f'{FULL} "203.0.113.7"'] * 500, *[f"example.com:443 {FULL}"] * 500)
    done = ingest("late.log", "--into", "late.db")
    assert (done["rows"], done["unparsed"]) == (1000, 1000), done
    assert query("late.db", "select distinct typeof(bytes), identity, remote_user, user_agent from logs") == [
        ("integer", None, None, "Mozilla/5.0 (X11)")]


def lines_with_an_iso_time_are_what_they_are():
    elb = '2017-11-23T01:24:08.529348Z ELB-DOMAIN 66.249.66.206:34140 192.168.1.48:443 0.000744 0.000009 0.000012 - - 710 31845 "- - - " "-" - -'
    put("elb.log", elb)
    assert ingest("elb.log", "--into", "elb.db")["sources"][0]["format"] == "elb"
    assert query("elb.db", "select remote_addr, remote_port, sent_bytes, path from logs") == [("66.249.66.206", 34140, 31845, None)]
    others = {
        "mysql": "2023-01-01T12:00:00.123456Z 0 [Note] [MY-010304] [Server] Skipping generation",
        "spring": "2025-01-14T16:10:41.762-07:00  INFO 93649 --- [main] e.c.o.CourseCreation   : Starting",
    }
    others |= {
        "level": "2022-02-15T18:40:14Z main ERROR: preparing",
        "thread": "2022-02-15T18:40:14Z main-1 com.foo.Bar: preparing",
        "text": "Jan 28 20:20:07 Starting the service",
    }
    for name, text in others.items():
        put(name, text)
        done = ingest(name, "--into", f"{name}.db", expect=2)
        assert "cannot tell the format" in done["sources"][0]["error"] and not os.path.exists(f"{name}.db"), done


def a_dry_run_shows_and_writes_nothing():
    write("access.log", range(1, 1001))
    put("main.log", f'{FULL} "203.0.113.7"', "what is this", f'{FULL} "-"')
    put("strange.log", "what is this")
    names = sorted(os.listdir())
    found = ingest("access.log", "main.log", "--dry-run")
    assert (found[0]["format"], found[0]["fits"], found[0]["sample"], len(found[0]["rows"])) == ("combined", 200, 200, 10), found
    row = dict(zip(found[0]["columns"], found[0]["rows"][0]))
    assert (row["bytes"], row["status"], row["referer"]) == (1, 200, None), row
    assert (found[1]["format"], found[1]["unparsed_lines"][0][1]) == ("main", "what is this") and found[1]["doubt"], found
    found = ingest("strange.log", "missing.log", "--dry-run", "--into", "new.db", expect=2)
    assert all(one["error"] for one in found), found
    run = subprocess.run([COMMAND, "ingest", "main.log", "--dry-run"], capture_output=True, check=True)
    said = run.stdout.decode()
    assert "'main'" in said and "2 of 3" in said and "203.0.113.7" in said and "what is this" in said, said
    assert sorted(os.listdir()) == names
    assert subprocess.run([COMMAND, "ingest", "main.log"], capture_output=True).returncode == 2


def names_of_fields_hold_until_others_come():
    put("ex.log", "#Software: IIS", "#Fields: date time c-ip sc-status", "2024-01-01 00:00:00 10.0.0.1 200", "2024-01-01 00:00:01 10.0.0.1")
    done = ingest("ex.log", "--into", "iis.db")
    assert (done["rows"], done["unparsed"], done["sources"][0]["format"]) == (1, 1, "w3c"), done
    with open("ex.log", "a") as file:
        file.write("2024-01-01 00:00:02 10.0.0.2 404\n#Fields: date time sc-status c-ip cs(User-Agent)\n")
        file.write("2024-01-01 00:00:03 500 10.0.0.3 a+b\n")
    assert ingest("ex.log", "--into", "iis.db")["rows"] == 2
    with open("ex.log", "a") as file:
        file.write("2024-01-01 00:00:04 501 10.0.0.4 a+b\n")
    assert ingest("ex.log", "--into", "iis.db")["rows"] == 1
    rows = query("iis.db", "select time, c_ip, sc_status, cs_user_agent from logs order by time")
    assert rows == [
        ("2024-01-01T00:00:00Z", "10.0.0.1", 200, None), ("2024-01-01T00:00:02Z", "10.0.0.2", 404, None),
        ("2024-01-01T00:00:03Z", "10.0.0.3", 500, "a+b"), ("2024-01-01T00:00:04Z", "10.0.0.4", 501, "a+b")], rows


def parts_of_lines_of_containers_are_joined():
    put("pod.log", "2024-01-01T00:00:00Z stdout P one ", "2024-01-01T00:00:01Z stderr F other")
    done = ingest("pod.log", "--into", "pod.db")
    assert (done["lines"], done["rows"], done["sources"][0]["format"]) == (2, 1, "cri"), done
    with open("pod.log", "a") as file:
        file.write("2024-01-01T00:00:02Z stdout F two\n2024-01-01T00:00:03Z stdout P end")
    assert ingest("pod.log", "--into", "pod.db")["rows"] == 1
    with open("pod.log", "rb") as file, gzip.open("pod.log.1.gz", "wb") as out:
        out.write(file.read() + b"\n")
    os.remove("pod.log")
    # Nothing follows in a compressed file.
    assert ingest("pod.log.1.gz", "--into", "pod.db")["rows"] == 1
    assert query("pod.db", "select message from logs order by rowid") == [("other",), ("one two",), ("end",)]
    whole = "x" * 40_000
    parts = [whole[at:at + 16384] for at in range(0, 40_000, 16384)]
    parts[-1] += "\n"
    put("docker.log", *(json.dumps({"log": part, "stream": "stdout", "time": "2024-01-01T00:00:00Z"}) for part in parts))
    assert ingest("docker.log", "--into", "docker.db")["rows"] == 1
    assert query("docker.db", "select log from logs") == [(whole,)]


def rows_of_earlier_versions_are_found():
    """By the SQL in docs/logs.md."""
    with open(os.path.join(DOCS, "logs.md"), encoding="utf-8") as file:
        section = file.read().split("## Databases of earlier versions")[1].split("\n## ")[0]
    find, mend = [part.split("```")[0] for part in section.split("```sql")[1:]]
    write("access.log", range(10))
    ingest("access.log", "--into", "logs.db")
    connection = sqlite3.connect("file:logs.db?vfs=litepack", uri=True, isolation_level=None)
    for column in ("host", "app", "time:2024"):
        connection.execute(f'alter table logs add column "{column}"')
    good = dict(source_id=1, remote_addr="2001:db8::1", bytes=5, host="box1", app="sshd")
    rows = [good, dict(source_id=2, bytes='2053 "http://r/"'), dict(source_id=3, remote_addr="example.com:443", remote_user="- frank"),
            dict(source_id=7, host="0", app=None), dict(source_id=5, host="ELB", app="66.249.66.206"), dict(source_id=6, host="stdout")]
    for row in rows:
        names = ", ".join(row)
        connection.execute(f"insert into logs({names}) values ({', '.join('?' * len(row))})", list(row.values()))
    found = [connection.execute(sql).fetchall() for sql in find.split(";") if sql.strip()]
    assert [sorted(row[0] for row in rows) for rows in found] == [[2], [3], [5, 6, 7], ["time:2024"]], found
    connection.executescript(mend)
    connection.close()
    assert query("logs.db", "select count(*) from logs where source_id = 7") == [(0,)]
    # The format of a source is remembered; lines that do not fit it are counted.
    connection = sqlite3.connect("file:logs.db?vfs=litepack", uri=True, isolation_level=None)
    connection.execute("update litepack_sources set format = 'common'")
    connection.close()
    write("access.log", range(10, 20), "ab")
    done = ingest("access.log", "--into", "logs.db")
    assert (done["rows"], done["unparsed"]) == (0, 10), done


run(
    [
        other_formats_are_recognised,
        hostile_lines_cost_nothing_but_themselves,
        lines_of_csv_keep_carriage_returns,
        a_header_that_cannot_be_read_is_an_error,
        only_a_time_is_the_time,
        no_column_is_shifted,
        addresses_with_ports_are_taken_where_the_user_says_what_they_are,
        a_line_that_waits_is_told,
        values_are_no_names,
        two_formats_in_one_file_are_told,
        lines_with_an_iso_time_are_what_they_are,
        a_dry_run_shows_and_writes_nothing,
        names_of_fields_hold_until_others_come,
        parts_of_lines_of_containers_are_joined,
        rows_of_earlier_versions_are_found,
    ]
)
