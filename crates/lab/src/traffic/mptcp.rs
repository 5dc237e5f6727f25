//! MPTCP of the kernel: its sockets, and one subflow per pair of NICs (Subways section 5.1).
//!
//! ```text
//!   connect: subflow 0 --> peer acknowledges data --> token (MPTCP_INFO) --> the other subflows, each by one command (generic netlink, `mptcp_pm`)
//! ```
//! The kernel's own path manager (`ip mptcp`) cannot open exactly these: it acts at both ends of a connection, and hosts are senders and receivers. So
//! the namespaces of hosts use the path manager in user space, which is this module.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::{LabError, Result};
use crate::netlink::{Netlink, Request, attributes, u32_at};
use crate::sysctl;

/// The protocol of sockets.
pub(super) const PROTOCOL: i32 = 262;

/// Fails where the kernel has no MPTCP, or no path manager in user space.
pub(crate) fn check() -> Result<()> {
    let family = || {
        Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(PROTOCOL)))?;
        Family::find(&mut Netlink::open_generic()?)
    };
    family().map(drop).map_err(|cause| LabError::NoMptcp { cause })
}

/// The kernel's generic netlink family of path managers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Family {
    id: u16,
    /// The group of events: as long as it has a member in a namespace, subflows to that namespace are accepted.
    events: u32,
}

impl Family {
    fn find(netlink: &mut Netlink) -> std::io::Result<Self> {
        let request = Request::generic(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1).attribute(CTRL_ATTR_FAMILY_NAME, b"mptcp_pm\0");
        let mut found = None;
        netlink.query(request, |body| found = Self::parse(body.get(GENERIC_HEADER..).unwrap_or_default()))?;
        found.ok_or_else(|| Errno::EPROTONOSUPPORT.into())
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let value = |kind| attributes(body).find(move |a| a.0 == kind).map(|a| a.1);
        let id = u16::from_ne_bytes(*value(CTRL_ATTR_FAMILY_ID)?.first_chunk()?);
        let group = |group: &[u8]| {
            let value = |kind| attributes(group).find(move |a| a.0 == kind).map(|a| a.1);
            (value(CTRL_ATTR_MCAST_GRP_NAME)? == b"mptcp_pm_events\0")
                .then(|| u32_at(value(CTRL_ATTR_MCAST_GRP_ID)?, 0))
                .flatten()
        };
        let events = attributes(value(CTRL_ATTR_MCAST_GROUPS)?).find_map(|(_, of)| group(of))?;
        Some(Self { id, events })
    }
}

/// The path manager of a host.
pub(super) struct PathManager {
    family: u16,
    commands: Netlink,
    /// A member of the group of events, never read: the kernel drops what does not fit.
    _events: Netlink,
}

impl PathManager {
    /// Begins in the namespace that the thread is in.
    pub(super) fn open() -> Result<Self> {
        sysctl::set(&[("net/mptcp/enabled", "1".to_owned()), ("net/mptcp/pm_type", "1".to_owned())], "a host")?;
        let open = || {
            let (mut commands, events) = (Netlink::open_generic()?, Netlink::open_generic()?);
            let family = Family::find(&mut commands)?;
            events.join(family.events)?;
            Ok(Self { family: family.id, commands, _events: events })
        };
        open().map_err(|cause| LabError::NoMptcp { cause })
    }

    /// Opens a subflow of the connection with that token, from the NIC of that number.
    pub(super) fn add_subflow(&mut self, token: u32, nic: usize, from: Ipv4Addr, to: SocketAddrV4) -> std::io::Result<()> {
        let address = |of: Ipv4Addr| {
            attribute(ADDR_FAMILY, &(libc::AF_INET as u16).to_ne_bytes(), attribute(ADDR_V4, &of.octets(), Vec::new()))
        };
        // Identifiers of addresses begin at 1: 0 is the address of the first subflow.
        let local = attribute(ADDR_ID, &[nic as u8 + 1], address(from));
        let remote = attribute(ADDR_PORT, &to.port().to_ne_bytes(), address(*to.ip()));
        let request = Request::generic(self.family, CMD_SUBFLOW_CREATE, 1)
            .attribute(ATTR_TOKEN, &token.to_ne_bytes())
            .attribute(ATTR_ADDR | NESTED, &local)
            .attribute(ATTR_ADDR_REMOTE | NESTED, &remote);
        self.commands.command(request)
    }
}

/// An attribute before others.
fn attribute(kind: u16, value: &[u8], others: Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + value.len() + others.len());
    bytes.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(others);
    bytes
}

/// The token of a connection, by which commands name it; `None` before its peer has acknowledged that it has MPTCP too.
pub(super) fn token(socket: &Socket) -> Option<u32> {
    let info = option::<MPTCP_INFO_SIZE>(socket, MPTCP_INFO, [0; MPTCP_INFO_SIZE])?.0;
    let flags = u32_at(&info, 8)?;
    (flags & (FLAG_FALLBACK | FLAG_REMOTE_KEY) == FLAG_REMOTE_KEY).then(|| u32_at(&info, 12)).flatten()
}

/// TCP_INFO of each subflow, `SIZE` bytes each, in the order in which they were opened; empty for a socket of TCP.
pub(super) fn subflow_infos<const SIZE: usize>(socket: &Socket) -> Vec<[u8; SIZE]> {
    // struct mptcp_subflow_data: its size, the subflows, the size of an element in the kernel, and here.
    let mut request = [0; INFOS_SIZE];
    request[..4].copy_from_slice(&(INFOS_HEADER as u32).to_ne_bytes());
    request[12..16].copy_from_slice(&(SIZE as u32).to_ne_bytes());
    let Some((answer, len)) = option::<INFOS_SIZE>(socket, MPTCP_TCPINFO, request) else { return Vec::new() };
    answer[..len].get(INFOS_HEADER..).unwrap_or_default().chunks_exact(SIZE).filter_map(|c| c.try_into().ok()).collect()
}

/// An option of MPTCP, and how many bytes the kernel wrote.
fn option<const SIZE: usize>(socket: &Socket, name: i32, mut bytes: [u8; SIZE]) -> Option<([u8; SIZE], usize)> {
    let mut len = SIZE as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which the array has, and the descriptor is open as long as `socket` is borrowed.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), SOL_MPTCP, name, bytes.as_mut_ptr().cast(), &raw mut len) };
    (result == 0).then_some((bytes, SIZE.min(len as usize)))
}

const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const MPTCP_TCPINFO: i32 = 2;
/// Of struct mptcp_info, up to its token.
const MPTCP_INFO_SIZE: usize = 16;
const FLAG_FALLBACK: u32 = 1;
const FLAG_REMOTE_KEY: u32 = 2;
const INFOS_HEADER: usize = 16;
/// For 17 subflows: those that a scenario can have.
const INFOS_SIZE: usize = INFOS_HEADER + 17 * 232;

const GENERIC_HEADER: usize = 4;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;
const CMD_SUBFLOW_CREATE: u8 = 10;
const NESTED: u16 = 1 << 15;
const ATTR_ADDR: u16 = 1;
const ATTR_TOKEN: u16 = 4;
const ATTR_ADDR_REMOTE: u16 = 6;
const ADDR_FAMILY: u16 = 1;
const ADDR_ID: u16 = 2;
const ADDR_V4: u16 = 3;
const ADDR_PORT: u16 = 5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn families_are_parsed() {
        let group = |id: u32, name: &[u8]| {
            attribute(
                1,
                &attribute(CTRL_ATTR_MCAST_GRP_ID, &id.to_ne_bytes(), attribute(CTRL_ATTR_MCAST_GRP_NAME, name, Vec::new())),
                Vec::new(),
            )
        };
        let groups = [group(7, b"mptcp_pm_cmds\0"), group(8, b"mptcp_pm_events\0")].concat();
        let body =
            attribute(CTRL_ATTR_FAMILY_ID, &33u16.to_ne_bytes(), attribute(CTRL_ATTR_MCAST_GROUPS | NESTED, &groups, Vec::new()));
        assert_eq!(Family::parse(&body), Some(Family { id: 33, events: 8 }));
        assert_eq!(Family::parse(&body[..body.len() - 24]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            let _ = Family::parse(&bytes);
        }
    }
}
