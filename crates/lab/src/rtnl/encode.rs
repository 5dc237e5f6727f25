//! Commands as rtnetlink messages, with the values that iproute2 gives what a command leaves open.

use std::io::Result;

use super::Kernel;
use super::parse::{Command, NewRoute, VethEnd};
use crate::netlink::Request;
use crate::plan::Net;

/// The message of a command, whose devices have indices.
pub(super) fn request(command: &Command<'_>, kernel: &mut Kernel) -> Result<Request> {
    Ok(match command {
        Command::AddVeth(ends) => veth(ends, kernel)?,
        Command::SetLink { name, up, address, mtu } => {
            let mut request = Request::new(RTM_NEWLINK, 0, &link_header(*up)).attribute(IFLA_IFNAME, &text(name));
            if let Some(address) = address {
                request = request.attribute(IFLA_ADDRESS, address);
            }
            with_u32(request, IFLA_MTU, *mtu)
        }
        Command::AddAddress { address, peer, device, prefix_route } => {
            // struct ifaddrmsg: family, length, flags, scope (global), index.
            let len = if peer.is_some() { 32 } else { address.len };
            let mut header = vec![AF_INET, len, 0, 0];
            header.extend_from_slice(&kernel.index(device).to_ne_bytes());
            let request = Request::new(RTM_NEWADDR, CREATE, &header)
                .attribute(IFA_LOCAL, &address.address.octets())
                .attribute(IFA_ADDRESS, &peer.unwrap_or(address.address).octets());
            with_u32(request, IFA_FLAGS, (!prefix_route).then_some(IFA_F_NOPREFIXROUTE))
        }
        Command::AddRoute(new) => route(new, kernel),
        Command::AddRule { from, table } => rule(*from, *table),
        Command::AddTbf { device, rate_bps, burst, limit } => tbf(kernel.index(device), rate_bps / 8, *burst, *limit),
    })
}

/// A pair of devices, each made in its namespace.
fn veth(ends: &[VethEnd<'_>; 2], kernel: &mut Kernel) -> Result<Request> {
    let mut peer = Request::nested(&link_header(None));
    peer = end(peer, &ends[1], kernel)?;
    let data = Request::nested(&[]).attribute(VETH_INFO_PEER, peer.payload());
    let info = Request::nested(&[]).attribute(IFLA_INFO_KIND, b"veth").attribute(IFLA_INFO_DATA, data.payload());
    let request = end(Request::new(RTM_NEWLINK, CREATE, &link_header(None)), &ends[0], kernel)?;
    Ok(request.attribute(IFLA_LINKINFO, info.payload()))
}

fn end(request: Request, end: &VethEnd<'_>, kernel: &mut Kernel) -> Result<Request> {
    let namespace = end.namespace.map(|name| kernel.namespace(name)).transpose()?;
    let request = with_u32(request.attribute(IFLA_IFNAME, &text(end.name)), IFLA_NET_NS_FD, namespace);
    let request = with_u32(request, IFLA_MTU, end.mtu);
    Ok(with_u32(with_u32(request, IFLA_NUM_TX_QUEUES, end.queues), IFLA_NUM_RX_QUEUES, end.queues))
}

fn route(new: &NewRoute<'_>, kernel: &Kernel) -> Request {
    let to = new.to.unwrap_or(Net::DEFAULT);
    let table = new.table.unwrap_or(RT_TABLE_MAIN);
    let has_gateway = new.via.is_some() || !new.hops.is_empty();
    let scope = if new.unreachable || has_gateway { RT_SCOPE_UNIVERSE } else { RT_SCOPE_LINK };
    let kind = if new.unreachable { RTN_UNREACHABLE } else { RTN_UNICAST };
    let small = u8::try_from(table).unwrap_or(RT_TABLE_UNSPEC);
    // struct rtmsg: family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
    let mut header = vec![AF_INET, to.len, 0, 0, small, RTPROT_BOOT, scope, kind];
    header.extend_from_slice(&(if new.onlink { RTNH_F_ONLINK } else { 0 }).to_ne_bytes());
    let mut request = Request::new(RTM_NEWROUTE, CREATE, &header);
    if to.len > 0 {
        request = request.attribute(RTA_DST, &to.address.octets());
    }
    for (kind, address) in [(RTA_GATEWAY, new.via), (RTA_PREFSRC, new.source)] {
        if let Some(address) = address {
            request = request.attribute(kind, &address.octets());
        }
    }
    request = with_u32(request, RTA_OIF, new.device.map(|device| kernel.index(device)));
    request = with_u32(request, RTA_TABLE, (small == RT_TABLE_UNSPEC).then_some(table));
    if let Some(mtu) = new.mtu {
        request = request.attribute(RTA_METRICS, Request::nested(&[]).attribute(RTAX_MTU, &mtu.to_ne_bytes()).payload());
    }
    if new.hops.is_empty() {
        return request;
    }
    let mut hops = Vec::with_capacity(new.hops.len() * HOP);
    for (gateway, device) in &new.hops {
        // struct rtnexthop: length, flags, weight - 1, index; then its attributes.
        hops.extend_from_slice(&(HOP as u16).to_ne_bytes());
        hops.extend_from_slice(&[0, 0]);
        hops.extend_from_slice(&kernel.index(device).to_ne_bytes());
        hops.extend_from_slice(Request::nested(&[]).attribute(RTA_GATEWAY, &gateway.octets()).payload());
    }
    request.attribute(RTA_MULTIPATH, &hops)
}

fn rule(from: Net, table: u32) -> Request {
    let small = u8::try_from(table).unwrap_or(RT_TABLE_UNSPEC);
    // struct fib_rule_hdr: family, lengths of destination and source, TOS, table, 2 reserved, action, flags.
    let header = [AF_INET, 0, from.len, 0, small, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    let request = Request::new(RTM_NEWRULE, CREATE, &header).attribute(FRA_SRC, &from.address.octets());
    with_u32(request, FRA_TABLE, (small == RT_TABLE_UNSPEC).then_some(table))
}

/// A token bucket of Ethernet frames; the rate in bytes per second.
fn tbf(index: u32, rate: u64, burst: u32, limit: u32) -> Request {
    // struct tc_tbf_qopt: rate and peak rate, each a struct tc_ratespec (cell, link layer, overhead, cell alignment, minimum, rate), limit, buffer, MTU.
    let mut parameters = vec![0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
    parameters.extend_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    parameters.extend_from_slice(&[0; 12]);
    parameters.extend_from_slice(&limit.to_ne_bytes());
    parameters.extend_from_slice(&[0; 8]);
    let mut options = Request::nested(&[]).attribute(TCA_TBF_PARMS, &parameters).attribute(TCA_TBF_BURST, &burst.to_ne_bytes());
    if rate > u64::from(u32::MAX) {
        options = options.attribute(TCA_TBF_RATE64, &rate.to_ne_bytes());
    }
    // struct tcmsg: family, 3 of padding, index, handle, parent, info.
    let mut header = vec![0; 4];
    header.extend_from_slice(&index.to_ne_bytes());
    header.extend_from_slice(&[0; 4]);
    header.extend_from_slice(&TC_H_ROOT.to_ne_bytes());
    header.extend_from_slice(&[0; 4]);
    Request::new(RTM_NEWQDISC, CREATE, &header).attribute(TCA_KIND, b"tbf\0").attribute(TCA_OPTIONS, options.payload())
}

/// struct ifinfomsg: family, padding, type, index, flags, changed flags.
fn link_header(up: Option<bool>) -> [u8; 16] {
    let mut header = [0; 16];
    if let Some(up) = up {
        header[8..12].copy_from_slice(&u32::from(up).to_ne_bytes());
        header[12..].copy_from_slice(&IFF_UP.to_ne_bytes());
    }
    header
}

fn with_u32(request: Request, kind: u16, value: Option<u32>) -> Request {
    match value {
        Some(value) => request.attribute(kind, &value.to_ne_bytes()),
        None => request,
    }
}

fn text(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

const AF_INET: u8 = 2;
/// NLM_F_CREATE and NLM_F_EXCL.
const CREATE: u16 = 0x600;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWRULE: u16 = 32;
const RTM_NEWQDISC: u16 = 36;
const IFF_UP: u32 = 1;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTAX_MTU: u16 = 2;
const RT_TABLE_UNSPEC: u8 = 0;
const RT_TABLE_MAIN: u32 = 254;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
const RTN_UNREACHABLE: u8 = 7;
const RTNH_F_ONLINK: u32 = 4;
/// Bytes of a next hop with its gateway.
const HOP: usize = 16;
const FRA_SRC: u16 = 2;
const FRA_TABLE: u16 = 15;
const FR_ACT_TO_TBL: u8 = 1;
const TC_H_ROOT: u32 = 0xFFFF_FFFF;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
