//! What every world returns of a run, so that one report compares them.

use crate::ids::{FlowId, HostId, LinkId};
use crate::routing::Path;
use crate::time::{Duration, Instant};
use crate::units::Bytes;

/// One flow. The order of the records is that of the ids.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRecord {
    /// Number of the flow from 0.
    pub id: FlowId,
    /// Sending host.
    pub src: HostId,
    /// Receiving host.
    pub dst: HostId,
    /// When it wanted to begin.
    pub start: Instant,
    /// When its last byte was delivered; `None` if it did not finish.
    pub end: Option<Instant>,
    /// Bytes delivered.
    pub bytes: Bytes,
    /// Directed links from NIC to NIC; the last ones used if it was moved; empty if it never had a path.
    pub path: Path,
    /// What its packets did, in the packet world.
    pub packets: Option<PacketRecord>,
}

/// What the packets of a flow did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketRecord {
    /// Segments sent again.
    pub retransmits: u32,
    /// Segments that arrived after a later one without having been sent again.
    pub reordered: u32,
}

/// Bytes that a directed link carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRecord {
    /// The link.
    pub id: LinkId,
    /// Bytes sent over it.
    pub bytes: Bytes,
    /// Packets that its queue dropped, or that it lost as it failed; 0 in a world without packets.
    pub drops: u64,
}

/// The whole network at one instant. Between two samples the delivered bytes grow linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// Bytes delivered to all hosts since the start.
    pub delivered: f64,
    /// Flows under way.
    pub active: u32,
    /// The most that the NICs of the active senders and receivers could carry until the next sample, in bits per second:
    /// the smaller of the two sums.
    pub nic_bound_bps: f64,
}

/// Mean utilisation of a link over a span of time; spans without traffic are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSample {
    /// End of the span.
    pub at: Instant,
    /// The link.
    pub link: LinkId,
    /// Fraction of the capacity.
    pub utilisation: f64,
}

/// All that a world says of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By id.
    pub flows: Vec<FlowRecord>,
    /// By id, every link.
    pub links: Vec<LinkRecord>,
    /// By time, then link.
    pub link_series: Vec<LinkSample>,
    /// By time; the first is at 0 and the last at the end of the run.
    pub samples: Vec<Sample>,
    /// When the run ended: its duration, or the end of the last flow.
    pub ended: Instant,
    /// Events (max-min) or flow updates (AIMD) processed.
    pub events: u64,
    /// What only the packet world knows.
    pub packets: Option<PacketTotals>,
    /// What the packet world was asked to show.
    pub traced: Traced,
    /// What the scheduler did, if there was one.
    pub control: ControlRecord,
    /// Of several services, the number of that to which each flow belongs; empty if there is only one.
    pub services: Vec<u16>,
    /// What the agents of an overlay did, in a simulated world that has one.
    pub overlay: Option<OverlayRecord>,
    /// What only a lab knows.
    pub lab: Option<LabRecord>,
}

/// What the agents of an overlay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlayRecord {
    /// Flows that did not start, for their hosts may not communicate; ascending.
    pub refused: Vec<FlowId>,
    /// Flows that got another hash after the loss of a full window, each time counted.
    pub rehashes: u64,
}

/// What a run on real sockets knows besides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabRecord {
    /// What the rates of links were multiplied with.
    pub scale: f64,
    /// The part of the run that the machine's processors were idle.
    pub cpu_idle_fraction: Option<f64>,
    /// The longest wait of one of its programs for a processor; `None` if the kernel does not count it.
    pub longest_wait: Option<CpuWait>,
    /// Processor time of the sending and receiving process, and of the kernel on its behalf, in seconds.
    pub cpu_s: f64,
    /// By flow.
    pub tcp: Vec<TcpRecord>,
    /// What failed, ended, moved and returned, in order of time, and what flows noticed of it.
    pub faults: Vec<FaultRecord>,
    /// Flows whose connection ended before they did.
    pub broken: usize,
    /// Packets that an overlay's agents dropped because their sender may not reach their receiver, or had no right to its address; `None` without an overlay.
    pub isolation_drops: Option<u64>,
    /// Of tenants' bridges; `None` where switches route.
    pub bridges: Option<BridgeTotals>,
    /// Of all tenants that forged frames; `None` if none did.
    pub forged: Option<Forged>,
}

/// A wait of a program that could run, for a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuWait {
    /// Its name, such as `bfdd`.
    pub program: String,
    /// The node of the lab in whose namespace it runs; empty for `weft` itself and for the kernel's threads.
    pub node: String,
    /// How long.
    pub length: Duration,
}

/// What became of frames that a tenant forged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forged {
    /// Frames sent.
    pub sent: u64,
    /// Those that VMs of other tenants heard.
    pub heard: u64,
    /// Those that VMs of the same tenant heard, of which they are payload.
    pub carried: u64,
    /// Those that were to be refused, and that no agent has counted.
    pub uncounted: u64,
}

/// What bridges between tenants' servers have learnt and flooded, and what the servers know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeTotals {
    /// VMs of all tenants.
    pub vms: u64,
    /// SPAIN's VLANs.
    pub vlans: u64,
    /// Servers that were asked.
    pub hosts: u64,
    /// The most addresses that a switch had learnt at the end.
    pub fib_most: u64,
    /// Addresses that made room for others.
    pub evictions: u64,
    /// Frames to addresses that a switch did not know.
    pub misses: u64,
    /// New addresses that came too fast to be learnt.
    pub unlearnt: u64,
    /// Frames that servers received for others.
    pub for_others: u64,
    /// The most VIFs whose places a server knew at the end, its own among them.
    pub known_most: u64,
    /// Questions where a VIF is.
    pub lookups: u64,
    /// Transfers that their receivers did not take.
    pub refused: u64,
}

impl Forged {
    /// Adds those of another time.
    pub const fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.heard += other.heard;
        self.carried += other.carried;
        self.uncounted += other.uncounted;
    }
}

impl BridgeTotals {
    /// What was counted since an earlier reading of the same counters.
    #[must_use]
    pub const fn since(mut self, before: &Self) -> Self {
        self.evictions = self.evictions.saturating_sub(before.evictions);
        self.misses = self.misses.saturating_sub(before.misses);
        self.unlearnt = self.unlearnt.saturating_sub(before.unlearnt);
        self.for_others = self.for_others.saturating_sub(before.for_others);
        self.lookups = self.lookups.saturating_sub(before.lookups);
        self
    }
}

/// What flows noticed of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRecord {
    /// When.
    pub at: Instant,
    /// What: `kill`.
    pub verb: &'static str,
    /// To whom: `agent h0`.
    pub object: String,
    /// Flows that had moved before and went on, and that it could touch: of a host or a ToR those of its hosts, of all else all.
    pub flows: usize,
    /// The longest time, from the event on, that one of them received nothing, if that began before the next event; `None` if there were none.
    pub silent: Option<Duration>,
    /// The same of small datagrams that are sent all the time, which wait for nothing after an outage; `None` where there are none.
    pub gap: Option<Duration>,
}

impl FaultRecord {
    /// The kind of what it happened to: `agent`.
    pub fn kind(&self) -> &str {
        self.object.split(' ').next().unwrap_or_default()
    }
}

/// What a kernel said of a flow's sender at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpRecord {
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Smoothed round trip in seconds; 0 before the first.
    pub srtt_s: f64,
    /// The least round trip.
    pub min_rtt_s: f64,
}

/// Totals of the packet world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketTotals {
    /// Packets sent over links.
    pub hops: u64,
    /// Packets lost: at full queues, on links that failed, and where there was no route.
    pub drops: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Segments that arrived after a later one without having been sent again, and segments delivered; 0 where they are not counted.
    pub reordered: u64,
    /// See `reordered`.
    pub segments: u64,
    /// Retransmission timeouts, and how long flows waited for them together; timers that run at the end count for their part.
    pub timeouts: u64,
    /// See `timeouts`.
    pub timed_out: Duration,
    /// Requests and responses, if that is the load.
    pub requests: Option<RequestTotals>,
    /// Links that lost packets because they were down, ascending, and when they last did.
    pub lost: Vec<(LinkId, Instant)>,
    /// How many packets each of these lost for that, among its drops; empty where they are not counted.
    pub lost_packets: Vec<u64>,
}

/// What became of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestTotals {
    /// Responses that arrived, to requests sent in the window of the aggregates.
    pub answered: u64,
    /// Requests sent in that window.
    pub sent: u64,
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Mean time from a request to its response, in seconds.
    pub mean_s: f64,
    /// Median of the same.
    pub p50_s: f64,
    /// 99th percentile of the same.
    pub p99_s: f64,
}

/// A queue at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// When.
    pub at: Instant,
    /// The link before which it stands.
    pub link: LinkId,
    /// Bytes that have not left yet.
    pub bytes: Bytes,
    /// Packets dropped here so far.
    pub drops: u64,
}

/// The sending end of a flow at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSample {
    /// When.
    pub at: Instant,
    /// The flow.
    pub flow: FlowId,
    /// Its subflow; 0 where there is one.
    pub subflow: u32,
    /// Congestion window in segments.
    pub segments: u32,
    /// Smoothed round-trip time in picoseconds; 0 before the first measurement.
    pub srtt_ps: u64,
}

/// What the packet world was asked to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traced {
    /// Queues, by time, in the order in which they were asked for.
    pub queues: Vec<QueueSample>,
    /// Windows, by time, then in the order in which they were asked for; of flows under way.
    pub windows: Vec<WindowSample>,
    /// A pcap file; empty if no port was captured.
    pub pcap: Vec<u8>,
}

/// What the scheduler did over a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlRecord {
    /// Scheduling rounds.
    pub rounds: u64,
    /// Large flows seen, summed over the rounds.
    pub large_flows: u64,
    /// Changes of a flow's path.
    pub moves: u64,
    /// Detours from rack to rack that were in force, summed over the rounds.
    pub detours: u64,
}
