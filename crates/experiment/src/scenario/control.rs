//! `[control]`: routing and scheduling.

use weft_control::subways::{DetourConfig, Rebind, SubwaysConfig};
use weft_fabric::Duration;
use weft_fabric::routing::spain::{MAX_TREES, SpainConfig};
use weft_fabric::routing::{HashFields, Routing, RoutingKind};
use weft_fabric::time::NsDuration;
use weft_fabric::topology::shapes::subways::Balancing;
use weft_sim::packet::TransportKind;
use weft_sim::packet::bridged::Returns;

use crate::error::KeyError;
use crate::scenario::Scenario;
use crate::scenario::keys::Keys;
use crate::scenario::world::{Kind, LabRouting, LabSettings};

/// Routing and scheduling, and how quickly failures are noticed.
#[derive(Clone, Debug, PartialEq)]
pub struct Control {
    /// Routing of the switches.
    pub routing: Routing,
    /// Switches that learn addresses instead of routing.
    pub bridging: Option<Bridging>,
    /// SPAIN's settings.
    pub spain: SpainConfig,
    /// Which VLAN answers take.
    pub spain_return: Returns,
    /// From one chirp of SPAIN's agents to the next.
    pub chirp_period: NsDuration,
    /// The central scheduler.
    pub scheduler: Scheduler,
    /// Time from one scheduling round to the next.
    pub period: NsDuration,
    /// The same, if the scenario has it.
    pub given_period: Option<NsDuration>,
    /// From which rate a flow counts as large, as a fraction of its source's NIC.
    pub threshold: f64,
    /// Iterations of simulated annealing per round; `None`: by the number of flows.
    pub iterations: Option<u32>,
    /// Annealing's `c` in units of the initial temperature; `None` takes the paper's (0.5 for 16 hosts, else 1000).
    pub annealing_c: Option<f64>,
    /// Settings of Subways' controllers; the seed is the run's.
    pub subways: SubwaysConfig,
    /// Whether demand estimation and placement of the first flows are timed.
    pub measure: bool,
    /// From a failure until routing avoids it.
    pub reconverge: Duration,
    /// From a repair until routing uses it again.
    pub restore_delay: Duration,
}

/// Paths of frames over switches that learn addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bridging {
    /// One tree for all.
    SpanningTree,
    /// SPAIN's VLANs (NetLord section 3.4).
    Spain,
}

/// The central schedulers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// None: the switches alone choose paths.
    None,
    /// Hedera section 4.3.
    FirstFit,
    /// Hedera section 4.4: one core per destination host.
    Annealing,
    /// The baseline of section 4.4: one core per flow.
    AnnealingPerFlow,
    /// Koenig colouring of the Clos of Closes.
    EdgeColoring,
    /// Subways section 5.2: ToRs weighted by utilisation, and rebinding.
    Adaptive,
    /// Subways section 6: that, and detours around hot racks.
    Detour,
}

const SCHEDULERS: &[(&str, Scheduler)] = &[
    ("none", Scheduler::None),
    ("first-fit", Scheduler::FirstFit),
    ("annealing", Scheduler::Annealing),
    ("annealing-per-flow", Scheduler::AnnealingPerFlow),
    ("edge-coloring", Scheduler::EdgeColoring),
    ("adaptive", Scheduler::Adaptive),
    ("detour", Scheduler::Detour),
];

const REBINDS: &[(&str, Rebind)] = &[("surplus", Rebind::Surplus), ("all", Rebind::All)];

const ROUTINGS: &[(&str, (RoutingKind, Option<Bridging>))] = &[
    ("ecmp", (RoutingKind::Ecmp, None)),
    ("single-path", (RoutingKind::SinglePath, None)),
    ("vlb", (RoutingKind::Vlb, None)),
    ("spray", (RoutingKind::Spray, None)),
    ("flowlet", (RoutingKind::Flowlet { gap: FLOWLET_GAP }, None)),
    ("spanning-tree", (RoutingKind::SinglePath, Some(Bridging::SpanningTree))),
    ("spain", (RoutingKind::SinglePath, Some(Bridging::Spain))),
];

/// Longer than a path's queues of 150 kB at 10 Gbps take to drain, so that a flowlet rarely overtakes the one before; CONGA's default (SIGCOMM 2014).
const FLOWLET_GAP: Duration = Duration::from_us(500);

/// What the rapid spanning tree protocol takes to go around a link whose ends see that it is down: tens of milliseconds to a second (IEEE 802.1D-2004, 17).
const RSTP: Duration = Duration::from_secs(1);

const HASHES: &[(&str, HashFields)] = &[("5-tuple", HashFields::FiveTuple), ("dst", HashFields::Dst)];

impl Control {
    /// Reads `[control]`. The fabric's type may ask for a scheduler; the key `scheduler` has the last word.
    pub fn read(keys: &Keys<'_>, balancing: Balancing) -> Result<Self, KeyError> {
        let usual = match balancing {
            Balancing::None => Scheduler::None,
            Balancing::Adaptive => Scheduler::Adaptive,
            Balancing::Detour => Scheduler::Detour,
        };
        let scheduler = keys.word("scheduler", SCHEDULERS, usual)?;
        let usual_period = match scheduler {
            Scheduler::Adaptive | Scheduler::Detour => SubwaysConfig::default().period,
            _ => NsDuration::from_secs(5),
        };
        let given_period = keys.opt("period")?;
        let period = given_period.unwrap_or(usual_period);
        let (kind, bridging) = keys.word("routing", ROUTINGS, (RoutingKind::Ecmp, None))?;
        let gap = keys.opt("flowlet_gap")?;
        let kind = with_gap(keys, kind, gap)?;
        let usual_reconverge = if bridging == Some(Bridging::SpanningTree) { RSTP } else { Duration::ZERO };
        let chirp_period = read_chirps(keys)?;
        let control = Self {
            bridging,
            spain: read_spain(keys)?,
            spain_return: read_return(keys, chirp_period)?,
            chirp_period,
            routing: Routing {
                kind,
                hash: keys.word("hash", HASHES, HashFields::FiveTuple)?,
                polarised: keys.or("polarised", false)?,
                vlb_local: keys.or("vlb_local", true)?,
            },
            scheduler,
            period,
            given_period,
            threshold: keys.or("threshold", 0.1)?,
            iterations: keys.opt("iterations")?,
            annealing_c: keys.opt("annealing_c")?,
            subways: subways(keys, scheduler, period, gap)?,
            measure: keys.or("measure", false)?,
            reconverge: keys.or("reconverge", usual_reconverge)?,
            restore_delay: keys.or("restore_delay", Duration::ZERO)?,
        };
        keys.done()?;
        keys.check_not_zero("period", period, "the scheduler cannot run all the time", "write a period such as \"5s\"")?;
        if !(control.threshold > 0.0 && control.threshold <= 1.0) {
            return Err(keys.error(
                "threshold",
                "a threshold is a fraction of the NIC",
                "write a number above 0 and at most 1, such as 0.1",
            ));
        }
        if control.measure && !control.scheduler.is_hedera() {
            let help = "choose a scheduler that estimates demands, such as `annealing`";
            return Err(keys.error("measure", "there is no scheduler to measure", help));
        }
        let why = "annealing that tries nothing leaves every flow where it was";
        let help = "write 1 or more; 1000 is the paper's number, without the key it grows with the flows";
        keys.check_not_zero("iterations", control.iterations.unwrap_or(1), why, help)?;
        if control.annealing_c.is_some_and(|c| c <= 0.0) {
            return Err(keys.error("annealing_c", "annealing's c must be positive", "leave it out for the paper's value"));
        }
        Ok(control)
    }

    /// What computes the routes of a lab: OpenFlow where large flows are scheduled, unless there is an overlay or the scenario asks for something else.
    pub fn lab_routing(&self, lab: &LabSettings, has_overlay: bool) -> LabRouting {
        let usual = if self.scheduler.is_hedera() && !has_overlay { LabRouting::Openflow } else { LabRouting::Frr };
        lab.routing.unwrap_or(usual)
    }
}

/// A key that only some runs read.
#[derive(Clone, Copy)]
pub struct Reader {
    /// The dotted key.
    pub key: &'static str,
    /// What reads it, as the end of a sentence that begins with "it needs".
    pub needs: &'static str,
    /// Whether this run does.
    pub reads: fn(&Scenario) -> bool,
}

/// Keys that have no effect with other schedulers, another routing, or without another key.
pub const READERS: &[Reader] = &[
    Reader { key: "control.period", needs: "a `scheduler`", reads: |s| s.control.scheduler != Scheduler::None },
    Reader { key: "control.threshold", needs: HEDERA, reads: |s| s.control.scheduler.is_hedera() },
    Reader { key: "control.iterations", needs: ANNEALING, reads: anneals },
    Reader { key: "control.annealing_c", needs: ANNEALING, reads: anneals },
    Reader { key: "control.ewma_gain", needs: SUBWAYS, reads: |s| s.control.scheduler.is_subways() },
    Reader { key: "control.aggressiveness", needs: SUBWAYS, reads: |s| s.control.scheduler.is_subways() },
    Reader { key: "control.utilisation_floor", needs: SUBWAYS, reads: |s| s.control.scheduler.is_subways() },
    Reader { key: "control.rebind", needs: SUBWAYS, reads: |s| s.control.scheduler.is_subways() },
    Reader {
        key: "control.flowlet_gap",
        needs: "`routing = \"flowlet\"`, or `scheduler = \"adaptive\"` or `\"detour\"` in the packet world",
        reads: |s| {
            let is_rebound = s.control.scheduler.is_subways() && s.world.kind != Kind::Flow;
            is_rebound || matches!(s.control.routing.kind, RoutingKind::Flowlet { .. })
        },
    },
    Reader { key: "control.detect", needs: DETOUR, reads: detours },
    Reader { key: "control.hot_duration", needs: DETOUR, reads: detours },
    Reader { key: "control.hot_threshold", needs: DETOUR, reads: detours },
    Reader { key: "control.detour_usable", needs: DETOUR, reads: detours },
    Reader { key: "control.max_detour_servers", needs: DETOUR, reads: detours },
    Reader { key: "control.edge_rule", needs: DETOUR, reads: detours },
    // Keys of another world than the run's are no slip: one file serves several.
    Reader { key: "world.detour_header", needs: DETOUR, reads: |s| detours(s) || s.world.kind != Kind::Packet },
    Reader { key: "control.vlb_local", needs: "`routing = \"vlb\"`", reads: |s| s.control.routing.kind == RoutingKind::Vlb },
    Reader {
        key: "control.polarised",
        needs: "a `routing` that hashes flows, such as `\"ecmp\"`",
        reads: |s| matches!(s.control.routing.kind, RoutingKind::Ecmp | RoutingKind::Vlb),
    },
    Reader {
        key: "control.hash",
        needs: "a `routing` that hashes flows, such as `\"ecmp\"`, or hosts with several NICs",
        reads: |s| match s.control.routing.kind {
            RoutingKind::SinglePath => false,
            RoutingKind::Spray | RoutingKind::Flowlet { .. } => s.fabric.may_have_several_nics(),
            RoutingKind::Ecmp | RoutingKind::Vlb => true,
        },
    },
    Reader {
        key: "transport.delayed_ack_timeout",
        needs: "`delayed_ack = true`",
        reads: |s| s.transport.transport.delayed_ack.is_some(),
    },
    Reader { key: "trace.every", needs: "`queues` or `windows` in [trace]", reads: |s| s.trace.samples() },
    Reader { key: "trace.pcap_packets", needs: "`pcap`", reads: |s| s.trace.captures() },
    Reader {
        key: "switches.learn_queue",
        needs: "`learn_rate`",
        reads: |s| s.tenants.as_ref().is_some_and(|tenants| tenants.fib.learn_rate.is_some()),
    },
    Reader { key: "overlay.rehash", needs: "the packet world and one connection per flow", reads: rehashes },
    Reader { key: "overlay.lookup", needs: "a simulated world", reads: |s| s.world.kind != Kind::Lab },
    Reader { key: "control.spain_paths", needs: SPAIN, reads: spans },
    Reader { key: "control.spain_orders", needs: SPAIN, reads: spans },
    Reader {
        key: "control.special_trees",
        needs: "`routing = \"spain\"` in the lab, or `weft spain`",
        reads: |s| spans(s) && s.world.kind == Kind::Lab,
    },
    Reader { key: "control.spain_return", needs: SPAIN, reads: spans },
    Reader { key: "control.chirp_period", needs: SPAIN, reads: spans },
    Reader { key: "control.reconverge", needs: "an [[event]]", reads: |s| !s.events.is_empty() },
    Reader { key: "control.restore_delay", needs: "an [[event]]", reads: |s| !s.events.is_empty() },
];

const HEDERA: &str = "a `scheduler` that places large flows, such as `\"annealing\"`";
const ANNEALING: &str = "`scheduler = \"annealing\"` or `\"annealing-per-flow\"`";
const SUBWAYS: &str = "`scheduler = \"adaptive\"` or `\"detour\"`";
const DETOUR: &str = "`scheduler = \"detour\"`";
const SPAIN: &str = "`routing = \"spain\"`";

fn anneals(scenario: &Scenario) -> bool {
    matches!(scenario.control.scheduler, Scheduler::Annealing | Scheduler::AnnealingPerFlow)
}

fn detours(scenario: &Scenario) -> bool {
    scenario.control.scheduler == Scheduler::Detour
}

fn rehashes(scenario: &Scenario) -> bool {
    scenario.world.kind == Kind::Packet && !matches!(scenario.transport.transport.kind, TransportKind::Mptcp { .. })
}

fn spans(scenario: &Scenario) -> bool {
    scenario.control.bridging == Some(Bridging::Spain)
}

/// Which VLAN answers take.
fn read_return(keys: &Keys<'_>, chirp: NsDuration) -> Result<Returns, KeyError> {
    let own = keys.word("spain_return", &[("same", false), ("own", true)], false)?;
    Ok(if own { Returns::Own { chirp: chirp.to_ps() } } else { Returns::Same })
}

fn read_chirps(keys: &Keys<'_>) -> Result<NsDuration, KeyError> {
    let period = keys.or("chirp_period", weft_control::netlord::spain::SpainConfig::default().period)?;
    if period.as_ns() < 2 {
        return Err(keys.error("chirp_period", "agents cannot chirp all the time", "write a time such as \"100ms\""));
    }
    Ok(period)
}

/// SPAIN's settings in `[control]`.
///
/// # Errors
/// What is wrong with them.
pub fn read_spain(keys: &Keys<'_>) -> Result<SpainConfig, KeyError> {
    let usual = SpainConfig::default();
    let spain = SpainConfig {
        paths: keys.or("spain_paths", usual.paths)?,
        orders: keys.or("spain_orders", usual.orders)?,
        seed: usual.seed,
        trees: keys.or("special_trees", usual.trees)?,
    };
    for (key, value) in [("spain_paths", spain.paths), ("spain_orders", spain.orders), ("special_trees", spain.trees)] {
        keys.check_not_zero(key, value, "SPAIN would have no paths", "leave it out for the usual value")?;
    }
    if spain.trees > MAX_TREES {
        let message = format!("{} trees: {MAX_TREES} are the most", spain.trees);
        return Err(keys.error("special_trees", message, "write 2, as is usual"));
    }
    Ok(spain)
}

impl Scheduler {
    /// Whether it places large flows by their demands.
    pub fn is_hedera(self) -> bool {
        !matches!(self, Self::None | Self::Adaptive | Self::Detour)
    }

    /// Whether it is one of Subways' controllers.
    pub fn is_subways(self) -> bool {
        matches!(self, Self::Adaptive | Self::Detour)
    }
}

/// The routing with the gap between flowlets that the scenario gives.
fn with_gap(keys: &Keys<'_>, kind: RoutingKind, gap: Option<NsDuration>) -> Result<RoutingKind, KeyError> {
    let (RoutingKind::Flowlet { .. }, Some(gap)) = (kind, gap) else { return Ok(kind) };
    let why = "without a gap every packet is a flowlet";
    keys.check_not_zero("flowlet_gap", gap, why, "write routing = \"spray\", or a time such as \"500us\"")?;
    Ok(RoutingKind::Flowlet { gap: gap.to_ps() })
}

/// The settings of Subways' controllers, and their limits where one of them is chosen.
fn subways(
    keys: &Keys<'_>,
    scheduler: Scheduler,
    period: NsDuration,
    gap: Option<NsDuration>,
) -> Result<SubwaysConfig, KeyError> {
    let (usual, usual_detour) = (SubwaysConfig::default(), DetourConfig::default());
    let detour = DetourConfig {
        detect: keys.or("detect", usual_detour.detect)?,
        hot_duration: keys.or("hot_duration", usual_detour.hot_duration)?,
        hot_threshold: keys.or("hot_threshold", usual_detour.hot_threshold)?,
        usable: keys.or("detour_usable", usual_detour.usable)?,
        max_servers: keys.or("max_detour_servers", usual_detour.max_servers)?,
        edge_rule: keys.or("edge_rule", usual_detour.edge_rule)?,
    };
    let config = SubwaysConfig {
        period,
        ewma_gain: keys.or("ewma_gain", usual.ewma_gain)?,
        aggressiveness: keys.or("aggressiveness", usual.aggressiveness)?,
        utilisation_floor: keys.or("utilisation_floor", usual.utilisation_floor)?,
        rebind: keys.word("rebind", REBINDS, usual.rebind)?,
        flowlet_gap: gap.unwrap_or(usual.flowlet_gap),
        detour: (scheduler == Scheduler::Detour).then_some(detour),
        seed: usual.seed,
    };
    match config.check() {
        Err(error) if scheduler.is_subways() => Err(error.into()),
        _ => Ok(config),
    }
}
