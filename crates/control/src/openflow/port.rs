//! Ports: what they are, what they have counted, and their reserved numbers (1.3.5, section 7.2.1; 1.5.1, section 7.2.1).
//!
//! ```text
//!   port 1.3:   number u32 | 0 u32 | MAC 6 | 0 u16 | name 16 | config u32 | state u32 | Ethernet: 6 x u32
//!   port 1.5:   number u32 | length u16 | 0 u16 | MAC 6 | 0 u16 | name 16 | config u32 | state u32 | properties (0: 0 u32 | Ethernet)
//!   count 1.3:  number u32 | 0 u32 | packets in, out, bytes in, out, dropped in, out, errors in, out: u64 | Ethernet: 4 x u64 | duration
//!   count 1.5:  length u16 | 0 u16 | number u32 | duration | the same 8 x u64 | properties (0: 0 u32 | Ethernet: 4 x u64)
//! ```

use std::borrow::Cow;
use std::fmt;

use weft_fabric::MacAddr;

use super::Version;
use super::error::{EmitError, ParseError};
use super::group::{Property, emit_properties};
use super::reader::{Reader, patch_length, put8, put16, put32, put64, zeros};
use super::statistics::{emit_time, parse_time};
use crate::time::Duration;

/// Back to the port on which the packet came.
pub const IN_PORT: u32 = 0xffff_fff8;
/// Through the tables, in a packet-out.
pub const TABLE: u32 = 0xffff_fff9;
/// As a switch without OpenFlow forwards.
pub const NORMAL: u32 = 0xffff_fffa;
/// All ports of the VLAN but the packet's own.
pub const FLOOD: u32 = 0xffff_fffb;
/// All ports but the packet's own.
pub const ALL: u32 = 0xffff_fffc;
/// The controller.
pub const CONTROLLER: u32 = 0xffff_fffd;
/// The switch's own network interface.
pub const LOCAL: u32 = 0xffff_fffe;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// Its number.
    pub number: u32,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Its name.
    pub name: Text<16>,
    /// What the controller has set: [`Port::CONFIG_DOWN`] and others.
    pub config: u32,
    /// What the switch observes: [`Port::STATE_LINK_DOWN`] and others.
    pub state: u32,
    /// What Ethernet negotiated; None: the switch does not report it.
    pub ethernet: Option<EthernetPort>,
    /// Any other property (1.5).
    pub other: Vec<Property>,
}

/// What Ethernet negotiated on a port: features are bits, speeds in kbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EthernetPort {
    /// Features in use.
    pub current: u32,
    /// Features advertised.
    pub advertised: u32,
    /// Features of the port.
    pub supported: u32,
    /// Features that the peer advertises.
    pub peer: u32,
    /// The speed, kbit/s.
    pub speed: u32,
    /// The highest speed, kbit/s.
    pub max_speed: u32,
}

/// A port has been added or deleted, or has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// As it is now.
    pub port: Port,
}

/// What happened to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortReason {
    /// It is new.
    Add,
    /// It is no longer there.
    Delete,
    /// Something of it has changed.
    Modify,
}

/// What a port has counted; None: the switch does not count this.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortStats {
    /// Which port.
    pub number: u32,
    /// How long it has been there.
    pub duration: Duration,
    /// Packets received.
    pub rx_packets: Option<u64>,
    /// Packets sent.
    pub tx_packets: Option<u64>,
    /// Bytes received.
    pub rx_bytes: Option<u64>,
    /// Bytes sent.
    pub tx_bytes: Option<u64>,
    /// Packets dropped when received.
    pub rx_dropped: Option<u64>,
    /// Packets dropped instead of sent.
    pub tx_dropped: Option<u64>,
    /// Errors of reception.
    pub rx_errors: Option<u64>,
    /// Errors of sending.
    pub tx_errors: Option<u64>,
    /// Errors of frame alignment, overrun, CRC, and collisions; None: not counted.
    pub ethernet: Option<[u64; 4]>,
    /// Any other property (1.5).
    pub other: Vec<Property>,
}

/// A text in a field of `N` bytes, filled with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<const N: usize>(pub [u8; N]);

const ETHERNET: u16 = 0;

impl Port {
    /// The controller has set the port down.
    pub const CONFIG_DOWN: u32 = 1;
    /// There is no link.
    pub const STATE_LINK_DOWN: u32 = 1;

    /// Whatever monitors the link, such as BFD, sees its other end.
    pub const STATE_LIVE: u32 = 4;

    /// Whether packets can pass.
    pub const fn is_up(&self) -> bool {
        self.config & Self::CONFIG_DOWN == 0 && self.state & Self::STATE_LINK_DOWN == 0
    }

    /// Whether the switch says that the other end is there; some never do.
    pub const fn is_live(&self) -> bool {
        self.state & Self::STATE_LIVE != 0
    }

    /// Appends the port.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        put32(out, self.number);
        zeros(out, 4);
        out.extend_from_slice(&self.mac.0);
        zeros(out, 2);
        out.extend_from_slice(&self.name.0);
        put32(out, self.config);
        put32(out, self.state);
        if version == Version::V13 {
            if !self.other.is_empty() {
                return Err(EmitError::NotInVersion { version, what: "other property of a port" });
            }
            self.ethernet.unwrap_or_default().emit(out);
            return Ok(());
        }
        if let Some(ethernet) = &self.ethernet {
            put16(out, ETHERNET);
            put16(out, 32);
            zeros(out, 4);
            ethernet.emit(out);
        }
        emit_properties(&self.other, out)?;
        patch_length(out, start, start + 4, "a port")
    }

    /// Reads a port.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let number = reader.u32()?;
        let mut body = match version {
            Version::V13 => reader.sub(60, "a port")?,
            Version::V15 => {
                let given = usize::from(reader.u16()?);
                reader.sub(given.checked_sub(6).ok_or(ParseError::Length { part: "a port", given })?, "a port")?
            }
        };
        body.skip(if version == Version::V13 { 4 } else { 2 })?;
        let mac = MacAddr(body.array()?);
        body.skip(2)?;
        let name = Text(body.array()?);
        let (config, state) = (body.u32()?, body.u32()?);
        let mut it = Self { number, mac, name, config, state, ethernet: None, other: Vec::new() };
        if version == Version::V13 {
            it.ethernet = Some(EthernetPort::parse(&mut body)?).filter(|it| *it != EthernetPort::default());
            return Ok(it);
        }
        while !body.is_empty() {
            let (kind, mut value) = body.tlv(true)?;
            if kind == ETHERNET {
                value.skip(4)?;
                it.ethernet = Some(EthernetPort::parse(&mut value)?);
            } else {
                it.other.push(Property { kind, body: value.remainder().to_vec() });
            }
            value.end()?;
        }
        Ok(it)
    }
}

impl EthernetPort {
    fn emit(&self, out: &mut Vec<u8>) {
        for it in [self.current, self.advertised, self.supported, self.peer, self.speed, self.max_speed] {
            put32(out, it);
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let mut next = || reader.u32();
        Ok(Self { current: next()?, advertised: next()?, supported: next()?, peer: next()?, speed: next()?, max_speed: next()? })
    }
}

impl PortStatus {
    /// Appends the body of the message.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        put8(out, self.reason as u8);
        zeros(out, 7);
        self.port.emit(version, out)
    }

    /// Reads the body of the message.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let reason = match reader.u8()? {
            0 => PortReason::Add,
            1 => PortReason::Delete,
            2 => PortReason::Modify,
            other => return Err(ParseError::Value { part: "the reason of a port status", given: other.into() }),
        };
        reader.skip(7)?;
        Ok(Self { reason, port: Port::parse(version, reader)? })
    }
}

impl PortStats {
    /// Appends the entry.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        if version == Version::V13 {
            if !self.other.is_empty() {
                return Err(EmitError::NotInVersion { version, what: "other property of a port" });
            }
            put32(out, self.number);
            zeros(out, 4);
            self.emit_counters(out);
            self.ethernet.unwrap_or([u64::MAX; 4]).iter().for_each(|&it| put64(out, it));
            emit_time(self.duration, out);
            return Ok(());
        }
        zeros(out, 4);
        put32(out, self.number);
        emit_time(self.duration, out);
        self.emit_counters(out);
        if let Some(ethernet) = &self.ethernet {
            put16(out, ETHERNET);
            put16(out, 40);
            zeros(out, 4);
            ethernet.iter().for_each(|&it| put64(out, it));
        }
        emit_properties(&self.other, out)?;
        patch_length(out, start, start, "the counters of a port")
    }

    fn emit_counters(&self, out: &mut Vec<u8>) {
        let packets = [self.rx_packets, self.tx_packets, self.rx_bytes, self.tx_bytes];
        let errors = [self.rx_dropped, self.tx_dropped, self.rx_errors, self.tx_errors];
        for it in packets.into_iter().chain(errors) {
            put64(out, it.unwrap_or(u64::MAX));
        }
    }

    /// Reads an entry.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        if version == Version::V13 {
            let number = reader.u32()?;
            reader.skip(4)?;
            let mut it = Self::parse_counters(number, reader)?;
            it.ethernet = Some(parse_four(reader)?).filter(|it| *it != [u64::MAX; 4]);
            it.duration = parse_time(reader)?;
            return Ok(it);
        }
        let given = usize::from(reader.u16()?);
        let part = "the counters of a port";
        let mut body = reader.sub(given.checked_sub(2).ok_or(ParseError::Length { part, given })?, part)?;
        body.skip(2)?;
        let number = body.u32()?;
        let duration = parse_time(&mut body)?;
        let mut it = Self { duration, ..Self::parse_counters(number, &mut body)? };
        while !body.is_empty() {
            let (kind, mut value) = body.tlv(true)?;
            if kind == ETHERNET {
                value.skip(4)?;
                it.ethernet = Some(parse_four(&mut value)?);
            } else {
                it.other.push(Property { kind, body: value.remainder().to_vec() });
            }
            value.end()?;
        }
        Ok(it)
    }

    fn parse_counters(number: u32, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let mut next = || reader.optional_u64();
        Ok(Self {
            number,
            duration: Duration::ZERO,
            rx_packets: next()?,
            tx_packets: next()?,
            rx_bytes: next()?,
            tx_bytes: next()?,
            rx_dropped: next()?,
            tx_dropped: next()?,
            rx_errors: next()?,
            tx_errors: next()?,
            ethernet: None,
            other: Vec::new(),
        })
    }
}

fn parse_four(reader: &mut Reader<'_>) -> Result<[u64; 4], ParseError> {
    Ok([reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?])
}

impl<const N: usize> Text<N> {
    /// As much of a text as fits and leaves a zero at the end.
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; N];
        let end = (0..=text.len().min(N.saturating_sub(1))).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self(bytes)
    }

    /// The text before the first zero; what is not UTF-8 in it is replaced.
    pub fn as_str(&self) -> Cow<'_, str> {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(N);
        String::from_utf8_lossy(&self.0[..end])
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}
