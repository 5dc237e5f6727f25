//! An adversary in a lab: root on a host sends what the overlay forbids (VL2 section 4.2.1, NetLord section 3.2). Of each attack nothing may arrive, and agents must count
//! every packet.
//!
//! ```text
//!   attacker   root on a host, with raw and packet sockets; also past the hook of its own agent (PACKET_QDISC_BYPASS)
//!   victim     a host of a service with which the attacker's may not communicate
//!   friend     a host that may communicate with the victim: the attacker claims to be this one
//!   peer       a host that may communicate with the attacker
//! ```

mod attacks;
mod forge;
mod own;
mod scene;
mod send;

pub use own::{attack, listen as listen_here};
pub use scene::{End, Scene};

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;

use crate::agents::drops;
use crate::clock::Deadline;
use crate::error::{LabError, Result};
use crate::plan::vl2::{Vl2, Vl2Host};
use crate::plan::{Node, Overlay, Plan};
use crate::programs::pause;
use crate::{events, netns, vl2};
use attacks::Attack;

/// The results of all attacks.
#[derive(Clone, Debug, Serialize)]
pub struct Isolation {
    /// Whether nothing arrived that may not, and everything was counted.
    pub ok: bool,
    /// The attacks, and before and after them what is allowed.
    pub cases: Vec<Case>,
}

/// The result of an attack.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// Whether it passed; `None`: not applicable here.
    pub ok: Option<bool>,
    /// Packets that the attacker sent.
    pub sent: u64,
    /// Packets of these that any host received.
    pub arrived: u64,
    /// Packets that agents refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Who sent what to whom.
    pub detail: String,
}

/// Runs all attacks, one after another. The lab is as before afterwards.
///
/// # Errors
/// [`LabError`] if an attack could not be run; a failed case is no error.
pub fn test(plan: &Plan, stop: &AtomicBool) -> Result<Isolation> {
    let cases = match &plan.overlay {
        Overlay::None | Overlay::Access(_) => vec![not_applicable("overlay", "no overlay keeps hosts apart here")],
        Overlay::Vl2(vl2) => match Cast::of(plan, vl2) {
            Some(cast) => of_services(plan, &cast, stop)?,
            None => vec![not_applicable("services", "needs two services that may not communicate, with two hosts each")],
        },
        Overlay::Netlord(netlord) => {
            let mut tenants = BTreeMap::new();
            for (at, vm) in netlord.vms.iter().enumerate() {
                tenants.entry(vm.id).or_insert(at);
            }
            tenants.into_values().map(|at| of_tenant(plan, at, &plan.nodes[netlord.vms[at].node])).collect::<Result<_>>()?
        }
    };
    Ok(Isolation { ok: cases.iter().all(|case| case.ok != Some(false)), cases })
}

fn not_applicable(name: &'static str, detail: &str) -> Case {
    Case { name, ok: None, sent: 0, arrived: 0, refused: BTreeMap::new(), detail: detail.to_owned() }
}

/// The first VM of a tenant forges frames.
fn of_tenant(plan: &Plan, vm: usize, node: &Node) -> Result<Case> {
    let before = drops(plan);
    let forged = events::forge(plan, vm)?;
    let ok = forged.heard == 0 && forged.uncounted == 0;
    let detail =
        format!("frames of {}: its own tenant received {}, {} are not counted", node.name, forged.carried, forged.uncounted);
    Ok(Case { name: "frames", ok: Some(ok), sent: forged.sent, arrived: forged.heard, refused: since(plan, &before), detail })
}

/// Hosts and their parts.
#[derive(Clone, Copy, Debug)]
struct Cast<'a> {
    vl2: &'a Vl2,
    attacker: &'a Vl2Host,
    victim: &'a Vl2Host,
    friend: &'a Vl2Host,
    peer: &'a Vl2Host,
}

impl<'a> Cast<'a> {
    /// With the victim at another ToR than the attacker and the friend, if there are such hosts.
    fn of(plan: &Plan, vl2: &'a Vl2) -> Option<Self> {
        let hosts = || vl2.hosts.iter().filter(|host| plan.is_plugged(crate::plan::PortId { node: host.node, port: 0 }));
        let may_talk = |a: &Vl2Host, b: &Vl2Host| a.node != b.node && vl2.may_talk(a.service, b.service);
        let mut best = None;
        for attacker in hosts() {
            let Some(peer) = hosts().find(|peer| may_talk(attacker, peer)) else { continue };
            for victim in hosts().filter(|victim| !vl2.may_talk(attacker.service, victim.service)) {
                let is_friend = |friend: &&&Vl2Host| may_talk(friend, victim) && friend.node != attacker.node;
                let Some(friend) = hosts().filter(|it| is_friend(&it)).max_by_key(|it| it.tor != victim.tor) else { continue };
                let cast = Self { vl2, attacker, victim, friend, peer };
                if victim.tor != attacker.tor {
                    return Some(cast);
                }
                best = best.or(Some(cast));
            }
        }
        best
    }
}

fn of_services(plan: &Plan, cast: &Cast<'_>, stop: &AtomicBool) -> Result<Vec<Case>> {
    let mut cases = vec![allowed(plan, cast, "allowed_before")?];
    let (scene, node) = (Scene::of(plan, cast), &plan.nodes[cast.attacker.node]);
    let next_hop = netns::within(&node.namespace, || send::next_hop(scene.next_hop).map_err(|cause| no_socket(node, cause)))?;
    for attack in attacks::all(&scene, next_hop) {
        cases.push(run(plan, cast, &attack, stop)?);
    }
    cases.push(locator_tcp(plan, cast, stop)?);
    cases.push(allowed(plan, cast, "allowed_after")?);
    Ok(cases)
}

/// Sends an attack's packets, and looks what became of them.
fn run(plan: &Plan, cast: &Cast<'_>, attack: &Attack, stop: &AtomicBool) -> Result<Case> {
    let ears = listen(plan, cast)?;
    let before = drops(plan);
    let node = &plan.nodes[cast.attacker.node];
    let device = &node.ports[0].name;
    let sent = netns::within(&node.namespace, || send::packets(device, attack).map_err(|cause| no_socket(node, cause)))?;
    let refused = wait_for_drops(plan, &before, sent, stop)?;
    let arrived = ears.iter().map(heard).sum();
    let ok = arrived == 0 && refused.values().sum::<u64>() >= sent;
    let name = |host: &Vl2Host| plan.nodes[host.node].name.clone();
    let detail = format!("{} to {} as {}", name(cast.attacker), name(cast.victim), name(cast.friend));
    Ok(Case { name: attack.name, ok: Some(ok), sent, arrived, refused, detail })
}

/// A connection to a listener at all addresses of the victim, by its locator.
fn locator_tcp(plan: &Plan, cast: &Cast<'_>, stop: &AtomicBool) -> Result<Case> {
    let (from, to) = (&plan.nodes[cast.attacker.node], &plan.nodes[cast.victim.node]);
    let listener = netns::within(&to.namespace, || TcpListener::bind("[::]:0").map_err(|cause| no_socket(to, cause)))?;
    let port = listener.local_addr().map_err(|cause| no_socket(to, cause))?.port();
    let before = drops(plan);
    let address = SocketAddr::from((to.locator, port));
    let connected = netns::within(&from.namespace, || Ok(TcpStream::connect_timeout(&address, CONNECT).is_ok()))?;
    let refused = wait_for_drops(plan, &before, 1, stop)?;
    let ok = !connected && !refused.is_empty();
    let detail = format!("{} connects to {address} of {}", from.name, to.name);
    Ok(Case { name: "locator_tcp", ok: Some(ok), sent: 1, arrived: connected.into(), refused, detail })
}

/// What the policy allows arrives: the friend's datagrams at the victim, the attacker's at its peer.
fn allowed(plan: &Plan, cast: &Cast<'_>, name: &'static str) -> Result<Case> {
    let ears = listen(plan, cast)?;
    let before = drops(plan);
    let pairs = [(cast.friend, cast.victim), (cast.attacker, cast.peer)];
    for (from, to) in pairs {
        let node = &plan.nodes[from.node];
        netns::within(&node.namespace, || {
            let ends: [(IpAddr, IpAddr); 2] = [(from.aa4.into(), to.aa4.into()), (from.aa6.into(), to.aa6.into())];
            for (own, other) in ends {
                let socket = UdpSocket::bind((own, 0)).map_err(|cause| no_socket(node, cause))?;
                for _ in 0..forge::PACKETS {
                    let _ = socket.send_to(forge::MARK, (other, forge::PORT));
                    std::thread::sleep(forge::BETWEEN);
                }
            }
            Ok(())
        })?;
    }
    std::thread::sleep(SETTLE);
    let (sent, arrived) = (2 * pairs.len() as u64 * forge::PACKETS, ears.iter().map(heard).sum());
    let names = pairs.map(|(from, to)| format!("{} to {}", plan.nodes[from.node].name, plan.nodes[to.node].name));
    let detail = format!("datagrams of {}", names.join(", "));
    Ok(Case { name, ok: Some(arrived == sent), sent, arrived, refused: since(plan, &before), detail })
}

/// Sockets of all hosts but the attacker's, at all their addresses.
fn listen(plan: &Plan, cast: &Cast<'_>) -> Result<Vec<UdpSocket>> {
    let others = cast.vl2.hosts.iter().filter(|host| host.node != cast.attacker.node);
    let bound = others.map(|host| {
        let node = &plan.nodes[host.node];
        netns::within(&node.namespace, || {
            let socket = UdpSocket::bind(("::", forge::PORT)).and_then(|it| it.set_nonblocking(true).map(|()| it));
            socket.map_err(|cause| no_socket(node, cause))
        })
    });
    bound.collect()
}

fn heard(socket: &UdpSocket) -> u64 {
    let mut buffer = [0; 64];
    let is_ours = |length: usize, buffer: &[u8]| buffer[..length].starts_with(forge::MARK);
    std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|length| is_ours(length, &buffer))).filter(|it| *it).count() as u64
}

/// Waits until so many packets are refused for reasons of isolation, for a limited time; what was refused.
fn wait_for_drops(plan: &Plan, before: &BTreeMap<String, u64>, sent: u64, stop: &AtomicBool) -> Result<BTreeMap<String, u64>> {
    let deadline = Deadline::after(COUNTED);
    // What arrives nevertheless has had the time to.
    std::thread::sleep(SETTLE);
    loop {
        let refused = since(plan, before);
        if refused.values().sum::<u64>() >= sent || deadline.has_passed() {
            return Ok(refused);
        }
        pause(stop)?;
    }
}

/// What agents have refused since, to keep services apart.
fn since(plan: &Plan, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let is_vl2 = plan.overlay.vl2().is_some();
    growth(drops(plan), before, |reason| !is_vl2 || is_refusal(reason))
}

fn is_refusal(reason: &str) -> bool {
    vl2::ISOLATION_DROPS.contains(&reason) || vl2::MALFORMED_DROPS.contains(&reason)
}

/// By how much counters have grown.
fn growth(now: BTreeMap<String, u64>, before: &BTreeMap<String, u64>, counts: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
    let more = now.into_iter().map(|(reason, now)| {
        let more = now.saturating_sub(before.get(&reason).copied().unwrap_or(0));
        (reason, more)
    });
    more.filter(|(reason, more)| *more > 0 && counts(reason)).collect()
}

fn no_socket(node: &Node, cause: std::io::Error) -> LabError {
    LabError::Kernel { what: "open a socket", place: node.namespace.clone(), cause }
}

/// How long a connection that is to fail is tried.
const CONNECT: Duration = Duration::from_millis(1500);
/// How long packets may be on their way.
const SETTLE: Duration = Duration::from_millis(300);
/// How long counters may take.
const COUNTED: Duration = Duration::from_secs(2);
