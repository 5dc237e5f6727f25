//! The machine's inputs and outputs.

use std::ops::Bound;
use std::time::Duration;

use weft_control::netlord::agent::{Input, MapChange, Output};
use weft_control::netlord::{PUBLIC, UplinkId, Vif};

use super::Host;
use super::uplink::Uplink;
use super::vif::OwnVif;
use crate::dataplane::{PlaneError, Restored};
use crate::directory::send;

impl Host {
    /// Hands an input to the machine, and does what it asks for.
    pub(super) fn input(&mut self, input: Input<'_>) {
        let now = self.now();
        self.agent.handle(now, input);
        self.drain();
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
                    self.write_uplink(number);
                    self.write_homes();
                    self.update_paths();
                }
                Output::Paths { to: (uplink, switch), vlans } => {
                    let Some(Uplink { device, ifindex, .. }) = self.uplinks.get(usize::from(uplink.0)) else { continue };
                    tracing::debug!(device, %switch, vlans = vlans.len(), "VLANs to an edge switch");
                    let done = self.plane.set_paths(*ifindex, switch, &vlans);
                    self.record_error(done);
                }
                Output::Map(change) => {
                    let done = self.apply(change);
                    self.record_error(done);
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
            self.write_home(ifindex, vif, uplink);
        }
    }

    /// By which interface a VIF sends.
    pub(super) fn write_home(&mut self, ifindex: u32, vif: Vif, uplink: Option<UplinkId>) {
        let uplink = uplink.and_then(|it| self.uplinks.get(usize::from(it.0))).map(|it| it.ifindex);
        let Some(own) = self.vifs.get_mut(&ifindex) else { return };
        if own.written != Some((vif, uplink)) {
            own.written = Some((vif, uplink));
            let done = self.plane.set_vif(ifindex, vif, uplink);
            self.record_error(done);
        }
    }

    /// Place and MTU of an interface to the fabric.
    pub(super) fn write_uplink(&mut self, number: usize) {
        let uplink = &self.uplinks[number];
        let at = uplink.at.filter(|_| uplink.mtu.is_some());
        let done = self.plane.set_uplink(uplink.ifindex, uplink.mac, uplink.mtu.unwrap_or(0), at);
        self.record_error(done);
    }

    /// Addresses that VMs were found to have: the kernel lets them check their neighbours by themselves.
    pub(super) fn write_owned(&mut self) {
        for (id, vif, addresses, _) in self.agent.vifs().filter(|(_, vif, ..)| vif.tenant != PUBLIC) {
            for &ip in addresses {
                if let Err(error) = self.plane.set_owned(id.0, ip) {
                    return tracing::debug!(%error, %vif, %ip, "its agent answers for it");
                }
            }
        }
    }

    /// Puts back what somebody has removed from the kernel: programs, pins, and the entries of interfaces.
    pub(super) fn reconcile(&mut self) -> Result<Vec<Restored>, PlaneError> {
        let mut restored = self.plane.reconcile()?;
        for it in &self.uplinks {
            let at = it.at.filter(|_| it.mtu.is_some());
            if self.plane.restore_uplink(it.ifindex, it.mac, it.mtu.unwrap_or(0), at)? {
                restored.push(Restored::Entry(it.device.clone()));
            }
        }
        let after = self.looked.map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<(u32, &OwnVif)> =
            self.vifs.range((after, Bound::Unbounded)).take(VIFS_AT_ONCE).map(|(&at, own)| (at, own)).collect();
        self.looked = next.last().map(|(at, _)| *at).filter(|_| next.len() == VIFS_AT_ONCE);
        for (ifindex, own) in next {
            let Some((vif, uplink)) = own.written else { continue };
            if self.plane.restore_vif(ifindex, vif, uplink)? {
                restored.push(Restored::Entry(own.device.clone()));
            }
        }
        Ok(restored)
    }

    pub(super) fn send(&mut self, ifindex: u32, frame: &[u8]) {
        // What is lost is asked for again, by us or by the VM.
        if let Err(error) = self.plane.send(ifindex, frame) {
            tracing::debug!(%error, bytes = frame.len(), "a frame was not sent");
        }
    }

    pub(super) fn record_error(&mut self, done: Result<(), PlaneError>) {
        if let Err(error) = done {
            tracing::warn!(%error, "a table was not written");
            self.last_error = Some(error.to_string());
        }
    }
}

/// How long the kernel does by itself what a virtual router did: rules and addresses may change in that time.
const ROUTE_HOLDS: Duration = Duration::from_secs(1);
/// VIFs whose entries are compared in one go.
const VIFS_AT_ONCE: usize = 1024;
