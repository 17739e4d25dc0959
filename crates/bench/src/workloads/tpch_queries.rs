//! TPC-H queries 1 and 8 with the standard's validation parameters, in SQLite's words.
//!
//! Query 1 scans the biggest table once; query 8 joins all tables but one, mostly by random reads
//! that SQLite's default page cache of 2 MB cannot hold.

use std::time::Instant;

use anyhow::{Result, ensure};
use rusqlite::Connection;

use super::session::Session;
use crate::dataset::Dataset;
use crate::lab::{Scale, Turn};
use crate::rows::{Cache, Setting, Unit};

/// One query.
pub struct Query {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    sql: &'static str,
    /// In KiB, as the pragma counts if it is told so; nothing for SQLite's default.
    page_cache: Option<u32>,
}

/// The 100 MB that many applications choose; the default of 2 MB is 2000.
const LARGE: Option<u32> = Some(100_000);

/// Query 1, the pricing summary report.
pub const PRICING_SUMMARY: Query = Query {
    name: "tpch-q1",
    title: "TPC-H Q1 (scan and group)",
    about: "One scan of `lineitem`. Aim: at most 1.05 × the time.",
    sql: "
        select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
          sum(l_extendedprice * (1 - l_discount)),
          sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
          avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
        from lineitem where l_shipdate <= date('1998-12-01', '-90 days')
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus",
    page_cache: None,
};

/// The same with a large page cache.
pub const PRICING_SUMMARY_LARGE_CACHE: Query = Query {
    name: "tpch-q1-large-cache",
    title: "TPC-H Q1, page cache of 100 MB",
    about: "The same with `pragma cache_size = -100000`.",
    page_cache: LARGE,
    ..PRICING_SUMMARY
};

/// Query 8, the national market share.
pub const MARKET_SHARE: Query = Query {
    name: "tpch-q8",
    title: "TPC-H Q8 (join of 8)",
    about: "Joins of seven tables, without an index beyond the primary keys and without ANALYZE. \
            Aim: at most 1.3 × the time.",
    sql: "
        select o_year, sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume)
        from (
          select strftime('%Y', o_orderdate) as o_year,
            l_extendedprice * (1 - l_discount) as volume, n2.n_name as nation
          from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
          where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey
            and o_custkey = c_custkey and c_nationkey = n1.n_nationkey
            and n1.n_regionkey = r_regionkey and r_name = 'AMERICA'
            and s_nationkey = n2.n_nationkey
            and o_orderdate between '1995-01-01' and '1996-12-31'
            and p_type = 'ECONOMY ANODIZED STEEL')
        group by o_year order by o_year",
    page_cache: None,
};

/// The same with a large page cache.
pub const MARKET_SHARE_LARGE_CACHE: Query = Query {
    name: "tpch-q8-large-cache",
    title: "TPC-H Q8, page cache of 100 MB",
    about: "The same with `pragma cache_size = -100000`.",
    page_cache: LARGE,
    ..MARKET_SHARE
};

impl Session for Query {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn title(&self) -> String {
        self.title.into()
    }

    fn data(&self) -> Dataset {
        Dataset::Tpch
    }

    fn settings(&self) -> &'static [Setting] {
        &[Setting::DELETE_FULL]
    }

    fn cache(&self) -> Cache {
        match self.page_cache {
            Some(_) => Cache::WarmLarge,
            None => Cache::Warm,
        }
    }

    fn unit(&self) -> Unit {
        Unit::Seconds
    }

    fn writes(&self) -> bool {
        false
    }

    fn turn(&self, _scale: Scale, conn: &Connection, _round: u32) -> Result<Turn> {
        if let Some(kibibytes) = self.page_cache {
            conn.execute_batch(&format!("pragma cache_size = -{kibibytes}"))?;
        }
        let start = Instant::now();
        let rows = super::rows_of(conn, self.sql)?;
        let value = start.elapsed().as_secs_f64();
        ensure!(!rows.is_empty(), "{} found nothing", self.title);
        Ok(Turn {
            value,
            answer: super::fingerprint(&rows),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows_of;
    use super::*;

    #[test]
    fn answers_are_those_of_the_standard_in_shape() {
        let conn = Connection::open_in_memory().unwrap();
        litepack_testdata::tpch::create(&conn, 0.01).unwrap();
        let summary = rows_of(&conn, PRICING_SUMMARY.sql).unwrap();
        assert_eq!(summary.len(), 4);
        // The counts that the standard's generator gives at this scale.
        assert!(summary[0].contains("Integer(14876)"), "{}", summary[0]);
        let share = rows_of(&conn, MARKET_SHARE.sql).unwrap();
        assert_eq!(share.len(), 2);
    }
}
