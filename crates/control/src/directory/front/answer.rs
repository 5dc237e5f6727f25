//! Answers from memory: lookups under access control, withdrawals, health.

use crate::directory::key::{Generation, Key, PrincipalId, ServiceId};
use crate::directory::policy::Role;
use crate::directory::shared::{Asker, Shared};
use crate::directory::table::{FoundValue, Probe};
use crate::wire::directory::{AnswerWriter, Changes, Finding, Lookup, Message, State, Sync, emit_key};
use weft_fabric::TenantId;

/// What one lookup may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    All,
    /// What a service may, within its tenant if it has one.
    Service(ServiceId, Option<TenantId>),
    /// All application addresses, and groups.
    Addresses,
    /// Groups only.
    Groups,
    /// It is not known yet: another part has the asker.
    Pending,
}

/// What was found, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Found.
    pub found: u64,
    /// Unknown.
    pub unknown: u64,
    /// Forbidden.
    pub forbidden: u64,
    /// Elsewhere.
    pub elsewhere: u64,
}

impl Access {
    /// What `principal` may see that asks on behalf of `asker`: the asker must live on it. Whatever is missing or odd leaves groups only.
    #[inline]
    pub fn of(shared: &Shared, principal: PrincipalId, asker: Option<(&Key, &Probe)>) -> Self {
        if shared.policy.resolves_all(principal) {
            return Self::All;
        }
        if shared.policy.resolves_addresses(principal) {
            return Self::Addresses;
        }
        let Some((key, probe)) = asker else { return Self::Groups };
        if principal == PrincipalId(0) || shared.policy.role(principal) != Role::Host {
            return Self::Groups;
        }
        let asker = if shared.holds(key) {
            match shared.table.look(probe).1 {
                Some(FoundValue::Mapping(mapping)) => Asker::Known(mapping.owner, mapping.service),
                _ => Asker::Unknown,
            }
        } else {
            match shared.askers.get(key) {
                Some(&asker) => asker,
                None => return Self::Pending,
            }
        };
        match asker {
            Asker::Known(owner, service) if owner == principal => Self::Service(service, key.tenant()),
            _ => Self::Groups,
        }
    }

    /// Whether a key may be asked for at all, whatever it stands for.
    #[inline]
    fn covers(self, key: &Key) -> bool {
        match (self, key) {
            (Self::All, _) | (_, Key::Group(_)) => true,
            (Self::Service(_, tenant), key) => key.tenant() == tenant,
            (Self::Addresses, key) => matches!(key, Key::App4(_) | Key::App6(_)),
            (Self::Groups | Self::Pending, _) => false,
        }
    }

    /// Whether a mapping of this service may be returned.
    #[inline]
    fn may_resolve(self, shared: &Shared, service: ServiceId) -> bool {
        match self {
            Self::All | Self::Addresses => true,
            Self::Service(own, _) => shared.policy.may_resolve(own, service),
            Self::Groups | Self::Pending => false,
        }
    }
}

/// Appends the body of the answer to a lookup whose keys were hashed into `probes`; `out` must not grow beyond `limit` bytes.
#[inline]
pub fn look_up(shared: &Shared, access: Access, ask: &Lookup<'_>, probes: &[Probe], limit: usize, out: &mut Vec<u8>) -> Tally {
    let mut tally = Tally::default();
    let mut writer = AnswerWriter::new(out, limit, shared.revision, shared.policy.version());
    let cannot_say = shared.state == State::Loading || ask.at_least > shared.revision || access == Access::Pending;
    for (key, probe) in ask.keys().zip(probes) {
        let room = if cannot_say || !shared.holds(&key) {
            tally.elsewhere += 1;
            writer.push(Generation(0), &Finding::Elsewhere)
        } else {
            find(shared, access, &key, probe, &mut writer, &mut tally)
        };
        if !room {
            break;
        }
    }
    tally
}

#[inline]
fn find(shared: &Shared, access: Access, key: &Key, probe: &Probe, writer: &mut AnswerWriter<'_>, tally: &mut Tally) -> bool {
    if !access.covers(key) {
        tally.forbidden += 1;
        return writer.push(shared.revision, &Finding::Forbidden);
    }
    // A tombstone, and what may not be returned, can be newer than the revision up to which everything is known.
    let (generation, value) = shared.table.look(probe);
    let known = shared.revision.max(generation);
    match value {
        None => {
            tally.unknown += 1;
            writer.push(known, &Finding::Unknown)
        }
        Some(FoundValue::Mapping(mapping)) if access.may_resolve(shared, mapping.service) => {
            tally.found += 1;
            writer.found(generation, &mapping)
        }
        Some(FoundValue::Group(addresses)) => {
            tally.found += 1;
            writer.group(generation, addresses)
        }
        Some(FoundValue::Mapping(_)) => {
            tally.forbidden += 1;
            writer.push(known, &Finding::Forbidden)
        }
    }
}

/// What one key is to one asker: for corrections.
pub fn finding(shared: &Shared, access: Access, key: &Key) -> (Generation, Finding) {
    let (generation, value) = shared.table.look(&shared.table.probe(key));
    let known = shared.revision.max(generation);
    match value {
        _ if !access.covers(key) => (shared.revision, Finding::Forbidden),
        None => (known, Finding::Unknown),
        Some(FoundValue::Mapping(mapping)) if !access.may_resolve(shared, mapping.service) => (known, Finding::Forbidden),
        Some(value) => (generation, Finding::Found(value.to_value())),
    }
}

/// Appends the body of the answer to a Sync, of at most `room` bytes. False, and nothing, if this server may not let leases restart: it
/// does not hear of withdrawals (it is loading, or lost its store), or knows less than the asker.
pub fn sync(shared: &Shared, ask: &Sync, room: usize, out: &mut Vec<u8>) -> bool {
    let behind = ask.revision > shared.revision || ask.policy > shared.policy.version();
    if behind || matches!(shared.state, State::Loading | State::StoreLost) {
        return false;
    }
    let current = ask.policy >= shared.confirmed_since;
    let start = out.len();
    if let Some(withdrawn) = shared.withdrawals.after(ask.revision).filter(|list| current && list.len() <= 255) {
        out.extend_from_slice(&shared.revision.0.to_be_bytes());
        out.extend_from_slice(&shared.policy.version().to_be_bytes());
        out.extend_from_slice(&[0, withdrawn.len() as u8]);
        for withdrawal in withdrawn {
            out.extend_from_slice(&withdrawal.generation.0.to_be_bytes());
            emit_key(&withdrawal.key, out);
        }
        if out.len() - start <= room {
            return true;
        }
        out.truncate(start);
    }
    let (revision, policy) = (shared.revision, shared.policy.version());
    Message::Changes(Changes { revision, policy, reconfirm: true, withdrawn: Vec::new() }).emit(out);
    true
}
