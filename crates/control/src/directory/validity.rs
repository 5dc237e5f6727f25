//! What a mapping or a group can be. An address that no host has is a mistake of the writer, and would take every packet that uses it.

use std::net::{IpAddr, Ipv4Addr};

use weft_fabric::MacAddr;

use super::key::{Key, Locator, Value};

/// What is wrong with a key or its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// An address of a kind that nobody can have, or be reached at.
    #[error("{role} {address} is {kind}: it must be the address of one host or switch")]
    Address {
        /// What the address is for.
        role: &'static str,
        /// The address.
        address: String,
        /// Why it cannot be.
        kind: &'static str,
    },
    /// A mapping for a group, or addresses for an address.
    #[error("{0} has a value of another kind")]
    Kind(Key),
}

/// Whether a key may stand for a value.
///
/// # Errors
/// [`Invalid`], which names the address.
pub fn check(key: &Key, value: &Value) -> Result<(), Invalid> {
    if !key.fits(value) {
        return Err(Invalid::Kind(*key));
    }
    match *key {
        Key::App4(ip) | Key::TenantIp4(_, _, ip) => check_ip("the address", ip.into())?,
        Key::App6(ip) | Key::TenantIp6(_, _, ip) => check_ip("the address", ip.into())?,
        Key::TenantMac(_, _, mac) => check_mac("the address", mac)?,
        Key::Group(_) => {}
    }
    match value {
        Value::Mapping(mapping) => {
            match mapping.locator {
                Locator::V4(ip) => check_ip("the locator", ip.into())?,
                Locator::V6(ip) => check_ip("the locator", ip.into())?,
                Locator::Edge { switch, .. } => check_mac("the edge switch", switch)?,
            }
            mapping.mac.map_or(Ok(()), |mac| check_mac("the MAC address", mac))
        }
        Value::Group(addresses) => addresses.iter().try_for_each(|&ip| check_ip("the group's address", ip)),
    }
}

fn check_ip(role: &'static str, ip: IpAddr) -> Result<(), Invalid> {
    let kind = match ip {
        _ if ip.is_unspecified() => "the unspecified address",
        _ if ip.is_multicast() => "a multicast address",
        IpAddr::V4(Ipv4Addr::BROADCAST) => "the broadcast address",
        _ => return Ok(()),
    };
    Err(Invalid::Address { role, address: ip.to_string(), kind })
}

fn check_mac(role: &'static str, mac: MacAddr) -> Result<(), Invalid> {
    let kind = match mac.0 {
        [0, 0, 0, 0, 0, 0] => "zero",
        [first, ..] if first & 1 == 1 => "a group address",
        _ => return Ok(()),
    };
    Err(Invalid::Address { role, address: mac.to_string(), kind })
}

#[cfg(test)]
mod tests {
    use super::super::key::{GroupId, Mapping, PrincipalId, ServiceId};
    use super::*;

    fn mapping(locator: &str, mac: Option<MacAddr>) -> Value {
        let locator = locator.parse().unwrap();
        Value::Mapping(Mapping { locator, mac, group: GroupId(0), service: ServiceId(0), owner: PrincipalId(0), lease_ms: 1 })
    }

    fn group(addresses: &[&str]) -> Value {
        Value::Group(addresses.iter().map(|it| it.parse().unwrap()).collect())
    }

    #[test]
    fn what_no_host_can_have_is_refused_by_name() {
        let good = mapping("10.0.1.1", Some(MacAddr([2, 0, 0, 0, 0, 1])));
        for key in ["10.0.0.7", "2001:db8::7", "tenant:5/0/02:00:00:00:00:01", "tenant:5/0/10.0.0.7", "127.0.0.1"] {
            assert_eq!(check(&key.parse().unwrap(), &good), Ok(()), "{key}");
        }
        assert_eq!(check(&"group:3".parse().unwrap(), &group(&["10.9.0.1", "::9"])), Ok(()));
        for (key, value, part) in [
            ("224.0.0.1", good.clone(), "the address 224.0.0.1 is a multicast address"),
            ("ff02::1", good.clone(), "the address ff02::1 is a multicast address"),
            ("0.0.0.0", good.clone(), "the unspecified address"),
            ("255.255.255.255", good.clone(), "the broadcast address"),
            ("tenant:5/0/03:00:00:00:00:01", good.clone(), "a group address"),
            ("tenant:5/0/239.1.1.1", good, "a multicast address"),
            ("10.0.0.7", mapping("0.0.0.0", None), "the locator 0.0.0.0 is the unspecified address"),
            ("10.0.0.7", mapping("::", None), "the locator ::"),
            ("10.0.0.7", mapping("edge:00:00:00:00:00:00/1", None), "the edge switch"),
            ("10.0.0.7", mapping("10.0.1.1", Some(MacAddr([255; 6]))), "the MAC address"),
            ("group:3", group(&["10.9.0.1", "224.0.0.1"]), "the group's address 224.0.0.1"),
            ("group:3", mapping("10.0.1.1", None), "group:3 has a value of another kind"),
        ] {
            let error = check(&key.parse().unwrap(), &value).unwrap_err().to_string();
            assert!(error.contains(part), "{key}: {error}");
        }
    }
}
