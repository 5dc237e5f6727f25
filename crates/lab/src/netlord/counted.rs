//! What the switches of a lab of tenants have learnt and flooded, and what their servers got that was for others: as their daemons say.

use weft_fabric::record::BridgeTotals;

use super::{socket, with_agents};
use crate::plan::{Plan, Role};
use crate::programs::ask;
use crate::state;

/// The counters of all of them since the lab came up, and what their tables hold now. Daemons that do not answer are left out, as are switches that are somebody else's.
pub(crate) fn totals(plan: &Plan) -> BridgeTotals {
    let Some(netlord) = &plan.tenants else { return BridgeTotals::default() };
    let mut all = BridgeTotals { vms: netlord.vms.len() as u64, vlans: netlord.vlans as u64, ..BridgeTotals::default() };
    let lab = state::path(&plan.name);
    for node in with_agents(plan) {
        let status = ask(&socket(&lab, node)).unwrap_or_default();
        let of = |part: &str, name: &str| status["ok"][part][name].as_u64().unwrap_or(0);
        if node.role == Role::Switch {
            all.fib_most = all.fib_most.max(of("fib", "used"));
            all.evictions += of("counters", "evicted");
            all.misses += of("counters", "misses");
            all.unlearnt += of("counters", "learn_limited");
        } else {
            let known = status["ok"]["tables"].as_array().into_iter().flatten().find(|it| it["table"] == "nl_arp");
            let own = status["ok"]["vifs"].as_array().map_or(0, Vec::len) as u64;
            let known = known.and_then(|it| it["used"].as_u64()).unwrap_or(0) + own;
            // One that has come here may still be in the table too. With the directory it is keys, of which a VM has several, and the servers' own addresses.
            let known = if status["ok"]["lookups"].is_null() { known.min(all.vms) } else { known + of("lookups", "held") };
            all.known_most = all.known_most.max(known);
            all.for_others += of("drops", "not_mine");
            all.lookups += of("nl_arp", "wheres_sent") + of("lookups", "misses") + of("lookups", "retries");
            all.hosts += 1;
        }
    }
    all
}
