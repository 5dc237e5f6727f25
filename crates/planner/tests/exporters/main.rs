//! Logs of real exporters and collectors: softflowd's NetFlow 5 and 9 and IPFIX, nfdump's CSV of what nfcapd collected of them, and Open vSwitch's sFlow,
//! NetFlow and IPFIX. Their flows must be those of the packets that the exporter saw.

mod openvswitch;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

/// When the first packet is sent: in 2023.
const START_S: u32 = 1_700_000_000;

/// A packet of Ethernet and IPv4; UDP or TCP of this length with the IP header.
fn packet(src: [u8; 4], dst: [u8; 4], ports: [u16; 2], protocol: u8, length: u16) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    out.extend(length.to_be_bytes());
    out.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
    out.extend([src, dst].concat());
    out.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    let rest: &[u8] = if protocol == 6 { &[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 4, 0, 0, 0, 0, 0] } else { &[0, 0, 0, 0] };
    out.extend(rest);
    if protocol == 17 {
        out[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    }
    out.resize(14 + usize::from(length), b'x');
    out
}

/// Writes a capture; times are milliseconds from [`START_S`].
fn write_capture(path: &Path, packets: &[(u32, Vec<u8>)]) {
    let mut out = BufWriter::new(File::create(path).expect("created"));
    let words = |words: &[u32]| words.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
    out.write_all(&words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1])).expect("written");
    for (at_ms, bytes) in packets {
        let length = bytes.len() as u32;
        out.write_all(&words(&[START_S + at_ms / 1_000, at_ms % 1_000 * 1_000, length, length])).expect("written");
        out.write_all(bytes).expect("written");
    }
    out.flush().expect("written");
}

/// A connection of 10 s in both directions, and a flow of datagrams between others.
fn packets() -> Vec<(u32, Vec<u8>)> {
    let (a, b, c, d) = ([10, 0, 0, 1], [10, 0, 1, 2], [10, 0, 0, 3], [10, 0, 2, 4]);
    let mut all: Vec<(u32, Vec<u8>)> = (0..100).map(|i| (i * 100, packet(a, b, [1000, 80], 6, 1_000))).collect();
    all.extend((0..50).map(|i| (i * 200, packet(b, a, [80, 1000], 6, 60))));
    all.extend((0..20).map(|i| (2_000 + i * 300, packet(c, d, [5000, 53], 17, 400))));
    all.sort_by_key(|(at_ms, _)| *at_ms);
    all
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("set");
    socket
}

/// Packets of what arrives until a second passes without anything, as sent to a port.
fn record(socket: &UdpSocket, port: u16) -> Vec<(u32, Vec<u8>)> {
    let mut datagrams = Vec::new();
    let mut buffer = [0; 65_536];
    while let Ok(length) = socket.recv(&mut buffer) {
        let mut bytes = packet([10, 9, 9, 9], [10, 9, 9, 8], [4444, port], 17, 28 + length as u16);
        bytes[42..].copy_from_slice(&buffer[..length]);
        datagrams.push((10_000, bytes));
    }
    datagrams
}

fn study(arguments: &[&str], folder: &Path) -> Value {
    let mut program = Command::new(env!("CARGO_BIN_EXE_weft-planner"));
    let output =
        program.args(["analyze", "traffic"]).args(arguments).arg("--json").current_dir(folder).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Flows, bytes, hosts; start and length in seconds.
fn figures(study: &Value) -> ([u64; 3], [f64; 2]) {
    let totals = &study["totals"];
    let number = |key: &str| totals[key].as_f64().unwrap_or_else(|| panic!("{key}: {totals}"));
    (["flows", "bytes", "hosts"].map(|key| number(key) as u64), ["start_s", "duration_s"].map(number))
}

/// Whether the programs are there; in CI they must be.
fn installed() -> bool {
    let is_there = |program: &str| Command::new(program).arg("-h").output().is_ok();
    let all = ["softflowd", "nfcapd", "nfdump"].into_iter().all(is_there);
    assert!(all || std::env::var_os("CI").is_none(), "no softflowd, nfcapd or nfdump: scripts/setup-exporters.sh");
    if !all {
        eprintln!("skipped: no softflowd, nfcapd or nfdump: scripts/setup-exporters.sh");
    }
    all
}

/// Exports a capture to a port of loopback.
fn export(folder: &Path, version: &str, port: u16) -> Output {
    let pid = folder.join("softflowd.pid");
    let mut program = Command::new("softflowd");
    program.args(["-r", "packets.pcap", "-n", &format!("127.0.0.1:{port}"), "-v", version, "-a", "-d", "-c", "none", "-p"]);
    program.arg(pid).current_dir(folder).output().expect("it runs")
}

#[test]
fn flows_of_an_exporter_are_those_of_its_packets() {
    if !installed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    write_capture(&folder.path().join("packets.pcap"), &packets());
    let (counts, [start_s, length_s]) = figures(&study(&["packets.pcap"], folder.path()));
    assert_eq!((counts, length_s), ([3, 111_000, 4], 9.9));
    assert!((start_s - f64::from(START_S)).abs() < 1e-3);
    for version in ["5", "9", "10"] {
        let socket = socket();
        let output = export(folder.path(), version, socket.local_addr().expect("bound").port());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        write_capture(&folder.path().join("export.pcap"), &record(&socket, 2055));
        let found = study(&["export.pcap"], folder.path());
        let (exported, [from_s, exported_s]) = figures(&found);
        assert_eq!((exported, &found["skipped"]), (counts, &serde_json::json!([])), "version {version}: {found}");
        // NetFlow 9 states when it was sent in whole seconds.
        assert!(
            (exported_s - length_s).abs() < 0.01 && (from_s - start_s).abs() <= 1.0,
            "version {version}: {from_s}, {exported_s}"
        );
    }
}

/// What is lost between an exporter and its collector is stated, and nothing else is.
#[test]
fn messages_that_are_lost_are_counted() {
    if !installed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let flows =
        (0..300u16).map(|i| (u32::from(i), packet([10, 0, 0, 1], [10, 0, 1, 2], [1_000 + i, 53], 17, 400))).collect::<Vec<_>>();
    write_capture(&folder.path().join("packets.pcap"), &flows);
    let notes = |messages: &[(u32, Vec<u8>)]| {
        write_capture(&folder.path().join("export.pcap"), messages);
        let found = study(&["export.pcap"], folder.path());
        let notes = found["notes"].as_array().expect("notes").iter().map(|it| it.as_str().expect("text").to_owned());
        (found["flows"].as_u64().expect("a number"), notes.filter(|note| note.contains("missing")).collect::<Vec<_>>())
    };
    for version in ["5", "9", "10"] {
        let socket = socket();
        let output = export(folder.path(), version, socket.local_addr().expect("bound").port());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut messages = record(&socket, 2055);
        assert_eq!(notes(&messages), (300, Vec::new()), "version {version}");
        // Late is not lost.
        messages.swap(2, 3);
        assert_eq!(notes(&messages), (300, Vec::new()), "version {version}");
        let all = messages.len();
        messages.remove(3);
        let (arrived, found) = notes(&messages);
        let lost = match version {
            "9" => format!("1 of {all} messages that exporter 10.9.9.9 sent by NetFlow 9 are missing"),
            "5" => format!("{} of 300 flows that exporter 10.9.9.9 sent by NetFlow 5 are missing", 300 - arrived),
            // One record is of options.
            _ => format!("{} of 301 records that exporter 10.9.9.9 sent by IPFIX are missing", 300 - arrived),
        };
        assert!(arrived < 300 && found.len() == 1 && found[0].ends_with(&lost), "version {version}: {found:?}, {lost}");
    }
}

/// Ends a collector, which then completes its file.
struct Collector(Child);

impl Collector {
    /// Starts it on a free port; `None` if it does not listen.
    fn start(folder: &Path) -> Option<(Self, u16)> {
        let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr()).expect("a port").port();
        let mut program = Command::new("nfcapd");
        program.args(["-b", "127.0.0.1", "-p", &port.to_string(), "-t", "3600", "-l"]).arg(folder);
        let mut collector = Self(program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"));
        for _ in 0..100 {
            sleep(Duration::from_millis(50));
            let sockets = std::fs::read_to_string("/proc/net/udp").expect("read");
            let file = folder.join(format!("nfcapd.current.{}", collector.0.id()));
            if collector.0.try_wait().expect("it is a child").is_some() {
                return None;
            }
            if sockets.contains(&format!("0100007F:{port:04X}")) && file.exists() {
                return Some((collector, port));
            }
        }
        None
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[test]
fn flows_of_a_collector_are_those_of_the_packets() {
    if !installed() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    write_capture(&folder.path().join("packets.pcap"), &packets());
    let collected = folder.path().join("collected");
    std::fs::create_dir(&collected).expect("created");
    // Another test may take the port in between: then the collector ends at once.
    let (collector, port) = (0..5).find_map(|_| Collector::start(&collected)).expect("the collector listens");
    let output = export(folder.path(), "9", port);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // It has no sign that it has read all.
    sleep(Duration::from_secs(2));
    drop(collector);
    let files: Vec<_> = std::fs::read_dir(&collected).expect("read").map(|it| it.expect("read").path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let csv = Command::new("nfdump").arg("-r").arg(&files[0]).args(["-o", "csv"]).output().expect("it runs");
    std::fs::write(folder.path().join("flows.csv"), &csv.stdout).expect("written");
    let (counts, [_, length_s]) = figures(&study(&["flows.csv"], folder.path()));
    assert_eq!(counts, [3, 111_000, 4], "{}", String::from_utf8_lossy(&csv.stdout));
    assert!((length_s - 9.9).abs() < 0.01, "{length_s}");
}
