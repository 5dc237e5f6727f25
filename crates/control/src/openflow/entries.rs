//! The entries of multipart replies: flows, tables, groups, names (1.3.5 and 1.5.1, section 7.3.5).
//!
//! ```text
//!   flow of 1.3:  length u16 | table u8 | 0 u8 | duration u32 s, u32 ns | priority u16 | idle u16 | hard u16 | flags u16 | 0 u32
//!                 | cookie u64 | packets u64 | bytes u64 | match | instructions
//!   flow of 1.5:  length u16 | 0 u16 | table u8 | 0 u8 | priority u16 | idle u16 | hard u16 | flags u16 | importance u16
//!                 | cookie u64 | match | statistics | instructions
//! ```

use super::Version;
use super::error::{EmitError, ParseError};
use super::flow::{Instruction, emit_instructions, parse_importance, parse_instructions};
use super::flow_flags::FlowFlags;
use super::group::{Group, GroupKind};
use super::matching::Match;
use super::port::Text;
use super::reader::{Reader, patch_length, put8, put16, put32, put64, zeros};
use super::statistics::{Statistics, emit_time, parse_time};
use crate::time::Duration;

/// A flow of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowEntry {
    /// In which table it is.
    pub table: u8,
    /// Its priority.
    pub priority: u16,
    /// Seconds without a packet after which it ends; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which it ends; 0: never.
    pub hard_timeout: u16,
    /// How it behaves.
    pub flags: FlowFlags,
    /// 1.5: flows of lower importance are evicted first.
    pub importance: u16,
    /// The controller's mark.
    pub cookie: u64,
    /// What it has counted.
    pub statistics: Statistics,
    /// Which packets.
    pub matching: Match,
    /// What happens to them.
    pub instructions: Vec<Instruction>,
}

/// Names of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Description {
    /// Who made it.
    pub manufacturer: Text<256>,
    /// The hardware.
    pub hardware: Text<256>,
    /// The software.
    pub software: Text<256>,
    /// The serial number.
    pub serial: Text<32>,
    /// What its operator calls it.
    pub datapath: Text<256>,
}

/// What a table has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableStats {
    /// Which table.
    pub table: u8,
    /// Flows in it.
    pub flows: u32,
    /// Packets looked up; None: not counted.
    pub lookups: Option<u64>,
    /// Packets that matched; None: not counted.
    pub matches: Option<u64>,
}

/// What a group has counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupStats {
    /// Which group.
    pub id: u32,
    /// Flows and groups that use it.
    pub references: u32,
    /// Its packets; None: not counted.
    pub packets: Option<u64>,
    /// Its bytes; None: not counted.
    pub bytes: Option<u64>,
    /// How long it has been there.
    pub duration: Duration,
    /// Packets and bytes of each bucket; None: not counted.
    pub buckets: Vec<(Option<u64>, Option<u64>)>,
}

impl FlowEntry {
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        put16(out, 0);
        match version {
            Version::V13 => {
                if self.importance != 0 {
                    return Err(EmitError::NotInVersion { version, what: "importance of a flow" });
                }
                put8(out, self.table);
                put8(out, 0);
                self.statistics.emit_duration(out);
                for it in [self.priority, self.idle_timeout, self.hard_timeout, self.flags.0] {
                    put16(out, it);
                }
                zeros(out, 4);
                put64(out, self.cookie);
                self.statistics.emit_counters(out)?;
                self.matching.emit(out)?;
            }
            Version::V15 => {
                zeros(out, 2);
                put8(out, self.table);
                put8(out, 0);
                for it in [self.priority, self.idle_timeout, self.hard_timeout, self.flags.0, self.importance] {
                    put16(out, it);
                }
                put64(out, self.cookie);
                self.matching.emit(out)?;
                self.statistics.emit(out)?;
            }
        }
        emit_instructions(&self.instructions, version, out)?;
        patch_length(out, start, start, "a flow")
    }

    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let mut body = entry(reader, "a flow")?;
        if version == Version::V15 {
            body.skip(2)?;
        }
        let table = body.u8()?;
        body.skip(1)?;
        let duration = if version == Version::V13 { Some(Statistics::parse_duration(&mut body)?) } else { None };
        let [priority, idle_timeout, hard_timeout] = [body.u16()?, body.u16()?, body.u16()?];
        let flags = FlowFlags(body.u16()?);
        let importance = parse_importance(version, &mut body)?;
        if version == Version::V13 {
            body.skip(2)?;
        }
        let cookie = body.u64()?;
        let (statistics, matching) = match duration {
            Some(mut statistics) => {
                statistics.parse_counters(&mut body)?;
                (statistics, Match::parse(&mut body)?)
            }
            None => {
                let matching = Match::parse(&mut body)?;
                (Statistics::parse(&mut body)?, matching)
            }
        };
        let instructions = parse_instructions(version, &mut body)?;
        Ok(Self { table, priority, idle_timeout, hard_timeout, flags, importance, cookie, statistics, matching, instructions })
    }
}

impl Description {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        for it in [&self.manufacturer.0[..], &self.hardware.0, &self.software.0, &self.serial.0, &self.datapath.0] {
            out.extend_from_slice(it);
        }
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            manufacturer: Text(reader.array()?),
            hardware: Text(reader.array()?),
            software: Text(reader.array()?),
            serial: Text(reader.array()?),
            datapath: Text(reader.array()?),
        })
    }
}

impl TableStats {
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        put8(out, self.table);
        zeros(out, 3);
        put32(out, self.flows);
        put64(out, self.lookups.unwrap_or(u64::MAX));
        put64(out, self.matches.unwrap_or(u64::MAX));
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let table = reader.u8()?;
        reader.skip(3)?;
        Ok(Self { table, flows: reader.u32()?, lookups: reader.optional_u64()?, matches: reader.optional_u64()? })
    }
}

impl GroupStats {
    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        zeros(out, 4);
        put32(out, self.id);
        put32(out, self.references);
        zeros(out, 4);
        put64(out, self.packets.unwrap_or(u64::MAX));
        put64(out, self.bytes.unwrap_or(u64::MAX));
        emit_time(self.duration, out);
        for &(packets, bytes) in &self.buckets {
            put64(out, packets.unwrap_or(u64::MAX));
            put64(out, bytes.unwrap_or(u64::MAX));
        }
        patch_length(out, start, start, "the counters of a group")
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let mut body = entry(reader, "the counters of a group")?;
        body.skip(2)?;
        let (id, references) = (body.u32()?, body.u32()?);
        body.skip(4)?;
        let (packets, bytes) = (body.optional_u64()?, body.optional_u64()?);
        let duration = parse_time(&mut body)?;
        let buckets = many(&mut body, |body| Ok((body.optional_u64()?, body.optional_u64()?)))?;
        Ok(Self { id, references, packets, bytes, duration, buckets })
    }
}

/// Appends the sums of flows.
pub(super) fn emit_aggregate(it: &Statistics, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
    match version {
        Version::V13 => {
            it.emit_counters(out)?;
            put32(out, it.flows.unwrap_or(0));
            zeros(out, 4);
            Ok(())
        }
        Version::V15 => it.emit(out),
    }
}

/// Reads the sums of flows.
pub(super) fn parse_aggregate(version: Version, reader: &mut Reader<'_>) -> Result<Statistics, ParseError> {
    if version == Version::V15 {
        return Statistics::parse(reader);
    }
    let mut it = Statistics::default();
    it.parse_counters(reader)?;
    it.flows = Some(reader.u32()?);
    reader.skip(4)?;
    Ok(it)
}

/// Appends a group with its length.
pub(super) fn emit_group(group: &Group, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
    let start = out.len();
    put16(out, 0);
    put8(out, group.kind as u8);
    put8(out, 0);
    put32(out, group.id);
    let length = out.len();
    zeros(out, if version == Version::V15 { 8 } else { 0 });
    group.emit_contents(version, length, out)?;
    patch_length(out, start, start, "a group")
}

/// Reads a group with its length.
pub(super) fn parse_group(version: Version, reader: &mut Reader<'_>) -> Result<Group, ParseError> {
    let mut body = entry(reader, "a group")?;
    let kind = GroupKind::parse(body.u8()?)?;
    body.skip(1)?;
    let id = body.u32()?;
    let length = match version {
        Version::V13 => body.rest.len(),
        Version::V15 => {
            let length = body.u16()?;
            body.skip(6)?;
            length.into()
        }
    };
    Group::parse_contents(version, id, kind, length, &mut body)
}

/// The rest of an entry that begins with its length.
fn entry<'a>(reader: &mut Reader<'a>, part: &'static str) -> Result<Reader<'a>, ParseError> {
    let given = usize::from(reader.u16()?);
    reader.sub(given.checked_sub(2).ok_or(ParseError::Length { part, given })?, part)
}

/// Reads until nothing is left.
pub(super) fn many<'a, T>(
    reader: &mut Reader<'a>,
    mut one: impl FnMut(&mut Reader<'a>) -> Result<T, ParseError>,
) -> Result<Vec<T>, ParseError> {
    let mut all = Vec::new();
    while !reader.is_empty() {
        all.push(one(reader)?);
    }
    Ok(all)
}
