//! Open vSwitch's `learn` (NXAST_LEARN): a flow whose match and actions are made of the fields of the packet that executes it.
//!
//! ```text
//!   idle u16 | hard u16 | priority u16 | cookie u64 | flags u16 | table u8 | 0 | fin idle u16 | fin hard u16 | spec ... | zeros
//!
//!   spec:  00 S DD nnnnnnnnnnn  | source                                         | destination
//!             |  |  bits          0 field: header u32, offset u16                  0 match: header u32, offset u16
//!             |  |                1 immediate: the bits, right-justified in        1 load:  header u32, offset u16
//!             source, destination   whole 16-bit words                             2 output: nothing
//! ```

use super::error::{EmitError, ParseError};
use super::field::{Field, FieldBits, FieldId};
use super::flow_flags::FlowFlags;
use super::reader::{Reader, put8, put16, put32, put64};

/// The flow to add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Seconds without a packet after which it ends; 0: never.
    pub idle_timeout: u16,
    /// Seconds after which it ends; 0: never.
    pub hard_timeout: u16,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// [`FlowFlags::SEND_FLOW_REM`], or Open vSwitch's own: 2 removes the learned flows with the learning one.
    pub flags: FlowFlags,
    /// In which table it is.
    pub table: u8,
    /// Its idle timeout once a FIN or RST was seen; 0: the same.
    pub fin_idle_timeout: u16,
    /// Its hard timeout once a FIN or RST was seen; 0: the same.
    pub fin_hard_timeout: u16,
    /// What it matches and does.
    pub specs: Vec<LearnSpec>,
}

/// One condition or action of the flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LearnSpec {
    /// How many bits; 1 to 2,047.
    pub bits: u16,
    /// Where they come from.
    pub source: LearnSource,
    /// What they are for.
    pub destination: LearnDestination,
}

/// Where bits come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LearnSource {
    /// A field of the packet.
    Field(FieldBits),
    /// These bits, right-justified in whole 16-bit words.
    Immediate(Vec<u8>),
}

/// What bits are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LearnDestination {
    /// The flow matches them.
    Match(FieldBits),
    /// The flow writes them.
    Load(FieldBits),
    /// The flow sends to the port of this number.
    Output,
}

/// The number of Nicira, under which Open vSwitch has its extensions.
pub(super) const NICIRA: u32 = 0x2320;
pub(super) const NX_LEARN: u16 = 16;

const BITS: u16 = 0x7ff;
const IMMEDIATE: u16 = 1 << 13;
const DESTINATION: u16 = 3 << 11;
const MATCH: u16 = 0;
const LOAD: u16 = 1 << 11;
const OUTPUT: u16 = 2 << 11;

impl LearnSpec {
    /// The flow matches the packet's own value of a field.
    pub fn same(field: FieldId) -> Self {
        let bits = field.all_bits();
        Self { bits: field.bits(), source: LearnSource::Field(bits), destination: LearnDestination::Match(bits) }
    }

    /// The flow matches the value of one field of the packet in another: the reverse direction has the addresses swapped.
    pub fn copied(from: FieldId, to: FieldId) -> Self {
        let bits = from.bits().min(to.bits());
        Self { bits, source: LearnSource::Field(from.all_bits()), destination: LearnDestination::Match(to.all_bits()) }
    }

    /// The flow matches a constant. A mask is ignored.
    pub fn constant(field: &Field) -> Self {
        Self { bits: field.id().bits(), source: immediate(field), destination: LearnDestination::Match(field.id().all_bits()) }
    }

    /// The flow writes a constant. A mask is ignored.
    pub fn load(field: &Field) -> Self {
        Self { bits: field.id().bits(), source: immediate(field), destination: LearnDestination::Load(field.id().all_bits()) }
    }

    /// The flow sends to the port whose number a field of the packet has.
    pub fn output(field: FieldId) -> Self {
        Self { bits: field.bits(), source: LearnSource::Field(field.all_bits()), destination: LearnDestination::Output }
    }

    fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        // No bits would read as the end of the list.
        if self.bits == 0 || self.bits > BITS {
            return Err(EmitError::Value { part: "the number of bits of a learn spec", given: self.bits.into() });
        }
        let source = if matches!(self.source, LearnSource::Immediate(_)) { IMMEDIATE } else { 0 };
        let destination = match self.destination {
            LearnDestination::Match(_) => MATCH,
            LearnDestination::Load(_) => LOAD,
            LearnDestination::Output => OUTPUT,
        };
        put16(out, self.bits | source | destination);
        match &self.source {
            LearnSource::Field(from) => emit_bits(*from, out),
            LearnSource::Immediate(bytes) => {
                // The header says how many.
                if bytes.len() != words(self.bits) {
                    return Err(EmitError::Value { part: "the bytes of a learn spec's immediate", given: bytes.len() as u64 });
                }
                out.extend_from_slice(bytes);
            }
        }
        match self.destination {
            LearnDestination::Match(to) | LearnDestination::Load(to) => emit_bits(to, out),
            LearnDestination::Output => {}
        }
        Ok(())
    }

    fn parse(header: u16, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let bits = header & BITS;
        let wrong = ParseError::Value { part: "the header of a learn spec", given: header.into() };
        if bits == 0 || header >> 14 != 0 {
            return Err(wrong);
        }
        let source = if header & IMMEDIATE == 0 {
            LearnSource::Field(parse_bits(reader)?)
        } else {
            LearnSource::Immediate(reader.take(words(bits))?.to_vec())
        };
        let destination = match header & DESTINATION {
            MATCH => LearnDestination::Match(parse_bits(reader)?),
            LOAD => LearnDestination::Load(parse_bits(reader)?),
            OUTPUT => LearnDestination::Output,
            _ => return Err(wrong),
        };
        Ok(Self { bits, source, destination })
    }
}

impl Learn {
    /// Appends the body of the action.
    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        put32(out, NICIRA);
        for it in [NX_LEARN, self.idle_timeout, self.hard_timeout, self.priority] {
            put16(out, it);
        }
        put64(out, self.cookie);
        put16(out, self.flags.0);
        put8(out, self.table);
        put8(out, 0);
        put16(out, self.fin_idle_timeout);
        put16(out, self.fin_hard_timeout);
        self.specs.iter().try_for_each(|spec| spec.emit(out))
    }

    /// Reads what follows the subtype, padding included.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let [idle_timeout, hard_timeout, priority] = [reader.u16()?, reader.u16()?, reader.u16()?];
        let cookie = reader.u64()?;
        let (flags, table) = (FlowFlags(reader.u16()?), reader.u8()?);
        reader.skip(1)?;
        let [fin_idle_timeout, fin_hard_timeout] = [reader.u16()?, reader.u16()?];
        let mut specs = Vec::new();
        while reader.rest.len() >= 2 {
            match reader.u16()? {
                0 => break,
                header => specs.push(LearnSpec::parse(header, reader)?),
            }
        }
        Ok(Self { idle_timeout, hard_timeout, priority, cookie, flags, table, fin_idle_timeout, fin_hard_timeout, specs })
    }
}

/// The bytes of an immediate value.
const fn words(bits: u16) -> usize {
    bits.div_ceil(16) as usize * 2
}

fn immediate(field: &Field) -> LearnSource {
    let length = words(field.id().bits());
    let mut bytes = vec![0; length.saturating_sub(field.value().len())];
    bytes.extend_from_slice(&field.value()[field.value().len().saturating_sub(length)..]);
    LearnSource::Immediate(bytes)
}

fn emit_bits(bits: FieldBits, out: &mut Vec<u8>) {
    bits.field.emit(false, out);
    put16(out, bits.offset);
}

fn parse_bits(reader: &mut Reader<'_>) -> Result<FieldBits, ParseError> {
    Ok(FieldBits { field: FieldId::parse_name(reader)?, offset: reader.u16()? })
}
