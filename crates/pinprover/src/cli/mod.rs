//! The command line: one file a command.
//!
//! | module | command |
//! |---|---|
//! | `options`, `circuit` | options that commands share |
//! | `report` | what a proof took, for people and for programs |
//! | `setup`, `prove`, `verify`, `export` | circom circuits |
//! | `prove_batch` | many proofs of circom circuits, as a file lists them |
//! | `demo` | everything on a built-in circuit |
//! | `bench` | our prover against upstream's |
//! | `bench_h2d` | uploads to a device |
//! | `bench_pipeline` | many proofs at a time |
//! | `bench_prove`, `bench_prove_peer`, `bench_prove_table` | proofs of one shape over a list of sizes |
//!
//! Each command is a clap struct with a `run`. It prints its result and returns an `Outcome`, or an
//! [`Error`] that becomes a line on standard error and an exit code.

mod bench;
mod bench_h2d;
mod bench_pipeline;
mod bench_prove;
mod bench_prove_peer;
mod bench_prove_table;
mod circuit;
mod demo;
mod export;
mod options;
mod prove;
mod prove_batch;
mod report;
mod setup;
mod verify;

use std::ffi::OsString;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::options::GlobalOptions;
use crate::error::Error;
use crate::output::{Named, Outputs};
use crate::ui::{self, Ui};

/// The exit code of a proof that does not verify.
const INVALID: u8 = 6;

/// Groth16 proofs over BLS12-381, with the proving vectors in pooled or page-locked memory.
#[derive(Debug, Parser)]
#[command(name = "pinprover", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 ok, 1 failure, 2 usage, 3 configuration, 4 no device or it failed, 5 memory, \
                        6 proof does not verify, 130 interrupted.\n\
                        Results go to standard output, logs (RUST_LOG) to standard error."
)]
struct Cli {
    #[command(flatten)]
    options: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Setup(setup::Setup),
    Prove(prove::Prove),
    Verify(verify::Verify),
    ExportSnarkjs(export::ExportSnarkjs),
    #[command(subcommand)]
    Bench(bench::Bench),
}

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is well.
    Done,
    /// A proof was checked, and does not verify.
    Invalid,
    /// Part of it failed, which the result tells; with the exit code of the first failure.
    Failed(u8),
}

/// Runs the tool on a command line, the program's name first, and returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(e) => {
            // Help and version are no errors: they go to standard output with exit code 0.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    let ui = cli.options.ui();
    let ended = catch_unwind(AssertUnwindSafe(|| run(cli, &ui)));
    match ended {
        Ok(Ok(Outcome::Done)) => ExitCode::SUCCESS,
        Ok(Ok(Outcome::Invalid)) => ExitCode::from(INVALID),
        Ok(Ok(Outcome::Failed(code))) => ExitCode::from(code),
        Ok(Err(e)) => {
            ui.failure(&e);
            ExitCode::from(e.exit_code())
        }
        // The message is already on standard error.
        Err(_) => {
            ui.failure(&Error::Input("internal error: this is a bug in pinprover".into()));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, ui: &Ui) -> Result<Outcome, Error> {
    // Before any thread is there: it sets environment variables.
    cli.options.apply_threads()?;
    ui::start_logging()?;
    crate::signals::install()?;
    let context = Context { ui, options: &cli.options };
    match cli.command {
        Command::Demo(command) => command.run(&context),
        Command::Setup(command) => command.run(&context),
        Command::Prove(command) => command.run(&context),
        Command::Verify(command) => command.run(&context),
        Command::ExportSnarkjs(command) => command.run(&context),
        Command::Bench(command) => command.run(&context),
    }
}

/// What every command gets.
struct Context<'a> {
    ui: &'a Ui,
    options: &'a GlobalOptions,
}

impl Context<'_> {
    /// Plans the outputs of a command. The file of hints is a file of the user's as much as any input.
    fn plan(&self, inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<Outputs, Error> {
        let hints = self.options.hints().map(|path| ("--hints", path));
        let inputs: Vec<_> = inputs.iter().copied().chain(hints).collect();
        Outputs::plan(&inputs, outputs)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
