//! Captures: packets, NetFlow, IPFIX, sFlow.

use proptest::prelude::*;

use super::*;

const S: i64 = 1_000_000_000;

/// A pcap file (microseconds, little-endian, Ethernet) of frames, each with its time in seconds.
fn pcap(frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        out.extend(word.to_le_bytes());
    }
    for (at, frame) in frames {
        for word in [*at, 500, frame.len() as u32, frame.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(frame);
    }
    out
}

/// The same as pcapng, with nanoseconds and big-endian.
fn pcapng(frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_be_bytes();
        [&kind.to_be_bytes()[..], &length, body, &length].concat()
    };
    let section = [&0x1a2b_3c4du32.to_be_bytes()[..], &[0, 1, 0, 0], &[0xff; 8]].concat();
    // Ethernet; option 9: 10^-9 s; end of options.
    let interface = [0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0];
    let mut out = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    for (at, frame) in frames {
        let ns = u64::from(*at) * 1_000_000_000 + 500_000;
        let mut body = 0u32.to_be_bytes().to_vec();
        for word in [(ns >> 32) as u32, ns as u32, frame.len() as u32, frame.len() as u32] {
            body.extend(word.to_be_bytes());
        }
        body.extend(frame);
        body.resize(body.len().next_multiple_of(4), 0);
        out.extend(block(6, &body));
    }
    out
}

/// An Ethernet frame of UDP over IPv4 from 10.0.0.`src` to 10.0.0.`dst`.
fn udp(src: u8, dst: u8, port: u16, payload: &[u8]) -> Vec<u8> {
    let total = (28 + payload.len()) as u16;
    let mut out = vec![2; 12];
    out.extend([8, 0, 0x45, 0]);
    out.extend(total.to_be_bytes());
    out.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, src, 10, 0, 0, dst]);
    out.extend([0x0f, 0xa0]);
    out.extend(port.to_be_bytes());
    out.extend(((8 + payload.len()) as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn halves(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|half| half.to_be_bytes()).collect()
}

#[test]
fn packets_become_flows_that_end_when_idle() {
    let frames: Vec<(u32, Vec<u8>)> =
        vec![(10, udp(1, 2, 80, &[0; 100])), (12, udp(1, 2, 80, &[0; 50])), (13, udp(2, 1, 80, b"x")), (100, udp(1, 2, 80, b""))];
    for file in [pcap(&frames), pcapng(&frames)] {
        let (format, kept) = read_all(&file).expect("flows");
        assert_eq!(format, Format::Capture);
        let mut flows: Vec<_> = kept.flows.iter().map(short).collect();
        flows.sort();
        let ns = 500_000;
        assert_eq!(
            flows,
            [
                row("10.0.0.1", "10.0.0.2", 10 * S + ns, Some(12 * S + ns), 206),
                row("10.0.0.1", "10.0.0.2", 100 * S + ns, Some(100 * S + ns), 28),
                row("10.0.0.2", "10.0.0.1", 13 * S + ns, Some(13 * S + ns), 29),
            ]
        );
    }
}

#[test]
fn a_cut_capture_is_an_error_or_counted() {
    let frames = vec![(10, udp(1, 2, 80, &[0; 100])), (12, udp(1, 3, 80, &[0; 50]))];
    for whole in [pcap(&frames), pcapng(&frames)] {
        let cut = &whole[..whole.len() - 5];
        let Err(problem) = read_all(cut) else { panic!("read") };
        assert_eq!((problem.place.as_str(), problem.message.as_str()), ("packet 2", "the file ends within a packet"));
        let kept = read_some(cut).expect("flows");
        assert_eq!((kept.flows.len(), kept.tally.count_of("ends of damaged captures")), (1, 1));
    }
}

#[test]
fn a_clock_that_goes_back_is_noted() {
    let (_, kept) = read_all(&pcap(&[(10, udp(1, 2, 80, b"")), (7, udp(1, 2, 80, b""))])).expect("flows");
    assert!(kept.tally.notes()[0].contains("goes back 1 times, by 3.000000 s"));
    assert_eq!((kept.flows[0].start, kept.flows[0].end), (7 * S + 500_000, Some(10 * S + 500_000)));
}

/// A flow of NetFlow version 5: 2 s long, ended 1 s ago.
fn version5(interval: u16) -> Vec<u8> {
    let mut out = halves(&[5, 1]);
    out.extend(words(&[10_000, 1_000, 0, 1]));
    out.extend(halves(&[0, interval]));
    out.extend([20, 0, 0, 1, 20, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 2]);
    out.extend(words(&[7, 9_000, 7_000, 9_000]));
    out.extend(halves(&[4000, 80]));
    out.extend([0, 0x18, 6, 0, 0, 0, 0, 0, 24, 24, 0, 0]);
    out
}

#[test]
fn netflow_version_5_with_sampling() {
    let file = pcap(&[(1_000, udp(9, 8, 2055, &version5(100)))]);
    let (_, kept) = read_all(&file).expect("flows");
    let flow = &kept.flows[0];
    assert_eq!(short(flow), row("20.0.0.1", "20.0.0.2", 997 * S, Some(999 * S), 9_000));
    assert_eq!((flow.packets, flow.sampling, flow.protocol, flow.dst_port), (7, 100, 6, 80));
    assert_eq!(flow.exporter.as_ref().map(ToString::to_string).as_deref(), Some("10.0.0.9"));
    let mut cut = version5(0);
    cut.pop();
    let Err(problem) = read_all(&pcap(&[(1_000, udp(9, 8, 2055, &cut))])) else { panic!("read") };
    assert!(problem.message.contains("NetFlow version 5 from 10.0.0.9 is cut short"), "{problem:?}");
}

/// A message of version 9 with one set.
fn version9(set: u16, body: &[u8]) -> Vec<u8> {
    let mut out = halves(&[9, 1]);
    out.extend(words(&[10_000, 1_000, 1, 7]));
    out.extend(halves(&[set, body.len() as u16 + 4]));
    out.extend(body);
    out
}

const TEMPLATE: [u16; 14] = [300, 6, 8, 4, 12, 4, 1, 4, 22, 4, 21, 4, 4, 1];

#[test]
fn netflow_version_9_with_a_late_template_and_changing_sampling() {
    let data = [&[20, 0, 0, 1, 20, 0, 0, 2][..], &words(&[9_000, 7_000, 9_000]), &[17]].concat();
    let sampler = halves(&[400, 4, 4, 1, 2, 34, 4]);
    let frames = vec![
        (1_000, udp(9, 8, 2055, &version9(300, &data))),
        (1_000, udp(9, 8, 2055, &version9(0, &halves(&TEMPLATE)))),
        (1_000, udp(9, 8, 2055, &version9(1, &sampler))),
        (1_000, udp(9, 8, 2055, &version9(400, &[&[0, 1][..], &words(&[64])].concat()))),
        (1_000, udp(9, 8, 2055, &version9(300, &data))),
        (1_000, udp(9, 8, 2055, &version9(400, &[&[0, 1][..], &words(&[128])].concat()))),
        (1_000, udp(9, 8, 2055, &version9(300, &data))),
        (1_005, udp(9, 8, 2055, &version9(301, &data))),
    ];
    let (_, kept) = read_all(&pcap(&frames)).expect("flows");
    let rates: Vec<u32> = kept.flows.iter().map(|flow| flow.sampling).collect();
    assert_eq!(rates, [1, 64, 128]);
    assert_eq!(short(&kept.flows[0]), row("20.0.0.1", "20.0.0.2", 997 * S, Some(999 * S), 9_000));
    assert_eq!(kept.tally.count_of("sets of data without a template"), 1);
    let notes = kept.tally.notes().join("\n");
    assert!(notes.contains("changes its sampling rate") && notes.contains("by up to -5.0 s"), "{notes}");
}

#[test]
fn ipfix_with_milliseconds_variable_lengths_and_enterprises() {
    // IPv6 addresses, bytes, start and end in milliseconds, a name of variable length, an enterprise's own field.
    let template = [halves(&[300, 7, 27, 16, 28, 16, 85, 8, 152, 8, 153, 8, 82, 65_535, 0x8000 | 5, 2]), words(&[9])].concat();
    let mut data = vec![0x20; 32];
    data[31] = 0x21;
    data.extend(5_000u64.to_be_bytes());
    data.extend(1_500u64.to_be_bytes());
    data.extend(2_500u64.to_be_bytes());
    data.extend([3, b'e', b't', b'h', 0, 1]);
    let set = |id: u16, body: &[u8]| [&halves(&[id, body.len() as u16 + 4])[..], body].concat();
    let sets = [set(2, &template), set(300, &data)].concat();
    let mut message = halves(&[10, sets.len() as u16 + 16]);
    message.extend(words(&[1_000, 1, 7]));
    message.extend(&sets);
    let (_, kept) = read_all(&pcap(&[(1_000, udp(9, 8, 4739, &message))])).expect("flows");
    let flow = &kept.flows[0];
    assert_eq!((flow.start, flow.end, flow.bytes), (1_500_000_000, Some(2_500_000_000), 5_000));
    assert!(flow.dst.to_string().ends_with(":2021"), "{}", flow.dst);
}

#[test]
fn sflow_samples_become_flows() {
    let frame = udp(3, 4, 80, &[0; 100]);
    let mut header = words(&[1, frame.len() as u32 + 4, 4, frame.len() as u32]);
    header.extend(&frame);
    header.resize(header.len().next_multiple_of(4), 0);
    let record = [words(&[1, header.len() as u32]), header].concat();
    let sample = [words(&[1, 0, 512, 0, 0, 1, 2, 1]), record].concat();
    let sample = [words(&[1, sample.len() as u32]), sample].concat();
    let counters = words(&[2, 4, 0]);
    let datagram = [words(&[5, 1]), vec![10, 0, 0, 9], words(&[0, 1, 1, 3]), sample.clone(), counters, sample].concat();
    let (_, kept) = read_all(&pcap(&[(10, udp(9, 8, 6343, &datagram))])).expect("flows");
    let flow = &kept.flows[0];
    assert_eq!(short(flow), row("10.0.0.3", "10.0.0.4", 10 * S + 500_000, Some(10 * S + 500_000), 256));
    assert_eq!((flow.packets, flow.sampling), (2, 512));
    assert_eq!(kept.tally.count_of("sFlow samples that are not of packets"), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_flows(bytes: Vec<u8>, port in prop::sample::select(vec![80u16, 2055, 4739, 6343]), kind in 0usize..5, cut in 0usize..60) {
        let head: &[u8] = [&[][..], &[0, 5], &[0, 9, 0, 1], &[0, 10, 0, 90], &[0, 0, 0, 5, 0, 0, 0, 1]][kind];
        let payload = [head, &bytes].concat();
        let frames = vec![(1, udp(1, 2, port, &payload)), (1, udp(1, 2, port, &version9(0, &bytes))), (1, udp(1, 2, port, &version9(300, &bytes))),
            (1, bytes.clone()), (2, udp(1, 2, port, &version9(0, &halves(&TEMPLATE))))];
        for file in [pcap(&frames), pcapng(&frames)] {
            let _ = read_all(&file);
            prop_assert!(read_some(&file).is_ok());
            let _ = read_some(&file[..file.len() - cut.min(file.len())]);
        }
        for magic in [[0xd4, 0xc3, 0xb2, 0xa1], [0x0a, 0x0d, 0x0d, 0x0a]] {
            let _ = read_some(&[&magic[..], &bytes].concat());
        }
    }
}
