//! The connection and the switch itself: hello, errors, features, roles; packets to and from the controller (1.3.5, sections 7.3 to 7.5).
//!
//! ```text
//!   hello:          elements: type u16 | length u16 | body, padded       type 1: versions that are spoken, a bit each, u32 ...
//!   error:          type u16 | code u16 | the first bytes of what failed
//!   features reply: datapath u64 | buffers u32 | tables u8 | auxiliary u8 | 0 u16 | capabilities u32 | 0 u32
//!   role:           role u32 | 1.5: short id u16 | 0 to 8 | generation u64
//!   packet-in:      buffer u32 | length u16 | reason u8 | table u8 | cookie u64 | match | 0 u16 | data
//!   packet-out:     1.3: buffer u32 | in port u32 | length of actions u16 | 0 to 16 | actions | data
//!                   1.5: buffer u32 | length of actions u16 | 0 u16 | match | actions | data
//! ```

use std::fmt;

use super::Version;
use super::action::{Action, emit_list, parse_list};
use super::error::{EmitError, ParseError};
use super::field::Field;
use super::matching::Match;
use super::reader::{Reader, pad, patch, patch_length, put8, put16, put32, put64, zeros};

/// The first message of each side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hello {
    /// Bit n of word w: wire version 32 w + n is spoken. None: all up to the version in the header.
    pub versions: Option<Vec<u32>>,
}

/// Something that was sent failed; the xid is that of the message which failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ErrorMessage {
    /// The type, such as [`ErrorMessage::HELLO_FAILED`].
    pub kind: u16,
    /// The code, by type. For an experimenter's error, its own type.
    pub code: u16,
    /// At least 64 bytes of the message that failed, if it had as many; a text for a failed hello.
    pub data: Vec<u8>,
}

/// What a switch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Features {
    /// The switch's number; Open vSwitch takes the bridge's MAC address.
    pub datapath: u64,
    /// How many packets it keeps.
    pub buffers: u32,
    /// How many tables it has.
    pub tables: u8,
    /// Which of its connections this is: 0 the main one.
    pub auxiliary: u8,
    /// What it can do, a bit each.
    pub capabilities: u32,
}

/// Which role a controller has at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role {
    /// The role.
    pub role: ControllerRole,
    /// The controller's number (1.5); None: it has none.
    pub short_id: Option<u16>,
    /// Elections so far: a switch refuses older ones.
    pub generation: u64,
}

/// What a controller may do at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControllerRole {
    /// Asks for the present role.
    NoChange,
    /// As any other.
    Equal,
    /// The only one that may change the switch.
    Master,
    /// It may only read.
    Slave,
}

/// A packet to the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PacketIn {
    /// Where the switch keeps it.
    pub buffer: Option<u32>,
    /// The packet's length, which may be more than that of the data.
    pub length: u16,
    /// Why: 0 no match, 1 an action.
    pub reason: u8,
    /// In which table.
    pub table: u8,
    /// The cookie of the flow.
    pub cookie: u64,
    /// The fields that are not in the packet: the port, registers.
    pub fields: Match,
    /// The packet, or its beginning.
    pub data: Vec<u8>,
}

/// A packet from the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PacketOut {
    /// Where the switch has kept it.
    pub buffer: Option<u32>,
    /// The fields that are not in the packet: in 1.3 exactly the port, in 1.5 the port and others.
    pub fields: Match,
    /// What happens to it.
    pub actions: Vec<Action>,
    /// The packet, if the switch has not kept it.
    pub data: Vec<u8>,
}

const VERSION_BITMAP: u16 = 1;

impl Hello {
    /// One that speaks these versions.
    pub fn of(versions: &[Version]) -> Self {
        Self { versions: Some(vec![versions.iter().fold(0, |bits, version| bits | 1 << version.wire())]) }
    }

    /// The highest of these versions that it speaks; `header` is the version in its header, which is the only one if it has no list.
    pub fn highest_common(&self, header: u8, versions: &[Version]) -> Option<Version> {
        let speaks = |version: &Version| match &self.versions {
            Some(words) => words.first().is_some_and(|word| word >> version.wire() & 1 != 0),
            None => {
                let highest = versions.iter().max().map_or(0, |it| it.wire());
                version.wire() == header.min(highest)
            }
        };
        versions.iter().copied().filter(speaks).max()
    }

    /// The wire versions that it speaks, ascending.
    pub fn spoken(&self, header: u8) -> Vec<u8> {
        let Some(words) = &self.versions else { return vec![header] };
        let bits = words.first().copied().unwrap_or(0);
        (0..32).filter(|bit| bits >> bit & 1 != 0).collect()
    }

    /// Appends the body of the message.
    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let Some(versions) = &self.versions else { return Ok(()) };
        let start = out.len();
        put16(out, VERSION_BITMAP);
        put16(out, 0);
        versions.iter().for_each(|&word| put32(out, word));
        patch_length(out, start, start + 2, "the versions of a hello")?;
        pad(out, start);
        Ok(())
    }

    /// Reads the body of the message. Unknown elements are ignored, as the specification asks.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let mut it = Self::default();
        while !reader.is_empty() {
            let (kind, mut body) = reader.tlv(true)?;
            if kind == VERSION_BITMAP && it.versions.is_none() {
                let mut words = Vec::new();
                while !body.is_empty() {
                    words.push(body.u32()?);
                }
                it.versions = Some(words);
            }
        }
        Ok(it)
    }
}

impl ErrorMessage {
    /// The hello failed.
    pub const HELLO_FAILED: u16 = 0;
    /// Code of a failed hello: no version in common.
    pub const INCOMPATIBLE: u16 = 0;
    /// The request was not understood or not allowed.
    pub const BAD_REQUEST: u16 = 1;
    /// A flow-mod failed.
    pub const FLOW_MOD_FAILED: u16 = 5;
    /// A group-mod failed.
    pub const GROUP_MOD_FAILED: u16 = 6;

    /// The name of the type in the specification.
    pub fn kind_name(&self) -> Option<&'static str> {
        const NAMES: [&str; 18] = [
            "HELLO_FAILED",
            "BAD_REQUEST",
            "BAD_ACTION",
            "BAD_INSTRUCTION",
            "BAD_MATCH",
            "FLOW_MOD_FAILED",
            "GROUP_MOD_FAILED",
            "PORT_MOD_FAILED",
            "TABLE_MOD_FAILED",
            "QUEUE_OP_FAILED",
            "SWITCH_CONFIG_FAILED",
            "ROLE_REQUEST_FAILED",
            "METER_MOD_FAILED",
            "TABLE_FEATURES_FAILED",
            "BAD_PROPERTY",
            "ASYNC_CONFIG_FAILED",
            "FLOW_MONITOR_FAILED",
            "BUNDLE_FAILED",
        ];
        if self.kind == 0xffff { Some("EXPERIMENTER") } else { NAMES.get(usize::from(self.kind)).copied() }
    }

    /// Appends the body of the message.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        put16(out, self.kind);
        put16(out, self.code);
        out.extend_from_slice(&self.data);
    }

    /// Reads the body of the message.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self { kind: reader.u16()?, code: reader.u16()?, data: reader.remainder().to_vec() })
    }
}

impl fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind_name() {
            Some(name) => write!(f, "{name}, code {}", self.code),
            None => write!(f, "error type {}, code {}", self.kind, self.code),
        }
    }
}

impl Features {
    /// Appends the body of the message.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        put64(out, self.datapath);
        put32(out, self.buffers);
        put8(out, self.tables);
        put8(out, self.auxiliary);
        zeros(out, 2);
        put32(out, self.capabilities);
        zeros(out, 4);
    }

    /// Reads the body of the message.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (datapath, buffers) = (reader.u64()?, reader.u32()?);
        let (tables, auxiliary) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let capabilities = reader.u32()?;
        reader.skip(4)?;
        Ok(Self { datapath, buffers, tables, auxiliary, capabilities })
    }
}

impl Role {
    /// Appends the body of the message.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        put32(out, self.role as u32);
        match (version, self.short_id) {
            (Version::V13, Some(_)) => return Err(EmitError::NotInVersion { version, what: "short id of a controller" }),
            (Version::V13, None) => put16(out, 0),
            (Version::V15, id) => put16(out, id.unwrap_or(u16::MAX)),
        }
        zeros(out, 2);
        put64(out, self.generation);
        Ok(())
    }

    /// Reads the body of the message.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let role = match reader.u32()? {
            0 => ControllerRole::NoChange,
            1 => ControllerRole::Equal,
            2 => ControllerRole::Master,
            3 => ControllerRole::Slave,
            other => return Err(ParseError::Value { part: "a controller's role", given: other.into() }),
        };
        let short_id = Some(reader.u16()?).filter(|&id| version == Version::V15 && id != u16::MAX);
        reader.skip(2)?;
        Ok(Self { role, short_id, generation: reader.u64()? })
    }
}

impl PacketIn {
    /// The port on which it came.
    pub fn in_port(&self) -> Option<u32> {
        self.fields.in_port()
    }

    /// Appends the body of the message.
    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        put32(out, self.buffer.unwrap_or(u32::MAX));
        put16(out, self.length);
        put8(out, self.reason);
        put8(out, self.table);
        put64(out, self.cookie);
        self.fields.emit(out)?;
        zeros(out, 2);
        out.extend_from_slice(&self.data);
        Ok(())
    }

    /// Reads the body of the message.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (buffer, length) = (reader.optional_u32()?, reader.u16()?);
        let (reason, table, cookie) = (reader.u8()?, reader.u8()?, reader.u64()?);
        let fields = Match::parse(reader)?;
        reader.skip(2)?;
        Ok(Self { buffer, length, reason, table, cookie, fields, data: reader.remainder().to_vec() })
    }
}

impl PacketOut {
    /// A packet that appears to have come on a port; [`port::CONTROLLER`](super::port::CONTROLLER) if on none.
    pub fn new(in_port: u32, actions: Vec<Action>, data: Vec<u8>) -> Self {
        Self { buffer: None, fields: Match::of([Field::in_port(in_port)]), actions, data }
    }

    /// Appends the body of the message.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        put32(out, self.buffer.unwrap_or(u32::MAX));
        if version == Version::V13 {
            let in_port = self.fields.in_port().filter(|_| self.fields.fields().len() == 1);
            put32(out, in_port.ok_or(EmitError::NotInVersion { version, what: "packet-out with other fields than the port" })?);
        }
        let length = out.len();
        put16(out, 0);
        match version {
            Version::V13 => zeros(out, 6),
            Version::V15 => {
                zeros(out, 2);
                self.fields.emit(out)?;
            }
        }
        let actions = out.len();
        emit_list(&self.actions, version, out)?;
        let bytes = out.len() - actions;
        patch(out, length, bytes, "the actions of a packet-out")?;
        out.extend_from_slice(&self.data);
        Ok(())
    }

    /// Reads the body of the message.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let buffer = reader.optional_u32()?;
        let (length, fields) = match version {
            Version::V13 => {
                let fields = Match::of([Field::in_port(reader.u32()?)]);
                let length = reader.u16()?;
                reader.skip(6)?;
                (length, fields)
            }
            Version::V15 => {
                let length = reader.u16()?;
                reader.skip(2)?;
                (length, Match::parse(reader)?)
            }
        };
        let actions = parse_list(version, reader.sub(length.into(), "the actions of a packet-out")?)?;
        Ok(Self { buffer, fields, actions, data: reader.remainder().to_vec() })
    }
}
