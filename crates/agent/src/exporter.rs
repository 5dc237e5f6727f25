//! Prometheus metrics by HTTP: the same for hosts and switches.

use std::net::SocketAddr;

use metrics_exporter_prometheus::PrometheusBuilder;

use crate::error::{Error, Result};

/// Serves them, if anywhere.
///
/// # Errors
/// [`Error`] if the address cannot be used.
pub fn serve(address: Option<SocketAddr>) -> Result<()> {
    let Some(address) = address else { return Ok(()) };
    let refused = |reason: String| Error::Metrics { address, reason };
    // The exporter binds later, on a thread: whether the address is free must be known now.
    drop(std::net::TcpListener::bind(address).map_err(|error| refused(error.to_string()))?);
    PrometheusBuilder::new().with_http_listener(address).install().map_err(|error| refused(error.to_string()))
}
