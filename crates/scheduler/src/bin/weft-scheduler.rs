//! `weft-scheduler`: Hedera's scheduler over OpenFlow switches, and the commands that talk to a running one. `weft scheduler ...` runs
//! this program.

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_scheduler::main(std::env::args_os())
}
