//! What a flow, a group or a switch has counted: fixed fields in 1.3, a list of OXS entries in 1.5 (1.5.1, section 7.2.4).
//!
//! ```text
//!   OXS:  0 u16 | length u16 without padding | entries ... | zeros          entry: class u16 | field 7 bits, 0 | length u8 | value
//! ```

use super::error::{EmitError, ParseError};
use super::reader::{Reader, pad, padding, patch_length, put8, put16, put32, put64};
use crate::time::{Duration, NS_PER_S};

/// The counters that a switch has; None: it does not count this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Statistics {
    /// Since the flow was added. 1.3 always has it.
    pub duration: Option<Duration>,
    /// Since the last packet (1.5).
    pub idle: Option<Duration>,
    /// The flows that are counted together, in aggregates.
    pub flows: Option<u32>,
    /// Packets that matched.
    pub packets: Option<u64>,
    /// Bytes that matched.
    pub bytes: Option<u64>,
    /// Any other entry (1.5).
    pub other: Vec<OtherStatistic>,
}

/// An entry that Weft does not use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OtherStatistic {
    /// Its class.
    pub class: u16,
    /// Its field and the reserved bit, as they stand in the third byte.
    pub field: u8,
    /// Its value, at most 255 bytes.
    pub value: Vec<u8>,
}

const BASIC: u16 = 0x8002;
const DURATION: u8 = 0;
const IDLE: u8 = 1 << 1;
const FLOWS: u8 = 3 << 1;
const PACKETS: u8 = 4 << 1;
const BYTES: u8 = 5 << 1;

impl Statistics {
    /// Appends the list of 1.5.
    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        put32(out, 0);
        for (field, time) in [(DURATION, self.duration), (IDLE, self.idle)] {
            if let Some(time) = time {
                header(BASIC, field, 8, out);
                emit_time(time, out);
            }
        }
        if let Some(flows) = self.flows {
            header(BASIC, FLOWS, 4, out);
            put32(out, flows);
        }
        for (field, counter) in [(PACKETS, self.packets), (BYTES, self.bytes)] {
            if let Some(counter) = counter {
                header(BASIC, field, 8, out);
                put64(out, counter);
            }
        }
        for it in &self.other {
            let max = usize::from(u8::MAX);
            let bytes = it.value.len();
            let length = u8::try_from(bytes).map_err(|_| EmitError::TooLong { part: "a statistic", bytes, max })?;
            header(it.class, it.field, length, out);
            out.extend_from_slice(&it.value);
        }
        patch_length(out, start, start + 2, "statistics")?;
        pad(out, start);
        Ok(())
    }

    /// Reads the list of 1.5 with its padding. An entry that is there twice counts as it stands last.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let given = reader.rest.len();
        let (_, mut body) = reader.tlv(false)?;
        reader.skip(padding(given - reader.rest.len()))?;
        let mut it = Self::default();
        while !body.is_empty() {
            let (class, field, length) = (body.u16()?, body.u8()?, body.u8()?);
            let mut value = body.sub(length.into(), "a statistic")?;
            match (class, field) {
                (BASIC, DURATION) => it.duration = Some(parse_time(&mut value)?),
                (BASIC, IDLE) => it.idle = Some(parse_time(&mut value)?),
                (BASIC, FLOWS) => it.flows = Some(value.u32()?),
                (BASIC, PACKETS) => it.packets = Some(value.u64()?),
                (BASIC, BYTES) => it.bytes = Some(value.u64()?),
                _ => it.other.push(OtherStatistic { class, field, value: value.remainder().to_vec() }),
            }
            value.end()?;
        }
        Ok(it)
    }

    /// Appends the duration of 1.3.
    pub(super) fn emit_duration(&self, out: &mut Vec<u8>) {
        emit_time(self.duration.unwrap_or(Duration::ZERO), out);
    }

    /// Reads the duration of 1.3.
    pub(super) fn parse_duration(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self { duration: Some(parse_time(reader)?), ..Self::default() })
    }

    /// Appends the packets and bytes of 1.3.
    pub(super) fn emit_counters(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        if !self.other.is_empty() || self.idle.is_some() {
            return Err(EmitError::NotInVersion { version: super::Version::V13, what: "idle time and other statistics of 1.5" });
        }
        for it in [self.packets, self.bytes] {
            put64(out, it.unwrap_or(u64::MAX));
        }
        Ok(())
    }

    /// Reads the packets and bytes of 1.3.
    pub(super) fn parse_counters(&mut self, reader: &mut Reader<'_>) -> Result<(), ParseError> {
        self.packets = reader.optional_u64()?;
        self.bytes = reader.optional_u64()?;
        Ok(())
    }
}

/// Appends seconds and nanoseconds; a time of more than 136 years as the longest.
pub(super) fn emit_time(time: Duration, out: &mut Vec<u8>) {
    let ns = time.as_ns();
    let (seconds, ns) = u32::try_from(ns / NS_PER_S).map_or((u32::MAX, NS_PER_S - 1), |seconds| (seconds, ns % NS_PER_S));
    put32(out, seconds);
    put32(out, ns as u32);
}

/// Reads seconds, and nanoseconds beyond them: less than a second, whatever a switch writes.
pub(super) fn parse_time(reader: &mut Reader<'_>) -> Result<Duration, ParseError> {
    let (seconds, ns) = (u64::from(reader.u32()?), u64::from(reader.u32()?));
    Ok(Duration::from_ns(seconds * NS_PER_S + ns.min(NS_PER_S - 1)))
}

fn header(class: u16, field: u8, length: u8, out: &mut Vec<u8>) {
    put16(out, class);
    put8(out, field);
    put8(out, length);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing: nanoseconds of seconds more made a time that does not fit into the message again.
    #[test]
    fn nanoseconds_are_less_than_a_second() {
        let mut bytes = Vec::new();
        put32(&mut bytes, u32::MAX);
        put32(&mut bytes, u32::MAX);
        let time = parse_time(&mut Reader::new(&bytes, "a time")).expect("eight bytes");
        assert_eq!(time, Duration::from_ns(u64::from(u32::MAX) * NS_PER_S + NS_PER_S - 1));
        let mut again = Vec::new();
        emit_time(time, &mut again);
        assert_eq!(parse_time(&mut Reader::new(&again, "a time")).expect("eight bytes"), time);
    }
}
