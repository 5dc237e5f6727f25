//! The maximum concurrent flow as a linear program.
//!
//! ```text
//!   maximise f, where for each source s, with x[s, a] the flow of s over the link a:
//!     into v - out of v = f * demand[s, v]     at every node v but s
//!     sum over s of x[s, a] <= capacity[a]     on every link a
//! ```
//! Flows of one source need no telling apart. The nodes are the switches, and the hosts with several NICs; a host with one NIC is
//! its switch, and its NIC is among the cuts that bound f. Cables carry the same in both directions, so sources and destinations may
//! change places, and the fewer of them are the sources.

use std::collections::BTreeMap;

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, microlp, variable};

use crate::ids::{HostId, LinkId, NodeId};
use crate::routing::optimal::{Demand, MAX_VARIABLES};
use crate::topology::{Fabric, Health};

/// The fraction, at most `upper`; `None` if the program is too large, or defeats the solver.
pub(super) fn fraction(fabric: &Fabric, health: &Health, flows: &[Demand], upper: f64) -> Option<f64> {
    // By source, by destination. Flows within a switch cross no link of the program.
    let place = |host: HostId| match fabric.out(host.node()) {
        [nic] => fabric.link(*nic).to,
        _ => host.node(),
    };
    let mut demands: BTreeMap<NodeId, BTreeMap<NodeId, f64>> = BTreeMap::new();
    let mut reversed = demands.clone();
    for (src, dst, rate) in flows.iter().map(|&(s, d, rate)| (place(s), place(d), rate)).filter(|(s, d, _)| s != d) {
        *demands.entry(src).or_default().entry(dst).or_default() += rate;
        *reversed.entry(dst).or_default().entry(src).or_default() += rate;
    }
    if reversed.len() < demands.len() {
        demands = reversed;
    }
    Program::new(fabric, health, &demands, upper)?.solve()
}

struct Program<'a> {
    demands: &'a BTreeMap<NodeId, BTreeMap<NodeId, f64>>,
    variables: ProblemVariables,
    fraction: Variable,
    /// By source, in the order of `demands`: the flow over each link that it may use.
    flows: Vec<Vec<(LinkId, Variable)>>,
    fabric: &'a Fabric,
    /// The largest capacity: rates are relative to it, so that the numbers are near 1.
    scale: f64,
}

impl<'a> Program<'a> {
    fn new(
        fabric: &'a Fabric,
        health: &Health,
        demands: &'a BTreeMap<NodeId, BTreeMap<NodeId, f64>>,
        upper: f64,
    ) -> Option<Self> {
        let multi_homed = |n: NodeId| fabric.as_host(n).is_some() && fabric.out(n).len() > 1;
        let in_program = |n: NodeId| fabric.as_switch(n).is_some() || multi_homed(n);
        let links: Vec<LinkId> = (0..fabric.links().len())
            .map(LinkId::from)
            .filter(|&l| health.is_up(l) && in_program(fabric.link(l).from) && in_program(fabric.link(l).to))
            .collect();
        let mut variables = ProblemVariables::new();
        let fraction = variables.add(variable().min(0.0).max(upper));
        let mut flows = Vec::with_capacity(demands.len());
        for (&source, sinks) in demands {
            // Nothing returns to the source, and hosts never forward.
            let useful = |l: &&LinkId| {
                let link = fabric.link(**l);
                let from = link.from == source || !multi_homed(link.from);
                from && link.to != source && (!multi_homed(link.to) || sinks.contains_key(&link.to))
            };
            let of_source: Vec<_> = links.iter().filter(useful).map(|&l| (l, variables.add(variable().min(0.0)))).collect();
            flows.push(of_source);
            if variables.len() > MAX_VARIABLES {
                return None;
            }
        }
        let scale = fabric.links().iter().map(|l| l.capacity.as_f64()).fold(1.0, f64::max);
        Some(Self { demands, variables, fraction, flows, fabric, scale })
    }

    fn solve(self) -> Option<f64> {
        let Self { demands, variables, fraction, flows, fabric, scale } = self;
        let mut model = variables.maximise(fraction).using(microlp);
        let mut by_link: BTreeMap<LinkId, Expression> = BTreeMap::new();
        for ((source, sinks), flows) in demands.iter().zip(&flows) {
            let mut balance: BTreeMap<NodeId, Expression> = BTreeMap::new();
            for &(link, flow) in flows {
                balance.entry(fabric.link(link).to).or_default().add_mul(1.0, flow);
                balance.entry(fabric.link(link).from).or_default().add_mul(-1.0, flow);
                by_link.entry(link).or_default().add_mul(1.0, flow);
            }
            balance.remove(source);
            for (node, mut sum) in balance {
                sum.add_mul(-sinks.get(&node).copied().unwrap_or(0.0) / scale, fraction);
                model.add_constraint(sum.eq(0.0));
            }
        }
        for (link, sum) in by_link {
            model.add_constraint(sum.leq(fabric.link(link).capacity.as_f64() / scale));
        }
        // The program has a solution (nothing flows) and a bound; only numbers that the solver cannot handle end in an error.
        model.solve().ok().map(|solution| solution.value(fraction))
    }
}
