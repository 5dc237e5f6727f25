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
//! ```

use rustc_hash::FxHashMap;
use serde::Deserialize;

use super::key::{Key, PrincipalId, ServiceId, Value};

/// What a principal is, and so what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Resolves, on behalf of the keys that live on it, what their services may.
    #[default]
    Host,
    /// Reports misdelivered packets; resolves groups only.
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
}

/// What one listed principal may do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    role: Role,
    /// What a provisioner may change; `None`: everything.
    services: Option<Vec<ServiceId>>,
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
        let mut policy =
            Self { version: raw.version, open: false, services, index, matrix: Vec::new(), grants: FxHashMap::default() };
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
        let grants = roles.into_iter().map(|(id, role)| (id, Grant { role, services: None })).collect();
        Self { version: 1, open: true, services: Vec::new(), index: FxHashMap::default(), matrix: Vec::new(), grants }
    }

    /// Its version; agents ignore answers given under an older one than they have seen.
    pub const fn version(&self) -> u32 {
        self.version
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

    /// Whether a principal's reports of misdelivered packets are listened to.
    pub fn may_report(&self, principal: PrincipalId) -> bool {
        self.open || matches!(self.role(principal), Role::Switch | Role::Server | Role::Admin)
    }

    /// Whether a principal may list and watch everything.
    pub fn may_list(&self, principal: PrincipalId) -> bool {
        let unrestricted = self.grants.get(&principal).is_some_and(|grant| grant.services.is_none());
        self.open || (unrestricted && matches!(self.role(principal), Role::Provisioner | Role::Server | Role::Admin))
    }

    /// Whether a principal is a directory server.
    pub fn is_server(&self, principal: PrincipalId) -> bool {
        self.role(principal) == Role::Server
    }

    /// Whether `principal` may make `new` of `key`, which is `old` now. A provisioner of some services may take addresses from them and give
    /// addresses to them, and may not touch groups.
    pub fn may_update(&self, principal: PrincipalId, _key: &Key, old: Option<&Value>, new: Option<&Value>) -> bool {
        let Some(grant) = self.grants.get(&principal) else {
            return false;
        };
        match (grant.role, &grant.services) {
            (Role::Admin, _) | (Role::Provisioner, None) => true,
            (Role::Provisioner, Some(services)) => [old, new].into_iter().flatten().all(|value| match value {
                Value::Mapping(mapping) => services.contains(&mapping.service),
                Value::Group(_) => false,
            }),
            (Role::Host | Role::Switch | Role::Server, _) => false,
        }
    }

    /// Whether somebody could resolve something under `old` that he cannot under this policy.
    pub fn withdraws_from(&self, old: &Self) -> bool {
        if self.open || old.open {
            return old.open && !self.open;
        }
        let pairs = || old.services.iter().flat_map(|&target| old.services.iter().map(move |&asker| (asker, target)));
        let mut all = old.grants.keys().copied().collect::<Vec<_>>();
        all.sort_unstable();
        pairs().any(|(asker, target)| old.may_resolve(asker, target) && !self.may_resolve(asker, target))
            || all.into_iter().any(|principal| old.resolves_all(principal) && !self.resolves_all(principal))
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
}

impl RawPolicy {
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
        Ok(Grant { role: self.role, services })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::directory::key::{GroupId, Locator, Mapping};

    const POLICY: &str = r#"
        version = 3
        [[service]]
        name = "web"
        id = 70000
        allow = ["*"]
        deny = ["batch"]
        [[service]]
        name = "db"
        id = 2
        allow = ["web"]
        [[service]]
        name = "batch"
        id = 9
        [[principal]]
        id = 1
        role = "provisioner"
        services = ["db"]
        [[principal]]
        id = 2
        role = "admin"
        [[principal]]
        id = 3
        role = "switch"
        [[principal]]
        id = 4
        role = "server"
        [[principal]]
        id = 5
        role = "provisioner"
    "#;

    fn mapping(service: u32) -> Value {
        Value::Mapping(Mapping {
            locator: Locator::V4(Ipv4Addr::LOCALHOST),
            mac: None,
            group: GroupId(0),
            service: ServiceId(service),
            owner: PrincipalId(0),
            lease_ms: 0,
        })
    }

    #[test]
    fn services_resolve_themselves_and_whom_they_are_allowed() {
        let policy = Policy::parse(POLICY).unwrap();
        let (web, db, batch) = (70_000, 2, 9);
        let may = |asker, target| policy.may_resolve(ServiceId(asker), ServiceId(target));
        for service in [web, db, batch] {
            assert!(may(service, service));
        }
        assert!(may(web, db) && may(db, web));
        assert!(!may(batch, web), "denied though all are allowed");
        assert!(!may(batch, db) && !may(web, batch) && !may(db, batch));
        // Never open for what is not known.
        assert!(!may(0, web) && !may(web, 0) && !may(0, 0) && !may(5, 5));
    }

    #[test]
    fn roles_say_who_changes_what() {
        let policy = Policy::parse(POLICY).unwrap();
        let key = Key::App4(Ipv4Addr::LOCALHOST);
        let may = |id, old: Option<u32>, new: Option<u32>| {
            policy.may_update(PrincipalId(id), &key, old.map(mapping).as_ref(), new.map(mapping).as_ref())
        };
        assert!(may(1, None, Some(2)) && may(1, Some(2), None) && may(1, Some(2), Some(2)));
        assert!(!may(1, None, Some(9)) && !may(1, Some(9), None) && !may(1, Some(9), Some(2)) && !may(1, None, Some(0)));
        assert!(may(2, Some(9), Some(2)) && may(5, Some(9), None));
        assert!(!may(3, None, Some(2)) && !may(4, None, Some(2)) && !may(77, None, Some(2)), "switches, servers and hosts");
        assert_eq!(policy.role(PrincipalId(77)), Role::Host);
        assert!(!policy.may_list(PrincipalId(1)) && policy.may_list(PrincipalId(5)) && !policy.may_list(PrincipalId(77)));
        assert!(policy.may_report(PrincipalId(3)) && !policy.may_report(PrincipalId(77)));
        assert!(!policy.resolves_all(PrincipalId(3)) && policy.resolves_all(PrincipalId(2)));
    }

    #[test]
    fn contradictions_are_refused_with_a_remedy() {
        let service = |lines: &str| format!("version = 1\n[[service]]\nname = \"a\"\nid = 1\n{lines}");
        let cases = [
            ("version = 0".to_owned(), "version is 0"),
            ("version = 1\nvesrion = 2".to_owned(), "vesrion"),
            ("version = -1".to_owned(), "cannot be read"),
            ("".to_owned(), "version"),
            (service("alow = []"), "alow"),
            (service("[[service]]\nname = \"a\"\nid = 2"), "`a` is there twice"),
            (service("[[service]]\nname = \"b\"\nid = 1"), "`a` and `b` both have id 1"),
            (service("[[service]]\nname = \"b\"\nid = 0"), "id 0"),
            (service("[[service]]\nname = \"*\"\nid = 3"), "name `*`"),
            (service("allow = [\"x\"]"), "names service `x`"),
            (service("deny = [\"*\"]"), "names service `*`"),
            (service("deny = [\"a\"]"), "denies itself"),
            (service("allow = [\"b\"]\ndeny = [\"b\"]\n[[service]]\nname = \"b\"\nid = 2"), "both allows and denies `b`"),
            (service("[[principal]]\nid = 0\nrole = \"host\""), "id 0"),
            (service("[[principal]]\nid = 4\nrole = \"king\""), "king"),
            (
                service("[[principal]]\nid = 4\nrole = \"host\"\n[[principal]]\nid = 4\nrole = \"host\""),
                "principal 4 is there twice",
            ),
            (service("[[principal]]\nid = 4\nrole = \"host\"\nservices = [\"a\"]"), "no provisioner"),
            (service("[[principal]]\nid = 4\nrole = \"provisioner\"\nservices = [\"b\"]"), "principal 4 names service `b`"),
        ];
        for (text, expected) in cases {
            let error = Policy::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }

    #[test]
    fn many_services_fill_several_words() {
        let mut text = "version = 1\n".to_owned();
        for id in 1..=200 {
            let allow = if id > 1 { format!("allow = [\"s{}\"]", id - 1) } else { String::new() };
            text += &format!("[[service]]\nname = \"s{id}\"\nid = {}\n{allow}\n", id * 3);
        }
        let policy = Policy::parse(&text).unwrap();
        for asker in 1..=200u32 {
            for target in 1..=200u32 {
                let expected = asker == target || asker + 1 == target;
                assert_eq!(policy.may_resolve(ServiceId(asker * 3), ServiceId(target * 3)), expected, "{asker} {target}");
            }
        }
    }

    #[test]
    fn withdrawals_between_versions_are_seen() {
        let old = Policy::parse(POLICY).unwrap();
        let parse = |from: &str, to: &str| Policy::parse(&POLICY.replace(from, to)).unwrap();
        assert!(!parse("version = 3", "version = 4").withdraws_from(&old));
        assert!(!parse("deny = [\"batch\"]", "").withdraws_from(&old), "more is allowed");
        assert!(parse("allow = [\"web\"]", "").withdraws_from(&old));
        assert!(parse("role = \"admin\"", "role = \"host\"").withdraws_from(&old));
        assert!(old.withdraws_from(&Policy::open([])) && !Policy::open([]).withdraws_from(&old));
    }

    #[test]
    fn an_open_policy_lets_all_resolve_and_few_write() {
        let policy = Policy::open([(PrincipalId(1), Role::Provisioner)]);
        let key = Key::Group(GroupId(1));
        assert!(policy.may_resolve(ServiceId(0), ServiceId(5)) && policy.resolves_all(PrincipalId(9)));
        assert!(policy.may_update(PrincipalId(1), &key, None, None) && !policy.may_update(PrincipalId(9), &key, None, None));
        assert!(!policy.is_server(PrincipalId(9)));
    }
}
