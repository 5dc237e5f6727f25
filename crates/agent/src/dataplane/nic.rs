//! An Ethernet interface of the calling thread's network namespace: its index and MAC address, and frames sent on it.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;

use socket2::{Domain, Socket, Type};
use weft_fabric::MacAddr;

use super::{PlaneError, Result};
use crate::interface::{index_of, link_address, packet_socket};

/// Index and MAC address of an interface. By ioctl: /sys shows the namespace that it was mounted in, which may be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nic {
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
        if name.len() >= libc::IFNAMSIZ {
            return Err(missing());
        }
        let index = index_of(name).ok().and_then(|index| i32::try_from(index).ok()).ok_or_else(missing)?;
        let request = ask(name, libc::SIOCGIFHWADDR).map_err(PlaneError::system("read the MAC address of", name))?;
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

    /// The interface's MTU in bytes, if it is up and has a carrier.
    ///
    /// # Errors
    /// [`PlaneError::System`] if it is not there any more.
    pub fn mtu_if_up(name: &str) -> Result<Option<u32>> {
        let fail = || PlaneError::system("read the state of", name);
        update_carrier(name).map_err(fail())?;
        // SAFETY: SIOCGIFFLAGS fills this member.
        let flags = i32::from(unsafe { ask(name, libc::SIOCGIFFLAGS).map_err(fail())?.ifr_ifru.ifru_flags });
        // SAFETY: SIOCGIFMTU fills this member.
        let mtu = unsafe { ask(name, libc::SIOCGIFMTU).map_err(fail())?.ifr_ifru.ifru_mtu };
        let up = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(if flags & up == up { u32::try_from(mtu).ok() } else { None })
    }
}

/// Asks the kernel for a property of an interface, whose name is shorter than the request's room for it.
fn ask(name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut request = request_for(name);
    // SAFETY: the request has room for any answer.
    unsafe { ioctl(what, &mut request)? };
    Ok(request)
}

/// Has the kernel note whether an interface has a carrier: its flags and its queue follow up to a second later, if several interfaces lose theirs at once.
fn update_carrier(name: &str) -> io::Result<()> {
    match ethtool_value(name, ETHTOOL_GLINK) {
        Ok(_) => Ok(()),
        // A device that does not say: the flags are all there is.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What a command of linux/ethtool.h that reads one number gives for an interface.
pub(crate) fn ethtool_value(name: &str, command: u32) -> io::Result<u32> {
    // struct ethtool_value: the command, and room for its answer.
    let mut value = [command, 0];
    let mut request = request_for(name);
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the data is what the command takes, and lives until it has been answered.
    unsafe { ioctl(libc::SIOCETHTOOL, &mut request)? };
    Ok(value[1])
}

/// Of linux/ethtool.h.
const ETHTOOL_GLINK: u32 = 0x0a;

/// # Safety
/// The request is one for `what`: its member that is read is set, and a pointer in it is valid.
unsafe fn ioctl(what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    // SAFETY: as the caller says.
    match unsafe { libc::ioctl(socket.as_raw_fd(), what, std::ptr::from_mut(request)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()).take(libc::IFNAMSIZ - 1) {
        *to = from as libc::c_char;
    }
    request
}

/// Sends frames on an interface, with a mark that the programs know.
#[derive(Debug)]
pub(crate) struct FrameSocket(Socket);

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
        // It sends only.
        let socket = packet_socket(nic.index as u32, Type::RAW, 0)?;
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
        Ok(socket)
    }

    /// Has the interface take frames to others, or all multicasts, as long as this lives.
    ///
    /// # Errors
    /// Those of the system.
    pub fn listen(&self, nic: Nic, to: Listen) -> io::Result<()> {
        let kind = match to {
            Listen::Everything => libc::PACKET_MR_PROMISC,
            Listen::Multicasts => libc::PACKET_MR_ALLMULTI,
        };
        let request = libc::packet_mreq { mr_ifindex: nic.index, mr_type: kind as u16, mr_alen: 0, mr_address: [0; 8] };
        let length = size_of::<libc::packet_mreq>() as libc::socklen_t;
        // SAFETY: the option takes a packet_mreq, whose size is given.
        let failed = unsafe {
            let value = (&raw const request).cast();
            libc::setsockopt(self.0.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, value, length)
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// Those of the system.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(drop)
    }
}

/// Sends frames on any interface of the namespace in which it was made: one descriptor for thousands of them.
#[derive(Debug)]
pub(crate) struct FrameSender(Socket);

impl FrameSender {
    /// One.
    ///
    /// # Errors
    /// [`PlaneError::System`] without CAP_NET_RAW.
    pub fn new() -> Result<Self> {
        let open = || {
            let socket = Socket::new(Domain::PACKET, Type::RAW, None)?;
            socket.set_nonblocking(true)?;
            Ok(Self(socket))
        };
        open().map_err(PlaneError::system("make", "a packet socket"))
    }

    /// Sends a frame on an interface.
    ///
    /// # Errors
    /// Those of the system.
    pub fn send(&self, index: u32, frame: &[u8]) -> io::Result<()> {
        self.0.send_to(frame, &link_address(index, 0)).map(drop)
    }
}

/// What an interface is to take besides what is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Frames to anybody.
    Everything,
    /// Frames to any group.
    Multicasts,
}

/// Of linux/if_packet.h.
const PACKET_VNET_HDR: libc::c_int = 15;
