//! Between the agent of a host and the scheduler that places its large flows (Hedera, sections 3 and 4.6; VL2, section 4.2.2), over UDP.
//!
//! ```text
//!    0        2     3      4            8              16         24           32         40       41       42       43          44
//!   +--------+-----+------+------------+--------------+----------+------------+----------+--------+--------+--------+-----------+
//!   |  "WP"  | ver |  1   | principal  |   sequence   |   time   | generation |   loop   |  part  | parts  | flows  | addresses |  report
//!   +--------+-----+------+------------+--------------+----------+------------+----------+--------+--------+--------+-----------+
//!   then each flow:     | source 16 | destination 16 | ports 2, 2 | flags | 0 0 0 | intermediate 4 | entropy 4 | bytes 8 | age 8 |
//!   then each address:  | an intermediate switch that does not answer 4 |                                                 then the tag 16
//!
//!    0        2     3      4            8              16           24         32       40       48      49             52
//!   +--------+-----+------+------------+--------------+------------+----------+--------+--------+-------+--------------+
//!   |  "WP"  | ver | 0x81 | principal  |   sequence   | generation |  number  | every  |  held  | flows |    0 0 0     |  orders
//!   +--------+-----+------+------------+--------------+------------+----------+--------+--------+-------+--------------+
//!   then each flow:     | source 16 | destination 16 | ports 2, 2 | 0 0 0 0 | intermediate 4 | entropy 4 |                  then the tag 16
//! ```
//! Flows are TCP; an IPv4 address is written as `::ffff:a.b.c.d`. The tag is a BLAKE2b of the bytes before it, keyed with the host's *placement key*:
//! made from its principal's key, so that a scheduler that has it can speak to this host and not in its name to the directory.
//!
//! - `sequence` grows from one report to the next; all parts of a report have the same. Orders repeat that of the report that they are made from, so an
//!   agent knows orders that were recorded before it started.
//! - `generation` of the scheduler grows from one start to the next. A report has that of the scheduler that the agent obeys: a scheduler reads no report
//!   made for another, and a report recorded before it started is such a one.
//! - `loop` is the length of the control loop of the last orders, `held` how long the scheduler waited with a report for its round, both in nanoseconds.

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::directory::auth::PrincipalKey;
use crate::directory::key::PrincipalId;
use crate::time::Duration;
use crate::vl2::placement::Placement;
use crate::wire::packet::ip::Flow;

/// The UDP port of schedulers.
pub const PORT: u16 = 5305;
/// The version of this format.
pub const VERSION: u8 = 1;
/// Bytes of the largest message.
pub const LARGEST: usize = REPORT + REPORTED_MAX * REPORTED + ADDRESSES_MAX * ADDRESS + TAG;
/// Flows in one part of a report, at most.
pub const REPORTED_MAX: usize = 19;
/// Addresses in one part of a report, at most.
pub const ADDRESSES_MAX: usize = 16;
/// Flows in one message of orders, at most.
pub const ORDERED_MAX: usize = 25;

const MAGIC: [u8; 2] = *b"WP";
/// Bytes of a message's tag.
pub(crate) const TAG: usize = 16;
const REPORT: usize = 44;
const REPORTED: usize = 64;
const ADDRESS: usize = 4;
const ORDERS: usize = 52;
const ORDERED: usize = 48;
const KIND_REPORT: u8 = 1;
const KIND_ORDERS: u8 = 0x81;
const FLAG_REFUSED: u8 = 1;
const _: () = assert!(ORDERS + ORDERED_MAX * ORDERED + TAG <= LARGEST);
const TCP: u8 = 6;

/// What an agent reports: a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The host.
    pub principal: PrincipalId,
    /// Grows; of all parts the same.
    pub sequence: u64,
    /// When the counters were read, by the agent's clock, which no other clock is compared with.
    pub time: Duration,
    /// The scheduler that it obeys; 0: none yet.
    pub generation: u64,
    /// The length of the last control loop; 0: none since the last report.
    pub loop_length: Duration,
    /// From 0.
    pub part: u8,
    /// How many there are, at least one.
    pub parts: u8,
    /// At most [`REPORTED_MAX`].
    pub flows: Vec<Reported>,
    /// Intermediate switches that do not answer this host, at most [`ADDRESSES_MAX`].
    pub unreachable: Vec<Ipv4Addr>,
}

/// A flow as its host reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The flow.
    pub flow: Flow,
    /// Bytes that it has sent.
    pub bytes: u64,
    /// Since it has sent its first.
    pub age: Duration,
    /// Where it was placed.
    pub placement: Option<Placement>,
    /// The host has taken that placement back, for packets were lost on it.
    pub is_refused: bool,
}

/// What a scheduler answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    /// The host.
    pub principal: PrincipalId,
    /// Of the report that they are made from.
    pub sequence: u64,
    /// The scheduler's.
    pub generation: u64,
    /// Grows from one message of a generation to this host to the next.
    pub number: u64,
    /// From one report to the next.
    pub every: Duration,
    /// How long the report waited for the scheduler's round.
    pub held: Duration,
    /// What is placed where, `None` by the host's own hash; at most [`ORDERED_MAX`].
    pub flows: Vec<(Flow, Option<Placement>)>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Of an agent.
    Report(Report),
    /// Of a scheduler.
    Orders(Orders),
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PlacementError {
    /// Another length than its counts say.
    #[error("{0} bytes, which is not its length")]
    Length(usize),
    /// It does not begin as it should.
    #[error("not a placement message")]
    Magic,
    /// Another version.
    #[error("version {0}; this is version {VERSION}")]
    Version(u8),
    /// A field has a value that it cannot have.
    #[error("bad {0}")]
    Field(&'static str),
}

/// The key with which a host and its scheduler prove to each other who speaks.
#[derive(Clone, PartialEq, Eq)]
pub struct PlacementKey(PrincipalKey);

impl PlacementKey {
    /// From the host's own key.
    pub fn of(key: &PrincipalKey) -> Self {
        Self(key.derive(b"weft placement"))
    }

    /// Reads 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`KeyTextError`](crate::directory::auth::KeyTextError).
    pub fn parse(text: &str) -> Result<Self, crate::directory::auth::KeyTextError> {
        PrincipalKey::parse(text).map(Self)
    }

    /// Appends the tag to a message.
    pub(crate) fn seal(&self, mut message: Vec<u8>) -> Vec<u8> {
        let tag = self.0.tag(&message);
        message.extend(tag);
        message
    }

    /// Whether a message of at least [`TAG`] bytes ends with its tag; takes the same time however much of it is right.
    pub(crate) fn has_sealed(&self, message: &[u8]) -> bool {
        let (covered, tag) = message.split_at(message.len() - TAG);
        let difference = self.0.tag(covered).iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(difference) == 0
    }

    /// The 64 digits that [`PlacementKey::parse`] reads.
    pub fn to_hex(&self) -> String {
        self.0.to_hex()
    }
}

impl fmt::Debug for PlacementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlacementKey")
    }
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
    /// [`PlacementError`] if it is no message of this version.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PlacementError> {
        let Some((covered, _)) = bytes.split_last_chunk::<TAG>() else { return Err(PlacementError::Length(bytes.len())) };
        let mut reader = Reader { left: covered, length: bytes.len() };
        if reader.array()? != MAGIC {
            return Err(PlacementError::Magic);
        }
        let [version, kind] = reader.array()?;
        if version != VERSION {
            return Err(PlacementError::Version(version));
        }
        let message = match kind {
            KIND_REPORT => reader.report().map(Message::Report)?,
            KIND_ORDERS => reader.orders().map(Message::Orders)?,
            _ => return Err(PlacementError::Field("kind")),
        };
        if !reader.left.is_empty() {
            return Err(PlacementError::Length(bytes.len()));
        }
        Ok(Self { message, bytes })
    }

    /// Whose message it is, or to whom.
    pub const fn principal(&self) -> PrincipalId {
        match &self.message {
            Message::Report(report) => report.principal,
            Message::Orders(orders) => orders.principal,
        }
    }

    /// Whether its sender has the key.
    pub fn is_of(&self, key: &PlacementKey) -> bool {
        key.has_sealed(self.bytes)
    }
}

impl Report {
    /// The datagram.
    pub fn emit(&self, key: &PlacementKey) -> Vec<u8> {
        debug_assert!(self.flows.len() <= REPORTED_MAX && self.unreachable.len() <= ADDRESSES_MAX);
        let mut out = begin(KIND_REPORT, self.principal, self.sequence);
        for number in [self.time.as_ns(), self.generation, self.loop_length.as_ns()] {
            out.extend(number.to_be_bytes());
        }
        out.extend([self.part, self.parts, self.flows.len() as u8, self.unreachable.len() as u8]);
        for reported in &self.flows {
            put_flow(&mut out, &reported.flow);
            out.extend([if reported.is_refused { FLAG_REFUSED } else { 0 }, 0, 0, 0]);
            put_placement(&mut out, reported.placement);
            out.extend(reported.bytes.to_be_bytes());
            out.extend(reported.age.as_ns().to_be_bytes());
        }
        self.unreachable.iter().for_each(|address| out.extend(address.octets()));
        key.seal(out)
    }
}

impl Orders {
    /// The datagram.
    pub fn emit(&self, key: &PlacementKey) -> Vec<u8> {
        debug_assert!(self.flows.len() <= ORDERED_MAX);
        let mut out = begin(KIND_ORDERS, self.principal, self.sequence);
        for number in [self.generation, self.number, self.every.as_ns(), self.held.as_ns()] {
            out.extend(number.to_be_bytes());
        }
        out.extend([self.flows.len() as u8, 0, 0, 0]);
        for (flow, placement) in &self.flows {
            put_flow(&mut out, flow);
            out.extend([0; 4]);
            put_placement(&mut out, *placement);
        }
        key.seal(out)
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

fn put_flow(out: &mut Vec<u8>, flow: &Flow) {
    for address in [flow.source, flow.destination] {
        out.extend(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        });
    }
    out.extend(flow.source_port.to_be_bytes());
    out.extend(flow.destination_port.to_be_bytes());
}

fn put_placement(out: &mut Vec<u8>, placement: Option<Placement>) {
    let Placement { intermediate, entropy } = placement.unwrap_or(Placement { intermediate: Ipv4Addr::UNSPECIFIED, entropy: 0 });
    out.extend(intermediate.octets());
    out.extend(entropy.to_be_bytes());
}

/// The bytes that are left of a message, and the length of all.
struct Reader<'a> {
    left: &'a [u8],
    length: usize,
}

impl Reader<'_> {
    fn report(&mut self) -> Result<Report, PlacementError> {
        let (principal, sequence) = self.whose()?;
        let (time, generation, loop_length) = (self.duration()?, self.number()?, self.duration()?);
        let [part, parts, flows, addresses] = self.array()?;
        if part >= parts {
            return Err(PlacementError::Field("part"));
        }
        if usize::from(flows) > REPORTED_MAX || usize::from(addresses) > ADDRESSES_MAX {
            return Err(PlacementError::Field("count"));
        }
        let flows = (0..flows).map(|_| self.reported()).collect::<Result<_, _>>()?;
        let unreachable = (0..addresses).map(|_| self.array().map(Ipv4Addr::from)).collect::<Result<_, _>>()?;
        Ok(Report { principal, sequence, time, generation, loop_length, part, parts, flows, unreachable })
    }

    fn reported(&mut self) -> Result<Reported, PlacementError> {
        let flow = self.flow()?;
        let is_refused = match self.array()? {
            [0, 0, 0, 0] => false,
            [FLAG_REFUSED, 0, 0, 0] => true,
            _ => return Err(PlacementError::Field("flags")),
        };
        let placement = self.placement()?;
        if is_refused && placement.is_none() {
            return Err(PlacementError::Field("flags"));
        }
        Ok(Reported { flow, bytes: self.number()?, age: self.duration()?, placement, is_refused })
    }

    fn orders(&mut self) -> Result<Orders, PlacementError> {
        let (principal, sequence) = self.whose()?;
        let (generation, number, every, held) = (self.number()?, self.number()?, self.duration()?, self.duration()?);
        let [flows, zeros @ ..]: [u8; 4] = self.array()?;
        if usize::from(flows) > ORDERED_MAX || zeros != [0; 3] {
            return Err(PlacementError::Field("count"));
        }
        let flows = (0..flows).map(|_| self.ordered()).collect::<Result<_, _>>()?;
        Ok(Orders { principal, sequence, generation, number, every, held, flows })
    }

    fn ordered(&mut self) -> Result<(Flow, Option<Placement>), PlacementError> {
        let flow = self.flow()?;
        if self.array()? != [0; 4] {
            return Err(PlacementError::Field("flags"));
        }
        Ok((flow, self.placement()?))
    }

    fn whose(&mut self) -> Result<(PrincipalId, u64), PlacementError> {
        let principal = PrincipalId(u32::from_be_bytes(self.array()?));
        if principal == PrincipalId(0) {
            return Err(PlacementError::Field("principal"));
        }
        Ok((principal, self.number()?))
    }

    fn flow(&mut self) -> Result<Flow, PlacementError> {
        let (source, destination) = (self.address()?, self.address()?);
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(PlacementError::Field("addresses"));
        }
        let (source_port, destination_port) = (u16::from_be_bytes(self.array()?), u16::from_be_bytes(self.array()?));
        Ok(Flow { source, destination, protocol: TCP, source_port, destination_port })
    }

    fn address(&mut self) -> Result<IpAddr, PlacementError> {
        Ok(Ipv6Addr::from(self.array::<16>()?).to_canonical())
    }

    fn placement(&mut self) -> Result<Option<Placement>, PlacementError> {
        let (intermediate, entropy) = (Ipv4Addr::from(self.array::<4>()?), u32::from_be_bytes(self.array()?));
        match (intermediate.is_unspecified(), entropy) {
            (true, 0) => Ok(None),
            (true, _) => Err(PlacementError::Field("placement")),
            (false, entropy) => Ok(Some(Placement { intermediate, entropy })),
        }
    }

    fn number(&mut self) -> Result<u64, PlacementError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn duration(&mut self) -> Result<Duration, PlacementError> {
        self.number().map(Duration::from_ns)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PlacementError> {
        let (first, left) = self.left.split_first_chunk::<N>().ok_or(PlacementError::Length(self.length))?;
        self.left = left;
        Ok(*first)
    }
}
