//! Hosts with several NICs in real labs: the choice of NICs, their rates together, MPTCP, and NICs that fail. As root; otherwise they report that they are
//! skipped.
//!
//! Tests whose name starts with `timing_` compare rates and times, and need the processors for themselves.
#![cfg(target_os = "linux")]

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use support::{name, possible, serial, settings};
use weft_fabric::record::Outcome;
use weft_fabric::routing::{FlowKey, Router, Routing as RouterSettings};
use weft_fabric::topology::Part;
use weft_fabric::topology::shapes::subways::{RackSize, Speeds, SubwaysSpec, SubwaysType, Trunk, Uplinks};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, FlowId, HostId, Instant, LinkId};
use weft_lab::events::{Change, Event};
use weft_lab::plan::{Plan, Routing};
use weft_lab::run::{Job, Load, execute};
use weft_lab::traffic::Transport;

static GO: AtomicBool = AtomicBool::new(false);

fn build(spec: SubwaysSpec, rate: u64) -> Fabric {
    let link = Cabling { rate: BitsPerSec(rate), delay: Duration::ZERO };
    Shape::Subways(spec).build(link, link).expect("a fabric")
}

fn job(fabric: &Fabric, letter: char, flows: Vec<FlowSpec>) -> Job {
    let settings = settings(name(letter), Routing::Static, 1.0);
    Job {
        plan: Plan::new(fabric, &settings).expect("a plan"),
        scenario: "test.toml".into(),
        vlb: false,
        router: router(fabric),
        load: Load::Flows(Box::new(StaticWorkload::new(flows))),
        transport: Transport::Tcp,
        events: Vec::new(),
        duration: None,
        windows: Vec::new(),
        window_every: Duration::from_ms(10),
    }
}

fn router(fabric: &Fabric) -> Router {
    Router::new(Arc::new(fabric.clone()), RouterSettings::default(), 1)
}

fn flow(src: u32, dst: u32, start: Duration, size: Size) -> FlowSpec {
    FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO + start, size }
}

fn run(fabric: &Fabric, job: Job) -> Outcome {
    execute(fabric, job, &GO, &mut |_| {}).expect("it runs")
}

/// Payload that all flows have received, in bits per second.
fn goodput(outcome: &Outcome) -> f64 {
    outcome.flows.iter().map(|f| f.bytes.0 as f64).sum::<f64>() * 8.0 / outcome.ended.as_secs_f64()
}

/// Parallel interconnects of 20 and 60 Mbps: pairs of NICs of different networks are not connected. Two pairs of hosts that share no ToR have 160 Mbps.
#[test]
fn timing_unequal_nics_carry_their_rates_together() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let spec = SubwaysSpec {
        rack: RackSize::Servers(1),
        racks_per_cluster: 4,
        loop_length: Some(4),
        tor_uplinks: Uplinks::Count(2),
        levels: 2,
        speeds: Speeds::new(&[BitsPerSec(20_000_000), BitsPerSec(60_000_000)]).expect("speeds"),
        ..SubwaysSpec::new(SubwaysType::Type2)
    };
    let fabric = build(spec, 20_000_000);
    let flows: Vec<FlowSpec> = (0..64).map(|i| flow(i % 2, 2 + i % 2, Duration::ZERO, Size::Infinite)).collect();
    let outcome = run(&fabric, Job { duration: Some(Duration::from_secs(8)), ..job(&fabric, 'a', flows.clone()) });
    let mut router = router(&fabric);
    for (i, (spec, record)) in (0..).zip(flows.iter().zip(&outcome.flows)) {
        let path = router.route(&FlowKey::of_flow(i, spec.src, spec.dst)).expect("a path");
        assert_eq!((record.path.first(), record.path.last()), (path.first(), path.last()), "flow {i}");
        assert!(record.bytes.0 > 0, "flow {i}");
    }
    let expected = 160e6 * 1448.0 / 1514.0;
    let goodput = goodput(&outcome);
    eprintln!("{:.1} of {:.1} Mbps", goodput / 1e6, expected / 1e6);
    assert!((0.9..1.02).contains(&(goodput / expected)), "{goodput} of {expected}");
}

/// Payload in bits per second that a link of 20 Mbps carries.
const ONE_NIC: f64 = 20e6 * 1448.0 / 1514.0;

/// Two NICs carry at least 1.9 times what one does: flows of TCP together, and one connection of MPTCP alone.
#[test]
fn timing_two_nics_carry_twice_as_much_as_one() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = build(SubwaysSpec::testbed(SubwaysType::Type1), 20_000_000);
    // Racks 0 and 2 share no ToR.
    let run_for = |letter, transport, flows: u32| {
        let flows = (0..flows).map(|_| flow(0, 8, Duration::ZERO, Size::Infinite)).collect();
        run(&fabric, Job { transport, duration: Some(Duration::from_secs(8)), ..job(&fabric, letter, flows) })
    };
    let mptcp = Transport::Mptcp { subflows: 4 };
    for (letter, transport, flows, expected) in
        [('b', Transport::Tcp, 1, 1.0), ('c', Transport::Tcp, 16, 2.0), ('d', mptcp, 1, 2.0)]
    {
        let outcome = run_for(letter, transport, flows);
        let nics = goodput(&outcome) / ONE_NIC;
        eprintln!("{transport:?}, {flows} flows: {nics:.2} NICs");
        assert!((expected * 0.95..expected * 1.03).contains(&nics), "{transport:?}, {flows} flows: {nics}");
    }
    // One subflow per pair of NICs: each link of both hosts has an equal part, within what two loss-based subflows on a NIC differ.
    let flows = (0..4).map(|_| flow(0, 8, Duration::ZERO, finite(2_000_000))).collect();
    let outcome = run(&fabric, Job { transport: mptcp, ..job(&fabric, 'e', flows) });
    assert!(outcome.flows.iter().all(|f| f.bytes == Bytes(2_000_000) && f.end.is_some()));
    for node in ["h0", "h8"] {
        let node = fabric.node_by_name(node).expect("a host");
        let of = |link: LinkId| outcome.links[link.index()].bytes.0 + outcome.links[link.reverse().index()].bytes.0;
        let bytes: Vec<u64> = fabric.out(node).iter().map(|&l| of(l)).collect();
        assert!(bytes.iter().all(|b| *b > 3_000_000), "{bytes:?}");
    }
}

/// The baselines (Subways sections 3 and 5): what two adjacent hot racks send is the uplinks of the two ToRs that they reach, by trunks to one ToR a rack, and by MC-LAG to
/// both of the pair. ToRs have one uplink, so switches have nothing to hash.
#[test]
fn timing_trunks_and_mc_lag_carry_the_uplinks_of_their_tors() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let spec = |kind, trunk| SubwaysSpec {
        rack: RackSize::Servers(2),
        racks_per_cluster: 10,
        tor_uplinks: Uplinks::Count(1),
        clusters: Some(1),
        levels: 2,
        trunk,
        ..SubwaysSpec::new(kind)
    };
    // One hot rack and the other forms: `@subways/lab-baselines`.
    for (letter, kind, trunk) in [('q', SubwaysType::Type0, Trunk::Flow), ('r', SubwaysType::McLag, Trunk::Packet)] {
        let fabric = build(spec(kind, trunk), 20_000_000);
        let pairs = (0..4).flat_map(|from| (8..18).flat_map(move |to| [(from, to); 2]));
        let flows = pairs.map(|(from, to)| flow(from, to, Duration::ZERO, Size::Infinite)).collect();
        let outcome = run(&fabric, Job { duration: Some(Duration::from_secs(6)), ..job(&fabric, letter, flows) });
        let carried = goodput(&outcome) / ONE_NIC;
        eprintln!("{kind:?} {trunk:?}: {carried:.2} uplinks");
        assert!((1.86..2.06).contains(&carried), "{kind:?} {trunk:?}: {carried} uplinks");
        // Of a trunk by flow, both cables carry some.
        let node = fabric.node_by_name("h0").expect("a host");
        assert!(fabric.out(node).iter().all(|link| outcome.links[link.index()].bytes > Bytes(100_000)), "{kind:?} {trunk:?}");
    }
}

/// One subflow per pair of three NICs; on hosts with one NIC, as many as wanted.
#[test]
fn mptcp_has_a_subflow_per_pair_of_nics() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let three = SubwaysSpec {
        ports: 3,
        racks_per_cluster: 6,
        tor_uplinks: Uplinks::Count(2),
        rack: RackSize::Servers(2),
        ..SubwaysSpec::testbed(SubwaysType::Type1)
    };
    let one = SubwaysSpec::testbed(SubwaysType::Type0);
    for (letter, spec, subflows) in [('j', three, 9), ('k', one, 5)] {
        let fabric = build(spec, 20_000_000);
        let flows = vec![flow(0, 6, Duration::ZERO, Size::Infinite)];
        let transport = Transport::Mptcp { subflows };
        let (duration, windows) = (Some(Duration::from_secs(3)), vec![FlowId(0)]);
        let job = Job { transport, duration, windows, window_every: Duration::from_ms(500), ..job(&fabric, letter, flows) };
        let samples = run(&fabric, job).traced.windows;
        let last = samples.last().expect("samples").at;
        let seen: Vec<u32> = samples.iter().filter(|s| s.at == last).map(|s| s.subflow).collect();
        assert_eq!(seen, (0..subflows).collect::<Vec<_>>());
    }
}

/// A NIC loses its carrier for 8 s: connections of TCP on it wait until it is back, connections of MPTCP go on over the other one.
#[test]
fn timing_mptcp_goes_on_without_a_nic() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = build(SubwaysSpec::testbed(SubwaysType::Type1), 20_000_000);
    let part = Part::parse(&fabric, "link h0-tor0").expect("a cable");
    let at = |ms| Instant::ZERO + Duration::from_ms(ms);
    let mut pauses = Vec::new();
    for (letter, transport) in [('f', Transport::Tcp), ('g', Transport::Mptcp { subflows: 4 })] {
        let events =
            vec![Event { at: at(2000), change: Change::Fail(part) }, Event { at: at(10_000), change: Change::Restore(part) }];
        let flows = (0..8).map(|_| flow(0, 8, Duration::ZERO, Size::Infinite)).collect();
        let job = Job { transport, events, duration: Some(Duration::from_secs(22)), ..job(&fabric, letter, flows) };
        let outcome = run(&fabric, job);
        let pause = outcome.lab.as_ref().expect("a lab's").faults[0].silent.expect("flows paused").as_secs_f64();
        let delivered = |ms| outcome.samples[outcome.samples.partition_point(|s| s.at <= at(ms)) - 1].delivered;
        let rate = |from: u64, to: u64| (delivered(to) - delivered(from)) * 8e3 / (to - from) as f64 / ONE_NIC;
        // What is lost with the NIC is sent again over the other one when its retransmission timeout, which grows with the queue, has passed: 1.2 to 4.7 s.
        let rates = [rate(1000, 2000), rate(7000, 10_000), rate(19_000, 22_000)];
        eprintln!("{transport:?}: the longest pause {pause:.2} s, NICs before, during and after {rates:.2?}");
        assert!(rates[0] > 1.4 && (0.3..1.3).contains(&rates[1]) && rates[2] > 1.4, "{rates:?}");
        pauses.push(pause);
    }
    assert!(pauses[0] >= 8.0 && pauses[1] < 7.0, "{pauses:?}");
}

/// A flow that begins while the NIC to the shared ToR is down takes another pair, and a connection of MPTCP the pairs that are left.
#[test]
fn flows_begin_over_the_nics_that_are_up() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = build(SubwaysSpec::testbed(SubwaysType::Type1), 20_000_000);
    let fail = Change::Fail(Part::parse(&fabric, "link h0-tor0").expect("a cable"));
    for (letter, transport) in [('h', Transport::Tcp), ('i', Transport::Mptcp { subflows: 4 })] {
        let events = vec![Event { at: Instant::ZERO + Duration::from_ms(300), change: fail }];
        // Rack 1 shares ToR 0 with rack 0.
        let flows = (0..8).map(|i| flow(0, 4 + i % 4, Duration::from_ms(600), finite(50_000))).collect();
        let outcome =
            run(&fabric, Job { transport, events, duration: Some(Duration::from_secs(10)), ..job(&fabric, letter, flows) });
        assert!(
            outcome.flows.iter().all(|f| f.end.is_some_and(|end| end < Instant::ZERO + Duration::from_secs(5))),
            "{transport:?}"
        );
    }
}

fn finite(bytes: u64) -> Size {
    Size::Finite(Bytes(bytes))
}
