//! The packet world from outside: closed forms, agreement with the flow world, determinism, requests.

use std::sync::Arc;

use weft_fabric::record::Outcome;
use weft_fabric::routing::{FlowKey, Router, Routing, RoutingKind};
use weft_fabric::topology::Fabric;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, RequestLoad, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, HostId, Instant, NodeId};
use weft_sim::flow::{FlowConfig, FlowWorld, Rates};
use weft_sim::packet::{PacketConfig, PacketWorld, Requests, SwitchQueue, Transport, TransportKind};
use weft_sim::world::{Change, Overlay, TimedEvent};

const GBPS: u64 = 1_000_000_000;
/// Sending times in picoseconds of a full packet and of one without payload, at 1 and at 10 Gbps.
const FULL: u64 = 12_000_000;
const BARE: u64 = 320_000;
const FULL_10: u64 = FULL / 10;
const BARE_10: u64 = BARE / 10;
const US: u64 = 1_000_000;

fn links(gbps: u64, delay_us: u64) -> Cabling {
    Cabling { rate: BitsPerSec(gbps * GBPS), delay: Duration::from_us(delay_us) }
}

/// Hosts of 1 Gbps on one switch.
fn star(hosts: u32, delay_us: u64) -> Arc<Fabric> {
    let link = links(1, delay_us);
    Arc::new(Shape::Switch { hosts }.build(link, link).unwrap())
}

/// host - switch - switch - host: 10, 1 and 10 Gbps.
fn narrow(delay_us: u64) -> Arc<Fabric> {
    let shape = Shape::Clique { switches: 2, hosts_per_switch: 1 };
    Arc::new(shape.build(links(10, delay_us), links(1, delay_us)).unwrap())
}

fn flow(src: u32, dst: u32, bytes: u64) -> FlowSpec {
    FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Finite(Bytes(bytes)) }
}

fn endless(src: u32, dst: u32) -> FlowSpec {
    FlowSpec { size: Size::Infinite, ..flow(src, dst, 0) }
}

/// Hosts without jitter, so that times are exact.
fn config(switch_queue: u64, initial_window: u32) -> PacketConfig {
    let transport = Transport { initial_window, ..Transport::default() };
    PacketConfig {
        transport,
        switch_queue: SwitchQueue::Fixed(Bytes(switch_queue)),
        host_jitter: Some(Duration::ZERO),
        ..PacketConfig::default()
    }
}

fn run(fabric: &Arc<Fabric>, flows: Vec<FlowSpec>, config: PacketConfig) -> Outcome {
    let world = PacketWorld {
        fabric: Arc::clone(fabric),
        router: Router::new(Arc::clone(fabric), Routing::default(), 1),
        controller: None,
        workload: Box::new(StaticWorkload::new(flows)),
        events: Vec::new(),
        config,
    };
    world.run(&mut |_| {}).unwrap()
}

fn ends(outcome: &Outcome) -> Vec<u64> {
    outcome.flows.iter().map(|f| f.end.expect("it ended").as_ps()).collect()
}

fn name(fabric: &Fabric, link: usize) -> String {
    fabric.link_name(weft_fabric::LinkId(link as u32))
}

/// Drops by link, where there were any.
fn drops(fabric: &Fabric, outcome: &Outcome) -> Vec<(String, u64)> {
    let dropping = outcome.links.iter().filter(|l| l.drops > 0);
    dropping.map(|l| (name(fabric, l.id.index()), l.drops)).collect()
}

/// Over the star, from the SYN to the answer to it.
const fn handshake(delay: u64) -> u64 {
    4 * (BARE + delay)
}

#[test]
fn one_byte_takes_a_handshake_and_a_way() {
    // 41 bytes over two links.
    let outcome = run(&star(2, 7), vec![flow(0, 1, 1)], config(150_000, 10));
    assert_eq!(ends(&outcome), [handshake(7 * US) + 2 * (41 * 8_000 + 7 * US)]);
    // SYN, its answer, the segment; the acknowledgement has left the NIC.
    assert_eq!(outcome.packets.unwrap().hops, 3 * 2 + 1);
    assert_eq!((outcome.links[0].bytes, outcome.flows[0].bytes), (Bytes(40 + 41), Bytes(1)));
}

#[test]
fn a_flow_that_fills_its_link_takes_its_packets_time() {
    // The window opens before the first ten packets have left, so that the NIC never rests.
    let (delay, n) = (US, 500);
    let outcome = run(&star(2, 1), vec![flow(0, 1, n * 1460)], config(150_000, 10));
    assert_eq!(ends(&outcome), [handshake(delay) + n * FULL + delay + FULL + delay]);
    // A short last segment waits for the one before it.
    let outcome = run(&star(2, 1), vec![flow(0, 1, n * 1460 + 60)], config(150_000, 10));
    assert_eq!(ends(&outcome), [handshake(delay) + n * FULL + delay + FULL + 800_000 + delay]);
}

#[test]
fn slow_start_over_a_long_link_takes_rounds() {
    // 10 + 20 + 40 + 30 segments, 10 ms a link: a packet in flight is always nearer than the next round.
    let delay = 10_000 * US;
    let outcome = run(&star(2, 10_000), vec![flow(0, 1, 100 * 1460)], config(1_000_000, 10));
    let round = FULL + 2 * BARE + 4 * delay; // from leaving the NIC to the acknowledgement
    let first = handshake(delay) + FULL;
    let last = first + 3 * round + 2 * FULL + 30 * FULL;
    assert_eq!(ends(&outcome), [last + delay + FULL + delay]);
    assert_eq!(outcome.packets.unwrap().retransmits, 0);
}

#[test]
fn the_narrowest_link_paces_a_flow() {
    let (delay, n) = (3 * US, 150);
    let outcome = run(&narrow(3), vec![flow(0, 1, n * 1460)], config(10_000_000, 1_000));
    let handshake = 2 * (3 * delay + 2 * BARE_10 + BARE);
    assert_eq!(ends(&outcome), [handshake + FULL_10 + delay + n * FULL + delay + FULL_10 + delay]);
}

#[test]
fn a_full_queue_drops_what_does_not_fit() {
    // 100 packets at 10 Gbps into a queue of 20 before a link of 1 Gbps. Packet k comes when 1.2k us of the m accepted before it, 12m us,
    // have been sent, and fits while 12m - 1.2k + 12 <= 240.
    let mut accepted = 0u64;
    for k in 0..100 {
        accepted += u64::from(10 * 12 * accepted + 120 <= 2_400 + 12 * k);
    }
    assert_eq!(accepted, 29);
    let fabric = narrow(1_000);
    // Acknowledgements are 6 ms away.
    let config = PacketConfig { duration: Duration::from_ms(10), ..config(30_000, 100) };
    let outcome = run(&fabric, vec![flow(0, 1, 100 * 1460)], config.clone());
    assert_eq!(drops(&fabric, &outcome), [("switch0-switch1".replace("switch", "edge"), 100 - accepted)]);
    // All of it arrives in the end, each lost segment sent again.
    let outcome = run(&fabric, vec![flow(0, 1, 100 * 1460)], PacketConfig { duration: Duration::MAX, ..config });
    let totals = outcome.packets.unwrap();
    assert!(totals.drops >= 71 && totals.retransmits >= totals.drops);
    assert_eq!(outcome.flows[0].bytes, Bytes(146_000));
}

#[test]
fn the_nics_queue_drops_too() {
    let fabric = star(2, 1_000);
    let config = PacketConfig { nic_queue: Some(Bytes(15_000)), duration: Duration::from_ms(6), ..config(1_000_000, 30) };
    let outcome = run(&fabric, vec![flow(0, 1, 30 * 1460)], config);
    assert_eq!(drops(&fabric, &outcome), [("h0-switch0".to_owned(), 20)]);
}

/// A host hands over what its NIC takes, as Linux does: nothing is lost there, and a lone flow keeps its path busy, with default settings.
#[test]
fn a_lone_flow_takes_its_closed_form_at_any_rate() {
    for (mbps, segments) in [(10, 2_000u64), (1_000, 3_425), (1_000, 360_000), (100_000, 60_000), (400_000, 200_000)] {
        for kind in [TransportKind::NewReno, TransportKind::Dctcp] {
            let link = Cabling { rate: BitsPerSec(mbps * 1_000_000), delay: Duration::from_us(1) };
            let fabric = Arc::new(Shape::Clique { switches: 2, hosts_per_switch: 1 }.build(link, link).unwrap());
            let config = PacketConfig { transport: Transport { kind, ..Transport::default() }, ..PacketConfig::default() };
            let outcome = run(&fabric, vec![flow(0, 1, segments * 1460)], config);
            let (full, bare) = (FULL * 1_000 / mbps, BARE * 1_000 / mbps);
            // Slow start: the path holds so many packets, and rounds until the window does leave gaps of a round trip at most.
            let round = 2 * 3 * (US + bare) + 3 * full;
            let rounds = (round / full / 10).checked_ilog2().map_or(0, |n| u64::from(n) + 1);
            let closed = (2 * 3 * (US + bare) + segments * full + 3 * US + 2 * full) as f64;
            let end = ends(&outcome)[0] as f64;
            let late = end - closed;
            let case = format!("{mbps} Mbps, {segments} segments, {kind:?}: {end} ps instead of {closed}");
            assert_eq!(outcome.packets.unwrap().drops, 0, "{case}");
            assert!(late >= 0.0 && late < 0.01 * closed + (rounds * round) as f64, "{case}");
        }
    }
}

#[test]
fn flows_of_a_host_share_its_nic_in_turns() {
    // 60 flows to hosts of their own, as many segments each: their initial windows alone are 600 packets.
    let n = 60;
    let flows: Vec<_> = (1..=n).map(|i| flow(0, i, 200 * 1460)).collect();
    for host_jitter in [None, Some(Duration::ZERO)] {
        let outcome = run(&star(n + 1, 1), flows.clone(), PacketConfig { host_jitter, ..PacketConfig::default() });
        let totals = outcome.packets.as_ref().unwrap();
        assert_eq!((totals.drops, totals.retransmits), (0, 0));
        let all = (u64::from(n) * 200 * FULL) as f64;
        let ends = ends(&outcome);
        let [first, last] = [ends.iter().min(), ends.iter().max()].map(|e| *e.unwrap() as f64 / all);
        assert!((1.0..1.01).contains(&last), "the NIC rests: {last}");
        assert!(first > 0.95, "a flow gets more than its turns: {first}");
    }
}

#[test]
fn a_short_flow_does_not_wait_for_a_long_one() {
    // The NIC holds some packets, not the long flow's window.
    let mut short = flow(0, 2, 1460);
    short.start = Instant::ZERO + Duration::from_ms(50);
    let outcome = run(&star(3, 1), vec![flow(0, 1, 10_000 * 1460), short], PacketConfig::default());
    let took = ends(&outcome)[1] - 50_000 * US;
    assert!(took < handshake(US) + 2 * FULL + 2 * US + 2 * 20 * FULL, "{took}");
}

#[test]
fn equal_times_are_ordered_by_link() {
    // Both SYNs reach the switch at the same time, and so do both first segments: that of the lower link goes first. Which flow is
    // numbered first does not matter.
    for flows in [[flow(0, 2, 100), flow(1, 2, 100)], [flow(1, 2, 100), flow(0, 2, 100)]] {
        let first = flows[0].src;
        let outcome = run(&star(3, 1), flows.to_vec(), config(150_000, 10));
        let of = |host: u32| outcome.flows.iter().find(|f| f.src == HostId(host)).unwrap().end.unwrap().as_ps();
        assert!(of(0) < of(1), "first {first}");
        assert_eq!(of(0), handshake(US) + 2 * (140 * 8_000 + US));
    }
}

#[test]
fn flows_with_equal_windows_share_a_link_equally() {
    // The queue holds all windows: nothing is lost, the link never rests, and each has a share of its packets in the queue.
    for senders in [2, 8] {
        let n = 20_000 / u64::from(senders);
        let flows = (0..senders).map(|i| flow(i, senders, n * 1460)).collect();
        let mut config = config(2_000_000, 10);
        config.transport.max_window = Some(Bytes(100 * 1460));
        let outcome = run(&star(senders + 1, 5), flows, config);
        assert_eq!(outcome.packets.as_ref().unwrap().drops, 0);
        let all = (u64::from(senders) * n * FULL) as f64;
        for end in ends(&outcome) {
            assert!((0.99..1.01).contains(&(end as f64 / all)), "{senders}: {}", end as f64 / all);
        }
    }
}

#[test]
fn an_incast_into_a_long_queue_takes_its_bytes_time_and_into_a_short_one_a_timeout() {
    let n = 40;
    let fabric = star(n + 1, 5);
    let flows: Vec<_> = (0..n).map(|i| flow(i, n, 45 * 1460)).collect();
    let all = (u64::from(n) * 45 * FULL) as f64;
    let outcome = run(&fabric, flows.clone(), config(10_000_000, 10));
    let last = *ends(&outcome).iter().max().unwrap() as f64;
    assert!(last / all > 1.0 && last / all < 1.02, "{}", last / all);
    assert!(drops(&fabric, &outcome).is_empty());
    let outcome = run(&fabric, flows, config(15_000, 10));
    let last = *ends(&outcome).iter().max().unwrap() as f64;
    assert!(last > 200_000.0 * US as f64);
    let dropping = drops(&fabric, &outcome);
    assert!(dropping.len() == 1 && dropping[0].0 == format!("switch0-h{n}"), "{dropping:?}");
}

#[test]
fn who_cannot_be_reached_is_given_up() {
    // Host 2 hangs on a link that fails before its flow begins: the run ends all the same.
    let fabric = star(3, 1);
    let cable = fabric.cable_between(NodeId(2), fabric.node_by_name("switch0").unwrap()).unwrap();
    let mut world = PacketWorld {
        fabric: Arc::clone(&fabric),
        router: Router::new(Arc::clone(&fabric), Routing::default(), 1),
        controller: None,
        workload: Box::new(StaticWorkload::new(vec![flow(0, 2, 1_000_000), flow(0, 1, 1_000_000)])),
        events: Vec::new(),
        config: PacketConfig::default(),
    };
    let part = weft_fabric::topology::Part::Cable(cable);
    let at = Instant::ZERO + Duration::from_ms(1);
    world.events.push(weft_sim::flow::TimedEvent { at, change: weft_sim::flow::Change::Fail(part) });
    let outcome = world.run(&mut |_| {}).unwrap();
    assert!(outcome.flows[0].end.is_none() && outcome.flows[1].end.is_some());
    assert!(
        outcome.ended > Instant::ZERO + Duration::from_secs(100) && outcome.ended < Instant::ZERO + Duration::from_secs(3600)
    );
}

struct Against {
    each: Vec<f64>,
    whole: f64,
}

/// Goodput of each flow over what max-min gives it of the links, without headers, from `from` to `to`.
fn against_max_min(k: u32, from: u64, to: u64, config: &PacketConfig, seed: u64, one_way: bool) -> Against {
    let link = links(1, 5);
    let fabric = Arc::new(Shape::FatTree { k }.build(link, link).unwrap());
    let half = fabric.host_count() as u32 / 2;
    // A random permutation; `one_way` from the first half of the hosts to the second, so that no answers queue behind data.
    let targets = if one_way { half } else { 2 * half };
    let mut order: Vec<u32> = (2 * half - targets..2 * half).collect();
    let mut rng = weft_fabric::rng::stream(seed, weft_fabric::rng::Stream::Traffic);
    for i in (1..order.len()).rev() {
        order.swap(i, rand::RngExt::random_range(&mut rng, 0..i));
    }
    let flows: Vec<_> = (0..targets).map(|h| endless(h, order[h as usize])).collect();
    let packets = |ms| run(&fabric, flows.clone(), PacketConfig { duration: Duration::from_ms(ms), ..config.clone() });
    let (before, after) = (packets(from), packets(to));
    let world = FlowWorld {
        router: Router::new(Arc::clone(&fabric), Routing::default(), 1),
        fabric: Arc::clone(&fabric),
        controller: None,
        workload: Box::new(StaticWorkload::new(flows.clone())),
        events: Vec::new(),
        config: FlowConfig { duration: Duration::from_ms(to - from), ..FlowConfig::new(Rates::MaxMin, 1) },
    };
    let rates = world.run(&mut |_| {});
    let bytes = |o: &Outcome| o.flows.iter().map(|f| f.bytes.0 as f64).collect::<Vec<_>>();
    let packet: Vec<f64> = bytes(&after).iter().zip(bytes(&before)).map(|(a, b)| a - b).collect();
    let rates = bytes(&rates);
    // Each link carries the acknowledgements of what comes the other way too.
    let payload = 1460.0 / if one_way { 1500.0 } else { 1540.0 };
    let whole = packet.iter().sum::<f64>() / (rates.iter().sum::<f64>() * payload);
    Against { each: packet.iter().zip(&rates).map(|(p, r)| p / (r * payload)).collect(), whole }
}

/// In all they agree within a few percent. One by one they do where each flow has one bottleneck; a flow with several gets less of each
/// than of one, as TCP's shares go by round trips, and its neighbours get more: max-min does not know round trips.
#[test]
fn long_flows_get_about_what_max_min_gives_them() {
    let mut config = config(500_000, 10);
    config.transport.max_window = Some(Bytes(64 * 1460));
    for (k, from, to) in [(4, 100, 400), (8, 50, 150)] {
        for (seed, one_way) in [(1, false), (2, false), (3, false), (1, true), (2, true), (3, true)] {
            let Against { each, whole } = against_max_min(k, from, to, &config, seed, one_way);
            let off = each.iter().map(|r| (r - 1.0).abs()).sum::<f64>() / each.len() as f64;
            assert!((0.94..1.06).contains(&whole), "k {k}, seed {seed}, one way {one_way}: {whole} in all");
            assert!(off < if one_way { 0.18 } else { 0.28 }, "k {k}, seed {seed}, one way {one_way}: {off} on average");
            if (k, seed, one_way) == (4, 3, true) {
                assert!(each.iter().all(|r| (0.98..1.02).contains(r)), "one bottleneck each: {each:?}");
            }
        }
    }
}

#[test]
fn without_collisions_each_flow_gets_what_max_min_gives_it() {
    // A permutation on one switch: data one way, acknowledgements the other, on every link.
    let n = 12;
    let flows: Vec<_> = (0..n).map(|h| endless(h, (h + 5) % n)).collect();
    let mut config = config(500_000, 10);
    config.transport.max_window = Some(Bytes(64 * 1460));
    config.duration = Duration::from_ms(200);
    let outcome = run(&star(n, 5), flows, config);
    for flow in &outcome.flows {
        let part = flow.bytes.0 as f64 * 8.0 / (0.2 * GBPS as f64) / (1460.0 / 1540.0);
        assert!((0.99..1.0).contains(&part), "{part}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let link = links(1, 5);
    let fabric = Arc::new(Shape::FatTree { k: 4 }.build(link, link).unwrap());
    let flows: Vec<_> = (0..64u32).map(|i| flow(i % 16, (i * 5 + 7 + i % 16) % 16, 200_000)).filter(|f| f.src != f.dst).collect();
    let run = || run(&fabric, flows.clone(), config(20_000, 10));
    let (a, b) = (run(), run());
    assert!(a.packets.as_ref().unwrap().drops > 0);
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
}

fn requests(clients: &[u32], servers: &[u32], interval: Duration, millis: u64) -> PacketConfig {
    let hosts = |list: &[u32]| list.iter().copied().map(HostId).collect();
    let load = RequestLoad {
        clients: hosts(clients),
        servers: hosts(servers),
        request: Bytes(50),
        response: Bytes(1500),
        interval,
        start: Instant::ZERO,
        seed: 3,
    };
    let end = Instant::ZERO + Duration::from_ms(millis);
    let requests = Requests { load, from: Instant::ZERO + Duration::from_ms(1), to: end };
    PacketConfig { requests: Some(requests), duration: Duration::from_ms(millis), ..config(150_000, 10) }
}

/// A flow from each server to each client.
fn responses(clients: &[u32], servers: &[u32]) -> Vec<FlowSpec> {
    clients.iter().flat_map(|&c| servers.iter().map(move |&s| endless(s, c))).collect()
}

#[test]
fn a_request_in_an_idle_network_takes_its_ways() {
    let (clients, servers) = ([0], [1, 2]);
    let config = requests(&clients, &servers, Duration::from_us(200), 101);
    let outcome = run(&star(3, 5), responses(&clients, &servers), config);
    let requests = outcome.packets.unwrap().requests.unwrap();
    // 50 B and 1,500 B over two links each, 5 us a link.
    let exact = (2 * (50 * 8_000 + 5 * US) + 2 * (FULL + 5 * US)) as f64 / 1e12;
    assert!((requests.mean_s / exact - 1.0).abs() < 1e-9, "{} {exact}", requests.mean_s);
    for quantile in [requests.p50_s, requests.p99_s] {
        assert!((quantile / exact - 1.0).abs() < 0.01);
    }
    // 5,000 a second for 100 ms; the last one may be under way.
    assert!((499..=500).contains(&requests.sent) && requests.sent - requests.answered <= 1, "{requests:?}");
    assert!((requests.seconds - 0.1).abs() < 1e-9);
}

#[test]
fn requests_are_answered_or_lost() {
    // 10 clients of one server: 1,500 B answers for 10 x 10,000 requests a second are 1.2 Gbps, of which its NIC carries 1.
    let clients: Vec<u32> = (1..11).collect();
    let mut config = requests(&clients, &[0], Duration::from_us(100), 201);
    config.nic_queue = Some(Bytes(15_000));
    let fabric = star(11, 5);
    let outcome = run(&fabric, responses(&clients, &[0]), config);
    let totals = outcome.packets.clone().unwrap();
    let requests = totals.requests.unwrap();
    assert!(requests.sent.abs_diff(20_000) <= 10);
    let carried = GBPS as f64 / (1500.0 * 8.0) * 0.2;
    assert!((requests.answered as f64 / carried - 1.0).abs() < 0.01, "{requests:?}");
    assert_eq!(drops(&fabric, &outcome).len(), 1);
    let delivered: u64 = outcome.flows.iter().map(|f| f.bytes.0 / 1500).sum();
    // What was sent was answered, lost, or is under way: in the server's queue, or on links.
    let sent = u64::from(10u32) * 2_010;
    let open = sent.abs_diff(delivered + totals.drops);
    assert!(open <= 10 + 10 + 20, "{sent} {delivered} {}", totals.drops);
    // A request that gets through waits for the whole queue: ten packets.
    assert!(requests.p50_s > 100e-6 && requests.p99_s < 170e-6, "{requests:?}");
}

#[test]
fn no_flow_locks_another_one_out() {
    // A NIC as fast as the bottleneck and a window beyond the queue: host 0 sends without a gap, and its packets just fit.
    for (kind, window) in
        [(TransportKind::NewReno, 200), (TransportKind::NewReno, 120), (TransportKind::Mptcp { subflows: 2 }, 100)]
    {
        let bytes = |ms| {
            let mut config = PacketConfig { duration: Duration::from_ms(ms), host_jitter: None, ..config(150_000, 10) };
            config.transport =
                Transport { kind, max_window: Some(Bytes(window * 1460)), rto_min: Duration::from_ms(5), ..config.transport };
            run(&star(3, 5), vec![endless(0, 2), endless(1, 2)], config)
                .flows
                .iter()
                .map(|f| f.bytes.0 as f64)
                .collect::<Vec<_>>()
        };
        let (before, after) = (bytes(200), bytes(1200));
        let parts: Vec<f64> = after.iter().zip(before).map(|(a, b)| (a - b) / (SECOND * 1460.0 / 1500.0)).collect();
        assert!(parts.iter().all(|p| (0.4..0.6).contains(p)), "{kind:?}, {window}: {parts:?}");
        assert!(parts.iter().sum::<f64>() > 0.98, "{kind:?}, {window}: {parts:?}");
    }
}

/// Bytes of a second at 1 Gbps.
const SECOND: f64 = 125e6;

/// An intermediate switch loses everything and nobody notices. Flows whose segments cross it time out; with VL2's agents they get another
/// hash, and end unless that, again and again, leads there or their answers do.
#[test]
fn a_rehash_takes_flows_around_a_silent_failure() {
    let link = links(1, 5);
    let fabric = Arc::new(Shape::VL2_TESTBED.build(link, links(10, 5)).unwrap());
    let dead = fabric.switch_node(fabric.switches_of_tier(fabric.top_tier()).next().unwrap());
    let router = || Router::new(Arc::clone(&fabric), Routing { kind: RoutingKind::Vlb, ..Routing::default() }, 1);
    let flows: Vec<FlowSpec> = (0..20).map(|i| flow(i, 20 + i, 2_000_000)).collect();
    let run = |rehash: bool| {
        let part = weft_fabric::topology::Part::Node(dead);
        let world = PacketWorld {
            fabric: Arc::clone(&fabric),
            router: router(),
            controller: None,
            workload: Box::new(StaticWorkload::new(flows.clone())),
            events: vec![TimedEvent { at: Instant::ZERO + Duration::from_ms(1), change: Change::FailSilent(part) }],
            config: PacketConfig {
                overlay: Overlay { rehash, ..Overlay::default() },
                duration: Duration::from_secs(60),
                ..PacketConfig::default()
            },
        };
        world.run(&mut |_| {}).unwrap()
    };
    let crosses = |key: &FlowKey| router().route(key).unwrap().iter().any(|&l| fabric.link(l).to == dead);
    let key = |i: u32| FlowKey::of_flow(i, HostId(i), HostId(20 + i));
    let there: Vec<bool> = (0..20).map(|i| crosses(&key(i))).collect();
    let back: Vec<bool> = (0..20).map(|i| crosses(&key(i).reverse())).collect();
    let ended = |outcome: &Outcome| outcome.flows.iter().map(|f| f.end.is_some()).collect::<Vec<_>>();
    let (without, with) = (run(false), run(true));
    assert_eq!(ended(&without), (0..20).map(|i| !there[i] && !back[i]).collect::<Vec<_>>());
    assert_eq!(ended(&with), back.iter().map(|back| !back).collect::<Vec<_>>());
    assert!((0..20).any(|i| there[i] && !back[i]), "the case has such flows");
    assert_eq!(without.overlay, None);
    assert!(with.overlay.as_ref().unwrap().rehashes >= 5, "{:?}", with.overlay);
    // Its record has the path that it has taken last.
    assert!((0..20).filter(|&i| !back[i]).all(|i| with.flows[i].path.iter().all(|&l| fabric.link(l).to != dead)));
}
