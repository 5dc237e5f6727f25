//! `[traffic]`: the workload. `docs/traffic.md` explains every pattern; [`pattern`] reads who sends to whom, [`flows`] sizes, arrivals and files.

pub mod flows;
pub mod matrices;
pub mod pattern;
pub mod several;

use std::path::Path;
use std::sync::Arc;

use weft_fabric::Fabric;
use weft_fabric::traffic::{Pattern, RackWeights, RequestLoad, RequestSpec};

use crate::error::{KeyError, Result};
use crate::scenario::directory::{DIRECTORY, DirectoryLoad};
use crate::scenario::keys::Keys;
use crate::scenario::nl_arp::{NL_ARP, NlArpLoad};
use crate::scenario::tenants::{TENANTS, TenantLoad};
use flows::{FlowSource, Flows};
use matrices::Matrices;
use pattern::{MEMCACHE, read_requests};
use several::Several;

/// The workload of a run.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Flows of one table.
    Flows(FlowSource),
    /// Flows of several services, a table each.
    Several(Several),
    /// Requests and responses, which need packets.
    Requests(RequestSpec),
    /// Lookups and updates of directory servers, without any flows.
    Directory(DirectoryLoad),
    /// The shuffles of tenants over switches that learn addresses.
    Tenants(TenantLoad),
    /// VMs that boot, move and are looked up, without any flows.
    NlArp(NlArpLoad),
    /// Rates between racks over time, which `weft optimum` routes.
    Matrices(Matrices),
}

impl Traffic {
    /// Reads `[traffic]`, or several `[[traffic]]`.
    ///
    /// # Errors
    /// What is wrong with it, or with a file that it names.
    pub fn read(root: &Keys<'_>, folder: &Path) -> Result<Self> {
        if matches!(root.raw().get("traffic"), Some(toml::Value::Array(_))) {
            return Ok(Self::Several(Several::read(&root.tables("traffic")?, folder)?));
        }
        if root.has("failures") && !root.has("traffic") {
            let help = "study them: `weft analyze failures SCENARIO`; or describe traffic in [traffic]";
            return Err(root.error("failures", "the worlds run traffic, and these are failures without any", help).into());
        }
        let keys = root.table("traffic")?;
        if Matrices::are_asked_for(&keys)? {
            return Ok(Self::Matrices(Matrices::read(&keys, folder)?));
        }
        if keys.has("file") {
            return Ok(Self::Flows(FlowSource::read(&keys, folder)?));
        }
        Ok(match keys.opt::<String>("pattern")?.as_deref() {
            Some(MEMCACHE) => {
                let spec = read_requests(&keys)?;
                keys.done()?;
                Self::Requests(spec)
            }
            Some(DIRECTORY) => Self::Directory(DirectoryLoad::read(&keys)?),
            Some(TENANTS) => Self::Tenants(TenantLoad::read(&keys)?),
            Some(NL_ARP) => Self::NlArp(NlArpLoad::read(&keys)?),
            _ => Self::Flows(FlowSource::read(&keys, folder)?),
        })
    }

    /// The flows on a fabric; none for the patterns without flows.
    ///
    /// # Errors
    /// A description that does not fit the fabric, or a wrong line of a file.
    pub fn flows(&self, fabric: &Arc<Fabric>, seed: u64) -> Result<Flows> {
        match self {
            Self::Flows(source) => source.on(fabric, seed),
            Self::Several(several) => several.on(fabric, seed),
            Self::Requests(spec) => Ok(Flows::unnumbered(spec.load(fabric, seed).map_err(KeyError::from)?.flows())),
            Self::Directory(_) | Self::NlArp(_) | Self::Tenants(_) | Self::Matrices(_) => Ok(Flows::unnumbered(Vec::new())),
        }
    }

    /// Whether this is traffic of requests and responses.
    pub const fn is_requests(&self) -> bool {
        matches!(self, Self::Requests(_))
    }

    /// Whether this is the load of a directory.
    pub const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory(_))
    }

    /// Whether there are neither flows nor requests.
    pub const fn has_no_flows(&self) -> bool {
        matches!(self, Self::Directory(_) | Self::NlArp(_) | Self::Tenants(_) | Self::Matrices(_))
    }

    /// The requests on a fabric; `None` if this is other traffic.
    ///
    /// # Errors
    /// A description that does not fit the fabric.
    pub fn requests(&self, fabric: &Fabric, seed: u64) -> Result<Option<RequestLoad>> {
        match self {
            Self::Requests(spec) => Ok(Some(spec.load(fabric, seed).map_err(KeyError::from)?)),
            _ => Ok(None),
        }
    }

    /// The largest fraction of a NIC that flows ask for as long as they arrive; `None` where that is not fixed in advance.
    ///
    /// # Errors
    /// A description that does not fit the fabric.
    pub fn offered_load(&self, fabric: &Fabric, seed: u64) -> Result<Option<f64>> {
        match self {
            Self::Flows(source) => source.offered_load(fabric, seed),
            Self::Several(several) => several.offered_load(fabric, seed),
            Self::Requests(_) | Self::Directory(_) | Self::NlArp(_) | Self::Tenants(_) | Self::Matrices(_) => Ok(None),
        }
    }

    /// Whether some flow never ends, or flows never stop arriving.
    pub fn is_endless(&self) -> bool {
        match self {
            Self::Flows(source) => source.is_endless(),
            Self::Several(several) => several.parts.iter().any(|(_, source)| source.is_endless()),
            Self::Tenants(_) | Self::Matrices(_) => false,
            Self::Requests(_) | Self::Directory(_) | Self::NlArp(_) => true,
        }
    }

    /// Flows that a host sends at a time, for the slots model.
    pub fn flows_per_host(&self) -> u32 {
        match self {
            Self::Flows(FlowSource::Drawn(spec)) => spec.flows_per_host.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            _ => 1,
        }
    }

    /// The matrix by which the ends of flows are drawn.
    pub fn rack_weights(&self) -> Option<&RackWeights> {
        match self {
            Self::Flows(FlowSource::Drawn(spec)) => match &spec.pattern {
                Pattern::Matrix { weights } => Some(weights),
                _ => None,
            },
            _ => None,
        }
    }

    /// Names of the services, if there are several tables.
    pub fn services(&self) -> &[String] {
        match self {
            Self::Several(several) => &several.names,
            _ => &[],
        }
    }
}
