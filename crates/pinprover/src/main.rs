//! The `pinprover` command-line tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    pinprover::cli::main(std::env::args_os())
}
