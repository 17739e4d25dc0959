# The extension and the command with the stock sqlite3 shell. Run by 'run', which sets LITEPACK_EXTENSION,
# LITEPACK_COMMAND and SQLITE3. Prints 'ok NAME' or 'FAILED NAME' for each check.
set -uo pipefail
shopt -s nullglob
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1

fill="create table t(id integer primary key, x text);
create index tx on t(x);
insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
  select i, printf('row %d of many %x', i, i * 7919) from n;"
count="select count(*), sum(id), max(x) from t;"
answer="3000|4501500|row 999 of many 78b6a9"

# Each of these reads SQL and dot-commands from standard input and prints what the shell says.
stock() { "$SQLITE3" -batch "$@" 2>&1; }
named() { { echo ".load $LITEPACK_EXTENSION"; cat; } | "$SQLITE3" -batch :memory: 2>&1; }
default() { { echo ".load $LITEPACK_EXTENSION sqlite3_litepackdefault_init"; cat; } | "$SQLITE3" -batch :memory: 2>&1; }

# check NAME GOT WANTED: GOT must be WANTED, which may be a pattern.
check() {
    # shellcheck disable=SC2053
    if [[ $2 == $3 ]]; then echo "ok shell: $1"; else
        echo "FAILED shell: $1"
        printf '  got:    %s\n  wanted: %s\n' "$2" "$3"
    fi
}
is_plain() { if [[ $(head -c 15 "$1") == "SQLite format 3" ]]; then echo plain; else echo packed; fi; }

check "the version function answers" "$(named <<<"select litepack_version();")" "[0-9]*.[0-9]*.[0-9]*"

# Encrypted: SQLite's shell gives the key by the pragma.
key="pragma key = 'correct horse';"
check "a key makes an encrypted database" "$(named <<<".open 'file:secret.db?vfs=litepack'
$key
$fill
$count")" "ok"$'\n'"$answer"
check "which opens with it by name" "$(default <<<".open secret.db
$key
$count")" "ok"$'\n'"$answer"
check "and not without" "$(default <<<".open secret.db
$count")" "*file is not a database*"
check "the pragma says why" "$(default <<<".open secret.db
pragma litepack_info;")" "*file is encrypted: give PRAGMA key*"
check "another key is wrong" "$(default <<<".open secret.db
pragma key = 'another';")" "*wrong key*"
for mode in "journal_mode = delete" "journal_mode = wal" "locking_mode = exclusive"; do
    for copy in "vacuum into 'copy.db'" "; /* */ vacuum main into 'copy.db'"; do
        check "the default VFS copies nothing of it in plain ($mode, $copy)" "$(default <<<".open secret.db
$key
pragma $mode;
insert into t(x) values ('more');
delete from t where x = 'more';
$copy;")" "*bad parameter or other API misuse*"
        check "of which nothing is left" "$(cat copy.db 2>/dev/null | wc -c)" "0"
        rm -f copy.db
    done
done
for name in "'new.db' as n" "'new.db' as n key 'k'"; do
    check "nor is a new one attached to it by the default VFS ($name)" "$(default <<<".open secret.db
$key
attach $name;
create table n.t(x);")" "*bad parameter or other API misuse*"
    rm -f new.db
done
check "a new one in plain is made beside an encrypted one" "$(default <<<".open secret.db
$key
.open new.db
$fill
pragma journal_mode = wal;
delete from t where id > 2;
$count
pragma integrity_check;")" "ok"$'\n'"wal"$'\n'"2|3|row 2 of many 3dde"$'\n'"ok"
check "which is a plain file" "$(stock new.db <<<"$count")" "2|3|row 2 of many 3dde"
rm -f new.db
check "a copy by ours has the same key" "$(default <<<".open secret.db
$key
vacuum into 'file:copy.db?vfs=litepack';
.open copy.db
$key
$count")" "ok"$'\n'"ok"$'\n'"$answer"
rm -f copy.db secret.db

got=$(named <<<".open 'file:a.db?vfs=litepack'
$fill
$count
.vfsname")
check "a database is created through the VFS" "$got" "$answer"$'\n'"litepack*"
check "and it is packed" "$(is_plain a.db 2>/dev/null)" "packed"
got=$(named <<<".open 'file:a.db?vfs=litepack'
$count
pragma integrity_check;
select litepack_check();")
check "and reopens in another process" "$got" "$answer"$'\n'"ok"$'\n'"ok"

check "the stock shell refuses it" "$(stock a.db <<<"$count")" "*file is not a database*"
check "and does not write to it" "$(stock a.db <<<"create table u(x);")" "*file is not a database*"
check "it is still whole" "$(named <<<".open 'file:a.db?vfs=litepack'
$count")" "$answer"

for mode in delete truncate persist memory off wal; do
    got=$(named <<<".open 'file:$mode.db?vfs=litepack'
pragma journal_mode = $mode;
$fill
update t set x = x where id % 3 = 0;
$count")
    check "journal mode $mode writes" "$got" "$mode"$'\n'"$answer"
    got=$(named <<<".open 'file:$mode.db?vfs=litepack'
$count
pragma integrity_check;")
    check "journal mode $mode reopens" "$got" "$answer"$'\n'"ok"
done

stock plain.db <<<"$fill"
cp plain.db before.db
check "the default entry point reads a plain file" "$(default <<<".open plain.db
$count")" "$answer"
check "and leaves every byte of it" "$(cmp plain.db before.db && echo same)" "same"
default <<<".open plain.db
delete from t where id > 2;"
check "a plain file that was written is still plain" "$(stock plain.db <<<"$count
pragma integrity_check;")" "2|3|row 2 of many 3dde"$'\n'"ok"

check "the default entry point opens packed files by name" "$(default <<<".open a.db
$count")" "$answer"
got=$(default <<<".open new-plain.db
$fill
select litepack_new_databases('packed');
.open new-packed.db
$fill
$count")
check "new databases are made packed when asked" "$got" "*$answer"
check "and plain before" "$(is_plain new-plain.db 2>/dev/null)" "plain"
check "the new database is packed" "$(is_plain new-packed.db 2>/dev/null)" "packed"

got=$(named <<<".open 'file:a.db?vfs=litepack'
.backup copy.db
vacuum into 'file:into-plain.db?vfs=unix';
vacuum into 'file:into-packed.db?vfs=litepack';
.open copy.db
$count")
check "the shell's .backup works" "$got" "$answer"
check "VACUUM INTO makes a plain file" "$(stock into-plain.db <<<"$count" 2>/dev/null)" "$answer"
check "VACUUM INTO makes a packed file" "$(is_plain into-packed.db 2>/dev/null)" "packed"
got=$(named <<<".open 'file:a.db?vfs=litepack'
.dump" | stock dumped.db; stock dumped.db <<<"$count")
check "a dump is complete" "$got" "$answer"

if [[ -x ${LITEPACK_COMMAND:-} ]]; then
    "$LITEPACK_COMMAND" pack into-plain.db by-command.db >/dev/null 2>&1
    check "a file packed by the command opens in the shell" "$(named <<<".open 'file:by-command.db?vfs=litepack'
$count
pragma integrity_check;")" "$answer"$'\n'"ok"
    "$LITEPACK_COMMAND" unpack a.db unpacked.db >/dev/null 2>&1
    check "a file made in the shell is unpacked by the command" "$(stock unpacked.db <<<"$count")" "$answer"
    json=$("$LITEPACK_COMMAND" info --json a.db)
    check "info prints JSON" "$(stock :memory: <<<"select json_valid('${json//\'/\'\'}');")" "1"
    got=$(stock :memory: <<<"with report(j) as (select '${json//\'/\'\'}'),
        shares(s) as (select value from report, json_each(j, '\$.trees')
            union all select value from report, json_each(j, '\$.other_pages'))
        select sum(json_extract(s, '\$.pages')) = json_extract(j, '\$.pages')
            and sum(json_extract(s, '\$.stored_bytes')) = json_extract(j, '\$.stored_bytes')
            and json_extract(j, '\$.unaccounted_bytes') = 0
            and sum(json_extract(s, '\$.name') = 't') from report, shares;")
    check "info accounts for every page and byte, by table" "$got" "1"
    check "info names the tables for people, too" "$("$LITEPACK_COMMAND" info a.db)" "*table t *"
    "$LITEPACK_COMMAND" check a.db >/dev/null 2>&1
    check "check says yes by exit code 0" "$?" "0"
    "$LITEPACK_COMMAND" pack a.db again.db >/dev/null 2>&1
    check "packing a packed file is exit code 2" "$?" "2"

    stock logs.db <<<"pragma journal_mode = wal;
$fill" >/dev/null
    "$LITEPACK_COMMAND" archive create logs.db logs.db.zst >/dev/null 2>&1
    got=$(named <<<".open 'file:logs.db.zst?vfs=litepack&mode=ro'
$count
pragma integrity_check;
select litepack_check();
delete from t;")
    check "an archive is read and not written" "$got" "$answer"$'\n'"ok"$'\n'"ok"$'\n'"*attempt to write a readonly database*"
    check "the default entry point opens it by name" "$(default <<<".open logs.db.zst
$count")" "$answer"
    "$LITEPACK_COMMAND" archive extract logs.db.zst extracted.db >/dev/null 2>&1
    check "extracting gives every byte back" "$(cmp logs.db extracted.db && echo same)" "same"
    check "its report is JSON" "$(stock :memory: <<<"select json_extract('$("$LITEPACK_COMMAND" archive info --json logs.db.zst)', '\$.frames') > 0;")" "1"
    if command -v zstd >/dev/null; then
        check "so does zstd" "$(zstd -dqc logs.db.zst | cmp - logs.db && echo same)" "same"
        zstd -q logs.db -o no-table.zst
        got=$(named 2>&1 <<<".log stderr
.open 'file:no-table.zst?vfs=litepack&mode=ro'
$count")
        check "a zstd file without a seek table is refused, with what to do" "$got" "*no seek table*litepack*archive create*"
        got=$(default 2>&1 <<<".log stderr
.open no-table.zst
$count")
        check "by the default entry point, too" "$got" "*no seek table*litepack*archive create*file is not a database*"
    fi
else
    check "the command exists" "${LITEPACK_COMMAND:-not set}" "an executable file"
fi

leftovers=$(echo ./*-journal ./*-wal ./*-shm ./*-lpjourn ./*-lpw)
check "no journals, WALs or temporary files are left" "$leftovers" "?(./persist.db-journal)?( )?(./truncate.db-journal)"
echo "end of part"
