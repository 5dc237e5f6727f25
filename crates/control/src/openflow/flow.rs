//! Flows: what a controller adds, changes and deletes, and what a switch reports when one ends (1.3.5, sections 7.3.4.1 and 7.4.2).
//!
//! ```text
//!   flow-mod:      cookie u64 | mask u64 | table u8 | command u8 | idle u16 | hard u16 | priority u16 | buffer u32 | out port u32
//!                  | out group u32 | flags u16 | importance u16 (1.5) | match | instructions
//!   flow-removed:  1.3: cookie u64 | priority u16 | reason u8 | table u8 | duration u32 s, u32 ns | idle u16 | hard u16
//!                       | packets u64 | bytes u64 | match
//!                  1.5: table u8 | reason u8 | priority u16 | idle u16 | hard u16 | cookie u64 | match | statistics
//!   instruction:   type u16 | length u16 | body
//! ```

use super::Version;
use super::action::{Action, emit_list, parse_list};
use super::error::{EmitError, ParseError};
use super::flow_flags::FlowFlags;
use super::matching::Match;
use super::reader::{Reader, patch_length, put8, put16, put32, put64, zeros};
use super::statistics::Statistics;

/// A change of one flow, or of all that match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowMod {
    /// The controller's mark of the flow.
    pub cookie: u64,
    /// Modify and delete: only flows whose cookies agree in these bits.
    pub cookie_mask: u64,
    /// In which table; [`ALL_TABLES`] when deleting.
    pub table: u8,
    /// What to do.
    pub command: FlowCommand,
    /// Seconds without a packet after which the flow ends; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which the flow ends; 0: never.
    pub hard_timeout: u16,
    /// The match of the highest priority counts.
    pub priority: u16,
    /// A packet that the switch has kept, to be treated like the flow's.
    pub buffer: Option<u32>,
    /// Delete: only flows that send to this port.
    pub out_port: Option<u32>,
    /// Delete: only flows that send to this group.
    pub out_group: Option<u32>,
    /// How the flow behaves.
    pub flags: FlowFlags,
    /// 1.5: flows of lower importance are evicted first.
    pub importance: u16,
    /// Which packets.
    pub matching: Match,
    /// What happens to them.
    pub instructions: Vec<Instruction>,
}

/// What a flow-mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowCommand {
    /// Adds the flow, in place of one with the same match and priority.
    Add,
    /// Changes the instructions of all flows that match.
    Modify,
    /// Changes those of the flow with this match and priority.
    ModifyStrict,
    /// Deletes all flows that match.
    Delete,
    /// Deletes the flow with this match and priority.
    DeleteStrict,
}

/// What happens to a packet that matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// Continues in a later table.
    GotoTable(u8),
    /// Writes these bits of the metadata.
    WriteMetadata {
        /// The bits.
        value: u64,
        /// Which of them.
        mask: u64,
    },
    /// Adds to the actions at the end of the pipeline.
    WriteActions(Vec<Action>),
    /// Executes these actions now.
    ApplyActions(Vec<Action>),
    /// Forgets the actions at the end of the pipeline.
    ClearActions,
    /// Any other instruction.
    Other {
        /// Its type.
        kind: u16,
        /// What follows the length.
        body: Vec<u8>,
    },
}

/// A flow has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlowRemoved {
    /// The flow's cookie.
    pub cookie: u64,
    /// The flow's priority.
    pub priority: u16,
    /// Why it ended.
    pub reason: FlowRemovedReason,
    /// In which table it was.
    pub table: u8,
    /// As the flow was added.
    pub idle_timeout: u16,
    /// As the flow was added.
    pub hard_timeout: u16,
    /// What it counted.
    pub statistics: Statistics,
    /// Which packets it matched.
    pub matching: Match,
}

/// Why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowRemovedReason {
    /// No packet for the idle timeout.
    IdleTimeout,
    /// The hard timeout.
    HardTimeout,
    /// A controller deleted it.
    Delete,
    /// A controller deleted its group.
    GroupDelete,
    /// Any other: a deleted meter, eviction.
    Other(u8),
}

/// Every table.
pub const ALL_TABLES: u8 = 0xff;

const GOTO_TABLE: u16 = 1;
const WRITE_METADATA: u16 = 2;
const WRITE_ACTIONS: u16 = 3;
const APPLY_ACTIONS: u16 = 4;
const CLEAR_ACTIONS: u16 = 5;

impl FlowMod {
    /// Adds a flow without timeouts.
    pub fn add(table: u8, priority: u16, matching: Match, instructions: Vec<Instruction>) -> Self {
        Self { priority, instructions, ..Self::new(FlowCommand::Add, table, matching) }
    }

    /// Deletes all flows of a table that match, or of [`ALL_TABLES`].
    pub const fn delete(table: u8, matching: Match) -> Self {
        Self::new(FlowCommand::Delete, table, matching)
    }

    /// Deletes one flow.
    pub fn delete_strict(table: u8, priority: u16, matching: Match) -> Self {
        Self { priority, ..Self::new(FlowCommand::DeleteStrict, table, matching) }
    }

    const fn new(command: FlowCommand, table: u8, matching: Match) -> Self {
        Self {
            cookie: 0,
            cookie_mask: 0,
            table,
            command,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0,
            buffer: None,
            out_port: None,
            out_group: None,
            flags: FlowFlags::NONE,
            importance: 0,
            matching,
            instructions: Vec::new(),
        }
    }

    /// Appends the body of the message.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        if self.importance != 0 && version == Version::V13 {
            return Err(EmitError::NotInVersion { version, what: "importance of a flow" });
        }
        put64(out, self.cookie);
        put64(out, self.cookie_mask);
        put8(out, self.table);
        put8(out, self.command as u8);
        for it in [self.idle_timeout, self.hard_timeout, self.priority] {
            put16(out, it);
        }
        for it in [self.buffer, self.out_port, self.out_group] {
            put32(out, it.unwrap_or(u32::MAX));
        }
        put16(out, self.flags.0);
        put16(out, self.importance);
        self.matching.emit(out)?;
        emit_instructions(&self.instructions, version, out)
    }

    /// Reads the body of the message.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let [cookie, cookie_mask] = [reader.u64()?, reader.u64()?];
        let (table, command) = (reader.u8()?, FlowCommand::parse(reader.u8()?)?);
        let [idle_timeout, hard_timeout, priority] = [reader.u16()?, reader.u16()?, reader.u16()?];
        let [buffer, out_port, out_group] = [reader.optional_u32()?, reader.optional_u32()?, reader.optional_u32()?];
        let flags = FlowFlags(reader.u16()?);
        let importance = parse_importance(version, reader)?;
        let matching = Match::parse(reader)?;
        let instructions = parse_instructions(version, reader)?;
        Ok(Self {
            cookie,
            cookie_mask,
            table,
            command,
            idle_timeout,
            hard_timeout,
            priority,
            buffer,
            out_port,
            out_group,
            flags,
            importance,
            matching,
            instructions,
        })
    }
}

impl FlowCommand {
    fn parse(byte: u8) -> Result<Self, ParseError> {
        use FlowCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
        let all = [Add, Modify, ModifyStrict, Delete, DeleteStrict];
        all.get(usize::from(byte)).copied().ok_or(ParseError::Value { part: "the command of a flow-mod", given: byte.into() })
    }
}

impl Instruction {
    fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        put16(out, self.kind());
        put16(out, 0);
        match self {
            Self::GotoTable(table) => {
                put8(out, *table);
                zeros(out, 3);
            }
            Self::WriteMetadata { value, mask } => {
                zeros(out, 4);
                put64(out, *value);
                put64(out, *mask);
            }
            Self::WriteActions(actions) | Self::ApplyActions(actions) => {
                zeros(out, 4);
                emit_list(actions, version, out)?;
            }
            Self::ClearActions => zeros(out, 4),
            Self::Other { body, .. } => out.extend_from_slice(body),
        }
        patch_length(out, start, start + 2, "an instruction")
    }

    const fn kind(&self) -> u16 {
        match self {
            Self::GotoTable(_) => GOTO_TABLE,
            Self::WriteMetadata { .. } => WRITE_METADATA,
            Self::WriteActions(_) => WRITE_ACTIONS,
            Self::ApplyActions(_) => APPLY_ACTIONS,
            Self::ClearActions => CLEAR_ACTIONS,
            Self::Other { kind, .. } => *kind,
        }
    }

    fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (kind, mut body) = reader.tlv(false)?;
        let actions = |mut body: Reader<'_>| {
            body.skip(4)?;
            parse_list(version, body)
        };
        let it = match kind {
            GOTO_TABLE => {
                let table = body.u8()?;
                body.skip(3)?;
                Self::GotoTable(table)
            }
            WRITE_METADATA => {
                body.skip(4)?;
                Self::WriteMetadata { value: body.u64()?, mask: body.u64()? }
            }
            WRITE_ACTIONS => return actions(body).map(Self::WriteActions),
            APPLY_ACTIONS => return actions(body).map(Self::ApplyActions),
            CLEAR_ACTIONS => {
                body.skip(4)?;
                Self::ClearActions
            }
            _ => Self::Other { kind, body: body.remainder().to_vec() },
        };
        body.end()?;
        Ok(it)
    }
}

pub(super) fn emit_instructions(all: &[Instruction], version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
    all.iter().try_for_each(|it| it.emit(version, out))
}

/// Reads instructions until nothing is left.
pub(super) fn parse_instructions(version: Version, reader: &mut Reader<'_>) -> Result<Vec<Instruction>, ParseError> {
    let mut all = Vec::new();
    while !reader.is_empty() {
        all.push(Instruction::parse(version, reader)?);
    }
    Ok(all)
}

/// Reads the importance, which is padding in 1.3.
pub(super) fn parse_importance(version: Version, reader: &mut Reader<'_>) -> Result<u16, ParseError> {
    let importance = reader.u16()?;
    Ok(if version == Version::V15 { importance } else { 0 })
}

impl FlowRemoved {
    /// Appends the body of the message.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        match version {
            Version::V13 => {
                put64(out, self.cookie);
                put16(out, self.priority);
                put8(out, self.reason.wire());
                put8(out, self.table);
                self.statistics.emit_duration(out);
                put16(out, self.idle_timeout);
                put16(out, self.hard_timeout);
                self.statistics.emit_counters(out)?;
                self.matching.emit(out)
            }
            Version::V15 => {
                put8(out, self.table);
                put8(out, self.reason.wire());
                for it in [self.priority, self.idle_timeout, self.hard_timeout] {
                    put16(out, it);
                }
                put64(out, self.cookie);
                self.matching.emit(out)?;
                self.statistics.emit(out)
            }
        }
    }

    /// Reads the body of the message.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        if version == Version::V13 {
            let (cookie, priority) = (reader.u64()?, reader.u16()?);
            let (reason, table) = (FlowRemovedReason::of(reader.u8()?), reader.u8()?);
            let mut statistics = Statistics::parse_duration(reader)?;
            let [idle_timeout, hard_timeout] = [reader.u16()?, reader.u16()?];
            statistics.parse_counters(reader)?;
            let matching = Match::parse(reader)?;
            return Ok(Self { cookie, priority, reason, table, idle_timeout, hard_timeout, statistics, matching });
        }
        let (table, reason) = (reader.u8()?, FlowRemovedReason::of(reader.u8()?));
        let [priority, idle_timeout, hard_timeout] = [reader.u16()?, reader.u16()?, reader.u16()?];
        let (cookie, matching) = (reader.u64()?, Match::parse(reader)?);
        let statistics = Statistics::parse(reader)?;
        Ok(Self { cookie, priority, reason, table, idle_timeout, hard_timeout, statistics, matching })
    }
}

impl FlowRemovedReason {
    /// Of the byte in a message.
    pub const fn of(byte: u8) -> Self {
        match byte {
            0 => Self::IdleTimeout,
            1 => Self::HardTimeout,
            2 => Self::Delete,
            3 => Self::GroupDelete,
            other => Self::Other(other),
        }
    }

    const fn wire(self) -> u8 {
        match self {
            Self::IdleTimeout => 0,
            Self::HardTimeout => 1,
            Self::Delete => 2,
            Self::GroupDelete => 3,
            Self::Other(byte) => byte,
        }
    }
}
