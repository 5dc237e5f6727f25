//! A VM of an adversary (NetLord section 3.2) sends forged frames.
//!
//! | frame | expected |
//! | --- | --- |
//! | another source address: a neighbour's, a switch's | refused |
//! | NL-ARP that moves others' VIFs to itself, LLDP of another place, a spanning tree's root | refused |
//! | ARP that claims its virtual router's address | refused |
//! | encapsulations to others' edge switches, with their tenants' ids, with a VLAN and without | delivered as payload, within its tenant |
//! | frames to others' MAC addresses | the same: within its tenant these addresses are other VMs', or unused |
//!
//! All contain a mark, for which all other VMs listen: those of its tenant receive the frames that are payload, others nothing. An agent must count each refused frame.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::time::Duration;

use socket2::Socket;
use weft_control::netlord::{EdgePort, Location, MacSpace, Vif};
use weft_control::wire::netlord::{Encapsulation, Here, Lldp, NlArp, NotHere, Overlay, Recipient};
use weft_control::wire::packet::arp::Arp;
use weft_control::wire::packet::ethernet::{BROADCAST, EtherType, Ethernet, VlanId};
use weft_fabric::record::Forged;
use weft_fabric::{MacAddr, TenantId};

use crate::clock::Deadline;
use crate::error::{LabError, Result};
use crate::frames;
use crate::plan::netlord::{Netlord, Vm, v4_of};
use crate::plan::{Node, Plan, Port};
use crate::{netns, overlay};

/// A frame, and whether an agent is to refuse it.
struct Forgery {
    frame: Vec<u8>,
    is_refused: bool,
}

/// Has a VM, by its number, send all forged frames, and returns what became of them.
pub(crate) fn forge(plan: &Plan, which: usize) -> Result<Forged> {
    let Some(netlord) = plan.overlay.netlord() else { return Ok(Forged::default()) };
    let vm = &netlord.vms[which];
    let forgeries = forgeries(plan, netlord, vm);
    let mut listeners = Listeners::open(plan, netlord, vm)?;
    let before = overlay::isolation_drops(plan);
    let node = &plan.nodes[vm.node];
    let mut socket = open(node)?;
    for forgery in std::iter::repeat_n(&forgeries, ROUNDS).flatten() {
        socket.write_all(&forgery.frame).map_err(|cause| failed("send a frame", node, cause))?;
        listeners.listen(BETWEEN);
    }
    listeners.listen(queued(plan, vm) + SETTLE);
    let Listeners { heard, carried, .. } = listeners;
    let refused = (forgeries.iter().filter(|it| it.is_refused).count() * ROUNDS) as u64;
    let counted = overlay::isolation_drops(plan).saturating_sub(before);
    Ok(Forged { sent: (forgeries.len() * ROUNDS) as u64, heard, carried, uncounted: refused.saturating_sub(counted) })
}

fn open(node: &Node) -> Result<Socket> {
    netns::within(&node.namespace, || {
        let socket = frames::socket("eth0", libc::ETH_P_ALL as u16).and_then(|s| s.set_nonblocking(true).map(|()| s));
        socket.map_err(|cause| failed("open a socket for frames", node, cause))
    })
}

fn failed(what: &'static str, node: &Node, cause: std::io::Error) -> LabError {
    LabError::Kernel { what, place: node.namespace.clone(), cause }
}

/// How long a frame may wait in queues: at the NIC of the VM's host, and at each switch of a path up and down.
fn queued(plan: &Plan, vm: &Vm) -> Duration {
    let nic = &plan.nodes[vm.host].ports[0];
    let slowest = plan.switches().flat_map(|switch| &switch.ports).map(drain).max();
    drain(nic) + HOPS * slowest.unwrap_or_default()
}

/// The time that a port's full queue takes to drain; none where its rate is not limited (the port of the provider's DHCP server).
fn drain(port: &Port) -> Duration {
    if port.rate_bps == 0 {
        return Duration::ZERO;
    }
    Duration::from_secs_f64(port.queue_bytes as f64 * 8.0 / port.rate_bps as f64)
}

/// All other VMs.
struct Listeners {
    /// Whether it is of another tenant, and its interface.
    sockets: Vec<(bool, Socket)>,
    /// Frames with the mark that VMs of other tenants received.
    heard: u64,
    /// Frames with the mark that VMs of its tenant received.
    carried: u64,
}

impl Listeners {
    fn open(plan: &Plan, netlord: &Netlord, vm: &Vm) -> Result<Self> {
        let others = netlord.vms.iter().filter(|other| other.node != vm.node);
        let sockets = others.map(|other| Ok((netlord.is_apart(vm, other), open(&plan.nodes[other.node])?)));
        Ok(Self { sockets: sockets.collect::<Result<_>>()?, heard: 0, carried: 0 })
    }

    /// Counts marked frames that arrive within a time; all others, such as those of streams, are dropped.
    fn listen(&mut self, time: Duration) {
        let deadline = Deadline::after(time);
        let mut buffer = [0; 2048];
        loop {
            for (is_apart, socket) in &mut self.sockets {
                let count = if *is_apart { &mut self.heard } else { &mut self.carried };
                loop {
                    match socket.read(&mut buffer) {
                        Ok(length) => *count += u64::from(buffer[..length].windows(MARK.len()).any(|part| part == MARK)),
                        Err(e) if e.kind() == ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
            }
            if deadline.has_passed() {
                return;
            }
            std::thread::sleep(BETWEEN);
        }
    }
}

fn forgeries(plan: &Plan, netlord: &Netlord, vm: &Vm) -> Vec<Forgery> {
    let own = mac_of(vm);
    let mut all = Vec::new();
    let mut add = |is_refused: bool, frame: Vec<u8>| all.push(Forgery { frame, is_refused });
    let here = location_of(plan, netlord, vm);
    let special = netlord.special.first().copied();
    let vlan = special.and_then(VlanId::new).expect("a lab with NetLord has a VLAN that reaches all agents");
    for other in netlord.vms.iter().filter(|other| netlord.is_apart(vm, other)) {
        let (vif, there) = (vif_of(other), location_of(plan, netlord, other));
        let inner = ethernet(vif.mac, own, EXPERIMENT, &MARK.repeat(3));
        for (dst, tag) in [(there.switch, None), (there.switch, VlanId::new(1)), (BROADCAST, None), (BROADCAST, Some(vlan))] {
            let overlay = Overlay { to: Recipient::Port(there.port), tenant: vif.tenant, space: vif.space, vlan: tag };
            let mut frame = Vec::new();
            Encapsulation { dst, src: own, tag, overlay, inner: &inner }.emit(&mut frame);
            add(false, frame);
        }
        add(false, inner);
        // "It is here now", and "it is not where you think".
        let ip4 = v4_of(other);
        for message in [NlArp::Here(Here { vif, ip4, ip6: None }), NlArp::NotHere(NotHere { vif })] {
            let mut tagged = Vec::new();
            message.emit(here, vlan, &mut tagged);
            add(true, tagged.clone());
            tagged[6..12].copy_from_slice(&own.0);
            let untagged = [&tagged[..12], &tagged[16..]].concat();
            add(true, tagged);
            add(true, untagged);
        }
        add(true, ethernet(there.switch, own, EtherType::NL_ARP_NOT_HERE, &MARK.repeat(3)));
    }
    for src in [here.switch, MacAddr([2, 0xf, 0xf, 0xf, 0xf, 0xf])] {
        add(true, ethernet(BROADCAST, src, EXPERIMENT, &MARK.repeat(3)));
    }
    let neighbours = netlord.vms.iter().filter(|other| netlord.is_joined(vm, other) && mac_of(other) != own);
    for neighbour in neighbours {
        add(true, ethernet(BROADCAST, mac_of(neighbour), EXPERIMENT, &MARK.repeat(3)));
    }
    let mut lldp = Vec::new();
    Lldp { location: here, ttl_s: 120 }.emit(own, "port 99", &mut lldp);
    add(true, lldp);
    add(true, ethernet(SPANNING_TREE, own, EtherType(38), &MARK.repeat(3)));
    for gateway in &vm.gateways {
        let IpAddr::V4(sender_ip) = *gateway else { continue };
        let target_ip = v4_of(vm).unwrap_or(sender_ip);
        for is_request in [false, true] {
            let mut packet = Vec::new();
            Arp { is_request, sender: (own, sender_ip), target: (BROADCAST, target_ip) }.emit(&mut packet);
            add(true, ethernet(BROADCAST, own, EtherType::ARP, &packet));
        }
    }
    all
}

fn ethernet(dst: MacAddr, src: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    Ethernet { dst, src, tag: None, ethertype, payload }.emit(&mut frame);
    frame
}

fn mac_of(vm: &Vm) -> MacAddr {
    vm.mac.parse().expect("it was checked when the plan was made")
}

fn vif_of(vm: &Vm) -> Vif {
    Vif { tenant: TenantId(vm.id), space: MacSpace(vm.space), mac: mac_of(vm) }
}

/// The edge switch of a VM's host, and its port to it.
fn location_of(plan: &Plan, netlord: &Netlord, vm: &Vm) -> Location {
    let above = plan.nodes[vm.host].ports[0].peer;
    let switch = netlord.switch(above.node).expect("hosts are attached to switches");
    let mac = switch.mac.as_ref().expect("it has hosts").parse().expect("a MAC address");
    let port = switch.ports[above.port].number.and_then(|n| EdgePort::new(n.into())).expect("its ports to hosts are numbered");
    Location { switch: mac, port }
}

/// In every forged frame except those of fixed formats without room for it.
const MARK: &[u8; 16] = b"not for you :-) ";
/// The EtherType for local experiments (IEEE 802, 9.2.3).
const EXPERIMENT: EtherType = EtherType(0x88b7);
const SPANNING_TREE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0]);
/// Each frame is sent that often, since full queues may drop some.
const ROUNDS: usize = 3;
/// The interval between frames, so that no interface drops them.
const BETWEEN: Duration = Duration::from_millis(1);
const SETTLE: Duration = Duration::from_millis(200);
/// Switches of a path in a fabric of two levels.
const HOPS: u32 = 3;
