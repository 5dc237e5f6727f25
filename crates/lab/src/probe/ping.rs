//! ICMP echoes between all pairs of hosts or VMs, or between [a sample](super::sample) of them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::packets::{echo_request, read_echo_reply};
use super::sample::{self, Pairs, Sample};
use crate::clock::{Deadline, Stopwatch};
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::netlord::{Exchange, MTU_VM, Reach, Vm, v4_of};
use crate::plan::vl2::{MTU_OVERLAY, Vl2Host};
use crate::plan::{MTU_HOST, Node, Overlay, Plan, Port, Role};

/// The result of echoes between all pairs.
#[derive(Clone, Debug, Serialize)]
pub struct PingAll {
    /// Hosts that sent requests.
    pub hosts: usize,
    /// Pairs of a host and another one's address that were probed.
    pub pairs: usize,
    /// All pairs of hosts and addresses, if those that were probed are a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_of: Option<usize>,
    /// Those that were answered.
    pub answered: usize,
    /// The kind of addresses.
    pub addresses: Addresses,
    /// Pairs that an overlay keeps apart; none may answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolated: Option<Isolated>,
    /// Bytes of a request, its IP header included.
    pub packet_bytes: usize,
    /// Round trips, in milliseconds.
    pub rtt_ms: Option<RoundTrips>,
    /// Pairs without an answer: at most 1,000.
    pub lost: Vec<Lost>,
}

/// The kind of addresses that are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Addresses {
    /// Locators of hosts.
    Locators,
    /// Application addresses of VL2.
    Applications,
    /// Addresses of tenants' VMs.
    Tenants,
}

/// Pairs of hosts or VMs that an overlay keeps apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Isolated {
    /// Pairs that were probed.
    pub pairs: usize,
    /// Pairs that answered although they should not.
    pub answered: usize,
}

/// Minimum, median and maximum.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct RoundTrips {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// A pair without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// The receiver's address.
    pub address: Ipv4Addr,
}

/// An address of a host.
struct Target<'a> {
    host: &'a Node,
    address: Ipv4Addr,
    /// Its service in an overlay; among tenants, the VM's number.
    service: u32,
}

impl Addresses {
    /// The addresses that programs of a plan use.
    pub const fn of(plan: &Plan) -> Self {
        match plan.overlay {
            Overlay::None | Overlay::Access(_) => Self::Locators,
            Overlay::Vl2(_) => Self::Applications,
            Overlay::Netlord(_) => Self::Tenants,
        }
    }
}

/// Bytes of the largest packet between the addresses that programs use.
pub const fn largest(plan: &Plan) -> usize {
    let bytes = match plan.overlay {
        Overlay::None | Overlay::Access(_) => MTU_HOST,
        Overlay::Vl2(_) => MTU_OVERLAY,
        Overlay::Netlord(_) => MTU_VM,
    };
    bytes as usize
}

/// Probes all pairs at the addresses that programs use, with packets of that many bytes that must not be fragmented.
///
/// # Errors
/// [`LabError::Kernel`] if a socket cannot be opened; a missing answer is no error.
pub fn all(plan: &Plan, packet_bytes: usize, stop: &AtomicBool) -> Result<PingAll> {
    at(plan, Addresses::of(plan), packet_bytes, stop)
}

/// Probes all pairs at addresses of a kind.
///
/// # Errors
/// As [`all`].
pub fn at(plan: &Plan, addresses: Addresses, packet_bytes: usize, stop: &AtomicBool) -> Result<PingAll> {
    some(plan, addresses, Pairs::Auto, packet_bytes, stop)
}

/// Probes so many pairs at addresses of a kind.
///
/// # Errors
/// As [`all`].
pub fn some(plan: &Plan, addresses: Addresses, pairs: Pairs, packet_bytes: usize, stop: &AtomicBool) -> Result<PingAll> {
    let hosts: Vec<&Node> = match addresses {
        Addresses::Tenants => plan.nodes.iter().filter(|n| n.role == Role::Vm).collect(),
        _ => plan.hosts().collect(),
    };
    let targets = targets(plan, addresses, &hosts);
    let reach = plan.overlay.netlord().map(Reach::of);
    let payload = packet_bytes.saturating_sub(HEADERS);
    let sample = sample(addresses, pairs, &hosts, &targets);
    let mut result = PingAll {
        hosts: hosts.len(),
        pairs: 0,
        sample_of: sample.as_ref().map(|_| targets.len() * (hosts.len() - 1)),
        answered: 0,
        addresses,
        isolated: (addresses != Addresses::Locators).then(Isolated::default),
        packet_bytes: payload + HEADERS,
        rtt_ms: None,
        lost: Vec::new(),
    };
    let mut times = Vec::new();
    let senders: Vec<usize> = (0..hosts.len()).collect();
    let nothing_is_apart = matches!(plan.overlay, Overlay::None | Overlay::Access(_));
    for is_apart in if nothing_is_apart { vec![false] } else { vec![false, true] } {
        let of_hosts = netns::each_of(&senders, HOSTS_AT_ONCE, stop, |&at| {
            let host = hosts[at];
            netns::enter(&host.namespace)?;
            let own = targets.iter().find(|t| std::ptr::eq(t.host, host)).map_or(0, |t| t.service);
            let chosen: Vec<&Target<'_>> = match &sample {
                Some(sample) => sample[at].iter().map(|&target| &targets[target]).collect(),
                None => targets.iter().collect(),
            };
            let others = chosen.into_iter().filter(|t| !std::ptr::eq(t.host, host));
            let others = others.filter(|t| {
                apart(plan, own, t.service) == is_apart && (is_apart || joined(plan, reach.as_ref(), own, t.service))
            });
            // An address that also belongs to an endpoint of the sender's own tenant would reach that endpoint.
            let own_has = |t: &Target<'_>| targets.iter().any(|o| !apart(plan, own, o.service) && o.address == t.address);
            let others: Vec<&Target<'_>> = others.filter(|t| !is_apart || !own_has(t)).collect();
            let attempts = if is_apart { 1 } else { ATTEMPTS };
            let times = echo_all(&others, payload, attempts).map_err(|cause| LabError::Kernel {
                what: "send and receive ICMP echoes",
                place: host.namespace.clone(),
                cause,
            })?;
            Ok(others.into_iter().map(|t| (t.host.name.clone(), t.address)).zip(times).collect::<Vec<_>>())
        })?;
        for (host, answers) in hosts.iter().zip(of_hosts) {
            match &mut result.isolated {
                Some(isolated) if is_apart => {
                    isolated.pairs += answers.len();
                    isolated.answered += answers.iter().filter(|(_, time)| time.is_some()).count();
                }
                _ => result.add(host, answers, &mut times),
            }
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    result.answered = times.len();
    let round_trips = || RoundTrips { min: times[0], median: times[times.len() / 2], max: times[times.len() - 1] };
    result.rtt_ms = (!times.is_empty()).then(round_trips);
    Ok(result)
}

impl PingAll {
    /// Whether exactly the pairs answered that should.
    pub fn is_good(&self) -> bool {
        self.answered == self.pairs && self.isolated.is_none_or(|isolated| isolated.answered == 0)
    }

    fn add(&mut self, host: &Node, answers: Vec<((String, Ipv4Addr), Option<Duration>)>, times: &mut Vec<f64>) {
        for ((to, address), time) in answers {
            self.pairs += 1;
            match time {
                Some(time) => times.push(time.as_secs_f64() * 1e3),
                None if self.lost.len() < LOST_SHOWN => self.lost.push(Lost { from: host.name.clone(), to, address }),
                None => {}
            }
        }
    }
}

/// The pairs to probe; `None`: all. Of tenants, most pairs are kept apart: a sample would not cover those that are not, and is taken on request only.
fn sample(addresses: Addresses, pairs: Pairs, hosts: &[&Node], targets: &[Target<'_>]) -> Option<Sample> {
    if addresses == Addresses::Tenants && pairs == Pairs::Auto {
        return None;
    }
    let at: BTreeMap<&str, usize> = hosts.iter().enumerate().map(|(i, host)| (host.name.as_str(), i)).collect();
    let tors: Vec<usize> = hosts.iter().map(|host| host.ports[0].peer.node).collect();
    let of_targets: Vec<usize> = targets.iter().map(|target| at[target.host.name.as_str()]).collect();
    sample::of(&tors, &of_targets, pairs)
}

fn targets<'a>(plan: &'a Plan, addresses: Addresses, hosts: &[&'a Node]) -> Vec<Target<'a>> {
    if let (Addresses::Tenants, Overlay::Netlord(netlord)) = (addresses, &plan.overlay) {
        let of = |(i, vm): (usize, &'a Vm)| Some(Target { host: &plan.nodes[vm.node], address: v4_of(vm)?, service: i as u32 });
        return netlord.vms.iter().enumerate().filter_map(of).collect();
    }
    if let (Addresses::Applications, Overlay::Vl2(vl2)) = (addresses, &plan.overlay) {
        let of = |host: &Vl2Host| Target { host: &plan.nodes[host.node], address: host.aa4, service: host.service };
        return vl2.hosts.iter().map(of).collect();
    }
    if plan.overlay.netlord().is_some() {
        // Addresses in tenant 1, which belong to no port of the plan.
        return hosts.iter().map(|&host| Target { host, address: host.locator, service: 0 }).collect();
    }
    let of = |&host: &&'a Node| {
        let address = move |p: &Port| p.address.map(|a| Target { host, address: a.address, service: 0 });
        host.ports.iter().filter_map(address).collect::<Vec<_>>()
    };
    hosts.iter().flat_map(of).collect()
}

/// Whether an overlay keeps hosts of two services, or two VMs, apart.
fn apart(plan: &Plan, a: u32, b: u32) -> bool {
    if a == b {
        return false;
    }
    match &plan.overlay {
        Overlay::None | Overlay::Access(_) => false,
        Overlay::Vl2(vl2) => !vl2.may_talk(a, b),
        Overlay::Netlord(netlord) => netlord.is_apart(&netlord.vms[a as usize], &netlord.vms[b as usize]),
    }
}

/// Whether two endpoints that are not kept apart reach each other: VMs of one tenant need a virtual router between their MAC spaces, and rules that permit echoes.
fn joined(plan: &Plan, reach: Option<&Reach>, a: u32, b: u32) -> bool {
    let vms = plan.overlay.netlord().map(|netlord| [a, b].map(|vm| &netlord.vms[vm as usize]));
    a == b || vms.zip(reach).is_none_or(|([a, b], reach)| reach.has(a, b, Exchange::Echo))
}

/// The round trip to each target, from the namespace that the thread is in.
fn echo_all(targets: &[&Target<'_>], payload: usize, attempts: usize) -> std::io::Result<Vec<Option<Duration>>> {
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let mut socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    let mut times = vec![None; targets.len()];
    for _ in 0..attempts {
        let missing: Vec<usize> = (0..targets.len()).filter(|&i| times[i].is_none()).collect();
        for some in missing.chunks(AT_ONCE) {
            echo(&mut socket, targets, some, payload, &mut times)?;
        }
    }
    Ok(times)
}

fn echo(
    socket: &mut Socket,
    targets: &[&Target<'_>],
    some: &[usize],
    payload: usize,
    times: &mut [Option<Duration>],
) -> std::io::Result<()> {
    let watch = Stopwatch::new();
    let mut sent = vec![Duration::ZERO; some.len()];
    for (&i, sent) in some.iter().zip(&mut sent) {
        *sent = watch.elapsed();
        let to = SockAddr::from(SocketAddrV4::new(targets[i].address, 0));
        // Without a route there is no answer.
        let _ = socket.send_to(&echo_request(IDENTIFIER, i as u16, payload), &to);
    }
    let deadline = Deadline::after(TIMEOUT);
    let mut buffer = [0u8; 2048];
    while some.iter().any(|&i| times[i].is_none()) && !deadline.has_passed() {
        socket.set_read_timeout(Some(deadline.remaining().max(Duration::from_millis(1))))?;
        let len = match socket.read(&mut buffer) {
            Ok(len) => len,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => continue,
            Err(e) => return Err(e),
        };
        let Some(reply) = read_echo_reply(&buffer[..len]).filter(|r| r.id == IDENTIFIER) else { continue };
        let asked = some.iter().position(|&i| i == usize::from(reply.sequence) && targets[i].address == reply.from);
        if let Some(at) = asked {
            times[some[at]].get_or_insert(watch.elapsed().saturating_sub(sent[at]));
        }
    }
    Ok(())
}

/// Bytes of the headers of IP and ICMP.
const HEADERS: usize = 28;
const IDENTIFIER: u16 = 0x5EF7;
const ATTEMPTS: usize = 3;
/// More than processors, since they mostly wait.
const HOSTS_AT_ONCE: usize = 16;
/// Requests in flight of a host, at most: they must fit into the queue of its port.
const AT_ONCE: usize = 32;
const TIMEOUT: Duration = Duration::from_secs(1);
const LOST_SHOWN: usize = 1000;
