//! ICMP errors of virtual routers (NetLord section 3.2), as `ping` and `traceroute` show them to a tenant's VM. As root, with `weft-agent` built; elsewhere it says that it
//! is skipped.
#![cfg(target_os = "linux")]

mod support;

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use support::TestLab;
use support::streams::wait_until;
use support::tenants::{ask, counter, settings, stand};
use weft_fabric::BitsPerSec;
use weft_fabric::routing::spain::SpainConfig;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_lab::Stopwatch;
use weft_lab::plan::Plan;
use weft_lab::plan::netlord::{CoreSwitch, Fib, NetlordSpec, Placement};

/// Two MAC spaces, IPv4 and IPv6, joined by a virtual router that denies UDP port 53.
const TENANT: &str = r#"
version = 1
[[tenant]]
id = 19
name = "initech"
spaces = [1, 2]
[[vif]]
tenant = "initech"
name = "app"
space = 1
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1", "fd00:1::1"]
[[vif]]
tenant = "initech"
name = "db"
space = 2
mac = "02:00:00:00:00:01"
addresses = ["10.0.1.1", "fd00:2::1"]
[[router]]
tenant = "initech"
name = "core"
interfaces = [
  { space = 1, mac = "02:00:00:00:00:fe", address = "10.0.0.254/24" },
  { space = 2, mac = "02:00:00:00:00:fe", address = "10.0.1.254/24" },
  { space = 1, mac = "02:00:00:00:00:fe", address = "fd00:1::fe/64" },
  { space = 2, mac = "02:00:00:00:00:fe", address = "fd00:2::fe/64" },
]
[[rule]]
tenant = "initech"
router = "core"
action = "deny"
protocol = "udp"
port = 53
"#;

fn plan() -> Plan {
    let shape = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 1 };
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
    let fabric = shape.build(link, link).expect("a fabric");
    let placements = vec![Placement { tenant: "initech".to_owned(), hosts: vec![0, 1] }];
    let fib = Fib { entries: 64, ageing_s: 300, learn_per_second: 0 };
    let spec = NetlordSpec {
        file: TENANT.to_owned(),
        placements,
        spain: SpainConfig::default(),
        fib,
        limits: Vec::new(),
        core: CoreSwitch::Ebpf,
        provider: None,
        chirp_us: None,
    };
    Plan::new(&fabric, &settings('i')).and_then(|plan| plan.with_netlord(&fabric, &spec)).expect("a plan")
}

/// What a command prints in the VM `app`.
fn printed(lab: &TestLab, command: &str) -> String {
    let output = lab.at("initech-app", || Command::new("sh").args(["-c", command]).output().expect("a shell"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    eprintln!("$ {command}\n{text}");
    text
}

#[track_caller]
fn shows(lab: &TestLab, command: &str, expected: &[&str]) {
    let text = printed(lab, command);
    for part in expected {
        assert!(text.contains(part), "`{command}` does not show `{part}`:\n{text}");
    }
}

#[test]
fn virtual_routers_report_what_goes_no_further() {
    let Some(lab) = stand(plan()) else { return };
    shows(&lab, "ping -n -c 2 -W 2 10.0.1.1", &["2 received"]);
    shows(&lab, "ping -n -c 2 -W 2 fd00:2::1", &["2 received"]);
    // No route, nobody there, denied.
    shows(&lab, "ping -n -c 1 -W 2 192.0.2.7", &["From 10.0.0.254", "Destination Net Unreachable"]);
    shows(&lab, "ping -n -c 1 -W 2 2001:db8::7", &["From fd00:1::fe", "No route"]);
    shows(&lab, "ping -n -c 1 -W 4 10.0.1.77", &["From 10.0.0.254", "Destination Host Unreachable"]);
    shows(&lab, "ping -n -c 1 -W 4 fd00:2::77", &["From fd00:1::fe", "Address unreachable"]);
    shows(&lab, "traceroute -n -q 1 -w 2 -U -p 53 -m 3 10.0.1.1", &["10.0.0.254", "!X"]);
    // The end of its time to live.
    for (version, router, end) in [("-4", " 1  10.0.0.254", " 2  10.0.1.1"), ("-6", " 1  fd00:1::fe", " 2  fd00:2::1")] {
        let target = end.split_whitespace().last().expect("an address");
        shows(&lab, &format!("traceroute {version} -n -q 3 -w 2 {target}"), &[router, end]);
    }
    a_packet_that_does_not_fit(&lab);
    they_are_not_many(&lab);
}

/// The VM believes that it can send more than the fabric carries.
fn a_packet_that_does_not_fit(lab: &TestLab) {
    let vm = lab.plan().overlay.netlord().and_then(|it| it.vm("initech", "app")).expect("a VM of the plan");
    let host = &lab.plan().nodes[vm.host];
    lab.shell(&host.name, &format!("ip link set {} mtu 1600", host.ports[vm.port].name));
    lab.shell("initech-app", "ip link set eth0 mtu 1600");
    shows(lab, "ping -n -c 2 -W 2 -M do -s 1572 10.0.1.1", &["mtu", "1566"]);
    shows(lab, "ping -n -c 2 -W 2 -M do -s 1552 fd00:2::1", &["mtu", "1566"]);
    // What the kernel has learnt of it is used at once.
    shows(lab, "ip route get 10.0.1.1", &["mtu 1566"]);
    shows(lab, "ping -n -c 1 -W 2 -s 3000 10.0.1.1", &["1 received"]);
    shows(lab, "ping -n -c 1 -W 2 -s 3000 fd00:2::1", &["1 received"]);
}

/// Of 2,000 packets to nowhere 50 are reported at once, and 100 each second.
fn they_are_not_many(lab: &TestLab) {
    let host = lab.plan().hosts().next().expect("a host").name.clone();
    let counts = || {
        let status = ask(lab, &host);
        ["icmp_errors", "icmp_limited"].map(|name| counter(&status, name))
    };
    let (before, watch) = (counts(), Stopwatch::new());
    lab.at("initech-app", || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
        for _ in 0..1000 {
            // Of two calls one reports the error about an earlier datagram.
            (0..3).for_each(|_| drop(socket.send_to(&[7; 32], "192.0.2.7:9")));
        }
    });
    wait_until("all that has arrived is counted", || {
        let first = counts();
        std::thread::sleep(Duration::from_millis(200));
        first == counts() && first[0] > before[0]
    });
    let (after, seconds) = (counts(), watch.elapsed().as_secs_f64());
    let [sent, limited] = [0, 1].map(|at| after[at] - before[at]);
    eprintln!("{sent} sent, {limited} not, in {seconds:.2} s");
    assert!(limited > sent && (sent as f64) < 55.0 + 100.0 * seconds, "{before:?} {after:?}");
}
