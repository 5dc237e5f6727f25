//! What one agent has of the records: those of the tenants of its VIFs, and of their VIFs only its own.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Tenants, TenantsError};
use super::answer::{Listed, ListedState};
use super::body::tenants_of;
use super::interest::ALL;
use super::name::Name;

/// What an agent asks a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// It wants nothing else any more of this stream.
    pub fresh: bool,
    /// Tenants, and VIFs of theirs.
    pub tenants: Vec<(String, Vec<String>)>,
}

/// A VIF that is wanted and not had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Whose.
    pub tenant: String,
    /// Its name.
    pub vif: String,
    /// Why.
    pub why: Why,
}

/// Why a VIF is not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no such tenant.
    NoTenant,
    /// The tenant has no such VIF.
    NoVif,
    /// The agent may not read the tenant.
    Forbidden,
}

/// An agent's records.
#[derive(Debug, Default)]
pub struct View {
    wanted: BTreeMap<String, BTreeSet<String>>,
    /// By tenant: what a server answered last.
    tenants: BTreeMap<String, Part>,
    site: Option<String>,
    due: BTreeSet<String>,
    fresh: bool,
}

/// What is known of a tenant.
#[derive(Debug, Default)]
struct Part {
    records: BTreeMap<Name, String>,
    is_forbidden: bool,
}

impl View {
    /// Nothing is wanted, and nothing had.
    pub fn new() -> Self {
        Self::default()
    }

    /// The VIFs of this server from now on, as pairs of tenant and name.
    pub fn want(&mut self, vifs: impl IntoIterator<Item = (String, String)>) {
        let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (tenant, vif) in vifs {
            wanted.entry(tenant).or_default().insert(vif);
        }
        let before = std::mem::replace(&mut self.wanted, wanted);
        self.tenants.retain(|tenant, _| self.wanted.contains_key(tenant));
        self.due.retain(|tenant| self.wanted.contains_key(tenant));
        let changed = self.wanted.iter().filter(|(tenant, vifs)| before.get(*tenant) != Some(vifs));
        self.due.extend(changed.map(|(tenant, _)| tenant.clone()));
        // A server forgets a tenant only when all is asked again.
        self.fresh |= before.keys().any(|tenant| !self.wanted.contains_key(tenant));
    }

    /// A new stream, whose server knows of nothing that is wanted.
    pub fn connected(&mut self) {
        self.fresh = true;
    }

    /// A notice came: these tenants have changed.
    pub fn notified<'a>(&mut self, tenants: impl IntoIterator<Item = &'a str>) {
        for tenant in tenants {
            if tenant == ALL {
                self.fresh = true;
            } else if self.wanted.contains_key(tenant) {
                self.due.insert(tenant.to_owned());
            }
        }
    }

    /// Whether there is something to ask.
    pub fn is_due(&self) -> bool {
        self.fresh || !self.due.is_empty()
    }

    /// What to ask now; nothing in particular, to hear whether the server is well.
    pub fn question(&self) -> Question {
        let of = |(tenant, vifs): (&String, &BTreeSet<String>)| (tenant.clone(), vifs.iter().cloned().collect());
        let tenants = self.wanted.iter().filter(|(tenant, _)| self.fresh || self.due.contains(*tenant)).map(of);
        Question { fresh: self.fresh, tenants: tenants.collect() }
    }

    /// The whole answer to a question; whether anything is different now. Notices that came in between are kept.
    pub fn answered(&mut self, question: &Question, listed: impl IntoIterator<Item = Listed>) -> bool {
        let mut site = None;
        let mut parts: BTreeMap<String, Part> =
            question.tenants.iter().map(|(tenant, _)| (tenant.clone(), Part::default())).collect();
        for Listed { name, state } in listed {
            let Ok(name) = name.parse::<Name>() else { continue };
            let part = name.tenant().and_then(|tenant| parts.get_mut(tenant));
            match (part, state) {
                (None, ListedState::Present(_, body)) if name == Name::Site => site = Some(body),
                (Some(part), ListedState::Present(_, body)) => {
                    part.records.insert(name, body);
                }
                (Some(part), ListedState::Forbidden) => part.is_forbidden = true,
                _ => {}
            }
        }
        let mut differs = self.site != site;
        self.site = site;
        for (tenant, part) in parts.into_iter().filter(|(tenant, _)| self.wanted.contains_key(tenant)) {
            differs |= self.tenants.get(&tenant).is_none_or(|it| it.records != part.records);
            self.tenants.insert(tenant, part);
        }
        differs
    }

    /// This question is being asked: what is due from now on is due again. Without an answer, ask on another stream.
    pub fn asked(&mut self, question: &Question) {
        if question.fresh {
            self.fresh = false;
        }
        for (tenant, _) in &question.tenants {
            self.due.remove(tenant);
        }
    }

    /// The tenants, with the VIFs of this server alone.
    ///
    /// # Errors
    /// What is wrong with the records, which no server lets in.
    pub fn tenants(&self, version: u32) -> Result<Tenants, TenantsError> {
        // A router or a VIF without its tenant is one that is being made or removed.
        let whole = self.tenants.iter().filter(|(tenant, it)| it.records.contains_key(&Name::Tenant((*tenant).clone())));
        let records = whole.flat_map(|(_, it)| it.records.iter().map(|(name, body)| (name, body.as_str())));
        tenants_of(version, self.site.iter().map(|body| (&Name::Site, body.as_str())).chain(records))
    }

    /// What is wanted, was asked for, and is not had.
    pub fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for (tenant, vifs) in &self.wanted {
            let Some(part) = self.tenants.get(tenant) else { continue };
            let has_tenant = part.records.contains_key(&Name::Tenant(tenant.clone()));
            let why = if part.is_forbidden {
                Why::Forbidden
            } else if has_tenant {
                Why::NoVif
            } else {
                Why::NoTenant
            };
            let lacks = |vif: &&String| !part.records.contains_key(&Name::Vif(tenant.clone(), (*vif).clone()));
            missing.extend(vifs.iter().filter(lacks).map(|vif| Missing { tenant: tenant.clone(), vif: vif.clone(), why }));
        }
        missing
    }
}
