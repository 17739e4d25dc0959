# Compressed columns in the stock sqlite3 shell, as docs/columns.md shows them. Run by 'run', which sets
# LITEPACK_EXTENSION and SQLITE3. Prints 'ok NAME' or 'FAILED NAME' for each check.
set -uo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place" || exit 1

fill="create table events(id integer primary key, at text not null default 'today', data text);
create table notes(text);
insert into notes values('old');
create index by_year on events(data ->> 'year');
insert into events with recursive n(i) as (select 1 union all select i + 1 from n where i < 9000)
  select i, 'day ' || (i % 300), json_object('id', i, 'year', 1900 + i % 120,
    'title', 'The film number ' || i, 'tags', json_array('drama', 'genre ' || (i % 17))) from n;"
content="select count(*), sum(id), sum(length(data)), max(data ->> 'title'), max(at) from events;"

stock() { "$SQLITE3" -batch "$@" 2>&1; }
loaded() { { echo ".load $LITEPACK_EXTENSION"; cat; } | "$SQLITE3" -batch "$1" 2>&1; }

# check NAME GOT WANTED: GOT must be WANTED, which may be a pattern.
check() {
    # shellcheck disable=SC2053
    if [[ $2 == $3 ]]; then echo "ok columns in the shell: $1"; else
        echo "FAILED columns in the shell: $1"
        printf '  got:    %s\n  wanted: %s\n' "$2" "$3"
    fi
}

stock app.db <<<"$fill"
schema="select type, name, sql from sqlite_schema where name <> 'sqlite_sequence' order by name;"
stock app.db <<<"$schema" >before.sql
answer=$(stock app.db <<<"$content")
size=$(wc -c <app.db)

got=$(loaded app.db <<'SQL'
select zstd_enable_transparent('{"table": "events", "column": "data",
  "compression_level": 19, "dict_chooser": "''all''"}');
select zstd_incremental_maintenance(null, 1);
vacuum;
SQL
)
check "enabling and maintenance" "$got" "Done!"$'\n'"0"
check "the content is what it was" "$(loaded app.db <<<"$content")" "$answer"
check "the file is less than two thirds" "$(($(wc -c <app.db) * 3 < size * 2))" "1"

by_year="select count(*) from events where data ->> 'year' = 1950;"
check "an index of before is used through the view" \
    "$(loaded app.db <<<"explain query plan $by_year")" "*_events_zstd USING *INDEX by_year (*"
check "and finds the rows" "$(loaded app.db <<<"$by_year")" "75"
got=$(loaded app.db <<<"select litepack_create_index('create index by_title on events(data ->> ''title'')');
explain query plan select id from events where data ->> 'title' = 'The film number 77';
select id from events where data ->> 'title' = 'The film number 77';")
check "so is a new one" "$got" "*USING *INDEX by_title (*"$'\n'"77"

check "the status is JSON" \
    "$(loaded app.db <<<"select litepack_columns() ->> '\$[0].rows_compressed';")" "[89][0-9][0-9][0-9]"
check "without the extension the table says what is missing" \
    "$(stock app.db <<<"$content")" "*unknown function: zstd_decompress_col()*"
check "and other tables are as they were" \
    "$(stock app.db <<<"insert into notes values('new'); select count(*) from notes;")" "2"

got=$(loaded app.db <<<"insert into events(id, data) values (9999, '{\"year\": 2025}');
update events set at = 'changed' where id = 9999;
select id, at, data from events where data ->> 'year' = 2025;
delete from events where id = 9999;
$content")
check "writes go through the view" "$got" "9999|changed|{\"year\": 2025}"$'\n'"$answer"

loaded app.db <<<"drop index by_title; select litepack_disable_transparent('events', 'data');" >undone.txt
stock app.db <<<"$schema" >after.sql
check "disabling gives the schema back" "$(cat undone.txt; diff before.sql after.sql && echo same)" "*same"
check "and a file for everybody" "$(stock app.db <<<"$content
pragma integrity_check;")" "$answer"$'\n'"ok"

for ask in "select zstd_incremental_maintenance(null, 1);" "select litepack_columns();"; do
    rm -f hostile.db owned
    stock hostile.db <<<"$fill"
    loaded hostile.db >/dev/null <<'SQL'
select zstd_enable_transparent('{"table": "events", "column": "data", "compression_level": 3, "dict_chooser": "''a''"}');
update _zstd_configs set config = json_set(config, '$.dict_chooser', 'writefile(''owned'', ''x'') || ''a''');
SQL
    got=$(loaded hostile.db <<<"$ask")
    check "a database writes no file by its chooser" "$(ls owned 2>&1) $got" "*No such file*writefile()*"
done
echo "end of part"
