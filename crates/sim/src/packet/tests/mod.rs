//! The engine from inside: against the slow reference, and its books.

mod books;
mod compare;
mod parts;
mod shares;

use std::sync::Arc;

use proptest::prelude::*;
use weft_fabric::record::Outcome;
use weft_fabric::routing::{Router, Routing, RoutingKind};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::topology::{Fabric, Part};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, CableId, Duration, HostId, Instant};

use super::*;
use crate::world::{Change, Model, Overlay};

/// A fabric, flows and failures, without a model.
#[derive(Clone, Debug)]
struct Case {
    fabric: Arc<Fabric>,
    flows: Vec<FlowSpec>,
    events: Vec<TimedEvent>,
    config: PacketConfig,
    routing: RoutingKind,
    seed: u64,
}

impl Case {
    fn run(&self, model: impl Model) -> Outcome {
        let PacketConfig { duration, reconverge, restore_delay, link_samples, ref overlay, .. } = self.config;
        let parts = Parts {
            fabric: Arc::clone(&self.fabric),
            router: Router::new(Arc::clone(&self.fabric), Routing { kind: self.routing, ..Routing::default() }, self.seed),
            controller: None,
            workload: Box::new(StaticWorkload::new(self.flows.clone())),
            events: self.events.clone(),
            reconverge,
            restore_delay,
            link_samples,
            overlay: overlay.clone(),
        };
        let pace = Pace { end: Instant::ZERO.saturating_add(duration), ..Pace::default() };
        world::run(parts, model, pace, &mut |_| {})
    }

    fn engine(&self) -> Outcome {
        let net = self.config.net(&self.fabric).unwrap();
        self.run(model::PacketModel::new(Arc::clone(&self.fabric), model::Engine::One(Box::new(net))))
    }

    fn reference(&self) -> Outcome {
        self.run(reference::Reference::new(&self.fabric, &self.config))
    }
}

/// Fabrics of a few tens of hosts, their links of rates that divide a byte's time and of rates that do not.
fn fabrics() -> impl Strategy<Value = Arc<Fabric>> {
    let shapes = prop_oneof![
        Just(Shape::FatTree { k: 4 }),
        Just(Shape::ClosExplicit { intermediates: 3, aggregations: 3, tors: 4, uplinks_per_tor: 2, hosts_per_tor: 3 }),
        Just(Shape::Tree {
            tors: 4,
            hosts_per_tor: 4,
            tors_per_pod: Some(2),
            redundancy: 2,
            tor_oversubscription: 3.0,
            top_oversubscription: 5.0
        }),
        Just(Shape::Clique { switches: 4, hosts_per_switch: 3 }),
        Just(Shape::Switch { hosts: 6 }),
    ];
    let cabling = || {
        let rate = prop::sample::select(vec![100, 1_000, 3_000, 7_777, 10_000, 40_000]);
        (rate, 0u64..30_000_000)
            .prop_map(|(mbps, ps)| Cabling { rate: BitsPerSec(mbps * 1_000_000), delay: Duration::from_ps(ps) })
    };
    (shapes, cabling(), cabling()).prop_map(|(shape, host, fabric)| Arc::new(shape.build(host, fabric).unwrap()))
}

/// Flows between different hosts; about one in ten never ends, and as many are empty.
fn flows(hosts: u32) -> impl Strategy<Value = Vec<FlowSpec>> {
    let size = prop_oneof![
        1 => Just(Size::Infinite),
        1 => Just(Size::Finite(Bytes(0))),
        4 => (0u64..20_000).prop_map(|b| Size::Finite(Bytes(b))),
        5 => (0u64..400_000).prop_map(|b| Size::Finite(Bytes(b))),
    ];
    let start = prop_oneof![Just(0u64), 0u64..3_000_000_000];
    let flow = (0..hosts, 1..hosts, start, size).prop_map(move |(src, further, start, size)| FlowSpec {
        src: HostId(src),
        dst: HostId((src + further) % hosts),
        start: Instant::from_ps(start),
        size,
    });
    prop::collection::vec(flow, 1..25)
}

fn changes(fabric: &Fabric) -> impl Strategy<Value = Vec<TimedEvent>> + use<> {
    let cables = fabric.cables().len() as u32;
    let switches: Vec<_> = fabric.switches().map(|s| fabric.switch_node(s)).collect();
    let part = prop_oneof![4 => (0..cables).prop_map(|c| Part::Cable(CableId(c))), 1 => prop::sample::select(switches).prop_map(Part::Node)];
    let pair = (part, 0u64..6_000_000_000, 1u64..20_000_000_000, any::<bool>()).prop_map(|(part, at, later, silent)| {
        let change = if silent { Change::FailSilent(part) } else { Change::Fail(part) };
        let event = |at, change| TimedEvent { at: Instant::from_ps(at), change };
        [event(at, change), event(at + later, Change::Restore(part))]
    });
    prop_oneof![Just(vec![]), prop::collection::vec(pair, 0..4).prop_map(|pairs| pairs.concat())]
}

fn configs() -> impl Strategy<Value = PacketConfig> {
    let kind = prop_oneof![
        3 => Just(TransportKind::NewReno),
        1 => Just(TransportKind::Dctcp),
        1 => Just(TransportKind::Cubic),
        1 => (2u32..5).prop_map(|subflows| TransportKind::Mptcp { subflows }),
    ];
    let recovery = prop::sample::select(vec![Recovery::NewReno, Recovery::Sack, Recovery::Rack]);
    let kind = (kind, recovery, any::<bool>());
    let transport =
        (kind, 1u64..2000, 1u32..20, any::<bool>(), prop::option::of(1u64..40)).prop_map(|(kind, mss, window, delays, max)| {
            let (kind, recovery, pacing) = kind;
            let transport = Transport {
                kind,
                recovery,
                pacing,
                mss: Bytes(mss.max(200)),
                initial_window: window,
                rto_min: Duration::from_us(mss),
                rto_initial: Duration::from_ms(20),
                delayed_ack: delays.then_some(Duration::from_us(500)),
                ..Transport::default()
            };
            Transport { max_window: max.map(|w| Bytes(w * transport.mss.0)), ..transport }
        });
    let switch = prop_oneof![
        2 => (2_300u64..60_000).prop_map(|size| SwitchQueue::Fixed(Bytes(size))),
        1 => Just(SwitchQueue::BandwidthDelay),
        1 => Just(SwitchQueue::default()),
        // A full packet must fit: with an alpha of a half a port holds a third.
        3 => (7_000u64..100_000, 0.5f64..4.0).prop_map(|(size, alpha)| SwitchQueue::Shared { buffer: Some(Bytes(size)), alpha }),
    ];
    let queues = (switch, prop::option::of(2_300u64..300_000), prop::option::of(0u64..20_000));
    (transport, queues, 0u64..2_000_000, 1u64..50_000).prop_map(|(transport, (switch, nic, mark), hop, us)| PacketConfig {
        transport,
        switch_queue: switch,
        nic_queue: nic.map(Bytes),
        ecn_threshold: mark.map(Bytes),
        host_jitter: Some(Duration::ZERO),
        hop_delay: Duration::from_ps(hop),
        duration: Duration::from_us(us),
        reconverge: Duration::from_ms(2),
        restore_delay: Duration::from_ms(1),
        link_samples: 20,
        ..PacketConfig::default()
    })
}

fn routings() -> impl Strategy<Value = RoutingKind> {
    prop_oneof![
        4 => Just(RoutingKind::Ecmp),
        2 => Just(RoutingKind::Spray),
        3 => (0u64..500).prop_map(|us| RoutingKind::Flowlet { gap: Duration::from_us(us) }),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    fabrics().prop_flat_map(|fabric| {
        let hosts = fabric.host_count() as u32;
        let all = (flows(hosts), changes(&fabric), configs(), routings(), any::<u64>());
        all.prop_map(move |(flows, events, config, routing, seed)| {
            // Subflows have a path of their own.
            let is_plain = matches!(config.transport.kind, TransportKind::Mptcp { .. });
            let routing = if is_plain { RoutingKind::Ecmp } else { routing };
            let us = [0, 300][(seed % 2) as usize];
            let overlay = Overlay { rehash: seed % 3 == 0, lookup: Duration::from_us(us), services: None };
            let config = PacketConfig { overlay, ..config };
            Case { fabric: Arc::clone(&fabric), flows, events, config, routing, seed }
        })
    })
}
