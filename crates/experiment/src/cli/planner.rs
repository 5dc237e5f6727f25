//! Scenarios that `weft-planner` evaluates: `weft check` starts it for each.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::cli::{not_started, program_named};
use crate::error::{Error, Result};
use crate::scenario::source::{Form, Overrides};
use crate::summary::RunSummary;

/// What `weft-planner evaluate` prints.
#[derive(Debug, Deserialize)]
pub struct Evaluation {
    /// The scenario's title.
    pub title: String,
    /// Its runs, compared with what is expected of them.
    pub runs: Vec<RunSummary>,
}

/// Whether the program is there.
pub fn is_installed() -> bool {
    let program = program_named(PLANNER);
    let on_path =
        || std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|it| it.join(PLANNER).is_file()));
    program.is_absolute() || on_path()
}

/// The error that it is not.
pub fn not_installed() -> Error {
    not_started(PLANNER, Path::new(PLANNER), std::io::ErrorKind::NotFound.into())
}

/// Evaluates a scenario.
///
/// # Errors
/// The planner is not installed; it fails, and has said on stderr of what.
pub fn evaluate(scenario: &Path, overrides: &Overrides) -> Result<Evaluation> {
    let program = program_named(PLANNER);
    let mut command = Command::new(&program);
    command.arg("evaluate").arg(scenario);
    match overrides.form {
        Form::Plain => {}
        Form::Quick => drop(command.arg("--quick")),
        Form::Full => drop(command.arg("--full")),
    }
    for (key, value) in &overrides.set {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    let child = command.stderr(Stdio::inherit()).output().map_err(|e| not_started(PLANNER, &program, e))?;
    let failed = || Error::usage(format!("{} could not be evaluated", scenario.display()), "see the message above");
    if !child.status.success() {
        return Err(failed());
    }
    serde_json::from_slice(&child.stdout).map_err(|cause| {
        let help = "install weft and weft-planner of the same version";
        Error::usage(format!("{} printed what this program cannot read: {cause}", program.display()), help)
    })
}

const PLANNER: &str = "weft-planner";
