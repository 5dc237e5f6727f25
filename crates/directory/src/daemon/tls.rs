//! The server's side of TLS with certificates on both sides.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::client::TlsFiles;

/// A certificate or key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` cannot be used for TLS: {why}", path.display())]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub why: String,
}

/// The configuration of a server that has this certificate, and takes clients whose certificates that authority has signed.
///
/// # Errors
/// [`TlsError`].
pub fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let refused = |path: &Path, why: &dyn std::fmt::Display| TlsError { path: path.to_owned(), why: why.to_string() };
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match read {
            Ok(found) if found.is_empty() => Err(refused(path, &"there is no certificate in it")),
            read => read.map_err(|error| refused(path, &error)),
        }
    };
    let TlsFiles { certificate, key, authority } = files;
    let mut roots = RootCertStore::empty();
    for one in certificates(authority)? {
        roots.add(one).map_err(|error| refused(authority, &error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| refused(key, &error))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(certificate, &error))?
        .with_client_cert_verifier(verifier.map_err(|error| refused(authority, &error))?)
        .with_single_cert(certificates(certificate)?, private)
        .map_err(|error| refused(certificate, &error))?;
    Ok(Arc::new(config))
}

/// The first of these URLs that leads to another machine without TLS.
pub fn plaintext(urls: &[String]) -> Option<&str> {
    let is_open = |url: &&String| {
        let Some(rest) = url.strip_prefix("http://") else { return false };
        let authority = rest.split('/').next().unwrap_or_default();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        host != "localhost" && !address.is_some_and(|it| it.is_loopback())
    };
    urls.iter().find(is_open).map(String::as_str)
}
