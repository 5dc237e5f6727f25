//! `weft-agent`: the VL2 agent of a host or a switch, and the commands that talk to a running one. `weft agent ...` runs this program.

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_agent::main(std::env::args_os())
}
