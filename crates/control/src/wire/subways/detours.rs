//! Messages of detours (Subways section 6).
//!
//! ```text
//!    0        2     3      4            8              16           24       32      40     48     49      50      51        52
//!   +--------+-----+------+------------+--------------+------------+--------+-------+------+------+-------+-------+---------+
//!   |  "WS"  | ver | 0x82 | principal  |   sequence   | generation | number | valid | list | part | parts | paths | permits |  of a scheduler
//!   +--------+-----+------+------------+--------------+------------+--------+-------+------+------+-------+-------+---------+
//!   then each path:      | host 4 | weight 4 | direction 1 | number 1 | NIC 1 | hops 1 | then two hops, unused ones 0: | via 4 | out 1 | 0 0 0 |
//!   then each permit:    | host 4 | kbit/s 4 | direction 1 | receiving NIC 1 | sending NIC 1 | 0 |                               then the tag 16
//!
//!   of a host, kind 3: the head of a report with part 0, parts 1 and count 0,
//!     then               | forwarded packets 8 | bytes 8 | refused packets 8 | packets over their rate 8 |                          then the tag 16
//! ```
//! `sequence`, `generation` and `number` are those of orders; both kinds count `number` together. A `list` is whole with all its parts and replaces the one before: the access
//! paths of hosts that have others than all their NICs by the weights of ToRs, and what the receiver forwards. Without a new list it lapses after `valid`.

use std::net::Ipv4Addr;

use weft_fabric::routing::Direction;

use super::{DETOURS, FIRST_DETOUR, FORWARD, LARGEST, NICS_MAX, PATHS_MAX, Reader, ReportHead, SubwaysError, begin};
use crate::directory::key::PrincipalId;
use crate::time::Duration;
use crate::wire::vl2::placement::{PlacementKey, TAG};

/// Paths in one message, at most.
pub const DETOURS_MAX: usize = 30;
/// Permits in one message, at most.
pub const PERMITS_MAX: usize = 40;
/// Servers that forward at one end of a flow, at most.
pub const HOPS_MAX: usize = 2;
const _: () = assert!(52 + DETOURS_MAX * 28 + PERMITS_MAX * 12 + TAG <= LARGEST);

/// A server on a detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The address of the NIC at which it receives.
    pub via: Ipv4Addr,
    /// The NIC by which it sends on.
    pub out: u8,
}

/// An access path of a host: one of its NICs, or a detour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRecord {
    /// The host, by its first address.
    pub host: Ipv4Addr,
    /// What is left there, in kbit/s.
    pub weight: u32,
    /// Whether flows leave the host by it or arrive.
    pub direction: Direction,
    /// The NIC, or a number of its own from [`FIRST_DETOUR`] on.
    pub number: u8,
    /// The host's NIC.
    pub nic: u8,
    /// Servers in the order in which packets pass them; none: the NIC alone.
    pub hops: Vec<Hop>,
}

/// What a server forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permit {
    /// By first address: the host whose detour it is, or of an arriving one the host to which the packets go next.
    pub host: Ipv4Addr,
    /// See `host`.
    pub direction: Direction,
    /// The NIC at which they arrive.
    pub into: u8,
    /// The NIC by which they are sent on.
    pub out: u8,
    /// The rate, in kbit/s.
    pub rate: u32,
}

/// A part of a list of paths and permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetourOrders {
    /// The host.
    pub principal: PrincipalId,
    /// Of the report that they are made from.
    pub sequence: u64,
    /// The scheduler's.
    pub generation: u64,
    /// Grows from one message of a generation to this agent to the next.
    pub number: u64,
    /// How long the list holds.
    pub valid: Duration,
    /// Of all parts the same; grows.
    pub list: u64,
    /// From 0.
    pub part: u8,
    /// How many there are, at least one.
    pub parts: u8,
    /// At most [`DETOURS_MAX`].
    pub paths: Vec<AccessRecord>,
    /// At most [`PERMITS_MAX`].
    pub permits: Vec<Permit>,
}

/// What a server has forwarded, since it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets that it has no permit for.
    pub refused: u64,
    /// Packets beyond the rate of their permit.
    pub over_rate: u64,
}

/// A host takes part in detours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardReport {
    /// What all reports begin with.
    pub head: ReportHead,
    /// What it has forwarded.
    pub forwarded: Forwarded,
}

impl DetourOrders {
    /// The datagram.
    pub fn emit(&self, key: &PlacementKey) -> Vec<u8> {
        debug_assert!(self.paths.len() <= DETOURS_MAX && self.permits.len() <= PERMITS_MAX);
        let mut out = begin(DETOURS, self.principal, self.sequence);
        for number in [self.generation, self.number, self.valid.as_ns(), self.list] {
            out.extend(number.to_be_bytes());
        }
        out.extend([self.part, self.parts, self.paths.len() as u8, self.permits.len() as u8]);
        self.paths.iter().for_each(|path| path.emit(&mut out));
        for permit in &self.permits {
            out.extend(permit.host.octets());
            out.extend(permit.rate.to_be_bytes());
            out.extend([permit.direction as u8, permit.into, permit.out, 0]);
        }
        key.seal(out)
    }
}

impl AccessRecord {
    fn emit(&self, out: &mut Vec<u8>) {
        debug_assert!(self.hops.len() <= HOPS_MAX);
        out.extend(self.host.octets());
        out.extend(self.weight.to_be_bytes());
        out.extend([self.direction as u8, self.number, self.nic, self.hops.len() as u8]);
        for at in 0..HOPS_MAX {
            let hop = self.hops.get(at).copied().unwrap_or(Hop { via: Ipv4Addr::UNSPECIFIED, out: 0 });
            out.extend(hop.via.octets());
            out.extend([hop.out, 0, 0, 0]);
        }
    }
}

impl ForwardReport {
    /// The datagram.
    pub fn emit(&self, key: &PlacementKey) -> Vec<u8> {
        let mut out = self.head.begin(FORWARD, 0);
        let Forwarded { packets, bytes, refused, over_rate } = self.forwarded;
        [packets, bytes, refused, over_rate].iter().for_each(|number| out.extend(number.to_be_bytes()));
        key.seal(out)
    }
}

impl Reader<'_> {
    pub(super) fn detours(&mut self) -> Result<DetourOrders, SubwaysError> {
        let (principal, sequence) = self.whose()?;
        let (generation, number) = (self.number()?, self.number()?);
        let (valid, list) = (self.duration()?, self.number()?);
        let [part, parts, paths, permits] = self.array()?;
        if part >= parts {
            return Err(SubwaysError::Field("part"));
        }
        if usize::from(paths) > DETOURS_MAX || usize::from(permits) > PERMITS_MAX {
            return Err(SubwaysError::Field("count"));
        }
        let paths = (0..paths).map(|_| self.record()).collect::<Result<_, _>>()?;
        let permits = (0..permits).map(|_| self.permit()).collect::<Result<_, _>>()?;
        Ok(DetourOrders { principal, sequence, generation, number, valid, list, part, parts, paths, permits })
    }

    pub(super) fn forward(&mut self) -> Result<ForwardReport, SubwaysError> {
        let (head, _) = self.head(0)?;
        if (head.part, head.parts) != (0, 1) {
            return Err(SubwaysError::Field("part"));
        }
        let mut next = || self.number();
        let forwarded = Forwarded { packets: next()?, bytes: next()?, refused: next()?, over_rate: next()? };
        Ok(ForwardReport { head, forwarded })
    }

    fn record(&mut self) -> Result<AccessRecord, SubwaysError> {
        let (host, weight) = (Ipv4Addr::from(self.array::<4>()?), u32::from_be_bytes(self.array()?));
        let [byte, number, nic, count] = self.array()?;
        let direction = direction(byte)?;
        let mut hops = Vec::with_capacity(HOPS_MAX);
        for at in 0..HOPS_MAX {
            let via = Ipv4Addr::from(self.array::<4>()?);
            let [out, zeros @ ..]: [u8; 4] = self.array()?;
            let is_used = at < usize::from(count);
            if zeros != [0; 3] || usize::from(out) >= NICS_MAX || (!is_used && (out != 0 || !via.is_unspecified())) {
                return Err(SubwaysError::Field("hop"));
            }
            hops.extend(is_used.then_some(Hop { via, out }));
        }
        let is_nic = number == nic && count == 0;
        let is_detour = (FIRST_DETOUR..PATHS_MAX as u8).contains(&number) && (1..=HOPS_MAX).contains(&count.into());
        if usize::from(nic) >= NICS_MAX || !(is_nic || is_detour) {
            return Err(SubwaysError::Field("path"));
        }
        Ok(AccessRecord { host, weight, direction, number, nic, hops })
    }

    fn permit(&mut self) -> Result<Permit, SubwaysError> {
        let (host, rate) = (Ipv4Addr::from(self.array::<4>()?), u32::from_be_bytes(self.array()?));
        let [byte, into, out, zero] = self.array()?;
        if usize::from(into.max(out)) >= NICS_MAX || zero != 0 {
            return Err(SubwaysError::Field("NICs"));
        }
        Ok(Permit { host, direction: direction(byte)?, into, out, rate })
    }
}

fn direction(byte: u8) -> Result<Direction, SubwaysError> {
    match byte {
        0 => Ok(Direction::Out),
        1 => Ok(Direction::In),
        _ => Err(SubwaysError::Field("direction")),
    }
}
