//! Prometheus metrics, named `weft_agent_*` as VL2's: the kernel's counters and the machine's, under the names that status has.

use metrics::{counter, gauge};
use weft_control::netlord::agent::{Counts, Drop};
use weft_control::netlord::dhcp::DhcpCounts;
use weft_control::netlord::nl_arp::NlArpCounts;
use weft_control::netlord::spain::SpainCounters;

use crate::netlord::dataplane::Named;

/// What the programs counted.
pub(super) fn plane(counters: &Named) {
    for (name, is_drop, value) in counters.iter() {
        let metric = if is_drop { "weft_agent_dropped_total" } else { "weft_agent_packets_total" };
        counter!(metric, "reason" => name, "by" => "kernel").absolute(value);
    }
}

/// What the machine counted.
pub(super) fn machine(counts: &Counts, nl_arp: NlArpCounts, spain: SpainCounters) {
    for reason in Drop::ALL {
        counter!("weft_agent_dropped_total", "reason" => reason.name(), "by" => "agent").absolute(counts.dropped(reason));
    }
    let by_agent = [
        ("answered", counts.answered),
        ("encapsulated", counts.encapsulated),
        ("routed", counts.routed),
        ("icmp_errors", counts.icmp_errors),
        ("icmp_limited", counts.icmp_limited),
    ];
    for (name, value) in by_agent {
        counter!("weft_agent_packets_total", "reason" => name, "by" => "agent").absolute(value);
    }
    let addresses = [
        ("taken", counts.addresses_taken),
        ("lost", counts.addresses_lost),
        ("defended", counts.addresses_defended),
        ("limited", counts.takeovers_limited),
    ];
    for (event, value) in addresses {
        counter!("weft_agent_addresses_total", "event" => event).absolute(value);
    }
    let messages = [
        ("here", "out", nl_arp.heres_sent),
        ("where", "out", nl_arp.wheres_sent),
        ("answer", "out", nl_arp.answers_sent),
        ("nothere", "out", nl_arp.not_heres_sent),
        ("here", "in", nl_arp.heres),
        ("where", "in", nl_arp.wheres),
        ("nothere", "in", nl_arp.not_heres),
    ];
    for (kind, direction, value) in messages {
        counter!("weft_agent_nl_arp_total", "kind" => kind, "direction" => direction).absolute(value);
    }
    counter!("weft_agent_paths_failed_total").absolute(spain.failures);
    counter!("weft_agent_paths_restored_total").absolute(spain.restorations);
    counter!("weft_agent_chirps_total").absolute(spain.chirps);
}

/// How full a table is.
pub(super) fn table(name: &'static str, used: usize, limit: f64) {
    gauge!("weft_agent_table", "table" => name).set(used as f64);
    gauge!("weft_agent_table_max", "table" => name).set(limit);
}

/// Other edge switches with which an edge switch shares limits.
pub(super) fn shared_limits(switches: usize) {
    gauge!("weft_agent_limits_switches").set(switches as f64);
}

/// VIFs of the server.
pub(super) fn vifs(count: usize) {
    gauge!("weft_agent_vifs").set(count as f64);
}

/// VIFs of the server that another server has, too.
pub(super) fn vifs_twice(count: usize) {
    gauge!("weft_agent_vifs_twice").set(count as f64);
}

/// Frames of a VIF that exceeded what it may hand to the agent.
pub(super) fn vif_refused(device: &str, tenant: &str, name: &str, count: u64) {
    let labels = [("device", device.to_owned()), ("tenant", tenant.to_owned()), ("vif", name.to_owned())];
    counter!("weft_agent_vif_refused_total", &labels).absolute(count);
}

/// What the client of DHCP counted.
pub(super) fn dhcp(counts: DhcpCounts) {
    for (kind, value) in dhcp_counts(counts) {
        counter!("weft_agent_dhcp_total", "kind" => kind).absolute(value);
    }
}

/// By name, as status and metrics have them.
pub(super) const fn dhcp_counts(counts: DhcpCounts) -> [(&'static str, u64); 8] {
    [
        ("discovers", counts.discovers),
        ("requests", counts.requests),
        ("offers", counts.offers),
        ("acks", counts.acks),
        ("naks", counts.naks),
        ("ended", counts.ended),
        ("foreign", counts.foreign),
        ("malformed", counts.malformed),
    ]
}
