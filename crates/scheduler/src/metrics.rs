//! Prometheus metrics.

use std::net::SocketAddr;

use ::metrics::{counter, gauge};
use metrics_exporter_prometheus::PrometheusBuilder;

use crate::core::Core;
use crate::error::{Error, Result};

/// Serves them, if anywhere.
///
/// # Errors
/// [`Error::Metrics`] if the address cannot be used.
pub(crate) fn serve(address: Option<SocketAddr>) -> Result<()> {
    let Some(address) = address else { return Ok(()) };
    let refused = |reason: String| Error::Metrics { address, reason };
    // The exporter binds later: whether the address is free must be known now.
    drop(std::net::TcpListener::bind(address).map_err(|error| refused(error.to_string()))?);
    PrometheusBuilder::new().with_http_listener(address).install().map_err(|error| refused(error.to_string()))
}

/// Brings them up to date.
pub(crate) fn update(core: &Core) {
    let status = core.network.status();
    let record = core.network.controller().map(|c| c.record()).unwrap_or_default();
    gauge!("weft_scheduler_leader").set(f64::from(u8::from(core.leads())));
    gauge!("weft_scheduler_switches_connected").set(core.sessions().count() as f64);
    gauge!("weft_scheduler_switches_installed").set(status.installed as f64);
    gauge!("weft_scheduler_flows_counted").set(status.counted_flows as f64);
    gauge!("weft_scheduler_flows_placed").set(core.network.placements().len() as f64);
    gauge!("weft_scheduler_cables_failed").set(status.failed_cables as f64);
    gauge!("weft_scheduler_cables_wrong").set(status.miscabled.len() as f64);
    gauge!("weft_scheduler_ports_without_lldp").set(status.silent.len() as f64);
    counter!("weft_scheduler_rounds_total").absolute(record.rounds);
    counter!("weft_scheduler_rounds_late_total").absolute(status.late_rounds);
    counter!("weft_scheduler_moves_total").absolute(record.moves);
    counter!("weft_scheduler_messages_refused_total").absolute(status.refused.iter().map(|r| r.1).sum());
    counter!("weft_scheduler_connections_faulty_total").absolute(core.faults);
}
