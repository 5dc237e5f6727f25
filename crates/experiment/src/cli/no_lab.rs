//! `weft lab` where there is none: an error.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use crate::error::{Error, Result};

/// Arguments of `weft lab`, whatever they are.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Arguments of `weft test`, likewise.
pub type TestArgs = LabArgs;

/// Refuses.
pub fn test(args: &TestArgs) -> Result<ExitCode> {
    run(args)
}

/// Refuses.
pub fn run(_: &LabArgs) -> Result<ExitCode> {
    Err(Error::NoLab)
}

/// No lab is ever in the making.
pub fn stop() -> bool {
    false
}
