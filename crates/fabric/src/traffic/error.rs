//! Errors in descriptions of traffic.

use crate::traffic::sizes::SizeError;

/// Why a description gives no traffic on this fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum TrafficError {
    #[error("`{key}` = {value}: {rule}")]
    Parameter { key: &'static str, value: String, rule: String },
    #[error("this traffic needs at least 2 hosts, and the fabric has {hosts}")]
    TooFewHosts { hosts: usize },
    #[error(transparent)]
    Size(#[from] SizeError),
}

/// An error about the value of one key.
pub(super) fn parameter(key: &'static str, value: impl ToString, rule: impl Into<String>) -> TrafficError {
    TrafficError::Parameter { key, value: value.to_string(), rule: rule.into() }
}
