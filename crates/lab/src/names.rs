//! Names of the programs that a lab starts.

/// The agent.
pub(crate) const AGENT: &str = "weft-agent";
/// The directory.
pub(crate) const DIRECTORY: &str = "weft-directory";
/// The scheduler.
pub(crate) const SCHEDULER: &str = "weft-scheduler";
/// The store of several directory servers.
pub(crate) const ETCD: &str = "etcd";
