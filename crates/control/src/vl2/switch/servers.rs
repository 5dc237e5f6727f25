//! Which directory servers there are: those of the configuration, and those that the directory itself names under [`DIRECTORY_GROUP`], as for the agents of hosts.
//! A switch is not notified when they change, so it looks them up periodically.

use std::net::SocketAddr;

use super::Tor;
use super::lookups::Answer;
use crate::directory::updater;
use crate::directory::{Key, PrincipalId, Value};
use crate::time::{Duration, Instant};
use crate::vl2::agent::DIRECTORY_GROUP;
use crate::wire::directory::Finding;

/// The servers that are known.
#[derive(Debug, Default)]
pub(super) struct Servers {
    configured: Vec<SocketAddr>,
    all: Vec<SocketAddr>,
    /// When the directory is asked, again.
    pub due: Option<Instant>,
    /// Questions that nobody has answered yet.
    unanswered: u32,
}

impl Tor {
    /// The directory servers that are asked, in order.
    pub fn servers(&self) -> &[SocketAddr] {
        &self.servers.all
    }

    pub(super) fn set_servers(&mut self, configured: &[SocketAddr]) {
        self.servers.configured = configured.to_vec();
        self.servers.unanswered = 0;
        self.use_servers(configured.to_vec());
        self.ask_for_servers();
    }

    pub(super) fn servers_timer(&mut self) {
        if self.servers.due.is_some_and(|due| due <= self.now) {
            self.ask_for_servers();
        }
    }

    fn ask_for_servers(&mut self) {
        if self.servers.unanswered >= TRIES {
            self.servers.unanswered = 0;
            self.lookups.forget(Key::Group(DIRECTORY_GROUP), NOBODY);
            self.servers.due = Some(self.now + AGAIN);
            return;
        }
        self.servers.unanswered += 1;
        let again = self.lookups.look_up(self.now, Key::Group(DIRECTORY_GROUP), NOBODY, 0);
        self.servers.due = Some(again);
    }

    /// What the directory says of its servers.
    pub(super) fn servers_answered(&mut self, answer: &Answer) {
        self.servers.unanswered = 0;
        self.servers.due = Some(self.now + AGAIN);
        let Some(port) = self.servers.configured.first().map(SocketAddr::port) else { return };
        let mut all = self.servers.configured.clone();
        if let Finding::Found(Value::Group(addresses)) = &answer.finding {
            all.extend(addresses.iter().map(|&ip| SocketAddr::new(ip, port)));
        }
        self.use_servers(all);
    }

    fn use_servers(&mut self, mut all: Vec<SocketAddr>) {
        all.sort_unstable();
        all.dedup();
        if all != self.servers.all {
            self.lookups.set_servers(&all);
            self.updater.handle(self.now, updater::Input::SetServers(&all));
            self.servers.all = all;
        }
    }
}

/// On whose behalf it is asked: the switch's own.
const NOBODY: PrincipalId = PrincipalId(0);
const AGAIN: Duration = Duration::from_secs(20);
/// Questions in a row that nobody answers.
const TRIES: u32 = 5;
