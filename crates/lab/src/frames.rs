//! Packet sockets: raw frames at an interface.

use std::io;

use nix::net::if_::if_nametoindex;
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

/// A socket for frames of an EtherType (`libc::ETH_P_ALL`: any) at a device of the namespace that the thread is in.
///
/// # Errors
/// Without such a device, or without root.
pub fn socket(device: &str, ethertype: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(i32::from(ethertype.to_be()))))?;
    let index = if_nametoindex(device)?;
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: sockaddr_ll is one of the addresses that the storage is for.
    let link = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    link.sll_family = libc::AF_PACKET as u16;
    link.sll_protocol = ethertype.to_be();
    link.sll_ifindex = index as i32;
    // SAFETY: a sockaddr_ll was written, and this is its length.
    let address = unsafe { SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) };
    socket.bind(&address)?;
    Ok(socket)
}
