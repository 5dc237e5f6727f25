//! A VM that floods beside another tenant's VM on one server: the other's first packets and ARP are answered. As root, with `weft-agent` built; elsewhere it says that it is
//! skipped.
#![cfg(target_os = "linux")]

mod support;

use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use support::TestLab;
use support::streams::wait_until;
use support::tenants::{ask, counter, settings, stand};
use weft_fabric::BitsPerSec;
use weft_fabric::routing::spain::SpainConfig;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_lab::frames;
use weft_lab::plan::Plan;
use weft_lab::plan::netlord::{CoreSwitch, Fib, NetlordSpec, Placement};

/// Two tenants, each with a VM on either server.
const TENANTS: &str = r#"
version = 1
[[tenant]]
id = 17
name = "acme"
[[tenant]]
id = 18
name = "globex"
[[vif]]
tenant = "acme"
name = "a"
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1"]
[[vif]]
tenant = "acme"
name = "b"
mac = "02:00:00:00:00:02"
addresses = ["10.0.0.2"]
[[vif]]
tenant = "globex"
name = "a"
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1"]
[[vif]]
tenant = "globex"
name = "b"
mac = "02:00:00:00:00:02"
addresses = ["10.0.0.2"]
"#;

fn plan() -> Plan {
    let shape = Shape::TwoLevel { edges: 2, cores: 1, hosts_per_edge: 1 };
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
    let fabric = shape.build(link, link).expect("a fabric");
    let placements = ["acme", "globex"].map(|tenant| Placement { tenant: tenant.to_owned(), hosts: vec![0, 1] }).to_vec();
    let fib = Fib { entries: 64, ageing_s: 300, learn_per_second: 0 };
    let spec = NetlordSpec {
        file: TENANTS.to_owned(),
        placements,
        spain: SpainConfig::default(),
        fib,
        limits: Vec::new(),
        core: CoreSwitch::Ebpf,
        provider: None,
        chirp_us: None,
    };
    Plan::new(&fabric, &settings('f')).and_then(|plan| plan.with_netlord(&fabric, &spec)).expect("a plan")
}

/// Broadcasts, ARP requests for addresses that nobody has, and frames to MAC addresses that nobody has, as fast as the machine makes them.
fn flood(stop: &AtomicBool, sent: &AtomicU64) {
    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    let mut socket = frames::socket("eth0", 0x88b7).expect("a packet socket");
    let frame = |n: u32| {
        let [a, b, c, d] = n.to_be_bytes();
        let (to, kind) = match n % 3 {
            0 => ([0xff; 6], [0x88, 0xb7]),
            1 => ([0xff; 6], [0x08, 0x06]),
            _ => ([2, 0x77, a, b, c, d], [0x08, 0x00]),
        };
        let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &OWN, &[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, b, c, d]].concat();
        let mut frame = [&to[..], &OWN, &kind, &arp].concat();
        frame.resize(60, 0);
        frame
    };
    let frames: Vec<Vec<u8>> = (0..30_000).map(frame).collect();
    for frame in frames.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // The program on the server's side may drop it: no error of the flood.
        let _ = socket.write(frame);
        sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// Of so many first packets, each after an ARP request, how many were answered.
fn first_packets(lab: &TestLab, count: usize) -> usize {
    let one = || {
        let command = "ip neigh flush dev eth0; ping -n -c 1 -W 3 10.0.0.2";
        let output = lab.at("globex-a", || Command::new("sh").args(["-c", command]).output().expect("a shell"));
        std::thread::sleep(Duration::from_millis(100));
        output.status.success()
    };
    (0..count).filter(|_| one()).count()
}

#[test]
fn a_vm_that_floods_takes_nothing_from_another_tenants() {
    let Some(lab) = stand(plan()) else { return };
    assert_eq!(first_packets(&lab, 3), 3);
    let host = lab.plan().hosts().next().expect("a host").name.clone();
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| lab.at("acme-a", || flood(&stop, &sent)));
        wait_until("it floods", || sent.load(Ordering::Relaxed) > 20_000);
        let answered = first_packets(&lab, 20);
        stop.store(true, Ordering::Relaxed);
        answered
    });
    let status = ask(&lab, &host);
    let (full, sent) = (counter(&status, "events_full"), sent.into_inner());
    eprintln!("{answered} of 20 answered beside {sent} frames; {full} events lost");
    assert_eq!(answered, 20, "the victim's");
    assert_eq!(full, 0, "nothing is lost in the ring buffer");
    let refused = counter(&status, "agent_limit");
    assert!(refused > sent / 2, "{refused} of {sent} refused before it");
    let vifs = status["vifs"].as_array().expect("VIFs");
    let of = |tenant: &str| vifs.iter().find(|vif| vif["tenant"] == tenant).and_then(|vif| vif["refused"].as_u64());
    assert_eq!((of("acme"), of("globex")), (Some(refused), Some(0)), "counted by VIF");
}
