//! The addresses of this host: each is confirmed by the directory (which says its service, and whether it is this host's), and announced: by the
//! ToR, which is notified until it acknowledges, or by the host itself.
//!
//! ```text
//!   Attach --> unconfirmed --the directory: it is yours, of service S--> confirmed: SetLocal, Join
//!                 |  ^                                                       |
//!                 |  +------ withdrawn, or another host's: RemoveLocal ------+       asked again every second while unconfirmed
//!                 +-- the ToR is notified at the same time
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weft_fabric::MacAddr;

use super::attachment::{AttachState, Attachment};
use super::{Agent, Announce, Known, OWN, Output, PeerKey, address_of, key_of};
use crate::directory::OLDER_VERSION;
use crate::directory::resolver::Resolution;
use crate::directory::{Key, ServiceId, Value};
use crate::time::{Duration, Instant};
use crate::wire::vl2::attach::{Attach, Code, Frame, Unsupported};

/// What the directory says of an address of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnState {
    /// It has not answered yet.
    Unconfirmed,
    /// It is this host's, and of this service.
    Confirmed(ServiceId),
    /// It is not this host's.
    NotOurs,
    /// This host may not look it up: it is not this host's, or its service is none or not in the policy.
    Forbidden,
    /// There is no such address.
    Unknown,
}

/// An address of this host, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnView {
    /// The address.
    pub address: IpAddr,
    /// Who has it below this host.
    pub mac: MacAddr,
    /// What the directory says.
    pub state: OwnState,
    /// The ToR's answer; none if there is no ToR.
    pub attachment: Option<AttachState>,
}

/// An address of this host.
#[derive(Debug)]
pub(super) struct Own {
    mac: MacAddr,
    state: OwnState,
    /// The data plane has it.
    is_set: bool,
    is_leaving: bool,
    /// What carries its service's broadcasts.
    multicast: Option<Ipv4Addr>,
    /// When the directory is asked again.
    due: Instant,
    attachment: Attachment,
}

impl Agent {
    /// The addresses of this host, in order.
    pub fn own(&self) -> impl Iterator<Item = OwnView> + '_ {
        self.own.iter().map(|(&address, own)| OwnView {
            address,
            mac: own.mac,
            state: own.state,
            attachment: (self.config.announce != Announce::Nobody).then_some(own.attachment.state),
        })
    }

    /// What the data plane has of them: address, service, what carries its broadcasts.
    pub fn locals(&self) -> impl Iterator<Item = (IpAddr, ServiceId, Option<Ipv4Addr>)> + '_ {
        self.own.iter().filter(|(_, own)| own.is_set).filter_map(|(&address, own)| match own.state {
            OwnState::Confirmed(service) => Some((address, service, own.multicast)),
            _ => None,
        })
    }

    /// Whether the data plane lets an address of this host send.
    pub(super) fn is_confirmed(&self, address: IpAddr) -> bool {
        self.own.get(&address).is_some_and(|own| own.is_set)
    }

    /// The service of an address of this host, while the data plane lets it send.
    pub(super) fn service_of(&self, address: IpAddr) -> Option<ServiceId> {
        match self.own.get(&address) {
            Some(Own { state: OwnState::Confirmed(service), is_set: true, .. }) => Some(*service),
            _ => None,
        }
    }

    /// An address of this host on whose behalf the directory may be asked for a peer: of the peer's version, if there is one.
    pub(super) fn any_of_service(&self, peer: PeerKey) -> Option<IpAddr> {
        let all = || self.own.keys().copied().filter(|address| self.service_of(*address) == Some(peer.service));
        all().find(|address| address.is_ipv4() == peer.address.is_ipv4()).or_else(|| all().next())
    }

    pub(super) fn attach(&mut self, address: IpAddr, mac: MacAddr) {
        let now = self.now;
        match self.own.get_mut(&address) {
            Some(own) => {
                own.mac = mac;
                own.is_leaving = false;
                own.attachment = Attachment::new(now);
            }
            None => {
                let (state, attachment) = (OwnState::Unconfirmed, Attachment::new(now));
                let own = Own { mac, state, is_set: false, is_leaving: false, multicast: None, due: now, attachment };
                self.own.insert(address, own);
            }
        }
        self.ask_for_own(address);
    }

    pub(super) fn detach(&mut self, address: IpAddr) {
        let now = self.now;
        let Some(own) = self.own.get_mut(&address) else { return };
        own.is_leaving = true;
        own.due = Instant::MAX;
        own.attachment.leave(now);
        self.unset(address, OwnState::Unconfirmed);
        if !matches!(self.config.announce, Announce::Tor { .. }) {
            self.own.remove(&address);
            self.out.push_back(Output::Attachment { address, state: AttachState::Detached });
        }
    }

    fn ask_for_own(&mut self, address: IpAddr) {
        let key = key_of(address);
        if let Some(own) = self.own.get_mut(&address) {
            own.due = self.now.saturating_add(AGAIN);
        }
        self.resolve(key, Some(key), OWN);
    }

    pub(super) fn own_resolved(&mut self, key: Key, resolution: Resolution) {
        let Some(address) = address_of(key).filter(|it| self.own.get(it).is_some_and(|own| !own.is_leaving)) else { return };
        match resolution {
            Resolution::Found(generation, Value::Mapping(mapping)) => self.confirm(address, Known { generation, mapping }),
            Resolution::Forbidden => self.unset(address, OwnState::Forbidden),
            Resolution::Unknown | Resolution::Found(..) => self.unset(address, OwnState::Unknown),
            // Nobody says no: it stays as it is, and is asked for again.
            Resolution::Unanswered => {}
        }
    }

    fn confirm(&mut self, address: IpAddr, known: Known) {
        let service = known.mapping.service;
        if known.mapping.owner != self.config.resolver.principal {
            return self.unset(address, OwnState::NotOurs);
        }
        let multicast = self.config.multicast.filter(|_| service != ServiceId(0)).and_then(|prefix| prefix.number(service.0));
        let Some(own) = self.own.get_mut(&address) else { return };
        own.due = Instant::MAX;
        if own.is_set && own.state == OwnState::Confirmed(service) {
            return;
        }
        let is_moved = own.is_set;
        own.state = OwnState::Confirmed(service);
        own.is_set = true;
        let old = std::mem::replace(&mut own.multicast, multicast);
        self.out.push_back(Output::SetLocal { address, service, multicast });
        self.change_membership(old, multicast);
        if is_moved {
            // What was resolved on its behalf was so for the other service.
            self.forget_asker(address);
        }
        self.adopt_waiting();
    }

    /// The data plane must not let an address send or receive any longer.
    fn unset(&mut self, address: IpAddr, state: OwnState) {
        let Some(own) = self.own.get_mut(&address) else { return };
        own.state = state;
        if !std::mem::take(&mut own.is_set) {
            return;
        }
        let multicast = own.multicast.take();
        self.out.push_back(Output::RemoveLocal(address));
        self.change_membership(multicast, None);
        self.forget_asker(address);
    }

    /// A multicast address is left when no address of this host needs it.
    fn change_membership(&mut self, old: Option<Ipv4Addr>, new: Option<Ipv4Addr>) {
        if old == new {
            return;
        }
        let needed = |group: Ipv4Addr| self.own.values().filter(|own| own.multicast == Some(group)).count();
        let (joined, left) = (new.filter(|&group| needed(group) == 1), old.filter(|&group| needed(group) == 0));
        self.out.extend(left.map(Output::Leave));
        self.out.extend(joined.map(Output::Join));
    }

    /// The directory has said something else of an address of this host.
    pub(super) fn own_invalidated(&mut self, key: Key) {
        let Some(address) = address_of(key).filter(|it| self.own.get(it).is_some_and(|own| !own.is_leaving)) else { return };
        let cached = self.resolver.cached(key, Some(key)).and_then(|(generation, value)| Some((generation, *value.mapping()?)));
        match cached {
            Some((generation, mapping)) => self.confirm(address, Known { generation, mapping }),
            None => {
                self.unset(address, OwnState::Unconfirmed);
                self.ask_for_own(address);
            }
        }
    }

    pub(super) fn announced(&mut self, address: IpAddr, result: Result<(), Code>) {
        let now = self.now;
        let Some(own) = self.own.get_mut(&address).filter(|own| !own.is_leaving) else { return };
        let state = match result {
            Ok(()) => AttachState::Attached,
            Err(code) => AttachState::Refused(code),
        };
        own.attachment.due = now.saturating_add(if result.is_ok() { REFRESH_ITSELF } else { AGAIN });
        own.attachment.state = state;
        self.out.push_back(Output::Attachment { address, state });
    }

    pub(super) fn attach_datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let Announce::Tor { address: tor, refresh } = self.config.announce else { return };
        let now = self.now;
        let versions = self.config.resolver.versions;
        if let Some(said) = Unsupported::parse(bytes, &self.key).filter(|_| from == tor) {
            return self.unsupported(&said);
        }
        let frame = Frame::parse_as(versions, bytes).ok().filter(|frame| from == tor && frame.is_of(&self.key));
        let answer = frame.map(|frame| frame.message).filter(|it| it.principal == self.config.resolver.principal);
        if answer.is_some_and(|answer| self.continue_after(&answer)) {
            return;
        }
        let heard = answer.and_then(|answer| {
            let own = self.own.get_mut(&answer.address)?;
            own.attachment.hear(&answer, now, refresh).then_some((answer.address, own.attachment.state))
        });
        let Some((address, state)) = heard else { return self.counts.attach_refused += 1 };
        self.out.push_back(Output::Attachment { address, state });
        self.forget_left();
    }

    /// The ToR does not speak our newest version: the older one is spoken with it for some time, if it is ours, beginning with what it did not understand.
    fn unsupported(&mut self, said: &Unsupported) {
        let (now, versions) = (self.now, self.config.resolver.versions);
        let own = self.own.values_mut().find(|own| own.attachment.is_last(said.sequence));
        let is_ours =
            said.version < versions.newest() && versions.has(said.version) && said.principal == self.config.resolver.principal;
        let Some(own) = own.filter(|_| is_ours) else { return self.counts.attach_refused += 1 };
        own.attachment.due = now;
        self.tor_is_older_until.get_or_insert(now.saturating_add(OLDER_VERSION));
    }

    /// The ToR has accepted greater sequences of this host, whose clock was ahead then: it continues after them.
    fn continue_after(&mut self, answer: &Attach) -> bool {
        let now = self.now;
        let Some(own) = self.own.get_mut(&answer.address) else { return false };
        let request = Attach { mac: own.mac, answer: None, ..*answer };
        let Some(newest) = answer.newest(&request).filter(|_| own.attachment.advance(answer, now)) else { return false };
        self.counts.sequence_advances += 1;
        let ahead = Duration::from_ns(newest.saturating_sub(answer.sequence));
        self.last_sequence = self.last_sequence.max(newest);
        self.out.push_back(Output::SequenceAdvanced(ahead));
        true
    }

    fn forget_left(&mut self) {
        self.own.retain(|_, own| !own.attachment.has_left());
    }

    pub(super) fn own_deadline(&self) -> Instant {
        let announces = self.config.announce != Announce::Nobody;
        let due = |own: &Own| own.due.min(if announces { own.attachment.due } else { Instant::MAX });
        self.own.values().map(due).min().unwrap_or(Instant::MAX)
    }

    pub(super) fn own_timers(&mut self) {
        let now = self.now;
        let due: Vec<IpAddr> = self.own.iter().filter(|(_, own)| own.due <= now).map(|(&address, _)| address).collect();
        for address in due {
            self.ask_for_own(address);
        }
        let announce = self.config.announce;
        let due = self.own.iter().filter(|(_, own)| own.attachment.due <= now).map(|(&address, _)| address);
        let due: Vec<IpAddr> = due.collect();
        for address in due {
            match announce {
                Announce::Nobody => {}
                Announce::Tor { address: tor, .. } => self.say(address, tor),
                Announce::Itself => self.announce_itself(address),
            }
        }
        self.forget_left();
    }

    fn say(&mut self, address: IpAddr, tor: SocketAddr) {
        let (now, fresh, principal) = (self.now, self.fresh_sequence(), self.config.resolver.principal);
        let Some(own) = self.own.get_mut(&address) else { return };
        let Some((kind, sequence)) = own.attachment.say(now, fresh) else {
            // Nobody has heard that it leaves; the ToR forgets it by itself.
            return self.out.push_back(Output::Attachment { address, state: AttachState::Waiting });
        };
        let service = if let OwnState::Confirmed(service) = own.state { service } else { ServiceId(0) };
        self.tor_is_older_until = self.tor_is_older_until.filter(|&until| now < until);
        let versions = self.config.resolver.versions;
        let version = if self.tor_is_older_until.is_some() { versions.oldest() } else { versions.newest() };
        let message = Attach { version, kind, answer: None, principal, sequence, address, mac: own.mac, service };
        self.out.push_back(Output::SendAttach { to: tor, bytes: message.emit(&self.key).to_vec() });
    }

    fn announce_itself(&mut self, address: IpAddr) {
        let Some(own) = self.own.get_mut(&address) else { return };
        if !own.is_set {
            // The directory does not let anybody put a locator who does not own the address.
            own.attachment.due = self.now.saturating_add(SOON);
            return;
        }
        // Until the answer comes.
        own.attachment.due = Instant::MAX;
        self.out.push_back(Output::Announce(address));
    }
}

/// An address that the directory does not confirm is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(1);
/// How soon an address may have been confirmed.
const SOON: Duration = Duration::from_ms(50);
/// A host that announces itself looks again whether the directory still says so.
const REFRESH_ITSELF: Duration = Duration::from_secs(30);
