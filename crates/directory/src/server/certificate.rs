//! The server's certificate, which may be replaced while it serves: streams that begin later have the new one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use tokio_rustls::TlsAcceptor;

use super::config::ServeError;
use super::core::Core;
use super::tls;
use crate::client::TlsFiles;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What accepts TLS now.
pub struct Certificate {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
}

impl Certificate {
    /// Reads the files for the first time.
    pub fn read(files: TlsFiles) -> Result<Arc<Self>, ServeError> {
        let acceptor = RwLock::new(tls::acceptor(&files)?);
        Ok(Arc::new(Self { files, acceptor }))
    }

    /// For the next stream.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.read().clone()
    }

    /// Reads the files again; if they cannot be used, what was read before stays.
    pub fn reload(&self, core: &Core) {
        match tls::acceptor(&self.files) {
            Ok(acceptor) => {
                *self.acceptor.write() = acceptor;
                tracing::info!(certificate = %self.files.certificate.display(), "the certificate was read again");
            }
            Err(error) => {
                core.metrics.certificate_errors.increment(1);
                tracing::error!(%error, "the certificate cannot be read again, and the one before stays in use");
            }
        }
    }

    /// Reloads when a file changes and stays so for a moment: a certificate and its key are replaced one after the other.
    pub async fn follow(self: Arc<Self>, core: Arc<Core>) {
        let mut read = self.stamps();
        let mut seen = read;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.stamps();
            if now != read && now == seen {
                self.reload(&core);
                read = now;
            }
            seen = now;
        }
    }

    fn stamps(&self) -> [Option<(SystemTime, u64)>; 3] {
        let stamp = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        let files: [&PathBuf; 3] = [&self.files.certificate, &self.files.key, &self.files.authority];
        files.map(|file| stamp(file))
    }
}
