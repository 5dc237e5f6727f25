//! Subways' controllers in the flow and the packet world: balance and detours around hot racks (Subways sections 5 and 6).

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_control::subways::{DetourConfig, Rebind, Subways, SubwaysConfig};
use weft_fabric::record::Outcome;
use weft_fabric::routing::{Router, Routing};
use weft_fabric::topology::shapes::subways::{RackSize, SubwaysSpec, SubwaysType, Trunk, Uplinks};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::topology::{FabricBuilder, Part};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, HostId, Instant, SwitchId};
use weft_sim::flow::{AimdParams, FlowConfig, FlowWorld, Rates};
use weft_sim::packet::{PacketConfig, PacketWorld, SwitchQueue, Transport};
use weft_sim::world::{Change, TimedEvent};

const GBPS: u64 = 1_000_000_000;

/// Two loops of 12 racks with 5 hosts, p = 2, below two aggregation switches: 10 hosts' NICs on a ToR of 2 x 10 Gbps, 5:1.
/// In the second loop the uplinks are so fast that only the first loop limits.
fn two_loops() -> Arc<Fabric> {
    let mut b = FabricBuilder::new("two loops");
    let tors: Vec<_> = (0..24).map(|i| b.switch(format!("tor{i}"), 1, None)).collect();
    let aggs: Vec<_> = (0..2).map(|i| b.switch(format!("agg{i}"), 2, None)).collect();
    for rack in 0..24usize {
        for i in 0..5 {
            let host = b.host(format!("h{}", rack * 5 + i), None);
            for tor in [rack, rack / 12 * 12 + (rack + 1) % 12] {
                b.cable(host, tors[tor], BitsPerSec(10 * GBPS), Duration::ZERO);
            }
        }
    }
    for (i, &tor) in tors.iter().enumerate() {
        let rate = if i < 12 { 10 } else { 1000 };
        aggs.iter().for_each(|&agg| b.cable(tor, agg, BitsPerSec(rate * GBPS), Duration::ZERO));
    }
    Arc::new(b.build().unwrap())
}

/// Every host of the racks sends to (or, if `inbound`, receives from) every host of two racks of the second loop.
fn flows(racks: &[u32], inbound: bool, bytes: u64) -> Vec<FlowSpec> {
    let hosts = racks.iter().flat_map(|r| r * 5..r * 5 + 5);
    let pairs = hosts.flat_map(|h| (90..120).map(move |far| if inbound { (far, h) } else { (h, far) }));
    let flow =
        |(src, dst)| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Finite(Bytes(bytes)) };
    pairs.map(flow).collect()
}

#[derive(Clone, Copy)]
enum Scheduler {
    Ecmp,
    Adaptive(Rebind),
    Detour,
    /// Detours that may use this part of what remains.
    Capped(f64),
}

fn run(fabric: &Arc<Fabric>, flows: Vec<FlowSpec>, scheduler: Scheduler, events: Vec<TimedEvent>) -> Outcome {
    world(fabric, flows, scheduler, events).run(&mut |_| {})
}

fn world(fabric: &Arc<Fabric>, flows: Vec<FlowSpec>, scheduler: Scheduler, events: Vec<TimedEvent>) -> FlowWorld {
    let detour =
        |usable| SubwaysConfig { detour: Some(DetourConfig { usable, ..DetourConfig::default() }), ..SubwaysConfig::default() };
    let config = match scheduler {
        Scheduler::Ecmp => None,
        Scheduler::Adaptive(rebind) => Some(SubwaysConfig { rebind, ..SubwaysConfig::default() }),
        Scheduler::Detour => Some(detour(DetourConfig::default().usable)),
        Scheduler::Capped(usable) => Some(detour(usable)),
    };
    let controller = config.map(|c| Box::new(Subways::new(Arc::clone(fabric), c).unwrap()) as Box<dyn Controller>);
    FlowWorld {
        fabric: Arc::clone(fabric),
        router: Router::new(Arc::clone(fabric), Routing::default(), 1),
        controller,
        workload: Box::new(StaticWorkload::new(flows)),
        events,
        config: FlowConfig { reconverge: Duration::ZERO, ..FlowConfig::new(Rates::MaxMin, 1) },
    }
}

/// Seconds until the last flow ended.
fn tail(outcome: &Outcome) -> f64 {
    outcome.flows.iter().map(|f| f.end.expect("it ends").as_secs_f64()).fold(0.0, f64::max)
}

/// Bytes up (or, `inbound`, down) between each ToR of the first loop and the aggregation switches.
fn by_tor(fabric: &Fabric, outcome: &Outcome, inbound: bool) -> Vec<u64> {
    (0..12u32)
        .map(|t| {
            let up =
                fabric.out(fabric.switch_node(SwitchId(t))).iter().filter(|&&l| fabric.as_switch(fabric.link(l).to).is_some());
            up.map(|&l| outcome.links[if inbound { l.reverse() } else { l }.index()].bytes.0).sum()
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct Case {
    racks: &'static [u32],
    inbound: bool,
}

const CASES: [Case; 6] = [
    Case { racks: &[3], inbound: false },
    Case { racks: &[3], inbound: true },
    Case { racks: &[3, 4], inbound: false },
    Case { racks: &[3, 4], inbound: true },
    Case { racks: &[3, 4, 5], inbound: false },
    Case { racks: &[3, 4, 5], inbound: true },
];

const MB: u64 = 1_000_000;

/// The baselines (sections 3 and 5) in both worlds: hot racks send what the uplinks of the ToRs that they reach carry. ToRs have one uplink, so switches have nothing to hash. A
/// trunk reaches one ToR a rack, MC-LAG both of a pair of racks, type 1 one more than there are racks.
#[test]
fn trunks_and_mc_lag_carry_the_uplinks_of_their_tors() {
    let link = Cabling { rate: BitsPerSec(GBPS), delay: Duration::ZERO };
    let wirings = [
        (SubwaysType::Type0, Trunk::Packet, [1.0, 2.0]),
        (SubwaysType::Type0, Trunk::Flow, [1.0, 2.0]),
        (SubwaysType::McLag, Trunk::Packet, [2.0, 2.0]),
        (SubwaysType::Type1, Trunk::Packet, [2.0, 3.0]),
    ];
    for (kind, trunk, tors) in wirings {
        let spec = SubwaysSpec {
            rack: RackSize::Servers(2),
            racks_per_cluster: 10,
            tor_uplinks: Uplinks::Count(1),
            clusters: Some(1),
            levels: 2,
            trunk,
            ..SubwaysSpec::new(kind)
        };
        let fabric = Arc::new(Shape::Subways(spec).build(link, link).unwrap());
        for (senders, expected) in [2, 4].into_iter().zip(tors) {
            let pairs = (0..senders).flat_map(|from| (8..18).flat_map(move |to| [(from, to); 2]));
            let flow = |(src, dst)| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Infinite };
            let flows: Vec<FlowSpec> = pairs.map(flow).collect();
            let mut in_flows = world(&fabric, flows.clone(), Scheduler::Ecmp, vec![]);
            in_flows.config.duration = Duration::from_ms(100);
            let FlowWorld { fabric, router, controller, workload, events, .. } = world(&fabric, flows, Scheduler::Ecmp, vec![]);
            let transport = Transport { rto_min: Duration::from_ms(5), ..Transport::default() };
            let (switch_queue, duration) = (SwitchQueue::Fixed(Bytes(200_000)), Duration::from_ms(300));
            let config = PacketConfig { transport, switch_queue, duration, ..PacketConfig::default() };
            let in_packets = PacketWorld { fabric, router, controller, workload, events, config };
            let outcomes =
                [(in_flows.run(&mut |_| {}), 1.0, 1e-6), (in_packets.run(&mut |_| {}).unwrap(), 1460.0 / 1500.0, 0.05)];
            for (outcome, payload, margin) in outcomes {
                let bytes: u64 = outcome.flows.iter().map(|flow| flow.bytes.0).sum();
                let uplinks = bytes as f64 * 8.0 / outcome.ended.as_secs_f64() / (payload * GBPS as f64);
                assert!((uplinks / expected - 1.0).abs() < margin, "{kind:?} {trunk:?}, {senders} senders: {uplinks} uplinks");
            }
        }
    }
}

/// Section 5's example and section 6's: the racks get the bandwidth of so many ToRs. Of racks that are side by side, ECMP gives one ToR
/// between two the load of both; balanced, all ToRs are as busy; detours add 0.6 of two ToRs on either side.
#[test]
fn balance_beats_hashing_and_detours_beat_balance() {
    let fabric = two_loops();
    for case in CASES {
        let bytes = case.racks.len() as f64 * 150.0 * (4 * MB) as f64;
        let tors = |scheduler| {
            let outcome = run(&fabric, flows(case.racks, case.inbound, 4 * MB), scheduler, vec![]);
            (bytes * 8.0 / tail(&outcome) / (20 * GBPS) as f64, outcome)
        };
        let (ecmp, _) = tors(Scheduler::Ecmp);
        let n = case.racks.len() as f64;
        for rebind in [Rebind::Surplus, Rebind::All] {
            let (adaptive, outcome) = tors(Scheduler::Adaptive(rebind));
            let load = by_tor(&fabric, &outcome, case.inbound);
            let busy = &load[3..4 + case.racks.len()];
            let (least, most) = (*busy.iter().min().unwrap() as f64, *busy.iter().max().unwrap() as f64);
            assert!(least > 0.93 * most, "{case:?}: {load:?}");
            assert!(adaptive > 0.88 * (n + 1.0) && adaptive <= n + 1.0, "{case:?}: {adaptive} ToRs");
            assert!(n < 2.0 || adaptive > 1.2 * ecmp, "{case:?}: {adaptive} {ecmp}");
            assert_eq!(load.iter().sum::<u64>(), busy.iter().sum::<u64>(), "no other ToR is used");
            let (detour, outcome) = tors(Scheduler::Detour);
            let load = by_tor(&fabric, &outcome, case.inbound);
            assert!(detour > 1.3 * adaptive, "{case:?}: {detour} {adaptive}");
            // Two servers away on either side, and no further.
            let reached: Vec<usize> = (0..12).filter(|&t| load[t] > 0).collect();
            assert_eq!(reached, (1..6 + case.racks.len()).collect::<Vec<_>>(), "{case:?}: {load:?}");
        }
    }
}

/// With connections that last, every one gets about as much: section 5.1's example, by rebinding.
#[test]
fn connections_of_adjacent_racks_get_equal_portions() {
    let fabric = two_loops();
    let jain = |scheduler| {
        let lasting: Vec<FlowSpec> =
            flows(&[3, 4], false, 0).into_iter().map(|f| FlowSpec { size: Size::Infinite, ..f }).collect();
        let mut world = world(&fabric, lasting, scheduler, vec![]);
        world.config.duration = Duration::from_secs(1);
        let outcome = world.run(&mut |_| {});
        let rates: Vec<f64> = outcome.flows.iter().map(|f| f.bytes.0 as f64).collect();
        let (sum, squares): (f64, f64) = (rates.iter().sum(), rates.iter().map(|r| r * r).sum());
        sum * sum / (rates.len() as f64 * squares)
    };
    let (ecmp, adaptive) = (jain(Scheduler::Ecmp), jain(Scheduler::Adaptive(Rebind::Surplus)));
    // Half of the connections at half the rate of the others: (0.75)^2 / 0.625.
    assert!((ecmp - 0.9).abs() < 0.03, "{ecmp}");
    assert!(adaptive > 0.97, "{adaptive}");
}

/// Section 6: detours get 60 % of what remains of a remote ToR, of its rate and whatever the flows are: these last, and would fill any link.
#[test]
fn detours_keep_their_cap_in_all_worlds() {
    let fabric = two_loops();
    let lasting = |inbound| flows(&[3], inbound, 0).into_iter().map(|f| FlowSpec { size: Size::Infinite, ..f }).collect();
    for (name, world, inbound, usable) in [
        ("max-min", Bounded::Flow(Rates::MaxMin), false, 0.6),
        ("max-min, 5 %", Bounded::Flow(Rates::MaxMin), false, 0.05),
        ("max-min, inbound", Bounded::Flow(Rates::MaxMin), true, 0.6),
        ("AIMD", Bounded::Flow(Rates::Aimd(AimdParams::default())), false, 0.6),
        ("packets", Bounded::Packet, false, 0.6),
        ("packets, 5 %", Bounded::Packet, false, 0.05),
        ("packets, inbound", Bounded::Packet, true, 0.6),
    ] {
        let outcome = world.run(&fabric, lasting(inbound), usable);
        let load = by_tor(&fabric, &outcome, inbound);
        let seconds = outcome.ended.saturating_since(Instant::ZERO).as_secs_f64();
        let gbps: Vec<f64> = load.iter().map(|&bytes| bytes as f64 * 8.0 / seconds / 1e9).collect();
        for tor in [1, 2, 5, 6] {
            // Of 20 Gbps. Detours begin after T_detect, and take a few rounds until enough connections have moved there.
            let cap = usable * 20.0;
            // Less than that, for each of the ToR's two uplinks keeps to its part, and hashing loads them unevenly. At 5 % a server's share is
            // less than the rate of one of its connections elsewhere: some have none on a detour.
            let least = if usable < 0.1 { 0.2 } else { 0.5 };
            assert!((least * cap..1.005 * cap).contains(&gbps[tor]), "{name}: {gbps:?}");
        }
        assert!([3, 4].iter().all(|&tor| gbps[tor] > 19.0), "{name}: {gbps:?}");
    }
}

/// A world for flows that never end.
#[derive(Clone, Copy)]
enum Bounded {
    Flow(Rates),
    Packet,
}

impl Bounded {
    fn run(self, fabric: &Arc<Fabric>, flows: Vec<FlowSpec>, usable: f64) -> Outcome {
        let mut world = world(fabric, flows, Scheduler::Capped(usable), vec![]);
        let duration = Duration::from_ms(200);
        match self {
            Self::Flow(rates) => {
                world.config = FlowConfig { rates, duration, ..world.config };
                world.run(&mut |_| {})
            }
            Self::Packet => {
                let FlowWorld { fabric, router, controller, workload, events, .. } = world;
                let transport = Transport { rto_min: Duration::from_ms(5), ..Transport::default() };
                let (hop_delay, switch_queue) = (Duration::from_us(5), SwitchQueue::Fixed(Bytes(200_000)));
                let config = PacketConfig { transport, duration, hop_delay, switch_queue, ..PacketConfig::default() };
                PacketWorld { fabric, router, controller, workload, events, config }.run(&mut |_| {}).unwrap()
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let fabric = two_loops();
    let once = || run(&fabric, flows(&[3, 4], false, 4 * MB), Scheduler::Detour, vec![]);
    let (a, b) = (once(), once());
    assert_eq!((a.flows, a.links, a.control), (b.flows, b.links, b.control));
}

#[test]
fn a_dead_tor_is_left_and_used_again() {
    let fabric = two_loops();
    for scheduler in [Scheduler::Ecmp, Scheduler::Adaptive(Rebind::Surplus), Scheduler::Detour] {
        // A ToR of the hot racks, and one that detours use.
        for tor in [4u32, 2] {
            let part = Part::Node(fabric.switch_node(SwitchId(tor)));
            let at = |ms| Instant::ZERO + Duration::from_ms(ms);
            let fail = TimedEvent { at: at(30), change: Change::Fail(part) };
            let outcome = run(&fabric, flows(&[3, 4], false, 8 * MB), scheduler, vec![fail]);
            assert!(tail(&outcome) > 0.1);
            let node = fabric.switch_node(SwitchId(tor));
            assert!(
                outcome
                    .flows
                    .iter()
                    .filter(|f| f.end.unwrap() > at(30))
                    .all(|f| f.path.iter().all(|&l| fabric.link(l).from != node && fabric.link(l).to != node))
            );
            let restored = TimedEvent { at: at(60), change: Change::Restore(part) };
            let again = run(&fabric, flows(&[3, 4], false, 8 * MB), scheduler, vec![fail, restored]);
            assert!(tail(&again) < 1.02 * tail(&outcome), "{} {}", tail(&again), tail(&outcome));
        }
    }
}
