//! Runs in real labs: bytes, fairness, paths, failures, and complete removal. As root; otherwise they report that they are skipped.
//!
//! Tests whose name starts with `timing_` compare rates and times, and need the processors for themselves.
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use support::{name, possible, serial, settings};
use weft_fabric::record::Outcome;
use weft_fabric::routing::{Router, Routing as RouterSettings};
use weft_fabric::topology::Part;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, HostId, Instant, LinkId};
use weft_lab::events::{Change, Event};
use weft_lab::plan::{Plan, Routing};
use weft_lab::run::{Job, Load, execute};
use weft_lab::traffic::Transport;
use weft_lab::{LabError, names};

static GO: AtomicBool = AtomicBool::new(false);

/// A fabric of 20 Mbps links, which the lab does not scale.
fn fabric(shape: Shape) -> Fabric {
    let link = Cabling { rate: BitsPerSec(20_000_000), delay: Duration::ZERO };
    shape.build(link, link).expect("a fabric")
}

fn job(fabric: &Fabric, letter: char, flows: Vec<FlowSpec>) -> Job {
    let settings = settings(name(letter), Routing::Static, 1.0);
    Job {
        plan: Plan::new(fabric, &settings).expect("a plan"),
        scenario: "test.toml".into(),
        vlb: false,
        router: Router::new(Arc::new(fabric.clone()), RouterSettings::default(), 1),
        load: Load::Flows(Box::new(StaticWorkload::new(flows))),
        transport: Transport::Tcp,
        events: Vec::new(),
        duration: None,
        windows: Vec::new(),
        window_every: Duration::from_ms(10),
    }
}

fn flow(src: u32, dst: u32, start: Duration, size: Size) -> FlowSpec {
    FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO + start, size }
}

fn finite(bytes: u64) -> Size {
    Size::Finite(Bytes(bytes))
}

fn run(fabric: &Fabric, job: Job) -> Outcome {
    execute(fabric, job, &GO, &mut |_| {}).expect("it runs")
}

/// Bytes sent over the links of a node.
fn sent(fabric: &Fabric, outcome: &Outcome, node: &str) -> BTreeMap<LinkId, u64> {
    let node = fabric.node_by_name(node).expect("a node");
    fabric.out(node).iter().map(|&l| (l, outcome.links[l.index()].bytes.0)).collect()
}

#[test]
fn all_bytes_arrive() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = fabric(Shape::FatTree { k: 4 });
    let all = (0..16).flat_map(|s| (0..16).filter(move |d| *d != s).map(move |d| (s, d)));
    let flows: Vec<FlowSpec> = all
        .enumerate()
        .map(|(i, (s, d))| flow(s, d, Duration::from_ms(i as u64), finite(1 + (i as u64 * 7919) % 60_000)))
        .collect();
    let outcome = run(&fabric, job(&fabric, 'k', flows.clone()));
    assert_eq!(outcome.flows.len(), 240);
    for (flow, record) in flows.iter().zip(&outcome.flows) {
        assert_eq!((record.src, record.dst, Size::Finite(record.bytes)), (flow.src, flow.dst, flow.size));
        assert!(record.end.is_some_and(|end| end > record.start), "{record:?}");
    }
    // Every link has the bytes of its flows, and headers.
    let mut least = vec![0; fabric.links().len()];
    for record in &outcome.flows {
        assert!(record.path.len() >= 2, "{record:?}");
        assert_eq!(fabric.link(record.path[0]).from, record.src.node());
        assert_eq!(fabric.link(record.path[record.path.len() - 1]).to, record.dst.node());
        record.path.iter().for_each(|l| least[l.index()] += record.bytes.0);
    }
    for (link, least) in outcome.links.iter().zip(&least) {
        assert!(link.bytes.0 >= *least, "{}: {} of {least}", fabric.link_name(link.id), link.bytes.0);
    }
    let (counted, least): (u64, u64) = (outcome.links.iter().map(|l| l.bytes.0).sum(), least.iter().sum());
    assert!(counted < least * 5 / 4, "{counted} for {least}: headers, acknowledgements and retransmissions");
    let delivered: u64 = outcome.flows.iter().map(|f| f.bytes.0).sum();
    assert_eq!(outcome.samples.last().map(|s| s.delivered), Some(delivered as f64));
    let lab = outcome.lab.expect("a lab's");
    assert!(lab.tcp.iter().all(|t| t.cwnd_segments > 0) && lab.cpu_idle_fraction.is_some());
}

/// A daemon that is pinned to a busy processor is named, though other processors are idle.
#[test]
fn the_program_that_waits_longest_for_a_processor_is_named() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = fabric(Shape::TwoLevel { edges: 2, cores: 1, hosts_per_edge: 1 });
    let mut job = job(&fabric, 'w', vec![flow(0, 1, Duration::ZERO, Size::Infinite)]);
    job.plan = Plan::new(&fabric, &support::settings(name('w'), Routing::Frr, 1.0)).expect("a plan");
    job.duration = Some(Duration::from_secs(5));
    let last = std::thread::available_parallelism().map_or(0, |processors| processors.get() - 1).to_string();
    let mut hog = None;
    let outcome = execute(&fabric, job, &GO, &mut |progress| {
        if progress.now > Instant::ZERO + Duration::from_secs(1) && hog.is_none() {
            let shell = format!(
                "for pid in $(ip netns pids weft-{}-core0); do taskset -acp {last} $pid; done >&2; \
                 exec timeout 3 chrt -f 50 taskset -c {last} sh -c 'while :; do :; done'",
                name('w')
            );
            hog = Some(std::process::Command::new("sh").args(["-c", &shell]).spawn().expect("a shell"));
        }
    });
    let _ = hog.expect("the traffic began").wait();
    let wait = outcome.expect("it runs").lab.expect("a lab's").longest_wait.expect("the kernel counts waits");
    eprintln!("{wait:?}");
    assert!(wait.length > Duration::from_ms(500), "{wait:?}");
    // The kernel's own thread for packets has to run there too.
    assert!(wait.node == "core0" || wait.program.starts_with("ksoftirqd/"), "{wait:?}");
}

#[test]
fn timing_flows_share_a_bottleneck() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = fabric(Shape::Switch { hosts: 5 });
    let flows = (1..5).map(|s| flow(s, 0, Duration::ZERO, Size::Infinite)).collect();
    let outcome = run(&fabric, Job { duration: Some(Duration::from_secs(15)), ..job(&fabric, 'l', flows) });
    let bytes: Vec<f64> = outcome.flows.iter().map(|f| f.bytes.0 as f64).collect();
    let (sum, squares): (f64, f64) = (bytes.iter().sum(), bytes.iter().map(|b| b * b).sum());
    // With a drop-tail queue of 64 packets cubic's flows differ by up to half of their share over 15 s.
    let jain = sum * sum / (4.0 * squares);
    assert!(jain > 0.8, "{bytes:?}");
    // Payload of 1448 bytes in frames of 1514.
    let goodput = sum * 8.0 / outcome.ended.as_secs_f64();
    let expected = 20e6 * 1448.0 / 1514.0;
    assert!((0.93..1.02).contains(&(goodput / expected)), "{goodput} of {expected}");
    assert!(outcome.packets.is_some_and(|p| p.retransmits > 0 && p.drops > 0), "cubic fills the queue");
}

/// Two hosts send to each other. By the kernel's default two packets of 64 kB wait in the queue of each NIC, and the acknowledgements behind them for 52 ms:
/// the round trip is 93 ms, and 11 ms without.
#[test]
fn timing_acknowledgements_do_not_wait_for_large_packets() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = fabric(Shape::Switch { hosts: 2 });
    let flows = vec![flow(0, 1, Duration::ZERO, Size::Infinite), flow(1, 0, Duration::ZERO, Size::Infinite)];
    let outcome = run(&fabric, Job { duration: Some(Duration::from_secs(3)), ..job(&fabric, 'q', flows) });
    let round_trips: Vec<f64> = outcome.lab.expect("a lab's").tcp.iter().map(|tcp| tcp.srtt_s).collect();
    assert_eq!(round_trips.len(), 2);
    assert!(round_trips.iter().all(|s| (0.0001..0.025).contains(s)), "{round_trips:?}");
}

/// Real TCP flows, 64 from each host of a rack: the ToR splits them over its uplinks by its own hash, and each aggregation switch over its own. With the
/// hash of the sockets, the second tier would map all the flows that it receives to one port.
#[test]
fn each_tier_splits_real_flows_by_its_own_hash() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = fabric(Shape::FatTree { k: 4 });
    let flows: Vec<FlowSpec> =
        (0..256).map(|i| flow(i % 2, 12 + i % 4, Duration::from_ms(u64::from(i) * 4), finite(20_000))).collect();
    let outcome = run(&fabric, job(&fabric, 'm', flows));
    // Bytes of each uplink of a switch: by the paths that the kernels report, and by its counters.
    for switch in ["edge0", "agg0", "agg1"] {
        let counted = sent(&fabric, &outcome, switch);
        let up: Vec<(LinkId, u64)> = counted.into_iter().skip(2).collect();
        let predicted: Vec<u64> =
            up.iter().map(|(link, _)| outcome.flows.iter().filter(|f| f.path.contains(link)).map(|f| f.bytes.0).sum()).collect();
        eprintln!("{switch}: {up:?}, by the kernels' paths {predicted:?}");
        let all: u64 = up.iter().map(|(_, bytes)| bytes).sum();
        for ((_, bytes), predicted) in up.iter().zip(&predicted) {
            assert!(bytes * 100 >= all * 25, "{switch}: {up:?}");
            assert!(*bytes > *predicted && *bytes < predicted * 6 / 5, "{switch}: {up:?} and {predicted:?}");
        }
    }
}

#[test]
fn vlb_flows_cross_an_intermediate_switch() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let shape = Shape::ClosExplicit { intermediates: 3, aggregations: 3, tors: 4, uplinks_per_tor: 2, hosts_per_tor: 2 };
    let fabric = fabric(shape);
    let flows: Vec<FlowSpec> =
        (0..96).map(|i| flow(i % 8, (i + 1 + i / 8 % 7) % 8, Duration::from_ms(u64::from(i)), finite(30_000))).collect();
    let outcome = run(&fabric, Job { vlb: true, ..job(&fabric, 'n', flows) });
    let top = fabric.top_tier();
    for f in &outcome.flows {
        let visits = f.path.iter().filter(|l| fabric.node(fabric.link(**l).to).tier == top).count();
        assert_eq!((visits, f.path.len()), (1, 6), "{f:?}");
        assert!(f.end.is_some());
    }
    let to_int = |i: usize| -> u64 {
        let node = fabric.node_by_name(&format!("int{i}")).expect("an intermediate");
        fabric.out(node).iter().map(|l| outcome.links[l.reverse().index()].bytes.0).sum()
    };
    let split = [0, 1, 2].map(to_int);
    assert!(split.iter().all(|b| b * 5 > split.iter().sum::<u64>()), "{split:?}");
}

#[test]
fn timing_a_failed_link_is_avoided_and_used_again() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = fabric(Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 4 });
    let flows: Vec<FlowSpec> = (0..32).map(|i| flow(i % 4, 4 + i / 4 % 4, Duration::ZERO, Size::Infinite)).collect();
    let node = |name| fabric.node_by_name(name).expect("a node");
    let cable = fabric.cable_between(node("edge0"), node("core0")).expect("a cable");
    let at = |ms| Instant::ZERO + Duration::from_ms(ms);
    let events = vec![
        Event { at: at(2000), change: Change::Fail(Part::Cable(cable)) },
        Event { at: at(4000), change: Change::Restore(Part::Cable(cable)) },
    ];
    let outcome = run(&fabric, Job { duration: Some(Duration::from_secs(7)), events, ..job(&fabric, 'o', flows) });
    let busy = |from: u64, to: u64| {
        let within = outcome.link_series.iter().filter(|s| s.at > at(from) && s.at <= at(to));
        within.filter(|s| cable.links().contains(&s.link)).map(|s| s.utilisation).sum::<f64>()
    };
    assert!(busy(1000, 2000) > 2.0, "{}", busy(1000, 2000));
    assert_eq!(busy(2300, 3900), 0.0);
    assert!(busy(4500, 6500) > 2.0, "{}", busy(4500, 6500));
    let rate = |from: u64, to: u64| {
        let delivered = |ms| outcome.samples[outcome.samples.partition_point(|s| s.at <= at(ms)) - 1].delivered;
        (delivered(to) - delivered(from)) * 8e3 / (to - from) as f64
    };
    // Two links of 20 Mbps, then one.
    assert!(rate(2500, 3900) > 15e6, "{}", rate(2500, 3900));
    assert!(rate(5500, 6900) > 28e6, "{}", rate(5500, 6900));
}

/// All uplinks of a ToR fail one after another, silently or not, and are repaired in the same order, with static routes that only the lab repairs.
#[test]
fn timing_routes_return_with_their_ports() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let shape = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 2 };
    let fabric = fabric(shape);
    let part = |text: &str| Part::parse(&fabric, text).expect("a part");
    let at = |ms, change| Event { at: Instant::ZERO + Duration::from_ms(ms), change };
    let [one, other] = ["link tor0-agg0", "link tor0-agg1"].map(part);
    let events = vec![
        at(500, Change::Fail(one)),
        at(800, Change::Fail(other)),
        at(1300, Change::Restore(one)),
        at(1600, Change::Restore(other)),
        at(2000, Change::FailSilent(part("switch agg0"))),
        at(2400, Change::Restore(part("switch agg0"))),
        at(2800, Change::Fail(part("host h0"))),
        at(3200, Change::Restore(part("host h0"))),
    ];
    for (letter, vlb) in [('s', false), ('t', true)] {
        // New connections all the time: those without a route are retried.
        let flows =
            (0..80u32).map(|i| flow(i % 2, 2 + i / 2 % 2, Duration::from_ms(u64::from(i) * 50), finite(20_000))).collect();
        let outcome = run(&fabric, Job { vlb, events: events.clone(), ..job(&fabric, letter, flows) });
        assert!(outcome.flows.iter().all(|f| f.end.is_some() && f.bytes == Bytes(20_000)), "vlb: {vlb}");
        let lost = &outcome.packets.as_ref().expect("packets").lost;
        assert!(
            !lost.is_empty()
                && lost.iter().all(|(l, _)| fabric
                    .out(fabric.node_by_name("agg0").expect("a node"))
                    .iter()
                    .any(|o| o.cable() == l.cable())),
            "{lost:?}"
        );
        let used: u64 = ["agg0", "agg1"].iter().map(|a| sent(&fabric, &outcome, a).values().sum::<u64>()).min().expect("two");
        assert!(used > 100_000, "both are used: {used}");
    }
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let fabric = fabric(Shape::FatTree { k: 4 });
    let endless = || (0..8).map(|s| flow(s, s + 8, Duration::ZERO, Size::Infinite)).collect::<Vec<_>>();
    // While it comes up, and while it runs.
    for (letter, after) in [('p', 0), ('q', 300)] {
        let stop = AtomicBool::new(false);
        let job = Job { duration: Some(Duration::from_secs(60)), ..job(&fabric, letter, endless()) };
        let end = &mut |p: weft_lab::run::Progress| {
            if p.now >= Instant::ZERO + Duration::from_ms(after) {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        };
        let result = execute(&fabric, job, &stop, end);
        assert!(matches!(result, Err(LabError::Interrupted)), "{:?}", result.map(|o| o.ended));
        assert!(!names().contains(&name(letter)));
    }
    // The caller unwinds.
    let unwinds = std::panic::catch_unwind(|| {
        let job = Job { duration: Some(Duration::from_secs(60)), ..job(&fabric, 'r', endless()) };
        execute(&fabric, job, &GO, &mut |p| {
            if p.active > 0 {
                std::panic::resume_unwind(Box::new("enough"));
            }
        })
    });
    assert!(unwinds.is_err());
    assert!(!names().contains(&name('r')));
}

/// With FRR, VLB follows OSPF: a repaired link is used when OSPF uses it, and no packets are lost until then.
#[test]
fn timing_vlb_flows_follow_ospf() {
    let lacking = |name: &str| weft_lab::doctor::examine().checks.iter().any(|c| c.name == name && c.remedy.is_some());
    if !possible() || lacking("FRR") {
        return;
    }
    let _serial = serial();
    let shape = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 4 };
    let fabric = fabric(shape);
    let flows: Vec<FlowSpec> = (0..64).map(|i| flow(i % 8, (i + 1 + i / 8 % 7) % 8, Duration::ZERO, Size::Infinite)).collect();
    let part = Part::parse(&fabric, "link agg0-int0").expect("a cable");
    let at = |ms| Instant::ZERO + Duration::from_ms(ms);
    let events = vec![Event { at: at(2000), change: Change::Fail(part) }, Event { at: at(4000), change: Change::Restore(part) }];
    let mut job = Job { vlb: true, duration: Some(Duration::from_secs(9)), events, ..job(&fabric, 'u', flows) };
    job.plan.routing = Routing::Frr;
    let outcome = run(&fabric, job);
    let Part::Cable(cable) = part else { unreachable!("a cable") };
    let rows = outcome.link_series.iter().filter(|s| cable.links().contains(&s.link) && s.utilisation > 0.005);
    let used: Vec<f64> = rows.map(|s| s.at.as_secs_f64()).collect();
    let again = used.iter().copied().find(|t| *t > 4.0).expect("it is used again");
    eprintln!("used again after {:.2} s", again - 4.0);
    assert!(used.iter().all(|t| !(2.2..4.0).contains(t)), "{used:?}");
    assert!(again < 8.0);
    let delivered = |ms| outcome.samples[outcome.samples.partition_point(|s| s.at <= at(ms)) - 1].delivered;
    for from in (4000..8500).step_by(500) {
        assert!(delivered(from + 500) > delivered(from), "nothing is delivered from {from} ms on");
    }
}
