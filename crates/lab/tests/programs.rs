//! Programs that end and return, servers that move, directory servers that share an etcd, and flows that find another path, in labs that really stand. As root, with
//! `weft-agent` and `weft-directory` built; elsewhere they say that they are skipped.
#![cfg(target_os = "linux")]

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use support::{name, programs, serial, settings};
use weft_fabric::record::{FaultRecord, Outcome};
use weft_fabric::routing::{Router, Routing as RouterSettings};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, HostId, Instant};
use weft_lab::events::{self, Change, EventError, EventSpec, Program, Verb};
use weft_lab::names;
use weft_lab::plan::Store;
use weft_lab::plan::vl2::{LocatorKind, ServiceSpec, Vl2Spec};
use weft_lab::plan::{LabName, Plan, Routing};
use weft_lab::run::{Job, Load, execute};
use weft_lab::traffic::Transport;

static GO: AtomicBool = AtomicBool::new(false);

/// Two intermediates, two aggregations, four ToRs of two hosts, with the lab's rates.
fn fabric() -> Fabric {
    let link = Cabling { rate: BitsPerSec(20_000_000), delay: Duration::ZERO };
    let shape = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 4, uplinks_per_tor: 2, hosts_per_tor: 2 };
    shape.build(link, link).expect("a fabric")
}

fn bare(fabric: &Fabric, name: LabName, routing: Routing) -> Plan {
    Plan::new(fabric, &settings(name, routing, 1.0)).expect("a plan")
}

fn laid(fabric: &Fabric, name: LabName, services: Vec<ServiceSpec>) -> Plan {
    let overlay = Vl2Spec { locator: LocatorKind::Tor, ecmp_width: 2, services, external: Vec::new() };
    bare(fabric, name, Routing::Frr).with_vl2(fabric, &overlay).expect("a plan")
}

fn at(ms: u64, verb: Verb, object: &str) -> EventSpec<'_> {
    EventSpec { at: Instant::ZERO + Duration::from_ms(ms), verb, object }
}

fn flow(src: u32, dst: u32, start_ms: u64, size: Size) -> FlowSpec {
    FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO + Duration::from_ms(start_ms), size }
}

const OVERLAY: [&str; 2] = ["weft-agent", "weft-directory"];

/// Carries flows while things happen, and leaves nothing.
fn run(fabric: &Fabric, plan: Plan, flows: Vec<FlowSpec>, wanted: &[EventSpec<'_>], seconds: u64) -> Outcome {
    let (plan, events) = events::resolve(plan, fabric, wanted).expect("events of this lab");
    let name = plan.name.clone();
    let job = Job {
        plan,
        scenario: "test.toml".into(),
        vlb: false,
        router: Router::new(Arc::new(fabric.clone()), RouterSettings::default(), 1),
        load: Load::Flows(Box::new(StaticWorkload::new(flows))),
        transport: Transport::Tcp,
        events,
        duration: Some(Duration::from_secs(seconds)),
        windows: Vec::new(),
        window_every: Duration::from_ms(10),
    };
    let outcome = execute(fabric, job, &GO, &mut |_| {}).expect("it runs");
    assert!(!names().contains(&name), "nothing is left");
    for fault in faults(&outcome) {
        eprintln!("{} {} at {}: {} flows, silent for {:?}", fault.verb, fault.object, fault.at, fault.flows, fault.silent);
    }
    outcome
}

fn faults(outcome: &Outcome) -> &[FaultRecord] {
    &outcome.lab.as_ref().expect("a lab's").faults
}

#[track_caller]
fn silent_for_less(outcome: &Outcome, event: &str, seconds: f64) {
    let fault = faults(outcome).iter().find(|f| format!("{} {}", f.verb, f.object) == event).expect("an event of the run");
    assert!(fault.flows > 0, "{fault:?}");
    let silent = fault.silent.expect("there are flows").as_secs_f64();
    assert!(silent < seconds, "{event}: {silent} s without a byte, more than {seconds}");
}

/// Long flows between racks, by each host one.
fn strides() -> Vec<FlowSpec> {
    (0..8).map(|h| flow(h, (h + 2) % 8, 0, Size::Infinite)).collect()
}

#[test]
fn programs_end_and_return_while_flows_go_on() {
    if !programs(&OVERLAY) {
        return;
    }
    let _serial = serial();
    let fabric = fabric();
    let plan = laid(&fabric, name('a'), Vec::new());
    let wanted = [
        at(2000, Verb::Kill, "agent h0"),
        at(3000, Verb::Kill, "agent tor1"),
        at(4000, Verb::Restart, "agent h0"),
        at(5000, Verb::Restart, "agent tor1"),
        at(6500, Verb::Restart, "server 0"),
        at(8000, Verb::Kill, "frr agg0"),
        at(10_500, Verb::Restart, "frr agg0"),
        at(13_500, Verb::Restart, "agent int0"),
    ];
    let outcome = run(&fabric, plan, strides(), &wanted, 16);
    let lab = outcome.lab.as_ref().expect("a lab's");
    assert_eq!((lab.broken, lab.faults.len(), lab.isolation_drops), (0, wanted.len(), Some(0)));
    assert_eq!(lab.faults[0].flows, 2, "flows from and to h0");
    assert_eq!(lab.faults[1].flows, 4, "flows of both hosts of tor1");
    // Generous, so that a busy machine fails no test; a flow without a path has an outage until the end.
    for event in
        ["kill agent h0", "restart agent h0", "kill agent tor1", "restart agent tor1", "restart server 0", "restart agent int0"]
    {
        silent_for_less(&outcome, event, 2.0);
    }
    silent_for_less(&outcome, "kill frr agg0", 4.0);
    silent_for_less(&outcome, "restart frr agg0", 4.0);
    assert!(
        outcome.flows.iter().all(|f| f.bytes.0 > 2_000_000),
        "{:?}",
        outcome.flows.iter().map(|f| f.bytes).collect::<Vec<_>>()
    );
}

#[test]
fn a_server_moves_while_its_streams_go_on() {
    if !programs(&OVERLAY) {
        return;
    }
    let _serial = serial();
    let fabric = fabric();
    let plan = laid(&fabric, name('b'), Vec::new());
    let wanted = [at(3000, Verb::Move, "host h1 to tor2"), at(10_000, Verb::Move, "host h1 to tor0")];
    let flows = [(0, 1), (4, 1), (6, 1), (1, 2), (1, 4), (2, 6), (7, 0)].map(|(s, d)| flow(s, d, 0, Size::Infinite)).to_vec();
    let outcome = run(&fabric, plan, flows, &wanted, 18);
    assert_eq!(outcome.lab.as_ref().map(|lab| lab.broken), Some(0), "every connection goes on");
    for fault in faults(&outcome) {
        assert_eq!(fault.flows, 5, "{fault:?}");
        assert!(fault.silent.is_some_and(|s| s < Duration::from_secs(6)), "{fault:?}");
    }
    // The cable's counters go on where they were: the mover's flows have crossed it, in both places.
    let cable = fabric.out(HostId(1).node())[0];
    let carried = |link: weft_fabric::LinkId| outcome.links[link.index()].bytes.0;
    let to: u64 = outcome.flows.iter().filter(|f| f.dst == HostId(1)).map(|f| f.bytes.0).sum();
    let from: u64 = outcome.flows.iter().filter(|f| f.src == HostId(1)).map(|f| f.bytes.0).sum();
    assert!(carried(cable.reverse()) >= to && carried(cable) >= from, "{to} to it and {from} from it");
    assert!(to > 8_000_000 && from > 8_000_000, "{to} and {from} bytes");
}

#[test]
fn directory_servers_on_etcd_end_one_after_another() {
    if !programs(&OVERLAY) {
        return;
    }
    let _serial = serial();
    let fabric = fabric();
    let plan = laid(&fabric, name('c'), Vec::new()).with_directory(3, Store::Etcd).expect("a plan");
    let vl2 = plan.overlay.vl2().expect("VL2");
    let racks: Vec<usize> = vl2.directory.hosts.iter().map(|&node| vl2.host(node).expect("a host").tor).collect();
    assert!(racks.iter().enumerate().all(|(i, tor)| !racks[..i].contains(tor)), "each in a rack of its own: {racks:?}");
    let wanted = [at(2000, Verb::Kill, "server 0"), at(5000, Verb::Kill, "server 2"), at(8000, Verb::Restart, "store")];
    let known = [(0, 2), (1, 4)].map(|(s, d)| flow(s, d, 0, Size::Infinite));
    // Between hosts that do not know each other: each of these needs two lookups at the remaining servers.
    let new = [(0, 3, 2500), (2, 5, 3000), (4, 7, 3500), (6, 1, 5500), (3, 6, 6000), (5, 0, 6500), (7, 2, 9000)];
    let new = new.map(|(s, d, start)| flow(s, d, start, Size::Finite(Bytes(50_000))));
    let outcome = run(&fabric, plan, [&known[..], &new[..]].concat(), &wanted, 13);
    for flow in &outcome.flows[2..] {
        assert!(flow.end.is_some() && flow.bytes == Bytes(50_000), "{flow:?}");
    }
    silent_for_less(&outcome, "kill server 0", 3.0);
    silent_for_less(&outcome, "kill server 2", 3.0);
}

fn refused(plan: Plan, wanted: &[EventSpec<'_>]) -> (usize, EventError) {
    events::resolve(plan, &fabric(), wanted).expect_err("it cannot be")
}

#[test]
fn unsupported_events_are_errors() {
    let fabric = fabric();
    let name = || -> LabName { "t".parse().expect("a name") };
    let plan = || laid(&fabric, name(), Vec::new());
    let of = |verb, object: &str, message: &str, help: &str| {
        let (index, error) = refused(plan(), &[at(0, Verb::Fail, "link agg0-int0"), at(1, verb, object)]);
        assert_eq!(index, 1, "{object}");
        assert!(error.to_string().contains(message) && error.help().contains(help), "{object}: {error:?}");
    };
    of(Verb::Kill, "agent x0", "no node called `x0`", "weft topo");
    of(Verb::Kill, "agent tor9", "did you mean `tor0`?", "weft topo");
    of(Verb::Kill, "server 1", "server 0 to server 0", "`servers`");
    of(Verb::Kill, "store", "a part of its server", "etcd");
    of(Verb::Restart, "frr h3", "it is a host", "frr agg0");
    of(Verb::Kill, "host h3", "no program", "agent h0");
    of(Verb::Fail, "agent h0", "does not say what fails", "weft topo");
    of(Verb::Move, "h1 to tor2", "does not say who moves where", "host h1 to tor2");
    of(Verb::Move, "host tor1 to tor2", "only servers move", "name a host");
    of(Verb::Move, "host h1 to agg0", "agg0 is no ToR", "has hosts");
    of(Verb::Move, "host h1 to tor0", "at tor0 already", "another ToR");
    of(Verb::Move, "host h7 to tor0", "a directory server runs on h7", "lower number");
    let moves = at(5, Verb::Move, "host h1 to tor2");
    for other in ["link h1-tor0", "host h1", "switch tor0", "switch tor2"] {
        let (index, error) = refused(plan(), &[moves, at(9, Verb::Fail, other)]);
        assert!(index == 1 && error.to_string().contains("h1 moves in this run"), "{other}: {error:?}");
    }
    assert!(events::resolve(plan(), &fabric, &[moves, at(9, Verb::Fail, "switch agg1")]).is_ok());
    let static_routes = || bare(&fabric, name(), Routing::Static);
    let (_, error) = refused(static_routes(), &[at(0, Verb::Kill, "frr agg0")]);
    assert!(error.to_string().contains("static") && error.help().contains("routing = \"frr\""), "{error:?}");
    for (verb, object) in
        [(Verb::Kill, "agent h0"), (Verb::Kill, "server 0"), (Verb::Kill, "store"), (Verb::Move, "host h1 to tor2")]
    {
        let (_, error) = refused(static_routes(), &[at(0, verb, object)]);
        assert!(error.help().contains("[overlay]"), "{object}: {error:?}");
    }
}

#[test]
fn a_place_is_planned_for_each_move() {
    let fabric = fabric();
    let plan = laid(&fabric, "t".parse().expect("a name"), Vec::new());
    let before = plan.clone();
    let wanted =
        [at(1, Verb::Move, "host h1 to tor2"), at(2, Verb::Move, "host h3 to tor2"), at(3, Verb::Move, "host h1 to tor1")];
    let (plan, events) = events::resolve(plan, &fabric, &wanted).expect("moves of this lab");
    assert_eq!(events.iter().map(|e| e.change).collect::<Vec<_>>(), [0, 1, 2].map(Change::Move));
    assert_eq!(events[2].change.text(&plan, &fabric), ("move", "host h1 to tor1".to_owned()));
    let moves = &plan.overlay.vl2().expect("VL2").moves;
    let tor = |name: &str| plan.node(name).expect("a ToR");
    for (i, m) in moves.iter().enumerate() {
        let there = &plan.nodes[m.tor];
        assert!(
            there.prefix.expect("a prefix").contains(m.locator) && there.blocks.iter().any(|b| b.contains(m.entropy.address))
        );
        assert!(plan.nodes.iter().all(|n| n.locator != m.locator) && there.ports.iter().all(|p| p.name != m.port));
        assert!(
            moves[..i].iter().all(|o| o.locator != m.locator && o.entropy != m.entropy && (o.tor, &o.port) != (m.tor, &m.port))
        );
        // All others have a route to its outer sources.
        let known = |n: &&weft_lab::plan::Node| n.fabric.iter().any(|r| r.to.len == 23 && r.to.contains(m.entropy.address));
        assert_eq!(plan.switches().filter(known).count(), plan.switches().count() - 1);
    }
    assert_eq!(tor("tor2").blocks.len(), before.node("tor2").expect("a ToR").blocks.len() + 2);
    assert_eq!(Program::parse(&plan, " frr  agg1 ").map(|p| p.name(&plan)), Ok("frr agg1".to_owned()));
}
