//! What the machine wants done.

use std::time::Duration;

use weft_control::netlord::agent::{Input, MapChange, Output};

use super::{Host, Uplink};
use crate::agent::host::send;
use crate::dataplane::PlaneError;

impl Host {
    /// Something happened: the machine is told, and what it wants is done.
    pub(super) fn input(&mut self, input: Input<'_>) {
        let now = self.now();
        self.agent.handle(now, input);
        self.drain();
        self.write_paths();
    }

    fn drain(&mut self) {
        while let Some(output) = self.agent.poll() {
            match output {
                Output::ToVif { id, frame } => self.send(id.0, &frame),
                Output::ToFabric { uplink, frame } => {
                    if let Some(uplink) = self.uplinks.get(usize::from(uplink.0)) {
                        self.send(uplink.ifindex, &frame);
                    }
                }
                Output::Located { uplink, at } => {
                    let number = usize::from(uplink.0);
                    tracing::info!(device = self.uplinks[number].device, at = at.map(|at| at.to_string()), "place of an uplink");
                    self.uplinks[number].at = at;
                    self.take_tables();
                    self.write_uplink(number);
                    self.write_homes();
                }
                Output::Map(change) => {
                    let done = self.apply(change);
                    self.note(done);
                }
                Output::Datagram { to, bytes } => {
                    if let Some(socket) = &self.directory {
                        send(socket, to, &bytes);
                    }
                }
            }
        }
    }

    fn apply(&mut self, change: MapChange) -> Result<(), PlaneError> {
        match change {
            MapChange::Local { vif, id } => self.plane.set_local(vif, id.map(|id| id.0)),
            MapChange::Remote { vif, at } => self.plane.set_remote(vif, at),
            MapChange::Routers { .. } => self.plane.clear_routes(),
            MapChange::Routed(flow) => self.plane.set_route(&flow, ROUTE_HOLDS),
            // ARP and neighbour discovery come to the agent.
            MapChange::Neighbour { .. } => Ok(()),
        }
    }

    /// By which interface VIFs send.
    pub(super) fn write_homes(&mut self) {
        let homes: Vec<_> = self.agent.vifs().map(|(id, vif, _, uplink)| (id.0, vif, uplink)).collect();
        for (ifindex, vif, uplink) in homes {
            let uplink = uplink.and_then(|it| self.uplinks.get(usize::from(it.0))).map(|it| it.ifindex);
            let Some(own) = self.vifs.get_mut(&ifindex) else { continue };
            if own.written != Some((vif, uplink)) {
                own.written = Some((vif, uplink));
                let done = self.plane.set_vif(ifindex, vif, uplink);
                self.note(done);
            }
        }
    }

    /// Place and MTU of an interface to the fabric.
    pub(super) fn write_uplink(&mut self, number: usize) {
        let uplink = &self.uplinks[number];
        let at = uplink.at.filter(|_| uplink.mtu.is_some());
        let done = self.plane.set_uplink(uplink.ifindex, uplink.mac, uplink.mtu.unwrap_or(0), at);
        self.note(done);
    }

    /// VLANs that failed, or work again.
    pub(super) fn write_paths(&mut self) {
        for (uplink, switch) in self.agent.chooser_mut().take_changed() {
            let vlans = self.agent.chooser_mut().usable((uplink, switch));
            let Some(Uplink { device, ifindex, .. }) = self.uplinks.get(usize::from(uplink.0)) else { continue };
            tracing::debug!(device, %switch, vlans = vlans.len(), "VLANs to an edge switch");
            let done = self.plane.set_paths(*ifindex, switch, &vlans);
            self.note(done);
        }
    }

    pub(super) fn send(&mut self, ifindex: u32, frame: &[u8]) {
        // What is lost is asked for again, by us or by the VM.
        if let Err(error) = self.plane.send(ifindex, frame) {
            tracing::debug!(%error, bytes = frame.len(), "a frame was not sent");
        }
    }

    pub(super) fn note(&mut self, done: Result<(), PlaneError>) {
        if let Err(error) = done {
            tracing::warn!(%error, "a table was not written");
            self.trouble = Some(error.to_string());
        }
    }
}

/// How long the kernel does by itself what a virtual router did: rules and addresses may change meanwhile.
const ROUTE_HOLDS: Duration = Duration::from_secs(1);
