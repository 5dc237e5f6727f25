use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// The table as ordered maps.
#[derive(Default)]
struct Reference {
    places: BTreeMap<Vif, Location>,
    /// Address to owner and, for the oldest, the time of binding.
    owners: BTreeMap<(TenantId, MacSpace, IpAddr), (Vif, u64)>,
    /// Which IPv4 address stands in the entry.
    first: BTreeMap<Vif, IpAddr>,
    clock: u64,
}

impl Reference {
    fn put(&mut self, vif: Vif, at: Location, ips: [Option<IpAddr>; 2]) -> Change {
        let change = match self.places.insert(vif, at) {
            None => Change::New,
            Some(old) if old == at => Change::Same,
            Some(_) => Change::Moved,
        };
        for ip in ips.into_iter().flatten() {
            self.bind(vif, ip);
        }
        change
    }

    fn bind(&mut self, vif: Vif, ip: IpAddr) {
        let key = (vif.tenant, vif.space, ip);
        if let Some(&(owner, _)) = self.owners.get(&key) {
            if owner == vif {
                return;
            }
            if self.first.get(&owner) == Some(&ip) {
                self.first.remove(&owner);
            }
            self.owners.remove(&key);
        }
        if ip.is_ipv4() && !self.first.contains_key(&vif) {
            self.first.insert(vif, ip);
        } else {
            let mut further: Vec<_> = self.owners.iter().filter(|(_, (owner, _))| *owner == vif).collect();
            further.retain(|((_, _, ip), _)| self.first.get(&vif) != Some(ip));
            if further.len() >= MAX_ADDRESSES {
                let oldest = *further.iter().min_by_key(|(_, (_, when))| *when).unwrap().0;
                self.owners.remove(&oldest);
            }
        }
        self.clock += 1;
        self.owners.insert(key, (vif, self.clock));
    }

    fn remove(&mut self, vif: Vif) -> bool {
        self.first.remove(&vif);
        self.owners.retain(|_, (owner, _)| *owner != vif);
        self.places.remove(&vif).is_some()
    }
}

fn vif(n: u8) -> Vif {
    Vif { tenant: TenantId(3 + u32::from(n % 2)), space: MacSpace(1), mac: MacAddr([2, 0, 0, 0, 0, n / 2]) }
}

fn at(n: u8) -> Location {
    Location { switch: MacAddr([2, 1, 0, 0, 0, n % 5]), port: EdgePort::new(1 + u16::from(n % 7)).unwrap() }
}

fn ip(n: u8) -> IpAddr {
    // Of both families, some of them alike in their last bytes.
    if n.is_multiple_of(2) { IpAddr::from([10, 0, 0, n / 2]) } else { Ipv4Addr::new(10, 0, 0, n / 2).to_ipv6_mapped().into() }
}

proptest! {
    #[test]
    fn it_is_what_maps_would_be(steps in prop::collection::vec((0u8..12, 0u8..30, 0u8..40, 0u8..40), 1..200)) {
        let mut table = Table::new(1000, [7; 16]);
        let mut reference = Reference::default();
        for (who, place, a, b) in steps {
            let ips = [(a < 24).then(|| ip(a)), (b < 24).then(|| ip(b))];
            if place < 24 {
                prop_assert_eq!(table.put(vif(who), at(place), ips, false), reference.put(vif(who), at(place), ips));
            } else {
                prop_assert_eq!(table.remove(vif(who)), reference.remove(vif(who)));
            }
            prop_assert_eq!(table.len(), reference.places.len());
            for n in 0..12 {
                prop_assert_eq!(table.find(vif(n)), reference.places.get(&vif(n)).copied());
            }
            for tenant in [TenantId(3), TenantId(4)] {
                for n in 0..24 {
                    let expected = reference.owners.get(&(tenant, MacSpace(1), ip(n))).map(|&(owner, _)| owner);
                    prop_assert_eq!(table.owner(tenant, MacSpace(1), ip(n)), expected);
                }
            }
        }
    }
}

#[test]
fn when_full_only_what_is_asked_for_displaces_another() {
    let mut table = Table::new(4, [7; 16]);
    for n in 0..4 {
        assert_eq!(table.put(vif(n), at(n), [Some(ip(n)), None], false), Change::New);
    }
    table.want(vif(0));
    assert_eq!(table.put(vif(9), at(1), [None; 2], false), Change::Full);
    assert_eq!(table.put(vif(9), at(1), [None; 2], true), Change::New);
    assert_eq!((table.len(), table.find(vif(0))), (4, Some(at(0))), "what is in use stays");
    assert_eq!(
        table.put(vif(1), at(3), [None; 2], false),
        if table.find(vif(1)).is_some() { Change::Moved } else { Change::Full }
    );
}

/// Section 4.2: a million entries in 64 MB; here with an index by IPv4 address as well.
#[test]
fn a_million_entries_take_less_than_64_mb() {
    let mut table = Table::new(usize::MAX, [7; 16]);
    for n in 0..1_000_000u32 {
        let [_, a, b, c] = n.to_be_bytes();
        let vif = Vif { tenant: TenantId(3 + n / 100), space: MacSpace(1), mac: MacAddr([2, 0, 0, a, b, c]) };
        let place =
            Location { switch: MacAddr([2, 9, 0, 0, 0, (n % 200) as u8]), port: EdgePort::new(1 + (n % 48) as u16).unwrap() };
        assert_eq!(table.put(vif, place, [Some(IpAddr::from([10, a, b, c])), None], false), Change::New);
    }
    assert_eq!(table.len(), 1_000_000);
    assert!(table.bytes() <= 64_000_000, "{} bytes", table.bytes());
    assert!(table.address_bytes() < 1000);
    println!("{} bytes, {:.1} an entry", table.bytes(), table.bytes() as f64 / 1e6);
}
