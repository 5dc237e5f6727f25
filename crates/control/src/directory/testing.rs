//! Random keys and values for tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weft_fabric::{MacAddr, TenantId};

use super::key::{GroupId, Key, Locator, MacSpace, Mapping, PrincipalId, ServiceId, Value};

fn ip4() -> impl Strategy<Value = Ipv4Addr> {
    any::<[u8; 4]>().prop_map(Ipv4Addr::from)
}

fn ip6() -> impl Strategy<Value = Ipv6Addr> {
    any::<[u8; 16]>().prop_map(Ipv6Addr::from)
}

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

/// Any key.
pub fn any_key() -> impl Strategy<Value = Key> {
    let tenant = || (0..1u32 << 24, any::<u32>()).prop_map(|(tenant, space)| (TenantId(tenant), MacSpace(space)));
    prop_oneof![
        ip4().prop_map(Key::App4),
        ip6().prop_map(Key::App6),
        (tenant(), mac()).prop_map(|((tenant, space), mac)| Key::TenantMac(tenant, space, mac)),
        (tenant(), ip4()).prop_map(|((tenant, space), ip)| Key::TenantIp4(tenant, space, ip)),
        (tenant(), ip6()).prop_map(|((tenant, space), ip)| Key::TenantIp6(tenant, space, ip)),
        (1..=u16::MAX).prop_map(|group| Key::Group(GroupId(group))),
    ]
}

/// One of few keys of every kind, so that random steps meet again.
pub fn few_keys() -> impl Strategy<Value = Key> {
    (0u8..60).prop_map(|n| match n % 6 {
        0 | 1 => Key::App4([10, 0, 0, n].into()),
        2 => Key::App6(u128::from(n).into()),
        3 => Key::TenantMac(TenantId(5), MacSpace(0), MacAddr([2, 0, 0, 0, 0, n])),
        4 => Key::TenantIp4(TenantId(5), MacSpace(1), [10, 0, 0, n].into()),
        _ => Key::Group(GroupId(u16::from(n))),
    })
}

/// A value that fits the key.
pub fn any_value_of(key: Key) -> BoxedStrategy<Value> {
    if matches!(key, Key::Group(_)) {
        let address = prop_oneof![ip4().prop_map(IpAddr::V4), ip6().prop_map(IpAddr::V6)];
        return prop::collection::vec(address, 1..=16).prop_map(|addresses| Value::Group(addresses.into())).boxed();
    }
    let locator = prop_oneof![
        3 => ip4().prop_map(Locator::V4),
        1 => ip6().prop_map(Locator::V6),
        2 => (mac(), any::<u16>()).prop_map(|(switch, port)| Locator::Edge { switch, port }),
    ];
    (locator, prop::option::of(mac()), any::<u16>(), any::<u32>(), any::<u32>(), any::<u32>())
        .prop_map(|(locator, mac, group, service, owner, lease_ms)| {
            Value::Mapping(Mapping {
                locator,
                mac,
                group: GroupId(group),
                service: ServiceId(service),
                owner: PrincipalId(owner),
                lease_ms,
            })
        })
        .boxed()
}
