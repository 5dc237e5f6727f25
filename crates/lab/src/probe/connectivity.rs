//! The connectivity tests of a lab, each with the packets that agents dropped during it, by reason.
//!
//! ```text
//!   reach, full_size   every host sends echoes to every other one; the largest packets of its addresses are not fragmented
//!   transfer           a megabyte over TCP to another rack, byte for byte
//!   spread             flows of one host leave by all uplinks of its ToR
//!   link_failure       an uplink is set down, the outage is measured, and the uplink is set up again
//!   isolation          hosts of services that may not communicate get no answer; packets with a forged source are dropped (with an overlay); a tenant's
//!                      forged frames reach no other tenant
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use weft_fabric::record::Forged;

use super::ping;
use crate::agents::drops;
use crate::batch::run_batch;
use crate::clock::{Deadline, Stopwatch};
use crate::error::{LabError, Result};
use crate::plan::netlord::{Netlord, Vm, v4_of};
use crate::plan::vl2::Vl2;
use crate::plan::{Node, Overlay, Plan, Role, Routing};
use crate::programs::pause;
use crate::{events, frr, netlord, netns, openflow, state};

/// The results of all tests.
#[derive(Clone, Debug, Serialize)]
pub struct Connectivity {
    /// Whether none failed.
    pub ok: bool,
    /// The tests.
    pub cases: Vec<Case>,
}

/// The result of a test.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// Whether it passed; `None`: not applicable here.
    pub ok: Option<bool>,
    /// What was measured.
    pub detail: String,
    /// Packets that agents dropped during the test, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// Whether a test passed, and what was measured.
type Outcome = Result<(Option<bool>, String)>;

/// Runs all tests, one after another. The lab is as before afterwards.
///
/// # Errors
/// [`LabError`] if a test could not be run; a failed test is no error.
pub fn test(plan: &Plan, stop: &AtomicBool) -> Result<Connectivity> {
    let tests: [(&'static str, &dyn Fn() -> Outcome); 6] = [
        ("reach", &|| reach(plan, SMALL, stop)),
        ("full_size", &|| reach(plan, ping::largest(plan), stop)),
        ("transfer", &|| transfer(plan)),
        ("spread", &|| spread(plan, stop)),
        ("link_failure", &|| link_failure(plan, stop)),
        ("isolation", &|| isolation(plan, stop)),
    ];
    let mut cases = Vec::new();
    for (name, run) in tests {
        let before = drops(plan);
        let (ok, detail) = run()?;
        let dropped = drops(plan).into_iter().filter_map(|(reason, now)| {
            let more = now.saturating_sub(before.get(&reason).copied().unwrap_or(0));
            (more > 0).then_some((reason, more))
        });
        cases.push(Case { name, ok, detail, drops: dropped.collect() });
    }
    Ok(Connectivity { ok: cases.iter().all(|c| c.ok != Some(false)), cases })
}

fn reach(plan: &Plan, bytes: usize, stop: &AtomicBool) -> Outcome {
    let result = ping::all(plan, bytes, stop)?;
    let detail = format!("{} of {} pairs answered packets of {bytes} bytes", result.answered, result.pairs);
    Ok((Some(result.answered == result.pairs), detail))
}

/// The first host, and the first one of another rack that it may communicate with.
fn far_pair(plan: &Plan) -> Option<(usize, usize)> {
    let tor = |host: usize| plan.nodes[host].ports[0].peer.node;
    let may_talk = |a: usize, b: usize| {
        let Some(vl2) = plan.overlay.vl2() else { return true };
        let service = |host| vl2.host(host).map_or(0, |h| h.service);
        vl2.may_talk(service(a), service(b))
    };
    let hosts = || (0..plan.nodes.len()).filter(|&i| plan.nodes[i].role == Role::Host);
    hosts().find_map(|a| hosts().find(|&b| tor(a) != tor(b) && may_talk(a, b)).map(|b| (a, b)))
}

/// The pair's nodes and addresses; among tenants, two VMs of one.
fn ends(plan: &Plan) -> Option<[(&Node, Ipv4Addr); 2]> {
    if let Overlay::Netlord(netlord) = &plan.overlay {
        let is_far = |a: &Vm, b: &Vm| plan.edges_of(a.host).is_disjoint(&plan.edges_of(b.host));
        let far = |a: &&Vm, b: &&Vm| netlord.is_joined(a, b) && is_far(a, b) && v4_of(a).is_some() && v4_of(b).is_some();
        let (a, b) = netlord.vms.iter().find_map(|a| netlord.vms.iter().find(|b| far(&a, b)).map(|b| (a, b)))?;
        return Some([(&plan.nodes[a.node], v4_of(a)?), (&plan.nodes[b.node], v4_of(b)?)]);
    }
    let (a, b) = far_pair(plan)?;
    Some([a, b].map(|host| (&plan.nodes[host], plan.addresses_of(host)[0])))
}

fn transfer(plan: &Plan) -> Outcome {
    let Some([(from, own), (to, address)]) = ends(plan) else { return Ok(not_applicable()) };
    let failed = |node: &Node, cause| LabError::Kernel { what: "open a socket", place: node.namespace.clone(), cause };
    let listener = netns::within(&to.namespace, || TcpListener::bind((address, 0)).map_err(|e| failed(to, e)))?;
    let port = listener.local_addr().map_err(|e| failed(to, e))?.port();
    let sent: Vec<u8> = (0..TRANSFER).map(|i| ((i * 2_654_435_761) >> 7) as u8).collect();
    let watch = Stopwatch::new();
    let target = SocketAddrV4::new(address, port);
    let connected = netns::within(&from.namespace, || Ok(TcpStream::connect_timeout(&target.into(), TIMEOUT)))?;
    let stream = match connected {
        Ok(stream) => stream,
        Err(e) => return Ok((Some(false), format!("{} cannot connect to {}: {e}", from.name, to.name))),
    };
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = stream;
            let _ = stream.set_write_timeout(Some(TIMEOUT)).and_then(|()| stream.write_all(&sent));
        });
        let mut received = Vec::with_capacity(sent.len());
        let accepted = listener.accept().and_then(|(stream, _)| stream.set_read_timeout(Some(TIMEOUT)).map(|()| stream));
        accepted.and_then(|mut stream| stream.read_to_end(&mut received)).map(|_| received)
    });
    let same = received.as_ref().is_ok_and(|r| *r == sent);
    let detail = match received {
        Err(e) => format!("{} to {}: {e}", from.name, to.name),
        Ok(r) => {
            format!("{} of {} bytes from {} ({own}) to {} in {:.2?}", r.len(), sent.len(), from.name, to.name, watch.elapsed())
        }
    };
    Ok((Some(same), detail))
}

/// The ToRs of a host, or of a VM's, and the ports of each that lead to other switches.
fn uplinks(plan: &Plan, host: &Node) -> Vec<(usize, Vec<usize>)> {
    let above = host.ports[0].peer.node;
    let tors = if host.role == Role::Vm { plan.edges_of(above) } else { BTreeSet::from([above]) };
    let ports = |tor: usize| {
        let ports = plan.nodes[tor].ports.iter().enumerate();
        ports.filter(|(_, p)| plan.nodes[p.peer.node].role == Role::Switch).map(|(i, _)| i).collect()
    };
    tors.into_iter().map(|tor| (tor, ports(tor))).collect()
}

fn spread(plan: &Plan, stop: &AtomicBool) -> Outcome {
    let Some([(from, own), (to, address)]) = ends(plan) else { return Ok(not_applicable()) };
    let tors = uplinks(plan, from);
    if let Some((tor, _)) = tors.iter().find(|(_, ports)| ports.len() < 2) {
        return Ok((None, format!("{} has one uplink", plan.nodes[*tor].name)));
    }
    let sent = |(tor, ports): &(usize, Vec<usize>)| -> Result<Vec<u64>> {
        let tor = *tor;
        let text = netns::within(&plan.nodes[tor].namespace, || {
            std::fs::read_to_string("/proc/thread-self/net/dev").map_err(|e| LabError::io("read", "/proc/net/dev".as_ref(), e))
        })?;
        let of = |name: &str| {
            let line = text.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|l| l.split_ascii_whitespace().nth(9)?.parse().ok()).unwrap_or(0)
        };
        Ok(ports.iter().map(|&p| of(&plan.nodes[tor].ports[p].name)).collect())
    };
    let before = tors.iter().map(sent).collect::<Result<Vec<_>>>()?;
    netns::within(&from.namespace, || {
        for port in 0..FLOWS {
            // Nothing listens there: some sends report an ICMP error.
            if let Ok(socket) = UdpSocket::bind((own, 20_000 + port)) {
                for _ in 0..PACKETS_A_FLOW {
                    let _ = socket.send_to(&[0; 64], (address, 9));
                }
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    })?;
    let expected = u64::from(FLOWS * PACKETS_A_FLOW);
    // Of several ToRs, a VM uses one.
    let used = || {
        let mut used = (0, Vec::new(), tors[0].0);
        for (at, before) in tors.iter().zip(&before) {
            let counts: Vec<u64> = sent(at)?.iter().zip(before).map(|(a, b)| a - b).collect();
            used = used.max((counts.iter().sum(), counts, at.0));
        }
        Ok(used)
    };
    let (all, counts, tor) = poll(stop, used, |(all, ..)| *all >= expected)?;
    // A quarter of the fair share: with 128 flows a correct hash practically never gives less.
    let fair = counts.iter().all(|&c| c * 4 * counts.len() as u64 >= all) && all >= expected;
    Ok((
        Some(fair),
        format!("{FLOWS} flows from {} to {}: packets by uplink of {}: {counts:?}", from.name, to.name, plan.nodes[tor].name),
    ))
}

fn link_failure(plan: &Plan, stop: &AtomicBool) -> Outcome {
    let Some([(from, own), (to, address)]) = ends(plan) else { return Ok(not_applicable()) };
    let (tor, ports) = uplinks(plan, from).swap_remove(0);
    let [port, _, ..] = ports[..] else { return Ok((None, format!("{} has one uplink", plan.nodes[tor].name))) };
    let tor = &plan.nodes[tor];
    let name = &tor.ports[port].name;
    let failed = |node: &Node, cause| LabError::Kernel { what: "open a socket", place: node.namespace.clone(), cause };
    let bound = |node: &Node, address: Ipv4Addr| {
        netns::within(&node.namespace, || UdpSocket::bind((address, 0)).map_err(|e| failed(node, e)))
    };
    let flows = (0..WATCHED).map(|_| bound(from, own)).collect::<Result<Vec<_>>>()?;
    let echo = bound(to, address)?;
    let port = echo.local_addr().map_err(|e| failed(to, e))?.port();
    let set = |state: &str| run_batch(tor, "ip", &format!("link set {name} {state}\n"));
    let over = &AtomicBool::new(false);
    let longest = std::thread::scope(|scope| -> Result<Vec<Duration>> {
        let _ = echo.set_read_timeout(Some(Duration::from_millis(20)));
        scope.spawn(move || {
            let mut buffer = [0; 8];
            while !over.load(Ordering::Relaxed) {
                if let Ok((len, peer)) = echo.recv_from(&mut buffer) {
                    let _ = echo.send_to(&buffer[..len], peer);
                }
            }
        });
        let watched = watch_echoes(&flows, (address, port), || set("down"));
        over.store(true, Ordering::Relaxed);
        set("up")?;
        watched
    })?;
    let longest = longest.into_iter().max().unwrap_or_default();
    let detail =
        format!("{name} of {} set down: {WATCHED} flows, none without an answer for longer than {longest:.0?}", tor.name);
    wait_for_repair(plan, stop)?;
    Ok((Some(longest < OUTAGE_MAX), detail))
}

/// Waits until a port that was set up again is in use: until OSPF has all routes, or until all agents are healthy.
fn wait_for_repair(plan: &Plan, stop: &AtomicBool) -> Result<()> {
    if plan.routing == Routing::Frr {
        frr::converge(plan, &state::daemons(&state::path(&plan.name)), stop)?;
    }
    if plan.openflow.is_some() {
        openflow::scheduler::wait_until_ready(plan, None, stop)?;
    }
    if plan.overlay.netlord().is_some() { netlord::agents::wait_until_healthy(plan, stop) } else { Ok(()) }
}

/// Acts after half a second, and returns the longest time since then without an answer of each flow. Ends when all flows have answers again, one second after the
/// act at the earliest and three and a half at the latest.
fn watch_echoes(flows: &[UdpSocket], to: (Ipv4Addr, u16), act: impl FnOnce() -> Result<()>) -> Result<Vec<Duration>> {
    let mut act = Some(act);
    let watch = Stopwatch::new();
    let (mut last, mut longest) = (vec![Duration::ZERO; flows.len()], vec![Duration::ZERO; flows.len()]);
    flows.iter().for_each(|f| drop(f.set_nonblocking(true)));
    let is_over = |last: &[Duration]| watch.elapsed() > WATCH_MIN && last.iter().all(|last| watch.elapsed() - *last < FRESH);
    while watch.elapsed() < WATCH_MAX && !is_over(&last) {
        if watch.elapsed() > SETTLE
            && let Some(act) = act.take()
        {
            act()?;
        }
        for (i, flow) in flows.iter().enumerate() {
            let _ = flow.send_to(&[1], to);
            while flow.recv_from(&mut [0; 8]).is_ok() {
                last[i] = watch.elapsed();
            }
            if watch.elapsed() > SETTLE {
                longest[i] = longest[i].max(watch.elapsed().saturating_sub(last[i]));
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(longest)
}

fn isolation(plan: &Plan, stop: &AtomicBool) -> Outcome {
    match &plan.overlay {
        Overlay::None | Overlay::Access(_) => Ok((None, "no overlay keeps hosts apart here".to_owned())),
        Overlay::Vl2(vl2) => isolation_of_services(plan, vl2, stop),
        Overlay::Netlord(netlord) => isolation_of_tenants(plan, netlord, stop),
    }
}

/// Hosts of services that may not communicate get no answer, and packets with a forged source are dropped.
fn isolation_of_services(plan: &Plan, vl2: &Vl2, stop: &AtomicBool) -> Outcome {
    let result = ping::all(plan, SMALL, stop)?;
    let apart = result.isolated.unwrap_or_default();
    let Some([(from, own), (to, address)]) = ends(plan) else { return Ok(not_applicable()) };
    // An unused application address.
    let foreign = Ipv4Addr::from(u32::from(own) + vl2.hosts.len() as u32 + 1000);
    let before = drops(plan).get(FORGED).copied().unwrap_or(0);
    run_batch(from, "ip", &format!("addr add {foreign}/32 dev lo\n"))?;
    let sent = netns::within(&from.namespace, || {
        Ok(UdpSocket::bind((foreign, 0))
            .and_then(|s| (0..FORGERIES).try_for_each(|_| s.send_to(&[0; 32], (address, 9)).map(drop))))
    });
    run_batch(from, "ip", &format!("addr del {foreign}/32 dev lo\n"))?;
    let count = || Ok(drops(plan).get(FORGED).copied().unwrap_or(0) - before);
    let dropped = poll(stop, count, |dropped| *dropped >= FORGERIES)?;
    let forged = if sent?.is_ok() {
        format!("{dropped} of {FORGERIES} forged packets dropped")
    } else {
        "nothing could be forged".to_owned()
    };
    let detail = format!(
        "{} of {} pairs that may not communicate answered; {} to {}: {forged}",
        apart.answered, apart.pairs, from.name, to.name
    );
    Ok((Some(apart.answered == 0 && dropped >= FORGERIES), detail))
}

/// VMs of other tenants do not answer, and do not receive forged frames; agents count all frames that they refuse.
fn isolation_of_tenants(plan: &Plan, netlord: &Netlord, stop: &AtomicBool) -> Outcome {
    let apart = ping::all(plan, SMALL, stop)?.isolated.unwrap_or_default();
    let Some([(from, _), _]) = ends(plan) else { return Ok(not_applicable()) };
    let vm = netlord.vms.iter().position(|vm| plan.nodes[vm.node].name == from.name).expect("a VM of the plan");
    let Forged { sent, carried, heard, uncounted } = events::forge(plan, vm)?;
    let detail = format!(
        "{} of {} pairs of different tenants answered; of {sent} frames that {} forged its own tenant received {carried}, others {heard}; {uncounted} are not counted",
        apart.answered, apart.pairs, from.name
    );
    Ok((Some(apart.answered == 0 && heard == 0 && uncounted == 0), detail))
}

/// Reads a value until it meets a condition, for a limited time; the last value.
fn poll<T>(stop: &AtomicBool, read: impl Fn() -> Result<T>, is_met: impl Fn(&T) -> bool) -> Result<T> {
    let deadline = Deadline::after(SETTLE);
    loop {
        let value = read()?;
        if is_met(&value) || deadline.has_passed() {
            return Ok(value);
        }
        pause(stop)?;
    }
}

fn not_applicable() -> (Option<bool>, String) {
    (None, "no two hosts of different racks may communicate".to_owned())
}

const SMALL: usize = 84;
const TRANSFER: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);
const FLOWS: u16 = 128;
const PACKETS_A_FLOW: u16 = 2;
const SETTLE: Duration = Duration::from_millis(500);
/// Flows that are measured across a failure: some of them use the link.
const WATCHED: usize = 8;
const WATCH_MIN: Duration = Duration::from_millis(1500);
const WATCH_MAX: Duration = Duration::from_secs(4);
/// The age of a flow's last answer below which it has no outage.
const FRESH: Duration = Duration::from_millis(100);
/// The longest outage that passes: more than re-routing with BFD takes.
const OUTAGE_MAX: Duration = Duration::from_secs(2);
const FORGERIES: u64 = 20;
const FORGED: &str = "forged_source";
