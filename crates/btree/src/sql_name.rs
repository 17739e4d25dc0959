//! Names of tables and columns, as SQL text has them.

/// `name` in double quotes, as SQL may always write it, whatever it holds.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_name_whatever_it_holds() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        for name in ["a", "a b", "a\"b", "\"", "select", "a'b", "ä;--", ""] {
            let sql = format!("select x.{0} from (select 7 as {0}) as x", quote(name));
            let found: i64 = db.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(found, 7, "{name}");
        }
    }
}
