//! Random schemas and random SQL on a plain table and its compressed twin, while columns are enabled,
//! compressed, altered and disabled: after each step both hold the same.

use litepack_tests::rng::Rng;
use litepack_tests::twin::{Twin, rows, schema};
use litepack_tests::{scale, seeds};

struct Run {
    rng: Rng,
    twin: Twin,
    columns: Vec<String>,
    key: Vec<String>,
    added: usize,
    history: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let types = [
            "text",
            "blob",
            "",
            "json",
            "int",
            "text collate nocase",
            "text not null default 'd'",
            "text check(typeof(C) <> 'real')",
        ];
        let count = rng.between(2, 5) as usize;
        let columns: Vec<String> = (0..count).map(|index| format!("c{index}")).collect();
        let mut parts = Vec::new();
        for column in &columns {
            parts.push(format!(
                "{column} {}",
                rng.pick(&types).replace('C', column)
            ));
        }
        let (key, end) = match rng.below(6) {
            0 => (vec!["k"], ""),
            1 => (vec!["k"], " without rowid"),
            2 => (vec!["k", "k2"], ""),
            _ => (vec![], ""),
        };
        if key.is_empty() {
            parts.insert(
                rng.below(parts.len() as u64 + 1) as usize,
                "id integer primary key".into(),
            );
        } else {
            parts.extend(key.iter().map(|key| format!("{key} text")));
            parts.push(format!("primary key({})", key.join(", ")));
        }
        let mut sql = format!(
            "create table log(x, y, z); create table t({}){end};",
            parts.join(", ")
        );
        if rng.chance(50) {
            sql += &format!(
                "create index i1 on t({}, lower({}));",
                rng.pick(&columns),
                rng.pick(&columns)
            );
        }
        if rng.chance(50) {
            sql += &format!(
                "create index i2 on t({}) where {1} is not null;",
                rng.pick(&columns),
                rng.pick(&columns)
            );
        }
        for (number, event) in ["insert", "update", "delete"].iter().enumerate() {
            if rng.chance(40) {
                let time = rng.pick(&["before", "after"]);
                let side = if *event == "delete" { "old" } else { "new" };
                sql += &format!(
                    "create trigger r{number} {time} {event} on t begin insert into log values('{event}', {side}.{}, {side}.{}); end;",
                    rng.pick(&columns),
                    rng.pick(&columns)
                );
            }
        }
        if rng.chance(30) {
            let column = rng.pick(&columns);
            sql += &format!(
                "create trigger w after insert on t when new.{column} = 'word' begin update t set {0} = {0} || 'w' where {column} = 'word'; end;",
                rng.pick(&columns)
            );
        }
        if rng.chance(30) {
            sql += &format!(
                "create view v as select {} as a, {} as b from t;",
                rng.pick(&columns),
                rng.pick(&columns)
            );
        }
        let key = if key.is_empty() {
            vec!["id".into()]
        } else {
            key.iter().map(|key| key.to_string()).collect()
        };
        Run {
            twin: Twin::new(&sql),
            rng,
            columns,
            key,
            added: 0,
            history: vec![sql],
        }
    }

    fn value(&mut self) -> String {
        match self.rng.below(9) {
            0 => "null".into(),
            1 => self.rng.between(-5, 5).to_string(),
            2 => "1.5".into(),
            3 => "''".into(),
            4 => format!("x'{:02x}ff'", self.rng.below(256)),
            5 => "'word'".into(),
            6 => format!("zeroblob({})", self.rng.below(300)),
            _ => {
                let words = self.rng.between(1, 40) as usize;
                format!("'{}'", self.rng.text(words))
            }
        }
    }

    fn column(&mut self) -> String {
        self.rng.pick(&self.columns).clone()
    }

    /// Keys are few, so that they meet.
    fn key_value(&mut self) -> String {
        if self.key[0] == "id" {
            self.rng.below(30).to_string()
        } else if self.rng.chance(15) {
            "null".into()
        } else {
            format!("'{}'", self.rng.below(12))
        }
    }

    fn condition(&mut self) -> String {
        let column = self.column();
        match self.rng.below(5) {
            0 => format!("{column} is null"),
            1 => format!("typeof({column}) = 'text'"),
            2 => format!("length({column}) % 3 = 1"),
            3 => {
                let (key, value) = (self.key[0].clone(), self.key_value());
                format!("{key} is {value}")
            }
            _ => {
                let value = self.value();
                format!("{column} > {value}")
            }
        }
    }

    fn statement(&mut self) -> String {
        // A statement that stops half-way keeps the order of rows out of the result.
        match self.rng.below(10) {
            0..=4 => {
                let or = *self.rng.pick(&["", "", " or replace", " or ignore"]);
                let mut names = self.key.clone();
                let mut values: Vec<String> = (0..names.len()).map(|_| self.key_value()).collect();
                for column in self.columns.clone() {
                    // Through a view NULL and nothing are the same where there is a default.
                    let value = self.value();
                    names.push(column);
                    values.push(if value == "null" {
                        "'null'".into()
                    } else {
                        value
                    });
                }
                format!(
                    "insert{or} into t({}) values({})",
                    names.join(", "),
                    values.join(", ")
                )
            }
            5..=7 => {
                let mut set = Vec::new();
                for _ in 0..self.rng.between(1, 3) {
                    let (column, other, value) = (self.column(), self.column(), self.value());
                    if !set
                        .iter()
                        .any(|term: &String| term.starts_with(&format!("{column} =")))
                    {
                        set.push(match self.rng.chance(50) {
                            true => format!("{column} = {other}"),
                            false => format!("{column} = {value}"),
                        });
                    }
                }
                let condition = self.condition();
                format!("update t set {} where {condition}", set.join(", "))
            }
            8 => {
                let (key, value, new) = (self.key[0].clone(), self.key_value(), self.key_value());
                let or = *self.rng.pick(&["", " or replace", " or ignore"]);
                format!("update{or} t set {key} = {new} where {key} = {value}")
            }
            _ => format!("delete from t where {}", self.condition()),
        }
    }

    fn step(&mut self) {
        let compressed: Vec<String> = self
            .twin
            .columns
            .iter()
            .map(|pair| pair.1.clone())
            .collect();
        let column = self.column();
        let is_compressed = compressed.contains(&column);
        match self.rng.below(20) {
            0 | 1 if !is_compressed => {
                self.note(format!("-- enable {column}"));
                self.twin.enable_only("t", &column);
            }
            2..=4 if is_compressed => {
                self.note(format!("-- compress {column}"));
                self.twin.compress("t", &column);
            }
            5 if is_compressed => {
                self.note(format!("-- disable {column}"));
                self.twin.disable("t", &column);
            }
            6 if !compressed.is_empty() => self.alter(&column, is_compressed),
            _ => {
                let sql = self.statement();
                self.note(sql.clone());
                self.twin.same(&sql);
            }
        }
        self.twin.verify();
        let (column, condition) = (self.column(), self.condition());
        self.twin.query(&format!(
            "select count(*), count({column}), count(distinct {column}) from t where {condition}"
        ));
    }

    fn alter(&mut self, column: &str, is_compressed: bool) {
        self.added += 1;
        let new = format!("n{}", self.added);
        let action = match self.rng.below(3) {
            0 => {
                self.columns.push(new.clone());
                format!("add column {new} text default 'added'")
            }
            1 => {
                let renamed = |name: &mut String| {
                    if name == column {
                        name.clone_from(&new)
                    }
                };
                self.columns.iter_mut().for_each(renamed);
                self.twin
                    .columns
                    .iter_mut()
                    .for_each(|pair| renamed(&mut pair.1));
                format!("rename column {column} to {new}")
            }
            _ if !is_compressed && self.columns.len() > 2 => format!("drop column {column}"),
            _ => return,
        };
        self.note(format!("-- alter table t {action}"));
        let plain = litepack_tests::twin::run(&self.twin.plain, &format!("alter table t {action}"));
        let done = self.twin.try_call("litepack_alter_table", &["t", &action]);
        assert_eq!(plain.is_ok(), done.is_ok(), "{action}: {plain:?} {done:?}");
        if action.starts_with("drop") && plain.is_ok() {
            self.columns.retain(|name| name != column);
        }
    }

    fn note(&mut self, text: String) {
        self.history.push(text);
    }

    fn finish(&mut self) {
        for (table, column) in self.twin.columns.clone() {
            self.twin.disable(&table, &column);
            self.twin.verify();
        }
        assert_eq!(
            schema(&self.twin.plain).len(),
            schema(&self.twin.compressed).len()
        );
        let objects = "select name, sql from sqlite_schema where name not like '%dict%' and name <> 'sqlite_sequence' order by 1";
        assert_eq!(
            rows(&self.twin.plain, objects),
            rows(&self.twin.compressed, objects)
        );
    }
}

#[test]
fn random_schemas_and_statements() {
    for seed in seeds(0, scale(25, 400)) {
        let mut run = Run::new(seed);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..scale(60, 200) {
                run.step();
            }
            run.finish();
        }));
        if let Err(panic) = done {
            eprintln!("LITEPACK_SEED={seed}\n{}", run.history.join(";\n"));
            std::panic::resume_unwind(panic);
        }
    }
}
