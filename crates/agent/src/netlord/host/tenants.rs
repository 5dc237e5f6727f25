//! The tenants' file, which says what VIFs are.

use std::fs;
use std::path::Path;

use weft_control::netlord::tenants::{Tenants, VifSpec};

use crate::error::{Error, Result};

/// A VIF by its names.
///
/// # Errors
/// [`Error`] that lists the names that there are.
pub(super) fn spec<'a>(tenants: &'a Tenants, tenant: &str, name: &str) -> Result<&'a VifSpec> {
    let found = tenants.by_name(tenant).ok_or_else(|| {
        let names: Vec<&str> = tenants.tenants.values().map(|it| it.name.as_str()).collect();
        Error::NoTenant { tenant: tenant.to_owned(), known: names.join(", ") }
    })?;
    found.vifs.iter().find(|vif| vif.name == name).ok_or_else(|| {
        let names: Vec<&str> = found.vifs.iter().map(|it| it.name.as_str()).collect();
        Error::NoVif { tenant: tenant.to_owned(), vif: name.to_owned(), known: names.join(", ") }
    })
}

/// The tenants at the start: none, if the file is not there and the repository sends the first one.
///
/// # Errors
/// [`Error`] if the file cannot be read.
pub(super) fn first_tenants(file: &Path, has_repository: bool) -> Result<Tenants> {
    if has_repository && !file.exists() { Ok(Tenants::default()) } else { read_tenants(file) }
}

/// The file's tenants.
///
/// # Errors
/// [`Error`].
pub(super) fn read_tenants(path: &Path) -> Result<Tenants> {
    let text = fs::read_to_string(path).map_err(|cause| {
        let help = "`tenants` names it; `weft tenant create` makes one";
        Error::Input { what: "the tenants' file", path: path.to_owned(), cause, help }
    })?;
    Tenants::parse(&text).map_err(|error| {
        let help = "docs/tenants.md has the file's schema";
        Error::Content { path: path.to_owned(), reason: error.to_string(), help }
    })
}
