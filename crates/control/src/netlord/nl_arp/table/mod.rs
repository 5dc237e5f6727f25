//! The NL-ARP table (sections 3.9 and 4.2): where every VIF is, and which has an address. Entries never expire.
//!
//! ```text
//!   entry, 32 bytes: tenant 4 | space 4 | IPv4 4 | switch's index 4 | MAC 6 | port 1 | flags 1 | spare 8
//!   (tenant, space, MAC)  --index, 5.25 to 9 bytes--> entry        switch's index --> MAC address
//!   (tenant, space, IPv4) --index, 5.25 to 9 bytes--> entry
//!   (tenant, space, IPv6 or a further IPv4) --> address, 32 bytes --> (tenant, space, MAC)                  counted apart
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hashbrown::HashTable;
use rustc_hash::FxHashMap;
use weft_fabric::{MacAddr, TenantId};

use super::super::{EdgePort, Location, MacSpace, Vif};
use super::index::{Keyed, Slab, index_bytes};

/// The most addresses of a VIF besides its first IPv4 address; the oldest is evicted.
pub const MAX_ADDRESSES: usize = 8;

/// The table.
#[derive(Debug)]
pub struct Table {
    keyed: Keyed,
    entries: Slab<Entry>,
    by_mac: HashTable<u32>,
    by_ip4: HashTable<u32>,
    addresses: Slab<Address>,
    by_address: HashTable<u32>,
    by_owner: HashTable<u32>,
    switches: Vec<MacAddr>,
    switch_indices: FxHashMap<MacAddr, u32>,
    capacity: usize,
    /// Where the search for an entry to give up goes on.
    hand: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    tenant: TenantId,
    space: MacSpace,
    ip4: Ipv4Addr,
    switch: u32,
    mac: MacAddr,
    port: EdgePort,
    flags: u8,
    /// Up to the 32 bytes that an entry is said to have.
    _spare: [u8; 8],
}

const IN_USE: u8 = 1;
const HAS_IP4: u8 = 2;
/// It was asked for since the hand came by.
const WANTED: u8 = 4;

#[derive(Clone, Copy, Debug)]
struct Address {
    ip: [u8; 16],
    /// 24 bits, and [`IS_V4`].
    tenant: u32,
    space: MacSpace,
    mac: MacAddr,
    /// Counts up among those of one owner: the oldest is farthest behind the newest.
    order: u16,
}

const IS_V4: u32 = 1 << 31;

/// What a message has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The VIF was not known.
    New,
    /// It was elsewhere.
    Moved,
    /// It was there.
    Same,
    /// The table is full, and the entry was not asked for.
    Full,
}

impl Table {
    /// A table of at most `capacity` entries, with a random key.
    pub fn new(capacity: usize, key: [u8; 16]) -> Self {
        Self {
            keyed: Keyed(key),
            entries: Slab::new(),
            by_mac: HashTable::new(),
            by_ip4: HashTable::new(),
            addresses: Slab::new(),
            by_address: HashTable::new(),
            by_owner: HashTable::new(),
            switches: Vec::new(),
            switch_indices: FxHashMap::default(),
            capacity,
            hand: 0,
        }
    }

    /// VIFs that it knows.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it knows none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of entries and their indexes.
    pub fn bytes(&self) -> usize {
        let switches = self.switches.capacity() * 6 + self.switch_indices.capacity() * 13;
        self.entries.bytes() + index_bytes(&self.by_mac) + index_bytes(&self.by_ip4) + switches
    }

    /// Bytes of IPv6 bindings and further IPv4 bindings.
    pub fn address_bytes(&self) -> usize {
        self.addresses.bytes() + index_bytes(&self.by_address) + index_bytes(&self.by_owner)
    }

    /// Where a VIF is.
    pub fn find(&self, vif: Vif) -> Option<Location> {
        Some(self.location(self.entries.get(self.place(vif)?)))
    }

    /// Which VIF has an address.
    pub fn owner(&self, tenant: TenantId, space: MacSpace, ip: IpAddr) -> Option<Vif> {
        if let IpAddr::V4(ip) = ip
            && let Some(at) = self.place_of_ip4(tenant, space, ip)
        {
            let mac = self.entries.get(at).mac;
            return Some(Vif { tenant, space, mac });
        }
        let mac = self.addresses.get(self.place_of_address(tenant, space, ip)?).mac;
        Some(Vif { tenant, space, mac })
    }

    /// A VIF is there, and has these addresses. `wanted`: it was asked for, and displaces another if the table is full.
    pub fn put(&mut self, vif: Vif, at: Location, ips: [Option<IpAddr>; 2], wanted: bool) -> Change {
        let change = match self.place(vif) {
            Some(place) => {
                let switch = self.switch_index(at.switch);
                let entry = self.entries.get_mut(place);
                let is_same = entry.switch == switch && entry.port == at.port;
                (entry.switch, entry.port) = (switch, at.port);
                if is_same { Change::Same } else { Change::Moved }
            }
            None if self.len() >= self.capacity && !(wanted && self.give_up_one()) => return Change::Full,
            None => {
                self.insert(vif, at);
                Change::New
            }
        };
        if wanted {
            self.want(vif);
        }
        for ip in ips.into_iter().flatten() {
            self.bind(vif, ip);
        }
        change
    }

    /// Forgets a VIF; false if it was not known.
    pub fn remove(&mut self, vif: Vif) -> bool {
        let Some(place) = self.place(vif) else { return false };
        self.remove_place(place);
        true
    }

    /// Somebody sends to it: it is not given up before others.
    pub fn want(&mut self, vif: Vif) {
        if let Some(place) = self.place(vif) {
            self.entries.get_mut(place).flags |= WANTED;
        }
    }

    fn insert(&mut self, vif: Vif, at: Location) {
        let switch = self.switch_index(at.switch);
        let (tenant, space, mac) = (vif.tenant, vif.space, vif.mac);
        let ip4 = Ipv4Addr::UNSPECIFIED;
        let place = self.entries.insert(Entry { tenant, space, ip4, switch, mac, port: at.port, flags: IN_USE, _spare: [0; 8] });
        let Self { entries, keyed, by_mac, .. } = self;
        by_mac.insert_unique(keyed.hash(&vif), place, |&at| keyed.hash(&entries.get(at).vif()));
    }

    fn remove_place(&mut self, place: u32) {
        let vif = self.entries.get(place).vif();
        self.drop_ip4(place);
        while let Some(address) = self.addresses_of(vif).1 {
            self.remove_address(address);
        }
        let hash = self.keyed.hash(&vif);
        if let Ok(found) = self.by_mac.find_entry(hash, |&at| at == place) {
            found.remove();
        }
        self.entries.get_mut(place).flags = 0;
        self.entries.remove(place);
    }

    /// Gives up an entry that nobody has asked for lately.
    fn give_up_one(&mut self) -> bool {
        let places = self.entries.places();
        for _ in 0..2 * places {
            let place = self.hand;
            self.hand = if place + 1 >= places { 0 } else { place + 1 };
            let entry = self.entries.get_mut(place);
            if entry.flags & WANTED != 0 {
                entry.flags &= !WANTED;
            } else if entry.flags & IN_USE != 0 {
                self.remove_place(place);
                return true;
            }
        }
        false
    }

    /// Binds an address to a VIF that is in the table; another one that had it loses it.
    fn bind(&mut self, vif: Vif, ip: IpAddr) {
        match self.owner(vif.tenant, vif.space, ip) {
            Some(owner) if owner == vif => return,
            Some(_) => self.unbind(vif.tenant, vif.space, ip),
            None => {}
        }
        let Some(place) = self.place(vif) else { return };
        if let IpAddr::V4(ip4) = ip
            && self.entries.get(place).flags & HAS_IP4 == 0
        {
            let entry = self.entries.get_mut(place);
            entry.ip4 = ip4;
            entry.flags |= HAS_IP4;
            let Self { entries, keyed, by_ip4, .. } = self;
            by_ip4.insert_unique(keyed.hash(&(vif.tenant, vif.space, ip4)), place, |&at| keyed.hash(&entries.get(at).ip4_key()));
            return;
        }
        let (held, oldest, newest) = self.addresses_of(vif);
        if held >= MAX_ADDRESSES
            && let Some(oldest) = oldest
        {
            self.remove_address(oldest);
        }
        self.insert_address(vif, ip, newest.wrapping_add(1));
    }

    fn insert_address(&mut self, vif: Vif, ip: IpAddr, order: u16) {
        let (bytes, family) = address_bytes(ip);
        let place =
            self.addresses.insert(Address { ip: bytes, tenant: vif.tenant.0 | family, space: vif.space, mac: vif.mac, order });
        let Self { addresses, keyed, by_address, by_owner, .. } = self;
        let key = addresses.get(place).key();
        by_address.insert_unique(keyed.hash(&key), place, |&at| keyed.hash(&addresses.get(at).key()));
        by_owner.insert_unique(keyed.hash(&vif), place, |&at| keyed.hash(&addresses.get(at).vif()));
    }

    fn unbind(&mut self, tenant: TenantId, space: MacSpace, ip: IpAddr) {
        if let IpAddr::V4(ip4) = ip
            && let Some(place) = self.place_of_ip4(tenant, space, ip4)
        {
            return self.drop_ip4(place);
        }
        if let Some(place) = self.place_of_address(tenant, space, ip) {
            self.remove_address(place);
        }
    }

    fn drop_ip4(&mut self, place: u32) {
        let entry = self.entries.get_mut(place);
        if entry.flags & HAS_IP4 == 0 {
            return;
        }
        entry.flags &= !HAS_IP4;
        let hash = self.keyed.hash(&entry.ip4_key());
        if let Ok(found) = self.by_ip4.find_entry(hash, |&at| at == place) {
            found.remove();
        }
    }

    fn remove_address(&mut self, place: u32) {
        let address = *self.addresses.get(place);
        if let Ok(found) = self.by_address.find_entry(self.keyed.hash(&address.key()), |&at| at == place) {
            found.remove();
        }
        if let Ok(found) = self.by_owner.find_entry(self.keyed.hash(&address.vif()), |&at| at == place) {
            found.remove();
        }
        self.addresses.remove(place);
    }

    /// How many further addresses a VIF has, the oldest of them, and the order of the newest.
    fn addresses_of(&self, vif: Vif) -> (usize, Option<u32>, u16) {
        let mut own = [(0, 0); MAX_ADDRESSES];
        let mut held = 0;
        for &at in self.by_owner.iter_hash(self.keyed.hash(&vif)) {
            let address = self.addresses.get(at);
            if address.vif() == vif && held < MAX_ADDRESSES {
                own[held] = (address.order, at);
                held += 1;
            }
        }
        let own = &own[..held];
        // Orders wrap: the oldest is the one that no other is a little behind.
        let spread = |from: u16| own.iter().map(|&(order, _)| order.wrapping_sub(from)).max().unwrap_or(0);
        let Some(&(oldest, at)) = own.iter().min_by_key(|&&(order, _)| spread(order)) else { return (0, None, 0) };
        (held, Some(at), oldest.wrapping_add(spread(oldest)))
    }

    fn place(&self, vif: Vif) -> Option<u32> {
        self.by_mac.find(self.keyed.hash(&vif), |&at| self.entries.get(at).vif() == vif).copied()
    }

    fn place_of_ip4(&self, tenant: TenantId, space: MacSpace, ip: Ipv4Addr) -> Option<u32> {
        let key = (tenant, space, ip);
        self.by_ip4.find(self.keyed.hash(&key), |&at| self.entries.get(at).ip4_key() == key).copied()
    }

    fn place_of_address(&self, tenant: TenantId, space: MacSpace, ip: IpAddr) -> Option<u32> {
        let (bytes, family) = address_bytes(ip);
        let key = (tenant.0 | family, space, bytes);
        self.by_address.find(self.keyed.hash(&key), |&at| self.addresses.get(at).key() == key).copied()
    }

    fn location(&self, entry: &Entry) -> Location {
        Location { switch: self.switches[entry.switch as usize], port: entry.port }
    }

    fn switch_index(&mut self, switch: MacAddr) -> u32 {
        let Self { switches, switch_indices, .. } = self;
        *switch_indices.entry(switch).or_insert_with(|| {
            switches.push(switch);
            (switches.len() - 1) as u32
        })
    }
}

impl Entry {
    const fn vif(&self) -> Vif {
        Vif { tenant: self.tenant, space: self.space, mac: self.mac }
    }

    const fn ip4_key(&self) -> (TenantId, MacSpace, Ipv4Addr) {
        (self.tenant, self.space, self.ip4)
    }
}

impl Address {
    const fn vif(&self) -> Vif {
        Vif { tenant: TenantId(self.tenant & !IS_V4), space: self.space, mac: self.mac }
    }

    const fn key(&self) -> (u32, MacSpace, [u8; 16]) {
        (self.tenant, self.space, self.ip)
    }
}

const fn address_bytes(ip: IpAddr) -> ([u8; 16], u32) {
    match ip {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().octets(), IS_V4),
        IpAddr::V6(ip) => (Ipv6Addr::octets(&ip), 0),
    }
}

const _: () = assert!(size_of::<Entry>() == 32 && size_of::<Address>() == 32);

#[cfg(test)]
mod tests;
