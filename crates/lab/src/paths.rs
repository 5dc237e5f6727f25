//! The links of a flow: each kernel on the path is queried by rtnetlink for the next hop of the flow's addresses and ports.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;

use nix::net::if_::if_nametoindex;
use weft_fabric::routing::Path;
use weft_fabric::{Fabric, NodeId};

use crate::error::{LabError, Result};
use crate::netlink::{Netlink, Request, attributes, u32_at};
use crate::netns;
use crate::plan::{Node, Plan};

/// A TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// The sender's address and port.
    pub from: (Ipv4Addr, u16),
    /// The receiver's.
    pub to: (Ipv4Addr, u16),
}

/// Queries the kernels of a lab.
pub(crate) struct Paths<'a> {
    plan: &'a Plan,
    fabric: &'a Fabric,
    nodes: Vec<NodeQuery>,
    /// The node that has an address.
    owners: BTreeMap<Ipv4Addr, usize>,
}

/// A socket to a node's kernel.
struct NodeQuery {
    netlink: Netlink,
    /// Device indices, by port.
    devices: Vec<u32>,
}

impl<'a> Paths<'a> {
    pub(crate) fn open(plan: &'a Plan, fabric: &'a Fabric, stop: &AtomicBool) -> Result<Self> {
        let nodes = netns::each(&plan.nodes, stop, |node| {
            netns::enter(&node.namespace)?;
            let index = |p: &crate::plan::Port| if_nametoindex(p.name.as_str());
            let devices = node.ports.iter().map(index).collect::<Result<Vec<_>, _>>();
            let devices = devices.map_err(|e| netns::kernel("find a port", &node.namespace, e))?;
            let netlink = Netlink::open().map_err(|cause| failed(node, cause))?;
            Ok(NodeQuery { netlink, devices })
        })?;
        let addresses = |(i, n): (usize, &Node)| {
            n.ports.iter().filter_map(|p| p.address).map(|a| a.address).map(move |a| (a, i)).collect::<Vec<_>>()
        };
        let owners = plan.nodes.iter().enumerate().flat_map(addresses).collect();
        Ok(Self { plan, fabric, nodes, owners })
    }

    /// The links of a connection by the present routes; `None` if they do not reach the receiver.
    pub(crate) fn of(&mut self, connection: &Connection) -> Result<Option<Path>> {
        let (Some(&source), Some(&target)) = (self.owners.get(&connection.from.0), self.owners.get(&connection.to.0)) else {
            return Ok(None);
        };
        let (mut at, mut came_by) = (source, None);
        let mut path = Path::new();
        while at != target {
            if path.len() == HOPS_MAX {
                return Ok(None);
            }
            let node = &self.plan.nodes[at];
            let NodeQuery { netlink, devices } = &mut self.nodes[at];
            let input = came_by.map(|port: usize| devices[port]);
            let output = match pick(netlink, connection, input) {
                Ok(output) => output,
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => return Ok(None),
                Err(cause) => return Err(failed(node, cause)),
            };
            let Some(port) = devices.iter().position(|d| Some(*d) == output) else { return Ok(None) };
            path.push(self.fabric.out(NodeId::from(at))[port]);
            let peer = node.ports[port].peer;
            (at, came_by) = (peer.node, Some(peer.port));
        }
        Ok(Some(path))
    }
}

/// The device by which the kernel of a namespace sends packets of the connection.
fn pick(netlink: &mut Netlink, connection: &Connection, input: Option<u32>) -> std::io::Result<Option<u32>> {
    // struct rtmsg: IPv4, full addresses, everything else unspecified.
    let mut header = [0; 12];
    (header[0], header[1], header[2]) = (libc::AF_INET as u8, 32, 32);
    let Connection { from, to } = connection;
    let mut request = Request::new(RTM_GETROUTE, 0, &header)
        .attribute(RTA_DST, &to.0.octets())
        .attribute(RTA_SRC, &from.0.octets())
        .attribute(RTA_IP_PROTO, &[libc::IPPROTO_TCP as u8])
        .attribute(RTA_SPORT, &from.1.to_be_bytes())
        .attribute(RTA_DPORT, &to.1.to_be_bytes());
    if let Some(input) = input {
        request = request.attribute(RTA_IIF, &input.to_ne_bytes());
    }
    let mut output = None;
    netlink.query(request, |body| {
        let attributes = attributes(body.get(header.len()..).unwrap_or_default());
        output = attributes.filter(|(kind, _)| *kind == RTA_OIF).find_map(|(_, value)| u32_at(value, 0));
    })?;
    Ok(output)
}

fn failed(node: &Node, cause: std::io::Error) -> LabError {
    LabError::Kernel { what: "query a route", place: node.namespace.clone(), cause }
}

/// Far more than any fabric has.
const HOPS_MAX: usize = 32;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_OIF: u16 = 4;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
