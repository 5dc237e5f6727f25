//! Interfaces of the calling thread's network namespace: their indices, and packet sockets at one.

use std::collections::BTreeMap;
use std::io;
use std::mem::size_of;

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

/// The index of an interface.
///
/// # Errors
/// Those of the system; there is none of this name.
pub(crate) fn index_of(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

/// All interfaces: their indices by name.
///
/// # Errors
/// Those of the system.
pub(crate) fn interfaces() -> io::Result<BTreeMap<String, u32>> {
    let all = nix::net::if_::if_nameindex()?;
    Ok(all.iter().map(|it| (it.name().to_string_lossy().into_owned(), it.index())).collect())
}

/// The name of an interface, if there is one of this index.
pub(crate) fn name_of(index: u32) -> Option<String> {
    // Of an index that there is none of, it is empty.
    nix::net::if_::if_indextoname(index).ok()?.into_string().ok().filter(|name| !name.is_empty())
}

/// A socket for frames (`RAW`) or for what they carry (`DGRAM`) at an interface, which hears those of an EtherType; 0: none.
///
/// # Errors
/// Those of the system: without CAP_NET_RAW, or if the interface is not there any more.
pub(crate) fn packet_socket(index: u32, kind: Type, ethertype: u16) -> io::Result<Socket> {
    // Of protocol 0 it hears nothing until it is bound: before, it would hear all interfaces.
    let socket = Socket::new(Domain::PACKET, kind, Some(Protocol::from(0)))?;
    socket.bind(&link_address(index, ethertype))?;
    Ok(socket)
}

/// The address of packet sockets at an interface, for an EtherType; 0: none.
pub(crate) fn link_address(index: u32, ethertype: u16) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: sockaddr_ll is one of the addresses that the storage is for.
    let link = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    link.sll_family = libc::AF_PACKET as u16;
    link.sll_protocol = ethertype.to_be();
    link.sll_ifindex = index as i32;
    // SAFETY: a sockaddr_ll was written, and this is its length.
    unsafe { SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_packet_socket_hears_its_ethertype_alone() {
        assert!(index_of("no-such-port").is_err() && index_of("a\0b").is_err());
        let lo = index_of("lo").unwrap();
        assert_eq!(interfaces().unwrap().get("lo"), Some(&lo));
        assert_eq!((name_of(lo).as_deref(), name_of(0x7fff_fff0)), (Some("lo"), None));
        let [all, none] = match [libc::ETH_P_ALL as u16, 0].map(|ethertype| packet_socket(lo, Type::DGRAM, ethertype)) {
            [Ok(all), Ok(none)] => [all, none],
            _ => {
                assert!(std::env::var_os("CI").is_none(), "run the test as root");
                return;
            }
        };
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"a packet of this test", sender.local_addr().unwrap()).unwrap();
        let mut buffer = [MaybeUninit::uninit(); 2048];
        all.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(all.recv(&mut buffer).unwrap() >= 28);
        none.set_nonblocking(true).unwrap();
        assert_eq!(none.recv(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
