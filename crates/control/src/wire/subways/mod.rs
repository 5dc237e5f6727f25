//! Subways' hosts and ToRs report to a scheduler, and hosts are ordered how to spread their flows over NICs (Subways section 5.2). UDP, numbers in network order.
//!
//! ```text
//!    0        2     3      4            8              16           24           32     33      34    35  36
//!   +--------+-----+------+------------+--------------+------------+------------+------+-------+-----+---+
//!   |  "WS"  | ver | kind | principal  |   sequence   |    time    | generation | part | parts |count| 0 |  a report
//!   +--------+-----+------+------------+--------------+------------+------------+------+-------+-----+---+
//!   of a host, kind 1:   | loop 8 | NICs that are down 4 (bit i: NIC i) |
//!     then each flow:    | peer 4 | ports 2, 2 | leaving NIC 1 | arriving NIC 1 | 0 0 | bytes 8 |                                 then the tag 16
//!   of a ToR, kind 2:    then each port: | number 2 | is up 1 | 0 | bytes sent 8 | bytes received 8 |                            then the tag 16
//!
//!    0        2     3      4            8              16           24       32      40     48    56    57     58      59  60
//!   +--------+-----+------+------------+--------------+------------+--------+-------+------+-----+------+------+-------+---+
//!   |  "WS"  | ver | 0x81 | principal  |   sequence   | generation | number | every | held | gap | tors | down | moves |1st|  orders
//!   +--------+-----+------+------------+--------------+------------+--------+-------+------+-----+------+------+-------+---+
//!   then each ToR:       | switch 4 | weight out 4 | weight in 4 |
//!   then each NIC down:  | its address 4 |
//!   then each move:      | peer 4 | ports 2, 2 | leaving NIC 1 | arriving NIC 1 | 0 0 |                                          then the tag 16
//! ```
//! The messages of detours are in [`detours`]: only schedulers that have detours send them, and agents answer in kind, so that others of this version need not know them.
//!
//! Flows are TCP over IPv4; a host is named by the address of its first NIC. The tag is that of [placements](crate::wire::vl2::placement): a BLAKE2b of the bytes before
//! it, with the placement key of the host or ToR. `sequence`, `generation`, `number`, `loop` and `held` mean what they mean there. Weights are in kbit/s of what is
//! left of a ToR's uplinks. A round sends a host as many messages as it needs; the first of them, marked, lists all NICs that are down.

mod detours;
#[cfg(test)]
mod tests;

pub use detours::{AccessRecord, DETOURS_MAX, DetourOrders, ForwardReport, Forwarded, HOPS_MAX, Hop, PERMITS_MAX, Permit};

use std::net::Ipv4Addr;

use crate::directory::key::PrincipalId;
use crate::time::Duration;
use crate::wire::vl2::placement::{PlacementKey, TAG};

/// The UDP port of schedulers.
pub const PORT: u16 = 5306;
/// The version of this format.
pub const VERSION: u8 = 1;
/// Flows in one part of a report, at most.
pub const FLOWS_MAX: usize = 60;
/// Ports in one part of a report, at most.
pub const PORTS_MAX: usize = 60;
/// ToRs in one message of orders, at most.
pub const TORS_MAX: usize = 40;
/// NICs that are down in one message of orders, at most.
pub const DOWN_MAX: usize = 100;
/// Moves in one message of orders, at most.
pub const MOVES_MAX: usize = 30;
/// NICs of a host, at most.
pub const NICS_MAX: usize = 8;
/// Of the two numbers of a pair, those from here on are detours of the host, and not its NICs.
pub const FIRST_DETOUR: u8 = NICS_MAX as u8;
/// NICs and detours of a host in one direction, at most.
pub const PATHS_MAX: usize = 16;
/// Bytes of the largest message.
pub const LARGEST: usize = 1400;

const MAGIC: [u8; 2] = *b"WS";
const HOST: u8 = 1;
const TOR: u8 = 2;
const FORWARD: u8 = 3;
const ORDERS: u8 = 0x81;
const DETOURS: u8 = 0x82;
const _: () = assert!(36 + 12 + FLOWS_MAX * 20 + TAG <= LARGEST && 36 + PORTS_MAX * 20 + TAG <= LARGEST);
const _: () = assert!(60 + TORS_MAX * 12 + DOWN_MAX * 4 + MOVES_MAX * 12 + TAG <= LARGEST);

/// A flow of the reporting host: TCP between the first addresses of two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId {
    /// The first address of the other host.
    pub peer: Ipv4Addr,
    /// The port here.
    pub sport: u16,
    /// The port there.
    pub dport: u16,
}

/// The NICs of a flow, as numbers in the order of their hosts' cables; from [`FIRST_DETOUR`] on, the number of a detour of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NicPair {
    /// By which it leaves its source.
    pub out: u8,
    /// By which it reaches its destination.
    pub into: u8,
}

/// What all reports begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportHead {
    /// The host or ToR.
    pub principal: PrincipalId,
    /// Grows; of all parts the same.
    pub sequence: u64,
    /// When counters were read, by the agent's clock.
    pub time: Duration,
    /// The scheduler that it obeys; 0: none yet.
    pub generation: u64,
    /// From 0.
    pub part: u8,
    /// How many there are, at least one.
    pub parts: u8,
}

/// A host's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostReport {
    /// What all reports begin with.
    pub head: ReportHead,
    /// The length of the last control loop; 0: none since the last report.
    pub loop_length: Duration,
    /// Bit i: NIC i is down.
    pub down: u32,
    /// At most [`FLOWS_MAX`]: each with its NICs and what it has sent.
    pub flows: Vec<(FlowId, NicPair, u64)>,
}

/// A ToR's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorReport {
    /// What all reports begin with.
    pub head: ReportHead,
    /// At most [`PORTS_MAX`].
    pub ports: Vec<PortCounter>,
}

/// A port of a ToR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCounter {
    /// Its number in the order of the switch's cables.
    pub port: u16,
    /// Whether it is up.
    pub is_up: bool,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// What a scheduler answers. A ToR heeds only generation, number and `every`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    /// The host or ToR.
    pub principal: PrincipalId,
    /// Of the report that they are made from.
    pub sequence: u64,
    /// The scheduler's.
    pub generation: u64,
    /// Grows from one message of a generation to this agent to the next.
    pub number: u64,
    /// From one report to the next.
    pub every: Duration,
    /// How long the report waited for the scheduler's round.
    pub held: Duration,
    /// A flow moves once it has sent nothing for so long.
    pub gap: Duration,
    /// At most [`TORS_MAX`].
    pub tors: Vec<TorWeight>,
    /// Whether `down` is the whole list: of a round's first message.
    pub is_first: bool,
    /// Addresses of NICs that are down, at most [`DOWN_MAX`].
    pub down: Vec<Ipv4Addr>,
    /// At most [`MOVES_MAX`].
    pub moves: Vec<(FlowId, NicPair)>,
}

/// What is left of a ToR's uplinks, in kbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorWeight {
    /// The switch, by its number in the fabric.
    pub switch: u32,
    /// V: for flows that leave.
    pub out: u32,
    /// E: for flows that arrive.
    pub into: u32,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Of a host.
    Host(HostReport),
    /// Of a ToR.
    Tor(TorReport),
    /// Of a host that takes part in detours.
    Forward(ForwardReport),
    /// Of a scheduler.
    Orders(Orders),
    /// Of a scheduler with detours.
    Detours(DetourOrders),
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SubwaysError {
    /// Another length than its counts say.
    #[error("{0} bytes, which is not its length")]
    Length(usize),
    /// It does not begin as it should.
    #[error("not a message of Subways' agents")]
    Magic,
    /// Another version.
    #[error("version {0}; this is version {VERSION}")]
    Version(u8),
    /// A field has a value that it cannot have.
    #[error("bad {0}")]
    Field(&'static str),
}

/// A message taken apart, its tag not checked yet.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// What it says, if the tag is right.
    pub message: Message,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Takes a datagram apart.
    ///
    /// # Errors
    /// [`SubwaysError`] if it is no message of this version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SubwaysError> {
        let Some((covered, _)) = bytes.split_last_chunk::<TAG>() else { return Err(SubwaysError::Length(bytes.len())) };
        let mut reader = Reader { left: covered, length: bytes.len() };
        if reader.array()? != MAGIC {
            return Err(SubwaysError::Magic);
        }
        let [version, kind] = reader.array()?;
        if version != VERSION {
            return Err(SubwaysError::Version(version));
        }
        let message = match kind {
            HOST => reader.host().map(Message::Host)?,
            TOR => reader.tor().map(Message::Tor)?,
            FORWARD => reader.forward().map(Message::Forward)?,
            ORDERS => reader.orders().map(Message::Orders)?,
            DETOURS => reader.detours().map(Message::Detours)?,
            _ => return Err(SubwaysError::Field("kind")),
        };
        if !reader.left.is_empty() {
            return Err(SubwaysError::Length(bytes.len()));
        }
        Ok(Self { message, bytes })
    }

    /// Whose message it is, or to whom.
    pub const fn principal(&self) -> PrincipalId {
        match &self.message {
            Message::Host(report) => report.head.principal,
            Message::Tor(report) => report.head.principal,
            Message::Forward(report) => report.head.principal,
            Message::Orders(orders) => orders.principal,
            Message::Detours(orders) => orders.principal,
        }
    }

    /// Whether its sender has the key.
    pub fn is_of(&self, key: &PlacementKey) -> bool {
        key.has_sealed(self.bytes)
    }
}

impl HostReport {
    /// The datagram.
    pub fn emit(&self, key: &PlacementKey) -> Vec<u8> {
        debug_assert!(self.flows.len() <= FLOWS_MAX);
        let mut out = self.head.begin(HOST, self.flows.len());
        out.extend(self.loop_length.as_ns().to_be_bytes());
        out.extend(self.down.to_be_bytes());
        for (flow, nics, bytes) in &self.flows {
            put_flow(&mut out, flow, *nics);
            out.extend(bytes.to_be_bytes());
        }
        key.seal(out)
    }
}

impl TorReport {
    /// The datagram.
    pub fn emit(&self, key: &PlacementKey) -> Vec<u8> {
        debug_assert!(self.ports.len() <= PORTS_MAX);
        let mut out = self.head.begin(TOR, self.ports.len());
        for port in &self.ports {
            out.extend(port.port.to_be_bytes());
            out.extend([u8::from(port.is_up), 0]);
            out.extend(port.sent.to_be_bytes());
            out.extend(port.received.to_be_bytes());
        }
        key.seal(out)
    }
}

impl Orders {
    /// The datagram.
    pub fn emit(&self, key: &PlacementKey) -> Vec<u8> {
        debug_assert!(self.tors.len() <= TORS_MAX && self.down.len() <= DOWN_MAX && self.moves.len() <= MOVES_MAX);
        let mut out = begin(ORDERS, self.principal, self.sequence);
        for number in [self.generation, self.number, self.every.as_ns(), self.held.as_ns(), self.gap.as_ns()] {
            out.extend(number.to_be_bytes());
        }
        out.extend([self.tors.len() as u8, self.down.len() as u8, self.moves.len() as u8, u8::from(self.is_first)]);
        for tor in &self.tors {
            [tor.switch, tor.out, tor.into].iter().for_each(|number| out.extend(number.to_be_bytes()));
        }
        self.down.iter().for_each(|address| out.extend(address.octets()));
        self.moves.iter().for_each(|(flow, nics)| put_flow(&mut out, flow, *nics));
        key.seal(out)
    }
}

impl ReportHead {
    fn begin(&self, kind: u8, count: usize) -> Vec<u8> {
        let mut out = begin(kind, self.principal, self.sequence);
        out.extend(self.time.as_ns().to_be_bytes());
        out.extend(self.generation.to_be_bytes());
        out.extend([self.part, self.parts, count as u8, 0]);
        out
    }
}

fn begin(kind: u8, principal: PrincipalId, sequence: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(LARGEST);
    out.extend(MAGIC);
    out.extend([VERSION, kind]);
    out.extend(principal.0.to_be_bytes());
    out.extend(sequence.to_be_bytes());
    out
}

fn put_flow(out: &mut Vec<u8>, flow: &FlowId, nics: NicPair) {
    out.extend(flow.peer.octets());
    out.extend(flow.sport.to_be_bytes());
    out.extend(flow.dport.to_be_bytes());
    out.extend([nics.out, nics.into, 0, 0]);
}

/// The bytes that are left of a message, and the length of all.
struct Reader<'a> {
    left: &'a [u8],
    length: usize,
}

impl Reader<'_> {
    fn host(&mut self) -> Result<HostReport, SubwaysError> {
        let (head, count) = self.head(FLOWS_MAX)?;
        let (loop_length, down) = (self.duration()?, u32::from_be_bytes(self.array()?));
        if down >> NICS_MAX != 0 {
            return Err(SubwaysError::Field("NICs"));
        }
        let mut flow = || self.flow().and_then(|(flow, nics)| Ok((flow, nics, self.number()?)));
        let flows = (0..count).map(|_| flow()).collect::<Result<_, _>>()?;
        Ok(HostReport { head, loop_length, down, flows })
    }

    fn tor(&mut self) -> Result<TorReport, SubwaysError> {
        let (head, count) = self.head(PORTS_MAX)?;
        let mut port = || -> Result<PortCounter, SubwaysError> {
            let port = u16::from_be_bytes(self.array()?);
            let is_up = match self.array()? {
                [0, 0] => false,
                [1, 0] => true,
                _ => return Err(SubwaysError::Field("state")),
            };
            Ok(PortCounter { port, is_up, sent: self.number()?, received: self.number()? })
        };
        let ports = (0..count).map(|_| port()).collect::<Result<_, _>>()?;
        Ok(TorReport { head, ports })
    }

    fn head(&mut self, most: usize) -> Result<(ReportHead, usize), SubwaysError> {
        let (principal, sequence) = self.whose()?;
        let (time, generation) = (self.duration()?, self.number()?);
        let [part, parts, count, zero] = self.array()?;
        if part >= parts {
            return Err(SubwaysError::Field("part"));
        }
        if usize::from(count) > most || zero != 0 {
            return Err(SubwaysError::Field("count"));
        }
        Ok((ReportHead { principal, sequence, time, generation, part, parts }, count.into()))
    }

    fn orders(&mut self) -> Result<Orders, SubwaysError> {
        let (principal, sequence) = self.whose()?;
        let (generation, number) = (self.number()?, self.number()?);
        let (every, held, gap) = (self.duration()?, self.duration()?, self.duration()?);
        let [tors, down, moves, first] = self.array()?;
        let fits = usize::from(tors) <= TORS_MAX && usize::from(down) <= DOWN_MAX && usize::from(moves) <= MOVES_MAX;
        if !fits || first > 1 || (first == 0 && down > 0) {
            return Err(SubwaysError::Field("count"));
        }
        let mut word = || self.array().map(u32::from_be_bytes);
        let mut tor = || Ok(TorWeight { switch: word()?, out: word()?, into: word()? });
        let tors = (0..tors).map(|_| tor()).collect::<Result<_, _>>()?;
        let down = (0..down).map(|_| self.array::<4>().map(Ipv4Addr::from)).collect::<Result<_, _>>()?;
        let moves = (0..moves).map(|_| self.flow()).collect::<Result<_, _>>()?;
        Ok(Orders { principal, sequence, generation, number, every, held, gap, tors, is_first: first == 1, down, moves })
    }

    fn whose(&mut self) -> Result<(PrincipalId, u64), SubwaysError> {
        let principal = PrincipalId(u32::from_be_bytes(self.array()?));
        if principal == PrincipalId(0) {
            return Err(SubwaysError::Field("principal"));
        }
        Ok((principal, self.number()?))
    }

    fn flow(&mut self) -> Result<(FlowId, NicPair), SubwaysError> {
        let peer = Ipv4Addr::from(self.array::<4>()?);
        let (sport, dport) = (u16::from_be_bytes(self.array()?), u16::from_be_bytes(self.array()?));
        let [out, into, zeros @ ..]: [u8; 4] = self.array()?;
        if usize::from(out.max(into)) >= PATHS_MAX || zeros != [0; 2] {
            return Err(SubwaysError::Field("NICs"));
        }
        Ok((FlowId { peer, sport, dport }, NicPair { out, into }))
    }

    fn number(&mut self) -> Result<u64, SubwaysError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn duration(&mut self) -> Result<Duration, SubwaysError> {
        self.number().map(Duration::from_ns)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SubwaysError> {
        let (first, left) = self.left.split_first_chunk::<N>().ok_or(SubwaysError::Length(self.length))?;
        self.left = left;
        Ok(*first)
    }
}
