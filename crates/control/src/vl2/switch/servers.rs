//! Which directory servers there are: those of the configuration, and those that the directory itself names under [`DIRECTORY_GROUP`], as for the agents of hosts.
//! A switch is not notified when they change, so it looks them up periodically.

use std::net::SocketAddr;

use super::Tor;
use crate::directory::resolver::{self, Resolution};
use crate::directory::updater;
use crate::directory::{Key, Value};
use crate::time::{Duration, Instant};
use crate::vl2::agent::DIRECTORY_GROUP;

/// The servers that are known.
#[derive(Debug, Default)]
pub(super) struct Servers {
    configured: Vec<SocketAddr>,
    all: Vec<SocketAddr>,
    /// When the directory is asked, again.
    pub due: Option<Instant>,
}

impl Tor {
    /// The directory servers that are asked, in order.
    pub fn servers(&self) -> &[SocketAddr] {
        &self.servers.all
    }

    pub(super) fn set_servers(&mut self, configured: &[SocketAddr]) {
        self.servers.configured = configured.to_vec();
        self.use_servers(configured.to_vec());
        self.ask_for_servers();
    }

    pub(super) fn servers_timer(&mut self) {
        if self.servers.due.is_some_and(|due| due <= self.now) {
            self.ask_for_servers();
        }
    }

    fn ask_for_servers(&mut self) {
        self.servers.due = Some(self.now + AGAIN);
        let key = Key::Group(DIRECTORY_GROUP);
        self.resolver.handle(self.now, resolver::Input::Resolve { key, asker: None, token: TOKEN });
    }

    /// What the directory says of its servers.
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
            self.updater.handle(self.now, updater::Input::SetServers(&all));
            self.servers.all = all;
        }
    }
}

/// Of the lookup.
pub(super) const TOKEN: u64 = 0;
const AGAIN: Duration = Duration::from_secs(20);
