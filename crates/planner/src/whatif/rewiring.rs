//! The transition from one Subways fabric to another with the same servers, servers' cables included (Subways sections 4.1 to 4.3).
//!
//! ```text
//!   upgrade::plan --steps--> batches: changes of one switch --each: old cables out; then new ones in--> Fabric of what works --> throughput, lowest
//!   matrix before, by racks --by servers--> matrix of the racks that there are just then
//! ```
//! Racks of servers change while servers are rewired, so the fabric and the matrix are built for each state. Cables of one switch, their upper end (of moved
//! ones that before), are changed together.

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::cabling::{Cable, Part};
use weft_fabric::topology::{FabricBuilder, FabricError};
use weft_fabric::upgrade::{Change, Counts, Plan, Plugged};
use weft_fabric::{Duration, Fabric, Health};

use super::growth::{Changes, ROUNDING, Transition, throughput};
use crate::network::Network;
use crate::routing::matrix::Matrix;

impl Transition {
    /// By the steps of an upgrade, with the traffic between the racks of the fabric before.
    pub fn rewired(plan: &Plan, before: &Fabric, matrix: &Matrix) -> Self {
        let carried = |plugged: &Plugged| carried(plugged, before, matrix);
        let names = Names::of_plan(plan);
        let mut plugged = plan.before.clone();
        let (mut lowest, mut lowest_batch, mut batches) = (carried(&plugged), None, 0);
        for step in &plan.steps {
            for (switch, changes) in by_switch(&step.changes) {
                batches += 1;
                changes.iter().for_each(|change| plugged.take_out(change));
                // What is plugged beside the other cables is looked at when it works.
                let during = changes.iter().any(|change| change.unplugged().is_some()).then(|| carried(&plugged));
                changes.iter().for_each(|change| plugged.plug(change));
                for now in during.into_iter().chain([carried(&plugged)]) {
                    if now < lowest * (1.0 - ROUNDING) {
                        (lowest, lowest_batch) = (now, Some(names.of(switch)));
                    }
                }
            }
        }
        Self { changes: changes(plan, &names), batches, kept_traffic: 1.0, lowest: Some(lowest), lowest_batch }
    }
}

/// In the order of the switches whose cables are changed: their upper ends.
fn by_switch(changes: &[Change]) -> BTreeMap<Part, Vec<&Change>> {
    let mut all: BTreeMap<Part, Vec<&Change>> = BTreeMap::new();
    for change in changes {
        let cable = change.unplugged().or(change.plugged()).expect("a change has an old or a new cable");
        all.entry(cable.upper).or_default().push(change);
    }
    all
}

/// The fraction of a matrix between the racks of `before` that is carried; 0 if a server is cut off.
fn carried(plugged: &Plugged, before: &Fabric, matrix: &Matrix) -> f64 {
    let Some(Ok(now)) = fabric(plugged, before.host_count()) else { return 0.0 };
    throughput(&Network::new(&now, &Health::new(&now)), &spread(matrix, before, &now))
}

/// What works; `None` if a server is cut off.
fn fabric(plugged: &Plugged, servers: usize) -> Option<Result<Fabric, FabricError>> {
    let mut cables: Vec<Cable> = Vec::new();
    for mut usable in plugged.usable() {
        if usable.is_empty() {
            return None;
        }
        // Servers of a rack have their cables in the same order, whichever was plugged first.
        usable.sort_unstable();
        cables.extend(usable);
    }
    cables.extend(plugged.cables().filter(|cable| !cable.is_server()));
    let mut builder = FabricBuilder::new("while it is built");
    let hosts: Vec<_> = (0..servers as u32).map(|host| builder.host(Part::Host(host).to_string(), None)).collect();
    let mut parts: Vec<Part> = cables.iter().flat_map(|cable| [cable.lower, cable.upper]).collect();
    parts.sort_unstable();
    parts.dedup();
    let mut switches = BTreeMap::new();
    for part in parts {
        let tier = match part {
            Part::Host(_) => continue,
            Part::Tor(_) => 1,
            Part::Agg(_) => 2,
            Part::Core(_) => 3,
        };
        switches.insert(part, builder.switch(part.to_string(), tier, None));
    }
    for Cable { lower, upper, rate } in cables {
        match lower {
            Part::Host(host) => builder.cable(hosts[host as usize], switches[&upper], rate, Duration::ZERO),
            _ => builder.cable(switches[&lower], switches[&upper], rate, Duration::ZERO),
        };
    }
    Some(builder.build())
}

/// A matrix between the racks of one fabric as one between those of another with the same servers: those of a rack have equal shares.
fn spread(matrix: &Matrix, from: &Fabric, to: &Fabric) -> Matrix {
    let mut shares: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); to.racks().len()];
    for host in from.hosts() {
        let (old, new) = (from.rack_of(host).index(), to.rack_of(host).index());
        *shares[new].entry(old).or_default() += 1.0 / from.racks()[old].hosts.len() as f64;
    }
    let mut all = Matrix::zero(shares.len());
    for (src, of_src) in shares.iter().enumerate() {
        for (dst, of_dst) in shares.iter().enumerate().filter(|(dst, _)| *dst != src) {
            let rates = of_src.iter().flat_map(|(a, x)| of_dst.iter().map(move |(b, y)| matrix.rate(*a, *b) * x * y));
            *all.rate_mut(src, dst) = rates.sum();
        }
    }
    all
}

/// The name of a switch in the new fabric; of one that goes that in the old one.
struct Names {
    before: BTreeMap<Part, Part>,
    after: BTreeSet<Part>,
}

impl Names {
    fn of_plan(plan: &Plan) -> Self {
        let mut after = plan.before.clone();
        for change in plan.steps.iter().flat_map(|step| &step.changes) {
            after.take_out(change);
            after.plug(change);
        }
        let before = plan.renamed.iter().map(|it| (it.to, it.from)).collect();
        Self { before, after: switches(after.cables()) }
    }

    fn of(&self, switch: Part) -> String {
        let stays = self.after.contains(&switch);
        self.before.get(&switch).filter(|_| !stays).unwrap_or(&switch).to_string()
    }
}

fn switches(cables: impl Iterator<Item = Cable>) -> BTreeSet<Part> {
    cables.flat_map(|cable| [cable.lower, cable.upper]).filter(|part| !matches!(part, Part::Host(_))).collect()
}

fn changes(plan: &Plan, names: &Names) -> Changes {
    let before = switches(plan.before.cables());
    let sum = |of: fn(&Counts) -> u64| (of(&plan.tor_cables) + of(&plan.agg_cables)) as usize;
    let stay = plan.renamed.iter().filter(|it| names.after.contains(&it.to));
    Changes {
        switches_added: names.after.difference(&before).map(Part::to_string).collect(),
        switches_removed: before.difference(&names.after).map(|part| names.of(*part)).collect(),
        switches_renamed: stay.map(|it| [it.from, it.to].map(|part| part.to_string())).collect(),
        cables_added: sum(|it| it.added),
        cables_removed: sum(|it| it.removed),
        cables_moved: sum(|it| it.moved + it.replaced),
        server_cables_added: plan.server_cables.added as usize,
        server_cables_removed: plan.server_cables.removed as usize,
        server_cables_moved: (plan.server_cables.moved + plan.server_cables.replaced) as usize,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_fabric::BitsPerSec;
    use weft_fabric::topology::shapes::subways::{RackSize, SubwaysSpec, SubwaysType, Uplinks, Wiring};
    use weft_fabric::topology::shapes::{Cabling, Shape};
    use weft_fabric::upgrade::plan;

    use super::*;

    const LINK: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::ZERO };

    /// 24 servers at 6 ToRs of 4 server ports for each port of a server.
    fn spec(kind: SubwaysType, ports: u32, aggregations: u32) -> SubwaysSpec {
        SubwaysSpec {
            ports,
            rack: RackSize::Servers(4 / ports),
            racks_per_cluster: 3 * ports,
            clusters: Some(2),
            tor_uplinks: Uplinks::Count(aggregations),
            agg_uplinks: Uplinks::Count(2),
            loop_length: matches!(kind.wiring(), Wiring::SharedTors | Wiring::SharedClusters).then_some(3 * ports),
            ..SubwaysSpec::new(kind)
        }
    }

    fn build(spec: &SubwaysSpec) -> Fabric {
        Shape::Subways(*spec).build(LINK, LINK).expect("a fabric")
    }

    fn network(fabric: &Fabric) -> Network {
        Network::new(fabric, &Health::new(fabric))
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (a.abs() + b.abs())
    }

    /// Four racks of one server in a loop, each at two ToRs with one uplink of 10 Gbps, send 20 Gbps to the rack opposite: the uplinks carry half of it. While
    /// the cables of one ToR are replaced, the ToRs beside it have 20 and 10 Gbps to carry: a third.
    #[test]
    fn faster_cables_of_servers_by_hand() {
        let two = SubwaysSpec {
            ports: 2,
            rack: RackSize::Servers(1),
            racks_per_cluster: 4,
            clusters: Some(1),
            tor_uplinks: Uplinks::Count(1),
            agg_uplinks: Uplinks::Count(1),
            loop_length: Some(4),
            ..SubwaysSpec::new(SubwaysType::Type1)
        };
        let wiring = |gbps: u64| two.wiring(Cabling { rate: BitsPerSec(gbps * 1_000_000_000), ..LINK }, LINK).expect("a wiring");
        let before = build(&two);
        let matrix = Matrix::stride(&network(&before));
        let it = Transition::rewired(&plan(&wiring(10), &wiring(25)).expect("the same servers"), &before, &matrix);
        assert!(is_near(throughput(&network(&before), &matrix), 0.5));
        assert!(is_near(it.lowest.expect("it is built in place"), 1.0 / 3.0), "{it:?}");
        assert_eq!((it.changes.server_cables_moved, it.changes.cables_moved, it.batches), (8, 0, 8));
        assert_eq!(it.lowest_batch.as_deref(), Some("tor0"));
    }

    /// A server with a single cable is cut off while that is replaced.
    #[test]
    fn single_cables_leave_nothing() {
        let one = spec(SubwaysType::Type0, 1, 2);
        let wiring = |gbps: u64| one.wiring(Cabling { rate: BitsPerSec(gbps * 1_000_000_000), ..LINK }, LINK).expect("a wiring");
        let before = build(&one);
        let matrix = Matrix::uniform(&network(&before));
        let it = Transition::rewired(&plan(&wiring(10), &wiring(25)).expect("the same servers"), &before, &matrix);
        assert_eq!((it.lowest, it.lowest_batch.as_deref()), (Some(0.0), Some("tor0")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 8 / 256))]

        /// Between any two wirings of the same servers: parts are conserved, the first state carries what the fabric before does, the last one what
        /// the new fabric does with the servers where the plan puts them, and the lowest is below both.
        #[test]
        fn states_begin_with_the_old_fabric_and_end_with_the_new_one(
            kinds in [0usize..8, 0usize..8], ports in prop::array::uniform2(prop::sample::select(vec![1u32, 2, 4])), aggregations in [1u32..4, 1u32..4],
        ) {
            let of = |at: usize| spec(SubwaysType::ALL[kinds[at]].1, ports[at], aggregations[at]);
            let (before, after) = (build(&of(0)), build(&of(1)));
            let wiring = |at| of(at).wiring(LINK, LINK).expect("a wiring");
            let plan = plan(&wiring(0), &wiring(1)).expect("the same servers");
            let matrix = Matrix::uniform(&network(&before));
            let it = Transition::rewired(&plan, &before, &matrix);
            let changes = &it.changes;
            let cables = |at| weft_fabric::cabling::cables(&wiring(at)).count();
            let all = |of: [usize; 2]| of[0] + of[1];
            prop_assert_eq!(
                cables(0) + all([changes.cables_added, changes.server_cables_added]),
                cables(1) + all([changes.cables_removed, changes.server_cables_removed])
            );
            let switches = |fabric: &Fabric| fabric.switch_count();
            prop_assert_eq!(switches(&before) + changes.switches_added.len(), switches(&after) + changes.switches_removed.len());
            for name in &changes.switches_removed {
                prop_assert!(before.node_by_name(name).is_some(), "{}", name);
            }
            for name in &changes.switches_added {
                prop_assert!(after.node_by_name(name).is_some(), "{}", name);
            }

            let start = throughput(&network(&before), &matrix);
            // Racks of MC-LAG that take the same ToRs in another order are one here.
            let is_pair = |at| wiring(at).kind.wiring() == Wiring::Multihomed;
            let first = carried(&plan.before, &before, &matrix);
            prop_assert!(wiring(1).kind.wiring() == Wiring::Trunk || is_pair(0) || is_near(first, start), "{} and {}", first, start);
            let mut end = plan.before.clone();
            for change in plan.steps.iter().flat_map(|step| &step.changes) {
                end.take_out(change);
                end.plug(change);
            }
            let lowest = it.lowest.expect("they have the same servers");
            prop_assert!(lowest <= first * (1.0 + 1e-9) && lowest <= carried(&end, &before, &matrix) * (1.0 + 1e-9));
            // The same racks in another order: what all servers send to all others is the same for both.
            let last = fabric(&end, 24).expect("no server is cut off").expect("a fabric");
            if plan.rack_sizes[0] == plan.rack_sizes[1] && !is_pair(1) {
                let [a, b] = [&last, &after].map(|it| throughput(&network(it), &Matrix::uniform(&network(it))));
                prop_assert!(is_near(a, b), "{} and {}", a, b);
            }
            prop_assert_eq!(it.lowest_batch.is_none(), lowest >= first * (1.0 - 1e-9));
        }
    }
}
