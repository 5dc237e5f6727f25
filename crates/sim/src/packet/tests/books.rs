//! Conservation: nothing is lost track of.

use super::*;

/// A fat-tree of k = 4 where every host sends to one across.
fn across(switch_queue: u64, kind: TransportKind) -> (Arc<Fabric>, net::Net) {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(5) };
    let fabric = Arc::new(Shape::FatTree { k: 4 }.build(link, link).unwrap());
    let transport = Transport { kind, rto_min: Duration::from_ms(5), ..Transport::default() };
    let config = PacketConfig { transport, switch_queue: SwitchQueue::Fixed(Bytes(switch_queue)), ..PacketConfig::default() };
    let mut net = config.net(&fabric).unwrap();
    let mut router = Router::new(Arc::clone(&fabric), Routing::default(), 3);
    for flow in 0..32u32 {
        let (src, dst) = (flow % 16, (flow % 16 + 5 + flow / 16) % 16);
        net.add([src, dst], Some(300_000 + u64::from(flow)));
        let key = weft_fabric::routing::FlowKey::of_flow(flow, HostId(src), HostId(dst));
        for subflow in 0..net.subflows {
            let end = (flow * net.subflows + subflow) as usize;
            net.tx[end].route = net.paths.intern(&fabric, &router.route(&key.subflow(subflow)).unwrap());
            net.rx[end].route = net.paths.intern(&fabric, &router.route(&key.subflow(subflow).reverse()).unwrap());
        }
        net.open(flow);
    }
    (fabric, net)
}

/// Runs in steps until nothing is under way, and checks the totals after each.
fn drain(net: &mut net::Net) {
    let (mut ended, mut now) = (vec![], 0);
    while net.is_busy() {
        now = if net.run(now, &mut ended, &mut |_, _| {}) < now { now } else { now + 20_000_000 };
        let totals = net.totals;
        assert_eq!(totals.sent, totals.received + totals.drops + net.packets.under_way() as u64);
    }
    let mut ended: Vec<u32> = ended.iter().map(|e| e.flow).collect();
    ended.sort_unstable();
    assert_eq!(ended, (0..32).collect::<Vec<u32>>());
}

#[test]
fn packets_that_ends_sent_are_received_dropped_or_under_way() {
    for kind in [TransportKind::NewReno, TransportKind::Dctcp, TransportKind::Mptcp { subflows: 3 }] {
        let (fabric, mut net) = across(15_000, kind);
        drain(&mut net);
        let by_port: u64 = (0..fabric.links().len() as u32).map(|l| u64::from(net.ports.drops(l))).sum();
        assert!(net.totals.drops > 0 && net.totals.drops == by_port, "{kind:?}");
        assert_eq!((net.packets.under_way(), net.totals.sent), (0, net.totals.received + net.totals.drops));
        let segments: u64 = (0..32u64).map(|f| (300_000 + f).div_ceil(1460)).sum();
        assert_eq!(net.totals.delivered, segments);
    }
}

#[test]
fn what_comes_to_a_switch_leaves_it() {
    let (fabric, mut net) = across(10_000_000, TransportKind::NewReno);
    drain(&mut net);
    assert_eq!(net.totals.drops, 0);
    for switch in fabric.switches() {
        let node = fabric.switch_node(switch);
        let bytes = |l: &weft_fabric::LinkId| net.ports.bytes(l.0);
        let out: u64 = fabric.out(node).iter().map(bytes).sum();
        let came: u64 = fabric.out(node).iter().map(|l| bytes(&l.reverse())).sum();
        assert_eq!(out, came);
    }
    // What hosts sent: all segments once, with headers, and for each an acknowledgement; a SYN and its answer.
    let sent: u64 = fabric.hosts().map(|h| net.ports.bytes(fabric.out(h.node())[0].0)).sum();
    let flow = |f: u64| 300_000 + f + (300_000 + f).div_ceil(1460) * 80 + 80;
    assert_eq!(sent, (0..32).map(flow).sum::<u64>());
}
