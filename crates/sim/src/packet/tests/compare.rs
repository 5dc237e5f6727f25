//! The engine against the reference: the same to the picosecond and the byte.

use super::*;

fn check(case: &Case) -> Outcome {
    let (fast, slow) = (case.engine(), case.reference());
    let Case { fabric, flows, events, config, routing, seed } = case;
    // In one line, so that a case that is seen once can be run again.
    assert!(
        fast.flows == slow.flows,
        "{}: {flows:?} {events:?} {config:?} {routing:?} {seed}: {:?}, not {:?}",
        fabric.title(),
        fast.flows,
        slow.flows
    );
    assert_eq!(fast.links, slow.links);
    assert_eq!(fast.link_series, slow.link_series);
    assert_eq!(fast.samples, slow.samples);
    assert_eq!(fast.ended, slow.ended);
    assert_eq!(fast.packets, slow.packets);
    fast
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 96 / 256))]
    #[test]
    fn is_what_the_reference_is(case in cases()) {
        check(&case);
    }
}

/// Many flows at once on a fat-tree, with small queues: losses, recoveries and timeouts by the thousand.
#[test]
fn is_what_the_reference_is_under_load() {
    let link = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(1) };
    let fabric = Arc::new(Shape::FatTree { k: 4 }.build(link, link).unwrap());
    let flow = |i: u32| FlowSpec {
        src: HostId(i % 16),
        dst: HostId((i * 7 + 3 + i % 16) % 16),
        start: Instant::from_ps(u64::from(i) * 1_000_003),
        size: Size::Finite(Bytes(u64::from(i) * 20_011)),
    };
    let flows: Vec<FlowSpec> = (0..64).map(flow).filter(|f| f.src != f.dst).collect();
    let aggregation = fabric.node_by_name("agg0").unwrap();
    let at = |ms, change| TimedEvent { at: Instant::ZERO + Duration::from_ms(ms), change };
    let events = vec![at(1, Change::Fail(Part::Node(aggregation))), at(4, Change::Restore(Part::Node(aggregation)))];
    let ms = Some(Duration::from_ms(1));
    let flowlet = RoutingKind::Flowlet { gap: Duration::from_us(20) };
    let choosing = [
        (TransportKind::NewReno, Recovery::NewReno, false, None, RoutingKind::Spray),
        (TransportKind::NewReno, Recovery::Rack, false, None, RoutingKind::Spray),
        (TransportKind::Dctcp, Recovery::NewReno, false, ms, RoutingKind::Spray),
        (TransportKind::NewReno, Recovery::NewReno, false, ms, flowlet),
        (TransportKind::Cubic, Recovery::Rack, true, None, flowlet),
    ];
    let plain = [
        (TransportKind::NewReno, Recovery::NewReno, false, None),
        (TransportKind::NewReno, Recovery::NewReno, false, ms),
        (TransportKind::NewReno, Recovery::Sack, false, None),
        (TransportKind::NewReno, Recovery::Rack, true, ms),
        (TransportKind::Dctcp, Recovery::NewReno, false, None),
        (TransportKind::Dctcp, Recovery::Rack, false, None),
        (TransportKind::Cubic, Recovery::NewReno, true, None),
        (TransportKind::Cubic, Recovery::Sack, false, ms),
        (TransportKind::Cubic, Recovery::Rack, false, None),
        (TransportKind::Mptcp { subflows: 4 }, Recovery::NewReno, false, None),
        (TransportKind::Mptcp { subflows: 4 }, Recovery::Rack, false, None),
    ];
    let plain = plain.map(|(kind, recovery, pacing, delayed_ack)| (kind, recovery, pacing, delayed_ack, RoutingKind::Ecmp));
    for (kind, recovery, pacing, delayed_ack, routing) in plain.into_iter().chain(choosing) {
        let transport = Transport { kind, recovery, pacing, delayed_ack, rto_min: Duration::from_ms(2), ..Transport::default() };
        let config = PacketConfig {
            transport,
            switch_queue: SwitchQueue::Fixed(Bytes(20_000)),
            host_jitter: Some(Duration::ZERO),
            reconverge: Duration::from_ms(1),
            duration: Duration::from_secs(5),
            ..PacketConfig::default()
        };
        let case = Case { fabric: Arc::clone(&fabric), flows: flows.clone(), events: events.clone(), config, routing, seed: 7 };
        let outcome = check(&case);
        assert!(outcome.flows.iter().all(|f| f.end.is_some()), "{kind:?}, {recovery:?}, {routing:?}");
        let totals = outcome.packets.unwrap();
        assert!(totals.drops > 100 && totals.retransmits > 100, "{kind:?}, {recovery:?}, {routing:?}: {totals:?}");
        let reordered: u32 = outcome.flows.iter().filter_map(|f| f.packets).map(|p| p.reordered).sum();
        assert!(routing != RoutingKind::Spray || reordered > 100, "{kind:?}, {recovery:?}, {routing:?}: {reordered}");
    }
}
