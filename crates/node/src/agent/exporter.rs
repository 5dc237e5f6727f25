//! Prometheus metrics by HTTP: the same for hosts and switches.

use std::net::SocketAddr;

use metrics::counter;
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::cli::{Error, Result};
use crate::dataplane::Counters;

/// Where metrics are served if the configuration does not say.
#[allow(clippy::unnecessary_wraps)] // The form that serde wants.
pub fn default_address() -> Option<SocketAddr> {
    Some(SocketAddr::from(([127, 0, 0, 1], 9304)))
}

/// Serves them, if anywhere.
///
/// # Errors
/// [`Error`] if the address cannot be used.
pub fn serve(address: Option<SocketAddr>) -> Result<()> {
    let Some(address) = address else { return Ok(()) };
    let help = "choose another with `metrics`, or \"off\"";
    let refused = |error: String| Error::new(format!("the metrics' address {address} cannot be used: {error}"), help);
    // The exporter binds later, on a thread: whether the address is free must be known now.
    drop(std::net::TcpListener::bind(address).map_err(|error| refused(error.to_string()))?);
    PrometheusBuilder::new().with_http_listener(address).install().map_err(|error| refused(error.to_string()))
}

/// What the programs have counted: `weft_agent_packets_total{reason}`, and of packets that they dropped `weft_agent_dropped_total{reason}`.
pub fn update(counters: &Counters) {
    for (which, value) in counters.iter() {
        let name = if which.is_drop() { "weft_agent_dropped_total" } else { "weft_agent_packets_total" };
        counter!(name, "reason" => which.name()).absolute(value);
    }
}
