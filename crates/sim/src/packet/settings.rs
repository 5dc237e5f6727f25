//! Settings of the packet world, and the engine that they mean on a fabric.

use weft_fabric::topology::Link;
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, LinkId, NodeId};

use super::buffers::{Alpha, Buffers, LEAST_PACKETS, share_of};
use super::capture::Trace;
use super::model::Engine;
use super::net::{Extras, Net, Sizes};
use super::ports::{Ports, Queue, QueueRule, QueueSize};
use super::requests::{Load, Requests};
use super::shapers::Shapers;
pub use super::tcp::Recovery;
use super::tcp::{Congestion, Tcp};
use super::team::{self, Team};
use crate::world::Overlay;

/// How ends send.
#[derive(Clone, Debug, PartialEq)]
pub struct Transport {
    /// Congestion control.
    pub kind: TransportKind,
    /// How losses are found and repaired.
    pub recovery: Recovery,
    /// Whether a window is spread over the round trip instead of being sent at once.
    pub pacing: bool,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// All else of a packet on the wire, and all of one without payload: 40 B are IPv4 and TCP.
    pub header: Bytes,
    /// Segments that may be sent before the first acknowledgement: 10 (RFC 6928).
    pub initial_window: u32,
    /// The receiver's window; `None`: as large as it takes.
    pub max_window: Option<Bytes>,
    /// The least retransmission timeout: 200 ms in Linux (Hedera section 6.2).
    pub rto_min: Duration,
    /// The timeout before the first measurement, and so of the SYN: 1 s (RFC 6298).
    pub rto_initial: Duration,
    /// The longest time that an acknowledgement waits for a second segment; `None`: none waits.
    pub delayed_ack: Option<Duration>,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// RFC 5681 and 6582.
    NewReno,
    /// RFC 8257. Needs marks.
    Dctcp,
    /// Several NewReno subflows with linked increases (RFC 6356).
    Mptcp {
        /// Subflows of a flow, each with a path of its own: 2 to 16.
        subflows: u32,
    },
    /// RFC 9438.
    Cubic,
}

impl Default for Transport {
    fn default() -> Self {
        Self {
            kind: TransportKind::NewReno,
            recovery: Recovery::NewReno,
            pacing: false,
            mss: Bytes(1460),
            header: Bytes(40),
            initial_window: 10,
            max_window: None,
            rto_min: Duration::from_ms(200),
            rto_initial: Duration::from_secs(1),
            delayed_ack: None,
        }
    }
}

/// How much the ports of a switch hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SwitchQueue {
    /// Each port so many bytes.
    Fixed(Bytes),
    /// Each port its link's rate times the round trip of the longest path, at least 10 full packets.
    BandwidthDelay,
    /// All ports of a switch share a buffer: a port holds up to `alpha` times what is free of it.
    Shared {
        /// Its size; `None`: by the ports' rates, as in switches on the market.
        buffer: Option<Bytes>,
        /// Above 0.
        alpha: f64,
    },
}

impl Default for SwitchQueue {
    /// A shared buffer as large as in switches on the market, and an alpha of 1.
    fn default() -> Self {
        Self::Shared { buffer: None, alpha: 1.0 }
    }
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketConfig {
    /// How ends send.
    pub transport: Transport,
    /// How much the ports of switches hold.
    pub switch_queue: SwitchQueue,
    /// The same at a host's NIC, which then drops what does not fit; `None`: the NIC applies back-pressure, and drops only packets that a
    /// server forwards for others, beyond 1,000 full packets as in Linux.
    pub nic_queue: Option<Bytes>,
    /// Beyond so many waiting bytes a switch marks packets; `None`: none are marked, but DCTCP has a quarter of the queue.
    pub ecn_threshold: Option<Bytes>,
    /// What a NIC reaches of its rate in each direction, while it sends and receives: 1, or less for hosts that do not keep up.
    pub nic_duplex: f64,
    /// The longest that a host takes to hand a packet to its NIC, uniform from 0, in order; `None`: as long as the NIC takes to send
    /// a full one. Without any, drop-tail queues fall into step with some flows and starve others (Floyd and Jacobson, "On traffic
    /// phase effects in packet-switched gateways"). Unless it is 0, a packet that fits a queue in part is accepted with the probability
    /// of that part, for the same reason: a queue may hold up to a packet more than its size.
    pub host_jitter: Option<Duration>,
    /// What a switch takes to forward a packet.
    pub hop_delay: Duration,
    /// What a detoured packet carries in addition for each server that forwards it.
    pub detour_header: Bytes,
    /// Requests instead of TCP.
    pub requests: Option<Requests>,
    /// What to record.
    pub trace: Trace,
    /// Cores that the run may use; the result is the same.
    pub threads: usize,
    /// The run ends here, or when all flows have ended.
    pub duration: Duration,
    /// From a failure until the switches' routes avoid it.
    pub reconverge: Duration,
    /// From a repair until the switches' routes use it again.
    pub restore_delay: Duration,
    /// The most samples of link utilisation over the run, up to 1,000; 0 for none.
    pub link_samples: usize,
    /// VL2's agents, if hosts have them. They re-hash flows of one connection; those of MPTCP keep their paths.
    pub overlay: Overlay,
}

impl Default for PacketConfig {
    fn default() -> Self {
        Self {
            transport: Transport::default(),
            switch_queue: SwitchQueue::default(),
            nic_queue: None,
            ecn_threshold: None,
            nic_duplex: 1.0,
            host_jitter: None,
            hop_delay: Duration::ZERO,
            detour_header: Bytes(20),
            requests: None,
            trace: Trace::default(),
            threads: 1,
            duration: Duration::MAX,
            reconverge: Duration::from_ms(100),
            restore_delay: Duration::ZERO,
            link_samples: 1_000,
            overlay: Overlay::default(),
        }
    }
}

/// A setting that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PacketError {
    #[error("a packet of {packet} does not fit: a packet has at most {MAX_PACKET}")]
    PacketTooLarge { packet: Bytes },
    #[error("a segment carries nothing: `mss` must be 1 B or more")]
    NoPayload,
    #[error("a packet has no header: `header` must be 1 B or more")]
    NoHeader,
    #[error("a queue of {queue} never holds a packet of {packet}")]
    QueueTooSmall { queue: Bytes, packet: Bytes },
    #[error("a window of {window} never holds a segment of {mss}")]
    WindowTooSmall { window: Bytes, mss: Bytes },
    #[error("`initial_window` is 0: nothing would ever be sent")]
    NoWindow,
    #[error("MPTCP has from 2 to {MAX_SUBFLOWS} subflows, not {0}")]
    Subflows(u32),
    #[error("the least retransmission timeout is 0")]
    NoTimeout,
    #[error("an alpha is from {LEAST_ALPHA} to {MAX_ALPHA}, less only with a `switch_buffer`, not {0}")]
    Alpha(String),
    #[error("a NIC reaches a part of its rate, above 0 and at most 1, not {0}")]
    Duplex(String),
}

impl PacketConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first that means nothing.
    pub fn check(&self) -> Result<(), PacketError> {
        let Transport { mss, header, initial_window, max_window, rto_min, kind, .. } = self.transport;
        if mss.0 == 0 {
            return Err(PacketError::NoPayload);
        }
        if header.0 == 0 {
            return Err(PacketError::NoHeader);
        }
        let packet = self.full_packet();
        if packet > MAX_PACKET {
            return Err(PacketError::PacketTooLarge { packet });
        }
        let switch_queue = match self.switch_queue {
            SwitchQueue::Fixed(size) => Some(size),
            SwitchQueue::Shared { buffer, alpha }
                if !(alpha > 0.0 && alpha <= MAX_ALPHA && (buffer.is_some() || alpha >= LEAST_ALPHA)) =>
            {
                return Err(PacketError::Alpha(alpha.to_string()));
            }
            SwitchQueue::Shared { buffer: Some(size), alpha } => Some(most_of_buffer(size, alpha)),
            SwitchQueue::Shared { buffer: None, .. } | SwitchQueue::BandwidthDelay => None,
        };
        for queue in [switch_queue, self.nic_queue].into_iter().flatten() {
            if queue < packet {
                return Err(PacketError::QueueTooSmall { queue, packet });
            }
        }
        if let Some(window) = max_window.filter(|w| w.0 < mss.0) {
            return Err(PacketError::WindowTooSmall { window, mss });
        }
        if initial_window == 0 {
            return Err(PacketError::NoWindow);
        }
        if rto_min == Duration::ZERO {
            return Err(PacketError::NoTimeout);
        }
        if !(self.nic_duplex > 0.0 && self.nic_duplex <= 1.0) {
            return Err(PacketError::Duplex(self.nic_duplex.to_string()));
        }
        match kind {
            TransportKind::Mptcp { subflows } if !(2..=MAX_SUBFLOWS).contains(&subflows) => Err(PacketError::Subflows(subflows)),
            _ => Ok(()),
        }
    }

    /// The smallest queue of a switch's port on a fabric, and so many full packets that is.
    pub fn least_switch_queue(&self, fabric: &Fabric) -> Option<(Bytes, u64)> {
        let round_trip = longest_path(fabric, self.hop_delay) * 2;
        let packet = Bytes(self.transport.mss.0 + self.transport.header.0);
        let of_switches =
            (0..fabric.links().len()).map(LinkId::from).filter(|&l| fabric.as_switch(fabric.link(l).from).is_some());
        let least = of_switches.map(|link| self.queue(fabric, link, round_trip, packet).size).min()?;
        Some((least, least.0 / packet.0))
    }

    /// The largest packet there is, with its headers for detours.
    fn full_packet(&self) -> Bytes {
        let Transport { mss, header, recovery, .. } = self.transport;
        // An acknowledgement's blocks may be longer than a segment.
        let blocks = if recovery == Recovery::NewReno { 0 } else { MAX_OPTION };
        let datagram = self.requests.as_ref().map_or(0, |r| r.load.response.max(r.load.request).0);
        Bytes(mss.0.max(blocks).saturating_add(header.0).max(datagram).saturating_add(MAX_DETOURS * self.detour_header.0))
    }

    /// The engine for a fabric, in parts if nothing reacts to what happens in them before the run is over. The result does not depend on
    /// the number of parts, but whether flows' ends and lost windows are reported at once or at the end of a window of parts does show in
    /// the samples and in the paths of an overlay that hashes again: so that is decided without looking at the number of threads.
    pub(super) fn engine(&self, fabric: &Fabric, reacts: bool) -> Result<Engine, PacketError> {
        let net = self.net(fabric)?;
        let window = net.ports.look_ahead(net.sizes.header);
        let Trace { queues, windows, port, .. } = &self.trace;
        let shows = !queues.is_empty() || !windows.is_empty() || port.is_some();
        let special = self.requests.is_some() || shows || net.subflows > 1;
        if reacts || special || window < LEAST_WINDOW {
            return Ok(Engine::One(Box::new(net)));
        }
        let parts = self.threads.clamp(1, MAX_PARTS).min(fabric.racks().len());
        let part = team::divide(fabric, parts);
        let mut nets = vec![net];
        while nets.len() < parts {
            nets.push(self.net(fabric)?);
        }
        for (own, net) in nets.iter_mut().enumerate() {
            net.join(fabric, &part, own as u8, parts);
        }
        Ok(Engine::Team(Team::new(nets, window), part))
    }

    /// One engine for a fabric.
    pub(super) fn net(&self, fabric: &Fabric) -> Result<Net, PacketError> {
        self.check()?;
        let transport = &self.transport;
        let round_trip = longest_path(fabric, self.hop_delay) * 2;
        let packet = Bytes(transport.mss.0 + transport.header.0);
        let ports = self.ports(fabric, round_trip, packet);
        let sizes =
            Sizes { mss: transport.mss.0 as u16, header: transport.header.0 as u16, detour_header: self.detour_header.0 as u16 };
        let subflows = if let TransportKind::Mptcp { subflows } = transport.kind { subflows } else { 1 };
        let rehashes = self.overlay.rehash && subflows == 1;
        let extras = Extras { subflows, rehashes, load: self.requests.clone().map(Load::new), trace: self.trace.clone() };
        let shapers = Shapers::new(self.queue_rule(round_trip, packet));
        Ok(Net::new(fabric, ports, shapers, self.tcp(), sizes, extras))
    }

    /// The ports of a fabric.
    pub(super) fn ports(&self, fabric: &Fabric, round_trip: Duration, packet: Bytes) -> Ports {
        let buffers = self.buffer_sizes(fabric, packet).map(|(sizes, alpha)| {
            let rate = |link| fabric.as_switch(fabric.link(link).from).is_some().then(|| self.rate(fabric, link));
            Buffers::new(fabric, &sizes, Alpha::new(alpha), rate)
        });
        Ports::new(fabric, self.hop_delay, buffers, |link| self.queue(fabric, link, round_trip, packet))
    }

    /// By node: the buffer that its ports share, with alpha; `None` if ports have queues of their own.
    pub(super) fn buffer_sizes(&self, fabric: &Fabric, packet: Bytes) -> Option<(Vec<Bytes>, f64)> {
        let SwitchQueue::Shared { alpha, .. } = self.switch_queue else { return None };
        let nodes = (0..fabric.nodes().len() as u32).map(NodeId);
        Some((nodes.map(|node| self.buffer_of(fabric, node, packet)).collect(), alpha))
    }

    /// The buffer that a node's ports share.
    fn buffer_of(&self, fabric: &Fabric, node: NodeId, packet: Bytes) -> Bytes {
        match self.switch_queue {
            SwitchQueue::Shared { buffer: Some(size), .. } => size,
            _ => Bytes(fabric.out(node).iter().map(|&l| share_of(fabric.link(l).capacity, packet).0).sum()),
        }
    }

    /// What a link sends: NICs may not reach their rate.
    fn rate(&self, fabric: &Fabric, link: LinkId) -> BitsPerSec {
        let Link { from, to, capacity, .. } = *fabric.link(link);
        let at_host = [from, to].iter().any(|&n| fabric.as_host(n).is_some());
        if at_host && self.nic_duplex < 1.0 { BitsPerSec((capacity.as_f64() * self.nic_duplex) as u64) } else { capacity }
    }

    /// The queue before a link.
    pub(super) fn queue(&self, fabric: &Fabric, link: LinkId, round_trip: Duration, packet: Bytes) -> Queue {
        let from = fabric.link(link).from;
        let rate = self.rate(fabric, link);
        let dithers = self.host_jitter != Some(Duration::ZERO);
        if fabric.as_host(from).is_some() {
            let jitter = self.host_jitter.unwrap_or(rate.time_to_send(packet));
            let size = self.nic_queue.unwrap_or(Bytes(packet.0 * NIC_PACKETS));
            let room = self.nic_queue.is_none().then_some(Bytes(packet.0 * NIC_ROOM));
            return Queue { rate, size, shared: false, mark: None, room, jitter, dithers };
        }
        let (size, mark) = self.queue_rule(round_trip, packet).queue(rate);
        let (size, mark, shared) = match self.switch_queue {
            SwitchQueue::Shared { alpha, .. } => {
                let most = most_of_buffer(self.buffer_of(fabric, from, packet), alpha);
                // A port that never holds as much would never mark.
                let mark = self.ecn_threshold.or(mark.map(|mark| mark.min(Bytes(most.0 / 2))));
                (most, mark, true)
            }
            SwitchQueue::Fixed(_) | SwitchQueue::BandwidthDelay => (size, mark, false),
        };
        Queue { rate, size, shared, mark, room: None, jitter: Duration::ZERO, dithers }
    }

    /// The queues of switches and shapers.
    fn queue_rule(&self, round_trip: Duration, packet: Bytes) -> QueueRule {
        QueueRule {
            size: match self.switch_queue {
                SwitchQueue::Fixed(size) => QueueSize::Fixed(size),
                SwitchQueue::BandwidthDelay => QueueSize::BandwidthDelay(round_trip, Bytes(packet.0 * LEAST_PACKETS)),
                SwitchQueue::Shared { .. } => QueueSize::Share(packet),
            },
            mark: self.ecn_threshold,
            marks: self.transport.kind == TransportKind::Dctcp,
        }
    }

    /// What TCP's ends want to know.
    pub(super) fn tcp(&self) -> Tcp {
        let transport = &self.transport;
        let congestion = match transport.kind {
            TransportKind::NewReno => Congestion::NewReno,
            TransportKind::Dctcp => Congestion::Dctcp,
            TransportKind::Mptcp { .. } => Congestion::Linked,
            TransportKind::Cubic => Congestion::Cubic,
        };
        let window = transport.max_window.map_or(u64::MAX, |w| w.0 / transport.mss.0);
        Tcp {
            congestion,
            recovery: transport.recovery,
            pacing: transport.pacing,
            initial_window: transport.initial_window,
            max_window: u32::try_from(window).unwrap_or(u32::MAX),
            rto_min: transport.rto_min.as_ps(),
            rto_max: Tcp::default().rto_max.max(transport.rto_min.as_ps()),
            rto_initial: transport.rto_initial.max(transport.rto_min).as_ps(),
            ecn: self.ecn_threshold.is_some() || congestion == Congestion::Dctcp,
            delayed_ack: transport.delayed_ack.map(Duration::as_ps),
        }
    }
}

/// Propagation and forwarding along the longest of the shortest paths, found by two sweeps: from the first host to the farthest node, and
/// from there. Exact on trees, and on the regular fabrics.
pub(super) fn longest_path(fabric: &Fabric, hop_delay: Duration) -> Duration {
    let (far, _) = farthest(fabric, NodeId(0), hop_delay);
    farthest(fabric, far, hop_delay).1
}

fn farthest(fabric: &Fabric, from: NodeId, hop_delay: Duration) -> (NodeId, Duration) {
    let mut distance = vec![u64::MAX; fabric.nodes().len()];
    let mut open = std::collections::BinaryHeap::from([std::cmp::Reverse((0u64, from.0))]);
    distance[from.index()] = 0;
    while let Some(std::cmp::Reverse((here, node))) = open.pop() {
        if here > distance[node as usize] {
            continue;
        }
        for &link in fabric.out(NodeId(node)) {
            let link = fabric.link(link);
            let forwarding = if fabric.as_switch(link.to).is_some() { hop_delay.as_ps() } else { 0 };
            let there = here.saturating_add(link.delay.as_ps()).saturating_add(forwarding);
            // Hosts do not forward.
            if there < distance[link.to.index()] {
                distance[link.to.index()] = there;
                if fabric.as_host(link.to).is_none() {
                    open.push(std::cmp::Reverse((there, link.to.0)));
                }
            }
        }
    }
    let hosts = fabric.hosts().map(|h| h.node());
    let far = hosts.max_by_key(|h| (distance[h.index()], std::cmp::Reverse(h.0))).expect("a fabric has hosts");
    (far, Duration::from_ps(distance[far.index()]))
}

/// The most that a port holds of a buffer of this size: all other queues are empty, and it has taken alpha of alpha + 1 parts.
fn most_of_buffer(size: Bytes, alpha: f64) -> Bytes {
    Bytes((size.0 as f64 * (alpha / (1.0 + alpha))) as u64)
}

/// The smallest alpha for buffers by the ports' rates: each port adds 10 packets at least, and so holds one.
const LEAST_ALPHA: f64 = 0.0625;
/// The largest alpha.
const MAX_ALPHA: f64 = 65_536.0;
/// The largest packet.
pub const MAX_PACKET: Bytes = Bytes(65_535);
/// The most subflows of MPTCP.
pub const MAX_SUBFLOWS: u32 = 16;
/// The longest TCP option: 4 blocks.
const MAX_OPTION: u64 = 36;
/// Servers that may forward a packet.
const MAX_DETOURS: u64 = 8;
/// The shortest look-ahead for which parts run in step: meeting takes about as long as 100 events.
const LEAST_WINDOW: u64 = 100_000;
/// The most parts of a run.
const MAX_PARTS: usize = 64;
/// Linux's `txqueuelen`.
const NIC_PACKETS: u64 = 1_000;
/// Full packets in a NIC with back-pressure beyond which flows wait: more than an initial window, and less than the two bursts of 64 kB
/// that Linux's TCP small queues allow each flow.
const NIC_ROOM: u64 = 16;
