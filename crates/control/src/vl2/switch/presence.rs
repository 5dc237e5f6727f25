//! Hosts whose agents do not speak: while their programs run, packets for them are delivered.
//!
//! ```text
//!   no Attach for `forget_after` --> Probe (ARP), up to 3 times --no answer--> removed
//!                                      | Present: the programs have the address      '-- again after `forget_after`
//!                                      v
//!                                    the directory is asked: still this host's, and here --> stays (so it does if no server answers)
//! ```
//! One address of the host answers for all of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::answers::Verdict;
use super::{Heard, Name, Output, Progress, Timer, Tor};
use crate::directory::PrincipalId;
use crate::time::{Duration, Instant};
use crate::wire::vl2::attach::{Attach, Code};

impl Heard {
    /// A host speaks.
    pub(super) const fn new(last: Attach, from: SocketAddr, at: Instant) -> Self {
        Self { last, from, at, progress: Progress::Unanswered, probes: 0, is_agent_silent: false }
    }
}

impl Tor {
    /// Hosts whose programs answer in the place of their agents, and their addresses here.
    pub fn silent(&self) -> impl Iterator<Item = (PrincipalId, IpAddr)> + '_ {
        self.hosts.iter().flat_map(|(&principal, state)| {
            state.heard.iter().filter(|(_, heard)| heard.is_agent_silent).map(move |(&address, _)| (principal, address))
        })
    }

    /// A host may have fallen silent.
    pub(super) fn silence(&mut self, name: Name) {
        let Some(heard) = self.heard(name) else { return };
        let sequence = heard.last.sequence;
        if self.now.saturating_since(heard.at) < self.config.forget_after || self.probe(name) {
            return;
        }
        let was_here = self.local.get(&name.1).is_some_and(|local| local.principal == name.0);
        self.counts.expired += u64::from(was_here);
        self.remove(name);
        if let Some(state) = self.hosts.get_mut(&name.0) {
            state.heard.remove(&name.1);
            state.floor = state.floor.max(sequence);
        }
    }

    /// An address of which nothing was heard for long: whether its host's programs are asked.
    fn probe(&mut self, name: Name) -> bool {
        let Some(port) = self.local.get(&name.1).filter(|local| local.principal == name.0).map(|local| local.port) else {
            return false;
        };
        let Some(address) = self.probed_address(name) else { return false };
        let Some(heard) = self.hosts.get_mut(&name.0).and_then(|state| state.heard.get_mut(&name.1)) else { return false };
        if heard.probes >= PROBES {
            return false;
        }
        heard.probes += 1;
        self.out.push_back(Output::Probe { address, port });
        self.timers.insert((self.now + PROBE_WAIT, Timer::Silence(name.0, name.1)));
        true
    }

    /// What is asked for: the address, or another one of the host if that is IPv6.
    fn probed_address(&self, (principal, address): Name) -> Option<Ipv4Addr> {
        let v4 = |address: &IpAddr| if let IpAddr::V4(v4) = address { Some(*v4) } else { None };
        v4(&address).or_else(|| self.local.iter().filter(|(_, it)| it.principal == principal).find_map(|(it, _)| v4(it)))
    }

    /// The programs at a port have an address.
    pub(super) fn present(&mut self, address: IpAddr, port: u32) {
        let Some(principal) = self.local.get(&address).filter(|local| local.port == port).map(|local| local.principal) else {
            return;
        };
        let Some(state) = self.hosts.get_mut(&principal) else { return };
        let mut names = Vec::new();
        // Those that were asked for.
        for (&address, heard) in state.heard.iter_mut().filter(|(_, heard)| heard.probes > 0) {
            (heard.at, heard.probes, heard.is_agent_silent) = (self.now, 0, true);
            self.timers.insert((self.now + self.config.forget_after, Timer::Silence(principal, address)));
            names.push((principal, address));
        }
        self.counts.present += u64::from(!names.is_empty());
        for name in names {
            self.ask(name, 0);
        }
    }

    /// What the directory says of an address whose agent does not speak.
    pub(super) fn confirmed_in_silence(&mut self, name: Name, verdict: Verdict) {
        let code = match verdict {
            Verdict::Here(_) | Verdict::Unanswered => Code::Done,
            Verdict::Elsewhere(..) => Code::NotOwner,
            Verdict::Refuse(code) => code,
        };
        if code != Code::Done {
            self.remove(name);
        }
        self.set_progress(name, Progress::Over(code));
    }
}

/// Questions before an address is removed, and how long each waits.
const PROBES: u32 = 3;
const PROBE_WAIT: Duration = Duration::from_secs(1);
