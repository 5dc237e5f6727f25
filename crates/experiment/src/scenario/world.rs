//! `[world]` and `[[event]]`: which world runs a scenario, for how long, and what fails during it.

use weft_fabric::{Bytes, Duration, Instant};
use weft_sim::packet::SwitchQueue;

use crate::error::{KeyError, Problem};
use crate::scenario::keys::{Keys, fraction_of_percent};

/// The world of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// Which world.
    pub kind: Kind,
    /// The rate model of the flow world.
    pub rates: Rates,
    /// Queues and delays of the packet world.
    pub queues: Queues,
    /// The run ends here at the latest; `None`: when the last flow has ended.
    pub duration: Option<Duration>,
    /// Left out of the aggregates at the start.
    pub warmup: Duration,
    /// Left out of the aggregates at the end.
    pub cooldown: Duration,
    /// Seed of all random choices.
    pub seed: u64,
    /// The seeds with which the run is repeated, beside that one: their metrics are averaged.
    pub other_seeds: Vec<u64>,
    /// Whether the same flows are also run on a non-blocking switch, for `optimal_fraction`.
    pub ideal: bool,
    /// Settings of the lab. Simulated worlds read and ignore them, so that one file serves all.
    pub lab: LabSettings,
}

/// Settings of the lab.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabSettings {
    /// Factor of the links' rates; simulated worlds ignore it.
    pub scale: f64,
    /// What computes the routes; `None`: the scheduler and the overlay decide.
    pub routing: Option<LabRouting>,
    /// OSPF's timers: how soon it detects failures.
    pub ospf: Ospf,
}

/// What computes the routes of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabRouting {
    /// OSPF, by FRR in every switch.
    Frr,
    /// Kernel routes that stay as they are.
    Static,
    /// A scheduler, by OpenFlow rules in switches that are Open vSwitch.
    Openflow,
}

/// OSPF's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ospf {
    /// Hellos each second, and BFD.
    Fast,
    /// OSPF's own on Ethernet: hellos each 10 s, 40 s of waiting, and no BFD.
    Default,
    /// Others.
    Timers {
        /// From one hello to the next, in seconds.
        hello_s: u16,
        /// Time without hellos after which a neighbour is dead, in seconds.
        dead_s: u16,
        /// Whether BFD watches too.
        bfd: bool,
        /// Whether links are broadcast networks, on which a switch that comes up waits for the dead interval.
        broadcast: bool,
    },
}

/// The worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Flows with rates.
    Flow,
    /// Packets in queues.
    Packet,
    /// Real packets, on this machine.
    Lab,
}

/// Settings of the packet world. The flow world reads and ignores them, so that one file serves both.
#[derive(Clone, Debug, PartialEq)]
pub struct Queues {
    /// What the ports of switches hold.
    pub switch: SwitchQueue,
    /// Limit of the queue at a NIC, in bytes; `None`: back-pressure.
    pub nic: Option<Bytes>,
    /// Queue length, in bytes, beyond which packets are marked.
    pub ecn_threshold: Option<Bytes>,
    /// Time that a switch takes to forward a packet.
    pub hop_delay: Duration,
    /// Fraction of its rate that a NIC reaches in each direction at once.
    pub nic_duplex: f64,
    /// The longest time that a host takes to pass a packet to its NIC; `None`: as long as the NIC takes to send a full one.
    pub host_jitter: Option<Duration>,
    /// Bytes added to a detoured packet for each server that forwards it.
    pub detour_header: Bytes,
}

/// The rate models of the flow world.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rates {
    /// Max-min fair, event driven.
    MaxMin {
        /// The fraction by which rates may be below the fair ones; 0: exact.
        tolerance: f64,
    },
    /// Hedera section 5.5: additive increase, multiplicative decrease, in ticks.
    Aimd {
        /// One RTT.
        tick: Duration,
        /// Increase of a flow's rate per tick, in bytes per second.
        increase: Bytes,
    },
    /// Hedera figure 3: a link has slots for so many flows, what exceeds them is lost.
    Slots,
}

/// Something that happens to the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// What.
    pub kind: EventKind,
    /// To which part or program: `link agg0-core1`, `switch core3`, `agent h0`; who moves where: `host h1 to tor2`.
    pub part: String,
    /// The key that names the part, for errors: `event[0].fail`.
    pub key: String,
}

/// What can happen to a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It fails and its neighbours notice.
    Fail,
    /// It fails, and its neighbours do not notice.
    FailSilent,
    /// It is repaired.
    Restore,
    /// A program of a lab is killed.
    Kill,
    /// The program is restarted.
    Restart,
    /// A server moves to another ToR, or a VM to another host; in a lab.
    Move,
    /// A VM sends frames that it should not; in a lab.
    Forge,
}

impl Kind {
    /// Its name in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Packet => "packet",
            Self::Lab => "lab",
        }
    }
}

impl EventKind {
    /// The key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::FailSilent => "fail_silent",
            Self::Restore => "restore",
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::Move => "move",
            Self::Forge => "forge",
        }
    }

    /// Whether simulated worlds have it; killed, restarted and moved are programs and servers of a lab.
    pub const fn is_simulated(self) -> bool {
        matches!(self, Self::Fail | Self::FailSilent | Self::Restore)
    }
}

impl Queues {
    /// The queue of each port of a switch, if its size is given.
    pub fn of_port(&self) -> Option<Bytes> {
        if let SwitchQueue::Fixed(size) = self.switch { Some(size) } else { None }
    }
}

impl World {
    /// The seeds with which a run is executed: its own, and the others.
    pub fn seeds(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.seed).chain(self.other_seeds.iter().copied())
    }

    /// Whether the slots model looks at one instant, and there is no run.
    pub fn is_slots(&self) -> bool {
        self.kind == Kind::Flow && self.rates == Rates::Slots
    }

    /// Reads `[world]`.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let kind: String = keys.or("kind", "flow".to_owned())?;
        let kinds = [Kind::Flow, Kind::Packet, Kind::Lab];
        let Some(kind) = kinds.into_iter().find(|known| known.name() == kind) else {
            return Err(keys.problem("kind", Problem::no_such("world", kind, &kinds.map(Kind::name))));
        };
        let (seed, other_seeds) = read_seeds(keys)?;
        let world = Self {
            kind,
            rates: read_rates(keys)?,
            queues: Queues {
                switch: read_switch_queue(keys)?,
                nic: keys.opt("nic_queue")?,
                ecn_threshold: keys.opt("ecn_threshold")?,
                hop_delay: keys.or("hop_delay", Duration::ZERO)?,
                nic_duplex: keys.or("nic_duplex", 1.0)?,
                host_jitter: keys.opt("host_jitter")?,
                detour_header: keys.or("detour_header", Bytes(20))?,
            },
            duration: keys.opt("duration")?,
            warmup: keys.or("warmup", Duration::ZERO)?,
            cooldown: keys.or("cooldown", Duration::ZERO)?,
            seed,
            other_seeds,
            ideal: keys.or("ideal", true)?,
            lab: LabSettings::read(keys)?,
        };
        keys.done()?;
        if let Some(duration) = world.duration {
            keys.check_not_zero("duration", duration, "a run of no length", "write a duration such as \"60s\"")?;
        }
        match world.duration {
            Some(d) if world.warmup.as_ps().saturating_add(world.cooldown.as_ps()) >= d.as_ps() => Err(keys.error(
                "warmup",
                "warm-up and cool-down leave nothing of the run",
                "shorten `warmup` or `cooldown`, or lengthen `duration`",
            )),
            _ => Ok(world),
        }
    }
}

/// `switch_queue`: a size for each port, or `bdp`; without it, or if it is `shared`, `switch_buffer` and `buffer_alpha`.
fn read_switch_queue(keys: &Keys<'_>) -> Result<SwitchQueue, KeyError> {
    let buffer: Option<Bytes> = keys.opt("switch_buffer")?;
    let alpha: Option<f64> = keys.opt("buffer_alpha")?;
    let word = keys.raw().get("switch_queue").and_then(toml::Value::as_str);
    if !keys.has("switch_queue") || word == Some("shared") {
        return Ok(SwitchQueue::Shared { buffer, alpha: alpha.unwrap_or(1.0) });
    }
    for (key, given) in [("switch_buffer", buffer.is_some()), ("buffer_alpha", alpha.is_some())] {
        if given {
            let message = "ports with a `switch_queue` of their own share no buffer";
            return Err(keys.error(key, message, format!("leave out `{key}`, or write switch_queue = \"shared\"")));
        }
    }
    if word == Some("bdp") {
        return Ok(SwitchQueue::BandwidthDelay);
    }
    keys.need("switch_queue").map(SwitchQueue::Fixed)
}

/// `seed`, and `seeds`: how many from there on, or all of them as a list.
fn read_seeds(keys: &Keys<'_>) -> Result<(u64, Vec<u64>), KeyError> {
    const FORM: &str = "write how many: `seeds = 5`, or which: `seeds = [1, 2, 3]`";
    let seed: u64 = keys.or("seed", 1)?;
    if !keys.has("seeds") {
        return Ok((seed, Vec::new()));
    }
    if !keys.raw().get("seeds").is_some_and(toml::Value::is_array) {
        let count: u64 = keys.need("seeds")?;
        if count == 0 || count > MAX_SEEDS {
            return Err(keys.error("seeds", format!("{count} seeds"), format!("write a number from 1 to {MAX_SEEDS}")));
        }
        return Ok((seed, (seed..).skip(1).take(count as usize - 1).collect()));
    }
    let mut seeds: Vec<u64> = keys.need("seeds")?;
    let twice = (1..seeds.len()).find(|&i| seeds[..i].contains(&seeds[i]));
    match (seeds.first(), twice) {
        (None, _) => Err(keys.error("seeds", "an empty list of seeds", FORM)),
        (_, Some(i)) => Err(keys.error("seeds", format!("seed {} is listed twice", seeds[i]), FORM)),
        _ if seeds.len() as u64 > MAX_SEEDS => {
            Err(keys.error("seeds", format!("{} seeds", seeds.len()), format!("list at most {MAX_SEEDS}")))
        }
        (Some(&first), _) if first != seed => {
            let message = format!("the first of `seeds` is {first}, and not {seed}");
            Err(keys.error("seed", message, "leave out one of the two, or write how many: `seeds = 5`"))
        }
        (Some(&first), _) => Ok((first, seeds.split_off(1))),
    }
}

/// Repeats of a run.
const MAX_SEEDS: u64 = 1000;

impl std::fmt::Display for Ospf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fast => f.write_str("fast"),
            Self::Default => f.write_str("default"),
            Self::Timers { hello_s, dead_s, .. } => write!(f, "{hello_s}/{dead_s} s"),
        }
    }
}

impl LabRouting {
    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frr => "frr",
            Self::Static => "static",
            Self::Openflow => "openflow",
        }
    }
}

impl LabSettings {
    fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let scale = keys.or("scale", 0.01)?;
        if !(scale > 0.0 && scale <= 1.0) {
            return Err(keys.error("scale", format!("rates times {scale}"), "write a number above 0 and at most 1"));
        }
        let routing = if keys.has("routing") { Some(keys.word("routing", LAB_ROUTINGS, LabRouting::Frr)?) } else { None };
        Ok(Self { scale, routing, ospf: read_ospf(keys)? })
    }
}

const LAB_ROUTINGS: &[(&str, LabRouting)] =
    &[("frr", LabRouting::Frr), ("static", LabRouting::Static), ("openflow", LabRouting::Openflow)];

fn read_ospf(keys: &Keys<'_>) -> Result<Ospf, KeyError> {
    if keys.raw().get("ospf").is_none_or(toml::Value::is_str) {
        return keys.word("ospf", &[("fast", Ospf::Fast), ("default", Ospf::Default)], Ospf::Fast);
    }
    let timers = keys.table("ospf")?;
    let seconds = |key: &'static str, default: u16| -> Result<u16, KeyError> {
        let span: Duration = timers.or(key, Duration::from_secs(default.into()))?;
        let whole =
            span.as_ps().is_multiple_of(weft_fabric::time::PS_PER_S).then_some(span.as_ps() / weft_fabric::time::PS_PER_S);
        let seconds = whole.and_then(|s| u16::try_from(s).ok()).filter(|&s| s > 0);
        seconds
            .ok_or_else(|| timers.error(key, format!("OSPF counts whole seconds, and not {span}"), "write a time such as \"4s\""))
    };
    let hello_s = seconds("hello", 1)?;
    let dead_s = seconds("dead", hello_s.saturating_mul(4))?;
    let ospf = Ospf::Timers { hello_s, dead_s, bfd: timers.or("bfd", false)?, broadcast: timers.or("broadcast", false)? };
    timers.done()?;
    if dead_s <= hello_s {
        return Err(timers.error(
            "dead",
            "neighbours would be dead before their next hello",
            "write four times `hello`, as is usual",
        ));
    }
    Ok(ospf)
}

fn read_rates(keys: &Keys<'_>) -> Result<Rates, KeyError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        MaxMin,
        Aimd,
        Slots,
    }
    let kind = keys.word("rates", &[("max-min", Kind::MaxMin), ("aimd", Kind::Aimd), ("slots", Kind::Slots)], Kind::MaxMin)?;
    let tick: Option<Duration> = keys.opt("tick")?;
    let increase: Option<Bytes> = keys.opt("increase")?;
    let tolerance: Option<String> = keys.opt("tolerance")?;
    if kind != Kind::MaxMin && tolerance.is_some() {
        let (owner, write) = ("the max-min model", "write rates = \"max-min\"");
        return Err(keys.problem("tolerance", Problem::BelongsTo { key: "tolerance".to_owned(), owner, write }));
    }
    if kind != Kind::Aimd {
        for (key, given) in [("tick", tick.is_some()), ("increase", increase.is_some())] {
            if given {
                let (owner, write) = ("the AIMD model", "write rates = \"aimd\"");
                return Err(keys.problem(key, Problem::BelongsTo { key: key.to_owned(), owner, write }));
            }
        }
    }
    match kind {
        Kind::MaxMin => {
            let tolerance = tolerance.map_or(Ok(0.0), |text| {
                fraction_of_percent(&text).filter(|&fraction| fraction <= MOST_TOLERANCE).ok_or_else(|| {
                    keys.error("tolerance", format!("`{text}` is no tolerance of rates"), "write \"1%\"; at most \"10%\"")
                })
            })?;
            Ok(Rates::MaxMin { tolerance })
        }
        Kind::Slots => Ok(Rates::Slots),
        Kind::Aimd => {
            let tick = tick.unwrap_or(Duration::from_us(100));
            keys.check_not_zero("tick", tick, "a tick of no length", "write a tick such as \"100us\"")?;
            Ok(Rates::Aimd { tick, increase: increase.unwrap_or(Bytes(15_000_000)) })
        }
    }
}

/// Rates that are farther from the fair ones than this say little.
const MOST_TOLERANCE: f64 = 0.1;

/// Reads `[[event]]`, in order of time; equal times keep their order.
pub fn read_events(entries: &[Keys<'_>]) -> Result<Vec<Event>, KeyError> {
    let mut events = entries.iter().map(read_event).collect::<Result<Vec<_>, _>>()?;
    events.sort_by_key(|e| e.at);
    Ok(events)
}

fn read_event(keys: &Keys<'_>) -> Result<Event, KeyError> {
    let at: Duration = keys.need("at")?;
    let kinds = [
        EventKind::Fail,
        EventKind::Restore,
        EventKind::FailSilent,
        EventKind::Kill,
        EventKind::Restart,
        EventKind::Move,
        EventKind::Forge,
    ];
    let mut found = Vec::new();
    for kind in kinds {
        if let Some(part) = keys.opt::<String>(kind.key())? {
            found.push(Event { at: Instant::from_ps(at.as_ps()), kind, part, key: keys.path_of(kind.key()) });
        }
    }
    keys.done()?;
    match found.len() {
        1 => Ok(found.remove(0)),
        _ => {
            let help = "write one of `fail`, `fail_silent`, `restore`; in the lab also `kill`, `restart`, `move`, `forge`";
            Err(keys.error("at", "an event does exactly one thing", help))
        }
    }
}
