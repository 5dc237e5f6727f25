//! Prometheus metrics of a host, all named `weft_agent_*`: the data plane's counters and the machine's, under the names that status has.

use metrics::{counter, gauge};
use weft_control::vl2::agent::{Agent, Reason};

use crate::directory::measure_lookups;
use crate::vl2::dataplane::Counters;

/// Brings what is served up to date.
pub(super) fn update(agent: &Agent, plane: Option<&Counters>, peers_max: u32) {
    plane.into_iter().for_each(Counters::export);
    let counts = agent.counts();
    for reason in Reason::ALL {
        let dropped = counts.dropped.get(reason).copied().unwrap_or(0);
        counter!("weft_agent_dropped_total", "reason" => reason.name()).absolute(dropped);
    }
    counter!("weft_agent_missed_total").absolute(counts.missed);
    counter!("weft_agent_released_total").absolute(counts.released);
    counter!("weft_agent_resolutions_asked_total").absolute(counts.asked);
    counter!("weft_agent_resolutions_answered_total").absolute(counts.answered);
    counter!("weft_agent_invalidations_total").absolute(counts.invalidated);
    counter!("weft_agent_rehashed_total").absolute(counts.rehashed);
    counter!("weft_agent_rehash_limited_total").absolute(counts.rehash_limited);
    counter!("weft_agent_sequence_advances_total").absolute(counts.sequence_advances);
    measure_lookups(&agent.resolver_counts());
    let (held, bytes) = agent.held();
    gauge!("weft_agent_held_packets").set(held as f64);
    gauge!("weft_agent_held_bytes").set(bytes as f64);
    gauge!("weft_agent_peers").set(agent.peers().count() as f64);
    gauge!("weft_agent_peers_max").set(f64::from(peers_max));
    gauge!("weft_agent_addresses").set(agent.own().count() as f64);
}
