//! How large a fabric may be, and the errors of parameters.

use crate::topology::FabricError;

/// Hosts of a fabric: ten times the largest data centre of the papers.
pub(crate) const MAX_HOSTS: u64 = 1 << 20;
/// Switches of a fabric.
pub(crate) const MAX_SWITCHES: u64 = 1 << 18;
/// Cables of a fabric.
pub(crate) const MAX_CABLES: u64 = 1 << 23;

/// The error of a parameter whose value breaks a rule.
pub(super) fn refuse(parameter: &'static str, value: impl ToString, rule: impl Into<String>) -> FabricError {
    FabricError::Parameter { parameter, value: value.to_string(), rule: rule.into() }
}

/// Checks a count of parts that must exist.
pub(super) fn at_least_one(parameter: &'static str, value: u32, what: &str) -> Result<(), FabricError> {
    if value == 0 { Err(refuse(parameter, value, format!("there must be {what}: set it to 1 or more"))) } else { Ok(()) }
}

/// Checks the size of the whole before anything is allocated. `parameter` is the one that makes it large.
pub(super) fn check_size(parameter: &'static str, value: u32, hosts: u64, switches: u64, cables: u64) -> Result<(), FabricError> {
    for (count, limit, what) in
        [(hosts, MAX_HOSTS, "hosts"), (switches, MAX_SWITCHES, "switches"), (cables, MAX_CABLES, "cables")]
    {
        if count > limit {
            return Err(refuse(
                parameter,
                value,
                format!("this makes {count} {what}, and a fabric has at most {limit}: lower it"),
            ));
        }
    }
    Ok(())
}
