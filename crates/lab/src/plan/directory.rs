//! Directory servers of a plan, with VL2 or with NetLord, and the principals that they know.

use serde::{Deserialize, Serialize};

use super::{Plan, PlanError};

/// Directory servers of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryServers {
    /// The hosts on which they run, as indices into [`Plan::nodes`]; a store that is a program of its own runs on the first.
    pub hosts: Vec<usize>,
    /// Where they keep mappings.
    pub store: Store,
}

/// Where directory servers keep mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// In the only server itself.
    #[default]
    Embedded,
    /// In an etcd of the lab's own, with one member, which all servers share.
    Etcd,
}

/// The principal of the first directory server.
pub const PRINCIPAL_SERVER: u32 = 1;
/// The principal of the administrator; those of further servers follow.
pub const PRINCIPAL_ADMIN: u32 = 2;
/// At most so many directory servers: principals of nodes start at 1000.
const SERVERS_MAX: usize = 100;

impl DirectoryServers {
    /// Places that many servers, each on a host of its own: the first on the last host, the others on other racks as far as there are any. `hosts` lists
    /// all hosts, each with its ToR.
    ///
    /// # Errors
    /// [`PlanError::DirectoryServers`] for 0 servers, fewer hosts than servers, or several servers without a store that they can share.
    pub(super) fn place(hosts: &[(usize, usize)], servers: u16, store: Store) -> Result<Self, PlanError> {
        let max = hosts.len().min(SERVERS_MAX);
        if servers == 0 || usize::from(servers) > max || servers > 1 && store == Store::Embedded {
            return Err(PlanError::DirectoryServers { servers, hosts: max });
        }
        // From the last host back, those first that are the last of their rack.
        let behind = |at: usize| hosts[at + 1..].iter().filter(|(_, tor)| *tor == hosts[at].1).count();
        let mut order: Vec<usize> = (0..max).rev().collect();
        order.sort_by_key(|&at| behind(at));
        Ok(Self { hosts: order.into_iter().take(servers.into()).map(|at| hosts[at].0).collect(), store })
    }

    /// The principal of a server, by its number.
    pub const fn principal(server: usize) -> u32 {
        if server == 0 { PRINCIPAL_SERVER } else { PRINCIPAL_ADMIN + server as u32 }
    }
}

impl Plan {
    /// The principal of a node: hosts and switches are numbered apart from servers and administrators.
    pub const fn principal(node: usize) -> u32 {
        1000 + node as u32
    }
}
