//! A network of the test's own with a host for each process, in which any host can be cut off from any other, in one direction or both.
//!
//! ```text
//!   host 0: eth0 10.77.0.2 ---- 10.77.0.1 h0 +-----+ h1 10.77.1.1 ---- 10.77.1.2 eth0: host 1
//!                                            | hub |  forwards; a rule "from A to B blackhole" drops without a word
//!   host 2: eth0 10.77.2.2 ---- 10.77.2.1 h2 +-----+ ...
//! ```
//! Nothing has to be removed: namespaces and devices end with the last process in them and the last descriptor of them, however the test ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace.
#[derive(Clone)]
pub struct Namespace(Arc<File>);

/// A host of the network.
#[derive(Clone)]
pub struct Host {
    pub ip: Ipv4Addr,
    pub namespace: Namespace,
}

/// Hosts and what joins them.
pub struct Network {
    hub: Namespace,
    pub hosts: Vec<Host>,
    /// How many faults cut each pair.
    cuts: Mutex<BTreeMap<(usize, usize), u32>>,
}

impl Namespace {
    fn new() -> Result<Self, String> {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace ({error}); run the test as root"))?;
            File::open("/proc/thread-self/ns/net").map_err(|error| error.to_string())
        });
        Ok(Self(Arc::new(made.join().unwrap()?)))
    }

    /// Takes this thread there, and those that it will start.
    pub fn enter(&self) {
        setns(&*self.0, CloneFlags::CLONE_NEWNET).unwrap();
    }

    /// Lets a program run there.
    pub fn hold(&self, command: &mut Command) {
        let there = self.0.clone();
        // SAFETY: setns is a system call alone, which is safe between fork and exec.
        unsafe {
            command.pre_exec(move || setns(&*there, CloneFlags::CLONE_NEWNET).map_err(Into::into));
        }
    }

    fn run(&self, script: &str) -> Result<(), String> {
        let mut shell = Command::new("sh");
        self.hold(shell.args(["-e", "-c", script]));
        let out = shell.output().map_err(|error| error.to_string())?;
        if out.status.success() { Ok(()) } else { Err(format!("{script}: {}", String::from_utf8_lossy(&out.stderr))) }
    }
}

impl Network {
    /// With so many hosts. The error says why that is not possible.
    pub fn new(count: usize) -> Result<Self, String> {
        let hub = Namespace::new()?;
        hub.run("ip link set lo up; echo 1 >/proc/sys/net/ipv4/ip_forward")?;
        let mut hosts = Vec::with_capacity(count);
        for at in 0..count {
            let namespace = Namespace::new()?;
            let there = format!("/proc/{}/fd/{}", std::process::id(), namespace.0.as_raw_fd());
            hub.run(&format!(
                "ip link add h{at} type veth peer name eth0 netns {there}; ip address add 10.77.{at}.1/30 dev h{at}; ip link set h{at} up"
            ))?;
            namespace.run(&format!(
                "ip link set lo up; ip address add 10.77.{at}.2/30 dev eth0; ip link set eth0 up; ip route add default via 10.77.{at}.1"
            ))?;
            hosts.push(Host { ip: Ipv4Addr::new(10, 77, at as u8, 2), namespace });
        }
        Ok(Self { hub, hosts, cuts: Mutex::default() })
    }

    /// Pairs that are cut now, from the rules that do it.
    pub fn count_cuts(&self) -> usize {
        let mut list = Command::new("ip");
        self.hub.hold(list.args(["rule", "list", "pref", "100"]));
        String::from_utf8(list.output().unwrap().stdout).unwrap().lines().count()
    }

    /// Loses what goes from a host to another, or carries it again, once nobody else has cut them.
    pub fn cut(&self, from: usize, to: usize, cut: bool) {
        let mut cuts = self.cuts.lock().unwrap();
        let by = cuts.entry((from, to)).or_default();
        let before = *by;
        *by = if cut { before + 1 } else { before - 1 };
        let verb = match (before, *by) {
            (0, 1) => "add",
            (1, 0) => "delete",
            _ => return,
        };
        let [from, to] = [from, to].map(|at| self.hosts[at].ip);
        self.hub.run(&format!("ip rule {verb} pref 100 from {from} to {to} blackhole")).unwrap();
    }
}
