//! VIFs come to this server and leave it: by the configuration, by command, with the tenants' file, with VMs' interfaces.

use std::sync::Arc;

use weft_control::netlord::agent::{Input, VifId};
use weft_control::netlord::tenants::VifSpec;
use weft_control::netlord::{PROVIDER, PUBLIC, Vif};

use super::Host;
use super::tenants::{read_tenants, spec};
use super::vif::{OwnVif, Wanted};
use crate::error::Result;
use crate::interface::name_of;
use crate::iproute::run;
use crate::netlord::dataplane::{HostPlane, InheritedVif};

impl Host {
    /// The VIFs of the configuration. Those whose interfaces are not there yet are attached when they are; so are those that the file does not have,
    /// if the repository may send one that has.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) if the file has no such VIF, or the kernel refuses.
    pub(super) fn attach_configured(&mut self) -> Result<()> {
        let of = |part: &super::config::VifPart| Wanted {
            device: part.device.get_ref().clone(),
            tenant: part.tenant.clone(),
            name: part.name.clone(),
        };
        let all: Vec<Wanted> = self.config.vif.iter().map(of).collect();
        for wanted in all {
            let known = spec(&self.tenants, &wanted.tenant, &wanted.name);
            if known.is_err() && !self.config.has_repository() {
                known?;
            } else if known.is_err() || HostPlane::index_of(&wanted.device).is_none() {
                self.want(wanted);
            } else if !self.vifs.values().any(|own| own.is(&wanted)) {
                self.attach_vif(&wanted.device, &wanted.tenant, &wanted.name)?;
            }
        }
        Ok(())
    }

    fn want(&mut self, wanted: Wanted) {
        self.wanted.retain(|it| it.device != wanted.device);
        self.wanted.push(wanted);
    }

    /// Interfaces of VMs come and go.
    pub(super) fn refresh_vifs(&mut self) {
        let gone: Vec<(u32, String)> = self
            .vifs
            .iter()
            .filter(|(at, own)| own.vif.tenant != PROVIDER && HostPlane::index_of(&own.device) != Some(**at))
            .map(|(&at, own)| (at, own.device.clone()))
            .collect();
        for (ifindex, device) in gone {
            tracing::info!(device, "a VM's interface is gone");
            self.forget_vif(ifindex);
        }
        let back = |host: &Self, it: &Wanted| {
            let is_known = spec(&host.tenants, &it.tenant, &it.name).is_ok();
            is_known && !host.vifs.values().any(|own| own.is(it)) && HostPlane::index_of(&it.device).is_some()
        };
        let back: Vec<Wanted> = self.wanted.iter().filter(|it| back(self, it)).cloned().collect();
        for Wanted { device, tenant, name } in back {
            match self.attach_vif(&device, &tenant, &name) {
                Ok(vif) => tracing::info!(device, %vif, "a VM's interface is there"),
                Err(error) => tracing::warn!(device, %error, "a VM's interface is not taken"),
            }
        }
    }

    /// Interfaces that are wanted and not there, or not taken.
    pub(super) fn absent(&self) -> Vec<String> {
        let is_absent = |it: &&Wanted| !self.vifs.values().any(|own| own.is(it));
        self.wanted.iter().filter(is_absent).map(|it| format!("{} of {}/{}", it.device, it.tenant, it.name)).collect()
    }

    /// VIFs that were attached while an earlier agent ran, if their interfaces and names are still there.
    pub(super) fn attach_inherited(&mut self, vifs: Vec<InheritedVif>) {
        for InheritedVif { ifindex, vif } in vifs {
            // Created and attached again, if it is still configured.
            if vif.tenant == PROVIDER && self.config.provider.is_some() {
                continue;
            }
            let known = self.tenants.vifs().find(|(_, spec)| spec.vif == vif);
            let names = known.map(|(tenant, spec)| (tenant.name.clone(), spec.name.clone()));
            let attached = match (name_of(ifindex), names) {
                (Some(device), Some((tenant, name))) => self.attach_vif(&device, &tenant, &name).is_ok(),
                _ => false,
            };
            if !attached {
                tracing::info!(ifindex, %vif, "a VIF of an earlier agent is gone");
                let removed = self.plane.remove_vif(ifindex).and_then(|()| self.plane.set_local(vif, None));
                self.record_error(removed);
                if let Some(device) = name_of(ifindex).filter(|_| vif.tenant == PROVIDER) {
                    tracing::info!(device, removed = run(&["link", "del", &device]).is_ok(), "there is no [provider] any more");
                }
            }
        }
    }

    /// A VM's interface is that VIF from now on.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) if there is no such interface, or the file has no such VIF.
    pub(super) fn attach_vif(&mut self, device: &str, tenant: &str, name: &str) -> Result<Vif> {
        self.reload_tenants();
        let spec = spec(&self.tenants, tenant, name)?.clone();
        let (device, tenant, name) = (device.to_owned(), tenant.to_owned(), name.to_owned());
        let (vif, addresses) = (spec.vif, spec.addresses);
        self.take_vif(OwnVif {
            device: device.clone(),
            tenant: tenant.clone(),
            name: name.clone(),
            vif,
            addresses,
            written: None,
        })?;
        self.want(Wanted { device, tenant, name });
        Ok(vif)
    }

    /// An interface is that VIF from now on. Its index.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) if there is no such interface, or the kernel refuses.
    pub(super) fn take_vif(&mut self, own: OwnVif) -> Result<u32> {
        let ifindex = self.plane.attach_vif(&own.device)?;
        let OwnVif { vif, addresses, .. } = own.clone();
        // Somewhere else on this server until now.
        let others: Vec<String> =
            self.vifs.iter().filter(|(at, it)| it.vif == vif && **at != ifindex).map(|(_, it)| it.device.clone()).collect();
        for other in others {
            self.detach_vif(&other);
        }
        for &ip in &addresses {
            let done = self.plane.set_owned(ifindex, ip);
            // Others than those of the public space can do without.
            if vif.tenant == PUBLIC {
                done?;
            }
        }
        self.vifs.insert(ifindex, own);
        self.input(Input::Attach { id: VifId(ifindex), vif, addresses });
        self.write_homes();
        Ok(ifindex)
    }

    /// A VM's interface is no VIF any longer. What it was.
    pub(super) fn detach_vif(&mut self, device: &str) -> Option<Vif> {
        self.wanted.retain(|it| it.device != device);
        let ifindex = self.vifs.iter().find(|(_, own)| own.device == device).map(|(&index, _)| index)?;
        self.forget_vif(ifindex)
    }

    pub(super) fn forget_vif(&mut self, ifindex: u32) -> Option<Vif> {
        let own = self.vifs.remove(&ifindex)?;
        self.input(Input::Detach(VifId(ifindex)));
        let removed = self.plane.remove_vif(ifindex);
        self.record_error(removed);
        Some(own.vif)
    }

    /// Reloads the tenants' file, if it has changed. An invalid file is reported, and the old content stays in force.
    pub(super) fn reload_tenants(&mut self) {
        let (held, comes) = (self.tenants.version, self.config.has_repository());
        let Some(tenants) = self.tenants_file.newer(held, comes, read_tenants, |it| it.version) else { return };
        self.tenants = Arc::new(tenants);
        self.input(Input::Configure(Arc::clone(&self.tenants)));
        let is_other = |own: &OwnVif| {
            let same = |s: &VifSpec| s.vif == own.vif && s.addresses == own.addresses;
            own.vif.tenant != PROVIDER && !spec(&self.tenants, &own.tenant, &own.name).is_ok_and(same)
        };
        let changed: Vec<(u32, OwnVif)> =
            self.vifs.iter().filter(|(_, own)| is_other(own)).map(|(&at, own)| (at, own.clone())).collect();
        for (ifindex, own) in changed {
            self.forget_vif(ifindex);
            if let Err(error) = self.attach_vif(&own.device, &own.tenant, &own.name) {
                tracing::warn!(device = own.device, %error, "a VIF is gone");
            }
        }
    }
}
