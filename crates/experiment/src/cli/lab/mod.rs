//! `weft lab`: builds and removes networks of namespaces, and inspects them.

mod export;
mod tables;
mod test_isolation;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;
use weft_lab::plan::{LabName, MTU_HOST, Plan, Routing, Settings};
use weft_lab::probe::sample::Pairs;
use weft_lab::probe::{connectivity, ping, trace};
use weft_lab::{Lab, LabError, Stopwatch, doctor, netns};

use crate::cli::{ScenarioArgs, print_json, print_text};
use crate::error::{Error, KeyError, Result};
use crate::scenario::lab::LabSpec;
use crate::scenario::source::{Form, Source};
use crate::world::lab as of_settings;

/// Examples at the end of `weft lab --help`.
const EXAMPLES: &str = "\
Examples:
  weft lab doctor                check that this system can run labs
  weft lab up @vl2/lab-first     build the network of a scenario
  weft lab ping-all              ping between all pairs of hosts
  weft lab exec h0 ip route      run a command on a host
  weft lab down                  remove the lab

All commands but `doctor`, `export` and `status` need root.";

/// Arguments of `weft lab`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Build a scenario's network: one namespace per host and switch, links at (scaled) rates
    #[command(after_help = UP)]
    Up(UpArgs),
    /// List all labs, or the nodes of one
    #[command(after_help = STATUS)]
    Status {
        /// Show this lab and its nodes
        #[arg(long)]
        name: Option<LabName>,
        /// Print one JSON document and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Run a command in the namespace of a host or a switch
    #[command(after_help = EXEC)]
    Exec {
        /// Host or switch: h0, edge1, ...
        node: String,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
        #[command(flatten)]
        of: Of,
    },
    /// Ping every host from every other host
    #[command(after_help = PING_ALL)]
    PingAll {
        /// Packet size in bytes, IP header included; packets are not fragmented
        #[arg(long, value_name = "BYTES", default_value_t = 84, value_parser = clap::value_parser!(u16).range(28..=1600))]
        size: u16,
        /// Ping locators, not the application addresses of an overlay
        #[arg(long)]
        locators: bool,
        /// Probe all pairs; by default, a sample of them in a large lab
        #[arg(long, conflicts_with = "pairs")]
        all: bool,
        /// Number of pairs to probe: first every host, then every pair of ToRs, then others
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        pairs: Option<u32>,
        #[command(flatten)]
        of: Of,
    },
    /// Trace the path of a flow hop by hop: the kernels' choices, confirmed by probes
    #[command(after_help = TRACE)]
    Trace(TraceArgs),
    /// Remove a lab, including what a crash has left behind
    #[command(after_help = DOWN)]
    Down {
        /// Remove all labs, and all namespaces that labs have left behind
        #[arg(long, conflicts_with = "name")]
        all: bool,
        #[command(flatten)]
        of: Of,
    },
    /// Write switch configurations for a scenario with VL2: SONiC, or a generic command line
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportArgs),
    /// Check whether this system can run labs, and print remedies
    #[command(after_help = DOCTOR)]
    Doctor {
        /// Print one JSON document and nothing else
        #[arg(long)]
        json: bool,
    },
}

/// Examples at the end of `weft lab up --help`.
const UP: &str = "\
Examples:
  weft lab up @first --set fabric.k=4 --routing static
  weft lab up @vl2/lab-first --name vl2
  weft lab up mine.toml --quick";

/// Examples at the end of `weft lab status --help`.
const STATUS: &str = "\
Examples:
  weft lab status             all labs
  weft lab status --name lab  nodes, addresses and ports of one";

/// Examples at the end of `weft lab exec --help`.
const EXEC: &str = "\
Examples:
  weft lab exec h0 ip -brief address
  weft lab exec --name vl2 h0 ping -c 3 20.0.0.2
  weft lab exec --json h0 hostname

Options stand before NODE. The exit code is that of the command.";

/// Examples at the end of `weft lab ping-all --help`.
const PING_ALL: &str = "\
Examples:
  weft lab ping-all              all pairs; of a large lab, a sample
  weft lab ping-all --size 1500  packets of 1,500 bytes
  weft lab ping-all --pairs 500 --json

Exit code 2: some pair did not answer.";

/// Examples at the end of `weft lab trace --help`.
const TRACE: &str = "\
Examples:
  weft lab trace h0 h15
  weft lab trace h0 h15 --protocol tcp --sport 40001 --dport 80";

/// Examples at the end of `weft lab down --help`.
const DOWN: &str = "\
Examples:
  weft lab down
  weft lab down --name vl2
  weft lab down --all";

/// Examples at the end of `weft lab doctor --help`.
const DOCTOR: &str = "\
Examples:
  weft lab doctor         requirements, and how to meet them
  weft lab doctor --json  the same for a program

Exit code 2: no lab can come up.";

/// Which lab, and how to answer.
#[derive(Debug, Args)]
struct Of {
    /// Name of the lab
    #[arg(long, default_value_t)]
    name: LabName,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct UpArgs {
    /// The scenario file; its [fabric], [overlay], and scale, seed and queues of [world] apply
    scenario: PathBuf,
    /// Source of the routes [default: world.routing of the scenario; else openflow with a scheduler, else frr]
    #[arg(long, value_enum)]
    routing: Option<RoutingArg>,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Apply the scenario's [quick] table
    #[arg(long, conflicts_with = "full", help_heading = "Scenario")]
    quick: bool,
    /// Apply the scenario's [full] table
    #[arg(long, help_heading = "Scenario")]
    full: bool,
    #[command(flatten)]
    of: Of,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoutingArg {
    /// Fixed kernel routes
    Static,
    /// OSPF and BFD, with FRR on every switch
    Frr,
    /// OpenFlow rules in Open vSwitch, installed by the scenario's scheduler
    Openflow,
}

#[derive(Debug, Args)]
struct TraceArgs {
    /// The sending host
    src: String,
    /// The receiving host
    dst: String,
    /// Source port
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u16).range(1..))]
    sport: u16,
    /// Destination port
    #[arg(long, default_value_t = 33_434, value_parser = clap::value_parser!(u16).range(1..))]
    dport: u16,
    /// Transport protocol
    #[arg(long, value_enum, default_value_t = ProtocolArg::Udp)]
    protocol: ProtocolArg,
    #[command(flatten)]
    of: Of,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProtocolArg {
    Udp,
    Tcp,
}

/// Runs it.
pub fn run(args: &LabArgs) -> Result<ExitCode> {
    match &args.command {
        LabCommand::Up(args) => up(args),
        LabCommand::Status { name, json } => status(name.as_ref(), *json),
        LabCommand::Exec { node, command, of } => exec(node, command, of),
        LabCommand::PingAll { size, locators, all, pairs, of } => {
            let pairs = match pairs {
                _ if *all => Pairs::All,
                Some(count) => Pairs::Count(*count as usize),
                None => Pairs::Auto,
            };
            ping_all(usize::from(*size), *locators, pairs, of)
        }
        LabCommand::Trace(args) => follow(args),
        LabCommand::Down { all, of } => down(*all, of),
        LabCommand::Export(args) => export::run(args),
        LabCommand::Doctor { json } => examine(*json),
    }
}

/// Asks a lab in the making to end; `false` if none is.
pub fn stop() -> bool {
    STOP.store(true, Ordering::Relaxed);
    BUILDING.load(Ordering::Relaxed)
}

fn up(args: &UpArgs) -> Result<ExitCode> {
    let form = match (args.quick, args.full) {
        (true, _) => Form::Quick,
        (_, true) => Form::Full,
        _ => Form::Plain,
    };
    let source = Source::read(&args.scenario, &args.changes.overrides(form)?)?;
    let spec = LabSpec::read(&source, args.scenario.clone())?;
    weft_lab::need_root()?;
    if let Some(delay) = spec.delay_left_out {
        tracing::warn!("the lab cannot delay packets: the links' delay of {delay} is left out");
    }
    let routing = match args.routing {
        Some(RoutingArg::Static) => Routing::Static,
        Some(RoutingArg::Frr) => Routing::Frr,
        Some(RoutingArg::Openflow) => Routing::Openflow,
        None => of_settings::routing(spec.routing),
    };
    let plan = plan_of(&source, &spec, args.of.name.clone(), routing)?;
    let scenario = std::path::absolute(&spec.scenario).unwrap_or(spec.scenario);
    let watch = Stopwatch::new();
    BUILDING.store(true, Ordering::Relaxed);
    let built = Lab::up(plan, &scenario, &STOP);
    BUILDING.store(false, Ordering::Relaxed);
    let (lab, times) = match built {
        Ok(built) => built,
        // What was interrupted may have failed of that.
        Err(_) if STOP.load(Ordering::Relaxed) => return Err(Error::Interrupted),
        Err(e) => return Err(e.into()),
    };
    let plan = &lab.record.plan;
    let answer = json!({
        "name": plan.name, "scenario": lab.record.scenario, "fabric": plan.fabric, "routing": plan.routing, "scale": plan.scale,
        "hosts": plan.hosts().count(), "switches": plan.switches().count(), "cables": plan.cables().count(),
        "wall_s": watch.elapsed().as_secs_f64(), "times": times,
    });
    say(args.of.json, &answer, |_| tables::of_up(plan, watch.elapsed().as_secs_f64(), &times))
}

/// The plan of a scenario's lab.
fn plan_of(source: &Source, spec: &LabSpec, name: LabName, routing: Routing) -> Result<Plan> {
    let settings = Settings {
        name,
        routing,
        timers: of_settings::timers(spec.settings),
        scale: spec.settings.scale,
        seed: spec.seed,
        switch_queue: spec.switch_queue,
        nic_queue: spec.nic_queue,
    };
    let scheduler = of_settings::scheduler(&spec.control, spec.seed);
    let plan = Plan::new(&spec.fabric, &settings).map(|plan| plan.with_scheduler(scheduler.clone()));
    let plan = plan.and_then(|plan| of_settings::laid_over(plan, &spec.fabric, &spec.overlay));
    let plan = plan.and_then(|plan| plan.with_agent_scheduler(&spec.fabric, scheduler));
    let plan = plan.and_then(|plan| of_settings::with_access(plan, &spec.fabric, &spec.control, spec.seed));
    let plan = match &spec.tenants {
        Some(tenants) => plan.and_then(|plan| plan.with_netlord(&spec.fabric, tenants)),
        None => plan,
    };
    plan.map_err(|e| source.at(KeyError::from(e)))
}

fn status(name: Option<&LabName>, json: bool) -> Result<ExitCode> {
    let Some(name) = name else {
        let labs: Vec<_> = weft_lab::names().iter().map(weft_lab::status).collect();
        return say(json, &json!({ "labs": labs }), |_| tables::of_labs(&labs));
    };
    if !weft_lab::names().contains(name) {
        return Err(LabError::NoLab(name.clone()).into());
    }
    let status = weft_lab::status(name);
    // A lab that is broken has no nodes to show.
    let lab = Lab::open(name).ok();
    let nodes = lab.as_ref().map_or(&[][..], |l| &l.record.plan.nodes);
    let overlay = lab.as_ref().and_then(|l| l.record.plan.overlay.vl2());
    let of_node = |n: &weft_lab::plan::Node| {
        let ports = n.ports.iter().map(|p| {
            let peer = &nodes[p.peer.node];
            json!({"port": p.name, "peer": format!("{} {}", peer.name, peer.ports[p.peer.port].name), "address": p.address, "rate_bps": p.rate_bps})
        });
        let applications = overlay.and_then(|vl2| vl2.hosts.iter().find(|h| nodes[h.node].name == n.name)).map(|h| {
            json!({"addresses": [h.aa4.to_string(), h.aa6.to_string()], "service": h.service, "group": h.group, "entropy": h.entropy})
        });
        json!({"name": n.name, "role": n.role, "overlay": applications, "namespace": n.namespace, "locator": n.locator, "prefix": n.prefix, "ports": ports.collect::<Vec<_>>()})
    };
    let answer = json!({"lab": status, "nodes": nodes.iter().map(of_node).collect::<Vec<_>>()});
    say(json, &answer, |_| format!("{}{}", tables::of_labs(std::slice::from_ref(&status)), tables::of_nodes(nodes)))
}

fn exec(node: &str, command: &[OsString], of: &Of) -> Result<ExitCode> {
    let lab = open(of)?;
    let node = lab.node(node)?;
    let mut program = Command::new(&command[0]);
    program.args(&command[1..]).env("WEFT_LAB", of.name.as_str()).env("WEFT_NODE", &node.name);
    let failed = |cause: std::io::Error| {
        let program = command[0].to_string_lossy();
        Error::usage(
            format!("cannot run `{program}` in {}: {cause}", node.name),
            "name a program of this system and its arguments",
        )
    };
    if !of.json {
        netns::enter(&node.namespace)?;
        return Err(failed(program.exec()));
    }
    let output = netns::within(&node.namespace, || Ok(program.stdin(Stdio::null()).output()))?.map_err(failed)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let words: Vec<_> = command.iter().map(OsString::as_os_str).map(OsStr::to_string_lossy).collect();
    print_json(&json!({
        "node": node.name, "command": words, "exit_code": output.status.code(),
        "stdout": text(&output.stdout), "stderr": text(&output.stderr),
    }))?;
    Ok(if output.status.success() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn ping_all(size: usize, locators: bool, pairs: Pairs, of: &Of) -> Result<ExitCode> {
    let lab = open(of)?;
    let plan = &lab.record.plan;
    if locators && plan.overlay.netlord().is_some_and(|netlord| netlord.provider.is_none()) {
        let help = "leave --locators out: VMs ask each other; or bring it up with overlay.provider = \"10.1.0.0/16\"";
        return Err(Error::usage("the hosts of this lab of tenants have no addresses", help));
    }
    let most = if locators { MTU_HOST as usize } else { ping::largest(plan) };
    if size > most {
        return Err(Error::usage(format!("packets here have at most {most} bytes"), format!("write `--size {most}` or less")));
    }
    let addresses = if locators { ping::Addresses::Locators } else { ping::Addresses::of(plan) };
    let result = ping::some(plan, addresses, pairs, size, &STOP)?;
    say(of.json, &result, tables::of_ping)?;
    Ok(if result.is_good() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Examples at the end of `weft test --help`.
const TESTS: &str = "\
Examples:
  weft test connectivity  test the lab of `weft lab up`
  weft test isolation     attack it from one of its hosts or VMs

Exit code 1: a test failed. Tests need root, and leave the lab unchanged.";

/// Examples at the end of `weft test connectivity --help`.
const CONNECTIVITY: &str = "\
Examples:
  weft test connectivity
  weft test connectivity --name vl2 --json";

/// Arguments of `weft test`.
#[derive(Debug, Args)]
#[command(after_help = TESTS)]
pub struct TestArgs {
    #[command(subcommand)]
    command: TestCommand,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Test reachability, full-size packets, a transfer, the spread over links, a link failure and isolation; print packets dropped during each test, by reason
    #[command(after_help = CONNECTIVITY)]
    Connectivity(Of),
    /// Attack from a host or a VM with forged headers, ARP, NL-ARP, LLDP, floods and fragments; nothing may arrive, and every packet must be counted
    #[command(after_help = test_isolation::EXAMPLES)]
    Isolation(test_isolation::IsolationArgs),
}

/// `weft test`: exit code 1 if a test failed.
pub fn test(args: &TestArgs) -> Result<ExitCode> {
    let ok = match &args.command {
        TestCommand::Connectivity(of) => {
            let result = connectivity::test(&open(of)?.record.plan, &STOP)?;
            say(of.json, &result, tables::of_connectivity)?;
            result.ok
        }
        TestCommand::Isolation(args) => test_isolation::test(args)?,
    };
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn follow(args: &TraceArgs) -> Result<ExitCode> {
    let lab = open(&args.of)?;
    let [src, dst] = [&args.src, &args.dst].map(|n| lab.node(n));
    let (src, dst) = (src?, dst?);
    if src.name == dst.name {
        return Err(Error::usage(format!("`{}` needs no path to itself", src.name), "name two hosts"));
    }
    let protocol = match args.protocol {
        ProtocolArg::Tcp => trace::Protocol::Tcp,
        ProtocolArg::Udp => trace::Protocol::Udp,
    };
    let flow = trace::Flow::new(src, dst, protocol, args.sport, args.dport)?;
    let trace = trace::follow(&lab.record.plan, flow)?;
    say(args.of.json, &trace, tables::of_trace)?;
    Ok(if trace.confirmed { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn down(all: bool, of: &Of) -> Result<ExitCode> {
    weft_lab::need_root()?;
    let names = if all { weft_lab::names() } else { vec![of.name.clone()] };
    let mut removed = Vec::new();
    for name in names {
        if weft_lab::down(&name)? {
            removed.push(name);
        } else if !all {
            return Err(LabError::NoLab(name).into());
        }
    }
    say(of.json, &json!({ "removed": removed }), |_| tables::of_removed(&removed))
}

fn examine(json: bool) -> Result<ExitCode> {
    let report = doctor::examine();
    say(json, &report, tables::of_doctor)?;
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn open(of: &Of) -> Result<Lab> {
    weft_lab::need_root()?;
    Ok(Lab::open(&of.name)?)
}

fn say<T: Serialize>(json: bool, answer: &T, table: impl Fn(&T) -> String) -> Result<ExitCode> {
    if json {
        print_json(answer)?
    } else {
        print_text(&table(answer))?
    }
    Ok(ExitCode::SUCCESS)
}

/// A lab is in the making.
static BUILDING: AtomicBool = AtomicBool::new(false);
/// The user wants it to end.
static STOP: AtomicBool = AtomicBool::new(false);
