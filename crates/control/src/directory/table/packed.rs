//! A mapping in one cache line.
//!
//! ```text
//!   0            8                        32           40      46     48       52     56     60    61     62    64
//!   +------------+------------------------+------------+-------+------+--------+------+------+-----+------+-----+
//!   | generation | key, padded with zeros | locator    | MAC   |group |service |owner |lease |kind | MAC? |load |
//!   +------------+------------------------+------------+-------+------+--------+------+------+-----+------+-----+
//! ```
//! What does not fit (IPv6 locators, groups) is in a list of its own, and the locator's bytes are its place there.

use weft_fabric::{MacAddr, TenantId};

use crate::directory::key::{
    Generation, GroupAddresses, GroupId, Key, Locator, MacSpace, Mapping, PrincipalId, ServiceId, Value,
};

/// A key's bytes as in the protocol, padded with zeros, as big-endian words: they compare as the bytes do.
pub type KeyWords = [u64; 3];

/// A mapping, a group or a tombstone.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Entry {
    /// The generation.
    pub generation: Generation,
    /// The key.
    pub key: KeyWords,
    locator: [u8; 8],
    mac: [u8; 6],
    group: u16,
    service: u32,
    owner: u32,
    lease_ms: u32,
    kind: Kind,
    has_mac: bool,
    /// The last load that found the key.
    pub load: u16,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Tombstone,
    V4,
    Edge,
    Large,
}

/// What a live key stands for, in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundValue<'a> {
    /// A mapping.
    Mapping(Mapping),
    /// A group's addresses.
    Group(&'a GroupAddresses),
}

impl FoundValue<'_> {
    /// The same, owned.
    pub fn to_value(&self) -> Value {
        match *self {
            Self::Mapping(mapping) => Value::Mapping(mapping),
            Self::Group(addresses) => Value::Group(addresses.clone()),
        }
    }
}

/// Values that do not fit into an entry.
#[derive(Clone, Debug, Default)]
pub struct Large {
    values: Vec<Option<Box<Value>>>,
    free: Vec<u32>,
}

impl Large {
    fn insert(&mut self, value: Value) -> u32 {
        if let Some(at) = self.free.pop() {
            self.values[at as usize] = Some(Box::new(value));
            return at;
        }
        self.values.push(Some(Box::new(value)));
        (self.values.len() - 1) as u32
    }

    fn remove(&mut self, at: u32) {
        self.values[at as usize] = None;
        self.free.push(at);
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> usize {
        let boxes = (self.values.len() - self.free.len()) * size_of::<Value>();
        boxes + self.values.capacity() * size_of::<Option<Box<Value>>>() + self.free.capacity() * 4
    }
}

impl Entry {
    /// A tombstone without a generation, to be [`set`](Self::set).
    pub const fn new(key: KeyWords) -> Self {
        Self {
            generation: Generation(0),
            key,
            locator: [0; 8],
            mac: [0; 6],
            group: 0,
            service: 0,
            owner: 0,
            lease_ms: 0,
            kind: Kind::Tombstone,
            has_mac: false,
            load: 0,
        }
    }

    /// Makes it `value`; `None` is a tombstone.
    pub fn set(&mut self, generation: Generation, value: Option<&Value>, large: &mut Large) {
        if self.kind == Kind::Large {
            large.remove(self.large_at());
        }
        let load = self.load;
        *self = Self { generation, load, ..Self::new(self.key) };
        match value {
            None => {}
            Some(Value::Mapping(mapping)) if self.set_mapping(mapping) => {}
            Some(value) => {
                self.kind = Kind::Large;
                self.locator[..4].copy_from_slice(&large.insert(value.clone()).to_be_bytes());
            }
        }
    }

    /// False if there is no room for it.
    fn set_mapping(&mut self, mapping: &Mapping) -> bool {
        match mapping.locator {
            Locator::V6(_) => return false,
            Locator::V4(ip) => {
                self.kind = Kind::V4;
                self.locator[..4].copy_from_slice(&ip.octets());
            }
            Locator::Edge { switch, port } => {
                self.kind = Kind::Edge;
                self.locator[..6].copy_from_slice(&switch.0);
                self.locator[6..].copy_from_slice(&port.to_be_bytes());
            }
        }
        self.has_mac = mapping.mac.is_some();
        self.mac = mapping.mac.map_or([0; 6], |mac| mac.0);
        self.group = mapping.group.0;
        self.service = mapping.service.0;
        self.owner = mapping.owner.0;
        self.lease_ms = mapping.lease_ms;
        true
    }

    /// What it stands for; `None` is a tombstone.
    #[inline]
    pub fn value<'a>(&self, large: &'a Large) -> Option<FoundValue<'a>> {
        let [a, b, c, d, e, f, g, h] = self.locator;
        let locator = match self.kind {
            Kind::Tombstone => return None,
            Kind::V4 => Locator::V4([a, b, c, d].into()),
            Kind::Edge => Locator::Edge { switch: MacAddr([a, b, c, d, e, f]), port: u16::from_be_bytes([g, h]) },
            Kind::Large => {
                let value = large.values[self.large_at() as usize].as_deref().expect("an entry's large value is there");
                return Some(match value {
                    Value::Mapping(mapping) => FoundValue::Mapping(*mapping),
                    Value::Group(addresses) => FoundValue::Group(addresses),
                });
            }
        };
        Some(FoundValue::Mapping(Mapping {
            locator,
            mac: self.has_mac.then_some(MacAddr(self.mac)),
            group: GroupId(self.group),
            service: ServiceId(self.service),
            owner: PrincipalId(self.owner),
            lease_ms: self.lease_ms,
        }))
    }

    fn large_at(&self) -> u32 {
        let [a, b, c, d, ..] = self.locator;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// A key as words.
#[inline]
pub fn pack_key(key: &Key) -> KeyWords {
    let wide = |kind: u64, tenant: TenantId, space: MacSpace| kind << 56 | u64::from(tenant.0) << 32 | u64::from(space.0);
    let v6 = |ip: u128| ((ip >> 64) as u64, ip as u64);
    match *key {
        Key::App4(ip) => [1 << 56 | u64::from(ip.to_bits()) << 24, 0, 0],
        Key::App6(ip) => {
            // The kind, then 16 bytes: each word takes the last byte of what is before it.
            let (high, low) = v6(ip.to_bits());
            [2 << 56 | high >> 8, high << 56 | low >> 8, low << 56]
        }
        Key::TenantMac(tenant, space, MacAddr([a, b, c, d, e, f])) => {
            [wide(3, tenant, space), u64::from_be_bytes([a, b, c, d, e, f, 0, 0]), 0]
        }
        Key::TenantIp4(tenant, space, ip) => [wide(4, tenant, space), u64::from(ip.to_bits()) << 32, 0],
        Key::TenantIp6(tenant, space, ip) => {
            let (high, low) = v6(ip.to_bits());
            [wide(5, tenant, space), high, low]
        }
        Key::Group(group) => [6 << 56 | u64::from(group.0) << 40, 0, 0],
    }
}

/// The key that [`pack_key`] made words of.
pub fn unpack_key([first, second, third]: KeyWords) -> Key {
    let (tenant, space) = (TenantId((first >> 32) as u32 & 0xff_ffff), MacSpace(first as u32));
    let v6 = |high: u64, low: u64| (u128::from(high) << 64 | u128::from(low)).into();
    match first >> 56 {
        1 => Key::App4(((first >> 24) as u32).into()),
        2 => Key::App6(v6(first << 8 | second >> 56, second << 8 | third >> 56)),
        3 => {
            let [a, b, c, d, e, f, ..] = second.to_be_bytes();
            Key::TenantMac(tenant, space, MacAddr([a, b, c, d, e, f]))
        }
        4 => Key::TenantIp4(tenant, space, ((second >> 32) as u32).into()),
        5 => Key::TenantIp6(tenant, space, v6(second, third)),
        _ => Key::Group(GroupId((first >> 40) as u16)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::directory::testing::{any_key, any_value_of};
    use crate::wire::directory::emit_key;

    #[test]
    fn an_entry_is_a_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    proptest! {
        #[test]
        fn keys_pack_as_their_bytes(a in any_key(), b in any_key()) {
            prop_assert_eq!(unpack_key(pack_key(&a)), a);
            let bytes = |key: &Key| {
                let mut bytes = Vec::new();
                emit_key(key, &mut bytes);
                bytes
            };
            prop_assert_eq!(pack_key(&a).cmp(&pack_key(&b)), bytes(&a).cmp(&bytes(&b)));
        }

        #[test]
        fn values_come_back(steps in prop::collection::vec(any_key().prop_flat_map(|key| prop::option::of(any_value_of(key))), 1..8)) {
            let mut large = Large::default();
            let mut entry = Entry::new([0; 3]);
            for (at, value) in steps.iter().enumerate() {
                entry.set(Generation(at as u64), value.as_ref(), &mut large);
                prop_assert_eq!(entry.value(&large).map(|found| found.to_value()), value.clone());
                prop_assert!(large.values.len() <= 1, "places are used again");
            }
        }
    }
}
