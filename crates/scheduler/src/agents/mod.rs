//! The scheduler of VL2's agents.

mod explain;
mod metrics;
mod status;

use std::net::SocketAddr;

use serde_json::Value;
use weft_control::time::Instant;
use weft_control::vl2::placement::{AgentNetwork, NetworkInput, NetworkOutput};

use crate::config::AgentsConfig;
use crate::error::Result;
use crate::reporting::{self, Places, Reporting};
use crate::requests::Request;

/// Runs until a signal comes.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn run(config: &AgentsConfig, json_ready: bool) -> Result<()> {
    let AgentsConfig { socket, metrics, election, .. } = config;
    let places = Places { listen: &[config.listen], socket, metrics: *metrics, election: election.as_ref() };
    reporting::run(places, json_ready, |generation| Ok(config.network(generation)))
}

impl Reporting for AgentNetwork {
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
                NetworkOutput::Intermediate(switch, has_failed) => {
                    let name = status::name(self, switch);
                    if has_failed {
                        tracing::warn!(
                            switch = name,
                            "the intermediate switch does not answer agents: no flow is placed over it"
                        );
                    } else {
                        tracing::info!(switch = name, "the intermediate switch answers again");
                    }
                }
            }
        }
    }

    fn answer(&self, now: Instant, request: &Request) -> std::result::Result<Value, (String, String)> {
        match request {
            Request::Status => Ok(status::status(self, now)),
            Request::Placements => Ok(status::placements(self)),
            Request::Explain { flow } => explain::explain(self, flow),
        }
    }

    fn measure(&self, now: Instant) {
        metrics::update(self, now);
    }
}
