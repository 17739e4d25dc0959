"""`litepack run`: programs of others, in which packed databases open by their names.

Each check runs in a process of its own. Prints 'ok NAME' or 'FAILED NAME' for each. The functions are checks; their
names say what holds.
"""

import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess

from libraries import COMMAND, EXTENSION, FILL, MAGIC, ROWS, main, system_library

PRELOAD = os.path.join(os.path.dirname(EXTENSION), "liblitepack_preload.so")
SHELL, PYTHON = os.environ["SQLITE3"], os.environ["PYTHON"]
HERE = os.path.dirname(os.path.abspath(__file__))

# What each program does, on a plain database alone and on a packed one under `run`.
IN_SHELL = [
    "pragma journal_mode = {mode};",
    "select count(*), sum(id), max(name) from t;",
    "insert into t(name, data) values ('more', '[1]'); update t set name = 'x' where id % 3 = 0;",
    "delete from t where id % 7 = 0; select count(*), max(id), changes() from t;",
    "create table u as select name, count(*) as n from t group by name; select * from u order by n, name limit 3;",
    "attach 'other.db' as o; create table if not exists o.t(x); insert into o.t values(1); select count(*) from o.t;",
    "begin; delete from t; rollback; select count(*) from t where data ->> 'id' > 100;",
    "pragma integrity_check;",
]
IN_PYTHON = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for sql in sys.argv[2:]:
    for statement in sql.split(";")[:-1]:
        print(db.execute(statement).fetchall())
copy = sqlite3.connect(sys.argv[1] + ".copy")
db.backup(copy)
print(copy.execute("select count(*) from t").fetchone())
"""


def under(*command, **options):
    """Runs a program by `litepack run`; the result."""
    return subprocess.run([COMMAND, "run", "--", *command], capture_output=True, text=True, timeout=120, **options)


def said(result):
    """What a program has printed. It has ended well, and said nothing else."""
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout.strip()


def alone(*command, **options):
    return said(subprocess.run(command, capture_output=True, text=True, timeout=120, **options))


def databases(place, *names):
    """`plain.db` in the place, and packed ones with the same content."""
    plain = place + "/plain.db"
    sqlite3.connect(plain).executescript(FILL)
    for name in names:
        subprocess.run([COMMAND, "pack", plain, f"{place}/{name}"], check=True, capture_output=True)


def is_packed(path):
    with open(path, "rb") as file:
        return file.read(16) != MAGIC


def programs():
    """Pythons, by what they are."""
    found = {os.path.realpath(PYTHON): "the system's Python"}
    other = shutil.which("python3")
    if other:
        real = alone(other, "-c", "import sys; print(sys.executable)")
        found.setdefault(os.path.realpath(real), "the Python of PATH")
    return list(found)


def the_shell_does_what_it_does_on_a_plain_database(place):
    for mode in ["delete", "wal"]:
        both = [f"{place}/{mode}-{kind}" for kind in ["plain", "packed"]]
        for folder in both:
            os.mkdir(folder)
        databases(both[0], "packed.db")
        os.rename(both[0] + "/plain.db", both[0] + "/a.db")
        os.rename(both[0] + "/packed.db", both[1] + "/a.db")
        sql = [line.format(mode=mode) for line in IN_SHELL]
        wanted = alone(SHELL, "a.db", *sql, cwd=both[0])
        assert said(under(SHELL, "a.db", *sql, cwd=both[1])) == wanted and mode in wanted
        assert is_packed(both[1] + "/a.db") and not is_packed(both[1] + "/other.db")
        dumps = [said(under(SHELL, "a.db", ".dump", cwd=folder)) for folder in both]
        assert dumps[0] == dumps[1] and len(dumps[0]) > 100_000


def each_python_does_what_it_does_on_a_plain_database(place):
    for number, python in enumerate(programs()):
        for mode in ["delete", "wal"]:
            folder = f"{place}/{number}-{mode}"
            os.mkdir(folder)
            databases(folder, "packed.db")
            sql = [line.format(mode=mode) for line in IN_SHELL]
            program = [python, "-c", IN_PYTHON]
            wanted = alone(*program, "plain.db", *sql, cwd=folder)
            os.remove(folder + "/other.db")
            assert said(under(*program, "packed.db", *sql, cwd=folder)) == wanted
            assert is_packed(folder + "/packed.db") and not is_packed(folder + "/packed.db.copy")


def a_plain_database_stays_with_sqlite(place):
    databases(place)
    before = open(place + "/plain.db", "rb").read()
    assert said(under(SHELL, place + "/plain.db", ".vfsname", "select count(*) from t")) == f"unix\n{ROWS}"
    assert open(place + "/plain.db", "rb").read() == before


def copies_can_be_plain_or_packed(place):
    databases(place, "a.db")
    copying = [".backup backup.db", "vacuum into 'vacuum.db'", "vacuum into 'file:packed.db?vfs=litepack'"]
    said(under(SHELL, "a.db", *copying, cwd=place))
    for name, packed in [("backup", False), ("vacuum", False), ("packed", True)]:
        assert is_packed(f"{place}/{name}.db") == packed, name
        assert said(under(SHELL, f"{name}.db", "select count(*) from t; pragma integrity_check", cwd=place)) == f"{ROWS}\nok"
    said(under(SHELL, "a.db", "delete from t", ".restore backup.db", cwd=place))
    assert is_packed(place + "/a.db")
    assert said(under(SHELL, "a.db", "select count(*) from t; pragma integrity_check", cwd=place)) == f"{ROWS}\nok"


def two_processes_see_each_other(place):
    databases(place, "a.db")
    path = place + "/a.db"
    said(under(SHELL, path, "pragma journal_mode = wal"))
    code = """if True:
        import sqlite3, sys
        db = sqlite3.connect(sys.argv[1], isolation_level=None)
        db.execute("begin")
        print(db.execute("select count(*) from t").fetchone()[0], flush=True)
        input()
        print(db.execute("select count(*) from t").fetchone()[0], flush=True)
        db.execute("commit")
        print(db.execute("select count(*) from t").fetchone()[0], flush=True)
    """
    reader = subprocess.Popen(
        [COMMAND, "run", "--", PYTHON, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert int(reader.stdout.readline()) == ROWS
    said(under(SHELL, path, "delete from t where id % 2"))
    output, _ = reader.communicate("\n")
    assert output.split() == [str(ROWS), str(ROWS // 2)]
    assert said(under(SHELL, path, "pragma integrity_check")) == "ok"


def a_killed_program_leaves_what_it_has_committed(place):
    databases(place, "a.db")
    path = place + "/a.db"
    code = """if True:
        import sqlite3, sys
        db = sqlite3.connect(sys.argv[1], isolation_level=None)
        db.execute("pragma journal_mode = wal")
        for number in range(1000000):
            db.execute("insert into t(name) values ('counted')")
            print(number + 1, flush=True)
    """
    writer = subprocess.Popen([COMMAND, "run", "--", PYTHON, "-c", code, path], stdout=subprocess.PIPE, text=True)
    for _ in range(20):
        committed = int(writer.stdout.readline())
    # It is the program itself: nothing of ours waits for it.
    writer.send_signal(signal.SIGKILL)
    rest = writer.stdout.read().split("\n")
    committed = max([committed, *(int(line) for line in rest[:-1] if line)])
    assert writer.wait() == -signal.SIGKILL
    found = said(under(SHELL, path, "select count(*) from t where name = 'counted'; pragma integrity_check"))
    count, state = found.split("\n")
    assert committed <= int(count) <= committed + 1 and state == "ok", (committed, found)


def nothing_happens_without_sqlite(place):
    maps = said(under("cat", "/proc/self/maps"))
    ours = {line.split()[-1] for line in maps.split("\n") if "litepack" in line or "sqlite" in line}
    assert ours == {os.path.realpath(PRELOAD)}, ours
    assert said(under("env", "-i", "cat", "/proc/self/maps")).count("litepack") == 0


def the_programs_of_a_program_open_it_too(place):
    databases(place, "a.db")
    sql = f"{SHELL} a.db 'select count(*) from t'"
    assert said(under("sh", "-c", f"{sql}; {sql}", cwd=place)) == f"{ROWS}\n{ROWS}"
    for name, first in [("shebang", "#!/usr/bin/env -S sh\n"), ("none", "")]:
        script = f"{place}/{name}"
        with open(script, "w") as file:
            file.write(f"{first}{sql}\n")
        os.chmod(script, 0o755)
        assert said(under(script, cwd=place)) == str(ROWS)
        environment = os.environ | {"PATH": f"{place}:{os.environ['PATH']}"}
        assert said(under(name, cwd=place, env=environment)) == str(ROWS)


def what_is_loaded_already_stays(place):
    former = os.path.realpath(system_library())
    for names in [former, f"{former} {former}"]:
        environment = os.environ | {"LD_PRELOAD": names}
        wanted = f"{os.path.realpath(PRELOAD)}:{names}".replace(" ", ":")
        assert said(under("printenv", "LD_PRELOAD", env=environment)) == wanted
    # Ours has to be before every SQLite.
    environment = os.environ | {"LD_PRELOAD": f"{former}:{os.path.realpath(PRELOAD)}"}
    assert said(under("printenv", "LD_PRELOAD", env=environment)) == f"{os.path.realpath(PRELOAD)}:{former}"
    twice = [COMMAND, "run", "--anyway", COMMAND, "run", "printenv", "LD_PRELOAD"]
    assert alone(*twice) == os.path.realpath(PRELOAD)
    databases(place, "a.db")
    environment = os.environ | {"LD_PRELOAD": former}
    assert said(under(PYTHON, "-c", IN_PYTHON, place + "/a.db", env=environment)) == f"({ROWS},)"


def it_answers_as_the_program_does_and_else_as_env(place):
    assert under("sh", "-c", "exit 7").returncode == 7
    assert said(under("sh", "-c", 'echo "$0" "$@"', "a", "--json", "b c")) == "a --json b c"
    assert under("sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    assert said(under("cat", input="x")) == "x"
    with open(place + "/data", "w") as file:
        file.write("x")
    for name, code in [("no-such-program", 127), (place + "/none", 127), (place + "/data", 126), (place, 126)]:
        result = under(name)
        assert result.returncode == code and result.stderr.startswith(f"litepack: cannot run {name}: "), result
        assert subprocess.run(["env", name], capture_output=True).returncode == code
    assert subprocess.run([COMMAND, "run"], capture_output=True).returncode == 2


def a_program_that_cannot_open_it_is_not_started(place):
    other = place + "/other"
    for path, why in [(shutil.which("ldconfig", path="/sbin:/usr/sbin"), "linked statically"), (COMMAND, "of its own")]:
        result = under(path, "--version")
        assert result.returncode == 2 and why in result.stderr and result.stdout == "", result
        result = subprocess.run([COMMAND, "run", "--anyway", path, "--version"], capture_output=True, text=True)
        assert result.returncode == 0 and result.stdout, result
    with open(PYTHON, "rb") as file:
        content = bytearray(file.read())
    content[18] = 0xF3
    with open(other, "wb") as file:
        file.write(content)
    os.chmod(other, 0o755)
    result = under(other)
    assert result.returncode == 2 and "another kind of processor" in result.stderr, result
    # Of another C library, by the file that loads its libraries.
    with open(PYTHON, "rb") as file:
        content = file.read()
    loader = re.search(rb"/lib[^\0]*/ld-linux-[^\0]*", content)[0]
    assert len(loader) > len(b"/lib/ld-musl.so.1")
    with open(other, "wb") as file:
        file.write(content.replace(loader, b"/lib/ld-musl.so.1".ljust(len(loader), b"\0")))
    result = under(other)
    assert result.returncode == 2 and "another C library" in result.stderr, result
    privileged = shutil.which("su")
    if os.geteuid() == 0:
        privileged = shutil.copy(shutil.which("cat"), place + "/privileged")
        os.chown(privileged, 65534, 65534)
        os.chmod(privileged, 0o4755)
    result = under(privileged)
    assert result.returncode == 2 and "rights that its user has not" in result.stderr, result
    script = place + "/script"
    with open(script, "w") as file:
        file.write(f"#!{COMMAND}\n")
    os.chmod(script, 0o755)
    result = under(script)
    assert result.returncode == 2 and "of its own" in result.stderr, result


def a_program_with_capabilities_is_not_started(place):
    # VFS_CAP_REVISION_2: it gets CAP_NET_RAW.
    capable, other = shutil.copy(shutil.which("cat"), place + "/capable"), 65534
    try:
        os.setxattr(capable, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    except OSError as error:
        print("skipped: preload.py: no file gets capabilities:", error, flush=True)
        return
    # Of others: to root they give nothing.
    files = place + "/files"
    os.mkdir(files)
    for name, path in [("litepack", COMMAND), ("liblitepack-preload.so", PRELOAD), ("liblitepack.so", EXTENSION)]:
        shutil.copy(path, f"{files}/{name}")
    os.chmod(place, 0o755)
    call = [files + "/litepack", "run", capable, "/proc/self/maps"]
    options = {"capture_output": True, "text": True, "user": other, "group": other, "extra_groups": []}
    result = subprocess.run(call, **options)
    assert result.returncode == 2 and "rights that its user has not" in result.stderr, result
    result = subprocess.run(call, capture_output=True, text=True)
    assert result.returncode == 0 and "liblitepack-preload.so" in result.stdout, result


def a_missing_library_is_told(place):
    command = shutil.copy(COMMAND, place)
    result = subprocess.run([command, "run", "true"], capture_output=True, text=True)
    assert result.returncode == 2 and "liblitepack-preload.so" in result.stderr, result
    shutil.copy(PRELOAD, place + "/liblitepack-preload.so")
    result = subprocess.run([command, "run", "true"], capture_output=True, text=True)
    assert result.returncode == 2 and "liblitepack.so" in result.stderr, result
    shutil.copy(EXTENSION, place)
    databases(place, "a.db")
    said(subprocess.run([command, "run", SHELL, place + "/a.db", "select * from t"], capture_output=True, text=True))
    spaced = place + "/a b"
    os.mkdir(spaced)
    for name in ["litepack", "liblitepack-preload.so", "liblitepack.so"]:
        shutil.move(f"{place}/{name}", spaced)
    result = subprocess.run([spaced + "/litepack", "run", "true"], capture_output=True, text=True)
    assert result.returncode == 2 and "space" in result.stderr, result


def an_encrypted_database_opens_with_its_key(place):
    databases(place)
    with open(place + "/key", "w") as file:
        file.write("correct horse")
    packing = [COMMAND, "pack", "--encrypt", "--key-file", "key", "plain.db", "a.db"]
    subprocess.run(packing, check=True, capture_output=True, cwd=place)
    count = "select count(*) from t"
    assert said(under(SHELL, "a.db", "pragma key = 'correct horse'", count, cwd=place)) == f"ok\n{ROWS}"
    result = under(SHELL, "a.db", count, cwd=place)
    assert result.returncode != 0 and "file is not a database" in result.stderr, result


# Without the extension


def preloaded(preload, code, *arguments):
    """What Python says that has this library loaded into it."""
    return alone(PYTHON, "-c", TELL + code, *arguments, env=os.environ | {"LD_PRELOAD": preload})


# Says how many rows there are, or why not.
TELL = """if True:
    import os, sqlite3, sys
    def tell(name, **options):
        try:
            print(*sqlite3.connect(name, **options).execute("select count(*) from t").fetchone())
        except sqlite3.Error as error:
            print(error)
"""
REFUSED = "unable to open database file"


def without_the_extension_a_packed_file_is_refused(place):
    databases(place, "a.db")
    os.chdir(place)
    subprocess.run([COMMAND, "archive", "create", "plain.db", "a.zst"], check=True, capture_output=True)
    before = open("a.db", "rb").read()
    preload = shutil.copy(PRELOAD, place)
    code = """
    for name in ["a.db", "plain.db", "a.db", "a.zst", "empty.db", ":memory:"]: tell(name)
    for name in ["a.db?mode=rw", "%61.db", "plain.db"]: tell("file:" + name, uri=True)
    tell("new.db")
    """
    none = "no such table: t"
    wanted = [REFUSED, ROWS, REFUSED, REFUSED, none, none, REFUSED, REFUSED, ROWS, none]
    open("empty.db", "wb").close()
    assert preloaded(preload, code).split("\n") == [str(line) for line in wanted]
    assert open("a.db", "rb").read() == before
    # SQLite's own connection says it, and for a plain file nothing is loaded in vain.
    result = subprocess.run([SHELL, "a.db", ".log stderr", "select 1 from t"], capture_output=True, text=True,
                            env=os.environ | {"LD_PRELOAD": preload})
    assert result.returncode != 0 and REFUSED in result.stderr, result


def locks_stay_when_a_plain_file_is_looked_at(place):
    databases(place)
    code = """
    db = sqlite3.connect("plain.db", isolation_level=None)
    db.execute("begin immediate")
    tell("plain.db")
    import subprocess
    code = "import sqlite3; sqlite3.connect('plain.db', timeout=0).execute('begin immediate')"
    other = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env={})
    print("locked" in other.stderr)
    """
    os.chdir(place)
    assert preloaded(shutil.copy(PRELOAD, place), code) == f"{ROWS}\nTrue"


def without_memory_for_the_extension_a_packed_file_is_refused(place):
    databases(place, "a.db")
    code = """
    import resource
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), hard))
    tell("a.db")
    tell("plain.db")
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    tell("a.db")
    tell("plain.db")
    """
    os.chdir(place)
    assert preloaded(PRELOAD, code) == f"{REFUSED}\n{ROWS}\n{ROWS}\n{ROWS}"


def a_planted_extension_is_not_loaded(place):
    databases(place, "a.db")
    true, other, planted = place + "/true", place + "/other", place + "/planted.so"
    source = '#include <fcntl.h>\n__attribute__((constructor)) static void run(void) { creat("ran", 0600); }'
    building = ["cc", "-shared", "-fPIC", "-x", "c", "-o", planted, "-"]
    subprocess.run(building, input=source, text=True, check=True)
    os.chdir(place)
    os.mkdir(true)
    preload = shutil.copy(PRELOAD, true)
    shutil.copy(EXTENSION, true + "/liblitepack.so")
    assert preloaded(preload, "tell('a.db')") == str(ROWS)
    # An update puts another file into the same directory.
    update = "os.rename(sys.argv[1], 'former'); import shutil; shutil.copy('former', sys.argv[1]); tell('a.db')"
    assert preloaded(preload, update, true + "/liblitepack.so") == str(ROWS)
    os.mkdir(other)
    shutil.copy(planted, other + "/liblitepack.so")
    swap = "os.rename('true', 'away'); os.rename('other', 'true'); tell('a.db'); tell('plain.db')"
    assert preloaded(preload, swap) == f"{REFUSED}\n{ROWS}"
    # By a path that depends on where the program is.
    relative = "os.chdir('true'); tell('../a.db'); tell('../plain.db')"
    shutil.copy(PRELOAD, "true")
    shutil.copytree("away", "true/away")
    shutil.copy(planted, "true/away/liblitepack.so")
    assert preloaded("./away/" + os.path.basename(PRELOAD), relative) == f"{REFUSED}\n{ROWS}"
    assert not os.path.exists("ran") and not os.path.exists("true/ran")


# Each way to reach SQLite, by programs in C


def built(place, *names):
    """The program of preload.c, and a library of each of these names, linked to a SQLite of its own."""
    source = HERE + "/preload.c"
    program = place + "/program"
    build = ["cc", "-O1", "-Wall", "-Werror"]
    subprocess.run([*build, "-o", program, source, "-ldl", "-lpthread"], check=True)
    libraries = []
    for name in names:
        with open(os.path.realpath(system_library()), "rb") as file:
            content = file.read()
        # Of another name, or the loader takes them for one.
        named = f"libsqlit{name}3.so.0".encode()
        assert b"libsqlite3.so.0" in content
        sqlite = f"{place}/{named.decode()}"
        with open(sqlite, "wb") as file:
            file.write(content.replace(b"libsqlite3.so.0", named))
        library = f"{place}/lib{name}.so"
        shared = ["-DLIBRARY", "-shared", "-fPIC", "-o", library, source, sqlite, f"-Wl,-rpath,{place}"]
        subprocess.run([*build, *shared], check=True)
        libraries.append(library)
    databases(place, "a.db")
    return program, libraries


def does(place, check, *names):
    program, libraries = built(place, *names)
    result = under(program, check, place + "/a.db", *libraries)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", ""), result


def each_library_of_a_process_is_asked_for_its_own_databases(place):
    does(place, "scopes", "a", "b")


def a_function_that_ends_with_the_call_reaches_the_only_sqlite(place):
    does(place, "at-last", "a")


def and_none_if_there_are_several(place):
    does(place, "either", "a", "b")


def sqlite_may_be_configured_before_and_after(place):
    does(place, "configured", "a")


def a_database_may_be_opened_while_one_is_opened(place):
    does(place, "while-opening", "a")


def a_database_may_be_opened_beside_each_other_one(place):
    does(place, "beside", "a")


def threads_that_begin_at_once_all_open_it(place):
    does(place, "threads", "a")


def a_library_may_open_a_database_when_it_is_loaded(place):
    # The loader's lock is held then, so that no thread comes to run.
    program, (library,) = built(place, "a")
    constructed = place + "/libconstructed.so"
    build = ["cc", "-DCONSTRUCTOR", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", constructed, HERE + "/preload.c"]
    subprocess.run([*build, library, f"-Wl,-rpath,{place}"], check=True)
    for database in ["plain.db", "a.db"]:
        assert said(under(program, "constructor", place + "/a.db", library, constructed, f"{place}/{database}")) == ""
        assert said(under(program, "loaded", f"{place}/{database}", library, constructed)) == ""


def what_a_program_is_linked_to_may_open_a_packed_one_before_it_begins(place):
    # A library whose turn comes before that of ours, and the program itself.
    _, (library,) = built(place, "a")
    rpath = f"-Wl,-rpath,{place}"
    build = ["cc", "-DCONSTRUCTOR", "-Wl,--no-as-needed", HERE + "/preload.c"]
    constructed, program = place + "/libconstructed.so", place + "/begins"
    subprocess.run([*build, "-shared", "-fPIC", "-o", constructed, library, rpath], check=True)
    subprocess.run([*build, "-DPROGRAM", "-o", program, constructed, library, rpath], check=True)
    said(under(program, env={**os.environ, "DATABASE": place + "/a.db"}))


def a_signal_is_ignored_by_a_service_still_but_not_by_what_is_run(place):
    # What a program is started with is in its list of ignored signals.
    ignored = ["sh", "-c", "trap '' PIPE; exec \"$@\"", "sh"]
    tell = ["sed", "-n", "s/^SigIgn:.*\\(.\\)...$/\\1/p", "/proc/self/status"]

    def is_ignored(*command, **variables):
        return alone(*ignored, *command, *tell, env={**os.environ, **variables}) != "0"

    assert is_ignored() and is_ignored(LD_PRELOAD=PRELOAD)
    assert not is_ignored(COMMAND, "run", "--")
    assert is_ignored(COMMAND, "run", "--", "env", "--ignore-signal=PIPE")


def a_library_that_was_unloaded_is_served_again(place):
    does(place, "again", "a")


def modules_as_php_loads_them_open_it(place):
    # By the name that such a module has in it.
    does(place, "deepbind", "e")


def without_any_sqlite_there_is_no_memory(place):
    does(place, "none")


CHECKS = [
    the_shell_does_what_it_does_on_a_plain_database,
    each_python_does_what_it_does_on_a_plain_database,
    a_plain_database_stays_with_sqlite,
    copies_can_be_plain_or_packed,
    two_processes_see_each_other,
    a_killed_program_leaves_what_it_has_committed,
    nothing_happens_without_sqlite,
    the_programs_of_a_program_open_it_too,
    what_is_loaded_already_stays,
    it_answers_as_the_program_does_and_else_as_env,
    a_program_that_cannot_open_it_is_not_started,
    a_program_with_capabilities_is_not_started,
    a_missing_library_is_told,
    an_encrypted_database_opens_with_its_key,
    without_the_extension_a_packed_file_is_refused,
    locks_stay_when_a_plain_file_is_looked_at,
    without_memory_for_the_extension_a_packed_file_is_refused,
    a_planted_extension_is_not_loaded,
    each_library_of_a_process_is_asked_for_its_own_databases,
    a_function_that_ends_with_the_call_reaches_the_only_sqlite,
    and_none_if_there_are_several,
    sqlite_may_be_configured_before_and_after,
    a_database_may_be_opened_while_one_is_opened,
    a_database_may_be_opened_beside_each_other_one,
    threads_that_begin_at_once_all_open_it,
    a_library_may_open_a_database_when_it_is_loaded,
    what_a_program_is_linked_to_may_open_a_packed_one_before_it_begins,
    a_signal_is_ignored_by_a_service_still_but_not_by_what_is_run,
    a_library_that_was_unloaded_is_served_again,
    modules_as_php_loads_them_open_it,
    without_any_sqlite_there_is_no_memory,
]

if __name__ == "__main__":
    main(__file__, CHECKS)
