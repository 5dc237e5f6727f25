//! Who may resolve whom, and who may change what (VL2, section 4.2.1). Whatever is not allowed is refused: an unknown service, a key
//! without one, a principal without a role that says otherwise.
//!
//! ```toml
//! version = 3                      # grows with every change
//! [[service]]
//! name = "db"
//! id = 7                           # the service of a mapping
//! allow = ["web"]                  # whose hosts may resolve this one's addresses, besides its own; ["*"]: all
//! deny = []                        # except these
//! [[principal]]                    # who is not listed is a host
//! id = 900
//! role = "provisioner"             # host | switch | provisioner | server | admin
//! services = ["db", "web"]         # the only ones that a provisioner may change; without it: all
//! [[principal]]
//! id = 40
//! role = "switch"
//! locators = ["10.1.1.1"]          # of a switch or host: addresses that are there already may be brought to these
//! [[part]]                         # only of a divided directory (see `parts`)
//! name = "b"
//! servers = ["10.1.2.1:5303"]
//! prefixes = ["10.128.0.0/9"]      # and `tenants = [7, "100-199"]`, or `default = true`
//! ```

use std::net::SocketAddr;

use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::key::{Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use super::parts::{Incoming, Part, PartMap, PartsError};
use crate::wire::directory::emit_map;

/// What a principal is, and so what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Resolves, on behalf of the keys that live on it, what their services may.
    #[default]
    Host,
    /// Reports misdelivered packets; resolves groups, and with locators of its own all addresses, which it may bring there.
    Switch,
    /// Changes mappings; resolves everything.
    Provisioner,
    /// A directory server: disseminates commits; resolves everything.
    Server,
    /// May do everything that a client can.
    Admin,
}

/// Why a policy was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// It is not TOML, or not of this form.
    #[error("the policy cannot be read: {0}")]
    Syntax(String),
    /// Versions begin at 1.
    #[error("the policy's version is 0: write `version = 1`, and a greater one with every change")]
    Version,
    /// An id is 0.
    #[error("{what} has id 0, which means \"none\": give it another")]
    Zero {
        /// Whose id.
        what: String,
    },
    /// Two services have one name.
    #[error("service `{0}` is there twice: remove or rename one")]
    ServiceTwice(String),
    /// Two services have one id.
    #[error("services `{first}` and `{second}` both have id {id}: give one of them another")]
    IdTwice {
        /// The id.
        id: u32,
        /// One service.
        first: String,
        /// The other.
        second: String,
    },
    /// A service that is not in the policy.
    #[error("{what} names service `{name}`, which is not in the policy: add a [[service]] of that name, or remove it there")]
    UnknownService {
        /// Who names it.
        what: String,
        /// The unknown name.
        name: String,
    },
    /// Both allowed and denied.
    #[error("service `{service}` both allows and denies `{name}`: remove it from one of the lists")]
    AllowAndDeny {
        /// Whose lists.
        service: String,
        /// The contradiction.
        name: String,
    },
    /// A service's own hosts can always resolve its addresses.
    #[error("service `{0}` denies itself, whose hosts may always resolve it: remove it from `deny`")]
    DeniesItself(String),
    /// A service's name is empty or `*`.
    #[error("a service has the name `{0}`: use one that is not empty and not `*`")]
    BadName(String),
    /// Two entries for one principal.
    #[error("principal {0} is there twice: remove one")]
    PrincipalTwice(u32),
    /// Only what a provisioner changes can be restricted.
    #[error("principal {0} has `services` but is no provisioner: remove `services`, or make its role \"provisioner\"")]
    ServicesWithoutUse(u32),
    /// Only switches and hosts have locators.
    #[error(
        "principal {0} has `locators` but is neither switch nor host: remove `locators`, or make its role \"switch\" or \"host\""
    )]
    LocatorsWithoutUse(u32),
    /// A locator that is none.
    #[error("principal {principal}: {error}")]
    BadLocator {
        /// Whose.
        principal: u32,
        /// What is wrong with it.
        error: super::key::KeyError,
    },
    /// An empty list, which would say nothing.
    #[error("principal {0} has an empty list of `locators`: list its own, such as [\"10.1.1.1\"], or remove it")]
    NoLocators(u32),
    /// Parts that are no map.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// The directory is divided, and the server has no part.
    #[error("the policy divides the directory into parts {}, and this server has none: start it with --part NAME", .0.join(", "))]
    WithoutPart(Vec<String>),
    /// The server's part is not in the policy.
    #[error("part `{part}` of this server is not in the policy, which has {}", if .parts.is_empty() { "no [[part]]".to_owned() } else { .parts.join(", ") })]
    NoSuchPart {
        /// The server's.
        part: String,
        /// Those that there are.
        parts: Vec<String>,
    },
    /// A new policy whose version is not greater.
    #[error("the new policy's version {new} is not greater than {old}, the version in force: raise it")]
    NotNewer {
        /// In force.
        old: u32,
        /// Offered.
        new: u32,
    },
}

/// An access policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    version: u32,
    /// Everybody authenticated may resolve everything.
    open: bool,
    /// In order of ids.
    services: Vec<ServiceId>,
    index: FxHashMap<ServiceId, u32>,
    /// Row: the target's index; bit: the asker's.
    matrix: Vec<u64>,
    grants: FxHashMap<PrincipalId, Grant>,
    /// Of a divided directory.
    division: Option<Division>,
}

/// How the directory is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Division {
    map: PartMap,
    /// As clients get it.
    bytes: Vec<u8>,
}

/// What one listed principal may do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    role: Role,
    /// What a provisioner may change; `None`: everything.
    services: Option<Vec<ServiceId>>,
    /// To where a switch or a host may bring addresses.
    locators: Vec<Locator>,
}

impl Grant {
    /// Whether a switch may bring this address to one of its locators, or a host one that is its own. All else stays as it is.
    fn may_bring(&self, principal: PrincipalId, key: &Key, old: &Mapping, new: &Mapping) -> bool {
        let is_address = matches!(key, Key::App4(_) | Key::App6(_));
        let its_own = match self.role {
            Role::Switch => true,
            Role::Host => old.owner == principal && principal != PrincipalId(0),
            Role::Provisioner | Role::Server | Role::Admin => false,
        };
        is_address && its_own && self.locators.contains(&new.locator) && *new == Mapping { locator: new.locator, ..*old }
    }
}

impl Policy {
    /// Reads a policy file's text.
    ///
    /// # Errors
    /// [`PolicyError`], which says what to change.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let raw: RawPolicy = toml::from_str(text).map_err(|error| PolicyError::Syntax(error.to_string()))?;
        if raw.version == 0 {
            return Err(PolicyError::Version);
        }
        let names = raw.names()?;
        let mut services: Vec<ServiceId> = raw.service.iter().map(|service| ServiceId(service.id)).collect();
        services.sort_unstable();
        let index: FxHashMap<_, _> = services.iter().enumerate().map(|(at, &id)| (id, at as u32)).collect();
        let mut policy = Self {
            version: raw.version,
            open: false,
            services,
            index,
            matrix: Vec::new(),
            grants: FxHashMap::default(),
            division: raw.division()?,
        };
        policy.matrix = vec![0; policy.services.len() * policy.row_words()];
        for service in &raw.service {
            policy.allow(service, &names)?;
        }
        for principal in &raw.principal {
            if principal.id == 0 {
                return Err(PolicyError::Zero { what: "a principal".to_owned() });
            }
            let grant = principal.grant(&names)?;
            if policy.grants.insert(PrincipalId(principal.id), grant).is_some() {
                return Err(PolicyError::PrincipalTwice(principal.id));
            }
        }
        Ok(policy)
    }

    /// The policy without a file, version 1: everybody authenticated may resolve everything and report misdelivered packets; these principals
    /// have roles, all others are hosts.
    pub fn open(roles: impl IntoIterator<Item = (PrincipalId, Role)>) -> Self {
        let grants = roles.into_iter().map(|(id, role)| (id, Grant { role, services: None, locators: Vec::new() })).collect();
        let (services, index, matrix) = Default::default();
        Self { version: 1, open: true, services, index, matrix, grants, division: None }
    }

    /// Its version; agents ignore answers given under an older one than they have seen.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Which part of a divided directory has which keys; `None`: it is not divided.
    #[inline]
    pub fn parts(&self) -> Option<&PartMap> {
        self.division.as_ref().map(|division| &division.map)
    }

    /// The same as clients get it; empty if it is not divided.
    pub fn parts_bytes(&self) -> &[u8] {
        self.division.as_ref().map_or(&[], |division| &division.bytes)
    }

    /// The place of a server's part, by its name.
    ///
    /// # Errors
    /// [`PolicyError::WithoutPart`] and [`PolicyError::NoSuchPart`].
    pub fn place_of_part(&self, part: Option<&str>) -> Result<Option<usize>, PolicyError> {
        let parts = self.parts().map(PartMap::parts).unwrap_or_default();
        let names = || parts.iter().map(|part| part.name.clone()).collect();
        match part {
            None if parts.is_empty() => Ok(None),
            None => Err(PolicyError::WithoutPart(names())),
            Some(name) => match parts.iter().position(|part| part.name == name) {
                None => Err(PolicyError::NoSuchPart { part: name.to_owned(), parts: names() }),
                place => Ok(place),
            },
        }
    }

    /// What a principal is.
    #[inline]
    pub fn role(&self, principal: PrincipalId) -> Role {
        self.grants.get(&principal).map_or(Role::Host, |grant| grant.role)
    }

    /// Whether hosts of service `asker` may resolve addresses of service `target`.
    #[inline]
    pub fn may_resolve(&self, asker: ServiceId, target: ServiceId) -> bool {
        if self.open {
            return true;
        }
        let (Some(&asker), Some(&target)) = (self.index.get(&asker), self.index.get(&target)) else {
            return false;
        };
        let (asker, target) = (asker as usize, target as usize);
        self.matrix[target * self.row_words() + asker / 64] >> (asker % 64) & 1 == 1
    }

    /// Whether a principal may resolve every key, for no asker in particular.
    #[inline]
    pub fn resolves_all(&self, principal: PrincipalId) -> bool {
        self.open || matches!(self.role(principal), Role::Provisioner | Role::Server | Role::Admin)
    }

    /// Whether a principal may resolve every application address, though not tenants': a switch with locators must know what it leaves as it
    /// is. It may bring each of them to itself, so it learns nothing that it could not make so.
    #[inline]
    pub fn resolves_addresses(&self, principal: PrincipalId) -> bool {
        self.grants.get(&principal).is_some_and(|grant| grant.role == Role::Switch && !grant.locators.is_empty())
    }

    /// Whether a principal's reports of misdelivered packets are listened to.
    pub fn may_report(&self, principal: PrincipalId) -> bool {
        self.open || matches!(self.role(principal), Role::Switch | Role::Server | Role::Admin)
    }

    /// Whether a principal may list and watch everything.
    pub fn may_list(&self, principal: PrincipalId) -> bool {
        let unrestricted = self.grants.get(&principal).is_some_and(|grant| grant.services.is_none());
        self.open || (unrestricted && matches!(self.role(principal), Role::Provisioner | Role::Server | Role::Admin))
    }

    /// Whether a principal may publish a document, such as the tenants' file. Each principal may read all of them.
    pub fn may_publish(&self, principal: PrincipalId) -> bool {
        let grant = self.grants.get(&principal);
        grant.is_some_and(|grant| grant.services.is_none() && matches!(grant.role, Role::Provisioner | Role::Admin))
    }

    /// Whether a principal may read the records of all tenants, also those that have other readers.
    pub fn reads_tenants(&self, principal: PrincipalId) -> bool {
        let grant = self.grants.get(&principal).filter(|grant| grant.services.is_none());
        grant.is_some_and(|grant| matches!(grant.role, Role::Provisioner | Role::Server | Role::Admin))
    }

    /// Whether a principal is a directory server.
    pub fn is_server(&self, principal: PrincipalId) -> bool {
        self.role(principal) == Role::Server
    }

    /// Whether `principal` may make `new` of `key`, which is `old` now. A provisioner of some services may take addresses from them and give
    /// addresses to them, and may not touch groups. A switch or a host with locators may bring addresses there, and change nothing else.
    pub fn may_update(&self, principal: PrincipalId, key: &Key, old: Option<&Value>, new: Option<&Value>) -> bool {
        let Some(grant) = self.grants.get(&principal) else {
            return false;
        };
        match (grant.role, &grant.services) {
            (Role::Admin, _) | (Role::Provisioner, None) => true,
            (Role::Provisioner, Some(services)) => [old, new].into_iter().flatten().all(|value| match value {
                Value::Mapping(mapping) => services.contains(&mapping.service),
                Value::Group(_) => false,
            }),
            (Role::Host | Role::Switch, _) => match (old, new) {
                (Some(Value::Mapping(old)), Some(Value::Mapping(new))) => grant.may_bring(principal, key, old, new),
                _ => false,
            },
            (Role::Server, _) => false,
        }
    }

    /// Whether there is anything that `principal` may make of `key`: what cannot be is refused before anybody looks at what the key is now.
    pub fn may_ever_update(&self, principal: PrincipalId, key: &Key) -> bool {
        let Some(grant) = self.grants.get(&principal) else {
            return false;
        };
        match grant.role {
            Role::Host | Role::Switch => !grant.locators.is_empty() && matches!(key, Key::App4(_) | Key::App6(_)),
            Role::Provisioner | Role::Server | Role::Admin => self.may_update(principal, key, None, None),
        }
    }

    /// Whether somebody could resolve something under `old` that he cannot under this policy, or not from the same servers.
    pub fn withdraws_from(&self, old: &Self) -> bool {
        let moves = match (self.parts(), old.parts()) {
            (Some(new), Some(old)) => new.moves_from(old),
            (new, old) => new.is_some() != old.is_some(),
        };
        moves || self.forbids_from(old)
    }

    fn forbids_from(&self, old: &Self) -> bool {
        if self.open || old.open {
            return old.open && !self.open;
        }
        let pairs = || old.services.iter().flat_map(|&target| old.services.iter().map(move |&asker| (asker, target)));
        let mut all = old.grants.keys().copied().collect::<Vec<_>>();
        all.sort_unstable();
        pairs().any(|(asker, target)| old.may_resolve(asker, target) && !self.may_resolve(asker, target))
            || all.iter().any(|&principal| old.resolves_all(principal) && !self.resolves_all(principal))
            || all.into_iter().any(|principal| {
                old.resolves_addresses(principal) && !self.resolves_addresses(principal) && !self.resolves_all(principal)
            })
    }

    const fn row_words(&self) -> usize {
        self.services.len().div_ceil(64)
    }

    /// Fills a service's row.
    fn allow(&mut self, service: &RawService, names: &FxHashMap<&str, ServiceId>) -> Result<(), PolicyError> {
        let words = self.row_words();
        let row = self.index[&ServiceId(service.id)] as usize * words;
        let what = || format!("service `{}`", service.name);
        for name in &service.allow {
            if service.deny.contains(name) {
                return Err(PolicyError::AllowAndDeny { service: service.name.clone(), name: name.clone() });
            }
            let askers = if name == "*" { 0..self.services.len() } else { self.at(name, names, what)? };
            askers.for_each(|asker| self.matrix[row + asker / 64] |= 1 << (asker % 64));
        }
        for name in &service.deny {
            if *name == service.name {
                return Err(PolicyError::DeniesItself(name.clone()));
            }
            self.at(name, names, what)?.for_each(|asker| self.matrix[row + asker / 64] &= !(1 << (asker % 64)));
        }
        let own = row / words.max(1);
        self.matrix[row + own / 64] |= 1 << (own % 64);
        Ok(())
    }

    fn at(
        &self,
        name: &str,
        names: &FxHashMap<&str, ServiceId>,
        what: impl Fn() -> String,
    ) -> Result<std::ops::Range<usize>, PolicyError> {
        let at = self.index[&known(name, names, what)?] as usize;
        Ok(at..at + 1)
    }
}

fn known(name: &str, names: &FxHashMap<&str, ServiceId>, what: impl Fn() -> String) -> Result<ServiceId, PolicyError> {
    names.get(name).copied().ok_or_else(|| PolicyError::UnknownService { what: what(), name: name.to_owned() })
}

/// A policy file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    version: u32,
    #[serde(default)]
    service: Vec<RawService>,
    #[serde(default)]
    principal: Vec<RawPrincipal>,
    #[serde(default)]
    part: Vec<RawPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPart {
    name: String,
    servers: Vec<SocketAddr>,
    #[serde(default)]
    prefixes: Vec<String>,
    #[serde(default)]
    tenants: Vec<RawTenants>,
    #[serde(default)]
    default: bool,
    #[serde(default)]
    incoming: RawIncoming,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawIncoming {
    #[serde(default)]
    prefixes: Vec<String>,
    #[serde(default)]
    tenants: Vec<RawTenants>,
}

/// One tenant, or `"first-last"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawTenants {
    One(u32),
    Range(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawService {
    name: String,
    id: u32,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    deny: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrincipal {
    id: u32,
    role: Role,
    services: Option<Vec<String>>,
    locators: Option<Vec<String>>,
}

impl RawPolicy {
    fn division(&self) -> Result<Option<Division>, PolicyError> {
        if self.part.is_empty() {
            return Ok(None);
        }
        let map = PartMap::new(self.part.iter().map(RawPart::part).collect::<Result<_, _>>()?)?;
        let mut bytes = Vec::new();
        emit_map(&map, &mut bytes);
        Ok(Some(Division { map, bytes }))
    }

    /// The services' ids by name.
    fn names(&self) -> Result<FxHashMap<&str, ServiceId>, PolicyError> {
        let mut names = FxHashMap::default();
        let mut ids: FxHashMap<u32, &str> = FxHashMap::default();
        for service in &self.service {
            if service.name.is_empty() || service.name == "*" {
                return Err(PolicyError::BadName(service.name.clone()));
            }
            if service.id == 0 {
                return Err(PolicyError::Zero { what: format!("service `{}`", service.name) });
            }
            if names.insert(service.name.as_str(), ServiceId(service.id)).is_some() {
                return Err(PolicyError::ServiceTwice(service.name.clone()));
            }
            if let Some(first) = ids.insert(service.id, &service.name) {
                return Err(PolicyError::IdTwice { id: service.id, first: first.to_owned(), second: service.name.clone() });
            }
        }
        Ok(names)
    }
}

impl RawPart {
    fn part(&self) -> Result<Part, PartsError> {
        let prefix = |text: &String| text.parse().map_err(|error| PartsError::Prefix { part: self.name.clone(), error });
        let prefixes = |list: &[String]| list.iter().map(prefix).collect::<Result<_, _>>();
        let tenants = |tenants: &RawTenants| match tenants {
            RawTenants::One(tenant) => Part::tenants_from(&self.name, &tenant.to_string()),
            RawTenants::Range(text) => Part::tenants_from(&self.name, text),
        };
        Ok(Part {
            name: self.name.clone(),
            servers: self.servers.clone(),
            prefixes: prefixes(&self.prefixes)?,
            tenants: self.tenants.iter().map(tenants).collect::<Result<_, _>>()?,
            is_default: self.default,
            incoming: Incoming {
                prefixes: prefixes(&self.incoming.prefixes)?,
                tenants: self.incoming.tenants.iter().map(tenants).collect::<Result<_, _>>()?,
            },
        })
    }
}

impl RawPrincipal {
    fn grant(&self, names: &FxHashMap<&str, ServiceId>) -> Result<Grant, PolicyError> {
        let services = match &self.services {
            None => None,
            Some(_) if self.role != Role::Provisioner => return Err(PolicyError::ServicesWithoutUse(self.id)),
            Some(list) => {
                let what = || format!("principal {}", self.id);
                Some(list.iter().map(|name| known(name, names, what)).collect::<Result<_, _>>()?)
            }
        };
        Ok(Grant { role: self.role, services, locators: self.own_locators()? })
    }

    fn own_locators(&self) -> Result<Vec<Locator>, PolicyError> {
        let Some(list) = &self.locators else { return Ok(Vec::new()) };
        if !matches!(self.role, Role::Switch | Role::Host) {
            return Err(PolicyError::LocatorsWithoutUse(self.id));
        }
        if list.is_empty() {
            return Err(PolicyError::NoLocators(self.id));
        }
        let read = |text: &String| text.parse().map_err(|error| PolicyError::BadLocator { principal: self.id, error });
        list.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests;
