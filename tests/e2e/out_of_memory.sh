# The extension in a host that is refused memory, at each of many allocations: see out_of_memory.c. Run by 'run', which sets
# LITEPACK_EXTENSION and LITEPACK_COMMAND. Prints 'ok NAME' or 'FAILED NAME' for each check. With LITEPACK_LONG begins
# at every allocation there is; LITEPACK_SEED chooses others.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trials=${LITEPACK_LONG:+0}
seed=${LITEPACK_SEED:-1}
# Its functions stand in for those of the C library also where the extension calls them.
cc -O1 -rdynamic -o "$place/host" "$here/out_of_memory.c" -ldl || exit 1

check() { # NAME VFS WORK TRIALS
    local said
    if said=$("$place/host" "$LITEPACK_EXTENSION" "$place" "$2" "$3" "$4" "$seed"); then
        echo "ok out of memory: $1 (${said#ok })"
    else
        echo "FAILED out of memory: $1 (seed $seed)"
        printf '  %s\n' "${said:0:4000}"
    fi
}

for work in read write wal; do check "the control, $work" unix "$work" "${trials:-10}"; done
for work in read write wal vacuum columns maintain; do check "$work" litepack "$work" "${trials:-30}"; done
check "large requests" litepack large 0
# The archive is of the database that the trials begin with.
"$LITEPACK_COMMAND" unpack "$place/litepack-read.db.template" "$place/plain.db" >/dev/null &&
    "$LITEPACK_COMMAND" archive create "$place/plain.db" "$place/archive.zst" >/dev/null
check "archive" litepack archive "${trials:-30}"

# A limit on the address space instead, as the system sets it: plain SQLite survives all of them. The extension is loaded
# by SQL, as Python's own function for it follows a null pointer where SQLite has no memory for a message.
cp "$place/litepack-read.db.template" "$place/limited.db"
step=${LITEPACK_LONG:+40}
for limit in $(seq 26000 "${step:-1000}" 60000); do
    said=$( (
        ulimit -v $limit
        ulimit -c 0
        timeout -s KILL 300 "$PYTHON" -c "
import sqlite3, sys
for again in range(3):
    try:
        loader = sqlite3.connect(':memory:')
        loader.enable_load_extension(True)
        loader.execute('select load_extension(?)', ['$LITEPACK_EXTENSION'])
        db = sqlite3.connect('file:$place/limited.db?vfs=litepack', uri=True, isolation_level=None)
        db.execute('select sum(length(x)) from t').fetchone()
        db.execute('update t set v = v + 1')
        db.execute('vacuum')
        print('done')
    except (sqlite3.Error, MemoryError) as error:
        pass
" 2>&1
        echo "ended $?"
    ))
    without=${said//done$'\n'/}
    worked=no
    [[ $said == "$without" ]] || worked=yes
    if [[ $without == "ended 0" || $without == *"ImportError"* || $without == *"ended 127" ]]; then
        echo "ok out of memory: an address space of $limit KiB"
    else
        echo "FAILED out of memory: an address space of $limit KiB"
        printf '  %s\n' "$said"
    fi
done
if [[ $worked == yes ]]; then
    echo "ok out of memory: in $limit KiB it works"
else
    echo "FAILED out of memory: it does not work in $limit KiB, so the limits show nothing"
fi
echo "end of part"
