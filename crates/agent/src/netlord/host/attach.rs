//! VIFs come to this server and leave it: by the configuration, by command, with the tenants' file, with VMs' interfaces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use weft_control::netlord::agent::{Input, VifId};
use weft_control::netlord::tenants::VifSpec;
use weft_control::netlord::{PROVIDER, PUBLIC, Vif};

use super::Host;
use super::records::Records;
use super::tenants::{read_tenants, spec};
use super::vif::{Attaching, OwnVif, Wanted};
use crate::error::Result;
use crate::interface::name_of;
use crate::iproute::run;
use crate::netlord::dataplane::{HostPlane, InheritedVif};
use crate::socket::PendingRequest;

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
        self.want_records();
    }

    /// The records that this server is to have.
    pub(super) fn want_records(&self) {
        if let Some(records) = &self.records {
            let all = self.wanted.iter().chain(self.attaching.iter().map(|it| &it.wanted));
            records.want(all.map(|it| (it.tenant.clone(), it.name.clone())).collect());
        }
    }

    /// A VIF is to be attached. One that is not known yet is asked of the directory first.
    pub(super) fn asked_to_attach(&mut self, asked: PendingRequest, wanted: Wanted) {
        self.reload_tenants();
        let are_followed = self.records.as_ref().is_some_and(Records::are_followed);
        if !are_followed || spec(&self.tenants, &wanted.tenant, &wanted.name).is_ok() {
            return self.attach_and_answer(asked, &wanted);
        }
        self.attaching.push(Attaching { asked, wanted, until: Instant::now() + RECORDS_TIMEOUT });
        self.want_records();
    }

    /// Those that waited for the directory: it has them, or says that there are none, or says nothing.
    pub(super) fn attach_waiting(&mut self, is_news: bool) {
        for it in std::mem::take(&mut self.attaching) {
            let Wanted { tenant, name, .. } = &it.wanted;
            let is_known = spec(&self.tenants, tenant, name).is_ok();
            let refused = self.records.as_ref().filter(|_| is_news).and_then(|records| records.reason(tenant, name));
            if !is_known && refused.is_none() && Instant::now() < it.until {
                self.attaching.push(it);
            } else {
                self.attach_and_answer(it.asked, &it.wanted);
            }
        }
        self.want_records();
    }

    fn attach_and_answer(&mut self, asked: PendingRequest, Wanted { device, tenant, name }: &Wanted) {
        match self.attach_vif(device, tenant, name) {
            Ok(vif) => asked.answer(&json!({ "device": device, "vif": vif.to_string(), "outcome": "attached" })),
            Err(error) => asked.refuse(&error.to_string(), "`weft agent status` lists VIFs; `weft tenant show` lists names"),
        }
    }

    /// The directory's records have changed: the file is read at once, and what waited for it is attached.
    pub(super) fn take_records(&mut self) {
        let is_news = self.records.as_ref().is_some_and(Records::take_news);
        if is_news {
            self.tenants_file.mark();
            self.reload_tenants();
            self.refresh_vifs();
        }
        if is_news || !self.attaching.is_empty() {
            self.attach_waiting(is_news);
        }
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
        self.want_records();
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
        // Another version of the same changes nothing.
        let is_same = (&self.tenants.tenants, self.tenants.service) == (&tenants.tenants, tenants.service);
        self.tenants = Arc::new(tenants);
        if is_same {
            return;
        }
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

/// How long a command waits for the directory to say what a VIF is.
const RECORDS_TIMEOUT: Duration = Duration::from_secs(3);
