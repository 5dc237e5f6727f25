//! Checks whether this system can run labs, by trying each feature in a private namespace that disappears with its thread.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;
use serde::Serialize;

use crate::batch::batch;
use crate::traffic::mptcp;
use crate::{dhcp, ebpf, frr, lab, sysctl};

/// The result of all checks.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether a lab can come up.
    pub ok: bool,
    /// The checks.
    pub checks: Vec<Check>,
}

/// The check of one feature.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The feature.
    pub name: &'static str,
    /// Its state.
    pub state: State,
    /// What was found, or the purpose of the feature.
    pub detail: String,
    /// How to get it.
    pub remedy: Option<&'static str>,
}

/// The state of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Available.
    Ok,
    /// Missing, and not every lab needs it.
    Optional,
    /// Missing, and every lab needs it.
    Missing,
    /// Only root can check it.
    Unknown,
}

/// Runs all checks.
pub fn examine() -> Report {
    let root = geteuid().is_root();
    let mut checks = vec![Check {
        name: "root",
        state: if root { State::Ok } else { State::Missing },
        detail: "to create namespaces and links".to_owned(),
        remedy: (!root).then_some("run `sudo weft lab ...`"),
    }];
    checks.extend(programs());
    checks.extend(if root { of_kernel() } else { KERNEL_CHECKS.iter().map(|t| t.unknown()).collect() });
    checks.push(cubic());
    checks.push(file("/dev/net/tun", "TUN", "tunnels of user programs"));
    checks.push(file("/sys/kernel/btf/vmlinux", "BTF", "eBPF programs that fit any kernel (CONFIG_DEBUG_INFO_BTF)"));
    checks.push(file("/sys/fs/bpf", "bpffs", "eBPF maps that outlive their program (mount -t bpf bpf /sys/fs/bpf)"));
    checks.push(leftovers());
    Report { ok: checks.iter().all(|c| c.state != State::Missing), checks }
}

fn programs() -> Vec<Check> {
    let of = |name: &'static str, found: Option<String>, state: State, what: &str, remedy| Check {
        name,
        state: if found.is_some() { State::Ok } else { state },
        detail: found.unwrap_or_else(|| what.to_owned()),
        remedy: Some(remedy),
    };
    let mut checks: Vec<Check> = ["ip", "tc"]
        .into_iter()
        .map(|p| of(p, version(p, "-V"), State::Missing, "creates links, addresses and rates", "apt-get install iproute2"))
        .collect();
    let missing: Vec<&str> = frr::ALL.into_iter().filter(|d| frr::program(d).is_none()).collect();
    let found = missing.is_empty().then(|| frr::program("zebra").and_then(|p| version(p.to_str()?, "--version"))).flatten();
    let what = format!("for `--routing frr`; without {}", missing.join(", "));
    checks.push(of("FRR", found, State::Optional, &what, "apt-get install frr, and `systemctl disable --now frr`"));
    let switch = "/usr/sbin/ovs-vswitchd";
    let found = Path::new(switch).is_file().then(|| version(switch, "--version")).flatten();
    let what = "for `--routing openflow`, and `switches.core = \"ovs\"` with NetLord";
    checks.push(of("Open vSwitch", found, State::Optional, what, "apt-get install openvswitch-switch, and disable its service"));
    let found = dhcp::find(dhcp::DNSMASQ, "dnsmasq-base").ok().and_then(|path| version(path.to_str()?, "--version"));
    let what = "for `overlay.provider` with NetLord, and `overlay.addresses = \"dhcp\"` with VL2";
    checks.push(of("dnsmasq", found, State::Optional, what, "apt-get install dnsmasq-base"));
    let client = dhcp::find(dhcp::UDHCPC, dhcp::UDHCPC).ok().map(|path| path.display().to_string());
    let what = "for `overlay.addresses = \"dhcp\"` with VL2";
    checks.push(of("udhcpc", client, State::Optional, what, "apt-get install udhcpc"));
    checks.iter_mut().filter(|c| c.state == State::Ok).for_each(|c| c.remedy = None);
    checks
}

/// The first line of a program's version.
fn version(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    text.lines().next().map(|l| l.trim().to_owned())
}

/// A feature that a kernel may lack, and how to try it.
struct KernelCheck {
    name: &'static str,
    state: State,
    purpose: &'static str,
    remedy: &'static str,
    action: Action,
}

enum Action {
    Ip(&'static str),
    Tc(&'static str),
    Sysctl(&'static str, &'static str),
    /// Attaches the program of switches' ports to a device.
    Ebpf(&'static str),
    /// Opens a socket of MPTCP, and finds the path manager.
    Mptcp,
}

impl KernelCheck {
    fn check(&self) -> Check {
        let works = match self.action {
            Action::Ip(commands) => batch("ip", commands, "a test namespace").is_ok(),
            Action::Tc(commands) => batch("tc", commands, "a test namespace").is_ok(),
            Action::Ebpf(device) => ebpf::Program::forget_hash().and_then(|p| p.attach([device])).is_ok(),
            Action::Mptcp => mptcp::check().is_ok(),
            Action::Sysctl(key, value) => sysctl::set(&[(key, value.to_owned())], "a test namespace").is_ok(),
        };
        Check {
            name: self.name,
            state: if works { State::Ok } else { self.state },
            detail: self.purpose.to_owned(),
            remedy: (!works).then_some(self.remedy),
        }
    }

    fn unknown(&self) -> Check {
        Check { name: self.name, state: State::Unknown, detail: self.purpose.to_owned(), remedy: None }
    }
}

fn of_kernel() -> Vec<Check> {
    let trials = || {
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            let remedy = Some("a container needs CAP_SYS_ADMIN and CAP_NET_ADMIN, as `docker run --privileged` gives them");
            return vec![Check { name: "network namespaces", state: State::Missing, detail: "one per node".to_owned(), remedy }];
        }
        KERNEL_CHECKS.iter().map(KernelCheck::check).collect()
    };
    std::thread::scope(|scope| scope.spawn(trials).join().unwrap_or_default())
}

fn cubic() -> Check {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let there = available.split_ascii_whitespace().any(|c| c == "cubic");
    Check {
        name: "TCP cubic",
        state: if there { State::Ok } else { State::Missing },
        detail: "congestion control of hosts".to_owned(),
        remedy: (!there).then_some("modprobe tcp_cubic"),
    }
}

fn file(path: &'static str, name: &'static str, purpose: &str) -> Check {
    let there = Path::new(path).exists();
    Check {
        name,
        state: if there { State::Ok } else { State::Optional },
        detail: if there { path.to_owned() } else { format!("no {path}: {purpose}") },
        remedy: None,
    }
}

/// Labs left by a crash take memory, but do not prevent others.
fn leftovers() -> Check {
    let broken: Vec<String> =
        lab::names().into_iter().filter(|n| lab::status(n).phase == crate::state::Phase::Broken).map(String::from).collect();
    Check {
        name: "leftovers",
        state: if broken.is_empty() { State::Ok } else { State::Optional },
        detail: if broken.is_empty() { "none".to_owned() } else { format!("of {}", broken.join(", ")) },
        remedy: (!broken.is_empty()).then_some("weft lab down --all"),
    }
}

const MODULE: &str = "load the kernel's module, or use a kernel that has it (Debian's and Ubuntu's have)";

/// In order: later ones use the devices of earlier ones.
const KERNEL_CHECKS: &[KernelCheck] = &[
    KernelCheck {
        name: "veth",
        state: State::Missing,
        purpose: "one pair per cable",
        remedy: MODULE,
        action: Action::Ip(
            "link add end0 type veth peer name end1\nlink set end0 up\nlink set end1 up\naddr add 10.0.0.0/31 dev end0\n",
        ),
    },
    KernelCheck {
        name: "TBF",
        state: State::Missing,
        purpose: "rates of links",
        remedy: MODULE,
        action: Action::Tc("qdisc add dev end0 root tbf rate 10mbit burst 8000 limit 100000\n"),
    },
    KernelCheck {
        name: "multipath routes",
        state: State::Missing,
        purpose: "ECMP",
        remedy: "use a kernel with CONFIG_IP_ROUTE_MULTIPATH",
        action: Action::Ip("route add 10.9.0.0/16 nexthop via 10.0.0.1 dev end0 nexthop via 10.0.0.1 dev end0 weight 2\n"),
    },
    KernelCheck {
        name: "hash of ports",
        state: State::Missing,
        purpose: "paths per flow, not per host (fib_multipath_hash_policy)",
        remedy: "use Linux 4.12 or newer",
        action: Action::Sysctl("net/ipv4/fib_multipath_hash_policy", "1"),
    },
    KernelCheck {
        name: "hash seeds",
        state: State::Missing,
        purpose: "different paths at each switch (fib_multipath_hash_seed)",
        remedy: "use Linux 6.11 or newer",
        action: Action::Sysctl("net/ipv4/fib_multipath_hash_seed", "1"),
    },
    KernelCheck {
        name: "eBPF at ports",
        state: State::Missing,
        purpose: "hashes computed by each switch (clsact)",
        remedy: "use a kernel with CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS",
        action: Action::Ebpf("end0"),
    },
    KernelCheck {
        name: "policy routing",
        state: State::Optional,
        purpose: "hosts with several NICs, and Valiant Load Balancing",
        remedy: "use a kernel with CONFIG_IP_MULTIPLE_TABLES",
        action: Action::Ip("rule add from 10.0.0.0 lookup 100\n"),
    },
    KernelCheck {
        name: "MPTCP",
        state: State::Optional,
        purpose: "transport.kind = \"mptcp\": subflows of a connection over several NICs",
        remedy: "use Linux 5.19 or newer with CONFIG_MPTCP, and `sysctl net.mptcp.enabled=1`",
        action: Action::Mptcp,
    },
    KernelCheck {
        name: "VXLAN",
        state: State::Optional,
        purpose: "comparison with the agent",
        remedy: MODULE,
        action: Action::Ip("link add vx type vxlan id 1 dstport 4789 local 10.0.0.0\n"),
    },
    KernelCheck {
        name: "HTB",
        state: State::Optional,
        purpose: "rates by class",
        remedy: MODULE,
        action: Action::Tc("qdisc add dev end1 root htb\n"),
    },
    KernelCheck {
        name: "netem",
        state: State::Optional,
        purpose: "delays of links, which the lab does not emulate",
        remedy: MODULE,
        action: Action::Tc("qdisc replace dev end1 root netem delay 1ms\n"),
    },
    KernelCheck {
        name: "IP-in-IP",
        state: State::Optional,
        purpose: "tunnels by the kernel, which the lab does not use",
        remedy: MODULE,
        action: Action::Ip("link add tun7 type ipip local 10.0.0.0 remote 10.0.0.1\n"),
    },
];
