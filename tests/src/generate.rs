//! The generator of random SQL: from a seed, a sequence of steps that uses most of what a database
//! file has to support. It learns the tables that exist from time to time, so that most statements
//! are valid; those that are not must fail alike on both sides.

use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::script::{Expect, Step};
use rusqlite::types::Value;

/// Lists the tables and columns in the form [`Generator::learn`] reads.
pub const LIST_TABLES: &str = "select m.name, p.name, lower(p.type), p.pk, p.hidden \
    from sqlite_schema m, pragma_table_xinfo(m.name) p \
    where m.type = 'table' and m.name like 't%' order by m.rowid, p.cid";

/// Connections that take part.
const CONNECTIONS: usize = 3;

/// Statements after which an open transaction is ended, so that others get their turn.
const LONGEST_TRANSACTION: u32 = 25;

/// SQLITE_BUSY, SQLITE_LOCKED, SQLITE_READONLY: after several of them everything is reopened.
const REFUSALS: [i32; 3] = [5, 6, 8];

#[derive(Clone, Debug, Default)]
struct Table {
    name: String,
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    declared: String,
    key: bool,
    generated: bool,
}

/// State of one random run.
pub struct Generator {
    rng: Rng,
    tables: Vec<Table>,
    stale: bool,
    current: usize,
    open_for: [u32; CONNECTIONS],
    refused: u32,
    serial: u32,
}

impl Generator {
    /// A run decided by its seed.
    pub fn new(seed: u64) -> Self {
        Generator {
            rng: Rng::new(seed),
            tables: Vec::new(),
            stale: true,
            current: 0,
            open_for: [0; CONNECTIONS],
            refused: 0,
            serial: 0,
        }
    }

    /// Whether [`LIST_TABLES`] should be run and learned before the next step.
    pub fn wants_tables(&self) -> bool {
        self.stale
    }

    /// Takes in the result of [`LIST_TABLES`].
    pub fn learn(&mut self, outcome: &Outcome) {
        self.stale = false;
        self.tables.clear();
        let Ok(rows) = &outcome.answer else { return };
        for row in &rows.values {
            let [
                Value::Text(table),
                Value::Text(name),
                Value::Text(declared),
                Value::Integer(key),
                Value::Integer(hidden),
            ] = &row[..]
            else {
                continue;
            };
            if self.tables.last().is_none_or(|t| &t.name != table) {
                self.tables.push(Table {
                    name: table.clone(),
                    columns: Vec::new(),
                });
            }
            let columns = &mut self.tables.last_mut().expect("just pushed").columns;
            columns.push(Column {
                name: name.clone(),
                declared: declared.clone(),
                key: *key > 0,
                generated: *hidden != 0,
            });
        }
    }

    /// Takes in what the last step did.
    pub fn observe(&mut self, step: &Step, outcome: Option<&Outcome>) {
        let open = &mut self.open_for[self.current];
        match outcome {
            Some(outcome) if !outcome.autocommit => *open += 1,
            _ => *open = 0,
        }
        match outcome.map(|outcome| &outcome.answer) {
            Some(Err(failure)) if REFUSALS.contains(&(failure.code & 0xff)) => self.refused += 1,
            Some(Ok(_)) if self.refused > 0 => self.refused -= 1,
            _ => {}
        }
        if let Step::Sql(_, sql) = step {
            let changing = ["create", "drop", "alter", "rollback", "vacuum"];
            self.stale |= changing.iter().any(|word| sql.starts_with(word));
        } else {
            self.stale = true;
        }
        if matches!(step, Step::Reopen(_)) {
            self.open_for = [0; CONNECTIONS];
            self.refused = 0;
        }
    }

    /// The next step.
    pub fn step(&mut self) -> Step {
        if self.refused > 8 {
            return Step::Reopen(String::new());
        }
        if self.open_for[self.current] > LONGEST_TRANSACTION {
            return sql(if self.rng.chance(70) {
                "commit"
            } else {
                "rollback"
            });
        }
        if self.tables.len() < 2 && self.rng.chance(60) {
            return sql(self.create_table());
        }
        let choice = self.rng.below(1000);
        // Most maintenance is refused inside a transaction.
        if choice >= 860 && self.open_for[self.current] > 0 && self.rng.chance(60) {
            return sql("commit");
        }
        match choice {
            0..30 => self.switch(),
            30..36 => Step::Close,
            36..44 => {
                let parameters = if self.rng.chance(15) { "mode=ro" } else { "" };
                Step::Reopen(parameters.into())
            }
            44..64 => sql(self.create_table()),
            64..100 => sql(self.change_schema()),
            100..400 => sql(self.insert()),
            400..500 => sql(self.update()),
            500..570 => sql(self.delete()),
            570..700 => sql(self.select()),
            700..860 => sql(self.transaction()),
            860..900 => sql(self.maintain()),
            900..930 => sql(self.attached()),
            _ => self.pragma(),
        }
    }

    fn switch(&mut self) -> Step {
        // Connection 0 does most of the work; one with an open transaction blocks the others.
        self.current = if self.current != 0 || self.rng.chance(30) {
            0
        } else {
            self.rng.below(CONNECTIONS as u64) as usize
        };
        Step::Use(self.current)
    }

    fn create_table(&mut self) -> String {
        let name = format!("t{}", self.rng.below(6));
        let body = *self.rng.pick(&[
            "(id integer primary key, a int, b text, c blob, d real)",
            "(k text primary key, a int, b text) without rowid",
            "(id integer primary key autoincrement, a int, b text unique, c any) strict",
            "(id integer primary key, a int, b text, g int as (a * 2) virtual, \
             h text as (substr(b, 1, 8)) stored)",
            "(a int, b text, c blob, unique(a, b))",
            "(a int, b int, c text, primary key(b, a)) without rowid",
        ]);
        let maybe = if self.rng.chance(30) {
            "if not exists "
        } else {
            ""
        };
        format!("create table {maybe}{name}{body}")
    }

    fn table(&mut self) -> Table {
        if self.tables.is_empty() || self.rng.chance(1) {
            return Table {
                name: "t9".into(),
                columns: vec![Column::named("a")],
            };
        }
        self.rng.pick(&self.tables).clone()
    }

    fn column(&mut self, table: &Table) -> String {
        self.rng.pick(&table.columns).name.clone()
    }

    fn change_schema(&mut self) -> String {
        let table = self.table();
        let (name, column) = (&table.name, self.column(&table));
        self.serial += 1;
        let serial = self.serial;
        match self.rng.below(10) {
            0 => format!("drop table {name}"),
            1 => format!("alter table {name} add column e{serial} text default 'none'"),
            2 => format!("alter table {name} rename column {column} to r{serial}"),
            3 => format!("alter table {name} drop column {column}"),
            4 => format!("alter table {name} rename to t{}", self.rng.below(6)),
            5 => format!("create unique index i{serial} on {name}({column})"),
            6 => format!("create index i{serial} on {name}(length({column}), {column})"),
            7 => format!("create index i{serial} on {name}({column}) where {column} is not null"),
            8 => format!("drop index i{}", self.rng.below(serial.into())),
            _ => format!("create index i{serial} on {name}({column})"),
        }
    }

    fn value(&mut self, column: &Column) -> String {
        if !column.key && self.rng.chance(4) {
            return "null".into();
        }
        match column.declared.as_str() {
            "int" | "integer" => self.rng.between(-20, 600).to_string(),
            "real" => format!("{}.{}", self.rng.below(1000), self.rng.below(1000)),
            "blob" => match self.rng.below(10) {
                0 => format!("zeroblob({})", self.rng.below(30_000)),
                1..4 => {
                    let len = self.rng.below(3000) as usize;
                    let hex: String = self
                        .rng
                        .bytes(len)
                        .iter()
                        .map(|b| format!("{b:02x}"))
                        .collect();
                    format!("x'{hex}'")
                }
                _ => format!("x'{:016x}'", self.rng.bits()),
            },
            _ if column.key => format!("'k{}'", self.rng.below(400)),
            _ => {
                let words = if self.rng.chance(3) { 2500 } else { 9 };
                let words = self.rng.below(words) as usize;
                format!("'{}'", self.rng.text(words))
            }
        }
    }

    /// The value of a column in row `i` of a bulk insert.
    fn bulk_value(&mut self, column: &Column) -> String {
        let word = self.rng.text(2);
        let prime = self.rng.pick(&[1, 7, 7919, 104_729]);
        match column.declared.as_str() {
            "int" | "integer" if column.key => format!("i * {prime}"),
            "int" | "integer" => format!("i * {prime} % 997"),
            "real" => format!("i / {prime}.0"),
            "blob" => match self.rng.below(3) {
                0 => "zeroblob(i % 700)".into(),
                _ => format!("cast(printf('%08x{word}', i * 2654435761 % 4294967296) as blob)"),
            },
            _ if column.key => "printf('k%05d', i)".into(),
            _ => match self.rng.below(3) {
                0 => format!("json_object('id', i, 'name', '{word}', 'tags', json_array(i % 7))"),
                1 => format!("printf('{word} %d %d', i, i * {prime})"),
                _ => format!("substr('{word}', 1, 1 + i % 20)"),
            },
        }
    }

    fn insert(&mut self) -> String {
        let table = self.table();
        let columns: Vec<Column> = table
            .columns
            .iter()
            .filter(|c| !c.generated)
            .cloned()
            .collect();
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let (name, names) = (&table.name, names.join(", "));
        let or = *self.rng.pick(&[
            "",
            "",
            "or ignore ",
            "or replace ",
            "or fail ",
            "or rollback ",
        ]);
        if self.rng.chance(25) {
            let first = self.rng.below(5000);
            let most = if self.rng.chance(10) { 3000 } else { 300 };
            let last = first + self.rng.below(most);
            let values: Vec<String> = columns.iter().map(|c| self.bulk_value(c)).collect();
            return format!(
                "insert {or}into {name}({names}) with recursive n(i) as (values({first}) \
                 union all select i + 1 from n where i < {last}) select {} from n",
                values.join(", ")
            );
        }
        let rows = 1 + self.rng.below(4);
        let rows: Vec<String> = (0..rows)
            .map(|_| {
                let values: Vec<String> = columns.iter().map(|c| self.value(c)).collect();
                format!("({})", values.join(", "))
            })
            .collect();
        let mut text = format!("insert {or}into {name}({names}) values {}", rows.join(", "));
        if self.rng.chance(20) {
            let column = self.rng.pick(&columns).clone();
            let value = self.value(&column);
            text.push_str(&format!(
                " on conflict do update set {} = {value}",
                column.name
            ));
        }
        if self.rng.chance(15) {
            text.push_str(" returning *");
        }
        text
    }

    fn condition(&mut self, table: &Table) -> String {
        let column = self.rng.pick(&table.columns).clone();
        let name = &column.name;
        match self.rng.below(6) {
            0 => format!("{name} = {}", self.value(&column)),
            1 => format!("{name} > {}", self.value(&column)),
            2 => format!("{name} is null"),
            3 => format!("length({name}) % {} = 0", 2 + self.rng.below(9)),
            4 => format!("{name} like '%{}%'", self.rng.text(1)),
            _ => {
                let first = self.rng.between(-50, 600);
                format!(
                    "{name} between {first} and {}",
                    first + self.rng.between(0, 80)
                )
            }
        }
    }

    fn update(&mut self) -> String {
        let table = self.table();
        let column = self.rng.pick(&table.columns).clone();
        let or = *self
            .rng
            .pick(&["", "", "or ignore ", "or replace ", "or abort "]);
        let value = match (column.declared.as_str(), self.rng.below(3)) {
            ("int" | "integer", 0) => format!("{} + 1", column.name),
            ("text", 0) => format!("{} || ' {}'", column.name, self.rng.text(2)),
            _ => self.value(&column),
        };
        let condition = self.condition(&table);
        let returning = if self.rng.chance(10) {
            " returning *"
        } else {
            ""
        };
        format!(
            "update {or}{} set {} = {value} where {condition}{returning}",
            table.name, column.name
        )
    }

    fn delete(&mut self) -> String {
        let table = self.table();
        if self.rng.chance(8) {
            return format!("delete from {}", table.name);
        }
        format!(
            "delete from {} where {}",
            table.name,
            self.condition(&table)
        )
    }

    fn select(&mut self) -> String {
        let table = self.table();
        let (one, two) = (self.column(&table), self.column(&table));
        let (name, condition) = (&table.name, self.condition(&table));
        match self.rng.below(7) {
            0 => format!("select * from {name} where {condition} order by {one}, {two} limit 15"),
            1 => format!("select {one}, count(*), max({two}) from {name} group by 1 limit 30"),
            2 => {
                let other = self.table();
                let theirs = self.column(&other);
                format!(
                    "select count(*), min(x.{one}) from {name} x join {} y on x.{one} = y.{theirs}",
                    other.name
                )
            }
            3 => format!("select sum(length({one})), total({two}) from {name}"),
            4 => format!("select distinct {one} from {name} order by 1 desc limit 10 offset 5"),
            5 => format!(
                "select {one}, row_number() over (order by {two}, {one}) from {name} limit 9"
            ),
            _ => format!("select count(*), min({one}), max({two}) from {name} where {condition}"),
        }
    }

    fn transaction(&mut self) -> String {
        let open = self.open_for[self.current] > 0;
        let number = self.rng.below(3);
        if !open {
            let begin = [
                "begin",
                "begin immediate",
                "begin exclusive",
                "begin",
                "savepoint s0",
                "commit",
            ];
            return self.rng.pick(&begin).to_string();
        }
        match self.rng.below(10) {
            0..3 => "commit".into(),
            3 => "rollback".into(),
            4..6 => format!("savepoint s{number}"),
            6..8 => format!("release s{number}"),
            8 => format!("rollback to s{number}"),
            _ => "begin".into(),
        }
    }

    fn maintain(&mut self) -> String {
        let table = self.table();
        match self.rng.below(8) {
            0..3 => "vacuum".into(),
            3 => "analyze".into(),
            4 => format!("reindex {}", table.name),
            5 => "pragma quick_check".into(),
            6 => format!("pragma incremental_vacuum({})", self.rng.below(20)),
            _ => {
                self.serial += 1;
                let mark = self.rng.pick(&["own", "plain"]);
                format!("vacuum into '{{{mark}:copy{}.db}}'", self.serial)
            }
        }
    }

    fn attached(&mut self) -> String {
        let first = self.rng.below(1000);
        match self.rng.below(6) {
            0..2 => {
                let mark = self
                    .rng
                    .pick(&["own:aux.db", "own:aux.db", "plain:extra.db"]);
                format!("attach '{{{mark}}}' as aux")
            }
            2 => "detach aux".into(),
            3 => "create table if not exists aux.x(id integer primary key, b text)".into(),
            4 => format!("delete from aux.x where id % 5 = {}", first % 5),
            _ => format!(
                "insert or replace into aux.x with recursive n(i) as (values({first}) union all \
                 select i + 1 from n where i < {}) select i, printf('aux %d', i * 31) from n",
                first + 150
            ),
        }
    }

    fn pragma(&mut self) -> Step {
        let pragma = match self.rng.below(15) {
            0..3 => {
                // Not `off`: there a failing statement may corrupt any database.
                let modes = [
                    "delete", "truncate", "persist", "memory", "wal", "wal", "wal",
                ];
                format!("journal_mode = {}", self.rng.pick(&modes))
            }
            3 => format!("synchronous = {}", self.rng.below(4)),
            4..6 => format!("cache_size = {}", self.rng.pick(&[1, 5, 10, 50, -2000])),
            6 => format!("cache_spill = {}", self.rng.pick(&["on", "off", "3"])),
            7..10 => {
                let modes = ["passive", "full", "restart", "truncate", "truncate"];
                format!("wal_checkpoint({})", self.rng.pick(&modes))
            }
            10 => format!("wal_autocheckpoint = {}", self.rng.pick(&[0, 1, 10, 1000])),
            11 => {
                let sizes = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
                format!("page_size = {}", self.rng.pick(&sizes))
            }
            12 => format!("auto_vacuum = {}", self.rng.below(3)),
            13 => {
                let mmap = ["mmap_size = 0", "mmap_size = 1000000"];
                return Step::Sql(Expect::Quiet, format!("pragma {}", self.rng.pick(&mmap)));
            }
            _ => {
                let more = [
                    "locking_mode = exclusive",
                    "locking_mode = normal",
                    "secure_delete = on",
                    "temp_store = file",
                    "page_count",
                    "freelist_count",
                ];
                self.rng.pick(&more).to_string()
            }
        };
        sql(format!("pragma {pragma}"))
    }
}

impl Column {
    fn named(name: &str) -> Self {
        Column {
            name: name.into(),
            declared: "int".into(),
            key: false,
            generated: false,
        }
    }
}

fn sql(text: impl Into<String>) -> Step {
    Step::Sql(Expect::Same, text.into())
}
