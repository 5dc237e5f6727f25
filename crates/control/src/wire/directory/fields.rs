//! The parts that messages and store records are made of: keys, values, records. All integers are big-endian.
//!
//! ```text
//!   key      kind u8 | 1: IPv4 4 | 2: IPv6 16 | 3: tenant u24, space u32, MAC 6 | 4: tenant, space, IPv4 | 5: tenant, space, IPv6 | 6: group u16
//!   value    kind u8 | mapping (kind 1 to 3, plus 0x80 with a MAC): locator, group u16, service u32, owner u32, lease u32, [MAC 6]
//!            (the locator by kind) 1: IPv4 4 | 2: IPv6 16 | 3: switch MAC 6, port u16
//!            kind 0x10: group: count u8, count x (4, IPv4 | 6, IPv6 16)
//!   record   floor u64 | count u8, count x (writer u32, number u64, before u64) | 0 (a tombstone) or value
//! ```
//! The bytes of a key are also its name in a store, so two encodings of one key must not exist: parsing refuses what emitting would not give.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_fabric::{MacAddr, TenantId};

use crate::directory::key::{
    Generation, GroupAddresses, GroupId, Key, Locator, MAX_GROUP_ADDRESSES, MAX_WRITES, MacSpace, Mapping, PrincipalId, Record,
    ServiceId, UpdateId, Value, Write,
};

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the message does.
    #[error("truncated")]
    Truncated,
    /// Bytes are left over.
    #[error("longer than its contents")]
    TooLong,
    /// The first two bytes are not `WD`.
    #[error("not a directory message")]
    Magic,
    /// Another version of the protocol.
    #[error("version {0} of the protocol; this is version {VERSION}", VERSION = super::VERSION)]
    Version(u8),
    /// No such message.
    #[error("unknown message type {0:#04x}")]
    Type(u8),
    /// A field has a value that it cannot have.
    #[error("bad {0}")]
    Field(&'static str),
}

/// Reads fields off the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    /// A byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A byte that says yes or no.
    pub fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Field("flag")),
        }
    }

    /// Nothing may be left.
    #[inline]
    pub const fn end(self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::TooLong) }
    }

    /// A key.
    #[inline]
    pub fn key(&mut self) -> Result<Key, WireError> {
        let kind = self.u8()?;
        self.key_of(kind)
    }

    /// A key, or the zero byte that stands for none.
    #[inline]
    pub fn optional_key(&mut self) -> Result<Option<Key>, WireError> {
        match self.u8()? {
            0 => Ok(None),
            kind => self.key_of(kind).map(Some),
        }
    }

    #[inline]
    fn key_of(&mut self, kind: u8) -> Result<Key, WireError> {
        Ok(match kind {
            1 => Key::App4(self.array::<4>()?.into()),
            2 => Key::App6(self.array::<16>()?.into()),
            3..=5 => {
                let [a, b, c] = self.array()?;
                let tenant = TenantId(u32::from_be_bytes([0, a, b, c]));
                let space = MacSpace(self.u32()?);
                match kind {
                    3 => Key::TenantMac(tenant, space, MacAddr(self.array()?)),
                    4 => Key::TenantIp4(tenant, space, self.array::<4>()?.into()),
                    _ => Key::TenantIp6(tenant, space, self.array::<16>()?.into()),
                }
            }
            6 => match self.u16()? {
                0 => return Err(WireError::Field("group")),
                group => Key::Group(GroupId(group)),
            },
            _ => return Err(WireError::Field("key kind")),
        })
    }

    /// A value.
    pub fn value(&mut self) -> Result<Value, WireError> {
        let kind = self.u8()?;
        self.value_of(kind)
    }

    fn value_of(&mut self, kind: u8) -> Result<Value, WireError> {
        if kind == GROUP {
            let count = usize::from(self.u8()?);
            if !(1..=MAX_GROUP_ADDRESSES).contains(&count) {
                return Err(WireError::Field("number of a group's addresses"));
            }
            return (0..count).map(|_| self.address()).collect::<Result<_, _>>().map(Value::Group);
        }
        self.mapping_of(kind).map(Value::Mapping)
    }

    #[inline]
    fn mapping_of(&mut self, kind: u8) -> Result<Mapping, WireError> {
        let locator = match kind & !HAS_MAC {
            1 => Locator::V4(self.array::<4>()?.into()),
            2 => Locator::V6(self.array::<16>()?.into()),
            3 => Locator::Edge { switch: MacAddr(self.array()?), port: self.u16()? },
            _ => return Err(WireError::Field("value kind")),
        };
        Ok(Mapping {
            locator,
            group: GroupId(self.u16()?),
            service: ServiceId(self.u32()?),
            owner: PrincipalId(self.u32()?),
            lease_ms: self.u32()?,
            mac: if kind & HAS_MAC != 0 { Some(MacAddr(self.array()?)) } else { None },
        })
    }

    /// A locator on its own.
    pub fn locator(&mut self) -> Result<Locator, WireError> {
        Ok(match self.u8()? {
            1 => Locator::V4(self.array::<4>()?.into()),
            2 => Locator::V6(self.array::<16>()?.into()),
            3 => Locator::Edge { switch: MacAddr(self.array()?), port: self.u16()? },
            _ => return Err(WireError::Field("locator kind")),
        })
    }

    /// An address and its family.
    pub(super) fn address(&mut self) -> Result<IpAddr, WireError> {
        Ok(match self.u8()? {
            4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(self.array::<16>()?)),
            _ => return Err(WireError::Field("address family")),
        })
    }

    /// A record.
    pub fn record(&mut self) -> Result<Record, WireError> {
        let floor = Generation(self.u64()?);
        let count = usize::from(self.u8()?);
        if !(1..=MAX_WRITES).contains(&count) {
            return Err(WireError::Field("number of writes"));
        }
        let write = |reader: &mut Self| {
            let update = UpdateId { writer: PrincipalId(reader.u32()?), number: reader.u64()? };
            Ok(Write { update, before: Generation(reader.u64()?) })
        };
        let writes = (0..count).map(|_| write(self)).collect::<Result<_, WireError>>()?;
        let value = match self.u8()? {
            0 => None,
            kind => Some(self.value_of(kind)?),
        };
        Ok(Record { value, writes, floor })
    }
}

const HAS_MAC: u8 = 0x80;
const GROUP: u8 = 0x10;

/// Appends a key's bytes.
#[inline]
pub fn emit_key(key: &Key, out: &mut Vec<u8>) {
    let tenant = |kind: u8, tenant: TenantId, space: MacSpace, out: &mut Vec<u8>| {
        out.push(kind);
        out.extend_from_slice(&tenant.0.to_be_bytes()[1..]);
        out.extend_from_slice(&space.0.to_be_bytes());
    };
    match *key {
        Key::App4(ip) => {
            out.push(1);
            out.extend_from_slice(&ip.octets());
        }
        Key::App6(ip) => {
            out.push(2);
            out.extend_from_slice(&ip.octets());
        }
        Key::TenantMac(id, space, mac) => {
            tenant(3, id, space, out);
            out.extend_from_slice(&mac.0);
        }
        Key::TenantIp4(id, space, ip) => {
            tenant(4, id, space, out);
            out.extend_from_slice(&ip.octets());
        }
        Key::TenantIp6(id, space, ip) => {
            tenant(5, id, space, out);
            out.extend_from_slice(&ip.octets());
        }
        Key::Group(group) => {
            out.push(6);
            out.extend_from_slice(&group.0.to_be_bytes());
        }
    }
}

/// Appends a key's bytes, or the zero byte that stands for none.
#[inline]
pub fn emit_optional_key(key: Option<&Key>, out: &mut Vec<u8>) {
    match key {
        Some(key) => emit_key(key, out),
        None => out.push(0),
    }
}

/// Appends a value's bytes.
pub fn emit_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Mapping(mapping) => emit_mapping(mapping, out),
        Value::Group(addresses) => emit_group(addresses, out),
    }
}

/// Appends the bytes of a value that is a group.
pub fn emit_group(addresses: &GroupAddresses, out: &mut Vec<u8>) {
    out.extend_from_slice(&[GROUP, addresses.len() as u8]);
    addresses.iter().for_each(|&address| emit_ip(address, out));
}

/// Appends an address and its family, which [`Reader::address`] reads.
pub(super) fn emit_ip(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
}

/// Appends the bytes of a value that is a mapping.
#[inline]
pub fn emit_mapping(mapping: &Mapping, out: &mut Vec<u8>) {
    let flag = if mapping.mac.is_some() { HAS_MAC } else { 0 };
    emit_locator_with(&mapping.locator, flag, out);
    out.extend_from_slice(&mapping.group.0.to_be_bytes());
    out.extend_from_slice(&mapping.service.0.to_be_bytes());
    out.extend_from_slice(&mapping.owner.0.to_be_bytes());
    out.extend_from_slice(&mapping.lease_ms.to_be_bytes());
    if let Some(mac) = mapping.mac {
        out.extend_from_slice(&mac.0);
    }
}

/// Appends the bytes of a locator on its own.
pub fn emit_locator(locator: &Locator, out: &mut Vec<u8>) {
    emit_locator_with(locator, 0, out);
}

#[inline]
fn emit_locator_with(locator: &Locator, flag: u8, out: &mut Vec<u8>) {
    match locator {
        Locator::V4(ip) => {
            out.push(1 | flag);
            out.extend_from_slice(&ip.octets());
        }
        Locator::V6(ip) => {
            out.push(2 | flag);
            out.extend_from_slice(&ip.octets());
        }
        Locator::Edge { switch, port } => {
            out.push(3 | flag);
            out.extend_from_slice(&switch.0);
            out.extend_from_slice(&port.to_be_bytes());
        }
    }
}

/// Appends a record's bytes.
pub fn emit_record(record: &Record, out: &mut Vec<u8>) {
    out.extend_from_slice(&record.floor.0.to_be_bytes());
    out.push(record.writes.len() as u8);
    for write in &record.writes {
        out.extend_from_slice(&write.update.writer.0.to_be_bytes());
        out.extend_from_slice(&write.update.number.to_be_bytes());
        out.extend_from_slice(&write.before.0.to_be_bytes());
    }
    match &record.value {
        Some(value) => emit_value(value, out),
        None => out.push(0),
    }
}

/// A record from a store's bytes.
pub fn parse_record(bytes: &[u8]) -> Result<Record, WireError> {
    let mut reader = Reader(bytes);
    let record = reader.record()?;
    reader.end()?;
    Ok(record)
}

/// A key from a store's bytes.
pub fn parse_key(bytes: &[u8]) -> Result<Key, WireError> {
    let mut reader = Reader(bytes);
    let key = reader.key()?;
    reader.end()?;
    Ok(key)
}

/// What many bodies begin with.
pub(super) fn emit_state(revision: Generation, policy: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&revision.0.to_be_bytes());
    out.extend_from_slice(&policy.to_be_bytes());
}
