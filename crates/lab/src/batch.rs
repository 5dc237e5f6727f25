//! Batches of `ip` and `tc`, executed in a namespace.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::error::{LabError, Result};
use crate::netns::{not_run, within};
use crate::plan::Node;
use crate::rtnl::{self, Failure};

/// Runs a batch of `ip` or `tc` in the namespace of a node.
pub(crate) fn run_batch(node: &Node, program: &'static str, commands: &str) -> Result<()> {
    within(&node.namespace, || batch(program, commands, &node.namespace))
}

/// Executes a batch of `ip` or `tc` in the namespace that the thread is in: by rtnetlink if all its commands are known there, else by the program.
pub(crate) fn batch(program: &'static str, commands: &str, place: &str) -> Result<()> {
    if commands.is_empty() {
        return Ok(());
    }
    match rtnl::run(program, commands) {
        Some(done) => done.map_err(|Failure { line, cause }| {
            let command = line.and_then(|l| commands.lines().nth(l)).unwrap_or("a batch").to_owned();
            LabError::Command { program, place: place.to_owned(), command, message: cause.to_string() }
        }),
        None => batch_by_program(program, commands, place),
    }
}

/// As [`batch`], by the program alone.
pub(crate) fn batch_by_program(program: &'static str, commands: &str, place: &str) -> Result<()> {
    let mut child = Command::new(program)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| not_run(program, "iproute2", e))?;
    // A batch that fails closes its input; its message is more useful than the broken pipe.
    let _ = child.stdin.take().expect("piped").write_all(commands.as_bytes());
    let output = child.wait_with_output().map_err(|e| not_run(program, "iproute2", e))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let failed = stderr.lines().find_map(|l| l.strip_prefix("Command failed -:")?.trim().parse::<usize>().ok());
    let command = failed.and_then(|l| commands.lines().nth(l.checked_sub(1)?)).unwrap_or("-batch").to_owned();
    let message = stderr.lines().find(|l| !l.starts_with("Command failed")).unwrap_or("it was ended").to_owned();
    Err(LabError::Command { program, place: place.to_owned(), command, message })
}
