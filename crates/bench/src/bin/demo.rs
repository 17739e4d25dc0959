//! `demo`: what `make demo` shows. Exit code 1 if an answer or a byte differs.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match litepack_bench::demo::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
