//! What a flow or a bucket does with a packet (1.3.5, section 7.2.4; 1.5.1, section 7.2.6).
//!
//! ```text
//!   0      2        4
//!   +------+--------+---------------------------+
//!   | type | length | body, to a multiple of 8  |        type 0xffff: body = experimenter u32 | subtype u16 | ...
//!   +------+--------+---------------------------+
//! ```

use super::Version;
use super::error::{EmitError, ParseError};
use super::field::{Field, FieldBits, FieldId};
use super::learn::{Learn, NICIRA, NX_LEARN};
use super::reader::{Reader, pad, patch_length, put8, put16, put32, zeros};

/// An action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends the packet to a port; to the controller, at most `max_len` bytes of it.
    Output {
        /// A port, or one of those in [`port`](super::port).
        port: u32,
        /// For the controller: [`NO_BUFFER`] is the whole packet.
        max_len: u16,
    },
    /// Hands the packet to a group.
    Group(u32),
    /// Chooses a queue of the port.
    SetQueue(u32),
    /// Adds a VLAN tag of this Ethernet type.
    PushVlan(u16),
    /// Removes the VLAN tag.
    PopVlan,
    /// Sets the TTL of IP.
    SetTtl(u8),
    /// Decrements the TTL of IP.
    DecTtl,
    /// Writes a field; with a mask, only those bits of it (1.5).
    SetField(Field),
    /// Copies bits of one field to another: the action of 1.5, or Open vSwitch's `move` (NXAST_REG_MOVE) in 1.3.
    CopyField {
        /// How many bits.
        bits: u16,
        /// From the lowest of them.
        from: FieldBits,
        /// To the lowest of them.
        to: FieldBits,
    },
    /// Looks the packet up in another table, and then continues: Open vSwitch's `resubmit(port,table)`.
    Resubmit {
        /// Taken for the port on which the packet came; None leaves it.
        in_port: Option<u16>,
        /// Which table; 255 is the present one.
        table: u8,
    },
    /// Adds a flow that is made of fields of the packet: Open vSwitch's `learn`.
    Learn(Learn),
    /// Any other action.
    Other {
        /// Its type; with 0xffff, the body begins with the experimenter.
        kind: u16,
        /// What follows the length: as many bytes as make it a multiple of 8.
        body: Vec<u8>,
    },
}

/// The whole packet to the controller.
pub const NO_BUFFER: u16 = 0xffff;

pub(super) const EXPERIMENTER: u16 = 0xffff;

const OUTPUT: u16 = 0;
const PUSH_VLAN: u16 = 17;
const POP_VLAN: u16 = 18;
const SET_QUEUE: u16 = 21;
const GROUP: u16 = 22;
const SET_TTL: u16 = 23;
const DEC_TTL: u16 = 24;
const SET_FIELD: u16 = 25;
const COPY_FIELD: u16 = 28;
const NX_MOVE: u16 = 6;
const NX_RESUBMIT_TABLE: u16 = 14;
/// The port of the packet, in the 16 bits of OpenFlow 1.0.
const NX_IN_PORT: u16 = 0xfff8;

impl Action {
    /// To a port.
    pub const fn output(port: u32) -> Self {
        Self::Output { port, max_len: 0 }
    }

    /// Copies a whole field to another, or the lowest bits if their widths differ.
    pub fn copy(from: FieldId, to: FieldId) -> Self {
        Self::CopyField { bits: from.bits().min(to.bits()), from: from.all_bits(), to: to.all_bits() }
    }

    /// Appends the action.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        put16(out, self.kind(version));
        put16(out, 0);
        match self {
            Self::Output { port, max_len } => {
                put32(out, *port);
                put16(out, *max_len);
            }
            Self::Group(number) | Self::SetQueue(number) => put32(out, *number),
            Self::PushVlan(ethertype) => put16(out, *ethertype),
            Self::PopVlan | Self::DecTtl => {}
            Self::SetTtl(ttl) => put8(out, *ttl),
            Self::SetField(field) if field.mask().is_some() && version == Version::V13 => {
                return Err(EmitError::NotInVersion { version, what: "set-field with a mask" });
            }
            Self::SetField(field) => field.emit(out),
            Self::CopyField { bits, from, to } => {
                if version == Version::V13 {
                    nicira(NX_MOVE, out);
                }
                for it in [*bits, from.offset, to.offset] {
                    put16(out, it);
                }
                zeros(out, if version == Version::V15 { 2 } else { 0 });
                from.field.emit(false, out);
                to.field.emit(false, out);
            }
            Self::Resubmit { in_port, table } => {
                nicira(NX_RESUBMIT_TABLE, out);
                put16(out, in_port.unwrap_or(NX_IN_PORT));
                put8(out, *table);
            }
            Self::Learn(learn) => learn.emit(out)?,
            Self::Other { body, .. } => out.extend_from_slice(body),
        }
        pad(out, start);
        patch_length(out, start, start + 2, "an action")
    }

    const fn kind(&self, version: Version) -> u16 {
        match self {
            Self::Output { .. } => OUTPUT,
            Self::Group(_) => GROUP,
            Self::SetQueue(_) => SET_QUEUE,
            Self::PushVlan(_) => PUSH_VLAN,
            Self::PopVlan => POP_VLAN,
            Self::SetTtl(_) => SET_TTL,
            Self::DecTtl => DEC_TTL,
            Self::SetField(_) => SET_FIELD,
            Self::CopyField { .. } if matches!(version, Version::V15) => COPY_FIELD,
            Self::CopyField { .. } | Self::Resubmit { .. } | Self::Learn(_) => EXPERIMENTER,
            Self::Other { kind, .. } => *kind,
        }
    }

    /// Reads an action.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let before = reader.rest.len();
        let (kind, mut body) = reader.tlv(false)?;
        let given = before - reader.rest.len();
        if !given.is_multiple_of(8) {
            return Err(ParseError::Length { part: "an action", given });
        }
        let raw = body.rest;
        let it = match kind {
            OUTPUT => Self::Output { port: body.u32()?, max_len: body.u16()? },
            GROUP => Self::Group(body.u32()?),
            SET_QUEUE => Self::SetQueue(body.u32()?),
            PUSH_VLAN => Self::PushVlan(body.u16()?),
            POP_VLAN => Self::PopVlan,
            SET_TTL => Self::SetTtl(body.u8()?),
            DEC_TTL => Self::DecTtl,
            SET_FIELD => Self::SetField(Field::parse(&mut body)?),
            COPY_FIELD if version == Version::V15 => {
                let [bits, from, to] = [body.u16()?, body.u16()?, body.u16()?];
                body.skip(2)?;
                Self::parse_copy(bits, from, to, &mut body)?
            }
            EXPERIMENTER => match Self::parse_nicira(version, &mut body)? {
                Some(it) => it,
                None => return Ok(Self::Other { kind, body: raw.to_vec() }),
            },
            _ => return Ok(Self::Other { kind, body: raw.to_vec() }),
        };
        padding_only(body)?;
        // 1.3 has no mask here, and what is emitted must be what was read.
        if version == Version::V13 && matches!(&it, Self::SetField(field) if field.mask().is_some()) {
            return Err(ParseError::Value { part: "the mask bit of set-field", given: 1 });
        }
        Ok(it)
    }

    fn parse_copy(bits: u16, from: u16, to: u16, body: &mut Reader<'_>) -> Result<Self, ParseError> {
        let from = FieldBits { field: FieldId::parse_name(body)?, offset: from };
        let to = FieldBits { field: FieldId::parse_name(body)?, offset: to };
        Ok(Self::CopyField { bits, from, to })
    }

    /// One of Open vSwitch's actions; None if it is another's, or not used here.
    fn parse_nicira(version: Version, body: &mut Reader<'_>) -> Result<Option<Self>, ParseError> {
        let (experimenter, subtype) = (body.u32()?, body.u16()?);
        Ok(match (experimenter, subtype) {
            (NICIRA, NX_MOVE) if version == Version::V13 => {
                let [bits, from, to] = [body.u16()?, body.u16()?, body.u16()?];
                Some(Self::parse_copy(bits, from, to, body)?)
            }
            (NICIRA, NX_RESUBMIT_TABLE) => {
                let in_port = Some(body.u16()?).filter(|&port| port != NX_IN_PORT);
                Some(Self::Resubmit { in_port, table: body.u8()? })
            }
            (NICIRA, NX_LEARN) => Some(Self::Learn(Learn::parse(body)?)),
            _ => None,
        })
    }
}

/// Appends a list of actions.
pub(super) fn emit_list(actions: &[Action], version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
    actions.iter().try_for_each(|action| action.emit(version, out))
}

/// Reads actions until nothing is left.
pub(super) fn parse_list(version: Version, mut reader: Reader<'_>) -> Result<Vec<Action>, ParseError> {
    let mut actions = Vec::new();
    while !reader.is_empty() {
        actions.push(Action::parse(version, &mut reader)?);
    }
    Ok(actions)
}

fn nicira(subtype: u16, out: &mut Vec<u8>) {
    put32(out, NICIRA);
    put16(out, subtype);
}

/// Fewer than 8 bytes may be left.
fn padding_only(reader: Reader<'_>) -> Result<(), ParseError> {
    if reader.rest.len() < 8 { Ok(()) } else { reader.end() }
}
