//! `weft-directory`: serves the directory, asks it, and measures it. `weft directory ...` runs this program.

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_directory::cli::main(std::env::args_os())
}
