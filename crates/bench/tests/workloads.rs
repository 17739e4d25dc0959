//! Every workload runs on little data, with the program for its child processes, and gives rows that can be compared.

use std::path::Path;

use litepack_bench::dataset::Size;
use litepack_bench::lab::{Lab, Scale};
use litepack_bench::workloads;

#[test]
#[ignore = "takes two minutes, and needs the command; `make test-long` runs it"]
fn every_workload_gives_comparable_rows() {
    // Beside the program, since the folder for temporary files may be in memory, where nothing gets cold.
    let program = Path::new(env!("CARGO_BIN_EXE_bench"));
    let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let size = Size {
        rows: 3_000,
        scale_factor: 0.01,
    };
    let scale = Scale { size, quick: true };
    let lab = Lab::new(program.into(), folder.path(), scale, 1).unwrap();
    for workload in workloads::all() {
        for group in workload.run(&lab).unwrap() {
            assert_eq!(group[0].engine, workload.yardstick(), "{}", workload.name());
            assert!(group[0].to_plain.is_none());
            for row in group {
                assert_eq!(row.workload, workload.name());
                assert_eq!(row.failure, None, "{} {}", row.workload, row.title);
                assert!(row.summary.unwrap().min > 0.0);
            }
        }
    }
}
