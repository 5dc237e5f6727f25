//! An Ethernet interface of the calling thread's network namespace: its index and MAC address, and frames sent on it.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use weft_fabric::MacAddr;

use super::{PlaneError, Result};

/// Index and MAC address of an interface. By ioctl: /sys shows the namespace that it was mounted in, which may be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nic {
    pub index: i32,
    pub mac: MacAddr,
}

impl Nic {
    /// Finds one by name.
    ///
    /// # Errors
    /// [`PlaneError::NoInterface`], [`PlaneError::NotEthernet`].
    pub fn find(name: &str) -> Result<Self> {
        let missing = || PlaneError::NoInterface(name.to_owned());
        let text = CString::new(name).map_err(|_| missing())?;
        if name.len() >= libc::IFNAMSIZ {
            return Err(missing());
        }
        // SAFETY: the name ends with a zero.
        let index = unsafe { libc::if_nametoindex(text.as_ptr()) };
        let index = i32::try_from(index).ok().filter(|&i| i > 0).ok_or_else(missing)?;
        // SAFETY: zeros are a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).map_err(PlaneError::system("make", "a socket"))?;
        // SAFETY: the request names an interface, and has room for its hardware address.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } != 0 {
            return Err(PlaneError::system("read the MAC address of", name)(io::Error::last_os_error()));
        }
        // SAFETY: SIOCGIFHWADDR fills this member.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        if address.sa_family != libc::ARPHRD_ETHER {
            return Err(PlaneError::NotEthernet(name.to_owned()));
        }
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(address.sa_data) {
            *to = from as u8;
        }
        Ok(Self { index, mac: MacAddr(mac) })
    }
}

/// Sends frames on an interface, with a mark that the programs know.
#[derive(Debug)]
pub(super) struct FrameSocket(Socket);

impl FrameSocket {
    /// One for an interface. With `offload`, each frame is preceded by what [`release`](super::release) writes.
    ///
    /// # Errors
    /// [`PlaneError::System`] without CAP_NET_RAW and CAP_NET_ADMIN.
    pub fn new(nic: Nic, mark: u32, offload: bool) -> Result<Self> {
        let fail = PlaneError::system("make a packet socket for interface", nic.index.to_string());
        Self::open(nic, mark, offload).map_err(fail).map(Self)
    }

    fn open(nic: Nic, mark: u32, offload: bool) -> io::Result<Socket> {
        // Protocol 0: it sends only.
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
        socket.set_mark(mark)?;
        socket.set_nonblocking(true)?;
        if offload {
            let on: libc::c_int = 1;
            let length = size_of::<libc::c_int>() as libc::socklen_t;
            // SAFETY: the option takes an int, whose size is given.
            let failed = unsafe {
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, (&raw const on).cast(), length)
            };
            if failed != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        socket.bind(&link_address(nic.index))?;
        Ok(socket)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// Those of the system.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(drop)
    }
}

/// Of linux/if_packet.h.
const PACKET_VNET_HDR: libc::c_int = 15;

fn link_address(index: i32) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: sockaddr_ll is one of the addresses that the storage is for.
    let link = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    link.sll_family = libc::AF_PACKET as u16;
    link.sll_ifindex = index;
    // SAFETY: a sockaddr_ll was written, and this is its length.
    unsafe { SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) }
}
