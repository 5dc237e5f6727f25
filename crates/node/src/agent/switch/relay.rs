//! DHCP of hosts, carried to a server and back (VL2 section 4.2.3; RFC 1542, RFC 3046).
//!
//! ```text
//!   host --broadcast, port 67--> this port's socket --giaddr: the switch's locator, option 82: the port--> server
//!   host <--broadcast on that port alone, option 82 taken out------------------------------- switch's locator, port 67
//! ```
//! A broadcast of a host goes to one server and nowhere else. Its answers are sent as broadcasts, which at a port with one host reach that host alone, so that no ARP is
//! needed for an address that it does not have yet.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};

use dhcproto::v4::relay::{RelayAgentInformation, RelayCode, RelayInfo};
use dhcproto::v4::{DhcpOption, Message, Opcode, OptionCode};
use dhcproto::{Decodable as _, Encodable as _};

use super::ports::{PortSocket, bind};

/// A relay between ports and a server.
#[derive(Debug)]
pub(super) struct Relay {
    la: Ipv4Addr,
    server: SocketAddrV4,
    ports: Vec<PortSocket>,
    to_server: UdpSocket,
    counts: BTreeMap<&'static str, u64>,
}

/// Why a message is not carried on.
type Refusal = &'static str;

impl Relay {
    /// Listens on the ports that lead to hosts.
    pub fn start(la: Ipv4Addr, server: SocketAddrV4, ports: &[&str]) -> io::Result<Self> {
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, SERVER_PORT);
        let ports = ports.iter().map(|port| PortSocket::bind(port, any)).collect::<io::Result<_>>()?;
        let to_server = bind(SocketAddrV4::new(la, SERVER_PORT))?;
        Ok(Self { la, server, ports, to_server, counts: BTreeMap::new() })
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
        match to_server(bytes, self.la, &self.ports[at].port) {
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

/// A host's message as the server is to have it: through which switch it came, and by which port. A host that says so itself is not believed.
fn to_server(bytes: &[u8], la: Ipv4Addr, port: &str) -> Result<Vec<u8>, Refusal> {
    let mut message = Message::from_bytes(bytes).map_err(|_| "malformed")?;
    if message.opcode() != Opcode::BootRequest {
        return Err("not_a_request");
    }
    if !message.giaddr().is_unspecified() || message.opts().get(OptionCode::RelayAgentInformation).is_some() {
        return Err("forged_relay");
    }
    if message.hops() >= HOPS_MAX {
        return Err("too_many_hops");
    }
    let hops = message.hops() + 1;
    message.set_hops(hops).set_giaddr(la);
    let mut information = RelayAgentInformation::default();
    information.insert(RelayInfo::AgentCircuitId(port.as_bytes().to_vec()));
    message.opts_mut().insert(DhcpOption::RelayAgentInformation(information));
    message.to_vec().map_err(|_| "malformed")
}

/// A server's message as the host is to have it, and the port that leads there.
fn to_host(bytes: &[u8], la: Ipv4Addr) -> Result<(String, Vec<u8>), Refusal> {
    let mut message = Message::from_bytes(bytes).map_err(|_| "malformed")?;
    if message.opcode() != Opcode::BootReply || message.giaddr() != la {
        return Err("not_an_answer");
    }
    let information = message.opts_mut().remove(OptionCode::RelayAgentInformation);
    let Some(DhcpOption::RelayAgentInformation(information)) = information else { return Err("no_port") };
    let Some(RelayInfo::AgentCircuitId(port)) = information.get(RelayCode::AgentCircuitId) else { return Err("no_port") };
    let port = String::from_utf8(port.clone()).map_err(|_| "no_port")?;
    Ok((port, message.to_vec().map_err(|_| "malformed")?))
}

const SERVER_PORT: u16 = 67;
const CLIENT_PORT: u16 = 68;
/// RFC 1542, section 4.1.1.
const HOPS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use dhcproto::v4::MessageType;

    use super::*;

    const LA: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);

    fn discover() -> Message {
        let zero = Ipv4Addr::UNSPECIFIED;
        let mut message = Message::new_with_id(77, zero, zero, zero, zero, &[2, 0, 0, 0, 0, 5]);
        message.opts_mut().insert(DhcpOption::MessageType(MessageType::Discover));
        message
    }

    #[test]
    fn a_request_says_by_which_port_it_came_and_the_answer_goes_back_there() {
        let carried = to_server(&discover().to_vec().unwrap(), LA, "p3").unwrap();
        let mut at_server = Message::from_bytes(&carried).unwrap();
        assert_eq!((at_server.giaddr(), at_server.hops(), at_server.xid()), (LA, 1, 77));
        at_server.set_opcode(Opcode::BootReply).set_yiaddr([20, 0, 0, 5]);
        let (port, answer) = to_host(&at_server.to_vec().unwrap(), LA).unwrap();
        let answer = Message::from_bytes(&answer).unwrap();
        assert_eq!(
            (port.as_str(), answer.yiaddr(), answer.chaddr()),
            ("p3", Ipv4Addr::new(20, 0, 0, 5), &[2, 0, 0, 0, 0, 5][..])
        );
        assert!(answer.opts().get(OptionCode::RelayAgentInformation).is_none(), "the host does not see it");
    }

    #[test]
    fn what_is_odd_is_not_carried() {
        let refused = |change: &dyn Fn(&mut Message)| {
            let mut message = discover();
            change(&mut message);
            to_server(&message.to_vec().unwrap(), LA, "p3").unwrap_err()
        };
        assert_eq!(
            refused(&|m| {
                m.set_giaddr([10, 9, 9, 9]);
            }),
            "forged_relay"
        );
        assert_eq!(
            refused(&|m| {
                m.set_opcode(Opcode::BootReply);
            }),
            "not_a_request"
        );
        assert_eq!(
            refused(&|m| {
                m.set_hops(16);
            }),
            "too_many_hops"
        );
        let option = DhcpOption::RelayAgentInformation(RelayAgentInformation::default());
        let mut information = RelayAgentInformation::default();
        information.insert(RelayInfo::AgentCircuitId(b"p9".to_vec()));
        let forged = DhcpOption::RelayAgentInformation(information);
        assert_eq!(
            refused(&|m| {
                m.opts_mut().insert(forged.clone());
            }),
            "forged_relay"
        );
        assert_eq!(to_server(&[1; 20], LA, "p3"), Err("malformed"));
        assert_eq!(to_host(&discover().to_vec().unwrap(), LA), Err("not_an_answer"));
        let mut reply = discover();
        reply.set_opcode(Opcode::BootReply).set_giaddr(LA);
        assert_eq!(to_host(&reply.to_vec().unwrap(), LA), Err("no_port"));
        reply.opts_mut().insert(option);
        assert_eq!(to_host(&reply.to_vec().unwrap(), LA), Err("no_port"));
    }
}
