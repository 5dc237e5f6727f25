//! Prometheus metrics of a switch, all named `weft_agent_*`: the data plane's counters, what hosts said, and the groups.

use metrics::{counter, gauge};

use super::Switch;
use crate::agent::exporter;

impl Switch {
    /// Brings what is served up to date.
    pub(super) fn measure(&self) {
        if let Ok(counters) = self.plane.counters() {
            exporter::update(&counters);
        }
        if let Some(tor) = &self.tor {
            let counts = tor.counts();
            let outcomes = [
                ("attached", counts.attached),
                ("detached", counts.detached),
                ("refused", counts.refused),
                ("malformed", counts.malformed),
                ("strangers", counts.strangers),
                ("bad_tags", counts.bad_tags),
                ("replayed", counts.replayed),
            ];
            for (outcome, count) in outcomes {
                counter!("weft_agent_attach_messages_total", "outcome" => outcome).absolute(count);
            }
            counter!("weft_agent_expired_total").absolute(counts.expired);
            counter!("weft_agent_undeliverable_total", "told" => "directory").absolute(counts.reported);
            counter!("weft_agent_undeliverable_total", "told" => "nobody").absolute(counts.unreported);
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
            counter!("weft_agent_dhcp_total", "what" => *what).absolute(count);
        }
    }
}
