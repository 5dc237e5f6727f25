//! TLS with client certificates: who is a principal is said by the certificate's common name, `principal-N`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::error::ClientError;

/// Where a client's certificates are.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The client's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that signed the servers' certificates.
    pub authority: PathBuf,
}

/// The configuration of a client that has this certificate and trusts that authority alone.
///
/// # Errors
/// [`ClientError::Certificate`] with the file's name.
pub fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, ClientError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.authority)? {
        roots.add(certificate).map_err(|e| wrong(&files.authority, e))?;
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| wrong(&files.key, e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(&files.authority, e))?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&files.certificate)?, key)
        .map_err(|e| wrong(&files.certificate, e))?;
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(|e| wrong(file, e))?.collect();
    let all = all.map_err(|e| wrong(file, e))?;
    if all.is_empty() { Err(wrong(file, "no certificate in it")) } else { Ok(all) }
}

fn wrong(file: &Path, why: impl ToString) -> ClientError {
    ClientError::Certificate { file: file.display().to_string(), why: why.to_string() }
}
