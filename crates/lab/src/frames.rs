//! Whole frames at an interface, as a program with all rights in a namespace sends and hears them.

use std::ffi::CString;
use std::io;

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

/// A socket for frames of an EtherType (`libc::ETH_P_ALL`: of any) at a device of the namespace that the thread is in.
///
/// # Errors
/// There is no such device, or the thread is not root.
pub fn socket(device: &str, ethertype: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(i32::from(ethertype.to_be()))))?;
    let name = CString::new(device)?;
    // SAFETY: the name ends with a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
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
