//! TPC-H: all eight tables with the keys that the standard names, filled by the crate `tpchgen`.
//!
//! The standard fixes the data: there is no seed. The foreign keys are declared, not enforced
//! (SQLite's default), and there is no index beyond the primary keys.

use rusqlite::{Connection, params};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

use crate::in_transaction;

const SCHEMA: &str = include_str!("tpch.sql");

/// Makes the eight tables at a scale factor; 1 is about 1.2 GB, 0.01 about 12 MB and the least.
///
/// The standard's formula that pairs parts with suppliers gives a pair twice at some scale factors
/// below 0.025 (0.012 is one, 0.01 and 0.02 are not); those end in a constraint error.
pub fn create(conn: &Connection, scale_factor: f64) -> rusqlite::Result<()> {
    in_transaction(conn, |conn| {
        conn.execute_batch(SCHEMA)?;
        fill_places(conn, scale_factor)?;
        fill_parts(conn, scale_factor)?;
        fill_customers(conn, scale_factor)?;
        fill_orders(conn, scale_factor)?;
        fill_line_items(conn, scale_factor)
    })
}

fn fill_places(conn: &Connection, scale_factor: f64) -> rusqlite::Result<()> {
    let mut insert = conn.prepare("insert into region values (?, ?, ?)")?;
    for row in RegionGenerator::new(scale_factor, 1, 1) {
        insert.execute(params![row.r_regionkey, row.r_name, row.r_comment])?;
    }
    let mut insert = conn.prepare("insert into nation values (?, ?, ?, ?)")?;
    for row in NationGenerator::new(scale_factor, 1, 1) {
        insert.execute(params![
            row.n_nationkey,
            row.n_name,
            row.n_regionkey,
            row.n_comment
        ])?;
    }
    Ok(())
}

fn fill_parts(conn: &Connection, scale_factor: f64) -> rusqlite::Result<()> {
    let mut insert = conn.prepare("insert into part values (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for row in PartGenerator::new(scale_factor, 1, 1) {
        insert.execute(params![
            row.p_partkey,
            row.p_name.to_string(),
            row.p_mfgr.to_string(),
            row.p_brand.to_string(),
            row.p_type,
            row.p_size,
            row.p_container,
            row.p_retailprice.as_f64(),
            row.p_comment,
        ])?;
    }
    let mut insert = conn.prepare("insert into supplier values (?, ?, ?, ?, ?, ?, ?)")?;
    for row in SupplierGenerator::new(scale_factor, 1, 1) {
        insert.execute(params![
            row.s_suppkey,
            row.s_name.to_string(),
            row.s_address.to_string(),
            row.s_nationkey,
            row.s_phone.to_string(),
            row.s_acctbal.as_f64(),
            row.s_comment,
        ])?;
    }
    let mut insert = conn.prepare("insert into partsupp values (?, ?, ?, ?, ?)")?;
    for row in PartSuppGenerator::new(scale_factor, 1, 1) {
        insert.execute(params![
            row.ps_partkey,
            row.ps_suppkey,
            row.ps_availqty,
            row.ps_supplycost.as_f64(),
            row.ps_comment,
        ])?;
    }
    Ok(())
}

fn fill_customers(conn: &Connection, scale_factor: f64) -> rusqlite::Result<()> {
    let mut insert = conn.prepare("insert into customer values (?, ?, ?, ?, ?, ?, ?, ?)")?;
    for row in CustomerGenerator::new(scale_factor, 1, 1) {
        insert.execute(params![
            row.c_custkey,
            row.c_name.to_string(),
            row.c_address.to_string(),
            row.c_nationkey,
            row.c_phone.to_string(),
            row.c_acctbal.as_f64(),
            row.c_mktsegment,
            row.c_comment,
        ])?;
    }
    Ok(())
}

fn fill_orders(conn: &Connection, scale_factor: f64) -> rusqlite::Result<()> {
    let mut insert = conn.prepare("insert into orders values (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for row in OrderGenerator::new(scale_factor, 1, 1) {
        insert.execute(params![
            row.o_orderkey,
            row.o_custkey,
            row.o_orderstatus.as_str(),
            row.o_totalprice.as_f64(),
            row.o_orderdate.to_string(),
            row.o_orderpriority,
            row.o_clerk.to_string(),
            row.o_shippriority,
            row.o_comment,
        ])?;
    }
    Ok(())
}

fn fill_line_items(conn: &Connection, scale_factor: f64) -> rusqlite::Result<()> {
    let mut insert = conn
        .prepare("insert into lineitem values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for row in LineItemGenerator::new(scale_factor, 1, 1) {
        insert.execute(params![
            row.l_orderkey,
            row.l_partkey,
            row.l_suppkey,
            row.l_linenumber,
            row.l_quantity,
            row.l_extendedprice.as_f64(),
            row.l_discount.as_f64(),
            row.l_tax.as_f64(),
            row.l_returnflag,
            row.l_linestatus,
            row.l_shipdate.to_string(),
            row.l_commitdate.to_string(),
            row.l_receiptdate.to_string(),
            row.l_shipinstruct,
            row.l_shipmode,
            row.l_comment,
        ])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{image, number};

    #[test]
    fn the_scale_factor_alone_decides() {
        let make = |scale_factor| image(|conn| create(conn, scale_factor));
        assert_eq!(make(0.01), make(0.01));
        assert_ne!(make(0.01), make(0.02));
    }

    #[test]
    fn tables_have_the_sizes_of_the_standard() {
        let rows = |table: &str| {
            let sql = format!("select count(*) * 1.0 from {table}");
            number(|conn| create(conn, 0.01), &sql) as u64
        };
        assert_eq!(rows("region"), 5);
        assert_eq!(rows("nation"), 25);
        assert_eq!(rows("part"), 2_000);
        assert_eq!(rows("supplier"), 100);
        assert_eq!(rows("partsupp"), 8_000);
        assert_eq!(rows("customer"), 1_500);
        assert_eq!(rows("orders"), 15_000);
        assert_eq!(rows("lineitem"), 60_175);
    }
}
