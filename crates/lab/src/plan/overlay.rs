//! What is laid over the network of a lab.

use serde::{Deserialize, Serialize};

use super::access::Access;
use super::directory::DirectoryServers;
use super::netlord::Netlord;
use super::vl2::Vl2;
use super::{Node, Plan, Role};

/// What is laid over the network of a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlay {
    /// Nothing: programs use the locators of their hosts.
    #[default]
    None,
    /// Application addresses, tunnelled to locators through intermediate switches.
    Vl2(Box<Vl2>),
    /// Tenants' VMs behind the agents of their hosts; switches are bridges.
    Netlord(Box<Netlord>),
    /// Nothing but agents that choose the NICs of flows: programs use the locators of their hosts' first NICs.
    Access(Box<Access>),
}

impl Overlay {
    /// Whether there is none.
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// VL2's part of the plan.
    pub fn vl2(&self) -> Option<&Vl2> {
        if let Self::Vl2(vl2) = self { Some(vl2) } else { None }
    }

    /// VL2's part of the plan, to be changed.
    pub fn vl2_mut(&mut self) -> Option<&mut Vl2> {
        if let Self::Vl2(vl2) = self { Some(vl2) } else { None }
    }

    /// NetLord's part of the plan.
    pub fn netlord(&self) -> Option<&Netlord> {
        if let Self::Netlord(netlord) = self { Some(netlord) } else { None }
    }

    /// NetLord's part of the plan, to be changed.
    pub fn netlord_mut(&mut self) -> Option<&mut Netlord> {
        if let Self::Netlord(netlord) = self { Some(netlord) } else { None }
    }

    /// The part of the plan that is of the agents of hosts with several NICs.
    pub fn access(&self) -> Option<&Access> {
        if let Self::Access(access) = self { Some(access) } else { None }
    }

    /// The directory servers, if there are any.
    pub fn directory(&self) -> Option<&DirectoryServers> {
        match self {
            Self::None | Self::Access(_) => None,
            Self::Vl2(vl2) => Some(&vl2.directory),
            Self::Netlord(netlord) => netlord.provider.as_ref()?.directory.as_ref(),
        }
    }
}

impl Plan {
    /// The hosts and switches on which an agent runs; Open vSwitch has none.
    pub fn with_agents(&self) -> impl Iterator<Item = &Node> {
        let has_agent = |at: usize| match &self.overlay {
            Overlay::None => false,
            Overlay::Vl2(_) => true,
            Overlay::Netlord(netlord) => !netlord.is_ovs(at),
            Overlay::Access(_) => self.nodes[at].role == Role::Host || self.is_edge(at),
        };
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(move |(at, n)| matches!(n.role, Role::Host | Role::Switch) && has_agent(*at)).map(|(_, node)| node)
    }
}
