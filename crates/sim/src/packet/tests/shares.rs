//! MPTCP beside TCP on one bottleneck: linked increases do no harm (RFC 6356 section 2).

use weft_fabric::routing::FlowKey;

use super::*;

/// Hosts 0 and 1 send for ever to 2 and 3 over one link of 1 Gbps. Host 0 has an MPTCP connection of so many subflows, host 1 plain TCP.
/// Hosts hand packets over up to `jitter` later. Returns the part of what arrives in 10 s that is host 0's.
fn part_of_linked(subflows: u32, jitter: Option<Duration>, delay_us: u64, queue: u64) -> f64 {
    let fabric = dumbbell(delay_us);
    let mut net = config(TransportKind::Mptcp { subflows }, jitter, queue).net(&fabric).unwrap();
    for flow in 0..2 {
        net.add([flow, flow + 2], None);
        // Plain TCP: the other subflows have no path, their handshakes never end, and without siblings the increase is that of TCP.
        for subflow in 0..if flow == 0 { subflows } else { 1 } {
            connect(&mut net, &fabric, flow * subflows + subflow, &FlowKey::of_flow(flow, HostId(flow), HostId(flow + 2)));
        }
        net.open(flow);
    }
    let [linked, plain] = delivered(&mut net)[..] else { unreachable!("two flows") };
    linked / (linked + plain)
}

/// The same with plain TCP connections in the place of subflows.
fn part_of_unlinked(connections: u32, jitter: Option<Duration>, delay_us: u64, queue: u64) -> f64 {
    let fabric = dumbbell(delay_us);
    let mut net = config(TransportKind::NewReno, jitter, queue).net(&fabric).unwrap();
    for flow in 0..=connections {
        let src = u32::from(flow == connections);
        net.add([src, src + 2], None);
        connect(&mut net, &fabric, flow, &FlowKey::of_flow(flow, HostId(src), HostId(src + 2)));
        net.open(flow);
    }
    let all = delivered(&mut net);
    all[..connections as usize].iter().sum::<f64>() / all.iter().sum::<f64>()
}

/// h0, h1 - switch - switch - h2, h3: 10, 1 and 10 Gbps.
fn dumbbell(delay_us: u64) -> Arc<Fabric> {
    let link = |gbps: u64| Cabling { rate: BitsPerSec(gbps * 1_000_000_000), delay: Duration::from_us(delay_us) };
    Arc::new(Shape::Clique { switches: 2, hosts_per_switch: 2 }.build(link(10), link(1)).unwrap())
}

fn config(kind: TransportKind, host_jitter: Option<Duration>, queue: u64) -> PacketConfig {
    let transport = Transport { kind, rto_min: Duration::from_ms(20), ..Transport::default() };
    PacketConfig { transport, host_jitter, switch_queue: SwitchQueue::Fixed(Bytes(queue)), ..PacketConfig::default() }
}

fn connect(net: &mut net::Net, fabric: &Arc<Fabric>, end: u32, key: &FlowKey) {
    let mut router = Router::new(Arc::clone(fabric), Routing::default(), 1);
    net.tx[end as usize].route = net.paths.intern(fabric, &router.route(key).unwrap());
    net.rx[end as usize].route = net.paths.intern(fabric, &router.route(&key.reverse()).unwrap());
}

/// Segments of each flow in the ten seconds after the first.
fn delivered(net: &mut net::Net) -> Vec<f64> {
    let flows = net.tx.len() as u32 / net.subflows;
    let mut until = |s| {
        net.run(Duration::from_secs(s).as_ps(), &mut vec![], &mut |_, _| {});
        (0..flows).map(|flow| net.delivered(flow) as f64).collect::<Vec<_>>()
    };
    let (before, after) = (until(1), until(11));
    let segments: Vec<f64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    let full = 1e10 / 12_000.0;
    assert!(segments.iter().sum::<f64>() > 0.95 * full, "the link rests: {segments:?}");
    segments
}

/// Delays of a link in microseconds, and queues in bytes.
const BOTTLENECKS: [(u64, u64); 3] = [(20, 150_000), (100, 150_000), (400, 300_000)];

#[test]
fn two_subflows_take_no_more_than_about_one_tcp() {
    for (delay, queue) in BOTTLENECKS {
        let part = part_of_linked(2, None, delay, queue);
        assert!((0.35..0.65).contains(&part), "{delay} us, {queue} B: {part}");
    }
}

/// Whose packets a full queue drops depends on when they come: with a jitter of some packet times of the bottleneck it depends less.
#[test]
fn two_subflows_take_as_much_as_one_tcp_where_queues_drop_evenly() {
    let jitter = Some(Duration::from_us(50));
    for (delay, queue) in BOTTLENECKS {
        let (linked, unlinked) = (part_of_linked(2, jitter, delay, queue), part_of_unlinked(2, jitter, delay, queue));
        assert!((0.45..0.55).contains(&linked), "{delay} us, {queue} B: {linked}");
        assert!(unlinked > 0.6, "{delay} us, {queue} B: two connections that are not linked take two of three parts: {unlinked}");
    }
}
