//! The caller can end a run: progress is reported often, within long steps too, and the callback may unwind.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use weft_fabric::routing::{Router, Routing};
use weft_fabric::topology::Fabric;
use weft_fabric::topology::shapes::{Cabling, fat_tree};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Duration, HostId, Instant};
use weft_sim::flow::{AimdParams, FlowConfig, FlowWorld, Rates};
use weft_sim::packet::{PacketConfig, PacketWorld, Transport, TransportKind};
use weft_sim::world::Progress;

fn fabric() -> Arc<Fabric> {
    Arc::new(fat_tree(4, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(5) }).unwrap())
}

fn router(fabric: &Arc<Fabric>) -> Router {
    Router::new(Arc::clone(fabric), Routing::default(), 1)
}

/// Every host sends to one across, for ever.
fn endless() -> Box<StaticWorkload> {
    let flow = |h: u32| FlowSpec { src: HostId(h), dst: HostId((h + 5) % 16), start: Instant::ZERO, size: Size::Infinite };
    Box::new(StaticWorkload::new((0..16).map(flow).collect()))
}

/// Ends a run after four progress reports, by unwinding; returns the gaps between the reports, in events.
fn reports_until_ended<T>(run: impl FnOnce(&mut dyn FnMut(Progress)) -> T) -> Vec<u64> {
    let mut reported = vec![0];
    let run = AssertUnwindSafe(|| {
        run(&mut |p| {
            reported.push(p.events);
            if reported.len() > 4 {
                resume_unwind(Box::new("enough"));
            }
        });
    });
    let ended = catch_unwind(run).expect_err("it would go on for a long time");
    assert_eq!(ended.downcast_ref(), Some(&"enough"));
    reported.windows(2).map(|w| w[1] - w[0]).collect()
}

#[test]
fn a_run_of_packets_can_be_ended_within_its_steps() {
    // One engine, and engines in step; an hour of simulated time is a single step of the loop.
    for (kind, threads) in [(TransportKind::Mptcp { subflows: 2 }, 1), (TransportKind::NewReno, 1), (TransportKind::NewReno, 2)] {
        let fabric = fabric();
        let config = PacketConfig {
            transport: Transport { kind, ..Transport::default() },
            duration: Duration::from_secs(3_600),
            link_samples: 0,
            threads,
            ..PacketConfig::default()
        };
        let (router, controller, events) = (router(&fabric), None, Vec::new());
        let world = PacketWorld { fabric, router, controller, workload: endless(), events, config };
        let gaps = reports_until_ended(|progress| world.run(progress));
        assert!(gaps.iter().all(|&events| events < 1 << 20), "{kind:?}, {threads} threads: {gaps:?}");
    }
}

#[test]
fn a_run_of_ticks_can_be_ended_within_its_steps() {
    let fabric = fabric();
    // A day of ticks has 6,000 samples: between two of them there are more updates than between two looks.
    let config = FlowConfig {
        duration: Duration::from_secs(86_400),
        link_samples: 0,
        ..FlowConfig::new(Rates::Aimd(AimdParams::default()), 1)
    };
    let (router, controller, events) = (router(&fabric), None, Vec::new());
    let world = FlowWorld { fabric, router, controller, workload: endless(), events, config };
    let gaps = reports_until_ended(|progress| world.run(progress));
    assert!(gaps.iter().all(|&updates| updates < 1 << 21), "{gaps:?}");
}
