//! What the directory is asked about, and what it knows: keys, mappings, and the records in which a store keeps them.
//!
//! ```text
//!   Key                                   Value
//!   AA (IPv4, IPv6)                  ->   Mapping: locator, MAC, group, service, owner, lease     VL2, section 4.3
//!   (tenant, MAC space, MAC)         ->   Mapping                                                 NetLord, section 3.9
//!   (tenant, MAC space, IP)          ->   Mapping                                                 NetLord, section 3.9
//!   anycast group                    ->   the anycast addresses of its intermediate switches      VL2, section 4.2.2
//! ```
//! A [`Generation`] orders all that was ever said of a key. It is the store's revision of the commit, so it never goes back, not even
//! when a key is deleted and recreated, and two updates of one key never share one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::SmallVec;
use weft_fabric::MacAddr;
use weft_fabric::TenantId;

/// Who speaks: a host's agent, a switch, a provisioning system or a directory server. Each has a key of its own (see
/// [`auth`](super::auth)); what it may do is the [`policy`](super::policy)'s to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PrincipalId(pub u32);

/// A service: the unit of isolation (VL2, section 4.2.1). 0 is "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServiceId(pub u32);

/// A group of intermediate switches that share anycast addresses (VL2, section 4.2.2). 0 is "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupId(pub u16);

/// The store's revision at which something was committed; 0 is "before everything".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

/// What a lookup names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An application address, unique in the data centre.
    App4(Ipv4Addr),
    /// The same, IPv6.
    App6(Ipv6Addr),
    /// A tenant's MAC address in one of its MAC spaces.
    TenantMac(TenantId, MacSpace, MacAddr),
    /// A tenant's IPv4 address in one of its MAC spaces.
    TenantIp4(TenantId, MacSpace, Ipv4Addr),
    /// A tenant's IPv6 address in one of its MAC spaces.
    TenantIp6(TenantId, MacSpace, Ipv6Addr),
    /// An anycast group of intermediate switches.
    Group(GroupId),
}

/// A MAC address space of a tenant (NetLord, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacSpace(pub u32);

/// Where traffic for a key is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locator {
    /// A locator address: of a ToR switch, or of the host itself.
    V4(Ipv4Addr),
    /// The same, IPv6.
    V6(Ipv6Addr),
    /// NetLord's: the edge switch and its port to the host.
    Edge {
        /// The edge switch.
        switch: MacAddr,
        /// Its port, at most 127 in NetLord's encapsulation.
        port: u16,
    },
}

/// What the directory knows of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Where it is.
    pub locator: Locator,
    /// The MAC address that answers ARP for it, if it has one of its own.
    pub mac: Option<MacAddr>,
    /// The group through whose anycast addresses it is reached; 0: none, straight to the locator.
    pub group: GroupId,
    /// The service it belongs to; 0: none.
    pub service: ServiceId,
    /// The host that it lives on; 0: none. Only this host may ask on its behalf.
    pub owner: PrincipalId,
    /// How long, in milliseconds, an agent may use the mapping while it hears nothing from the directory.
    pub lease_ms: u32,
}

/// What a key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of an address.
    Mapping(Mapping),
    /// Of a group: 1 to [`MAX_GROUP_ADDRESSES`] anycast addresses.
    Group(GroupAddresses),
}

/// The anycast addresses of a group, in the order given.
pub type GroupAddresses = SmallVec<[IpAddr; 1]>;

/// Addresses that a group has at most.
pub const MAX_GROUP_ADDRESSES: usize = 16;

/// What a store keeps of a key. A deleted key stays as a tombstone for a while, so that a late copy of an update cannot bring it back.
///
/// `writes` and `floor` distinguish a repeated update from a new one. A client that hears no answer sends the same update to another server; the
/// first copy may still be on its way. Each record names the updates that led to it, newest first, back to `floor`: an update known since
/// revision R >= `floor` that is not named has not been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the key stands for; `None` is a tombstone.
    pub value: Option<Value>,
    /// The updates that wrote this key last, newest first, at most [`MAX_WRITES`].
    pub writes: SmallVec<[Write; 1]>,
    /// Updates committed after this generation are all in `writes`.
    pub floor: Generation,
}

/// An update's name: who asked for it, and its number among his.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateId {
    /// Who asked.
    pub writer: PrincipalId,
    /// Unique among the writer's updates.
    pub number: u64,
}

/// An update that wrote a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The update.
    pub update: UpdateId,
    /// The generation that the key had before it; what it has after it is the next newer write's `before`, or the record's own generation.
    pub before: Generation,
}

/// Writes that a record names at most.
pub const MAX_WRITES: usize = 4;

impl Record {
    /// The record that `update` makes of `old`, which has generation `before`. Without an old one the key never was, or its tombstone was
    /// purged: all tombstones up to `purged` may have been.
    pub fn next(old: Option<(&Self, Generation)>, purged: Generation, update: UpdateId, value: Option<Value>) -> Self {
        let before = old.map_or(Generation(0), |(_, generation)| generation);
        let mut writes: SmallVec<[Write; 1]> = SmallVec::new();
        writes.push(Write { update, before });
        let mut floor = purged;
        if let Some((old, _)) = old {
            floor = old.floor;
            writes.extend(old.writes.iter().copied());
            while writes.len() > MAX_WRITES {
                // What the dropped write led to is where the knowledge now begins.
                floor = writes[writes.len() - 2].before;
                writes.pop();
            }
        }
        Self { value, writes, floor }
    }

    /// The generation to which `update` brought the key, if it is among the writes of this record, whose own generation is `generation`.
    pub fn applied(&self, generation: Generation, update: UpdateId) -> Option<Generation> {
        let at = self.writes.iter().position(|write| write.update == update)?;
        Some(if at == 0 { generation } else { self.writes[at - 1].before })
    }
}

impl Value {
    /// The mapping, if it is one.
    pub const fn mapping(&self) -> Option<&Mapping> {
        match self {
            Self::Mapping(mapping) => Some(mapping),
            Self::Group(_) => None,
        }
    }
}

/// The key of an application address.
impl From<IpAddr> for Key {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(ip) => Self::App4(ip),
            IpAddr::V6(ip) => Self::App6(ip),
        }
    }
}

impl Key {
    /// Whether `value` is what a key of this kind stands for.
    pub const fn fits(&self, value: &Value) -> bool {
        matches!((self, value), (Self::Group(_), Value::Group(_)) | (Self::App4(_) | Self::App6(_), Value::Mapping(_)))
            || matches!((self, value), (Self::TenantMac(..) | Self::TenantIp4(..) | Self::TenantIp6(..), Value::Mapping(_)))
    }

    /// The tenant that the key belongs to, if any.
    pub const fn tenant(&self) -> Option<TenantId> {
        match *self {
            Self::TenantMac(tenant, ..) | Self::TenantIp4(tenant, ..) | Self::TenantIp6(tenant, ..) => Some(tenant),
            Self::App4(_) | Self::App6(_) | Self::Group(_) => None,
        }
    }
}

/// The text form, which the command line reads and writes: `10.0.0.7`, `2001:db8::7`, `tenant:5/0/02:00:00:00:00:01`,
/// `tenant:5/0/10.0.0.7`, `group:3`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::App4(ip) => ip.fmt(f),
            Self::App6(ip) => ip.fmt(f),
            Self::TenantMac(tenant, space, mac) => write!(f, "tenant:{}/{}/{mac}", tenant.0, space.0),
            Self::TenantIp4(tenant, space, ip) => write!(f, "tenant:{}/{}/{ip}", tenant.0, space.0),
            Self::TenantIp6(tenant, space, ip) => write!(f, "tenant:{}/{}/{ip}", tenant.0, space.0),
            Self::Group(group) => write!(f, "group:{}", group.0),
        }
    }
}

/// `10.0.1.1`, `2001:db8::1`, or `edge:02:00:00:00:00:09/12`.
impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(ip) => ip.fmt(f),
            Self::V6(ip) => ip.fmt(f),
            Self::Edge { switch, port } => write!(f, "edge:{switch}/{port}"),
        }
    }
}

/// Why a key or locator could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not one of the forms.
    #[error("`{0}` is not a key: write an address (10.0.0.7), tenant:ID/SPACE/ADDRESS with a MAC or IP address, or group:ID")]
    Key(String),
    /// Not one of the forms.
    #[error("`{0}` is not a locator: write an address (10.0.1.1) or edge:MAC/PORT")]
    Locator(String),
}

impl std::str::FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        parse_key(text).ok_or_else(|| KeyError::Key(text.to_owned()))
    }
}

impl std::str::FromStr for Locator {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        parse_locator(text).ok_or_else(|| KeyError::Locator(text.to_owned()))
    }
}

fn parse_key(text: &str) -> Option<Key> {
    if let Some(group) = text.strip_prefix("group:") {
        return group.parse().ok().filter(|&group| group != 0).map(|group| Key::Group(GroupId(group)));
    }
    if let Some(rest) = text.strip_prefix("tenant:") {
        let mut parts = rest.splitn(3, '/');
        let tenant = TenantId::new(parts.next()?.parse().ok()?)?;
        let space = MacSpace(parts.next()?.parse().ok()?);
        let address = parts.next()?;
        if let Ok(mac) = address.parse() {
            return Some(Key::TenantMac(tenant, space, mac));
        }
        return Some(match address.parse().ok()? {
            IpAddr::V4(ip) => Key::TenantIp4(tenant, space, ip),
            IpAddr::V6(ip) => Key::TenantIp6(tenant, space, ip),
        });
    }
    Some(match text.parse().ok()? {
        IpAddr::V4(ip) => Key::App4(ip),
        IpAddr::V6(ip) => Key::App6(ip),
    })
}

fn parse_locator(text: &str) -> Option<Locator> {
    if let Some(rest) = text.strip_prefix("edge:") {
        let (switch, port) = rest.rsplit_once('/')?;
        return Some(Locator::Edge { switch: switch.parse().ok()?, port: port.parse().ok()? });
    }
    Some(match text.parse().ok()? {
        IpAddr::V4(ip) => Locator::V4(ip),
        IpAddr::V6(ip) => Locator::V6(ip),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(number: u64) -> UpdateId {
        UpdateId { writer: PrincipalId(1), number }
    }

    #[test]
    fn text_forms_read_back() {
        for text in
            ["10.0.0.7", "2001:db8::7", "tenant:5/0/02:00:00:00:00:01", "tenant:5/9/10.0.0.7", "tenant:16777215/0/::1", "group:3"]
        {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        for text in ["10.0.1.1", "::2", "edge:02:00:00:00:00:09/12"] {
            assert_eq!(text.parse::<Locator>().unwrap().to_string(), text);
        }
        for text in ["", "10.0.0", "tenant:5/0", "tenant:16777216/0/::1", "group:0", "group:70000", "edge:1/2"] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_record_names_its_last_writes_and_where_its_knowledge_begins() {
        let mut record = Record::next(None, Generation(0), update(0), None);
        for number in 1..10 {
            record = Record::next(Some((&record, Generation(number * 10))), Generation(0), update(number), None);
        }
        // Update n committed at (n + 1) * 10; the record's own generation is 100.
        let own = Generation(100);
        assert_eq!(record.applied(own, update(9)), Some(own));
        assert_eq!(record.applied(own, update(6)), Some(Generation(70)));
        assert_eq!(record.applied(own, update(5)), None);
        assert_eq!(record.floor, Generation(60), "all updates after generation 60 are named");
    }
}
