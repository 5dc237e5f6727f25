//! `weft lab`: a network of namespaces, up and down, and questions to it.

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

/// Arguments of `weft lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Build a scenario's network: a namespace a host and a switch, links of their (scaled) rates
    Up(UpArgs),
    /// What stands: all labs, or the nodes of one
    Status {
        /// Only this lab, with its nodes
        #[arg(long)]
        name: Option<LabName>,
        /// Print one JSON document and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Run a command in the namespace of a host or a switch
    Exec {
        /// h0, pod0-edge1, ...
        node: String,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
        #[command(flatten)]
        of: Of,
    },
    /// Every host asks every other one for an echo
    PingAll {
        /// Bytes of a packet with its IP header; it may not be fragmented
        #[arg(long, value_name = "BYTES", default_value_t = 84, value_parser = clap::value_parser!(u16).range(28..=1600))]
        size: u16,
        /// At the addresses of their places, also where an overlay has others
        #[arg(long)]
        locators: bool,
        /// All pairs, also of a large lab, of which a sample is probed by default
        #[arg(long, conflicts_with = "pairs")]
        all: bool,
        /// So many pairs: each host, then each pair of ToRs, then others
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        pairs: Option<u32>,
        #[command(flatten)]
        of: Of,
    },
    /// The path of a flow, hop by hop, as the kernels pick it and as probes find it
    Trace(TraceArgs),
    /// Remove a lab, and whatever a crash left of it
    Down {
        /// All labs, and namespaces that are left of any
        #[arg(long, conflicts_with = "name")]
        all: bool,
        #[command(flatten)]
        of: Of,
    },
    /// Write the configurations of real switches for a scenario's VL2: SONiC, or a generic command line
    Export(export::ExportArgs),
    /// What this system lacks for a lab, and how to get it
    Doctor {
        /// Print one JSON document and nothing else
        #[arg(long)]
        json: bool,
    },
}

/// Which lab, and how to answer.
#[derive(Debug, Args)]
struct Of {
    /// The lab's name
    #[arg(long, default_value_t)]
    name: LabName,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct UpArgs {
    /// The scenario file: its [fabric], and scale, seed and queues of its [world]
    scenario: PathBuf,
    /// Who finds the routes [default: world.routing of the scenario, openflow with a scheduler, frr]
    #[arg(long, value_enum)]
    routing: Option<RoutingArg>,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Apply the scenario's [quick] table
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Apply the scenario's [full] table
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    of: Of,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoutingArg {
    /// Kernel routes that stay as they are
    Static,
    /// OSPF and BFD, by FRR in every switch
    Frr,
    /// OpenFlow rules in Open vSwitch, by the scheduler of the scenario
    Openflow,
}

#[derive(Debug, Args)]
struct TraceArgs {
    /// The sending host
    src: String,
    /// The receiving host
    dst: String,
    /// The sender's port
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u16).range(1..))]
    sport: u16,
    /// The receiver's port
    #[arg(long, default_value_t = 33_434, value_parser = clap::value_parser!(u16).range(1..))]
    dport: u16,
    /// The transport, of which the hash is
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

/// Arguments of `weft test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    #[command(subcommand)]
    command: TestCommand,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Reachability, full-size packets, a transfer, the spread over links, a link that fails, isolation; with the packets dropped during each, by reason
    Connectivity(Of),
    /// An adversary on a host or in a VM: forged headers, ARP, NL-ARP, LLDP, floods, fragments. Nothing of it may arrive, and all must be counted
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
