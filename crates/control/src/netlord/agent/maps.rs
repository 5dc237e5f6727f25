//! The maps of a data plane, so that frames need not pass the agent: local VIFs, remote VIFs, and the virtual routers.
//!
//! ```text
//!   Local     (tenant, space, MAC)  -> interface                   deliver
//!   Remote    (tenant, space, MAC)  -> switch's MAC, port          encapsulate; VLANs are the path chooser's
//!   Neighbour (tenant, space, IP)   -> MAC                         answer ARP; the last step of routing
//!   Routers   tenant                -> interfaces, routes, rules   gateways' MACs, longest prefix, first rule that fits
//!   Routed    a packet's addresses, protocol and port -> the VIF and the source MAC that the routers gave it
//! ```
//! Whatever is in no map goes to the agent.

use std::ops::RangeInclusive;
use std::sync::Arc;

use weft_fabric::{MacAddr, TenantId};

use super::super::locations::{LocationInput, Locations, Query};
use super::super::paths::ChooseVlan;
use super::super::tenants::Tenants;
use super::super::{Location, MacSpace, Vif};
use super::{Agent, MapChange, Output};
use crate::wire::netlord::Question;

/// All VIFs of a tenant, in their order.
fn all_of(tenant: TenantId) -> RangeInclusive<Vif> {
    let vif = |space, byte| Vif { tenant, space: MacSpace(space), mac: MacAddr([byte; 6]) };
    vif(0, 0)..=vif(u32::MAX, 0xff)
}

impl<L: Locations, C: ChooseVlan> Agent<L, C> {
    pub(super) fn configure(&mut self, tenants: Arc<Tenants>) {
        if tenants.version < self.tenants.version {
            return;
        }
        let before = std::mem::replace(&mut self.tenants, tenants);
        self.fragments.forget_verdicts();
        let routers = |all: &Tenants, tenant: TenantId| all.tenants.get(&tenant).map(|it| it.routers.clone()).unwrap_or_default();
        for tenant in self.configured.clone() {
            if routers(&before, tenant) != routers(&self.tenants, tenant) {
                self.update_routers(tenant);
            }
        }
    }

    /// A VIF of the tenant is here: its routers are to be known.
    pub(super) fn map_tenant(&mut self, tenant: TenantId) {
        if self.configured.insert(tenant) && self.tenants.tenants.contains_key(&tenant) {
            self.update_routers(tenant);
        }
    }

    /// Perhaps no VIF of the tenant is here any more: what is known of it is of no use.
    pub(super) fn unmap_tenant(&mut self, tenant: TenantId) {
        if self.by_vif.range(all_of(tenant)).next().is_some() {
            return;
        }
        if self.configured.remove(&tenant) {
            self.out.push_back(Output::Map(MapChange::Routers { tenant, routers: Vec::new() }));
        }
        let gone: Vec<Vif> = self.mapped.range(all_of(tenant)).copied().collect();
        for vif in gone {
            self.unmap(vif);
        }
    }

    fn update_routers(&mut self, tenant: TenantId) {
        let routers = self.tenants.tenants.get(&tenant).map_or_else(Vec::new, |it| it.routers.clone());
        self.out.push_back(Output::Map(MapChange::Routers { tenant, routers }));
    }

    /// A frame goes to a remote VIF: the maps have it from now on.
    pub(super) fn map(&mut self, query: Query, vif: Vif, at: Location) {
        if self.mapped.insert(vif) {
            self.out.push_back(Output::Map(MapChange::Remote { vif, at: Some(at) }));
        }
        if let Question::Ip(ip) = query.what {
            let Vif { tenant, space, mac } = vif;
            self.out.push_back(Output::Map(MapChange::Neighbour { tenant, space, ip, mac }));
        }
    }

    /// A data plane that outlived the agent before has this VIF in its maps: it is known, until somebody says otherwise.
    pub(super) fn adopt(&mut self, vif: Vif, at: Location) {
        self.input_locations(LocationInput::Adopt { vif, at });
        self.mapped.insert(vif);
        if self.locations.find(vif, Query::vif(vif)).is_none() {
            self.unmap(vif);
        }
    }

    pub(super) fn unmap(&mut self, vif: Vif) {
        if self.mapped.remove(&vif) {
            self.out.push_back(Output::Map(MapChange::Remote { vif, at: None }));
        }
    }

    pub(super) fn moved(&mut self, vif: Vif, at: Option<Location>) {
        match at {
            None => self.unmap(vif),
            Some(_) if self.by_vif.contains_key(&vif) => {}
            Some(_) if self.mapped.contains(&vif) => self.out.push_back(Output::Map(MapChange::Remote { vif, at })),
            Some(_) => {}
        }
    }

    /// What was repeated in vain may be stale.
    pub(super) fn doubt(&mut self, query: Query) {
        self.input_locations(LocationInput::Confirm(query));
    }
}
