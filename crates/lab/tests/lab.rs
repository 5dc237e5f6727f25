//! Labs that really stand: reachability, rates, spreading, failures, and that nothing is left. As root; elsewhere they say that they are
//! skipped.
//!
//! Tests whose name starts with `timing_` compare times, and need the processors for themselves.
#![cfg(target_os = "linux")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use support::streams::{AtEnd, wait_until};
use support::{TestLab, name, plan, possible, serial, try_up, up};
use weft_fabric::topology::shapes::Shape;
use weft_lab::plan::Routing;
use weft_lab::probe::sample::Pairs;
use weft_lab::probe::trace::{Flow, Protocol, follow};
use weft_lab::probe::{ping, trace};
use weft_lab::state::Phase;
use weft_lab::{LabError, Stopwatch, down, names, netns, status};

static GO: AtomicBool = AtomicBool::new(false);

fn everybody_answers(lab: &TestLab, bytes: usize) {
    let result = ping::all(lab.plan(), bytes, &GO).expect("sockets");
    assert_eq!((result.answered, result.lost), (result.pairs, Vec::new()), "packets of {bytes} bytes");
}

#[test]
fn a_fat_tree_of_kernel_routes() {
    let Some(lab) = up(Shape::FatTree { k: 4 }, 'a', Routing::Static) else { return };
    everybody_answers(&lab, 84);
    everybody_answers(&lab, 1500);
    a_sample_is_probed(&lab);
    a_flow_is_followed(&lab);
    flows_spread_over_all_uplinks(&lab);
    let standing = status(&lab.plan().name);
    assert_eq!((standing.phase, standing.namespaces, standing.processes), (Phase::Up, 36, 0));
    let again = try_up(lab.plan().clone(), &GO).expect_err("it stands already");
    assert!(matches!(again, LabError::Exists(_)), "{again}");
}

fn a_sample_is_probed(lab: &TestLab) {
    let of = |pairs| ping::some(lab.plan(), ping::Addresses::Locators, pairs, 84, &GO).expect("sockets");
    let some = of(Pairs::Count(50));
    assert_eq!((some.pairs, some.answered, some.sample_of), (50, 50, Some(240)));
    let all = of(Pairs::All);
    assert_eq!((all.pairs, all.answered, all.sample_of), (240, 240, None));
}

fn a_flow_is_followed(lab: &TestLab) {
    let mut paths = Vec::new();
    for (protocol, sport) in (0..8).flat_map(|i| [(Protocol::Udp, 5000 + i), (Protocol::Tcp, 6000 + i)]) {
        let flow = Flow::new(lab.node("h0"), lab.node("h15"), protocol, sport, 33_434).expect("two hosts");
        let trace = follow(lab.plan(), flow).expect("answers");
        assert!(trace.confirmed, "{trace:?}");
        assert_eq!(trace.hops.len(), 7, "{trace:?}");
        paths.push(trace.hops.into_iter().map(|h| h.node).collect::<Vec<_>>());
    }
    paths.sort_unstable();
    paths.dedup();
    assert!(paths.len() > 2, "16 flows over 4 cores: {paths:?}");
    let to_a_switch = trace::Flow::new(lab.node("h0"), lab.node("core0"), Protocol::Udp, 1, 1);
    assert!(matches!(to_a_switch, Err(LabError::NotAHost { .. })));
}

/// From h0 to h15, 256 flows leave edge0 by both uplinks, and agg0 and agg1 by both of theirs: were the seeds the same, each of these
/// would see only flows whose hash it maps to the same port again.
fn flows_spread_over_all_uplinks(lab: &TestLab) {
    let uplinks = |lab: &TestLab| -> Vec<[u64; 2]> {
        let before = ["edge0", "agg0", "agg1"].map(|s| lab.sent(s));
        lab.send_flows("h0", "h15", 256);
        let after = ["edge0", "agg0", "agg1"].map(|s| lab.sent(s));
        before.iter().zip(after).map(|(b, a)| [a[2] - b[2], a[3] - b[3]]).collect()
    };
    for [left, right] in uplinks(lab) {
        let (least, all) = (left.min(right), left + right);
        assert!(all >= 80 && least * 100 >= all * 25, "{left} and {right}");
    }
    for switch in ["edge0", "agg0", "agg1"] {
        lab.shell(switch, "echo 7 > /proc/sys/net/ipv4/fib_multipath_hash_seed");
    }
    let polarised = uplinks(lab);
    for [left, right] in &polarised[1..] {
        assert!(left.min(right) * 20 < left + right, "one seed polarises: {polarised:?}");
    }
}

#[test]
fn a_link_has_its_rate() {
    let Some(lab) = up(Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 2 }, 'b', Routing::Static) else { return };
    let to = SocketAddrV4::new(lab.node("h3").locator, 5001);
    let listener = lab.at("h3", || TcpListener::bind(to).expect("a free port"));
    // 10 Mbps of frames: 1448 bytes of payload with timestamps in 1514.
    let expected = 10e6 * 1448.0 / 1514.0;
    let done = AtomicBool::new(false);
    let measured = std::thread::scope(|scope| {
        let done = &done;
        scope.spawn(|| {
            lab.at("h0", || {
                let mut stream = TcpStream::connect(to).expect("a connection");
                while !done.load(Ordering::Relaxed) && stream.write_all(&[0; 16_384]).is_ok() {}
            });
        });
        let (mut stream, _) = listener.accept().expect("a connection");
        let goodput = receive(&mut stream, Duration::from_secs(1), Duration::from_secs(4));
        done.store(true, Ordering::Relaxed);
        goodput
    });
    assert!((measured / expected - 1.0).abs() < 0.05, "{measured:.0} bps of {expected:.0}");
}

/// Bits a second that arrive in `time`, after `warmup`.
fn receive(stream: &mut TcpStream, warmup: Duration, time: Duration) -> f64 {
    let mut buffer = vec![0; 65_536];
    let watch = Stopwatch::new();
    while watch.elapsed() < warmup {
        assert!(stream.read(&mut buffer).expect("bytes") > 0);
    }
    let watch = Stopwatch::new();
    let mut bytes = 0;
    while watch.elapsed() < time {
        bytes += stream.read(&mut buffer).expect("bytes");
    }
    bytes as f64 * 8.0 / watch.elapsed().as_secs_f64()
}

#[test]
fn timing_ospf_and_bfd_find_another_path() {
    let clos = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 1 };
    let Some(lab) = up(clos, 'c', Routing::Frr) else { return };
    everybody_answers(&lab, 1500);
    // A port that is set down, which both ends detect; and a silent loss, which only BFD detects.
    for fail in ["ip link set $port down", "tc qdisc replace dev $port root pfifo limit 0"] {
        // A machine that others use may itself pause for longer: the best of three counts.
        let gaps: Vec<Duration> =
            (0..3).map(|_| fail_and_repair(&lab, fail)).take_while(|&gap| gap >= Duration::from_secs(1)).collect();
        assert!(gaps.len() < 3, "`{fail}`: {gaps:?}");
    }
}

/// How long a flow from h0 to h1 pauses when the link that it uses fails.
fn fail_and_repair(lab: &TestLab, fail: &str) -> Duration {
    let flow = || Flow::new(lab.node("h0"), lab.node("h1"), Protocol::Udp, 7000, 7001).expect("two hosts");
    let path = follow(lab.plan(), flow()).expect("answers");
    assert!(path.confirmed, "{path:?}");
    // The aggregation switch's only shortest path to the ToR: all other switches have to learn of its failure.
    let (agg, port) = (path.hops[2].node.clone(), path.hops[2].port.clone().expect("it goes on"));
    let gap = longest_gap(lab, || lab.shell(&agg, &fail.replace("$port", &port)));
    eprintln!("`{fail}` at {agg} {port}: {gap:?}");
    everybody_answers(lab, 84);
    let other = follow(lab.plan(), flow()).expect("answers");
    assert!(other.confirmed, "{other:?}");
    assert!(other.hops.iter().all(|h| h.node != agg || h.port.as_ref() != Some(&port)), "{other:?}");
    lab.shell(&agg, &format!("ip link set {port} up; tc qdisc replace dev {port} root tbf rate 10mbit burst 8000 limit 102400"));
    lab.lab.converge(&GO).expect("all as before");
    gap
}

/// The longest time without a packet of a flow from h0 to h1 that sends one every 2 ms, while something happens.
fn longest_gap(lab: &TestLab, happens: impl FnOnce()) -> Duration {
    let to = SocketAddrV4::new(lab.node("h1").locator, 7001);
    let receiver = lab.at("h1", || UdpSocket::bind(to).expect("a free port"));
    receiver.set_read_timeout(Some(Duration::from_secs(3))).expect("a timeout");
    let sender = lab.at("h0", || UdpSocket::bind(("0.0.0.0", 7000)).expect("a free port"));
    // The sender outlives the receiver, whose last packet would otherwise be followed by a gap.
    let (done, over, received) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = AtEnd(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = sender.send_to(&[0; 64], to);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let gap = scope.spawn(|| {
            let (watch, mut last, mut gap) = (Stopwatch::new(), Duration::ZERO, Duration::ZERO);
            while !done.load(Ordering::Relaxed) && receiver.recv(&mut [0; 64]).is_ok() {
                received.fetch_add(1, Ordering::Relaxed);
                let now = watch.elapsed();
                gap = gap.max(now - last);
                last = now;
            }
            gap.max(watch.elapsed() - last)
        });
        let more = |than: u64| wait_until("packets arrive", || gap.is_finished() || received.load(Ordering::Relaxed) > than);
        more(100);
        happens();
        more(received.load(Ordering::Relaxed) + 200);
        done.store(true, Ordering::Relaxed);
        gap.join().expect("it receives")
    })
}

#[test]
fn two_labs_stand_side_by_side() {
    let Some(one) = up(Shape::Switch { hosts: 3 }, 'd', Routing::Static) else { return };
    let other =
        try_up(plan(Shape::Clique { switches: 3, hosts_per_switch: 1 }, name('e'), Routing::Static), &GO).expect("it comes up");
    everybody_answers(&one, 84);
    let answers = ping::all(&other.record.plan, 84, &GO).expect("sockets");
    assert_eq!((answers.pairs, answers.answered), (6, 6));
    assert!(down(&name('e')).expect("it goes"));
    assert!(netns::path("").exists() && !names().contains(&name('e')));
    everybody_answers(&one, 84);
}

#[test]
fn a_host_with_two_nics_is_reached_at_both() {
    use weft_fabric::topology::shapes::subways::{SubwaysSpec, SubwaysType};
    let Some(lab) = up(Shape::Subways(SubwaysSpec::testbed(SubwaysType::Type1)), 'f', Routing::Static) else { return };
    let result = ping::all(lab.plan(), 84, &GO).expect("sockets");
    assert_eq!((result.pairs, result.answered), (16 * 15 * 2, 16 * 15 * 2), "{:?}", result.lost.first());
}

#[test]
fn what_is_stopped_or_fails_leaves_nothing() {
    if !possible() {
        return;
    }
    let _serial = serial();
    let stopped = try_up(plan(Shape::FatTree { k: 4 }, name('g'), Routing::Static), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(LabError::Interrupted)), "{stopped:?}");
    let mut bad = plan(Shape::Switch { hosts: 2 }, name('h'), Routing::Static);
    bad.nodes[2].ports[1].rate_bps = 0;
    let failed = try_up(bad, &GO).expect_err("tc refuses");
    assert!(matches!(&failed, LabError::Command { program: "tc", command, .. } if command.contains("p1")), "{failed:?}");
    assert!(names().iter().all(|n| *n != name('g') && *n != name('h')));
    assert!(matches!(down(&name('h')), Ok(false)));
}

/// The daemons of a lab inherit no files from the program that starts them: a pipe, say, would keep its reader waiting for the end.
#[test]
fn daemons_inherit_no_files() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // As a file that the program has inherited itself.
    fcntl(&writer, FcntlArg::F_SETFD(FdFlag::empty())).expect("a setting");
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a setting");
    let shape = Shape::TwoLevel { edges: 2, cores: 1, hosts_per_edge: 1 };
    let Some(lab) = up(shape, 'j', Routing::Frr) else { return };
    assert!(status(&lab.plan().name).processes > 0, "daemons run");
    drop(writer);
    assert_eq!(reader.read(&mut [0]).expect("no daemon holds the other end"), 0);
}

#[test]
fn processes_of_a_lab_end_with_it() {
    let Some(lab) = up(Shape::Switch { hosts: 2 }, 'i', Routing::Static) else { return };
    let mut sleeper = lab.at("h1", || std::process::Command::new("sleep").arg("1000").spawn().expect("it sleeps"));
    assert_eq!(status(&lab.plan().name).processes, 1);
    drop(lab);
    assert!(!sleeper.wait().expect("it ended").success());
}
