//! Sockets of a switch: one a port where it matters by which port something came.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use crate::interface::index_of;

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
