//! What the machine wants of the data plane, and the packets that it holds.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, RawFd};

use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};
use weft_control::vl2::agent::Output;
use weft_control::vl2::placement::HostOutput;
use weft_control::wire::packet::ethernet::Ethernet;
use weft_control::wire::packet::ip::UDP;
use weft_control::wire::vl2::icmp::Problem;
use weft_fabric::MacAddr;

use crate::dataplane::{PlaneError, Restored};
use crate::error::{Error, Result};
use crate::vl2::dataplane::{
    Count, Counters, Direction, Event, Flow, Held, HostPlane, HostSettings, Local, LocatorRule, PeerKey, PeerState, Placement,
    Refusal, icmp_error_to_sender,
};

/// The data plane of a host.
pub(super) struct Plane {
    host: HostPlane,
    la: Ipv4Addr,
    gateway: Option<MacAddr>,
    index: u32,
    /// Holds the multicast memberships.
    memberships: Socket,
    held: BTreeMap<u64, (Direction, Held)>,
    last_token: u64,
    /// The kernel's last error: a full table, for example.
    pub last_error: Option<String>,
}

impl Plane {
    pub fn new(host: HostPlane, la: Ipv4Addr, index: u32) -> Result<Self> {
        let memberships = Socket::new(Domain::IPV4, Type::DGRAM, None);
        let memberships = memberships.map_err(Error::system("open a socket", ""))?;
        Ok(Self { host, la, gateway: None, index, memberships, held: BTreeMap::new(), last_token: 0, last_error: None })
    }

    pub fn descriptor(&self) -> RawFd {
        self.host.events_fd().as_raw_fd()
    }

    pub const fn adopted(&self) -> bool {
        self.host.adopted()
    }

    /// Undoes a start that has failed.
    pub fn rollback_on_error<T>(&mut self, start: Result<T>) -> Result<T> {
        self.host.rollback_on_error(start)
    }

    /// Peers and addresses that an earlier agent left. What it had refused is forgotten: it is asked for again.
    pub fn inherited(&mut self) -> Result<(Vec<PeerKey>, Vec<IpAddr>)> {
        let mut peers = Vec::new();
        for (key, state) in self.host.peers()? {
            match state {
                PeerState::Known(_) => peers.push(key),
                PeerState::Refused(_) => self.host.remove_peer(key)?,
            }
        }
        let locals = self.host.locals()?.into_iter().map(|(address, _)| address).collect();
        Ok((peers, locals))
    }

    pub fn events(&mut self) -> Vec<Event> {
        self.host.events().unwrap_or_else(|error| {
            self.record_error("read events", &error);
            Vec::new()
        })
    }

    pub fn counters(&self) -> Option<Counters> {
        self.host.counters().ok()
    }

    /// Known and refused peers in the table.
    pub fn used(&self) -> usize {
        self.host.peers().map_or(0, |all| all.len())
    }

    pub const fn has_gateway(&self) -> bool {
        self.gateway.is_some()
    }

    pub fn set_gateway(&mut self, mac: MacAddr) {
        if self.gateway == Some(mac) {
            return;
        }
        match self.host.set_gateway(mac) {
            Ok(()) => {
                tracing::info!(%mac, "the next hop");
                self.gateway = Some(mac);
            }
            Err(error) => self.record_error("set the next hop", &error),
        }
    }

    /// Another place: its locator, and what is set with it.
    pub fn apply_config(&mut self, la: Ipv4Addr, gateway: Option<MacAddr>, settings: &HostSettings) -> Result<()> {
        self.host.set_settings(settings)?;
        (self.la, self.gateway) = (la, gateway);
        Ok(())
    }

    /// Lets datagrams come to ports of the host's locator.
    pub fn allow_udp(&mut self, ports: &[u16]) -> Result<()> {
        Ok(self.host.allow(ports.iter().map(|port| LocatorRule::Port(UDP, *port)))?)
    }

    pub fn outer_source(&self, flow: Flow) -> Option<Ipv4Addr> {
        self.host.outer_source(flow).ok()
    }

    pub fn anycast(&self, flow: Flow, addresses: &[Ipv4Addr]) -> Option<Ipv4Addr> {
        self.host.anycast(flow, addresses).ok().flatten()
    }

    /// Keeps a packet; which address of this host and which peer it is between, its length, and its token.
    pub fn hold(
        &mut self,
        direction: Direction,
        source: IpAddr,
        destination: IpAddr,
        held: Held,
    ) -> (IpAddr, IpAddr, usize, u64) {
        self.last_token += 1;
        let (local, peer) = match direction {
            Direction::Out => (source, destination),
            Direction::In => (destination, source),
        };
        let bytes = held.frame().len();
        self.held.insert(self.last_token, (direction, held));
        (local, peer, bytes, self.last_token)
    }

    /// Lets all packets go that are held: nobody will say what becomes of them.
    pub fn forget_held(&mut self) {
        self.held.clear();
    }

    /// Does what the machine wants done.
    pub fn apply(&mut self, output: Output) {
        let what = name(&output);
        let done = match output {
            Output::SetPeer { key, peer } => self.host.set_peer(key, &peer),
            Output::RefusePeer { key, is_forbidden } => {
                self.host.refuse_peer(key, if is_forbidden { Refusal::Forbidden } else { Refusal::Unknown })
            }
            Output::RemovePeer(key) => self.host.remove_peer(key),
            Output::SetGroup { group, addresses } => self.host.set_group(group, &addresses),
            Output::RemoveGroup(group) => self.host.remove_group(group),
            Output::SetLocal { address, service, multicast } => self.host.set_local(address, &Local { service, multicast }),
            Output::RemoveLocal(address) => self.host.remove_local(address),
            Output::Join(group) => return self.membership(group, true),
            Output::Leave(group) => return self.membership(group, false),
            Output::Inject(frame) => self.host.inject(&frame),
            Output::Release(token) => match self.held.remove(&token) {
                Some((direction, held)) => self.host.release(direction, &held),
                None => Ok(()),
            },
            Output::Drop { token, reason, by_icmp } => {
                let Some((direction, held)) = self.held.remove(&token) else { return };
                if !by_icmp || direction == Direction::In {
                    return;
                }
                let is_forbidden = reason == weft_control::vl2::agent::Reason::Forbidden;
                let problem = if is_forbidden { Problem::Prohibited } else { Problem::HostUnreachable };
                let Ok(frame) = Ethernet::parse(held.frame()) else { return };
                let error = icmp_error_to_sender(frame.payload, Some(self.la), problem, frame.src);
                error.map_or(Ok(()), |frame| self.host.inject(&frame))
            }
            Output::Salt { flow, salt } => self.host.salt(flow, salt),
            Output::Send { .. }
            | Output::SendAttach { .. }
            | Output::Announce(_)
            | Output::Attachment { .. }
            | Output::SequenceAdvanced(_) => Ok(()),
        };
        if let Err(error) = done {
            self.record_error(what, &error);
        }
    }

    /// Does what the machine of placements wants done.
    pub fn apply_placement(&mut self, output: HostOutput) {
        let (what, done) = match output {
            HostOutput::Place(flow, placement) => ("place a flow", self.host.place(flow, &placement)),
            HostOutput::Remove(flow) => ("remove a placement", self.host.remove_placement(flow)),
            HostOutput::Forget(flow) => ("forget a flow", self.host.forget_count(flow)),
            HostOutput::Read | HostOutput::Send(..) | HostOutput::Probe(_) => return,
        };
        if let Err(error) = done {
            self.record_error(what, &error);
        }
    }

    /// What a flow has sent.
    pub fn count(&self, flow: Flow) -> Option<Count> {
        self.host.count(flow).ok().flatten()
    }

    /// Where a flow is placed.
    pub fn placement(&self, flow: Flow) -> Option<Placement> {
        self.host.placement(flow).ok().flatten()
    }

    /// Large flows, and their placements, that an earlier agent left.
    pub fn inherited_flows(&self) -> Result<Vec<(Flow, Option<Placement>)>> {
        let mut flows: BTreeMap<Flow, Option<Placement>> = self.host.elephants()?.into_iter().map(|flow| (flow, None)).collect();
        flows.extend(self.host.placements()?.into_iter().map(|(flow, placement)| (flow, Some(placement))));
        Ok(flows.into_iter().collect())
    }

    /// Puts back what somebody has removed from the kernel, as far as this process alone knows it.
    pub fn reconcile(&mut self) -> std::result::Result<Vec<Restored>, PlaneError> {
        let restored = self.host.reconcile()?;
        if restored.iter().any(|it| matches!(it, Restored::Interface(_))) {
            self.index = self.host.index();
        }
        Ok(restored)
    }

    /// The plane's tables.
    pub const fn tables(&mut self) -> &mut HostPlane {
        &mut self.host
    }

    /// Takes the programs away.
    pub fn detach(self) -> Result<()> {
        Ok(self.host.detach()?)
    }

    fn membership(&mut self, group: Ipv4Addr, join: bool) {
        let interface = InterfaceIndexOrAddress::Index(self.index);
        let done = match join {
            true => self.memberships.join_multicast_v4_n(&group, &interface),
            false => self.memberships.leave_multicast_v4_n(&group, &interface),
        };
        if let Err(error) = done {
            tracing::warn!(%group, join, %error, "the multicast membership was not changed");
        }
    }

    fn record_error(&mut self, what: &str, error: &PlaneError) {
        let text = format!("cannot {what}: {error}");
        if self.last_error.as_ref() != Some(&text) {
            tracing::error!("{text}");
        }
        self.last_error = Some(text);
    }
}

const fn name(output: &Output) -> &'static str {
    match output {
        Output::SetPeer { .. } => "set a peer",
        Output::RefusePeer { .. } => "refuse a peer",
        Output::RemovePeer(_) => "remove a peer",
        Output::SetGroup { .. } => "set a group",
        Output::RemoveGroup(_) => "remove a group",
        Output::SetLocal { .. } => "set an address",
        Output::RemoveLocal(_) => "remove an address",
        Output::Inject(_) => "answer",
        Output::Release(_) => "release a packet",
        Output::Drop { .. } => "send an ICMP error",
        Output::Salt { .. } => "give a flow another path",
        _ => "do",
    }
}
