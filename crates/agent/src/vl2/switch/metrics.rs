//! Prometheus metrics of a switch, all named `weft_agent_*`: the data plane's counters, attach messages, and the groups.

use metrics::{counter, gauge};

use super::Switch;

impl Switch {
    /// Updates the metrics.
    pub(super) fn measure(&self) {
        if let Ok(counters) = self.plane.counters() {
            counters.export();
        }
        if let Some(tor) = &self.tor {
            let counts = tor.counts();
            let outcomes = [
                ("attached", counts.attached),
                ("detached", counts.detached),
                ("refused", counts.refused),
                ("malformed", counts.malformed),
                ("unsupported", counts.unsupported),
                ("strangers", counts.strangers),
                ("bad_tags", counts.bad_tags),
                ("replayed", counts.replayed),
            ];
            for (outcome, count) in outcomes {
                counter!("weft_agent_attach_messages_total", "outcome" => outcome).absolute(count);
            }
            counter!("weft_agent_expired_total").absolute(counts.expired);
            counter!("weft_agent_present_total").absolute(counts.present);
            gauge!("weft_agent_hosts_silent").set(tor.silent().len() as f64);
            counter!("weft_agent_undeliverable_total", "reported_to" => "directory").absolute(counts.reported);
            counter!("weft_agent_undeliverable_total", "reported_to" => "nobody").absolute(counts.unreported);
            gauge!("weft_agent_addresses").set(tor.local().count() as f64);
        }
        if let Some(intermediate) = &self.intermediate {
            let groups = intermediate.groups();
            gauge!("weft_agent_groups").set(groups.len() as f64);
            gauge!("weft_agent_groups_served").set(groups.iter().filter(|group| group.is_served).count() as f64);
            gauge!("weft_agent_groups_dead").set(groups.iter().filter(|group| group.members.is_empty()).count() as f64);
            gauge!("weft_agent_switches_alive").set(intermediate.alive().count() as f64);
        }
        for (what, &count) in self.relay.iter().flat_map(|relay| relay.counts()) {
            counter!("weft_agent_dhcp_total", "kind" => *what).absolute(count);
        }
    }
}
