//! A capture of one port, read byte by byte and by Wireshark's tshark.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use weft_fabric::routing::{Router, Routing};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, HostId, Instant, LinkId};
use weft_sim::packet::{PacketConfig, PacketWorld, SwitchQueue, Trace, Transport, TransportKind};

/// Two flows into host 2 through a queue of 20 packets, that of host 0 not of whole segments and later: the capture of a NIC, and what host 0 sent again.
fn capture(port: u32, kind: TransportKind, header: u64) -> (Vec<u8>, u32) {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(5) };
    let fabric = Arc::new(Shape::Switch { hosts: 3 }.build(link, link).unwrap());
    let flow = |src, start_us, bytes| FlowSpec {
        src: HostId(src),
        dst: HostId(2),
        start: Instant::ZERO + Duration::from_us(start_us),
        size: Size::Finite(Bytes(bytes)),
    };
    let transport =
        Transport { kind, initial_window: 30, header: Bytes(header), rto_min: Duration::from_ms(2), ..Transport::default() };
    let world = PacketWorld {
        router: Router::new(Arc::clone(&fabric), Routing::default(), 1),
        fabric,
        controller: None,
        workload: Box::new(StaticWorkload::new(vec![flow(1, 0, 300_000), flow(0, 300, 400_123)])),
        events: Vec::new(),
        config: PacketConfig {
            transport,
            switch_queue: SwitchQueue::Fixed(Bytes(30_000)),
            host_jitter: Some(Duration::ZERO),
            trace: Trace { port: Some(LinkId(port)), packets: 100_000, ..Trace::default() },
            ..PacketConfig::default()
        },
    };
    let outcome = world.run(&mut |_| {}).unwrap();
    (outcome.traced.pcap, outcome.flows[1].packets.unwrap().retransmits)
}

/// A packet of a capture.
#[derive(Debug)]
struct Frame<'a> {
    at_ns: u64,
    wire: u32,
    bytes: &'a [u8],
}

fn le(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn be(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn short(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap()))
}

fn frames(pcap: &[u8]) -> Vec<Frame<'_>> {
    // Nanoseconds, version 2.4, Ethernet.
    assert_eq!((le(pcap, 0), le(pcap, 4), le(pcap, 20)), (0xa1b2_3c4d, 4 << 16 | 2, 1));
    let mut rest = &pcap[24..];
    let mut frames = vec![];
    while !rest.is_empty() {
        let captured = le(rest, 8) as usize;
        let at_ns = u64::from(le(rest, 0)) * 1_000_000_000 + u64::from(le(rest, 4));
        frames.push(Frame { at_ns, wire: le(rest, 12), bytes: &rest[16..16 + captured] });
        rest = &rest[16 + captured..];
    }
    frames
}

#[test]
fn sequence_numbers_are_those_of_a_connection() {
    let (pcap, retransmits) = capture(0, TransportKind::NewReno, 40);
    let frames = frames(&pcap);
    assert!(frames.is_sorted_by_key(|f| f.at_ns));
    // Host 0 sends: the SYN, then each byte once in order, but for what it repeats.
    let syn = &frames[0];
    assert_eq!((syn.at_ns, syn.wire, syn.bytes[47]), (300_320, 54, 0x02));
    let (mut next, mut repeats) = (1, 0);
    for Frame { wire, bytes, .. } in &frames[1..] {
        let words: u32 = (0..10).map(|i| short(bytes, 14 + 2 * i)).sum();
        assert_eq!((words & 0xffff) + (words >> 16), 0xffff, "the checksum");
        assert_eq!((bytes[23], short(bytes, 12)), (6, 0x0800));
        assert_eq!((&bytes[26..30], &bytes[30..34]), (&[10, 0, 0, 0][..], &[10, 0, 0, 2][..]));
        let (payload, sequence) = (short(bytes, 16) - 40, be(bytes, 38));
        assert_eq!((*wire, be(bytes, 42)), (payload + 54, 1));
        if sequence == next {
            next += payload;
        } else {
            assert!(sequence < next);
            repeats += 1;
        }
    }
    assert_eq!((next, repeats), (400_124, retransmits));
    assert!(retransmits > 0);
}

#[test]
fn acknowledgements_never_fall_and_end_at_the_last_byte() {
    // Host 2's NIC: answers to both.
    let (pcap, _) = capture(4, TransportKind::NewReno, 40);
    let mut acked: BTreeMap<u32, u32> = BTreeMap::new();
    for Frame { bytes, .. } in frames(&pcap) {
        let last = acked.entry(short(bytes, 34)).or_default();
        assert!(be(bytes, 42) >= *last);
        *last = be(bytes, 42);
    }
    assert_eq!(acked.values().copied().collect::<Vec<_>>(), [300_001, 400_124]);
}

#[test]
fn wireshark_finds_nothing_wrong_but_losses() {
    if Command::new("tshark").arg("--version").output().is_err() {
        let missing = "tshark is missing: scripts/setup-capture.sh installs it";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
        eprintln!("skipped: {missing}");
        return;
    }
    let cases = [
        ("reno", TransportKind::NewReno, 40),
        ("dctcp", TransportKind::Dctcp, 40),
        ("mptcp", TransportKind::Mptcp { subflows: 2 }, 40),
        ("header", TransportKind::NewReno, 98),
    ];
    for (name, kind, header) in cases {
        let (pcap, retransmits) = capture(0, kind, header);
        let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcap"));
        std::fs::write(&file, &pcap).unwrap();
        let tshark = |filter: &str| {
            let output = Command::new("tshark").arg("-r").arg(&file).args(["-Y", filter]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().lines().count()
        };
        let frames = frames(&pcap).len();
        assert_eq!(tshark("tcp && ip.checksum.status != \"Bad\""), frames, "{name}");
        assert_eq!(tshark("_ws.malformed || _ws.expert.severity == error || tcp.analysis.ack_lost_segment"), 0, "{name}");
        let repeats = tshark("tcp.analysis.retransmission || tcp.analysis.fast_retransmission || tcp.analysis.out_of_order");
        assert_eq!(repeats as u32, retransmits, "{name}");
    }
}
