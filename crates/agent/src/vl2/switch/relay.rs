//! DHCP of hosts, relayed to a server and back (VL2 section 4.2.3; RFC 1542, RFC 3046, RFC 3527, RFC 5107).
//!
//! ```text
//!   host --broadcast, port 67--> this port's socket --giaddr: the switch's locator, option 82: port, subnet, identifier--> server
//!   host <--broadcast on that port alone, option 82 taken out------------------------------------- switch's locator, port 67
//!
//!   host --renewal, to the switch's locator--> plane, by the port of the host's address --the same, and a flag that it was unicast--> server
//!   host <--frame to its address and MAC address, by that port---------------------------------------------------------------------
//! ```
//! A broadcast of a host goes to one server and nowhere else. Its answers are sent as broadcasts, which at a port with one host reach that host alone, so that no ARP is
//! needed for an address that it does not have yet. The server gives the switch's locator to hosts as its own address, if it knows RFC 5107; they then renew there.
//! An answer to a renewal goes to the address that has asked, if it is still behind the port; its MAC address is that of the table, so that no ARP is needed either.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};

use socket2::{Socket, Type};
use weft_control::wire::packet::dhcp::{CLIENT_PORT, SERVER_PORT};
use weft_control::wire::vl2::dhcp::{self, from_frame, to_frame, to_host, to_server};
use weft_fabric::MacAddr;

use super::ports::{PortSocket, bind};
use crate::dataplane::nic::Nic;
use crate::interface::packet_socket;
use crate::vl2::dataplane::SwitchPlane;

/// A relay between ports and a server.
#[derive(Debug)]
pub(super) struct Relay {
    la: Ipv4Addr,
    server: SocketAddrV4,
    /// An address of the subnet in which hosts are to have addresses.
    subnet: Option<Ipv4Addr>,
    ports: Vec<Port>,
    to_server: UdpSocket,
    counts: BTreeMap<&'static str, u64>,
}

/// A port that leads to hosts.
#[derive(Debug)]
struct Port {
    /// Broadcasts, both ways.
    broadcasts: PortSocket,
    /// Frames to hosts.
    frames: Socket,
    mac: MacAddr,
}

impl Port {
    fn open(port: &str) -> io::Result<Self> {
        let broadcasts = PortSocket::bind(port, SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, SERVER_PORT))?;
        let frames = packet_socket(broadcasts.index, Type::RAW, 0)?;
        frames.set_nonblocking(true)?;
        let mac = Nic::find(port).map_err(io::Error::other)?.mac;
        Ok(Self { broadcasts, frames, mac })
    }
}

impl Relay {
    /// Listens on the ports that lead to hosts.
    pub fn start(la: Ipv4Addr, server: SocketAddrV4, subnet: Option<Ipv4Addr>, ports: &[&str]) -> io::Result<Self> {
        let ports = ports.iter().map(|port| Port::open(port)).collect::<io::Result<_>>()?;
        let to_server = bind(SocketAddrV4::new(la, SERVER_PORT))?;
        Ok(Self { la, server, subnet, ports, to_server, counts: BTreeMap::new() })
    }

    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.ports.iter().map(|port| port.broadcasts.socket.as_raw_fd()).chain([self.to_server.as_raw_fd()])
    }

    /// What was relayed, and what was not, by reason.
    pub const fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Relays all that has come, and these frames, which hosts have sent to the switch's locator.
    pub fn step(&mut self, plane: &SwitchPlane, renewals: &[Vec<u8>]) {
        for frame in renewals {
            let what = self.renewal(plane, frame);
            *self.counts.entry(what).or_default() += 1;
        }
        let mut buffer = [0; 2048];
        for at in 0..self.ports.len() {
            while let Ok((length, from)) = self.ports[at].broadcasts.socket.recv_from(&mut buffer) {
                // A server behind a port of this switch answers by that port.
                let what = if from == SocketAddr::V4(self.server) {
                    self.answer(plane, &buffer[..length])
                } else {
                    self.request(&self.ports[at], &buffer[..length], None)
                };
                *self.counts.entry(what).or_default() += 1;
            }
        }
        while let Ok((length, from)) = self.to_server.recv_from(&mut buffer) {
            let is_server = from == SocketAddr::V4(self.server);
            let what = if is_server { self.answer(plane, &buffer[..length]) } else { "stranger" };
            *self.counts.entry(what).or_default() += 1;
        }
    }

    /// The program has checked that the address is behind the port by which the frame came.
    fn renewal(&self, plane: &SwitchPlane, frame: &[u8]) -> &'static str {
        let (from, message) = match from_frame(frame) {
            Ok(it) => it,
            Err(reason) => return reason,
        };
        let attached = plane.local(from.into()).ok().flatten();
        match attached.and_then(|it| self.ports.iter().find(|port| port.broadcasts.index == it.port)) {
            Some(port) => self.request(port, message, Some(from)),
            None => "unknown_port",
        }
    }

    fn request(&self, port: &Port, bytes: &[u8], from: Option<Ipv4Addr>) -> &'static str {
        let relay = dhcp::Relay { locator: self.la, subnet: self.subnet, port: &port.broadcasts.port };
        match to_server(bytes, &relay, from) {
            Err(reason) => reason,
            Ok(bytes) => {
                let what = if from.is_some() { "unicast_requests" } else { "requests" };
                sent(self.to_server.send_to(&bytes, self.server), what)
            }
        }
    }

    fn answer(&self, plane: &SwitchPlane, bytes: &[u8]) -> &'static str {
        let answer = match to_host(bytes, self.la) {
            Ok(answer) => answer,
            Err(reason) => return reason,
        };
        let Some(port) = self.ports.iter().find(|it| it.broadcasts.port == answer.port) else { return "unknown_port" };
        let at_port = |address: &Ipv4Addr| {
            let attached = plane.local((*address).into()).ok().flatten()?;
            (attached.port == port.broadcasts.index).then_some((attached.mac, *address))
        };
        match answer.client.as_ref().and_then(at_port) {
            Some(client) => sent(port.frames.send(&to_frame(&answer.message, (port.mac, self.la), client)), "unicast_answers"),
            None => sent(port.broadcasts.socket.send_to(&answer.message, (Ipv4Addr::BROADCAST, CLIENT_PORT)), "answers"),
        }
    }
}

fn sent(result: io::Result<usize>, what: &'static str) -> &'static str {
    match result {
        Ok(_) => what,
        Err(error) => {
            tracing::warn!(%error, "DHCP is not relayed");
            "not_sent"
        }
    }
}
