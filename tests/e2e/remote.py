"""Databases on a real web server (nginx), through the built extension in Python's own sqlite3 module and the stock sqlite3 shell.

Prints 'ok NAME' or 'FAILED NAME' for each check. The functions are checks; their names say what holds.
"""

import contextlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse

EXTENSION = os.environ["LITEPACK_EXTENSION"]
COMMAND = os.environ["LITEPACK_COMMAND"]
SHELL = os.environ["SQLITE3"]
FILL = """
create table t(id integer primary key, name text, data text);
create index by_name on t(name);
insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
  select i, 'name ' || (i * 7919 % 1000), json_object('id', i, 'x', hex(randomblob(20))) from n;
"""
QUERY = "select count(*), sum(length(data)), max(name) from t where name > 'name 5'"
KINDS = ["plain.db", "packed.db", "archive.db.zst"]
CONFIGURATION = """
pid nginx.pid; daemon off; error_log stderr; worker_processes 1;
events {{ worker_connections 64; }}
http {{
    access_log off; gzip on; gzip_types *;
    client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
    server {{ listen 127.0.0.1:{port}; root www; }}
}}
"""


def free_port():
    """A port that nothing listens on, below those that systems give by themselves: one of these could be given to others
    before the server that it is for has it."""
    for at in range(12000):
        port = 20000 + (os.getpid() * 16 + at) % 12000
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


class Nginx:
    """nginx in a directory of its own, with a database of each kind."""

    def __init__(self, place):
        self.place = place
        os.chmod(place, 0o755)
        www = os.path.join(place, "www")
        os.mkdir(www)
        plain, packed, archive = (os.path.join(www, name) for name in KINDS)
        with sqlite3.connect(plain) as connection:
            connection.executescript(FILL)
        connection.close()
        subprocess.run([COMMAND, "pack", plain, packed], check=True, capture_output=True)
        subprocess.run([COMMAND, "archive", "create", plain, archive], check=True, capture_output=True)
        self.port = free_port()
        with open(os.path.join(place, "nginx.conf"), "w") as file:
            file.write(CONFIGURATION.format(port=self.port))
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        arguments = [program, "-p", place + "/", "-c", "nginx.conf", "-e", "stderr"]
        self.process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
        for _ in range(15000):
            assert self.process.poll() is None, "nginx has ended"
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("nginx does not answer")

    def uri(self, name):
        url = urllib.parse.quote(f"http://127.0.0.1:{self.port}/{name}?key=s3cret", safe="")
        return f"file:/nonexistent/x?vfs=litepack&mode=ro&url={url}"

    def expected(self):
        connection = sqlite3.connect(os.path.join(self.place, "www", "plain.db"))
        return connection.execute(QUERY).fetchone()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def python_queries_each_kind_of_file(nginx):
    for name in KINDS:
        connection = sqlite3.connect(nginx.uri(name), uri=True)
        assert connection.execute(QUERY).fetchone() == nginx.expected(), name
        told = json.loads(connection.execute("pragma litepack_remote").fetchone()[0])
        assert told["requests"] > 1 and told["bytes"] > 0 and "s3cret" not in str(told), told
        try:
            connection.execute("delete from t")
            raise AssertionError("written")
        except sqlite3.OperationalError as error:
            assert str(error) == "attempt to write a readonly database", error


def the_shell_queries_each_kind_of_file(nginx):
    for name in KINDS:
        script = f".load {EXTENSION}\n.open '{nginx.uri(name)}'\n{QUERY};\n"
        run = subprocess.run([SHELL, "-batch"], input=script, capture_output=True, text=True)
        expected = "|".join(str(value) for value in nginx.expected())
        assert run.stdout.strip() == expected, (name, run)


def a_point_query_reads_little_of_the_file(nginx):
    for name in KINDS:
        connection = sqlite3.connect(nginx.uri(name), uri=True)
        connection.execute("select data from t where id = 12345").fetchone()
        told = json.loads(connection.execute("pragma litepack_remote").fetchone()[0])
        assert told["bytes"] < told["size"] or told["size"] < 2**20, (name, told)


def a_program_ends_in_the_middle_of_a_scan(nginx):
    code = f"""
import sqlite3
loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension({EXTENSION!r})
connection = sqlite3.connect({nginx.uri("plain.db")!r}, uri=True)
rows = connection.execute("select * from t")
print([next(rows)[0] for _ in range(20000)][-1])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "20000\n", ""), run


def the_command_tells_what_is_there(nginx):
    for name in KINDS:
        url = f"http://127.0.0.1:{nginx.port}/{name}"
        told = json.loads(subprocess.run([COMMAND, "info", "--json", url], check=True, capture_output=True).stdout)
        assert told["remote"]["size"] == os.path.getsize(os.path.join(nginx.place, "www", name)), told


def an_object_in_a_store_is_found_by_the_environment(nginx):
    # nginx does not look at signatures; the tests of the crates run with a store that does.
    os.makedirs(os.path.join(nginx.place, "www", "shards"))
    os.link(os.path.join(nginx.place, "www", KINDS[1]), os.path.join(nginx.place, "www", "shards", "a b?.db"))
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{nginx.port}", AWS_ACCESS_KEY_ID="AKID", AWS_SECRET_ACCESS_KEY="s3cret"
    )
    url = "s3://shards/a b?.db"
    connection = sqlite3.connect(f"file:/x?vfs=litepack&mode=ro&url={urllib.parse.quote(url, safe='')}", uri=True)
    assert connection.execute(QUERY).fetchone() == nginx.expected()
    told = json.loads(connection.execute("pragma litepack_remote").fetchone()[0])
    assert told["url"] == url and "X-Amz" not in str(told) and "AKID" not in str(told), told
    told = json.loads(subprocess.run([COMMAND, "info", "--json", url], check=True, capture_output=True).stdout)
    assert told["remote"]["url"] == url, told


CHECKS = [
    python_queries_each_kind_of_file,
    the_shell_queries_each_kind_of_file,
    a_point_query_reads_little_of_the_file,
    a_program_ends_in_the_middle_of_a_scan,
    the_command_tells_what_is_there,
    an_object_in_a_store_is_found_by_the_environment,
]


def main():
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(EXTENSION)
    with tempfile.TemporaryDirectory() as place:
        nginx = Nginx(place)
        try:
            for check in CHECKS:
                name = check.__name__.replace("_", " ")
                try:
                    check(nginx)
                except Exception:
                    print(f"FAILED remote: {name}")
                    traceback.print_exc(file=sys.stdout)
                else:
                    print(f"ok remote: {name}")
        finally:
            nginx.stop()
    print("end of part", flush=True)


if __name__ == "__main__":
    main()
