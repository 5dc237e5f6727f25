//! What fails during the soak: one fault of the overlay (agents, directory), one of the network, or one of each at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use weft_fabric::topology::Part;
use weft_fabric::{Fabric, NodeId, rng};
use weft_lab::Stopwatch;
use weft_lab::events::{Change, Injector};
use weft_lab::plan::vl2::Vl2Host;
use weft_lab::plan::{Node, Role};
use weft_lab::{agents, directory};

use crate::HOSTS_PER_TOR;
use crate::support::TestLab;
use crate::support::overlay::{GO, agent, ask, host, overlay, provision, version};
use crate::support::streams::wait_until;
use crate::traffic::{MOVING, Traffic};

/// A fault; nodes by their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// An agent is killed, and started again later.
    AgentKilled {
        node: usize,
    },
    /// An agent is replaced at once by a program of the other version of the protocols.
    AgentReplaced {
        node: usize,
    },
    ServerKilled {
        server: usize,
    },
    /// All servers are away at the same time.
    DirectoryAway,
    StoreKilled,
    /// The address that moves goes to the next of its hosts.
    Moved,
    /// A cable between switches has no signal.
    CableLost {
        node: usize,
        port: usize,
    },
    /// The cable of a host: it is not alive then.
    HostUnplugged {
        host: usize,
    },
    /// All cables of an intermediate switch.
    SwitchLost {
        node: usize,
    },
}

impl Fault {
    /// Its kind, without where it is.
    fn kind(self) -> &'static str {
        match self {
            Self::AgentKilled { .. } => "agent killed",
            Self::AgentReplaced { .. } => "agent replaced by another version",
            Self::ServerKilled { .. } => "directory server killed",
            Self::DirectoryAway => "all directory servers killed",
            Self::StoreKilled => "etcd killed",
            Self::Moved => "address moved to another host",
            Self::CableLost { .. } => "cable between switches lost",
            Self::HostUnplugged { .. } => "host unplugged",
            Self::SwitchLost { .. } => "intermediate switch lost",
        }
    }
}

pub struct Faults<'a> {
    lab: &'a TestLab,
    fabric: &'a Fabric,
    injector: Injector<'a>,
    traffic: &'a Traffic,
    seed: u64,
    draws: u64,
    watch: Stopwatch,
    counts: BTreeMap<&'static str, u32>,
    /// Hosts of the first service in different racks; the one that has the moving address.
    homes: Vec<usize>,
    home: usize,
    /// Nodes whose agents are of the next version.
    replaced: Vec<usize>,
}

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts.iter().try_for_each(|(kind, count)| writeln!(f, "{count:>6} {kind}"))
    }
}

impl<'a> Faults<'a> {
    /// For a lab of this fabric.
    pub fn new(lab: &'a TestLab, fabric: &'a Fabric, traffic: &'a Traffic, seed: u64) -> Self {
        // The third of each rack.
        let homes: Vec<usize> = (2..overlay(lab).hosts.len()).step_by(HOSTS_PER_TOR).collect();
        let faults = Self {
            lab,
            fabric,
            injector: Injector::new(lab.plan(), fabric, false),
            traffic,
            seed,
            draws: 0,
            watch: Stopwatch::new(),
            counts: BTreeMap::new(),
            home: homes[0],
            homes,
            replaced: Vec::new(),
        };
        faults.attach(host(lab, faults.home), host(lab, faults.home));
        traffic.request(lab, 0, &faults.homes);
        faults
    }

    pub fn count(&self) -> u32 {
        self.counts.values().sum()
    }

    /// Makes faults, and mends them after up to 4 s.
    pub fn step(&mut self) {
        let chosen = self.choose();
        for fault in &chosen {
            *self.counts.entry(fault.kind()).or_default() += 1;
        }
        eprintln!("{chosen:?}");
        self.traffic.set_faulty(&format!("{chosen:?}"));
        for &fault in &chosen {
            self.begin(fault);
        }
        self.sleep(4000);
        // The network first: a server that is started waits for its store.
        for &fault in chosen.iter().rev() {
            self.end(fault);
        }
        // A host that was not alive is again; that TCP tries again may take as long as it was away.
        wait_until("hosts that are plugged in again are reached", || self.traffic.all_flow());
        self.sleep(2000);
    }

    fn below(&mut self, n: usize) -> usize {
        self.draws += 1;
        rng::reduce(rng::mix(self.seed ^ rng::mix(self.draws)), n)
    }

    fn sleep(&mut self, ms: usize) {
        std::thread::sleep(Duration::from_millis(self.below(ms) as u64));
    }

    fn choose(&mut self) -> Vec<Fault> {
        let mut chosen = Vec::new();
        let which = self.below(3);
        if which != 1 {
            chosen.push(self.choose_of_the_overlay());
        }
        if which != 0 {
            chosen.push(self.choose_of_the_network());
        }
        chosen
    }

    fn choose_of_the_overlay(&mut self) -> Fault {
        let servers = overlay(self.lab).directory.hosts.len();
        // In every second quarter of an hour the servers live, so that they grow old.
        let kinds = if (self.watch.elapsed().as_secs() / 900).is_multiple_of(2) { 8 } else { 5 };
        match self.below(kinds) {
            0 | 1 => Fault::AgentKilled { node: self.below(self.lab.plan().nodes.len()) },
            2 | 3 => Fault::AgentReplaced { node: self.below(self.lab.plan().nodes.len()) },
            4 => Fault::Moved,
            5 => Fault::ServerKilled { server: self.below(servers) },
            6 => Fault::DirectoryAway,
            _ => Fault::StoreKilled,
        }
    }

    fn choose_of_the_network(&mut self) -> Fault {
        let plan = self.lab.plan();
        match self.below(4) {
            0 => Fault::HostUnplugged { host: self.below(overlay(self.lab).hosts.len()) },
            1 => {
                let intermediates = &overlay(self.lab).intermediates;
                Fault::SwitchLost { node: intermediates[self.below(intermediates.len())] }
            }
            _ => {
                let cables: Vec<(usize, usize)> = (plan.nodes.iter().enumerate())
                    .filter(|(_, node)| node.role == Role::Switch)
                    .flat_map(|(at, node)| (0..node.ports.len()).map(move |port| (at, port)))
                    .filter(|&(at, port)| plan.nodes[plan.nodes[at].ports[port].peer.node].role == Role::Switch)
                    .collect();
                let (node, port) = cables[self.below(cables.len())];
                Fault::CableLost { node, port }
            }
        }
    }

    fn begin(&mut self, fault: Fault) {
        let plan = self.lab.plan();
        match fault {
            Fault::AgentKilled { node } => assert!(agents::kill(&plan.nodes[node])),
            Fault::AgentReplaced { node } => self.replace(node),
            Fault::ServerKilled { server } => assert!(directory::kill_server(plan, server)),
            Fault::DirectoryAway => {
                (0..overlay(self.lab).directory.hosts.len()).for_each(|it| assert!(directory::kill_server(plan, it)))
            }
            Fault::StoreKilled => assert!(directory::kill_store(plan)),
            Fault::Moved => self.r#move(),
            Fault::CableLost { .. } | Fault::HostUnplugged { .. } | Fault::SwitchLost { .. } => self.fail(fault),
        }
    }

    fn end(&mut self, fault: Fault) {
        let plan = self.lab.plan();
        match fault {
            Fault::AgentKilled { node } => self.start(node),
            Fault::ServerKilled { server } => directory::restart_server(plan, server, &GO).expect("it starts again"),
            Fault::DirectoryAway => {
                for server in 0..overlay(self.lab).directory.hosts.len() {
                    directory::restart_server(plan, server, &GO).expect("it starts again");
                }
            }
            Fault::StoreKilled => directory::restart_store(plan).expect("it starts again"),
            Fault::AgentReplaced { .. } | Fault::Moved => {}
            Fault::CableLost { .. } | Fault::HostUnplugged { .. } | Fault::SwitchLost { .. } => self.restore(fault),
        }
    }

    /// Starts the agent of a node again, of the version that it had.
    fn start(&self, node: usize) {
        let (plan, is_next) = (self.lab.plan(), self.replaced.contains(&node));
        agents::restart_with(version(is_next), plan, &[&plan.nodes[node]], &GO).expect("it starts again");
    }

    fn replace(&mut self, node: usize) {
        assert!(agents::kill(&self.lab.plan().nodes[node]));
        match self.replaced.iter().position(|&it| it == node) {
            Some(at) => drop(self.replaced.swap_remove(at)),
            None => self.replaced.push(node),
        }
        self.start(node);
    }

    /// The part of the fabric.
    fn part(&self, fault: Fault) -> Part {
        let cable = |node: usize, port: usize| Part::Cable(self.fabric.out(NodeId::from(node))[port].cable());
        match fault {
            Fault::CableLost { node, port } => cable(node, port),
            Fault::HostUnplugged { host: at } => cable(host(self.lab, at).node, 0),
            Fault::SwitchLost { node } => Part::Node(NodeId::from(node)),
            _ => unreachable!("{fault:?} is of the overlay"),
        }
    }

    fn set_port(&self, host: &Vl2Host, state: &str) {
        let tor = &self.lab.plan().nodes[host.tor];
        self.lab.shell(&tor.name, &format!("ip link set {} {state}", tor.ports[host.port].name));
    }

    fn fail(&mut self, fault: Fault) {
        if let Fault::HostUnplugged { host: at } = fault {
            self.traffic.cut(at, at == self.home, true);
            // At the ToR: the host's own port is up, and has no carrier.
            self.set_port(host(self.lab, at), "down");
        } else {
            self.injector.apply(Change::Fail(self.part(fault)), &GO).expect("it fails");
        }
    }

    fn restore(&mut self, fault: Fault) {
        if let Fault::HostUnplugged { host: at } = fault {
            self.set_port(host(self.lab, at), "up");
            self.traffic.cut(at, at == self.home, false);
        }
        // And the routes by these ports.
        self.injector.apply(Change::Restore(self.part(fault)), &GO).expect("it works again");
    }

    /// Brings the moving address to the next of its hosts: it is taken from the old one, its owner is changed, and the new one says that it has it.
    fn r#move(&mut self) {
        let old = host(self.lab, self.home);
        self.home = self.homes[(self.homes.iter().position(|&it| it == self.home).expect("one of them") + 1) % self.homes.len()];
        let (node, socket) = (&self.lab.plan().nodes[old.node], self.socket(old));
        agent(&["detach", &MOVING.to_string(), "--socket", &socket, "--json"]);
        self.lab.shell(&node.name, &format!("ip addr del {MOVING}/8 dev eth0"));
        self.attach(old, host(self.lab, self.home));
    }

    fn attach(&self, from: &Vl2Host, to: &Vl2Host) {
        provision(self.lab, MOVING, self.lab.plan().nodes[from.tor].locator, to);
        let node = &self.lab.plan().nodes[to.node];
        self.lab.shell(&node.name, &format!("ip addr add {MOVING}/8 dev eth0 noprefixroute"));
        let answer = agent(&["attach", &MOVING.to_string(), "--socket", &self.socket(to), "--json"]);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        if answer["outcome"] == "attached" {
            return;
        }
        // The agent goes on trying.
        let log = |node: &Node| {
            std::fs::read_to_string(agents::socket(self.lab.plan(), node).with_extension("log")).unwrap_or_default()
        };
        let tail =
            |node: &Node| log(node).lines().rev().take(5).map(|line| format!("{}: {line}\n", node.name)).collect::<String>();
        eprintln!("{answer}\n{}{}", tail(node), tail(&self.lab.plan().nodes[to.tor]));
        wait_until("the address that moves is attached", || {
            let status = ask(self.lab, &node.name);
            let own =
                status["addresses"].as_array().and_then(|all| all.iter().find(|it| it["address"] == MOVING.to_string().as_str()));
            own.is_some_and(|it| it["attached"] == true)
        });
    }

    fn socket(&self, of: &Vl2Host) -> String {
        agents::socket(self.lab.plan(), &self.lab.plan().nodes[of.node]).display().to_string()
    }
}
