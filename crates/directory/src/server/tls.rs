//! TLS of the streams: the server's certificate, and clients' that name a principal.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use tokio_rustls::TlsAcceptor;
use weft_control::directory::PrincipalId;

use super::config::ServeError;

/// Reads the server's certificate, its key, and the authority of the clients.
pub fn acceptor(certificate: &Path, key: &Path, ca: &Path) -> Result<TlsAcceptor, ServeError> {
    let refused = |path: &Path, why: String| ServeError::Certificate { path: path.to_owned(), why };
    let certificates = |path: &Path| -> Result<Vec<CertificateDer<'static>>, ServeError> {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match read {
            Ok(found) if found.is_empty() => Err(refused(path, "there is no certificate in it".into())),
            read => read.map_err(|error| refused(path, error.to_string())),
        }
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates(ca)? {
        roots.add(authority).map_err(|error| refused(ca, error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let verifier = verifier.map_err(|error| refused(ca, error.to_string()))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| refused(key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(certificate, error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(certificate)?, private)
        .map_err(|error| refused(certificate, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Whom a connection's client certificate names: its common name is `principal-N`.
pub fn principal(connection: &ServerConnection) -> Option<PrincipalId> {
    let certificate = connection.peer_certificates()?.first()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let mut names = certificate.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?;
    if names.next().is_some() {
        return None;
    }
    let number: u32 = name.strip_prefix("principal-")?.parse().ok()?;
    (number != 0).then_some(PrincipalId(number))
}
