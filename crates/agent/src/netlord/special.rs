//! `special_vlan`, of servers' agents and of edge switches.

use std::collections::BTreeSet;

use serde::Deserialize;
use weft_control::wire::packet::ethernet::VlanId;

/// The VLANs that reach all agents and edge switches: one, or a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum SpecialVlans {
    One(u16),
    Several(Vec<u16>),
}

impl SpecialVlans {
    /// `None` if they are none, not different, or no VLANs.
    pub(super) fn read(&self) -> Option<Vec<VlanId>> {
        let numbers = match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(all) => all,
        };
        let vlans: Vec<VlanId> = numbers.iter().copied().map(VlanId::new).collect::<Option<_>>()?;
        let different: BTreeSet<VlanId> = vlans.iter().copied().collect();
        (!vlans.is_empty() && different.len() == vlans.len()).then_some(vlans)
    }
}
