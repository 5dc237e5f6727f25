//! VIFs come to this server and leave it: by the configuration, by command, with the tenants' file, with VMs' interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use weft_control::netlord::agent::{Input, VifId};
use weft_control::netlord::tenants::VifSpec;
use weft_control::netlord::{PROVIDER, PUBLIC, Vif};

use super::Host;
use super::names::Names;
use super::records::Records;
use super::tenants::{read_tenants, spec};
use super::vif::{Attaching, OwnVif, Wanted};
use crate::error::Result;
use crate::interface::{interfaces, name_of};
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
            let is_known = self.is_known(&wanted);
            if !is_known && !self.config.has_repository() {
                spec(&self.tenants, &wanted.tenant, &wanted.name)?;
            } else if !is_known || HostPlane::index_of(&wanted.device).is_none() {
                self.want(wanted);
            } else if !self.has(&wanted) {
                self.attach_vif(&wanted.device, &wanted.tenant, &wanted.name)?;
            }
        }
        Ok(())
    }

    fn want(&mut self, wanted: Wanted) {
        self.wanted.insert(wanted.device.clone(), wanted);
        self.want_records();
    }

    /// The records that this server is to have.
    pub(super) fn want_records(&self) {
        if let Some(records) = &self.records {
            let all = self.wanted.values().chain(self.attaching.iter().map(|it| &it.wanted));
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

    /// Whether the tenants' file has such a VIF.
    fn is_known(&self, wanted: &Wanted) -> bool {
        self.names.find(&self.tenants, &wanted.tenant, &wanted.name).is_some()
    }

    /// Whether it is attached.
    fn has(&self, wanted: &Wanted) -> bool {
        let own = self.by_device.get(&wanted.device).and_then(|at| self.vifs.get(at));
        own.is_some_and(|own| own.is(wanted))
    }

    /// Interfaces of VMs come and go: the kernel reports it, and they are looked at now and then.
    pub(super) fn refresh_vifs(&mut self) {
        let now = Instant::now();
        if self.look > now {
            return;
        }
        self.look = now + LOOK;
        let Ok(there) = interfaces() else { return };
        let gone: Vec<(u32, String)> = self
            .vifs
            .iter()
            .filter(|(at, own)| own.vif.tenant != PROVIDER && there.get(&own.device) != Some(at))
            .map(|(&at, own)| (at, own.device.clone()))
            .collect();
        for (ifindex, device) in gone {
            tracing::info!(device, "a VM's interface is gone");
            self.forget_vif(ifindex);
        }
        let is_back = |it: &&Wanted| there.contains_key(&it.device) && !self.has(it) && self.is_known(it);
        let back: Vec<Wanted> = self.wanted.values().filter(is_back).cloned().collect();
        for Wanted { device, tenant, name } in back {
            match self.attach_vif(&device, &tenant, &name) {
                Ok(vif) => tracing::info!(device, %vif, "a VM's interface is there"),
                Err(error) => tracing::warn!(device, %error, "a VM's interface is not taken"),
            }
        }
    }

    /// Interfaces that are wanted and not there, or not taken.
    pub(super) fn absent(&self) -> Vec<String> {
        let is_absent = |it: &&Wanted| !self.has(it);
        self.wanted.values().filter(is_absent).map(|it| format!("{} of {}/{}", it.device, it.tenant, it.name)).collect()
    }

    /// VIFs that were attached while an earlier agent ran, if their interfaces and names are still there.
    pub(super) fn attach_inherited(&mut self, vifs: Vec<InheritedVif>) {
        let all: BTreeSet<Vif> = vifs.iter().map(|it| it.vif).collect();
        let known = self.tenants.vifs().filter(|(_, spec)| all.contains(&spec.vif));
        let mut known: BTreeMap<Vif, (String, String)> =
            known.map(|(tenant, spec)| (spec.vif, (tenant.name.clone(), spec.name.clone()))).collect();
        for InheritedVif { ifindex, vif } in vifs {
            // Created and attached again, if it is still configured.
            if vif.tenant == PROVIDER && self.config.provider.is_some() {
                continue;
            }
            let attached = match (name_of(ifindex), known.remove(&vif)) {
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
        let found = self.names.find(&self.tenants, tenant, name);
        let spec = found.map_or_else(|| spec(&self.tenants, tenant, name), Ok)?.clone();
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
        if let Some((VifId(other), _)) = self.agent.vif(vif).filter(|(id, _)| id.0 != ifindex)
            && let Some(device) = self.vifs.get(&other).map(|own| own.device.clone())
        {
            self.detach_vif(&device);
        }
        for &ip in &addresses {
            let done = self.plane.set_owned(ifindex, ip);
            // Others than those of the public space can do without.
            if vif.tenant == PUBLIC {
                done?;
            }
        }
        self.by_device.insert(own.device.clone(), ifindex);
        self.vifs.insert(ifindex, own);
        self.input(Input::Attach { id: VifId(ifindex), vif, addresses });
        if let Some((_, uplink)) = self.agent.vif(vif) {
            self.write_home(ifindex, vif, uplink);
        }
        Ok(ifindex)
    }

    /// A VM's interface is no VIF any longer. What it was.
    pub(super) fn detach_vif(&mut self, device: &str) -> Option<Vif> {
        self.wanted.remove(device);
        self.want_records();
        let ifindex = *self.by_device.get(device)?;
        self.forget_vif(ifindex)
    }

    pub(super) fn forget_vif(&mut self, ifindex: u32) -> Option<Vif> {
        let own = self.vifs.remove(&ifindex)?;
        if self.by_device.get(&own.device) == Some(&ifindex) {
            self.by_device.remove(&own.device);
        }
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
        self.names = Names::new(&tenants);
        self.tenants = Arc::new(tenants);
        self.look = Instant::now();
        if is_same {
            return;
        }
        self.input(Input::Configure(Arc::clone(&self.tenants)));
        let is_other = |own: &OwnVif| {
            let same = |s: &VifSpec| s.vif == own.vif && s.addresses == own.addresses;
            own.vif.tenant != PROVIDER && !self.names.find(&self.tenants, &own.tenant, &own.name).is_some_and(same)
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
/// How often interfaces are looked at that the kernel has said nothing of.
const LOOK: Duration = Duration::from_secs(30);
