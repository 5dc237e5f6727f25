//! The names of records.

use std::fmt;
use std::str::FromStr;

use super::super::check::check_name;

/// A record's name. Its text is the key in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Name {
    /// What holds for all tenants.
    Site,
    /// A tenant.
    Tenant(String),
    /// A virtual router of a tenant.
    Router(String, String),
    /// A VIF of a tenant.
    Vif(String, String),
}

/// The text is no record's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a record: site, t/TENANT, r/TENANT/ROUTER or v/TENANT/VIF")]
pub struct NameError(String);

impl Name {
    /// Whose it is.
    pub fn tenant(&self) -> Option<&str> {
        match self {
            Self::Site => None,
            Self::Tenant(tenant) | Self::Router(tenant, _) | Self::Vif(tenant, _) => Some(tenant),
        }
    }

    /// As an error names it.
    pub fn described(&self) -> String {
        match self {
            Self::Site => "the site's record".to_owned(),
            Self::Tenant(tenant) => format!("tenant `{tenant}`"),
            Self::Router(tenant, router) => format!("router `{router}` of `{tenant}`"),
            Self::Vif(tenant, vif) => format!("vif `{vif}` of `{tenant}`"),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Site => f.write_str("site"),
            Self::Tenant(tenant) => write!(f, "t/{tenant}"),
            Self::Router(tenant, router) => write!(f, "r/{tenant}/{router}"),
            Self::Vif(tenant, vif) => write!(f, "v/{tenant}/{vif}"),
        }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError(text.to_owned());
        let parts: Vec<&str> = text.split('/').collect();
        let name = match parts[..] {
            ["site"] => return Ok(Self::Site),
            ["t", tenant] => Self::Tenant(tenant.to_owned()),
            ["r", tenant, router] => Self::Router(tenant.to_owned(), router.to_owned()),
            ["v", tenant, vif] => Self::Vif(tenant.to_owned(), vif.to_owned()),
            _ => return Err(wrong()),
        };
        match parts[1..].iter().all(|part| check_name("", part).is_ok()) {
            true => Ok(name),
            false => Err(wrong()),
        }
    }
}
