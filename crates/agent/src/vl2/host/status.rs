//! The answers to `weft agent status` and `weft agent trace`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{Map, Value, json};
use weft_control::directory::parts::Part;
use weft_control::directory::{GroupId, ServiceId};
use weft_control::vl2::agent::{AttachState, OwnState, OwnView, PeerView, Reason};
use weft_directory::client::versions;

use super::Host;
use super::checks::State;
use super::config::LocatorMode;
use crate::vl2::dataplane::{Flow, VIRTUAL_MAC};

impl Host {
    /// The whole status.
    pub(super) fn status(&self) -> Value {
        let (mut problems, counters) = (self.problems(), self.plane.counters());
        problems.extend(self.missing_programs());
        let counted = |drops: bool| -> Map<String, Value> {
            let all =
                counters.iter().flat_map(crate::vl2::dataplane::Counters::iter).filter(|(which, _)| which.is_drop() == drops);
            all.map(|(which, value)| (which.name().to_owned(), json!(value))).collect()
        };
        let mut drops = counted(true);
        for reason in Reason::ALL {
            drops.insert(reason.name().to_owned(), json!(self.agent.counts().dropped.get(reason).copied().unwrap_or(0)));
        }
        let (packets, bytes) = self.agent.held();
        let used = self.plane.used();
        let limit = self.config.limits.peers;
        let peers: Vec<Value> = self.agent.peers().take(PEERS_SHOWN).map(|peer| self.peer(&peer)).collect();
        json!({
            "verdict": if problems.is_empty() { "ok" } else { "not ok" },
            "summary": self.summary(used),
            "problems": problems,
            "role": "host",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": versions().newest(),
            "device": self.link.device,
            "la": self.la.to_string(),
            "principal": self.config.principal().0,
            "locator": if self.config.locator == LocatorMode::Host { "host" } else { "tor" },
            "uptime_s": self.started.elapsed().as_secs(),
            "adopted": self.plane.adopted(),
            "checks": self.checks,
            "addresses": self.agent.own().map(|own| self.own(&own)).collect::<Vec<_>>(),
            "peers": { "used": self.agent.peers().count(), "limit": limit, "evicted": self.evictions.total(), "list": peers },
            "maps": [{ "name": "peers", "used": used, "limit": limit }],
            "programs": self.programs(),
            "unconfirmed_s": self.confirmation.unconfirmed_s(),
            "directory": self.directory(),
            "held": { "packets": packets, "bytes": bytes },
            "restored": self.reconciler.status(),
            "counters": counted(false),
            "placement": self.placement.as_ref().map(|it| it.status(self.now())),
            "drops": drops,
        })
    }

    /// The directory servers; of a divided directory, those of all parts.
    fn directory(&self) -> Vec<Value> {
        let Some(map) = self.agent.parts() else {
            return self.agent.servers().iter().map(|it| json!({ "server": it.to_string() })).collect();
        };
        let of_part = |part: &Part| {
            let server = |it: &SocketAddr| json!({ "server": it.to_string(), "part": part.name });
            part.servers.iter().map(server).collect::<Vec<_>>()
        };
        map.parts().iter().flat_map(of_part).collect()
    }

    fn summary(&self, used: usize) -> String {
        let own = self.agent.own().count();
        let attached = self.agent.own().filter(is_well).count();
        let limit = self.config.limits.peers;
        format!("{attached} of {own} addresses attached, {used} peers of {limit}, {} {}", self.link.device, self.la)
    }

    /// What is wrong with the system and with this host's addresses: problems that read the same while they last.
    pub(super) fn steady_problems(&self) -> Vec<String> {
        let bad = self.checks.iter().filter(|check| check.state == State::Bad);
        let mut problems: Vec<String> = bad
            .map(|check| format!("{}: {} ({})", check.name, check.detail, check.remedy.as_deref().unwrap_or_default()))
            .collect();
        problems.extend(self.agent.own().filter_map(|own| Some(format!("{}: {}", own.address, problem_of(&own)?))));
        problems
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = self.steady_problems();
        problems.extend(self.reconciler.problem());
        problems.extend(self.confirmation.problem());
        problems.extend(self.evictions.problem(self.config.limits.peers));
        problems.extend(self.placement.iter().flat_map(|it| it.problems(self.now())));
        problems.extend(self.plane.last_error.clone());
        problems
    }

    fn missing_programs(&self) -> impl Iterator<Item = String> + '_ {
        let gone = PROGRAMS.into_iter().filter(|(name, hook)| !self.link.has_program(hook, name));
        gone.map(|(name, hook)| {
            format!("the program {name} is not on {hook} of {}: it is put back within seconds", self.link.device)
        })
    }

    fn programs(&self) -> Vec<Value> {
        let attached =
            |(name, hook): (&str, &str)| json!({ "name": name, "hook": hook, "attached": self.link.has_program(hook, name) });
        PROGRAMS.into_iter().map(attached).collect()
    }

    fn own(&self, own: &OwnView) -> Value {
        let service = if let OwnState::Confirmed(ServiceId(service)) = own.state { Some(service) } else { None };
        json!({
            "address": own.address.to_string(), "mac": own.mac.to_string(), "service": service, "attached": is_well(own),
            "state": problem_of(own).unwrap_or_else(|| "well".to_owned()),
            "tor": self.config.tor.as_ref().map(|tor| tor.get_ref().to_string()),
        })
    }

    fn peer(&self, peer: &PeerView) -> Value {
        let via = self.anycast(peer.peer.group).map(|it| it.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(","));
        json!({
            "own": peer.asker.to_string(), "address": peer.key.address.to_string(), "service": peer.key.service.0, "locator": peer.peer.locator.to_string(), "via": via,
            "mac": peer.peer.mac.unwrap_or(VIRTUAL_MAC).to_string(), "generation": peer.generation.0,
        })
    }

    fn anycast(&self, group: GroupId) -> Option<&[Ipv4Addr]> {
        self.agent.group(group).filter(|_| group != GroupId(0))
    }

    /// How a flow's packets would leave.
    pub(super) fn outer_path(&self, flow: Flow) -> Result<Value, (String, &'static str)> {
        if !self.agent.own().any(|own| own.address == flow.source) {
            return Err((format!("{} is not an address of this host", flow.source), "trace from the host that sends"));
        }
        let local = self.agent.locals().find(|(address, ..)| *address == flow.source).map(|(_, service, _)| service);
        let of = |peer: &PeerView| peer.key.address == flow.destination && Some(peer.key.service) == local;
        let peer = self.agent.peers().find(of);
        let none = "send it something first (ping), so that it is looked up; `weft agent status` lists drops by their reasons";
        let peer = peer.ok_or_else(|| (format!("{} is not among the peers", flow.destination), none))?;
        let source = self.plane.outer_source(flow).ok_or(("the flow's hash cannot be read".to_owned(), ""))?;
        let own_tor = self.config.tor.as_ref().map(|tor| tor.get_ref().ip());
        let is_straight = own_tor == Some(IpAddr::V4(peer.peer.locator)) && self.config.locator == LocatorMode::Tor;
        let via = self.anycast(peer.peer.group).filter(|_| !is_straight).and_then(|all| self.plane.anycast(flow, all));
        let via = self.plane.placement(flow).map(|placed| placed.intermediate).filter(|_| via.is_some()).or(via);
        let bits = 32 - u32::from(self.config.entropy.get_ref().length());
        Ok(json!({
            "hash": source.to_bits() & ((1u32 << bits) - 1), "source": source.to_string(), "locator": peer.peer.locator.to_string(),
            "via": via.map(|it| it.to_string()), "la": self.la.to_string(), "device": self.link.device,
            "namespace": crate::netns::own(), "pid": std::process::id(),
        }))
    }
}

fn is_well(own: &OwnView) -> bool {
    problem_of(own).is_none()
}

/// What keeps an address from being used.
fn problem_of(own: &OwnView) -> Option<String> {
    match own.state {
        OwnState::Unconfirmed => return Some("no directory server has confirmed it".to_owned()),
        OwnState::NotOurs => return Some("the directory says that it is another host's".to_owned()),
        OwnState::Forbidden => return Some(FORBIDDEN.to_owned()),
        OwnState::Unknown => return Some("the directory has no such address".to_owned()),
        OwnState::Confirmed(_) => {}
    }
    match own.attachment {
        Some(AttachState::Waiting | AttachState::Detached) => Some("nobody has acknowledged where it is".to_owned()),
        Some(AttachState::Refused(code)) => Some(code.to_string()),
        Some(AttachState::Attached) | None => None,
    }
}

/// The directory answers so in both cases.
pub(super) const FORBIDDEN: &str = "the directory does not let this host use it: its owner is another principal, or its service is none or not in the policy; `weft directory get ADDRESS` shows both";
/// The programs, and the hooks of the device that they are on.
const PROGRAMS: [(&str, &str); 2] = [("vl2_out", "egress"), ("vl2_in", "ingress")];
/// More are counted only.
const PEERS_SHOWN: usize = 1000;
