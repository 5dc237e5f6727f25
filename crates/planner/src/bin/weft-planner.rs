//! `weft-planner`: what a network should be, from the user's own traffic, failures and prices. `weft analyze ...` runs this program.

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_planner::main(std::env::args_os())
}
