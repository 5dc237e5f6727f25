//! VL2's data plane under real TCP: host, ToR, intermediate switch, ToR, host, each a network namespace of this machine.
//!
//! Without root, or in a container that may not, each test says so and passes. tshark reads the packets; in CI it must be there.

#![allow(clippy::disallowed_methods)] // Sockets live by the wall clock.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::ebpf;
use support::fabric::{ANYCAST, HOSTS, Host, Network};
use weft_agent::vl2::dataplane::{
    Counter, Direction, Event, Flow, HostPlane, HostSettings, Local, LocatorKind, Peer, PeerKey, PeerState, Refusal, StripRole,
    SwitchPlane, VIRTUAL_MAC,
};
use weft_control::directory::{GroupId, ServiceId};
use weft_fabric::MacAddr;

const SHORT: Duration = Duration::from_millis(500);
/// The third host of the network has nothing to do here.
const A: Host = HOSTS[0];
const B: Host = HOSTS[1];

/// The programs of the network.
struct Overlay {
    hosts: [HostPlane; 2],
    /// Those of both ToRs and of the intermediate switch.
    switches: [SwitchPlane; 3],
}

/// A network with VL2 on it: the hosts know each other, the switches what they strip. None where that is not possible.
fn network(name: &str) -> Option<(Network, Overlay)> {
    if !ebpf::is_possible() {
        return None;
    }
    let network = Network::new(name)?;
    let switches = network.start_switches();
    for host in [A, B] {
        // An AA's route has the MTU that is left below two outer headers.
        network.ip(host.name, &format!("route replace 20.0.0.0/8 dev eth0 src {} mtu 1560", host.aa()));
        network.ip(host.name, &format!("addr add {}/64 dev eth0 nodad", host.aa6()));
        network.ip(host.name, "route replace fd20::/64 dev eth0 proto kernel metric 256 mtu 1560");
    }
    let hosts = [attach(&network, A, B), attach(&network, B, A)];
    Some((network, Overlay { hosts, switches }))
}

/// The programs of a host that knows itself and the other.
fn attach(network: &Network, own: Host, other: Host) -> HostPlane {
    network.within(own.name, || {
        let mut plane = HostPlane::attach("eth0", &settings_of(network, own), &network.pins(own.name)).unwrap();
        plane.set_group(GroupId(1), &[ANYCAST]).unwrap();
        // Nothing forwards the service's multicast here.
        let local = Local { service: ServiceId(1), multicast: Some(Ipv4Addr::new(239, 1, 0, 1)) };
        let peer = Peer { locator: other.tor_la, group: GroupId(1), mac: None };
        for (mine, theirs) in [(own.aa().into(), other.aa().into()), (own.aa6().into(), IpAddr::from(other.aa6()))] {
            plane.set_local(mine, &local).unwrap();
            plane.set_peer(of(theirs), &peer).unwrap();
        }
        plane
    })
}

fn settings_of(network: &Network, own: Host) -> HostSettings {
    let mut settings = HostSettings::new(own.la(), format!("10.201.{}.0/24", own.number).parse().unwrap());
    settings.tor = Some(own.tor_la);
    settings.aa4 = Some("20.0.0.0/8".parse().unwrap());
    settings.aa6 = Some("fd20::/64".parse().unwrap());
    settings.gateway = network.mac(own.tor, own.tor_port);
    settings
}

/// A stream from the first host to an address of the second: its bytes.
fn stream(network: &Network, to: IpAddr, duration: Duration) -> u64 {
    network.stream(A.name, B.name, to, duration)
}

fn drops(overlay: &Overlay) -> Vec<String> {
    let hosts = overlay.hosts.iter().map(|host| host.counters().unwrap());
    let switches = overlay.switches.iter().map(|switch| switch.counters().unwrap());
    let of = |all: weft_agent::vl2::dataplane::Counters| {
        all.iter().filter(|(c, v)| c.is_drop() && *v > 0).map(|(c, v)| format!("{} {v}", c.name())).collect::<Vec<_>>()
    };
    hosts.chain(switches).flat_map(of).collect()
}

/// A peer as the hosts' only service sees it.
const fn of(address: IpAddr) -> PeerKey {
    PeerKey { service: ServiceId(1), address }
}

/// A peer's entry, taken out of a host's table.
fn forget(host: &mut HostPlane, aa: IpAddr) -> Peer {
    let Some(PeerState::Known(peer)) = host.peer(of(aa)).unwrap() else { panic!("{aa} is known") };
    host.remove_peer(of(aa)).unwrap();
    peer
}

/// Waits for an event that is wanted; others are ignored.
fn wait<T>(host: &mut HostPlane, wanted: impl Fn(Event) -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if let Some(found) = host.events().unwrap().into_iter().find_map(&wanted) {
            return found;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("the event did not come");
}

#[test]
fn tcp_of_both_versions_crosses_whole_segments_and_all() {
    let Some((network, overlay)) = network("tcp") else { return };
    for (to, large) in [(IpAddr::from(B.aa()), 9000), (B.aa6().into(), 9000)] {
        assert!(network.ping(A.name, to, 3), "{to} answers");
        let before = overlay.hosts[1].counters().unwrap();
        let bytes = stream(&network, to, SHORT);
        let after = overlay.hosts[1].counters().unwrap().since(&before);
        let packet = bytes / after.get(Counter::Delivered);
        assert!(packet > large, "segmentation offload is kept: {packet} bytes a packet");
    }
    let sender = overlay.hosts[0].counters().unwrap();
    assert!(sender.get(Counter::PushedTwo) > 100 && sender.get(Counter::PushedOne) == 0);
    assert_eq!(sender.get(Counter::PushedTwo), overlay.switches[1].counters().unwrap().get(Counter::StrippedTor));
    assert_eq!(sender.get(Counter::PushedTwo), overlay.hosts[1].counters().unwrap().get(Counter::Delivered));
    assert_eq!(drops(&overlay), [""; 0]);
}

/// Tables of another size are what another build's are: made beside those that are there, filled from them, and taken by programs that replace the others.
#[test]
fn other_tables_are_taken_into_use_while_a_stream_flows() {
    let Some((network, mut overlay)) = network("renew") else { return };
    assert!(network.ping(A.name, B.aa().into(), 3));
    let listener = network.within(B.name, || TcpListener::bind((B.aa(), 0))).unwrap();
    let target = listener.local_addr().unwrap();
    let mut sender = network.within(A.name, || TcpStream::connect(target)).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let done = AtomicBool::new(false);
    let longest = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if sender.write_all(&[0; 16_384]).is_err() {
                    break;
                }
            }
        });
        let reader = scope.spawn(|| {
            let (mut buffer, mut last, mut longest) = (vec![0; 1 << 16], Instant::now(), Duration::ZERO);
            while !done.load(Ordering::Relaxed) && receiver.read(&mut buffer).is_ok_and(|read| read > 0) {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            longest
        });
        for limit in [4096, 64, 8192, 1024] {
            thread::sleep(Duration::from_millis(100));
            let before = overlay.hosts[0].counters().unwrap();
            let mut settings = settings_of(&network, A);
            (settings.limits.peers, settings.limits.locals, settings.limits.flows) = (limit, limit, limit);
            let next = network.within(A.name, || HostPlane::attach("eth0", &settings, &network.pins(A.name))).unwrap();
            assert!(next.adopted());
            assert_eq!((next.peers().unwrap(), next.locals().unwrap().len()), (overlay.hosts[0].peers().unwrap(), 2));
            overlay.hosts[0] = next;
            overlay.hosts[0].reconcile().unwrap();
            thread::sleep(Duration::from_millis(50));
            let after = overlay.hosts[0].counters().unwrap();
            assert!(after.get(Counter::PushedTwo) > before.get(Counter::PushedTwo), "counters go on");
            assert_eq!((after.get(Counter::MissOut), after.drops()), (before.get(Counter::MissOut), before.drops()));
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    println!("the stream paused for {longest:?} at most");
    assert!(longest < Duration::from_secs(1), "{longest:?}: 100 ms, and what a busy machine needs besides");
}

#[test]
fn a_host_can_be_its_own_locator() {
    let Some((network, mut overlay)) = network("own") else { return };
    let las = [overlay.hosts[0].settings().la, overlay.hosts[1].settings().la];
    for (host, la) in overlay.hosts.iter_mut().zip([las[1], las[0]]) {
        host.set_settings(&HostSettings { locator: LocatorKind::Host, ..host.settings().clone() }).unwrap();
        for (key, state) in host.peers().unwrap() {
            let PeerState::Known(peer) = state else { panic!("{key:?} is known") };
            host.set_peer(key, &Peer { locator: la, ..peer }).unwrap();
        }
    }
    assert!(stream(&network, B.aa().into(), SHORT) > 1_000_000);
    assert!(stream(&network, B.aa6().into(), SHORT) > 1_000_000);
    assert!(overlay.hosts[1].counters().unwrap().get(Counter::StrippedHost) > 100);
    assert_eq!(overlay.switches[1].counters().unwrap().get(Counter::StrippedTor), 0);
    assert_eq!(drops(&overlay), [""; 0]);
}

/// An answer to ARP, as the agent makes it.
fn arp_reply(asker: Ipv4Addr, asker_mac: MacAddr, target: Ipv4Addr) -> Vec<u8> {
    let header = [&asker_mac.0[..], &VIRTUAL_MAC.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
    [&header[..], &VIRTUAL_MAC.0, &target.octets(), &asker_mac.0, &asker.octets()].concat()
}

#[test]
fn an_unknown_peer_is_asked_for_and_its_first_packet_arrives() {
    let Some((network, mut overlay)) = network("miss") else { return };
    let (there, here) = (IpAddr::from(B.aa()), IpAddr::from(A.aa()));
    let [host1, host2] = &mut overlay.hosts;
    let (far, near) = (forget(host1, there), forget(host2, here));
    let receiver = network.within(B.name, || UdpSocket::bind((B.aa(), 7000))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = network.within(A.name, || UdpSocket::bind((A.aa(), 0))).unwrap();
    sender.set_ttl(1).unwrap();
    sender.send_to(b"first", (B.aa(), 7000)).unwrap();
    let asked = wait(host1, |event| match event {
        Event::Resolve { target, asker, asker_mac } => Some((target, asker, asker_mac)),
        _ => None,
    });
    assert_eq!((asked.0, asked.1), (there, here));
    // It is answered, and still not known: the packet itself is a miss now.
    host1.inject(&arp_reply(A.aa(), asked.2, B.aa())).unwrap();
    let miss = |direction| {
        move |event| match event {
            Event::Miss { direction: d, source, destination, held } if d == direction => Some((source, destination, held)),
            _ => None,
        }
    };
    let (source, destination, held) = wait(host1, miss(Direction::Out));
    assert_eq!((source, destination), (here, there));
    host1.set_peer(of(there), &far).unwrap();
    host1.release(Direction::Out, &held).unwrap();
    let (source, destination, held) = wait(host2, miss(Direction::In));
    assert_eq!((source, destination), (here, there));
    host2.set_peer(of(here), &near).unwrap();
    host2.release(Direction::In, &held).unwrap();
    let mut buffer = [0; 16];
    let (length, from) = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.ip()), (&b"first"[..], here));
    assert_eq!(host1.counters().unwrap().get(Counter::Released), 1);
    assert_eq!(host2.counters().unwrap().get(Counter::Released), 1);
    assert!(host1.take_used(of(there)).unwrap() && !host1.take_used(of(there)).unwrap());
    assert_eq!(drops(&overlay), [""; 0]);
}

#[test]
fn a_tcp_packet_of_many_segments_is_held_and_released_whole() {
    let Some((network, mut overlay)) = network("gso") else { return };
    for (here, there) in [(IpAddr::from(A.aa()), IpAddr::from(B.aa())), (A.aa6().into(), B.aa6().into())] {
        let listener = network.within(B.name, || TcpListener::bind((there, 0))).unwrap();
        let target = listener.local_addr().unwrap();
        let mut sender = network.within(A.name, || TcpStream::connect(target)).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let host1 = &mut overlay.hosts[0];
        let far = forget(host1, there);
        let sent: Vec<u8> = (0..6000u32).map(|i| (i % 251) as u8).collect();
        sender.write_all(&sent).unwrap();
        let held = wait(host1, |event| match event {
            Event::Miss { direction: Direction::Out, source, held, .. } if source == here => Some(held),
            _ => None,
        });
        assert!(held.frame().len() > 6000, "{there}: {} bytes", held.frame().len());
        host1.set_peer(of(there), &far).unwrap();
        host1.release(Direction::Out, &held).unwrap();
        let mut received = vec![0; sent.len()];
        receiver.read_exact(&mut received).unwrap();
        assert_eq!(received, sent);
        assert!(host1.counters().unwrap().get(Counter::Released) > 0);
        // More at once than is held: dropped and counted, and TCP sends it again.
        host1.remove_peer(of(there)).unwrap();
        let before = host1.counters().unwrap();
        sender.write_all(&sent.repeat(5)).unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while host1.counters().unwrap().since(&before).get(Counter::HoldTooLarge) == 0 {
            assert!(Instant::now() < end, "nothing was too large to hold");
        }
        host1.set_peer(of(there), &far).unwrap();
        let mut received = vec![0; 5 * sent.len()];
        receiver.read_exact(&mut received).unwrap();
        assert_eq!(received, sent.repeat(5));
    }
}

#[test]
fn what_is_refused_or_forged_does_not_cross() {
    let Some((network, mut overlay)) = network("deny") else { return };
    let [host1, host2] = &mut overlay.hosts;
    let receiver = network.within(B.name, || UdpSocket::bind((B.aa(), 7000))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let sender = network.within(A.name, || UdpSocket::bind((A.aa(), 0))).unwrap();
    let sends = || sender.send_to(b"x", (B.aa(), 7000)).is_ok() && receiver.recv_from(&mut [0; 9]).is_ok();
    assert!(sends());
    host2.refuse_peer(of(A.aa().into()), Refusal::Forbidden).unwrap();
    assert!(!sends());
    assert_eq!(host2.counters().unwrap().get(Counter::InForbidden), 1);
    // An address that is not this host's.
    network.ip(A.name, "addr add 20.0.0.77/8 dev eth0");
    let forger = network.within(A.name, || UdpSocket::bind("20.0.0.77:0")).unwrap();
    let _ = forger.send_to(b"x", (B.aa(), 7000));
    assert!(receiver.recv_from(&mut [0; 9]).is_err());
    assert!(host1.counters().unwrap().get(Counter::ForgedSource) > 0);
}

/// A stream while an agent reads the events of both hosts: its bytes, and the events of the first.
fn stream_with_agents(network: &Network, overlay: &mut Overlay, to: IpAddr) -> (u64, Vec<Event>) {
    let stop = AtomicBool::new(false);
    let [host1, host2] = &mut overlay.hosts;
    thread::scope(|scope| {
        let agents = scope.spawn(|| {
            let mut events = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                events.extend(host1.events().unwrap());
                host2.events().unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            events
        });
        let bytes = stream(network, to, Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
        (bytes, agents.join().unwrap())
    })
}

#[test]
fn senders_learn_what_fits() {
    let Some((network, mut overlay)) = network("mtu") else { return };
    for (to, mtu) in [(IpAddr::from(B.aa()), 1100), (B.aa6().into(), 1300)] {
        let usual = overlay.hosts[0].settings().clone();
        overlay.hosts[0].set_settings(&HostSettings { underlay_mtu: mtu + 40, ..usual.clone() }).unwrap();
        let (bytes, events) = stream_with_agents(&network, &mut overlay, to);
        assert!(bytes > 1_000_000, "{to}: {bytes} bytes");
        assert!(events.iter().any(|e| matches!(e, Event::TooBig { mtu: reported, .. } if *reported == mtu)), "{events:?}");
        overlay.hosts[0].set_settings(&usual).unwrap();
    }
    // A link of the fabric that carries less: its router says so to the outer source.
    network.ip(A.name, "route flush cache");
    network.ip(A.tor, "link set u0 mtu 1400");
    network.ip("mid", "link set p1 mtu 1400");
    network.ip(A.name, "tcp_metrics flush");
    network.ip(A.name, "route replace 20.0.0.0/8 dev eth0 src 20.0.0.1 mtu 1560");
    network.ip(A.name, "-6 route replace fd20::/64 dev eth0 proto kernel metric 256 mtu 1560");
    for to in [IpAddr::from(B.aa()), B.aa6().into()] {
        let (bytes, events) = stream_with_agents(&network, &mut overlay, to);
        eprintln!("{to}: {bytes} bytes over a link of 1400, {} events", events.len());
        assert!(bytes > 1_000_000, "{to}: {bytes} bytes, {:?}", events.first());
    }
    let errors = overlay.hosts[0].counters().unwrap().get(Counter::IcmpErrors);
    assert!(errors > 0, "{errors} errors of the fabric");
}

#[test]
fn a_restarted_agent_adopts_what_runs() {
    let Some((network, overlay)) = network("adopt") else { return };
    let pins = network.pins(A.name);
    let [host1, host2] = overlay.hosts;
    let settings = host1.settings().clone();
    let adopt = || network.within(A.name, || HostPlane::attach("eth0", &settings, &pins)).unwrap();
    let bytes = thread::scope(|scope| {
        let stream = scope.spawn(|| stream(&network, B.aa().into(), Duration::from_secs(2)));
        // The agent is gone; its programs are not.
        drop(host1);
        thread::sleep(SHORT);
        for _ in 0..3 {
            let again = adopt();
            assert!(again.adopted());
            assert_eq!(again.peers().unwrap().len(), 2);
            assert!(again.counters().unwrap().get(Counter::PushedTwo) > 0);
        }
        stream.join().unwrap()
    });
    assert!(bytes > 10_000_000, "{bytes} bytes");
    assert_eq!(host2.counters().unwrap().drops(), 0);
    let host1 = adopt();
    network.within(A.name, || host1.detach()).unwrap();
    assert!(!pins.exists());
    assert_eq!(network.output(A.name, &["tc", "filter", "show", "dev", "eth0", "egress"]), "");
}

#[test]
fn a_sender_that_times_out_is_an_event_and_a_salt_moves_its_flow() {
    let Some((network, mut overlay)) = network("rto") else { return };
    let [host1, _] = &mut overlay.hosts;
    let (flow, bytes) = thread::scope(|scope| {
        let stream = scope.spawn(|| stream(&network, B.aa().into(), Duration::from_secs(4)));
        thread::sleep(SHORT);
        overlay.switches[1].remove_strip(B.tor_la).unwrap();
        let flow: Flow = wait(host1, |event| match event {
            Event::Congestion { flow } => Some(flow),
            _ => None,
        });
        overlay.switches[1].set_strip(B.tor_la, StripRole::Tor).unwrap();
        (flow, stream.join().unwrap())
    });
    assert_eq!((flow.source, flow.destination, flow.protocol), (A.aa().into(), B.aa().into(), 6));
    assert!(bytes > 1_000_000);
    let host1 = &mut overlay.hosts[0];
    let (before, sources): (_, Vec<_>) = (
        host1.outer_source(flow).unwrap(),
        (1..9)
            .map(|salt| {
                host1.salt(flow, salt).unwrap();
                host1.outer_source(flow).unwrap()
            })
            .collect(),
    );
    assert!(sources.iter().any(|&source| source != before));
}

/// tshark on a switch's port, started and listening.
fn tshark(network: &Network, filter: &str) -> Option<Child> {
    if Command::new("tshark").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "no tshark: run scripts/setup-capture.sh");
        eprintln!("left out: tshark is not installed");
        return None;
    }
    let fields = ["frame.protocols", "ip.src", "ip.dst", "ip.proto", "ip.ttl", "ipv6.dst", "tcp.dstport", "ip.checksum.status"];
    let mut command = network.command(A.tor, "tshark");
    command.args(["-l", "-n", "-i", "u0", "-c", "3", "-o", "ip.check_checksum:TRUE", "-f", filter, "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said =
        BufReader::new(child.stderr.as_mut().unwrap()).lines().map_while(Result::ok).find(|line| line.contains("Capturing"));
    assert!(said.is_some(), "tshark does not capture");
    thread::sleep(SHORT);
    Some(child)
}

#[test]
fn tshark_reads_what_is_on_the_wire() {
    let Some((network, overlay)) = network("shark") else { return };
    for (to, protocols, inner) in
        [(IpAddr::from(B.aa()), "eth:ethertype:ip:ip:ip:tcp", "4,4,6"), (B.aa6().into(), "eth:ethertype:ip:ip:ipv6:tcp", "4,41")]
    {
        let proto = if to.is_ipv4() { "ip proto 4 and ip[29] = 4" } else { "ip proto 4 and ip[29] = 41" };
        let Some(child) = tshark(&network, &format!("{proto} and src net 10.201.1.0/24")) else { return };
        stream(&network, to, SHORT);
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        let tcp: Vec<_> = lines.iter().filter(|line| line[0].starts_with(protocols)).collect();
        assert!(!tcp.is_empty(), "{text}");
        for line in tcp {
            let outer = [ANYCAST, B.tor_la].map(|to| to.to_string());
            let to_is: Vec<&str> = line[2].split(',').collect();
            assert_eq!(to_is[..2], outer);
            assert_eq!(line[3], inner);
            let from: Vec<Ipv4Addr> = line[1].split(',').map(|ip| ip.parse().unwrap()).collect();
            assert_eq!(from[0], from[1], "one flow, one outer source");
            assert_eq!(from[0].octets()[..3], [10, 201, 1]);
            assert!(line[7].split(',').take(2).all(|status| status == "1"), "checksums of the outer headers: {}", line[7]);
        }
    }
    assert_eq!(drops(&overlay), [""; 0]);
}
