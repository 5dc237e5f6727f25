//! Which directory servers there are: those of the configuration to begin with, and those that the directory itself names, under a group of its
//! own. A server that moves is entered there, and agents follow.
//!
//! ```text
//!   SetServers (configuration) --> asked there: group 65535 --> their addresses, at the port of the first configured one, besides the configured ones
//!                                       ^ again each minute, and at once when it is withdrawn
//! ```

use std::net::SocketAddr;

use super::{Agent, SERVERS};
use crate::directory::parts::PartMap;
use crate::directory::resolver::{self, Resolution};
use crate::directory::{GroupId, Key, Value};
use crate::time::{Duration, Instant};

/// The group whose addresses are the directory servers'.
pub const DIRECTORY_GROUP: GroupId = GroupId(u16::MAX);

/// The servers that are known.
#[derive(Debug, Default)]
pub(super) struct Servers {
    configured: Vec<SocketAddr>,
    all: Vec<SocketAddr>,
    /// When the directory is asked again.
    due: Option<Instant>,
}

impl Agent {
    /// The directory servers that are asked, in order; of a divided directory, those that it is asked for its parts first.
    pub fn servers(&self) -> &[SocketAddr] {
        &self.servers.all
    }

    /// The parts of a divided directory, once one of its servers has said so.
    pub fn parts(&self) -> Option<&PartMap> {
        self.resolver.parts().map(|(_, map)| map)
    }

    pub(super) fn set_servers(&mut self, configured: &[SocketAddr]) {
        self.servers.configured = configured.to_vec();
        self.use_servers(configured.to_vec());
        self.ask_for_servers();
    }

    pub(super) fn ask_for_servers(&mut self) {
        self.servers.due = Some(self.now.saturating_add(AGAIN));
        self.resolve(Key::Group(DIRECTORY_GROUP), None, SERVERS);
    }

    pub(super) fn servers_deadline(&self) -> Instant {
        self.servers.due.unwrap_or(Instant::MAX)
    }

    pub(super) fn servers_timers(&mut self) {
        if self.servers_deadline() <= self.now {
            self.ask_for_servers();
        }
    }

    pub(super) fn servers_resolved(&mut self, resolution: &Resolution) {
        let Some(port) = self.servers.configured.first().map(SocketAddr::port) else { return };
        let mut all = self.servers.configured.clone();
        match resolution {
            Resolution::Found(_, Value::Group(addresses)) => all.extend(addresses.iter().map(|&ip| SocketAddr::new(ip, port))),
            // Nobody says that there are no others.
            Resolution::Unanswered => return,
            _ => {}
        }
        self.use_servers(all);
    }

    fn use_servers(&mut self, mut all: Vec<SocketAddr>) {
        all.sort_unstable();
        all.dedup();
        if all != self.servers.all {
            self.resolver.handle(self.now, resolver::Input::SetServers(&all));
            self.servers.all = all;
        }
    }
}

/// A directory that names no servers may do so later.
const AGAIN: Duration = Duration::from_secs(60);
