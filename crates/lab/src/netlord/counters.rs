//! Counters of NetLord's agents: addresses learned, frames flooded, frames that hosts received and that were for others.

use weft_fabric::record::BridgeTotals;

use crate::agents::socket;
use crate::plan::{Plan, Role};
use crate::programs::ask;

/// The sums of all counters since the lab came up, and the present occupancy of tables. Agents that do not answer are left out, and Open vSwitch has none.
pub(crate) fn totals(plan: &Plan) -> BridgeTotals {
    let Some(netlord) = plan.overlay.netlord() else { return BridgeTotals::default() };
    let mut all = BridgeTotals { vms: netlord.vms.len() as u64, vlans: netlord.vlans as u64, ..BridgeTotals::default() };
    for node in plan.with_agents() {
        let status = ask(&socket(plan, node)).unwrap_or_default();
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
            // A VM that has moved here may still be in the table. With a directory the table holds keys: several of each VM, and the servers' own addresses.
            let known = if status["ok"]["lookups"].is_null() { known.min(all.vms) } else { known + of("lookups", "held") };
            all.known_most = all.known_most.max(known);
            all.for_others += of("drops", "not_mine");
            all.lookups += of("nl_arp", "wheres_sent") + of("lookups", "misses") + of("lookups", "retries");
            all.hosts += 1;
        }
    }
    all
}
