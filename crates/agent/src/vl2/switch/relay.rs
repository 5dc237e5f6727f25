//! DHCP of hosts, carried to a server and back (VL2 section 4.2.3; RFC 1542, RFC 3046, RFC 3527).
//!
//! ```text
//!   host --broadcast, port 67--> this port's socket --giaddr: the switch's locator, option 82: port, subnet--> server
//!   host <--broadcast on that port alone, option 82 taken out----------------------------------- switch's locator, port 67
//! ```
//! A broadcast of a host goes to one server and nowhere else. Its answers are sent as broadcasts, which at a port with one host reach that host alone, so that no ARP is
//! needed for an address that it does not have yet.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};

use weft_control::wire::packet::dhcp::{CLIENT_PORT, SERVER_PORT};
use weft_control::wire::vl2::dhcp::{to_host, to_server};

use super::ports::{PortSocket, bind};

/// A relay between ports and a server.
#[derive(Debug)]
pub(super) struct Relay {
    la: Ipv4Addr,
    server: SocketAddrV4,
    /// An address of the subnet in which hosts are to have addresses.
    subnet: Option<Ipv4Addr>,
    ports: Vec<PortSocket>,
    to_server: UdpSocket,
    counts: BTreeMap<&'static str, u64>,
}

impl Relay {
    /// Listens on the ports that lead to hosts.
    pub fn start(la: Ipv4Addr, server: SocketAddrV4, subnet: Option<Ipv4Addr>, ports: &[&str]) -> io::Result<Self> {
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, SERVER_PORT);
        let ports = ports.iter().map(|port| PortSocket::bind(port, any)).collect::<io::Result<_>>()?;
        let to_server = bind(SocketAddrV4::new(la, SERVER_PORT))?;
        Ok(Self { la, server, subnet, ports, to_server, counts: BTreeMap::new() })
    }

    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.ports.iter().map(|port| port.socket.as_raw_fd()).chain([self.to_server.as_raw_fd()])
    }

    /// What was carried, and what was not, by reason.
    pub const fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Carries all that has come.
    pub fn step(&mut self) {
        let mut buffer = [0; 2048];
        for at in 0..self.ports.len() {
            while let Ok((length, from)) = self.ports[at].socket.recv_from(&mut buffer) {
                // A server behind a port of this switch answers by that port.
                let what = if from == SocketAddr::V4(self.server) {
                    self.answer(&buffer[..length])
                } else {
                    self.request(at, &buffer[..length])
                };
                *self.counts.entry(what).or_default() += 1;
            }
        }
        while let Ok((length, from)) = self.to_server.recv_from(&mut buffer) {
            let is_server = from == SocketAddr::V4(self.server);
            let what = if is_server { self.answer(&buffer[..length]) } else { "stranger" };
            *self.counts.entry(what).or_default() += 1;
        }
    }

    fn request(&self, at: usize, bytes: &[u8]) -> &'static str {
        match to_server(bytes, self.la, self.subnet, &self.ports[at].port) {
            Err(reason) => reason,
            Ok(bytes) => sent(self.to_server.send_to(&bytes, self.server), "requests"),
        }
    }

    fn answer(&self, bytes: &[u8]) -> &'static str {
        let (port, bytes) = match to_host(bytes, self.la) {
            Ok(answer) => answer,
            Err(reason) => return reason,
        };
        let Some(port) = self.ports.iter().find(|it| it.port == port) else { return "unknown_port" };
        sent(port.socket.send_to(&bytes, (Ipv4Addr::BROADCAST, CLIENT_PORT)), "answers")
    }
}

fn sent(result: io::Result<usize>, what: &'static str) -> &'static str {
    match result {
        Ok(_) => what,
        Err(error) => {
            tracing::warn!(%error, "DHCP is not carried");
            "not_sent"
        }
    }
}
