//! Groups: several buckets of actions of which a packet takes one or all (1.3.5, section 7.3.4.2; 1.5.1, section 7.3.4.3).
//!
//! ```text
//!   group-mod:  command u16 | type u8 | 0 | group u32 | [1.5: length of buckets u16 | 0 u16 | command's bucket u32] | buckets | [properties]
//!   bucket 1.3: length u16 | weight u16 | watch port u32 | watch group u32 | 0 u32 | actions
//!   bucket 1.5: length u16 | length of actions u16 | bucket u32 | actions | properties (0 weight, 1 watch port, 2 watch group)
//!
//!   selection method (property 0xffff of a group): experimenter 0x154d u32 | 1 u32 | 0 u32 | name 16 | parameter u64 | fields
//!       dp_hash   parameter: hash algorithm u32 | basis u32
//!       hash      parameter: basis u64; fields: those that are hashed, each value the mask of its bits
//! ```

use super::Version;
use super::action::{Action, emit_list, parse_list};
use super::error::{EmitError, ParseError};
use super::field::Field;
use super::reader::{Reader, pad, patch, patch_length, put8, put16, put32, put64, zeros};

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its number.
    pub id: u32,
    /// Which buckets a packet takes.
    pub kind: GroupKind,
    /// The buckets.
    pub buckets: Vec<Bucket>,
    /// How a select group chooses; None: the switch's own choice (1.5 alone has others).
    pub selection: Option<Selection>,
    /// Any other property (1.5).
    pub other: Vec<Property>,
}

/// Which buckets of a group a packet takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// A copy takes each.
    All,
    /// One of them, chosen by a hash or as the selection states.
    Select,
    /// The only one.
    Indirect,
    /// The first whose port or group is up.
    FastFailover,
}

/// A list of actions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Its number in the group. 1.3 has none: the position in the list.
    pub id: u32,
    /// Its share of the packets of a select group.
    pub weight: u16,
    /// It is used only while this port is up.
    pub watch_port: Option<u32>,
    /// It is used only while this group has a bucket that is up.
    pub watch_group: Option<u32>,
    /// What it does.
    pub actions: Vec<Action>,
    /// Any other property (1.5).
    pub other: Vec<Property>,
}

/// How a select group chooses a bucket: the extension of Open vSwitch to 1.5.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// By the data path's own hash of the flow.
    DpHash {
        /// Which hash; 0 is a hash of the five-tuple, 1 a symmetric one.
        algorithm: u32,
        /// What it begins with: a different one for each switch.
        basis: u32,
    },
    /// By a hash of these fields.
    Hash {
        /// What it begins with.
        basis: u64,
        /// Each value is the mask of the bits that are hashed.
        fields: Vec<Field>,
    },
}

/// A property that Weft does not use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Property {
    /// Its type; with 0xffff, the body begins with the experimenter.
    pub kind: u16,
    /// What follows the length, without padding.
    pub body: Vec<u8>,
}

/// A change of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupCommand,
    /// The group; deleting takes its number alone.
    pub group: Group,
}

/// What a group-mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupCommand {
    /// Adds the group.
    Add,
    /// Replaces all of it.
    Modify,
    /// Deletes it, or [`ALL_GROUPS`], and the flows that use it.
    Delete,
    /// Adds buckets behind one (1.5).
    InsertBucket(CommandBucket),
    /// Removes buckets (1.5).
    RemoveBucket(CommandBucket),
}

/// Which bucket a command means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandBucket {
    /// The bucket of this number.
    Id(u32),
    /// Before the first, or the first.
    First,
    /// Behind the last, or the last.
    Last,
    /// All.
    All,
}

/// Every group.
pub const ALL_GROUPS: u32 = 0xffff_fffc;

const NETRONOME: u32 = 0x154d;
const SELECTION_METHOD: u32 = 1;
const EXPERIMENTER: u16 = 0xffff;
const WEIGHT: u16 = 0;
const WATCH_PORT: u16 = 1;
const WATCH_GROUP: u16 = 2;
const INSERT_BUCKET: u16 = 3;
const REMOVE_BUCKET: u16 = 5;

impl Group {
    /// A group without a selection.
    pub const fn new(id: u32, kind: GroupKind, buckets: Vec<Bucket>) -> Self {
        Self { id, kind, buckets, selection: None, other: Vec::new() }
    }
}

impl GroupMod {
    /// Adds a group.
    pub const fn add(group: Group) -> Self {
        Self { command: GroupCommand::Add, group }
    }

    /// Replaces a group.
    pub const fn modify(group: Group) -> Self {
        Self { command: GroupCommand::Modify, group }
    }

    /// Deletes a group, or [`ALL_GROUPS`].
    pub const fn delete(id: u32) -> Self {
        Self { command: GroupCommand::Delete, group: Group::new(id, GroupKind::All, Vec::new()) }
    }

    /// Appends the body of the message.
    pub(super) fn emit(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let (command, bucket) = match self.command {
            GroupCommand::Add => (0, CommandBucket::All),
            GroupCommand::Modify => (1, CommandBucket::All),
            GroupCommand::Delete => (2, CommandBucket::All),
            GroupCommand::InsertBucket(it) => (INSERT_BUCKET, it),
            GroupCommand::RemoveBucket(it) => (REMOVE_BUCKET, it),
        };
        if version == Version::V13 && command > 2 {
            return Err(EmitError::NotInVersion { version, what: "inserting or removing of buckets" });
        }
        put16(out, command);
        put8(out, self.group.kind as u8);
        put8(out, 0);
        put32(out, self.group.id);
        let length = out.len();
        if version == Version::V15 {
            put32(out, 0);
            put32(out, bucket.wire());
        }
        self.group.emit_contents(version, length, out)
    }

    /// Reads the body of the message.
    pub(super) fn parse(version: Version, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (command, kind) = (reader.u16()?, GroupKind::parse(reader.u8()?)?);
        reader.skip(1)?;
        let id = reader.u32()?;
        let wrong = Err(ParseError::Value { part: "the command of a group-mod", given: command.into() });
        if version == Version::V13 {
            let command = match command {
                0 => GroupCommand::Add,
                1 => GroupCommand::Modify,
                2 => GroupCommand::Delete,
                _ => return wrong,
            };
            return Ok(Self { command, group: Group::parse_contents(version, id, kind, reader.rest.len(), reader)? });
        }
        let length = reader.u16()?;
        reader.skip(2)?;
        let bucket = CommandBucket::of(reader.u32()?);
        let command = match command {
            0 => GroupCommand::Add,
            1 => GroupCommand::Modify,
            2 => GroupCommand::Delete,
            INSERT_BUCKET => GroupCommand::InsertBucket(bucket),
            REMOVE_BUCKET => GroupCommand::RemoveBucket(bucket),
            _ => return wrong,
        };
        Ok(Self { command, group: Group::parse_contents(version, id, kind, length.into(), reader)? })
    }
}

impl Group {
    /// Appends buckets and properties, and the length of the buckets at `length` in 1.5.
    pub(super) fn emit_contents(&self, version: Version, length: usize, out: &mut Vec<u8>) -> Result<(), EmitError> {
        if version == Version::V13 && (self.selection.is_some() || !self.other.is_empty()) {
            return Err(EmitError::NotInVersion { version, what: "selection method or other property of a group" });
        }
        let start = out.len();
        for bucket in &self.buckets {
            bucket.emit(self.kind, version, out)?;
        }
        if version == Version::V15 {
            let bytes = out.len() - start;
            patch(out, length, bytes, "the buckets of a group")?;
            if let Some(selection) = &self.selection {
                selection.emit(out)?;
            }
            emit_properties(&self.other, out)?;
        }
        Ok(())
    }

    /// Reads `length` bytes of buckets, and in 1.5 properties until nothing is left.
    pub(super) fn parse_contents(
        version: Version,
        id: u32,
        kind: GroupKind,
        length: usize,
        reader: &mut Reader<'_>,
    ) -> Result<Self, ParseError> {
        let mut it = Self::new(id, kind, Vec::new());
        let mut buckets = reader.sub(length, "the buckets of a group")?;
        while !buckets.is_empty() {
            let position = it.buckets.len() as u32;
            it.buckets.push(Bucket::parse(kind, version, position, &mut buckets)?);
        }
        while !reader.is_empty() {
            let (kind, body) = reader.tlv(true)?;
            match Selection::parse(kind, body)? {
                Some(selection) if it.selection.is_none() => it.selection = Some(selection),
                _ => it.other.push(Property { kind, body: body.rest.to_vec() }),
            }
        }
        Ok(it)
    }
}

impl GroupKind {
    pub(super) fn parse(byte: u8) -> Result<Self, ParseError> {
        let all = [Self::All, Self::Select, Self::Indirect, Self::FastFailover];
        all.get(usize::from(byte)).copied().ok_or(ParseError::Value { part: "the type of a group", given: byte.into() })
    }

    /// Of a bucket of 1.5 that does not state its weight.
    const fn default_weight(self) -> u16 {
        matches!(self, Self::Select) as u16
    }
}

impl CommandBucket {
    const fn wire(self) -> u32 {
        match self {
            Self::Id(id) => id,
            Self::First => 0xffff_fffd,
            Self::Last => 0xffff_fffe,
            Self::All => 0xffff_ffff,
        }
    }

    const fn of(number: u32) -> Self {
        match number {
            0xffff_fffd => Self::First,
            0xffff_fffe => Self::Last,
            0xffff_ffff => Self::All,
            id => Self::Id(id),
        }
    }
}

impl Bucket {
    /// A bucket that sends to a port, with weight 1, and is used only while the port is up.
    pub fn to_port(id: u32, port: u32) -> Self {
        Self { id, weight: 1, watch_port: Some(port), watch_group: None, actions: vec![Action::output(port)], other: Vec::new() }
    }

    fn emit(&self, kind: GroupKind, version: Version, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        let watched = [(WATCH_PORT, self.watch_port), (WATCH_GROUP, self.watch_group)];
        put16(out, 0);
        if version == Version::V13 {
            if !self.other.is_empty() {
                return Err(EmitError::NotInVersion { version, what: "other property of a bucket" });
            }
            put16(out, self.weight);
            for (_, it) in watched {
                put32(out, it.unwrap_or(u32::MAX));
            }
            zeros(out, 4);
            emit_list(&self.actions, version, out)?;
            return patch_length(out, start, start, "a bucket");
        }
        put16(out, 0);
        put32(out, self.id);
        let actions = out.len();
        emit_list(&self.actions, version, out)?;
        patch_length(out, actions, start + 2, "the actions of a bucket")?;
        if kind == GroupKind::Select || self.weight != kind.default_weight() {
            put16(out, WEIGHT);
            put16(out, 8);
            put16(out, self.weight);
            put16(out, 0);
        }
        for (kind, it) in watched {
            if let Some(number) = it {
                put16(out, kind);
                put16(out, 8);
                put32(out, number);
            }
        }
        emit_properties(&self.other, out)?;
        patch_length(out, start, start, "a bucket")
    }

    fn parse(kind: GroupKind, version: Version, position: u32, reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let given = usize::from(reader.u16()?);
        let length = given.checked_sub(2).ok_or(ParseError::Length { part: "a bucket", given })?;
        let mut body = reader.sub(length, "a bucket")?;
        if version == Version::V13 {
            let (weight, watch_port, watch_group) = (body.u16()?, body.optional_u32()?, body.optional_u32()?);
            body.skip(4)?;
            let actions = parse_list(version, body)?;
            return Ok(Self { id: position, weight, watch_port, watch_group, actions, other: Vec::new() });
        }
        let (length, id) = (body.u16()?, body.u32()?);
        let actions = parse_list(version, body.sub(length.into(), "the actions of a bucket")?)?;
        let weight = kind.default_weight();
        let mut it = Self { id, weight, watch_port: None, watch_group: None, actions, other: Vec::new() };
        while !body.is_empty() {
            let (kind, mut value) = body.tlv(true)?;
            match kind {
                WEIGHT => {
                    it.weight = value.u16()?;
                    value.skip(2)?;
                }
                WATCH_PORT => it.watch_port = value.optional_u32()?,
                WATCH_GROUP => it.watch_group = value.optional_u32()?,
                _ => it.other.push(Property { kind, body: value.remainder().to_vec() }),
            }
            value.end()?;
        }
        Ok(it)
    }
}

impl Selection {
    fn emit(&self, out: &mut Vec<u8>) -> Result<(), EmitError> {
        let start = out.len();
        put16(out, EXPERIMENTER);
        put16(out, 0);
        for it in [NETRONOME, SELECTION_METHOD, 0] {
            put32(out, it);
        }
        out.extend_from_slice(match self {
            Self::DpHash { .. } => &DP_HASH,
            Self::Hash { .. } => &HASH,
        });
        match self {
            Self::DpHash { algorithm, basis } => {
                put32(out, *algorithm);
                put32(out, *basis);
            }
            Self::Hash { basis, fields } => {
                put64(out, *basis);
                fields.iter().for_each(|field| field.emit(out));
            }
        }
        patch_length(out, start, start + 2, "the selection method of a group")?;
        pad(out, start);
        Ok(())
    }

    /// Reads a property; None if it is another one, or names another method.
    fn parse(kind: u16, mut body: Reader<'_>) -> Result<Option<Self>, ParseError> {
        if kind != EXPERIMENTER || body.u32()? != NETRONOME || body.u32()? != SELECTION_METHOD {
            return Ok(None);
        }
        body.skip(4)?;
        let name = body.array::<16>()?;
        if name == DP_HASH && body.rest.len() == 8 {
            return Ok(Some(Self::DpHash { algorithm: body.u32()?, basis: body.u32()? }));
        }
        if name != HASH {
            return Ok(None);
        }
        let basis = body.u64()?;
        let mut fields = Vec::new();
        while !body.is_empty() {
            fields.push(Field::parse(&mut body)?);
        }
        Ok(Some(Self::Hash { basis, fields }))
    }
}

const DP_HASH: [u8; 16] = *b"dp_hash\0\0\0\0\0\0\0\0\0";
const HASH: [u8; 16] = *b"hash\0\0\0\0\0\0\0\0\0\0\0\0";

/// Appends properties, each padded.
pub(super) fn emit_properties(all: &[Property], out: &mut Vec<u8>) -> Result<(), EmitError> {
    for it in all {
        let start = out.len();
        put16(out, it.kind);
        put16(out, 0);
        out.extend_from_slice(&it.body);
        patch_length(out, start, start + 2, "a property")?;
        pad(out, start);
    }
    Ok(())
}
