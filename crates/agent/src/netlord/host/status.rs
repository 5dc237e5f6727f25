//! The answer to `weft agent status`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use weft_control::netlord::agent::{Drop, LookupReport};
use weft_control::netlord::nl_arp::NlArpCounts;
use weft_control::netlord::spain::SpainCounters;
use weft_control::netlord::{Location, MacSpace, PROVIDER, Vif};
use weft_control::wire::packet::ethernet::VlanId;
use weft_directory::client::versions;
use weft_fabric::MacAddr;

use super::super::metrics;
use super::Host;
use super::records::Records;
use super::repository::Repository;
use super::uplink::Uplink;
use super::vif::OwnVif;
use crate::config::OnExit;
use crate::netlord::dataplane::Handed;

impl Host {
    /// The whole status.
    pub(super) fn status(&self) -> Value {
        let problems = self.problems();
        let (counters, drops) = self.counted();
        let (used, limit) = (self.agent.mapped(), self.plane.remotes_max());
        let report = self.agent.report();
        let tables = json!([
            { "table": "nl_arp", "used": report.nl_arp_entries, "limit": self.config.nl_arp().capacity, "bytes": report.nl_arp_bytes },
            { "table": "remotes", "used": used, "limit": limit, "bytes": Value::Null },
        ]);
        json!({
            "verdict": if problems.is_empty() { "ok" } else { "not ok" },
            "summary": self.summary(report.known(), used),
            "problems": problems,
            "overlay": "netlord",
            "role": "host",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": versions().newest(),
            "uptime_s": self.started.elapsed().as_secs(),
            "adopted": self.plane.adopted(),
            "keeps": self.config.on_exit == OnExit::Keep,
            "tenants_version": self.tenants.version,
            "repository": self.repository.as_ref().map(Repository::status),
            "records": self.records.as_ref().map(Records::status),
            "uplinks": self.uplinks(),
            "provider": self.provider_status(),
            "vifs": self.own_vifs(),
            "spaces_refused": self.spaces_refused(),
            "paths": self.paths(),
            "tables": tables,
            "tenants": self.tenants_counted(),
            "kept": self.agent.kept(),
            "nl_arp": nl_arp(report.nl_arp),
            "dhcp": self.dhcp_counts().map(|counts| metrics::dhcp_counts(counts).into_iter().collect::<BTreeMap<_, _>>()),
            "unconfirmed_s": self.confirmation.unconfirmed_s(),
            "lookups": report.lookups.map(lookups),
            "spain": spain(report.spain),
            "restored": self.reconciler.status(),
            "counters": counters,
            "drops": drops,
        })
    }

    fn summary(&self, known: usize, remotes: usize) -> String {
        let placed = self.uplinks.iter().filter(|it| it.at.is_some()).count();
        let places: Vec<String> = self.uplinks.iter().filter_map(|it| Some(it.at?.to_string())).collect();
        let (uplinks, vifs) = (self.uplinks.len(), self.vifs.len());
        let at = if places.is_empty() { String::new() } else { format!(" at {}", places.join(", ")) };
        format!("{placed} of {uplinks} uplinks{at}, {vifs} VIFs, {known} others known, {remotes} in the kernel's table")
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.confirmation.problem().into_iter().collect();
        problems.extend(self.steady_problems());
        problems.extend(self.tenants_file.problem.clone());
        problems.extend(self.repository.as_ref().and_then(Repository::problem));
        problems.extend(self.records.as_ref().and_then(Records::problem));
        problems.extend(self.reconciler.problem());
        problems.extend(self.last_error.clone());
        problems
    }

    /// Problems that read the same while they last, and that nothing else logs.
    pub(super) fn steady_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for uplink in &self.uplinks {
            match (uplink.mtu, uplink.at) {
                (None, _) => problems.push(format!("{} is down: `ip link set {} up`", uplink.device, uplink.device)),
                (_, None) => problems.push(format!(
                    "{}: its edge switch has not said where it is: switch LLDP on there, or write `switch` and `port`",
                    uplink.device
                )),
                _ => {}
            }
        }
        let lost: Vec<String> = self
            .paths_known()
            .filter(|(_, _, vlans, failed)| !failed.is_empty() && failed.len() == vlans.len())
            .map(
                |(device, switch, ..)| {
                    if self.uplinks.len() > 1 { format!("{switch} from {device}") } else { switch.to_string() }
                },
            )
            .collect();
        if !lost.is_empty() {
            problems.push(format!("no VLAN works to {}", lost.join(", ")));
        }
        let absent = self.absent();
        if !absent.is_empty() {
            problems.push(format!("VIFs without their interfaces: {}", absent.join(", ")));
        }
        problems.extend(self.agent.twice(self.now()).map(|(vif, at)| self.twice_problem(vif, at)));
        problems.extend(self.provider_problem());
        problems.extend(self.paths.problem(&self.uplinks));
        problems
    }

    /// A VIF of this server is on another one, too. Both are named: this one by its log, the other by its place.
    fn twice_problem(&self, vif: Vif, at: Location) -> String {
        let own = self.vifs.values().find(|own| own.vif == vif);
        let name = own.map_or_else(|| vif.mac.to_string(), |own| format!("{} of {} ({})", own.name, own.tenant, own.device));
        let here = self.agent.vif(vif).and_then(|(_, uplink)| self.agent.location(uplink?));
        let here =
            here.map_or_else(|| "here".to_owned(), |here| format!("here, at port {} of switch {},", here.port, here.switch));
        format!("VIF {name} is {here} and at port {} of switch {}: stop one of the two VMs", at.port, at.switch)
    }

    fn uplinks(&self) -> Vec<Value> {
        let of = |it: &Uplink| json!({ "device": it.device, "mac": it.mac.to_string(), "mtu": it.mtu, "switch": it.at.map(|at| at.switch.to_string()), "port": it.at.map(|at| at.port.get()) });
        self.uplinks.iter().map(of).collect()
    }

    fn own_vifs(&self) -> Vec<Value> {
        let learned: BTreeMap<u32, Vec<String>> =
            self.agent.vifs().map(|(id, _, ips, _)| (id.0, ips.iter().map(ToString::to_string).collect())).collect();
        let handed: BTreeMap<u32, Handed> = self.plane.handed_by_vifs().unwrap_or_default().into_iter().collect();
        let of = |(ifindex, own): (&u32, &OwnVif)| {
            let Handed { handed, refused } = handed.get(ifindex).copied().unwrap_or_default();
            let uplink = own.written.and_then(|(_, uplink)| uplink);
            let uplink = self.uplinks.iter().find(|it| Some(it.ifindex) == uplink).map(|it| it.device.as_str());
            json!({ "device": own.device, "tenant": own.tenant, "name": own.name, "id": own.vif.tenant.0, "space": own.vif.space.0, "mac": own.vif.mac.to_string(), "addresses": learned.get(ifindex).map(|ips| ips.join(" ")), "uplink": uplink, "handed": handed, "refused": refused })
        };
        self.vifs.iter().map(of).collect()
    }

    /// MAC spaces of which frames from the fabric were dropped, since they exceeded what the agent takes for one.
    fn spaces_refused(&self) -> Vec<Value> {
        let spaces = self.plane.handed_to_spaces().unwrap_or_default().into_iter();
        let of = |((tenant, space), it): ((weft_fabric::TenantId, MacSpace), Handed)| json!({ "id": tenant.0, "space": space.0, "handed": it.handed, "refused": it.refused });
        spaces.filter(|(_, it)| it.refused > 0).map(of).collect()
    }

    /// From which interface, to which edge switch, by which VLANs, and which of these have failed.
    fn paths_known(&self) -> impl Iterator<Item = (&str, MacAddr, &[VlanId], Vec<VlanId>)> {
        self.paths.known.iter().map(|(&(uplink, switch), vlans)| {
            let is_failed = |vlan: &VlanId| self.agent.is_failed((uplink, switch), *vlan);
            let failed = vlans.iter().copied().filter(is_failed).collect();
            (self.uplinks[usize::from(uplink.0)].device.as_str(), switch, vlans.as_slice(), failed)
        })
    }

    fn paths(&self) -> Vec<Value> {
        let of = |(device, switch, vlans, failed): (&str, MacAddr, &[VlanId], Vec<VlanId>)| {
            let failed: Vec<String> = failed.iter().map(|vlan| vlan.get().to_string()).collect();
            json!({ "uplink": device, "switch": switch.to_string(), "vlans": vlans.len(), "failed": failed.join(",") })
        };
        self.paths_known().take(PATHS_SHOWN).map(of).collect()
    }

    fn tenants_counted(&self) -> Vec<Value> {
        let own = |id: &weft_fabric::TenantId| (*id == PROVIDER).then_some("provider");
        let name = |id: &weft_fabric::TenantId| self.tenants.tenants.get(id).map(|it| it.name.as_str()).or_else(|| own(id));
        let counts = self.agent.counts().tenants.iter();
        let of = |(id, c): (&weft_fabric::TenantId, &weft_control::netlord::agent::TenantCounts)| json!({ "tenant": id.0, "name": name(id), "by_agent": c.sent, "delivered": c.delivered, "dropped": c.dropped });
        counts.map(of).collect()
    }

    /// The kernel's counters and the machine's, and among them drops. What both may drop is one sum.
    fn counted(&self) -> (Map<String, Value>, Map<String, Value>) {
        let (mut counters, mut drops) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
        if let Ok(all) = self.plane.counters() {
            for (name, is_drop, value) in all.iter() {
                *if is_drop { &mut drops } else { &mut counters }.entry(name).or_default() += value;
            }
        }
        let counts = self.agent.counts();
        for reason in Drop::ALL {
            *drops.entry(reason.name()).or_default() += counts.dropped(reason);
        }
        counters.insert("answered", counts.answered);
        counters.insert("icmp_errors", counts.icmp_errors);
        counters.insert("icmp_limited", counts.icmp_limited);
        counters.insert("addresses_taken", counts.addresses_taken);
        counters.insert("addresses_lost", counts.addresses_lost);
        counters.insert("addresses_defended", counts.addresses_defended);
        counters.insert("takeovers_limited", counts.takeovers_limited);
        counters.insert("vifs_announced_elsewhere", counts.elsewhere);
        counters.insert("encapsulated_by_agent", counts.encapsulated);
        counters.insert("routed_by_agent", counts.routed);
        counters.insert("copies", counts.copies);
        let map = |all: BTreeMap<&str, u64>| all.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        (map(counters), map(drops))
    }
}

fn nl_arp(c: NlArpCounts) -> Value {
    json!({
        "heres_sent": c.heres_sent, "wheres_sent": c.wheres_sent, "answers_sent": c.answers_sent, "not_heres_sent": c.not_heres_sent,
        "heres": c.heres, "wheres": c.wheres, "not_heres": c.not_heres, "stale": c.stale, "vain": c.vain, "full": c.full, "limited": c.limited,
    })
}

fn lookups(LookupReport { cached, counts: c, .. }: LookupReport) -> Value {
    json!({
        "held": cached, "hits": c.hits, "misses": c.misses, "retries": c.retries, "strangers": c.strangers,
        "malformed": c.malformed, "bad_tags": c.bad_tags, "unasked": c.unasked, "stale": c.stale,
    })
}

fn spain(c: SpainCounters) -> Value {
    json!({ "chirps": c.chirps, "answers": c.answers, "failures": c.failures, "restorations": c.restorations, "strangers": c.strangers })
}

/// More are counted only.
const PATHS_SHOWN: usize = 1000;
