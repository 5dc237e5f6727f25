//! The path of a flow: predicted by each node's kernel (`ip route get` with the flow's ports), and confirmed by probes of the same flow with
//! increasing TTL.

use std::io::{ErrorKind, Read as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, Protocol as IpProtocol, SockAddr, Socket, Type};

use super::packets::{TCP, UDP, read_error, read_segment, syn};
use crate::clock::{Deadline, Stopwatch};
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::{Net, Node, Plan, PortId, Role, RouteTarget};

/// The flow's transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// A flow between two hosts.
#[derive(Clone, Debug, Serialize)]
pub struct Flow {
    /// The sending host's name.
    pub src: String,
    /// The receiving host's name.
    pub dst: String,
    /// Addresses of both.
    pub addresses: [Ipv4Addr; 2],
    /// Its transport.
    pub protocol: Protocol,
    /// The sender's port.
    pub sport: u16,
    /// The receiver's port.
    pub dport: u16,
}

/// A path, predicted and probed.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// The flow.
    pub flow: Flow,
    /// The nodes from the sender on, as the kernels predict them.
    pub hops: Vec<Hop>,
    /// Whether the probes found the same path.
    pub confirmed: bool,
    /// Why the path ends before the receiver, if it does.
    pub broken: Option<String>,
}

/// A node of the path.
#[derive(Clone, Debug, Serialize)]
pub struct Hop {
    /// The node.
    pub node: String,
    /// The port that the flow leaves by; none at the receiver.
    pub port: Option<String>,
    /// Ports among which the node could choose by the flow's hash.
    pub choices: usize,
    /// The answer to a probe that expired here; `None` at the sender.
    pub probe: Option<Answer>,
}

/// An answer to a probe.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Its source address.
    pub address: Ipv4Addr,
    /// The owner of that address, such as `pod0-agg1 p2`.
    pub owner: String,
    /// Round trip in milliseconds.
    pub rtt_ms: f64,
}

impl Flow {
    /// A flow between two hosts of a plan, from and to their first addresses.
    ///
    /// # Errors
    /// [`LabError::NotAHost`].
    pub fn new(src: &Node, dst: &Node, protocol: Protocol, sport: u16, dport: u16) -> Result<Self> {
        match [src, dst].into_iter().find(|n| n.role != Role::Host) {
            Some(node) => Err(LabError::NotAHost { node: node.name.clone() }),
            None => Ok(Self {
                src: src.name.clone(),
                dst: dst.name.clone(),
                addresses: [src.locator, dst.locator],
                protocol,
                sport,
                dport,
            }),
        }
    }
}

/// Follows a flow.
///
/// # Errors
/// [`LabError`] if a namespace cannot be queried; a path that ends early is no error.
pub fn follow(plan: &Plan, flow: Flow) -> Result<Trace> {
    if plan.overlay.netlord().is_some() {
        return Err(LabError::Bridged(plan.name.clone()));
    }
    if plan.openflow.is_some() {
        return Err(LabError::Openflow(plan.name.clone()));
    }
    let (picked, broken) = predict(plan, &flow)?;
    let src = plan.node(&flow.src).expect("a flow of this plan");
    let answers = netns::within(&src.namespace, || {
        Prober::new(&flow).and_then(|mut p| p.run(HOPS_MAX)).map_err(|cause| LabError::Kernel {
            what: "probe a flow",
            place: src.namespace.clone(),
            cause,
        })
    })?;
    let expected: Vec<Ipv4Addr> = picked.iter().skip(1).map(|p| p.answers_from).collect();
    let found: Vec<Ipv4Addr> = answers.iter().filter_map(|a| Some(a.as_ref()?.0)).collect();
    let mut hops: Vec<Hop> = picked.into_iter().map(|p| p.hop).collect();
    for (i, answer) in answers.into_iter().enumerate() {
        let probe =
            answer.map(|(address, time)| Answer { address, owner: owner(plan, address), rtt_ms: time.as_secs_f64() * 1e3 });
        match hops.get_mut(i + 1) {
            Some(hop) => hop.probe = probe,
            None => hops.push(Hop { node: "?".to_owned(), port: None, choices: 0, probe }),
        }
    }
    Ok(Trace { flow, hops, confirmed: broken.is_none() && expected == found, broken })
}

/// A node on the predicted path.
struct Picked {
    hop: Hop,
    /// The source address of the node's ICMP errors.
    answers_from: Ipv4Addr,
}

fn predict(plan: &Plan, flow: &Flow) -> Result<(Vec<Picked>, Option<String>)> {
    let mut path = Vec::new();
    let mut at = plan.nodes.iter().position(|n| n.name == flow.src).expect("a flow of this plan");
    let mut came_by: Option<PortId> = None;
    while path.len() < HOPS_MAX {
        let node = &plan.nodes[at];
        let answers_from = came_by.and_then(|p| plan.port(p).address).map_or(node.locator, |a| a.address);
        let mut picked = Picked { hop: Hop { node: node.name.clone(), port: None, choices: 0, probe: None }, answers_from };
        if node.name == flow.dst {
            path.push(picked);
            return Ok((path, None));
        }
        let device = netns::within(&node.namespace, || pick(node, flow, came_by.map(|p| plan.port(p).name.as_str())));
        let port = match device {
            Ok(device) => node.ports.iter().position(|p| p.name == device),
            Err(LabError::Command { message, .. }) => {
                path.push(picked);
                return Ok((path, Some(format!("{}: {message}", node.name))));
            }
            Err(e) => return Err(e),
        };
        let Some(port) = port else {
            path.push(picked);
            return Ok((path, Some(format!("{}: the flow leaves by none of its ports", node.name))));
        };
        picked.hop.port = Some(node.ports[port].name.clone());
        picked.hop.choices = choices(node, flow.addresses[1]);
        path.push(picked);
        let next = node.ports[port].peer;
        (at, came_by) = (next.node, Some(next));
    }
    Ok((path, Some(format!("it has more than {HOPS_MAX} hops: there is a loop"))))
}

/// The device that the kernel of a node picks for the flow.
fn pick(node: &Node, flow: &Flow, input: Option<&str>) -> Result<String> {
    let [from, to] = flow.addresses.map(|a| a.to_string());
    let protocol = if flow.protocol == Protocol::Tcp { "tcp" } else { "udp" };
    let (sport, dport) = (flow.sport.to_string(), flow.dport.to_string());
    let mut arguments = vec!["-j", "route", "get", &to, "from", &from];
    arguments.extend(input.into_iter().flat_map(|device| ["iif", device]));
    arguments.extend(["ipproto", protocol, "sport", &sport, "dport", &dport]);
    let text = netns::output("ip", &arguments, &node.namespace)?;
    let routes: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(routes.pointer("/0/dev").and_then(|d| d.as_str()).unwrap_or_default().to_owned())
}

/// The number of next hops of the plan's route to an address, without failures.
fn choices(node: &Node, to: Ipv4Addr) -> usize {
    let routes = node.local.iter().chain(&node.fabric).filter(|r| r.to.contains(to));
    let target = routes.max_by_key(|r| r.to.len).map(|r| &r.target);
    if let Some(RouteTarget::Via(hops)) = target { hops.len() } else { 1 }
}

fn owner(plan: &Plan, address: Ipv4Addr) -> String {
    match plan.owner(address) {
        Some((node, Some(port))) => format!("{} {}", plan.nodes[node].name, plan.nodes[node].ports[port].name),
        Some((node, None)) => plan.nodes[node].name.clone(),
        None => Net::host(address).address.to_string(),
    }
}

/// Sends packets of the flow and listens for answers.
struct Prober<'a> {
    flow: &'a Flow,
    sender: Socket,
    errors: Socket,
}

impl<'a> Prober<'a> {
    fn new(flow: &'a Flow) -> std::io::Result<Self> {
        let from = |port| SockAddr::from(SocketAddrV4::new(flow.addresses[0], port));
        let sender = match flow.protocol {
            Protocol::Tcp => Socket::new(Domain::IPV4, Type::RAW, Some(IpProtocol::TCP))?,
            Protocol::Udp => Socket::new(Domain::IPV4, Type::DGRAM, Some(IpProtocol::UDP))?,
        };
        sender.bind(&from(if flow.protocol == Protocol::Tcp { 0 } else { flow.sport }))?;
        sender.set_nonblocking(true)?;
        let errors = Socket::new(Domain::IPV4, Type::RAW, Some(IpProtocol::ICMPV4))?;
        errors.set_read_timeout(Some(SLICE))?;
        Ok(Self { flow, sender, errors })
    }

    /// Answers by TTL from 1, until the receiver has answered.
    fn run(&mut self, hops_max: usize) -> std::io::Result<Vec<Option<(Ipv4Addr, Duration)>>> {
        let mut answers = Vec::new();
        for ttl in 1..=hops_max as u32 {
            self.sender.set_ttl_v4(ttl)?;
            let mut answer = None;
            for _ in 0..ATTEMPTS {
                answer = self.probe()?;
                if answer.is_some() {
                    break;
                }
            }
            let is_lost = answer.is_none();
            let arrived = answer.is_some_and(|(from, _)| from == self.flow.addresses[1]);
            answers.push(answer);
            if arrived || is_lost {
                break;
            }
        }
        Ok(answers)
    }

    fn probe(&mut self) -> std::io::Result<Option<(Ipv4Addr, Duration)>> {
        let Flow { addresses: [from, to], sport, dport, protocol, .. } = *self.flow;
        let watch = Stopwatch::new();
        let payload = if protocol == Protocol::Tcp { syn(from, to, [sport, dport]) } else { vec![0; 32] };
        // The error of an earlier probe may be reported here; it is read below as a packet.
        let _ = self.sender.send_to(&payload, &SockAddr::from(SocketAddrV4::new(to, dport)));
        let deadline = Deadline::after(TIMEOUT);
        let mut buffer = [0u8; 2048];
        while !deadline.has_passed() {
            if let Some(len) = received(self.errors.read(&mut buffer))? {
                let error = read_error(&buffer[..len]);
                let number = if protocol == Protocol::Tcp { TCP } else { UDP };
                let ours = error.filter(|e| e.to == to && e.ports == [sport, dport] && e.protocol == number);
                if let Some(error) = ours {
                    return Ok(Some((error.from, watch.elapsed())));
                }
            }
            if protocol == Protocol::Tcp
                && let Some(len) = received(self.sender.read(&mut buffer))?
                && read_segment(&buffer[..len]) == Some((to, [dport, sport]))
            {
                return Ok(Some((to, watch.elapsed())));
            }
        }
        Ok(None)
    }
}

/// Bytes that were received; `None` if there are none yet.
fn received(result: std::io::Result<usize>) -> std::io::Result<Option<usize>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Far more than any fabric has.
const HOPS_MAX: usize = 32;
const ATTEMPTS: usize = 3;
const TIMEOUT: Duration = Duration::from_millis(500);
/// How long to wait for ICMP errors before the receiver's answer is checked.
const SLICE: Duration = Duration::from_millis(2);
