//! The `weft` binary: parses the command line, runs a command, turns its result into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_experiment::cli::main()
}
