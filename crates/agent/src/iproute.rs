//! Interfaces, addresses and routes of the thread's network namespace, by iproute2.

use std::process::Command;

use serde_json::Value;

use crate::error::{Error, Result};

/// What `ip -j` prints; `null` if it prints nothing.
pub(super) fn ip(arguments: &[&str]) -> Result<Value> {
    let text = run(arguments)?;
    Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// What `ip` prints.
pub(super) fn run(arguments: &[&str]) -> Result<String> {
    command("ip", arguments)
}

/// What a program prints.
pub(super) fn command(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(Error::system(format!("run `{program}`"), "install iproute2"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Command { command: format!("{program} {}", arguments.join(" ")), reason });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
