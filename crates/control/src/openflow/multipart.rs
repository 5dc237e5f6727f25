//! Multipart messages: what a controller reads of a switch, whose answer may take several messages (1.3.5 and 1.5.1, section 7.3.5).
//!
//! ```text
//!   type u16 | flags u16 (1: more follow) | 0 u32 | body            types: 0 description, 1 flows, 2 aggregate, 3 tables, 4 ports,
//!                                                                   6 groups, 7 group descriptions, 13 port descriptions
//! ```

use super::Version;
use super::entries::{
    Description, FlowEntry, GroupStats, TableStats, emit_aggregate, emit_group, many, parse_aggregate, parse_group,
};
use super::error::{EmitError, ParseError};
use super::flow::ALL_TABLES;
use super::group::{ALL_GROUPS, Group};
use super::matching::Match;
use super::port::{Port, PortStats};
use super::reader::{Reader, put8, put16, put32, put64, zeros};
use super::statistics::Statistics;

/// What a controller reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MultipartRequest {
    /// Names of the switch.
    Description,
    /// Each flow: in 1.5, OFPMP_FLOW_DESC.
    Flows(FlowFilter),
    /// The sums of all these flows.
    Aggregate(FlowFilter),
    /// The counters of each table.
    Tables,
    /// The counters of a port; None: of all.
    Ports(Option<u32>),
    /// What a port is; None: all. 1.3 has no other choice.
    PortDescriptions(Option<u32>),
    /// The counters of a group; None: of all.
    Groups(Option<u32>),
    /// The buckets of a group; None: of all. 1.3 has no other choice.
    GroupDescriptions(Option<u32>),
    /// Any other request, or a part of one.
    Other {
        /// Its type.
        kind: u16,
        /// Its flags.
        flags: u16,
        /// Its body.
        body: Vec<u8>,
    },
}

/// An answer, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MultipartReply {
    /// Whether another part follows.
    pub more: bool,
    /// What was read.
    pub body: ReplyBody,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplyBody {
    /// Names of the switch.
    Description(Box<Description>),
    /// Flows.
    Flows(Vec<FlowEntry>),
    /// The sums of flows.
    Aggregate(Statistics),
    /// The counters of tables.
    Tables(Vec<TableStats>),
    /// The counters of ports.
    Ports(Vec<PortStats>),
    /// Ports.
    PortDescriptions(Vec<Port>),
    /// The counters of groups.
    Groups(Vec<GroupStats>),
    /// Groups.
    GroupDescriptions(Vec<Group>),
    /// Any other answer.
    Other {
        /// Its type.
        kind: u16,
        /// Its body.
        body: Vec<u8>,
    },
}

/// Which flows to read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowFilter {
    /// In this table, or in [`ALL_TABLES`].
    pub table: u8,
    /// Only flows that send to this port.
    pub out_port: Option<u32>,
    /// Only flows that send to this group.
    pub out_group: Option<u32>,
    /// Only flows with this cookie, in the bits of the mask.
    pub cookie: u64,
    /// The bits of the cookie that count; 0: any cookie.
    pub cookie_mask: u64,
    /// Only flows that match this or less.
    pub matching: Match,
}

const DESCRIPTION: u16 = 0;
const FLOWS: u16 = 1;
const AGGREGATE: u16 = 2;
const TABLES: u16 = 3;
const PORTS: u16 = 4;
const GROUPS: u16 = 6;
const GROUP_DESCRIPTIONS: u16 = 7;
const PORT_DESCRIPTIONS: u16 = 13;
const MORE: u16 = 1;

impl Default for FlowFilter {
    /// Every flow of every table.
    fn default() -> Self {
        Self { table: ALL_TABLES, out_port: None, out_group: None, cookie: 0, cookie_mask: 0, matching: Match::new() }
    }
}

impl MultipartRequest {
    /// The type, which the answer has as well.
    pub const fn kind(&self) -> u16 {
        match self {
            Self::Description => DESCRIPTION,
            Self::Flows(_) => FLOWS,
            Self::Aggregate(_) => AGGREGATE,
            Self::Tables => TABLES,
            Self::Ports(_) => PORTS,
            Self::PortDescriptions(_) => PORT_DESCRIPTIONS,
            Self::Groups(_) => GROUPS,
            Self::GroupDescriptions(_) => GROUP_DESCRIPTIONS,
            Self::Other { kind, .. } => *kind,
        }
    }

    /// Appends the body of the message.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let flags = if let Self::Other { flags, .. } = self { *flags } else { 0 };
        emit_header(self.kind(), flags, out);
        let one = |number: u32, out: &mut Vec<u8>| {
            put32(out, number);
            zeros(out, 4);
        };
        match self {
            Self::Description | Self::Tables => {}
            Self::Flows(filter) | Self::Aggregate(filter) => filter.emit(out)?,
            Self::Ports(port) => one(port.unwrap_or(u32::MAX), out),
            Self::Groups(group) => one(group.unwrap_or(ALL_GROUPS), out),
            Self::PortDescriptions(None) | Self::GroupDescriptions(None) if version == Version::V13 => {}
            Self::PortDescriptions(_) | Self::GroupDescriptions(_) if version == Version::V13 => {
                return Err(EmitError::NotInVersion { version, what: "description of a single port or group" });
            }
            Self::PortDescriptions(port) => one(port.unwrap_or(u32::MAX), out),
            Self::GroupDescriptions(group) => one(group.unwrap_or(ALL_GROUPS), out),
            Self::Other { body, .. } => out.extend_from_slice(body),
        }
        Ok(())
    }

    /// Reads the body of the message.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (kind, flags) = (reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        let one = |reader: &mut Reader<'_>, all: u32| -> Result<Option<u32>, ParseError> {
            let number = reader.u32()?;
            reader.skip(4)?;
            Ok(Some(number).filter(|&it| it != all))
        };
        let raw = flags & MORE != 0;
        Ok(match kind {
            DESCRIPTION if !raw => Self::Description,
            FLOWS if !raw => Self::Flows(FlowFilter::parse(reader)?),
            AGGREGATE if !raw => Self::Aggregate(FlowFilter::parse(reader)?),
            TABLES if !raw => Self::Tables,
            PORTS if !raw => Self::Ports(one(reader, u32::MAX)?),
            GROUPS if !raw => Self::Groups(one(reader, ALL_GROUPS)?),
            PORT_DESCRIPTIONS if !raw && version == Version::V13 => Self::PortDescriptions(None),
            PORT_DESCRIPTIONS if !raw => Self::PortDescriptions(one(reader, u32::MAX)?),
            GROUP_DESCRIPTIONS if !raw && version == Version::V13 => Self::GroupDescriptions(None),
            GROUP_DESCRIPTIONS if !raw => Self::GroupDescriptions(one(reader, ALL_GROUPS)?),
            _ => Self::Other { kind, flags, body: reader.remainder().to_vec() },
        })
    }
}

impl MultipartReply {
    /// The whole answer in one message.
    pub const fn whole(body: ReplyBody) -> Self {
        Self { more: false, body }
    }

    /// Appends the body of the message.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        emit_header(self.body.kind(), if self.more { MORE } else { 0 }, out);
        match &self.body {
            ReplyBody::Description(it) => it.emit(out),
            ReplyBody::Flows(all) => all.iter().try_for_each(|it| it.emit(version, out))?,
            ReplyBody::Aggregate(it) => emit_aggregate(it, version, out)?,
            ReplyBody::Tables(all) => all.iter().for_each(|it| it.emit(out)),
            ReplyBody::Ports(all) => all.iter().try_for_each(|it| it.emit(version, out))?,
            ReplyBody::PortDescriptions(all) => all.iter().try_for_each(|it| it.emit(version, out))?,
            ReplyBody::Groups(all) => all.iter().try_for_each(|it| it.emit(out))?,
            ReplyBody::GroupDescriptions(all) => all.iter().try_for_each(|it| emit_group(it, version, out))?,
            ReplyBody::Other { body, .. } => out.extend_from_slice(body),
        }
        Ok(())
    }

    /// Reads the body of the message.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (kind, flags) = (reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        let body = match kind {
            DESCRIPTION => ReplyBody::Description(Box::new(Description::parse(reader)?)),
            FLOWS => ReplyBody::Flows(many(reader, |reader| FlowEntry::parse(version, reader))?),
            AGGREGATE => ReplyBody::Aggregate(parse_aggregate(version, reader)?),
            TABLES => ReplyBody::Tables(many(reader, TableStats::parse)?),
            PORTS => ReplyBody::Ports(many(reader, |reader| PortStats::parse(version, reader))?),
            PORT_DESCRIPTIONS => ReplyBody::PortDescriptions(many(reader, |reader| Port::parse(version, reader))?),
            GROUPS => ReplyBody::Groups(many(reader, GroupStats::parse)?),
            GROUP_DESCRIPTIONS => ReplyBody::GroupDescriptions(many(reader, |reader| parse_group(version, reader))?),
            _ => ReplyBody::Other { kind, body: reader.remainder().to_vec() },
        };
        Ok(Self { more: flags & MORE != 0, body })
    }
}

impl ReplyBody {
    /// The type.
    pub const fn kind(&self) -> u16 {
        match self {
            Self::Description(_) => DESCRIPTION,
            Self::Flows(_) => FLOWS,
            Self::Aggregate(_) => AGGREGATE,
            Self::Tables(_) => TABLES,
            Self::Ports(_) => PORTS,
            Self::PortDescriptions(_) => PORT_DESCRIPTIONS,
            Self::Groups(_) => GROUPS,
            Self::GroupDescriptions(_) => GROUP_DESCRIPTIONS,
            Self::Other { kind, .. } => *kind,
        }
    }

    /// Appends a later part; None if it is of another type, or of one whose parts are not lists.
    #[must_use]
    pub fn join(mut self, part: Self) -> Option<Self> {
        match (&mut self, part) {
            (Self::Flows(all), Self::Flows(part)) => all.extend(part),
            (Self::Tables(all), Self::Tables(part)) => all.extend(part),
            (Self::Ports(all), Self::Ports(part)) => all.extend(part),
            (Self::PortDescriptions(all), Self::PortDescriptions(part)) => all.extend(part),
            (Self::Groups(all), Self::Groups(part)) => all.extend(part),
            (Self::GroupDescriptions(all), Self::GroupDescriptions(part)) => all.extend(part),
            (Self::Other { kind, body }, Self::Other { kind: other, body: part }) if *kind == other => body.extend(part),
            _ => return None,
        }
        Some(self)
    }
}

impl FlowFilter {
    fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        put8(out, self.table);
        zeros(out, 3);
        put32(out, self.out_port.unwrap_or(u32::MAX));
        put32(out, self.out_group.unwrap_or(u32::MAX));
        zeros(out, 4);
        put64(out, self.cookie);
        put64(out, self.cookie_mask);
        self.matching.emit(out)
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let table = reader.u8()?;
        reader.skip(3)?;
        let [out_port, out_group] = [reader.optional_u32()?, reader.optional_u32()?];
        reader.skip(4)?;
        let [cookie, cookie_mask] = [reader.u64()?, reader.u64()?];
        Ok(Self { table, out_port, out_group, cookie, cookie_mask, matching: Match::parse(reader)? })
    }
}

fn emit_header(kind: u16, flags: u16, out: &mut Vec<u8>) {
    put16(out, kind);
    put16(out, flags);
    zeros(out, 4);
}
