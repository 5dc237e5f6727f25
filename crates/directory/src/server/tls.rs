//! TLS of the streams: the server's certificate, and clients' that name a principal.

use rustls::ServerConnection;
use tokio_rustls::TlsAcceptor;
use weft_control::directory::PrincipalId;

use super::config::ServeError;
use crate::client::TlsFiles;
use crate::daemon::tls::{TlsError, server_config};

/// Reads the server's certificate, its key, and the authority of the clients.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let config = server_config(files).map_err(|TlsError { path, why }| ServeError::Certificate { path, why })?;
    Ok(TlsAcceptor::from(config))
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
