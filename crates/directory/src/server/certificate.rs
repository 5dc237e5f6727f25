//! The server's certificate, which may be replaced while it serves: streams that begin later have the new one.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio_rustls::TlsAcceptor;

use super::config::ServeError;
use super::core::Core;
use super::tls;
use super::watched::Watched;
use crate::client::TlsFiles;

/// What accepts TLS now.
pub struct Certificate {
    files: TlsFiles,
    acceptor: RwLock<TlsAcceptor>,
    watched: Watched,
}

impl Certificate {
    /// Reads the files for the first time.
    pub fn read(files: TlsFiles) -> Result<Arc<Self>, ServeError> {
        let watched = Watched::new([&files.certificate, &files.key, &files.authority].map(Clone::clone));
        let acceptor = RwLock::new(tls::acceptor(&files)?);
        Ok(Arc::new(Self { files, acceptor, watched }))
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

    /// Reloads whenever a file has changed.
    pub async fn follow(self: Arc<Self>, core: Arc<Core>) {
        let mut watched = self.watched.clone();
        loop {
            watched.changed().await;
            self.reload(&core);
        }
    }
}
