//! A scenario: text, then overrides, then one table per run, then built objects. Nothing after this module reads text.
//!
//! ```text
//!   file --read--> Source --variants--> Variant (one table per run) --Run::read--> Run --> crate::study
//! ```
//! [`keys`] reads tables, each section has a file of its own, and `docs/scenario.md` lists every key.

pub mod control;
pub mod directory;
pub mod dotted;
pub mod error;
pub mod expect;
pub mod fabric;
pub mod keys;
#[cfg(all(feature = "lab", target_os = "linux"))]
pub mod lab;
#[cfg(all(feature = "lab", target_os = "linux"))]
pub mod lab_tenants;
mod locate;
pub mod nl_arp;
pub mod overlay;
pub mod search;
pub mod source;
pub mod tenants;
pub mod trace;
pub mod traffic;
pub mod transport;
pub mod world;

use std::path::Path;

use toml::Table;
use weft_fabric::Duration;
use weft_fabric::routing::RoutingKind;

use crate::error::{KeyError, Problem, Result};
use control::{Control, Scheduler};
use directory::DirectorySpec;
use expect::Expect;
use fabric::FabricSpec;
use keys::Keys;
use overlay::OverlaySpec;
use source::{Source, Variant};
use tenants::TenantSpec;
use trace::TraceSpec;
use traffic::Traffic;
use transport::TransportSpec;
use world::{Event, LabRouting, World};

/// One run: its settings and what they mean.
#[derive(Debug)]
pub struct Run {
    /// The settings.
    pub variant: Variant,
    /// What they mean.
    pub scenario: Scenario,
}

/// One scenario, ready to be prepared.
#[derive(Debug)]
pub struct Scenario {
    /// Its title.
    pub title: String,
    /// The topology.
    pub fabric: FabricSpec,
    /// The workload.
    pub traffic: Traffic,
    /// Routing and scheduling.
    pub control: Control,
    /// The world that runs it, and for how long.
    pub world: World,
    /// The transport protocol, in the packet world.
    pub transport: TransportSpec,
    /// The directory, if the workload is its load.
    pub directory: Option<DirectorySpec>,
    /// The overlay.
    pub overlay: OverlaySpec,
    /// The tenants and the switches between them, if the workload is theirs.
    pub tenants: Option<TenantSpec>,
    /// The same in a lab.
    #[cfg(all(feature = "lab", target_os = "linux"))]
    pub lab_tenants: Option<weft_lab::plan::netlord::NetlordSpec>,
    /// What the packet world records.
    pub trace: TraceSpec,
    /// Failures and repairs.
    pub events: Vec<Event>,
    /// Published figures to compare with.
    pub expect: Vec<Expect>,
}

/// The `[fabric]` table of a scenario, whatever else it holds.
///
/// # Errors
/// What is wrong with that table.
pub fn read_fabric(source: &Source) -> Result<FabricSpec> {
    read_fabric_of(&source.variants()?.swap_remove(0), source)
}

/// The expectations of one of its runs, whatever else the scenario holds.
///
/// # Errors
/// What is wrong with them.
pub fn read_expectations_of(variant: &Variant, source: &Source) -> Result<Vec<Expect>> {
    let root = Keys::new("", &variant.table);
    Expect::read_all(&root).map_err(|e| source.at(e))
}

/// The same of one of its runs.
///
/// # Errors
/// What is wrong with that table.
pub fn read_fabric_of(variant: &Variant, source: &Source) -> Result<FabricSpec> {
    let root = Keys::new("", &variant.table);
    let spec = root.table("fabric").and_then(|keys| FabricSpec::read(&keys, &source.folder));
    spec.map_err(|e| source.at(e))
}

impl Scenario {
    fn read(table: &Table, folder: &Path) -> Result<Self> {
        let root = Keys::new("", table);
        let fabric = FabricSpec::read(&root.table("fabric")?, folder)?;
        // Tenants have an overlay of their own.
        let overlay = if tenants::is_pattern(&root) { OverlaySpec::default() } else { OverlaySpec::read(&root)? };
        let overlay_kind = overlay.kind;
        let world = World::read(&root.table("world")?)?;
        let is_lab_of_tenants = world.kind == world::Kind::Lab && tenants::is_pattern(&root);
        #[cfg(all(feature = "lab", target_os = "linux"))]
        let lab_tenants = if is_lab_of_tenants { lab_tenants::read(&root, folder, &fabric.build()?)? } else { None };
        let scenario = Self {
            title: root.or("title", "untitled".to_owned())?,
            traffic: Traffic::read(&root, folder)?,
            control: Control::read(&root.table("control")?, fabric.balancing())?,
            fabric,
            world,
            #[cfg(all(feature = "lab", target_os = "linux"))]
            lab_tenants,
            transport: TransportSpec::read(&root.table("transport")?)?.under(overlay.header()),
            overlay,
            trace: TraceSpec::read(&root.table("trace")?)?,
            directory: read_directory(&root, overlay_kind != overlay::Kind::None || is_lab_of_tenants)?,
            tenants: if tenants::is_pattern(&root) { Some(TenantSpec::read(&root)?) } else { None },
            events: world::read_events(&root.tables("event")?)?,
            expect: Expect::read_all(&root)?,
        };
        if scenario.tenants.is_none() {
            read_elsewhere(&root)?;
        }
        // Trials of the study, and of `weft analyze failures`.
        root.has("search");
        root.has("failures");
        root.opt::<bool>(source::COMPARABLE)?;
        root.opt::<Vec<String>>(source::OVERRIDDEN)?;
        root.done()?;
        scenario.check_together()?;
        Ok(scenario)
    }

    /// What computes the routes in a lab.
    pub fn lab_routing(&self) -> LabRouting {
        let has_overlay = self.overlay.kind != overlay::Kind::None || self.tenants.is_some();
        self.control.lab_routing(&self.world.lab, has_overlay)
    }

    /// Checks across sections.
    fn check_together(&self) -> Result<(), KeyError> {
        if self.world.duration.is_none() && self.traffic.is_endless() {
            return Err(KeyError::at("world", Problem::Endless { what: "these flows never end" }));
        }
        if self.world.kind == world::Kind::Flow && self.traffic.is_requests() {
            let message = "the flow world runs flows, and no requests and responses";
            let help = "write kind = \"packet\" in [world], or describe them as flows";
            return Err(KeyError::new("traffic.pattern", message, help));
        }
        self.check_overlay()?;
        self.check_spread()?;
        self.check_events()?;
        self.check_steps()?;
        self.check_directory()?;
        self.check_tenants()?;
        if self.world.is_slots() && self.control.scheduler != Scheduler::None {
            return Err(KeyError::no_scheduler("the slots model moves no flows"));
        }
        if self.world.is_slots() && !self.events.is_empty() {
            return Err(KeyError::new("event[0]", "the slots model looks at one instant", "leave the events out"));
        }
        Ok(())
    }

    /// VL2's hosts bounce every flow off an intermediate: simulated worlds do that by routing.
    fn check_overlay(&self) -> Result<(), KeyError> {
        let is_simulated = matches!(self.world.kind, world::Kind::Flow | world::Kind::Packet);
        let is_direct = self.control.routing.kind != RoutingKind::Vlb;
        if self.overlay.kind != overlay::Kind::None && is_simulated && is_direct {
            let message = "the VL2 overlay bounces flows off the intermediate switches";
            return Err(KeyError::new(
                "control.routing",
                message,
                "write routing = \"vlb\" in [control], or kind = \"none\" in [overlay]",
            ));
        }
        Ok(())
    }

    /// What makes no sense where the packets of a flow choose among paths.
    fn check_spread(&self) -> Result<(), KeyError> {
        let is_flowlet = match self.control.routing.kind {
            RoutingKind::Spray => false,
            RoutingKind::Flowlet { .. } => true,
            _ => return Ok(()),
        };
        let wrong = |key: &str, message: &str, help: &str| Err(KeyError::new(key, message, help));
        let is_flow = self.world.kind == world::Kind::Flow;
        if self.control.scheduler != Scheduler::None {
            return Err(KeyError::no_scheduler("with `routing = \"spray\"` or `\"flowlet\"` a flow has no path to be given"));
        }
        if is_flow && is_flowlet {
            let message = "the flow world knows rates, and a flowlet ends with a gap between packets";
            return wrong("control.routing", message, "write kind = \"packet\" in [world], or routing = \"spray\" or \"ecmp\"");
        }
        match self.world.rates {
            world::Rates::MaxMin { tolerance } if is_flow && tolerance > 0.0 => {
                let message = "rates of flows that are spread over several paths are exact";
                return wrong("world.tolerance", message, "leave it out, or write routing = \"ecmp\" in [control]");
            }
            world::Rates::Aimd { .. } | world::Rates::Slots if is_flow => {
                let message = "only max-min rates share out a flow over several paths";
                return wrong("world.rates", message, "write rates = \"max-min\", or routing = \"ecmp\" in [control]");
            }
            _ => {}
        }
        if !is_flow && matches!(self.transport.transport.kind, weft_sim::packet::TransportKind::Mptcp { .. }) {
            let message = "each subflow of MPTCP keeps to a path of its own";
            return wrong("transport.kind", message, "write another transport, or routing = \"ecmp\" in [control]");
        }
        Ok(())
    }

    /// Programs and servers that can be reached for are those of a lab.
    fn check_events(&self) -> Result<(), KeyError> {
        let is_lab = self.world.kind == world::Kind::Lab;
        match self.events.iter().find(|e| !is_lab && !e.kind.is_simulated()) {
            None => Ok(()),
            Some(event) => Err(KeyError::new(
                event.key.clone(),
                format!("a simulated world knows no `{}`: it has neither programs nor servers that move", event.kind.key()),
                "write kind = \"lab\" in [world], or one of `fail`, `fail_silent` and `restore`",
            )),
        }
    }

    /// Limits the number of steps: a wrong unit must not cost days.
    fn check_steps(&self) -> Result<(), KeyError> {
        let Some(duration) = self.world.duration else { return Ok(()) };
        let steps = |step: Duration| duration.as_ps() / step.as_ps();
        if let world::Rates::Aimd { tick, .. } = self.world.rates
            && self.world.kind == world::Kind::Flow
            && steps(tick) > MAX_TICKS
        {
            let message = format!("{duration} are {} ticks of {tick}", steps(tick));
            return Err(KeyError::new("world.tick", message, format!("lengthen the tick: {MAX_TICKS} are the most")));
        }
        if self.control.scheduler != Scheduler::None && steps(self.control.period.to_ps()) > MAX_ROUNDS {
            let message = format!("{duration} are {} rounds of {}", steps(self.control.period.to_ps()), self.control.period);
            return Err(KeyError::new(
                "control.period",
                message,
                format!("lengthen the period: {MAX_ROUNDS} rounds are the most"),
            ));
        }
        Ok(())
    }

    /// What a load of a directory has no use for.
    fn check_directory(&self) -> Result<(), KeyError> {
        match (&self.directory, self.traffic.is_directory()) {
            (Some(_), false) => Err(KeyError::new(
                "directory",
                "this traffic asks no directory",
                "write pattern = \"directory\" in [traffic], or leave the table out",
            )),
            _ if self.traffic.has_no_flows() && self.control.scheduler != Scheduler::None => {
                Err(KeyError::no_scheduler("this pattern has no flows to move"))
            }
            _ => Ok(()),
        }
    }

    /// Bridges forward tenants' traffic alone, and nothing else forwards it.
    fn check_tenants(&self) -> Result<(), KeyError> {
        let wrong = |key: &str, message: &str, help: &str| Err(KeyError::new(key, message, help));
        match (&self.tenants, self.control.bridging) {
            (None, Some(_)) => wrong(
                "control.routing",
                "switches that learn addresses forward the traffic of tenants alone",
                "write pattern = \"tenants\" in [traffic], or routing = \"ecmp\"",
            ),
            (Some(_), None) => wrong(
                "control.routing",
                "tenants' frames go over a spanning tree or over SPAIN's VLANs",
                "write routing = \"spanning-tree\" or \"spain\"",
            ),
            (Some(_), _) if self.world.kind == world::Kind::Flow => {
                wrong("world.kind", "tenants' traffic is one of packets", "write kind = \"packet\" or \"lab\" in [world]")
            }
            (Some(_), _)
                if !self.events.is_empty() && self.world.kind == world::Kind::Packet && self.world.duration.is_none() =>
            {
                Err(KeyError::at("world", Problem::Endless { what: "what is cut off may never end" }))
            }
            (Some(_), _) if self.control.scheduler != Scheduler::None => {
                Err(KeyError::no_scheduler("no scheduler moves what switches have learnt"))
            }
            (Some(_), _) if matches!(self.transport.transport.kind, weft_sim::packet::TransportKind::Mptcp { .. }) => {
                wrong("transport.kind", "tenants' VMs have one connection each", "write kind = \"newreno\" or \"dctcp\"")
            }
            _ => Ok(()),
        }
    }

    /// Whether the same flows are to be run on a non-blocking switch.
    pub fn wants_ideal(&self) -> bool {
        self.world.ideal && !self.world.is_slots() && !self.traffic.is_requests() && !self.traffic.has_no_flows()
    }
}

/// Ticks of the AIMD model: a day of round trips of 100 us is 864 million.
const MAX_TICKS: u64 = 10_000_000_000;
/// Rounds of a scheduler.
const MAX_ROUNDS: u64 = 100_000_000;

impl Run {
    /// Reads the table of a run.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its line.
    pub fn read(variant: Variant, source: &Source) -> Result<Self> {
        let scenario = Scenario::read(&variant.table, &source.folder).map_err(|e| source.at(e))?;
        Ok(Self { variant, scenario })
    }

    /// The same run with another seed, and with that alone.
    ///
    /// # Errors
    /// None that reading the run itself has not found.
    pub fn with_seed(&self, seed: u64, source: &Source) -> Result<Self> {
        let mut variant = self.variant.clone();
        if let Some(world) = variant.table.get_mut("world").and_then(toml::Value::as_table_mut) {
            world.remove("seeds");
            world.insert("seed".to_owned(), toml::Value::Integer(seed as i64));
        }
        Self::read(variant, source)
    }

    /// The settings in a line: `scheduler=annealing k=16`.
    pub fn name(&self) -> String {
        let settings: Vec<String> = self
            .variant
            .set
            .iter()
            .map(|(k, v)| {
                format!("{}={}", k.rsplit('.').next().unwrap_or(k), v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            })
            .collect();
        settings.join(" ")
    }

    /// Runs with the same key have the same ideal run: it does not depend on control or on failures.
    pub fn ideal_key(&self) -> String {
        let mut table = self.variant.table.clone();
        for section in ["title", "control", "event", "expect", "search"] {
            table.remove(section);
        }
        table.to_string()
    }
}

/// `[directory]`, which the pattern of its load takes with all defaults if it is absent; an overlay may have read its own.
fn read_directory(root: &Keys<'_>, is_overlays: bool) -> Result<Option<DirectorySpec>, KeyError> {
    let is_load = directory::is_pattern(root);
    if !is_load && is_overlays {
        return Ok(None);
    }
    let keys = root.table("directory")?;
    if root.has("directory") || is_load { DirectorySpec::read(&keys).map(Some) } else { Ok(None) }
}

/// Tables of other worlds.
fn read_elsewhere(root: &Keys<'_>) -> Result<(), KeyError> {
    root.has("search");
    if root.has("tenant") {
        let message = "this world has no use for `tenant`";
        return Err(root.error("tenant", message, "leave it out, or choose another world"));
    }
    Ok(())
}
