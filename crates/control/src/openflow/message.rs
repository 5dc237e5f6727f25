//! A message: the header, and a body by its type.

use super::Version;
use super::error::{EmitError, ParseError};
use super::flow::{FlowMod, FlowRemoved};
use super::group::GroupMod;
use super::multipart::{MultipartReply, MultipartRequest};
use super::port::PortStatus;
use super::reader::{Reader, patch_length, put8, put16, put32};
use super::switch::{ErrorMessage, Features, Hello, PacketIn, PacketOut, Role};

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// An answer has that of its request.
    pub xid: u32,
    /// What it says.
    pub body: Body,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// The first message of each side.
    Hello(Hello),
    /// Something failed.
    Error(ErrorMessage),
    /// Asks whether the other side is alive.
    EchoRequest(Vec<u8>),
    /// It is; the bytes of the request.
    EchoReply(Vec<u8>),
    /// A message of somebody's own.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Which.
        kind: u32,
        /// What it says.
        data: Vec<u8>,
    },
    /// Asks what the switch is.
    FeaturesRequest,
    /// What the switch is.
    FeaturesReply(Features),
    /// How the switch treats fragments, and how much of a packet it sends to the controller.
    SetConfig {
        /// Fragments: 0 as other packets, 1 drop, 2 reassemble.
        flags: u16,
        /// Bytes.
        miss_send_len: u16,
    },
    /// A packet to the controller.
    PacketIn(PacketIn),
    /// A flow has ended.
    FlowRemoved(FlowRemoved),
    /// A port has changed.
    PortStatus(PortStatus),
    /// A packet from the controller.
    PacketOut(PacketOut),
    /// Changes flows.
    FlowMod(FlowMod),
    /// Changes a group.
    GroupMod(GroupMod),
    /// Reads from the switch.
    MultipartRequest(MultipartRequest),
    /// What was read.
    MultipartReply(MultipartReply),
    /// Asks for an answer once all before it is done.
    BarrierRequest,
    /// All before the request is done.
    BarrierReply,
    /// Asks for a role.
    RoleRequest(Role),
    /// The role that the controller has.
    RoleReply(Role),
    /// A message of the specification that Weft does not use.
    Other {
        /// Its type.
        kind: u8,
        /// Its body.
        bytes: Vec<u8>,
    },
}

/// The first 8 bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The wire version.
    pub version: u8,
    /// The type.
    pub kind: u8,
    /// Bytes, the header's included.
    pub length: u16,
    /// An answer has that of its request.
    pub xid: u32,
}

/// The bytes of a header.
pub const HEADER: usize = 8;

pub(super) const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const EXPERIMENTER: u8 = 4;
const FEATURES_REQUEST: u8 = 5;
const FEATURES_REPLY: u8 = 6;
const SET_CONFIG: u8 = 9;
const PACKET_IN: u8 = 10;
const FLOW_REMOVED: u8 = 11;
const PORT_STATUS: u8 = 12;
const PACKET_OUT: u8 = 13;
const FLOW_MOD: u8 = 14;
const GROUP_MOD: u8 = 15;
const MULTIPART_REQUEST: u8 = 18;
pub(super) const MULTIPART_REPLY: u8 = 19;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;
const ROLE_REQUEST: u8 = 24;
const ROLE_REPLY: u8 = 25;

impl Header {
    /// Reads the header of the message that these bytes begin with.
    ///
    /// # Errors
    /// Too few bytes, or a length that is less than the header's.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes, "the header");
        let it = Self { version: reader.u8()?, kind: reader.u8()?, length: reader.u16()?, xid: reader.u32()? };
        if usize::from(it.length) < HEADER {
            return Err(ParseError::Length { part: "a message", given: it.length.into() });
        }
        Ok(it)
    }
}

impl Message {
    /// Reads a message: exactly these bytes. A hello may have any version in its header.
    ///
    /// # Errors
    /// [`ParseError`].
    pub fn parse(version: Version, bytes: &[u8]) -> Result<Self, ParseError> {
        let header = Header::parse(bytes)?;
        if header.version != version.wire() && header.kind != HELLO {
            return Err(ParseError::Version { given: header.version, expected: version });
        }
        Self::parse_any(version, bytes)
    }

    /// Reads a message whatever version its header has.
    pub(super) fn parse_any(version: Version, bytes: &[u8]) -> Result<Self, ParseError> {
        let header = Header::parse(bytes)?;
        if usize::from(header.length) != bytes.len() {
            return Err(ParseError::Length { part: "a message", given: header.length.into() });
        }
        let mut reader = Reader::new(&bytes[HEADER..], Body::name_of(header.kind));
        let body = Body::parse(version, header.kind, &mut reader)?;
        reader.end()?;
        Ok(Self { xid: header.xid, body })
    }

    /// Appends the message; nothing if there is an error.
    ///
    /// # Errors
    /// [`EmitError`].
    pub fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        put8(out, version.wire());
        put8(out, self.body.kind());
        put16(out, 0);
        put32(out, self.xid);
        let emitted = self.body.emit(version, out).and_then(|()| patch_length(out, start, start + 2, "a message"));
        if emitted.is_err() {
            out.truncate(start);
        }
        emitted
    }
}

impl Body {
    /// The type in the header.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => HELLO,
            Self::Error(_) => ERROR,
            Self::EchoRequest(_) => ECHO_REQUEST,
            Self::EchoReply(_) => ECHO_REPLY,
            Self::Experimenter { .. } => EXPERIMENTER,
            Self::FeaturesRequest => FEATURES_REQUEST,
            Self::FeaturesReply(_) => FEATURES_REPLY,
            Self::SetConfig { .. } => SET_CONFIG,
            Self::PacketIn(_) => PACKET_IN,
            Self::FlowRemoved(_) => FLOW_REMOVED,
            Self::PortStatus(_) => PORT_STATUS,
            Self::PacketOut(_) => PACKET_OUT,
            Self::FlowMod(_) => FLOW_MOD,
            Self::GroupMod(_) => GROUP_MOD,
            Self::MultipartRequest(_) => MULTIPART_REQUEST,
            Self::MultipartReply(_) => MULTIPART_REPLY,
            Self::BarrierRequest => BARRIER_REQUEST,
            Self::BarrierReply => BARRIER_REPLY,
            Self::RoleRequest(_) => ROLE_REQUEST,
            Self::RoleReply(_) => ROLE_REPLY,
            Self::Other { kind, .. } => *kind,
        }
    }

    /// The name of the type.
    pub const fn name(&self) -> &'static str {
        Self::name_of(self.kind())
    }

    fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        match self {
            Self::Hello(it) => it.emit(out)?,
            Self::Error(it) => it.emit(out),
            Self::EchoRequest(bytes) | Self::EchoReply(bytes) | Self::Other { bytes, .. } => out.extend_from_slice(bytes),
            Self::Experimenter { experimenter, kind, data } => {
                put32(out, *experimenter);
                put32(out, *kind);
                out.extend_from_slice(data);
            }
            Self::FeaturesRequest | Self::BarrierRequest | Self::BarrierReply => {}
            Self::FeaturesReply(it) => it.emit(out),
            Self::SetConfig { flags, miss_send_len } => {
                put16(out, *flags);
                put16(out, *miss_send_len);
            }
            Self::PacketIn(it) => it.emit(out)?,
            Self::FlowRemoved(it) => it.emit(version, out)?,
            Self::PortStatus(it) => it.emit(version, out)?,
            Self::PacketOut(it) => it.emit(version, out)?,
            Self::FlowMod(it) => it.emit(version, out)?,
            Self::GroupMod(it) => it.emit(version, out)?,
            Self::MultipartRequest(it) => it.emit(version, out)?,
            Self::MultipartReply(it) => it.emit(version, out)?,
            Self::RoleRequest(it) | Self::RoleReply(it) => it.emit(version, out)?,
        }
        Ok(())
    }

    fn parse(version: Version, kind: u8, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(match kind {
            HELLO => Self::Hello(Hello::parse(reader)?),
            ERROR => Self::Error(ErrorMessage::parse(reader)?),
            ECHO_REQUEST => Self::EchoRequest(reader.remainder().to_vec()),
            ECHO_REPLY => Self::EchoReply(reader.remainder().to_vec()),
            EXPERIMENTER => {
                let (experimenter, kind) = (reader.u32()?, reader.u32()?);
                Self::Experimenter { experimenter, kind, data: reader.remainder().to_vec() }
            }
            FEATURES_REQUEST => Self::FeaturesRequest,
            FEATURES_REPLY => Self::FeaturesReply(Features::parse(reader)?),
            SET_CONFIG => Self::SetConfig { flags: reader.u16()?, miss_send_len: reader.u16()? },
            PACKET_IN => Self::PacketIn(PacketIn::parse(reader)?),
            FLOW_REMOVED => Self::FlowRemoved(FlowRemoved::parse(version, reader)?),
            PORT_STATUS => Self::PortStatus(PortStatus::parse(version, reader)?),
            PACKET_OUT => Self::PacketOut(PacketOut::parse(version, reader)?),
            FLOW_MOD => Self::FlowMod(FlowMod::parse(version, reader)?),
            GROUP_MOD => Self::GroupMod(GroupMod::parse(version, reader)?),
            MULTIPART_REQUEST => Self::MultipartRequest(MultipartRequest::parse(version, reader)?),
            MULTIPART_REPLY => Self::MultipartReply(MultipartReply::parse(version, reader)?),
            BARRIER_REQUEST => Self::BarrierRequest,
            BARRIER_REPLY => Self::BarrierReply,
            ROLE_REQUEST => Self::RoleRequest(Role::parse(version, reader)?),
            ROLE_REPLY => Self::RoleReply(Role::parse(version, reader)?),
            _ if kind <= last_type(version) => Self::Other { kind, bytes: reader.remainder().to_vec() },
            _ => return Err(ParseError::Type(kind)),
        })
    }

    const fn name_of(kind: u8) -> &'static str {
        match kind {
            HELLO => "a hello",
            ERROR => "an error",
            ECHO_REQUEST => "an echo request",
            ECHO_REPLY => "an echo reply",
            EXPERIMENTER => "an experimenter message",
            FEATURES_REQUEST => "a features request",
            FEATURES_REPLY => "a features reply",
            SET_CONFIG => "a set-config",
            PACKET_IN => "a packet-in",
            FLOW_REMOVED => "a flow-removed",
            PORT_STATUS => "a port status",
            PACKET_OUT => "a packet-out",
            FLOW_MOD => "a flow-mod",
            GROUP_MOD => "a group-mod",
            MULTIPART_REQUEST => "a multipart request",
            MULTIPART_REPLY => "a multipart reply",
            BARRIER_REQUEST => "a barrier request",
            BARRIER_REPLY => "a barrier reply",
            ROLE_REQUEST => "a role request",
            ROLE_REPLY => "a role reply",
            _ => "a message",
        }
    }
}

/// The largest type of a version.
const fn last_type(version: Version) -> u8 {
    match version {
        Version::V13 => 29,
        Version::V15 => 35,
    }
}
