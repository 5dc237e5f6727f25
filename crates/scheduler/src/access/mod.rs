//! The scheduler of Subways' hosts (section 5.2): agents of hosts and ToRs report, and it spreads the flows of hosts with several NICs over ToRs.

mod status;

use std::net::SocketAddr;

use metrics::{counter, gauge};
use serde_json::Value;
use weft_control::subways::agents::{AccessNetwork, NetworkInput, NetworkOutput};
use weft_control::time::Instant;

use crate::config::AccessConfig;
use crate::error::Result;
use crate::reporting::{self, Places, Reporting};
use crate::requests::Request;

/// Runs until a signal comes.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn run(config: &AccessConfig, json_ready: bool) -> Result<()> {
    let AccessConfig { listen, socket, metrics, election, .. } = config;
    let places = Places { listen, socket, metrics: *metrics, election: election.as_ref() };
    reporting::run(places, json_ready, |generation| config.network(generation))
}

impl Reporting for AccessNetwork {
    fn deadline(&self) -> Instant {
        Self::deadline(self)
    }

    fn received(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.handle(now, NetworkInput::Received(from, bytes));
    }

    fn timer(&mut self, now: Instant) {
        self.handle(now, NetworkInput::Timer);
    }

    fn poll(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        loop {
            match Self::poll(self)? {
                NetworkOutput::Send(to, bytes) => return Some((to, bytes)),
                NetworkOutput::Cable(cable, is_down) => {
                    let cable = self.addresses().fabric().link_name(cable.links()[0]);
                    if is_down {
                        tracing::warn!(cable, "the cable is down: flows take others");
                    } else {
                        tracing::info!(cable, "the cable works again");
                    }
                }
            }
        }
    }

    fn answer(&self, now: Instant, request: &Request) -> std::result::Result<Value, (String, String)> {
        match request {
            Request::Status => Ok(status::status(self, now)),
            Request::Placements => Ok(status::placements(self)),
            Request::Explain { flow } => status::explain(self, flow),
        }
    }

    fn measure(&self, now: Instant) {
        let (status, record) = (self.status(now), self.controller().record());
        gauge!("weft_scheduler_agents_reporting").set(status.reporting as f64);
        gauge!("weft_scheduler_superseded").set(f64::from(u8::from(status.is_superseded)));
        gauge!("weft_scheduler_flows_counted").set(status.flows as f64);
        gauge!("weft_scheduler_cables_down").set(status.down.len() as f64);
        counter!("weft_scheduler_rounds_total").absolute(record.rounds);
        counter!("weft_scheduler_rounds_late_total").absolute(status.late_rounds);
        counter!("weft_scheduler_moves_total").absolute(record.moves);
        counter!("weft_scheduler_control_loops_total").absolute(status.loops.count);
        gauge!("weft_scheduler_control_loop_seconds_total").set(status.loops.sum.as_secs_f64());
        for (reason, value) in status.refusals.iter() {
            counter!("weft_scheduler_reports_dropped_total", "reason" => reason).absolute(value);
        }
        if let Some(detours) = status.detours {
            gauge!("weft_scheduler_detour_hosts").set(detours.participants as f64);
            gauge!("weft_scheduler_detours").set(detours.detours as f64);
            gauge!("weft_scheduler_detoured_flows").set(detours.flows as f64);
        }
        for load in self.loads() {
            let fabric = self.addresses().fabric();
            let tor = fabric.node(fabric.switch_node(load.switch)).name.to_string();
            gauge!("weft_scheduler_tor_left_bps", "tor" => tor.clone(), "direction" => "out").set(load.out as f64);
            gauge!("weft_scheduler_tor_left_bps", "tor" => tor, "direction" => "in").set(load.into as f64);
        }
    }
}
