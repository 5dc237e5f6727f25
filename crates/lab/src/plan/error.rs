//! Fabrics that cannot become a lab, each with the next step.

use weft_control::netlord::tenants::TenantsError;
use weft_fabric::BitsPerSec;
use weft_fabric::addressing::AddressError;
use weft_fabric::routing::spain::SpainError;

use super::RATE_MIN;
use super::net::Net;

/// Why a fabric cannot become a lab.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PlanError {
    #[error(transparent)]
    Addresses(#[from] AddressError),
    #[error("{cables} cables between switches are more than 172.16.0.0/13 can number: use a smaller fabric")]
    TooManyCables { cables: usize },
    #[error("the link `{link}` of {rate} has {scaled} in the lab, less than {RATE_MIN}: raise `world.scale`, which is {scale}")]
    TooSlow { link: String, rate: BitsPerSec, scaled: BitsPerSec, scale: f64 },
    #[error("{host} has several NICs, and VL2 supports hosts with one: leave out `[overlay]`, or use another fabric")]
    SeveralNics { host: String },
    #[error(
        "{host} has several NICs, and the directory has one location per VM: leave out `overlay.locations` so that agents use NL-ARP, or use another fabric"
    )]
    SeveralPlaces { host: String },
    #[error("NetLord cannot be laid over the fabric: {0}")]
    Tenants(#[from] TenantsError),
    #[error("NetLord cannot be laid over the fabric: {0}")]
    Spain(#[from] SpainError),
    #[error("NetLord cannot be laid over the fabric: the tenants' file has no tenant `{tenant}`")]
    NoTenant { tenant: String },
    #[error("NetLord cannot be laid over the fabric: tenant `{tenant}` is on hosts that do not exist: they are 0 to {last}")]
    NoHost { tenant: String, last: usize },
    #[error("NetLord cannot be laid over the fabric: two nodes would have the name `{name}`: rename a tenant or a VIF")]
    SameName { name: String },
    #[error(
        "NetLord cannot be laid over the fabric: {switch} has more than 126 hosts, and NetLord numbers a switch's ports to them from 1 to 126"
    )]
    TooManyPorts { switch: String },
    #[error("NetLord cannot be laid over the fabric: no switch has hosts")]
    NoEdge,
    #[error("{subnet} is no subnet for hosts: write one from /8 to /30, such as 10.1.0.0/16")]
    NoSubnet { subnet: Net },
    #[error("{subnet} has addresses for {room} hosts, and there are {hosts}: write a shorter prefix")]
    SubnetTooSmall { subnet: Net, room: usize, hosts: usize },
    #[error("{hosts} hosts need more outer source addresses than 100.64.0.0/10 has: use a smaller fabric")]
    TooManySources { hosts: usize },
    #[error("the fabric has no switches above its ToRs, to which the outside could be connected: leave out `overlay.external`")]
    NoBorder,
    #[error(
        "{hosts} hosts are to be reachable from outside, and 203.0.113.0/24 has addresses for {max}: name fewer in `overlay.external`"
    )]
    PoolTooSmall { hosts: usize, max: usize },
    #[error(
        "{servers} directory servers are not possible: each needs a host of its own, of which there are {hosts}, and several need a store to share: change `directory.servers`, or write store = \"etcd\""
    )]
    DirectoryServers { servers: u16, hosts: usize },
    #[error("no locator of {tor} is left for a host that moves there: move it to another switch")]
    NoRoom { tor: String },
    #[error(
        "{host} has several NICs, and the scheduler's rules know hosts with one: write routing = \"static\", or use another fabric"
    )]
    OpenflowNics { host: String },
    #[error("an overlay is laid over switches that route: leave out `[overlay]`, or write routing = \"frr\" in [world]")]
    OpenflowOverlay,
    #[error("a scheduler places flows over intermediate switches, and the fabric has none: leave out `control.scheduler`")]
    NoIntermediates,
    #[error("the scheduler's file of the fabric cannot be written: {reason}")]
    OpenflowFabric { reason: String },
    #[error(transparent)]
    Groups(#[from] weft_control::vl2::groups::GroupsError),
}

impl PlanError {
    /// The key of the scenario to change.
    pub const fn key(&self) -> &'static str {
        match self {
            Self::TooSlow { .. } => "world.scale",
            Self::PoolTooSmall { .. } | Self::NoBorder => "overlay.external",
            Self::DirectoryServers { .. } => "directory.servers",
            Self::NoIntermediates => "control.scheduler",
            Self::SeveralPlaces { .. } => "overlay.locations",
            Self::NoSubnet { .. } | Self::SubnetTooSmall { .. } => "overlay.provider",
            Self::OpenflowNics { .. } | Self::OpenflowOverlay => "world.routing",
            Self::Addresses(_) | Self::TooManyCables { .. } | Self::OpenflowFabric { .. } => "fabric",
            Self::SeveralNics { .. }
            | Self::Tenants(_)
            | Self::Spain(_)
            | Self::NoTenant { .. }
            | Self::NoHost { .. }
            | Self::SameName { .. }
            | Self::TooManyPorts { .. }
            | Self::NoEdge
            | Self::TooManySources { .. }
            | Self::NoRoom { .. }
            | Self::Groups(_) => "overlay",
        }
    }
}
