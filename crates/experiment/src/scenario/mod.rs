//! A scenario: text, then overrides, then one table a run, then built objects. After this module nothing looks at text again.
//!
//! ```text
//!   file --read--> Source --variants--> Variant (a table a run) --Scenario::read--> Run --> crate::run
//! ```
//! [`keys`] reads tables, each section has a file of its own, and `docs/scenario.md` lists every key.

pub mod control;
pub mod directory;
pub mod expect;
pub mod fabric;
pub mod keys;
#[cfg(all(feature = "lab", target_os = "linux"))]
pub mod lab;
#[cfg(all(feature = "lab", target_os = "linux"))]
pub mod lab_tenants;
pub mod nl_arp;
pub mod overlay;
pub mod search;
pub mod source;
pub mod tenants;
pub mod trace;
pub mod traffic;
pub mod transport;
pub mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Table;
use weft_fabric::routing::RoutingKind;
use weft_fabric::{Duration, Fabric, Instant};

use crate::error::{KeyError, Result};
use control::{Control, Scheduler};
use directory::DirectorySpec;
use expect::Expect;
use fabric::FabricSpec;
use keys::Keys;
use overlay::OverlaySpec;
use search::Search;
use source::{Overrides, Source, Variant};
use tenants::TenantSpec;
use trace::TraceSpec;
use traffic::Traffic;
use transport::TransportSpec;
use world::{Event, World};

/// All runs of a scenario file.
#[derive(Debug)]
pub struct Study {
    /// Where its keys stand.
    pub source: Source,
    /// In the order of the sweep; at least one.
    pub runs: Vec<Run>,
    /// Cores that one run may use, if it can.
    pub cores: usize,
    /// Why runs in the lab are passed over; `None`: they are not.
    pub without_lab: Option<String>,
}

/// One run: its settings and what they mean.
#[derive(Debug)]
pub struct Run {
    /// The settings.
    pub variant: Variant,
    /// What they mean; of a search, with its first setting.
    pub scenario: Scenario,
    /// The setting that is looked for.
    pub search: Option<Search>,
}

/// One scenario, ready to be carried.
#[derive(Debug)]
pub struct Scenario {
    /// What it is, in a line.
    pub title: String,
    /// What the network is.
    pub fabric: FabricSpec,
    /// What wants to move.
    pub traffic: Traffic,
    /// Who picks the paths.
    pub control: Control,
    /// Who carries the bytes.
    pub world: World,
    /// How hosts send, in a world of packets.
    pub transport: TransportSpec,
    /// The directory, if the traffic is its load.
    pub directory: Option<DirectorySpec>,
    /// What is laid over the fabric.
    pub overlay: OverlaySpec,
    /// The tenants and the switches between them, if the traffic is theirs.
    pub tenants: Option<TenantSpec>,
    /// The same in a lab.
    #[cfg(all(feature = "lab", target_os = "linux"))]
    pub lab_tenants: Option<weft_lab::plan::tenants::TenantSpec>,
    /// What a world of packets is to record.
    pub trace: TraceSpec,
    /// What breaks meanwhile.
    pub events: Vec<Event>,
    /// What the paper says.
    pub expect: Vec<Expect>,
}

impl Study {
    /// Reads a scenario file and everything that it names.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its line.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self> {
        Self::new(Source::read(path, overrides)?)
    }

    /// The same for a text, which `name` stands for in errors; relative paths start at `folder`.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its line.
    pub fn from_text(name: &str, text: String, folder: PathBuf, overrides: &Overrides) -> Result<Self> {
        Self::new(Source::from_text(name, text, folder, overrides)?)
    }

    /// The same for a table, as from Python; relative paths start at `folder`.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its key.
    pub fn from_table(table: Table, folder: PathBuf, overrides: &Overrides) -> Result<Self> {
        Self::new(Source::from_table(table, folder, overrides)?)
    }

    fn new(source: Source) -> Result<Self> {
        let runs = source.variants()?.into_iter().map(|variant| Run::read(variant, &source)).collect::<Result<Vec<_>>>()?;
        let study = Self { source, runs, cores: 1, without_lab: None };
        study.check()?;
        Ok(study)
    }

    /// Whatever can be told before the first run is told then, so that no sweep is carried half-way for a mistake in its last run.
    fn check(&self) -> Result<()> {
        let mut built: Option<(&FabricSpec, Arc<Fabric>)> = None;
        let mut loads = Vec::new();
        for run in &self.runs {
            let spec = &run.scenario.fabric;
            if built.as_ref().is_none_or(|(known, _)| *known != spec) {
                built = Some((spec, Arc::new(spec.build().map_err(|e| self.source.at(e))?)));
            }
            let (_, fabric) = built.as_ref().expect("built above");
            let slow;
            let fabric = match run.scenario.world.kind {
                world::Kind::Lab => {
                    slow = Arc::new(Fabric::clone(fabric).scaled(run.scenario.world.lab.scale));
                    &slow
                }
                world::Kind::Flow | world::Kind::Packet => fabric,
            };
            crate::world::check(fabric, run).map_err(|e| self.source.at(e))?;
            let seed = run.scenario.world.seed;
            loads.extend(run.scenario.traffic.offered_load(fabric, seed).map_err(|e| self.source.at(e))?);
            if let Some(search) = &run.search {
                let last = run.at(&self.source, search, search.to)?;
                let fabric = Arc::new(last.scenario.network().map_err(|e| self.source.at(e))?);
                crate::world::check(&fabric, &last).map_err(|e| self.source.at(e))?;
            }
        }
        self.tell_overload(&loads);
        self.tell_idle_expectations();
        self.tell_late_events(|run, _| self.end_at_most(run));
        Ok(())
    }

    /// Queues that can only grow are rarely what was meant.
    fn tell_overload(&self, loads: &[f64]) {
        let beyond: Vec<f64> = loads.iter().copied().filter(|&load| load > 1.0 + 1e-9).collect();
        if let Some(worst) = beyond.iter().copied().reduce(f64::max) {
            let runs =
                if self.runs.len() > 1 { format!(" in {} of {} runs", beyond.len(), self.runs.len()) } else { String::new() };
            tracing::warn!(
                "the arrivals ask a NIC for {:.0} % of what it can carry{runs}: flows pile up as long as they arrive; lower `load` or `rate`",
                worst * 100.0
            );
        }
    }

    /// An expectation that nothing is compared with is a slip of its `where` or its `over`.
    fn tell_idle_expectations(&self) {
        let any =
            |settings: &[(String, toml::Value)]| self.runs.iter().any(|run| crate::expect::matches(&run.variant.table, settings));
        for (i, expect) in self.runs[0].scenario.expect.iter().enumerate() {
            let (number, source) = (i + 1, &expect.source);
            let speaks = any(&expect.conditions);
            if self.source.is_plain() && !speaks {
                tracing::warn!("[[expect]] number {number} ({source}) speaks of no run: check its `where`");
            }
            if speaks && expect.over.as_ref().is_some_and(|over| !any(over)) {
                tracing::warn!(
                    "[[expect]] number {number} ({source}): no run has the settings of its `over`, so there is nothing to divide by"
                );
            }
        }
    }

    /// When a run ends at the latest, if its length is given.
    pub fn end_at_most(&self, run: usize) -> Option<Instant> {
        self.runs[run].scenario.world.duration.map(|duration| Instant::ZERO + duration)
    }

    /// An event does not happen in a run that has ended before: a slip of its time. `end_of` says when a run ends, if that is known and concerns the event.
    pub fn tell_late_events(&self, end_of: impl Fn(usize, &Event) -> Option<Instant>) {
        let mut late: BTreeMap<(Instant, &str, String), Vec<Instant>> = BTreeMap::new();
        for (i, run) in self.runs.iter().enumerate() {
            for event in &run.scenario.events {
                if let Some(end) = end_of(i, event).filter(|&end| end <= event.at) {
                    let what = format!("`{} = \"{}\"`", event.kind.key(), event.part);
                    late.entry((event.at, &event.key, what)).or_default().push(end);
                }
            }
        }
        // Ends of last flows have picoseconds that tell nobody anything.
        let span = |at: Instant| match at.saturating_since(Instant::ZERO) {
            long if long >= Duration::from_secs(1) => Duration::from_ms(long.as_ps() / PS_PER_MS),
            short => short,
        };
        for ((at, key, what), ends) in late {
            let (place, at, last) = (
                self.source.place_of(key).0,
                span(at),
                ends.iter().copied().max().map_or_else(String::new, |it| span(it).to_string()),
            );
            let when = match self.runs.len() {
                1 => format!("does not happen: the run ends at {last}"),
                all => format!("does not happen in {} of {all} runs, which end at {last} at the latest", ends.len()),
            };
            tracing::warn!("{place}: {what} at {at} {when}; let it be earlier, or the run longer");
        }
    }

    /// Cores for each run, if as many as there are threads run beside each other.
    pub fn cores_a_run(&self) -> usize {
        (self.cores / self.runs.len()).max(1)
    }

    /// The scenario's title.
    pub fn title(&self) -> &str {
        &self.runs[0].scenario.title
    }
}

/// The `[fabric]` table of a scenario, whatever else it holds.
///
/// # Errors
/// What is wrong with that table.
pub fn read_fabric(source: &Source) -> Result<FabricSpec> {
    let variant = source.variants()?.swap_remove(0);
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
            traffic: Traffic::read_all(&root, folder)?,
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
            expect: root.tables("expect")?.iter().map(Expect::read).collect::<Result<_, _>>()?,
        };
        if scenario.tenants.is_none() {
            read_elsewhere(&root)?;
        }
        root.has("search");
        root.done()?;
        scenario.check_together()?;
        Ok(scenario)
    }

    /// The network that carries the bytes: in a lab with its scaled rates.
    ///
    /// # Errors
    /// A fabric that cannot be.
    pub fn network(&self) -> Result<Fabric> {
        let fabric = self.fabric.build()?;
        Ok(if self.world.kind == world::Kind::Lab { fabric.scaled(self.world.lab.scale) } else { fabric })
    }

    /// What no section can see alone.
    fn check_together(&self) -> Result<(), KeyError> {
        if self.world.duration.is_none() && self.traffic.is_endless() {
            return Err(KeyError::new(
                "world",
                "these flows never end, and neither would the run",
                "add `duration = \"60s\"` to [world]",
            ));
        }
        if self.world.kind == world::Kind::Flow && self.traffic.is_requests() {
            let message = "the flow world carries flows, and no requests and responses";
            let help = "write kind = \"packet\" in [world], or describe them as flows";
            return Err(KeyError::new("traffic.pattern", message, help));
        }
        self.check_overlay()?;
        self.check_events()?;
        self.check_steps()?;
        self.check_directory()?;
        self.check_tenants()?;
        if self.world.is_slots() && self.control.scheduler != Scheduler::None {
            return Err(KeyError::new("control.scheduler", "the slots model moves no flows", "write scheduler = \"none\""));
        }
        if self.world.is_slots() && !self.events.is_empty() {
            return Err(KeyError::new("event[0]", "the slots model looks at one instant", "leave the events out"));
        }
        Ok(())
    }

    /// VL2's hosts bounce every flow off an intermediate: in a simulated world that is a way of routing.
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

    /// A slip of a unit must not cost days.
    fn check_steps(&self) -> Result<(), KeyError> {
        let Some(duration) = self.world.duration else { return Ok(()) };
        let steps = |step: weft_fabric::Duration| duration.as_ps() / step.as_ps();
        if let world::Rates::Aimd { tick, .. } = self.world.rates
            && self.world.kind == world::Kind::Flow
            && steps(tick) > MAX_TICKS
        {
            let message = format!("{duration} are {} ticks of {tick}", steps(tick));
            return Err(KeyError::new("world.tick", message, format!("lengthen the tick: {MAX_TICKS} are the most")));
        }
        if self.control.scheduler != Scheduler::None && steps(self.control.period) > MAX_ROUNDS {
            let message = format!("{duration} are {} rounds of {}", steps(self.control.period), self.control.period);
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
                Err(KeyError::new("control.scheduler", "this pattern has no flows to move", "write scheduler = \"none\""))
            }
            _ => Ok(()),
        }
    }

    /// Bridges carry tenants' traffic alone, and nothing else carries it.
    fn check_tenants(&self) -> Result<(), KeyError> {
        let wrong = |key: &str, message: &str, help: &str| Err(KeyError::new(key, message, help));
        match (&self.tenants, self.control.bridging) {
            (None, Some(_)) => wrong(
                "control.routing",
                "switches that learn addresses carry the traffic of tenants",
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
                wrong("world", "what is cut off may never end, and neither would the run", "add `duration = \"60s\"` to [world]")
            }
            (Some(_), _) if self.control.scheduler != Scheduler::None => {
                wrong("control.scheduler", "no scheduler moves what switches have learnt", "write scheduler = \"none\"")
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

const PS_PER_MS: u64 = 1_000_000_000;
/// Ticks of the AIMD model: a day of round trips of 100 us is 864 million.
const MAX_TICKS: u64 = 10_000_000_000;
/// Rounds of a scheduler.
const MAX_ROUNDS: u64 = 100_000_000;

impl Run {
    fn read(mut variant: Variant, source: &Source) -> Result<Self> {
        let search = Search::of(&variant.table).map_err(|e| source.at(e))?;
        if let Some(search) = &search {
            if variant.set.contains_key(&search.key) {
                let message = format!("`{}` is swept and searched for", search.key);
                return Err(source.at(KeyError::new("search.key", message, "leave it out of the sweep or of the search")));
            }
            search.set(&mut variant.table, search.from).map_err(|e| source.at(e))?;
        }
        let scenario = Scenario::read(&variant.table, &source.folder).map_err(|e| source.at(e))?;
        Ok(Self { variant, scenario, search })
    }

    /// The same run with another setting of what is searched for.
    ///
    /// # Errors
    /// A setting that the scenario cannot have.
    pub fn at(&self, source: &Source, search: &Search, number: f64) -> Result<Self> {
        let mut variant = self.variant.clone();
        search.set(&mut variant.table, number).map_err(|e| source.at(e))?;
        let shown = serde_json::to_value(search.value(number)).unwrap_or(serde_json::Value::Null);
        variant.set.insert(search.key.clone(), shown);
        let scenario = Scenario::read(&variant.table, &source.folder).map_err(|e| source.at(e))?;
        Ok(Self { variant, scenario, search: None })
    }

    /// The settings in a line: `scheduler=annealing k=16`.
    pub fn name(&self) -> String {
        let texts: Vec<String> = self
            .variant
            .set
            .iter()
            .map(|(k, v)| {
                format!("{}={}", k.rsplit('.').next().unwrap_or(k), v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            })
            .collect();
        texts.join(" ")
    }

    /// Runs with the same key have the same ideal run: it does not depend on control or on what breaks.
    pub fn ideal_key(&self) -> String {
        let mut table = self.variant.table.clone();
        for section in ["title", "control", "event", "expect", "search"] {
            table.remove(section);
        }
        table.to_string()
    }

    /// Whether the paper says anything of this run.
    pub fn is_expected(&self) -> bool {
        self.scenario.expect.iter().any(|e| crate::expect::matches(&self.variant.table, &e.conditions))
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
