//! Which of NetLord's configurations a file is.

use serde::Deserialize;

use super::host::HostConfig;
use super::switch::SwitchConfig;
use crate::agent::config::Place;
use crate::cli::Result;

/// A configuration with `overlay = "netlord"`.
#[derive(Debug)]
pub enum NetlordConfig {
    /// Of a server.
    Host(Box<HostConfig>),
    /// Of a switch.
    Switch(Box<SwitchConfig>),
}

/// What a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A server.
    Host,
    /// A switch that servers hang on.
    Edge,
    /// A switch between switches.
    Core,
}

#[derive(Deserialize)]
struct Whole {
    role: Role,
}

impl NetlordConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error`](crate::cli::Error) with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let Whole { role } = place.parse()?;
        Ok(match role {
            Role::Host => Self::Host(Box::new(HostConfig::read(place)?)),
            Role::Edge | Role::Core => Self::Switch(Box::new(SwitchConfig::read(place)?)),
        })
    }

    /// Looks whether this machine has what it names.
    ///
    /// # Errors
    /// [`Error`](crate::cli::Error) with file, line and remedy.
    pub fn check_here(&self, place: &Place<'_>) -> Result<()> {
        match self {
            Self::Host(config) => config.check_here(place),
            Self::Switch(config) => config.check_here(place),
        }
    }
}
