//! Sockets of a switch: one a port where it matters by which port something came.

use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};

use socket2::{Domain, Protocol, Socket, Type};
use weft_control::wire::packet::arp::Arp;
use weft_control::wire::packet::ethernet::{EtherType, Ethernet};
use weft_fabric::MacAddr;

use crate::dataplane::nic::Nic;
use crate::interface::{index_of, packet_socket};

/// A socket that hears what comes by one port alone, and sends by it.
#[derive(Debug)]
pub(super) struct PortSocket {
    pub port: String,
    /// The port's interface index.
    pub index: u32,
    pub socket: UdpSocket,
}

impl PortSocket {
    /// Listens at an address of this switch, on a port.
    pub fn bind(port: &str, address: SocketAddrV4) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_address(true)?;
        socket.bind_device(Some(port.as_bytes()))?;
        socket.set_broadcast(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SocketAddr::V4(address).into())?;
        Ok(Self { port: port.to_owned(), index: index_of(port)?, socket: socket.into() })
    }
}

/// ARP at a port.
#[derive(Debug)]
pub(super) struct ArpSocket {
    /// The port's interface index.
    pub index: u32,
    mac: MacAddr,
    socket: Socket,
}

impl ArpSocket {
    /// Hears all ARP at a port.
    pub fn open(port: &str) -> io::Result<Self> {
        let nic = Nic::find(port).map_err(io::Error::other)?;
        let index = nic.index as u32;
        let socket = packet_socket(index, Type::RAW, libc::ETH_P_ARP as u16)?;
        socket.set_nonblocking(true)?;
        Ok(Self { index, mac: nic.mac, socket })
    }

    /// To wait for.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Asks who has an address, in the name of this switch's.
    pub fn ask(&self, own: Ipv4Addr, address: Ipv4Addr) {
        let frame = Arp::question((self.mac, own), address).frame();
        if let Err(error) = self.socket.send(&frame) {
            tracing::debug!(%error, %address, "not asked");
        }
    }

    /// The next message.
    pub fn receive(&self) -> Option<Arp> {
        let mut buffer = [0; 128];
        loop {
            match (&self.socket).read(&mut buffer) {
                Ok(length) => {
                    let frame = Ethernet::parse(&buffer[..length]).ok().filter(|frame| frame.ethertype == EtherType::ARP);
                    if let Some(arp) = frame.and_then(|frame| Arp::parse(frame.payload).ok()) {
                        return Some(arp);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

/// A socket at any port of this switch.
pub(super) fn bind(address: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::V4(address).into())?;
    Ok(socket.into())
}

/// A socket of its own to servers, from the switch's locator.
pub(super) fn client(la: Ipv4Addr) -> io::Result<UdpSocket> {
    bind(SocketAddrV4::new(la, 0))
}
