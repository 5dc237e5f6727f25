//! VIFs of this server, and the tenants' file that says what they are.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use weft_control::netlord::agent::{Input, VifId};
use weft_control::netlord::tenants::{Tenants, VifSpec};
use weft_control::netlord::{PROVIDER, PUBLIC, Vif};

use super::Host;
use super::config::HostConfig;
use crate::agent::iproute::run;
use crate::cli::{Error, Result};
use crate::dataplane::netlord::{HostPlane, InheritedVif};

/// A VIF that is to be attached whenever its interface is there: a VM that is started again has a new one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub device: String,
    pub tenant: String,
    pub name: String,
}

/// A VIF of this server.
#[derive(Clone, Debug)]
pub(super) struct OwnVif {
    pub device: String,
    pub tenant: String,
    pub name: String,
    pub vif: Vif,
    /// As the file has them; the machine may have learnt more.
    pub addresses: Vec<IpAddr>,
    /// What the table of VIFs says: what it is, and the interface by which it sends.
    pub written: Option<(Vif, Option<u32>)>,
}

impl OwnVif {
    fn is(&self, wanted: &Wanted) -> bool {
        (&self.device, &self.tenant, &self.name) == (&wanted.device, &wanted.tenant, &wanted.name)
    }
}

impl Host {
    /// The VIFs of the configuration. Those whose interfaces are not there yet are attached when they are; so are those that the file does not have,
    /// if the repository may send one that has.
    ///
    /// # Errors
    /// [`Error`] if the file has no such VIF, or the kernel refuses.
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
    pub(super) fn look_at_vifs(&mut self) {
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
            // Made and attached anew, if it still is to be.
            if vif.tenant == PROVIDER && self.config.provider.is_some() {
                continue;
            }
            let known = self.tenants.vifs().find(|(_, spec)| spec.vif == vif);
            let names = known.map(|(tenant, spec)| (tenant.name.clone(), spec.name.clone()));
            let attached = match (device_of(ifindex), names) {
                (Some(device), Some((tenant, name))) => self.attach_vif(&device, &tenant, &name).is_ok(),
                _ => false,
            };
            if !attached {
                tracing::info!(ifindex, %vif, "a VIF of an earlier agent is gone");
                let removed = self.plane.remove_vif(ifindex).and_then(|()| self.plane.set_local(vif, None));
                self.note(removed);
                if let Some(device) = device_of(ifindex).filter(|_| vif.tenant == PROVIDER) {
                    tracing::info!(device, removed = run(&["link", "del", &device]).is_ok(), "there is no [provider] any more");
                }
            }
        }
    }

    /// A VM's interface is that VIF from now on.
    ///
    /// # Errors
    /// [`Error`] if there is no such interface, or the file has no such VIF.
    pub(super) fn attach_vif(&mut self, device: &str, tenant: &str, name: &str) -> Result<Vif> {
        self.look_at_tenants();
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
    /// [`Error`] if there is no such interface, or the kernel refuses.
    pub(super) fn take_vif(&mut self, own: OwnVif) -> Result<u32> {
        let ifindex = self.plane.attach_vif(&own.device)?;
        let OwnVif { vif, addresses, .. } = own.clone();
        // Somewhere else on this server until now.
        let others: Vec<String> =
            self.vifs.iter().filter(|(at, it)| it.vif == vif && **at != ifindex).map(|(_, it)| it.device.clone()).collect();
        for other in others {
            self.detach_vif(&other);
        }
        if vif.tenant == PUBLIC {
            for &ip in &addresses {
                self.plane.set_owned(ifindex, ip)?;
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
        self.note(removed);
        Some(own.vif)
    }

    /// Reads the tenants' file anew, if it has changed. What is wrong with a new one is told, and the old one holds.
    pub(super) fn look_at_tenants(&mut self) {
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

fn spec<'a>(tenants: &'a Tenants, tenant: &str, name: &str) -> Result<&'a VifSpec> {
    let found = tenants.by_name(tenant).ok_or_else(|| {
        let names: Vec<&str> = tenants.tenants.values().map(|it| it.name.as_str()).collect();
        Error::new(format!("the tenants' file has no tenant `{tenant}`"), format!("it has: {}", names.join(", ")))
    })?;
    found.vifs.iter().find(|vif| vif.name == name).ok_or_else(|| {
        let names: Vec<&str> = found.vifs.iter().map(|it| it.name.as_str()).collect();
        Error::new(format!("tenant `{tenant}` has no VIF `{name}`"), format!("it has: {}", names.join(", ")))
    })
}

/// The tenants to begin with: none, where the repository sends the first file.
///
/// # Errors
/// [`Error`] if the file cannot be read.
pub(super) fn first_tenants(config: &HostConfig) -> Result<Tenants> {
    let file = config.tenants.get_ref();
    if config.has_repository() && !file.exists() { Ok(Tenants::default()) } else { read_tenants(file) }
}

/// The file's tenants.
///
/// # Errors
/// [`Error`].
pub(super) fn read_tenants(path: &Path) -> Result<Tenants> {
    let text = fs::read_to_string(path).map_err(|error| {
        let help = "`tenants` names it; `weft tenant create` makes one";
        Error::new(format!("cannot read the tenants' file {}: {error}", path.display()), help)
    })?;
    Tenants::parse(&text).map_err(|e| Error::new(format!("{}: {e}", path.display()), "docs/tenants.md has the file's schema"))
}

/// The name of an interface of this namespace.
fn device_of(ifindex: u32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: there is room for the longest name and the zero behind it.
    let found = unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) };
    let bytes = name.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    if found.is_null() { None } else { String::from_utf8(bytes).ok() }
}
