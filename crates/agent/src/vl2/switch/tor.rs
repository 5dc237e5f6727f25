//! The part of a ToR: its machine's sockets, and its table in the plane.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::{SystemTime, UNIX_EPOCH};

use weft_control::directory::Locator;
use weft_control::time::{Duration, Instant};
use weft_control::vl2::switch::{Channel, Counts, Host, Input, Local, Output, Tor, TorConfig};
use weft_control::wire::vl2::attach;
use weft_fabric::rng::Pcg64;

use super::config::{SwitchConfig, TorConfigPart};
use super::ports::{ArpSocket, PortSocket, client};
use crate::dataplane::{PlaneError, Restored};
use crate::error::{Error, Result};
use crate::vl2::dataplane::{Attached, Event, StripRole, SwitchPlane, VIRTUAL_MAC};

/// A ToR's machine and what it speaks through.
#[derive(Debug)]
pub(super) struct TorPart {
    machine: Tor,
    lookups: UdpSocket,
    updates: UdpSocket,
    ports: Vec<PortSocket>,
    /// By which hosts' programs are asked for their addresses.
    arp: Vec<ArpSocket>,
    la: Ipv4Addr,
    forget_after: Duration,
    /// Addresses that an earlier process left in the plane, whose hosts have not spoken yet.
    inherited: BTreeSet<IpAddr>,
    names: BTreeMap<u32, String>,
}

impl TorPart {
    pub fn start(config: &SwitchConfig, part: &TorConfigPart, plane: &mut SwitchPlane) -> Result<Self> {
        let first_number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let settings = TorConfig {
            forget_after: part.forget_after,
            addresses_per_host: part.addresses_per_host,
            reports_per_s: part.reports_per_s,
            first_number,
            versions: weft_directory::client::versions(),
            ..TorConfig::new(config.principal(), Locator::V4(config.la))
        };
        let seed = u128::from_le_bytes(weft_directory::client::random());
        let machine = Tor::new(settings, &config.principal_key()?, Pcg64::new(seed, u128::from(config.principal().0)));
        plane.set_strip(config.la, StripRole::Tor)?;
        let inherited = plane.locals()?.into_iter().map(|(address, _)| address).collect();
        let socket = || client(config.la).map_err(|cause| Error::Locator { la: config.la, cause });
        let mut it = Self {
            machine,
            lookups: socket()?,
            updates: socket()?,
            ports: Vec::new(),
            arp: Vec::new(),
            la: config.la,
            forget_after: part.forget_after,
            inherited,
            names: BTreeMap::new(),
        };
        it.listen(config.la, part)?;
        it.configure(Instant::ZERO, config, part);
        it.check_sources(part, plane)?;
        Ok(it)
    }

    /// Listens at the ports of hosts, and at no others.
    pub(super) fn listen(&mut self, la: Ipv4Addr, part: &TorConfigPart) -> Result<()> {
        let wanted: BTreeSet<&String> = part.host.iter().map(|host| host.port.get_ref()).collect();
        let at = SocketAddrV4::new(la, attach::PORT);
        let missing = wanted.iter().filter(|port| !self.ports.iter().any(|it| it.port == ***port));
        let new = missing.map(|port| PortSocket::bind(port, at).map_err(|error| of_port(port, error)));
        let new = new.collect::<Result<Vec<_>>>()?;
        self.ports.retain(|it| wanted.contains(&it.port));
        self.ports.extend(new);
        let arp = self.ports.iter().map(|port| ArpSocket::open(&port.port).map_err(|error| of_port(&port.port, error)));
        self.arp = arp.collect::<Result<_>>()?;
        self.names = self.ports.iter().map(|port| (port.index, port.port.clone())).collect();
        Ok(())
    }

    /// Has the plane check what hosts send. The outer sources of a port are checked if those of all its hosts are known.
    pub(super) fn check_sources(&self, part: &TorConfigPart, plane: &mut SwitchPlane) -> Result<(), PlaneError> {
        let of = |port: &PortSocket| {
            let hosts: Vec<_> = part.host.iter().filter(|host| *host.port.get_ref() == port.port).collect();
            let is_known = hosts.iter().all(|host| host.sources.is_some());
            let sources = hosts.iter().flat_map(|host| host.sources_v4()).filter(|_| is_known).collect();
            (port.index, sources)
        };
        plane.set_host_ports(self.ports.iter().map(of).collect())
    }

    /// Hands hosts and servers to the machine.
    pub(super) fn configure(&mut self, now: Instant, config: &SwitchConfig, part: &TorConfigPart) {
        self.machine.handle(now, Input::SetServers(config.directory.get_ref()));
        self.machine.handle(now, Input::SetHosts(hosts(part, &self.ports)));
    }

    pub fn descriptors(&self) -> Vec<RawFd> {
        let own = [self.lookups.as_raw_fd(), self.updates.as_raw_fd()];
        let arp = self.arp.iter().map(ArpSocket::descriptor);
        own.into_iter().chain(self.ports.iter().map(|port| port.socket.as_raw_fd())).chain(arp).collect()
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.machine.deadline()
    }

    /// Reads all that has come, and does all that follows. The frames that hosts have sent to the relay of DHCP.
    pub fn step(&mut self, now: Instant, plane: &mut SwitchPlane) -> Result<Vec<Vec<u8>>> {
        let mut buffer = [0; 2048];
        for at in 0..self.ports.len() {
            let port = self.ports[at].index;
            while let Some((from, bytes)) = receive(&self.ports[at].socket, &mut buffer) {
                self.machine.handle(now, Input::Attach { from, port, bytes });
            }
        }
        for at in 0..self.arp.len() {
            let port = self.arp[at].index;
            while let Some(arp) = self.arp[at].receive() {
                if !arp.is_request && arp.sender.0 == VIRTUAL_MAC {
                    self.machine.handle(now, Input::Present { address: arp.sender.1.into(), port });
                }
            }
        }
        for channel in [Channel::Enquiries, Channel::Updates] {
            while let Some((from, bytes)) = receive(self.socket(channel), &mut buffer) {
                self.machine.handle(now, Input::Directory { channel, from, bytes });
            }
        }
        let mut relayed = Vec::new();
        for event in plane.events()? {
            match event {
                Event::Undeliverable { source, destination, .. } => {
                    self.machine.handle(now, Input::Undeliverable { source, destination });
                }
                Event::Dhcp { frame } => relayed.push(frame),
                _ => {}
            }
        }
        if self.machine.deadline().is_some_and(|at| at <= now) {
            self.machine.handle(now, Input::Timer);
        }
        while let Some(output) = self.machine.poll() {
            self.apply(output, plane)?;
        }
        self.remove_stale(now, plane)?;
        Ok(relayed)
    }

    /// The table of addresses is compared with the machine's: what somebody has removed from it or added to it is put right.
    pub fn reconcile(&self, plane: &mut SwitchPlane, restored: &mut Vec<Restored>) -> Result<(), PlaneError> {
        for (address, local) in self.machine.local() {
            let attached = Attached { port: local.port, mac: local.mac, service: local.service };
            if plane.restore_local(address, &attached)? {
                restored.push(Restored::Entry(address.to_string()));
            }
        }
        let known: BTreeSet<IpAddr> = self.machine.local().map(|(address, _)| address).collect();
        for (address, _) in plane.locals()? {
            if !known.contains(&address) && !self.inherited.contains(&address) {
                plane.remove_local(address)?;
                restored.push(Restored::Entry(format!("{address}, which is not here")));
            }
        }
        Ok(())
    }

    pub fn local(&self) -> impl Iterator<Item = (IpAddr, &Local, &str)> {
        self.machine.local().map(|(address, local)| (address, local, self.names.get(&local.port).map_or("", String::as_str)))
    }

    pub fn servers(&self) -> &[SocketAddr] {
        self.machine.servers()
    }

    /// Hosts whose programs answer in the place of their agents.
    pub fn silent(&self) -> BTreeMap<u32, Vec<String>> {
        let mut hosts: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (principal, address) in self.machine.silent() {
            hosts.entry(principal.0).or_default().push(address.to_string());
        }
        hosts
    }

    /// For how long no directory server has answered.
    pub fn unanswered(&self, now: Instant) -> Option<Duration> {
        self.machine.unanswered_since().map(|at| now.saturating_since(at))
    }

    pub const fn counts(&self) -> Counts {
        self.machine.counts()
    }

    fn socket(&self, channel: Channel) -> &UdpSocket {
        match channel {
            Channel::Enquiries => &self.lookups,
            Channel::Updates => &self.updates,
        }
    }

    fn apply(&mut self, output: Output, plane: &mut SwitchPlane) -> Result<()> {
        match output {
            Output::Answer { to, bytes } => {
                let port = self.ports.iter().find(|port| self.machine.port_of(to.ip()) == Some(port.index));
                send(port.map_or(&self.lookups, |port| &port.socket), to, &bytes);
            }
            Output::Send { channel, to, bytes } => send(self.socket(channel), to, &bytes),
            Output::Insert { address, port, mac, service } => {
                self.inherited.remove(&address);
                plane.set_local(address, &Attached { port, mac, service })?;
                tracing::info!(%address, port = self.names.get(&port).map_or("", String::as_str), %mac, "attached");
            }
            Output::Probe { address, port } => {
                tracing::debug!(%address, port = self.names.get(&port).map_or("", String::as_str), "its agent does not speak: do its programs run?");
                if let Some(socket) = self.arp.iter().find(|it| it.index == port) {
                    socket.ask(self.la, address);
                }
            }
            Output::Remove { address } => {
                plane.remove_local(address)?;
                tracing::info!(%address, "gone");
            }
        }
        Ok(())
    }

    /// What an earlier process left is kept as long as its host may take to speak, and the directory to confirm it.
    fn remove_stale(&mut self, now: Instant, plane: &mut SwitchPlane) -> Result<()> {
        let can_confirm = |at: Instant| now.saturating_since(at) >= self.forget_after;
        if !self.inherited.is_empty() && self.machine.first_answer().is_some_and(can_confirm) {
            for address in std::mem::take(&mut self.inherited) {
                plane.remove_local(address)?;
            }
        }
        Ok(())
    }
}

fn hosts(part: &TorConfigPart, ports: &[PortSocket]) -> Vec<Host> {
    let of = |host: &super::config::HostPart| {
        let port = ports.iter().find(|port| port.port == *host.port.get_ref())?.index;
        let principal = weft_control::directory::PrincipalId(*host.principal.get_ref());
        Some(Host { principal, key: host.key()?, port, address: host.address })
    };
    part.host.iter().filter_map(of).collect()
}

/// The next datagram, if there is one.
fn receive<'a>(socket: &UdpSocket, buffer: &'a mut [u8]) -> Option<(SocketAddr, &'a [u8])> {
    loop {
        match socket.recv_from(buffer) {
            Ok((length, from)) => return Some((from, &buffer[..length])),
            // An ICMP error about an earlier datagram.
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused) => {}
            Err(_) => return None,
        }
    }
}

/// What is lost is repeated by the end that waits for the answer.
fn send(socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) {
    if let Err(error) = socket.send_to(bytes, to) {
        tracing::debug!(%error, %to, "not sent");
    }
}

fn of_port(port: &str, error: io::Error) -> Error {
    let help = "is `la` an address of this switch, and no other agent running?";
    Error::system(format!("listen on port `{port}`"), help)(error)
}
