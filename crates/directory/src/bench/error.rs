//! What keeps a benchmark from measuring.

use crate::client::ClientError;

/// What keeps a benchmark from measuring.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Files or processes.
    #[error("{0}")]
    Io(String),
    /// A server that does not start or does not work.
    #[error("the benchmark's server does not work: {0}")]
    Server(String),
    /// etcd is missing or does not work.
    #[error("etcd: {0}")]
    Etcd(String),
    /// A client's error.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl BenchError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Io(_) => "see the system's message; temporary files go to TMPDIR",
            Self::Server(_) => "its own message is above",
            Self::Etcd(_) => "scripts/setup-etcd.sh puts etcd into .tools; or measure `--store embedded`",
            Self::Client(error) => error.help(),
        }
    }
}
