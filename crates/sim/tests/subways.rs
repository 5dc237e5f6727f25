//! Subways' controllers in the flow world: balance and detours around hot racks (Subways sections 5 and 6).

use std::sync::Arc;

use weft_control::controller::Controller;
use weft_control::subways::{DetourConfig, Rebind, Subways, SubwaysConfig};
use weft_fabric::record::Outcome;
use weft_fabric::routing::{Router, Routing};
use weft_fabric::topology::{FabricBuilder, Part};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, HostId, Instant, SwitchId};
use weft_sim::flow::{Change, FlowConfig, FlowWorld, Rates, TimedEvent};

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
    let pairs = hosts.flat_map(|h| (90..100).map(move |far| if inbound { (far, h) } else { (h, far) }));
    let flow =
        |(src, dst)| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Finite(Bytes(bytes)) };
    pairs.map(flow).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Scheduler {
    Ecmp,
    Adaptive(Rebind),
    Detour,
}

fn run(fabric: &Arc<Fabric>, flows: Vec<FlowSpec>, scheduler: Scheduler, events: Vec<TimedEvent>) -> Outcome {
    let config = match scheduler {
        Scheduler::Ecmp => None,
        Scheduler::Adaptive(rebind) => Some(SubwaysConfig { rebind, ..SubwaysConfig::default() }),
        Scheduler::Detour => Some(SubwaysConfig { detour: Some(DetourConfig::default()), ..SubwaysConfig::default() }),
    };
    let controller = config.map(|c| Box::new(Subways::new(Arc::clone(fabric), c).unwrap()) as Box<dyn Controller>);
    let world = FlowWorld {
        fabric: Arc::clone(fabric),
        router: Router::new(Arc::clone(fabric), Routing::default(), 1),
        controller,
        workload: Box::new(StaticWorkload::new(flows)),
        events,
        config: FlowConfig { reconverge: Duration::ZERO, ..FlowConfig::new(Rates::MaxMin, 1) },
    };
    world.run(&mut |_| {})
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

#[test]
fn print_all() {
    let fabric = two_loops();
    for racks in [&[3u32][..], &[3, 4], &[3, 4, 5], &[3, 4, 5, 6]] {
        for inbound in [false, true] {
            let mb = 12_000_000;
            let bytes = racks.len() as f64 * 50.0 * mb as f64;
            for s in [Scheduler::Ecmp, Scheduler::Adaptive(Rebind::Surplus), Scheduler::Adaptive(Rebind::All), Scheduler::Detour]
            {
                let o = run(&fabric, flows(racks, inbound, mb), s, vec![]);
                let by: Vec<u64> = by_tor(&fabric, &o, inbound).iter().map(|b| b / 1_000_000).collect();
                println!(
                    "{racks:?} in={inbound} tail {:.4} ToRs worth {:.2} moves {} rounds {} det {} {:?}",
                    tail(&o),
                    bytes * 8.0 / tail(&o) / 20e9,
                    o.control.moves,
                    o.control.rounds,
                    o.control.detours,
                    by
                );
            }
        }
    }
}

#[test]
fn print_packets() {
    use weft_sim::packet::{PacketConfig, PacketWorld};
    let fabric = two_loops();
    for racks in [&[3u32][..], &[3, 4], &[3, 4, 5]] {
        let mb = 12_000_000;
        let bytes = racks.len() as f64 * 50.0 * mb as f64;
        for (name, config) in [
            ("ecmp", None),
            ("surplus", Some(SubwaysConfig::default())),
            ("all", Some(SubwaysConfig { rebind: Rebind::All, ..SubwaysConfig::default() })),
            ("detour", Some(SubwaysConfig { detour: Some(DetourConfig::default()), ..SubwaysConfig::default() })),
            (
                "detour all",
                Some(SubwaysConfig { rebind: Rebind::All, detour: Some(DetourConfig::default()), ..SubwaysConfig::default() }),
            ),
        ] {
            let controller = config.map(|c| Box::new(Subways::new(Arc::clone(&fabric), c).unwrap()) as Box<dyn Controller>);
            let world = PacketWorld {
                fabric: Arc::clone(&fabric),
                router: Router::new(Arc::clone(&fabric), Routing::default(), 1),
                controller,
                workload: Box::new(StaticWorkload::new(flows(racks, false, mb))),
                events: vec![],
                config: PacketConfig { hop_delay: Duration::from_us(60), ..PacketConfig::default() },
            };
            let o = world.run(&mut |_| {}).unwrap().0;
            let by: Vec<u64> = by_tor(&fabric, &o, false).iter().map(|b| b / 1_000_000).collect();
            let mean = o.flows.iter().map(|f| f.end.unwrap().as_secs_f64()).sum::<f64>() / o.flows.len() as f64;
            println!(
                "{racks:?} {name} tail {:.4} mean {mean:.4} ToRs worth {:.2} moves {} rounds {} retr {} drops {} {:?}",
                tail(&o),
                bytes * 8.0 / tail(&o) / 20e9,
                o.control.moves,
                o.control.rounds,
                o.packets.as_ref().unwrap().retransmits,
                o.packets.as_ref().unwrap().drops,
                by
            );
        }
    }
}
