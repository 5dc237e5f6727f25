//! What `weft lab` shows to people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::ColumnConstraint;
use weft_lab::doctor::{Report, State};
use weft_lab::lab::{Status, Times};
use weft_lab::plan::{LabName, Node, Plan, Role, Routing};
use weft_lab::probe::connectivity::Connectivity;
use weft_lab::probe::isolation::Isolation;
use weft_lab::probe::ping::PingAll;
use weft_lab::probe::trace::{Protocol, Trace};
use weft_lab::state::Phase;

use crate::cli::table::{align, new_table, show};

pub(super) fn of_up(plan: &Plan, wall_s: f64, times: &Times) -> String {
    let host = plan.hosts().next().expect("a fabric has hosts");
    let overlay = times.overlay.as_ref().map_or(String::new(), |o| {
        let memory = o.rss_bytes as f64 / 1e6;
        if let Some(netlord) = plan.overlay.netlord() {
            let (vms, vlans) = (netlord.vms.len(), netlord.vlans);
            let witnesses = netlord.switches.iter().filter(|s| netlord.is_ovs(s.node)).count();
            let agents = plan.hosts().count() + plan.switches().count() - witnesses;
            let provider = netlord.provider.as_ref();
            let serving = provider.is_some_and(|it| it.directory.is_some());
            let directory = if serving { format!("directory {}, ", seconds(o.directory_s)) } else { String::new() };
            let address = provider.and_then(|it| it.leases.first()).map(|it| it.address);
            let servers =
                address.map_or_else(String::new, |it| format!("; servers among themselves are {it} ({}) and so on", host.name));
            return format!(
                "NetLord: {vms} VMs, {vlans} VLANs of SPAIN, {directory}{agents} agents {}, {memory:.0} MB{servers}\n",
                seconds(o.agents_s)
            );
        }
        format!(
            "VL2: directory {}, {} agents {}, {memory:.0} MB; application addresses are 20.0.0.1 (h0) and so on\n",
            seconds(o.directory_s),
            plan.nodes.len(),
            seconds(o.agents_s)
        )
    });
    let routing = match plan.routing {
        Routing::Static => String::new(),
        Routing::Frr => format!(", OSPF {}", seconds(times.routing_s)),
        Routing::Openflow => format!(", Open vSwitch and its rules {}", seconds(times.routing_s)),
    };
    format!(
        "lab `{}` is up after {}: {}, {} hosts and {} switches\n\
         (namespaces {}, cables {}, devices {}{routing})\n\
         {overlay}rates are those of the scenario times {}: a host's is {}\n\
         weft lab ping-all{of}\nweft lab exec {}{of} COMMAND\nweft lab down{of}\n",
        plan.name,
        seconds(wall_s),
        plan.fabric,
        plan.hosts().count(),
        plan.switches().count(),
        seconds(times.namespaces_s),
        seconds(times.cables_s),
        seconds(times.devices_s),
        plan.scale,
        show("_bps", host.ports[0].rate_bps as f64),
        plan.overlay.netlord().and_then(|n| n.vms.first()).map_or(&host.name, |vm| &plan.nodes[vm.node].name),
        of = if plan.name == LabName::default() { String::new() } else { format!(" --name {}", plan.name) },
    )
}

const fn routing_text(routing: Routing) -> &'static str {
    match routing {
        Routing::Static => "static",
        Routing::Frr => "frr",
        Routing::Openflow => "openflow",
    }
}

/// A line for each lab with a scheduler.
fn of_schedulers(labs: &[Status]) -> String {
    let mut text = String::new();
    for lab in labs.iter().filter(|lab| lab.routing == Some(Routing::Openflow)) {
        let _ = match &lab.scheduler {
            Some(it) => writeln!(
                text,
                "{}: scheduler with {} of {} switches connected, {} rounds, {} moves, {} flows placed: {}",
                lab.name, it.connected, it.switches, it.rounds, it.moves, it.placements, it.verdict
            ),
            None => writeln!(text, "{}: the scheduler does not answer", lab.name),
        };
    }
    text
}

/// Whether the run that it goes with was killed.
fn is_orphan(lab: &Status) -> bool {
    lab.owner.is_some_and(|owner| !owner.alive)
}

pub(super) fn of_labs(labs: &[Status]) -> String {
    if labs.is_empty() {
        return "no lab is up: `weft lab up SCENARIO` makes one\n".to_owned();
    }
    let mut table = new_table();
    table.set_header([
        "lab",
        "state",
        "fabric",
        "routing",
        "scale",
        "hosts",
        "switches",
        "namespaces",
        "processes",
        "age",
        "scenario",
    ]);
    // A name is to be copied: it is never wrapped.
    table.column_mut(0).expect("a header").set_constraint(ColumnConstraint::ContentWidth);
    // Others' processes are root's to see.
    let is_seen = weft_lab::need_root().is_ok();
    for lab in labs {
        let unknown = || "?".to_owned();
        table.add_row([
            lab.name.to_string(),
            state_of(lab, is_seen).to_owned(),
            lab.fabric.clone().unwrap_or_else(unknown),
            lab.routing.map_or_else(unknown, |r| routing_text(r).to_owned()),
            lab.scale.map_or_else(unknown, |s| s.to_string()),
            lab.hosts.to_string(),
            lab.switches.to_string(),
            lab.namespaces.to_string(),
            if is_seen { lab.processes.to_string() } else { unknown() },
            lab.age_s.map_or_else(unknown, |s| format!("{s} s")),
            lab.scenario.clone().unwrap_or_else(unknown),
        ]);
    }
    let mut text = format!("{table}\n");
    for lab in labs.iter().filter(|lab| is_orphan(lab) || lab.phase == Phase::Broken) {
        let (name, why) = (&lab.name, if is_orphan(lab) { "its run has ended without removing it" } else { "a crash left it" });
        let _ = writeln!(text, "{name}: {why}: weft lab down --name {name}");
    }
    if !is_seen {
        text += "whether their programs run is seen by root alone: sudo weft lab status\n";
        return text;
    }
    text += &of_schedulers(labs);
    for (lab, overlay) in labs.iter().filter_map(|lab| Some((lab, lab.overlay.as_ref()?))) {
        if let Some(vms) = lab.vms {
            let (running, agents, memory) = (overlay.running, overlay.agents, overlay.rss_bytes as f64 / 1e6);
            let missing =
                if overlay.missing.is_empty() { String::new() } else { format!("; none in {}", overlay.missing.join(", ")) };
            let _ = writeln!(text, "{}: NetLord with {vms} VMs, {running} of {agents} agents, {memory:.0} MB{missing}", lab.name);
            continue;
        }
        let _ = writeln!(
            text,
            "{}: VL2 with {} of {} agents and {} of {} directory servers, {:.0} MB{}",
            lab.name,
            overlay.running,
            overlay.agents,
            overlay.directory_running,
            overlay.directory_servers,
            overlay.rss_bytes as f64 / 1e6,
            if overlay.missing.is_empty() { String::new() } else { format!("; none in {}", overlay.missing.join(", ")) }
        );
    }
    text
}

/// `is_seen`: whether this user can see the processes of the lab.
fn state_of(lab: &Status, is_seen: bool) -> &'static str {
    match lab.phase {
        Phase::Up if is_orphan(lab) => "its run has ended",
        Phase::Up if lab.namespaces < lab.hosts + lab.switches => "namespaces missing",
        Phase::Up if !is_seen => "up",
        Phase::Up if lab.processes < lab.daemons => "daemons missing",
        Phase::Up if lab.overlay.as_ref().is_some_and(|o| o.running < o.agents) => "agents missing",
        Phase::Up if lab.overlay.as_ref().is_some_and(|o| o.directory_running < o.directory_servers) => "directory missing",
        Phase::Up => "up",
        Phase::Busy => "being built or removed",
        Phase::Broken => "left by a crash",
    }
}

pub(super) fn of_nodes(nodes: &[Node]) -> String {
    if nodes.is_empty() {
        return String::new();
    }
    let mut table = new_table();
    table.set_header(["node", "locator", "prefix", "namespace", "ports"]);
    for node in nodes {
        let ports = node.ports.iter().filter(|p| node.role == Role::Host || nodes[p.peer.node].role == Role::Switch);
        let ports: Vec<String> = ports.map(|p| format!("{} {}", p.name, nodes[p.peer.node].name)).collect();
        let hosts = node.ports.len() - ports.len();
        let hosts = if hosts > 0 { format!("{hosts} hosts, ") } else { String::new() };
        let prefix = node.prefix.map_or(String::new(), |p| p.to_string());
        table.add_row([node.name.clone(), node.locator.to_string(), prefix, node.namespace.clone(), hosts + &ports.join(", ")]);
    }
    format!("{table}\n")
}

pub(super) fn of_ping(ping: &PingAll) -> String {
    let mut text = format!("{} of {} pairs answered, {} bytes each", ping.answered, ping.pairs, ping.packet_bytes);
    if let Some(all) = ping.sample_of {
        let _ = write!(text, " (a sample of {all} pairs; `--all` probes all)");
    }
    if let Some(apart) = ping.isolated.filter(|isolated| isolated.pairs > 0) {
        let _ = write!(text, "; {} of {} pairs that are kept apart", apart.answered, apart.pairs);
    }
    if let Some(t) = ping.rtt_ms {
        let _ = write!(text, "; round trips {:.3} to {:.3} ms, median {:.3} ms", t.min, t.max, t.median);
    }
    text.push('\n');
    for lost in ping.lost.iter().take(SHOWN) {
        let _ = writeln!(text, "no answer: {} to {} ({})", lost.from, lost.to, lost.address);
    }
    if ping.lost.len() > SHOWN {
        let _ = writeln!(text, "and {} more", ping.pairs - ping.answered - SHOWN);
    }
    text
}

pub(super) fn of_trace(trace: &Trace) -> String {
    let flow = &trace.flow;
    let protocol = if flow.protocol == Protocol::Tcp { "TCP" } else { "UDP" };
    let [from, to] = flow.addresses;
    let mut table = new_table();
    table.set_header(["node", "leaves by", "of", "probe answered from", "which is", "round trip"]);
    for hop in &trace.hops {
        let probe = hop.probe.as_ref();
        table.add_row([
            hop.node.clone(),
            hop.port.clone().unwrap_or_default(),
            if hop.choices > 1 { hop.choices.to_string() } else { String::new() },
            probe.map_or(String::new(), |p| p.address.to_string()),
            probe.map_or(String::new(), |p| p.owner.clone()),
            probe.map_or(String::new(), |p| format!("{:.3} ms", p.rtt_ms)),
        ]);
    }
    align(&mut table, 5);
    let verdict = match (&trace.broken, trace.confirmed) {
        (Some(why), _) => format!("the path is broken: {why}"),
        (None, true) => "the probes took the path that the kernels report".to_owned(),
        (None, false) => "the probes did NOT take the path that the kernels report".to_owned(),
    };
    format!("{} to {}: {protocol} {from}:{} > {to}:{}\n{table}\n{verdict}\n", flow.src, flow.dst, flow.sport, flow.dport)
}

pub(super) fn of_removed(names: &[LabName]) -> String {
    match names {
        [] => "there was none\n".to_owned(),
        _ => names.iter().map(|n| format!("lab `{n}` is gone\n")).collect(),
    }
}

pub(super) fn of_connectivity(result: &Connectivity) -> String {
    let mut table = new_table();
    table.set_header(["", "test", "seen", "dropped during it"]);
    for case in &result.cases {
        table.add_row([mark(case.ok), case.name, &case.detail, &counts(&case.drops)]);
    }
    format!("{table}\n{}\n", if result.ok { "all is well" } else { "something is wrong" })
}

pub(super) fn of_isolation(result: &Isolation) -> String {
    let mut table = new_table();
    table.set_header(["", "attack", "packets", "arrived", "refused", "from, to, claimed"]);
    for case in &result.cases {
        let numbers = [case.sent, case.arrived].map(|it| it.to_string());
        table.add_row([mark(case.ok), case.name, &numbers[0], &numbers[1], &counts(&case.refused), &case.detail]);
    }
    let is_partial = result.cases.iter().any(|case| case.ok.is_none());
    let verdict = match (result.ok, is_partial) {
        (false, _) => "isolation does not hold",
        (true, true) => "nothing failed; for attacks marked `none` see the counters of the other agents",
        (true, false) => "isolation holds",
    };
    format!("{table}\n{verdict}\n")
}

fn mark(ok: Option<bool>) -> &'static str {
    match ok {
        Some(true) => "ok",
        Some(false) => "FAILED",
        None => "none",
    }
}

fn counts(drops: &BTreeMap<String, u64>) -> String {
    drops.iter().map(|(reason, count)| format!("{count} {reason}")).collect::<Vec<_>>().join(", ")
}

pub(super) fn of_doctor(report: &Report) -> String {
    let mut table = new_table();
    table.set_header(["", "what", "found, or what for", "remedy"]);
    for check in &report.checks {
        let mark = match check.state {
            State::Ok => "ok",
            State::Optional => "without",
            State::Missing => "MISSING",
            State::Unknown => "?",
        };
        table.add_row([mark, check.name, &check.detail, check.remedy.unwrap_or_default()]);
    }
    let verdict = if report.ok { "a lab can come up here" } else { "no lab can come up here before that is remedied" };
    format!("{table}\n{verdict}\n")
}

fn seconds(s: f64) -> String {
    format!("{s:.2} s")
}

/// Pairs without an answer that are listed.
const SHOWN: usize = 20;
