//! The endpoints of a lab, hosts or tenants' VMs, in whose namespaces sockets are opened. A [`HostId`] is an index into [`Plan::ends`] here.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};

use nix::sched::{CloneFlags, setns};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weft_fabric::HostId;

use super::mptcp::{self, PathManager};
use super::nics::NicPair;
use crate::error::{LabError, Result};
use crate::netns;
use crate::paths::Connection;
use crate::plan::{End, Plan};

/// All endpoints, and the namespace of the thread.
pub(super) struct Hosts {
    hosts: Vec<Host>,
    /// The host in whose namespace the thread is.
    here: Option<usize>,
    /// Of the sockets; `None`: TCP.
    protocol: Option<Protocol>,
}

struct Host {
    namespace: File,
    /// One per NIC; with VL2 the application address, for a VM its own address.
    addresses: Vec<Ipv4Addr>,
    /// Connections that it has opened.
    begun: u64,
    /// With MPTCP.
    paths: Option<PathManager>,
}

impl Hosts {
    pub(super) fn open(plan: &Plan) -> Result<Self> {
        let host = |end: End| {
            let path = netns::path(&plan.nodes[end.node].namespace);
            let namespace = File::open(&path).map_err(|e| LabError::io("open", &path, e))?;
            Ok(Host { namespace, addresses: end.addresses, begun: 0, paths: None })
        };
        Ok(Self { hosts: plan.ends().into_iter().map(host).collect::<Result<Vec<_>>>()?, here: None, protocol: None })
    }

    /// From now on connections are those of MPTCP.
    pub(super) fn use_mptcp(&mut self) -> Result<()> {
        self.protocol = Some(Protocol::from(mptcp::PROTOCOL));
        for host in 0..self.hosts.len() {
            self.go(HostId::from(host))?;
            self.hosts[host].paths = Some(PathManager::open()?);
        }
        Ok(())
    }

    /// Adds a subflow to a connection of MPTCP, between two other NICs.
    pub(super) fn add_subflow(&mut self, token: u32, src: HostId, dst: HostId, nics: NicPair) -> std::io::Result<()> {
        let to = SocketAddrV4::new(self.hosts[dst.index()].addresses[nics.to], PORT);
        let Host { addresses, paths, .. } = &mut self.hosts[src.index()];
        let Some(paths) = paths else { return Ok(()) };
        paths.add_subflow(token, nics.from, addresses[nics.from], to)
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Listeners, one per address.
    pub(super) fn listen(&mut self, host: HostId) -> Result<Vec<Socket>> {
        self.go(host)?;
        let protocol = self.protocol;
        let listen = |&address: &Ipv4Addr| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), protocol)?;
            socket.set_reuse_address(true)?;
            socket.bind(&SockAddr::from(SocketAddrV4::new(address, PORT)))?;
            socket.listen(BACKLOG)?;
            Ok(socket)
        };
        let sockets: std::io::Result<Vec<_>> = self.hosts[host.index()].addresses.iter().map(listen).collect();
        sockets.map_err(|e| failed("listen", e))
    }

    /// A UDP socket at the first address, and that address.
    pub(super) fn datagrams(&mut self, host: HostId, port: u16) -> Result<(Socket, Ipv4Addr)> {
        self.go(host)?;
        let address = self.hosts[host.index()].addresses[0];
        let open = || {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), None)?;
            socket.bind(&SockAddr::from(SocketAddrV4::new(address, port)))?;
            Ok(socket)
        };
        open().map(|socket| (socket, address)).map_err(|e| failed("open a socket", e))
    }

    /// Opens a connection between two NICs. A host's connections have ascending ports. `None` while the sender has no route.
    pub(super) fn connect(&mut self, src: HostId, dst: HostId, nics: NicPair) -> Result<Option<(Socket, Connection)>> {
        self.go(src)?;
        let mut error = None;
        for _ in 0..ATTEMPTS {
            let nth = self.hosts[src.index()].begun;
            self.hosts[src.index()].begun += 1;
            let from = (self.hosts[src.index()].addresses[nics.from], PORT_FIRST + (nth % PORTS) as u16);
            let to = (self.hosts[dst.index()].addresses[nics.to], PORT);
            match begin(self.protocol, from, to) {
                Ok(socket) => return Ok(Some((socket, Connection { from, to }))),
                // An earlier connection with these ports still exists.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL)) => error = Some(e),
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN)) => {
                    return Ok(None);
                }
                Err(e) => return Err(failed("connect", e)),
            }
        }
        Err(failed("connect", error.expect("an attempt failed")))
    }

    /// Moves the thread into a host's namespace.
    fn go(&mut self, host: HostId) -> Result<()> {
        if self.here != Some(host.index()) {
            let entered = setns(&self.hosts[host.index()].namespace, CloneFlags::CLONE_NEWNET);
            entered.map_err(|e| netns::kernel("enter the namespace", "a host", e))?;
            self.here = Some(host.index());
        }
        Ok(())
    }
}

fn begin(protocol: Option<Protocol>, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), protocol)?;
    socket.set_reuse_address(true)?;
    // Bounds the bytes in the kernel that TCP cannot send yet: all flows send from one buffer.
    socket.set_tcp_notsent_lowat(NOT_SENT)?;
    socket.bind(&SockAddr::from(SocketAddrV4::new(from.0, from.1)))?;
    match socket.connect(&SockAddr::from(SocketAddrV4::new(to.0, to.1))) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(socket),
    }
}

pub(super) fn failed(what: &'static str, cause: std::io::Error) -> LabError {
    LabError::Kernel { what, place: "a host".to_owned(), cause }
}

/// The port of listeners.
pub const PORT: u16 = 5001;
/// The first port of senders.
pub const PORT_FIRST: u16 = 10_000;
const PORTS: u64 = 50_000;
const ATTEMPTS: usize = 1000;
/// Connections that wait to be accepted: all hosts may open connections at the same time.
const BACKLOG: i32 = 4096;
const NOT_SENT: u32 = 128 * 1024;
