//! `weft cuts`: what a fabric carries between switches and between its halves, and how many cables must fail to part it.
//!
//! ```text
//!   scenario --> Network without what failed --> Cuts (bits per second, cables) --> flows of pairs, edge connectivity, bisection --> Report
//! ```

pub mod graph;
mod table;

use std::collections::BTreeSet;
use std::hint::black_box;

use clap::Args;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64;
use serde::Serialize;
use weft_experiment::wall::Stopwatch;
use weft_fabric::Fabric;
use weft_fabric::ids::CableId;

use crate::error::{Error, Result};
use crate::fabric::{Case, ScenarioArgs};
use crate::network::{Index, Network};
use crate::output::{print_json, print_text};

use graph::{Cuts, Measure};

/// Arguments of `weft cuts`.
#[derive(Debug, Args)]
pub struct CutsArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Compute the maximum flow between two switches, or racks with several switches; repeatable
    #[arg(long = "pair", value_name = "FROM:TO")]
    pairs: Vec<String>,
    /// Leave out what has failed: switches by name, cables as tor0-agg1
    #[arg(long, value_name = "PART,...", value_delimiter = ',')]
    without: Vec<String>,
    /// Number of random halves of the racks, in addition to the first and the second half
    #[arg(long, value_name = "N", default_value_t = 100)]
    halvings: usize,
    /// Seed of the halves
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Compute so many times and print the least time of each result
    #[arg(long, value_name = "N", hide = true)]
    repeat: Option<usize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found. Rates are in bits per second in one direction.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The fabric's title.
    pub fabric: String,
    /// Switches that work.
    pub switches: usize,
    /// Cables between them that work.
    pub cables: u64,
    /// What has failed.
    pub without: Vec<String>,
    /// The fewest cables that part two switches; `None` of a single switch.
    pub edge_connectivity: Option<Connectivity>,
    /// The fewest cables between switches that part two switches with hosts.
    pub between_racks: Option<Connectivity>,
    /// Maximum flows between halves of the racks.
    pub bisection: Bisection,
    /// Maximum flows of the pairs that were named.
    pub flows: Vec<Flow>,
    /// By result: seconds of its computation, the least of several. For benchmarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<Seconds>,
}

/// The fewest cables that part two switches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Connectivity {
    /// Their number.
    pub cables: u64,
    /// Two switches that they part.
    pub apart: [String; 2],
    /// The cables.
    pub cut: Vec<CutLink>,
}

/// Parallel cables of a cut.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CutLink {
    /// On the side of the first end.
    pub from: String,
    /// On the side of the other.
    pub to: String,
    /// How many.
    pub cables: u32,
}

/// Maximum flows between halves of the racks, through the NICs of their hosts. With an odd number of racks the second half has one more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bisection {
    /// What the NICs of the half that has less carry: full bisection bandwidth.
    pub nic_bps: u64,
    /// From the first half of the racks, in the fabric's order, to the second.
    pub in_order_bps: u64,
    /// The smallest of that and of halves at random: an upper bound of the bisection bandwidth.
    pub smallest_bps: u64,
    /// How many halvings were tried.
    pub halvings: usize,
}

/// A maximum flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// The sending end.
    pub from: String,
    /// The receiving end.
    pub to: String,
    /// The flow.
    pub bps: u64,
    /// The most paths no two of which share a cable.
    pub disjoint_paths: u64,
}

/// Times of computations in seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Seconds {
    /// Of all pairs, in bits per second.
    pub flows: f64,
    /// Of the edge connectivity's number.
    pub edge_connectivity: f64,
    /// Of the flow between the halves in order.
    pub bisection: f64,
}

/// Runs it.
///
/// # Errors
/// What is wrong with the scenario; a name that no switch, rack or cable has.
pub fn run(args: &CutsArgs) -> Result<()> {
    let Case { fabric, mut network, .. } = args.scenario.first_case(false)?;
    take_away(&fabric, &mut network, &args.without)?;
    let pairs = args.pairs.iter().map(|pair| Pair::parse(&network, pair)).collect::<Result<Vec<_>>>()?;
    let study = Study { network: &network, pairs: &pairs, halvings: halvings(args, network.racks()) };
    let mut report = study.report(fabric.title(), &args.without);
    report.seconds = args.repeat.map(|times| study.seconds(times));
    if args.json { print_json(&report) } else { print_text(&table::render(&report)) }
}

/// Takes switches and cables away by name. Each mention of parallel cables takes one of them.
fn take_away(fabric: &Fabric, network: &mut Network, names: &[String]) -> Result<()> {
    let mut away = BTreeSet::new();
    for name in names {
        let is_named = |cable: &CableId| cable.links().iter().any(|&link| fabric.link_name(link) == *name);
        let switch = fabric.switches().map(|s| fabric.switch_node(s)).find(|&id| *fabric.node(id).name == **name);
        if let Some(switch) = switch {
            network.set_switch(network.node_of(fabric, switch), false);
        } else if let Some(cable) = fabric.cables().filter(is_named).find(|cable| !away.contains(cable)) {
            if cable.links().iter().any(|&link| fabric.as_host(fabric.link(link).from).is_some()) {
                return Err(Error::usage(format!("`{name}` is the cable of a host"), "name cables between switches"));
            }
            away.insert(cable);
            network.set_cable(cable, false);
        } else if fabric.cables().any(|cable| is_named(&cable)) {
            return Err(Error::usage(format!("there are not so many cables `{name}`"), "name each parallel cable once"));
        } else {
            let message = format!("`{name}` is no switch, and no cable between switches");
            return Err(Error::usage(message, "name a switch (agg1), or a cable by its ends (tor0-agg1)"));
        }
    }
    Ok(())
}

/// Halves of the racks: in order, then at random.
fn halvings(args: &CutsArgs, racks: usize) -> Vec<[Vec<usize>; 2]> {
    let mut random = Pcg64::new(args.seed.into(), STREAM);
    let mut order: Vec<usize> = (0..racks).collect();
    let mut halves = |order: &mut Vec<usize>, is_random: bool| {
        if is_random {
            order.shuffle(&mut random);
        }
        let (a, b) = order.split_at(racks / 2);
        [a.to_vec(), b.to_vec()]
    };
    (0..=args.halvings).map(|i| halves(&mut order, i > 0)).collect()
}

/// Two ends of a flow.
#[derive(Debug)]
struct Pair {
    names: [String; 2],
    nodes: [Index; 2],
}

impl Pair {
    fn parse(network: &Network, text: &str) -> Result<Self> {
        let (from, to) = text
            .split_once(':')
            .ok_or_else(|| Error::usage(format!("--pair {text}: there is no `:`"), "write FROM:TO, such as tor0:tor5"))?;
        let find = |name: &str| {
            // Racks of one switch have its name: switches count first.
            let found = (0..network.len() as Index).rev().find(|&node| network.name(node) == name);
            found.filter(|&node| network.is_up(node)).ok_or_else(|| {
                let message = format!("--pair {text}: `{name}` is no switch or rack that works");
                Error::usage(message, format!("name two of them, such as {}", network.name(0)))
            })
        };
        let nodes = [find(from)?, find(to)?];
        if nodes[0] == nodes[1] {
            return Err(Error::usage(format!("--pair {text}: both ends are the same"), "name two different ones"));
        }
        Ok(Self { names: [from.to_owned(), to.to_owned()], nodes })
    }

    /// The maximum flow: between two switches by the links between switches, of racks by the NICs of their hosts.
    fn flow(&self, network: &Network, cuts: &mut Cuts) -> u64 {
        if self.nodes.iter().all(|&node| !network.is_rack(node)) {
            return cuts.flow(self.nodes[0], self.nodes[1]);
        }
        let [from, to] =
            self.nodes.map(|node| if network.is_rack(node) { cuts.racks_end(&[node as usize]) } else { Cuts::switch_end(node) });
        cuts.between(&from, &to).flow()
    }
}

/// What is computed.
struct Study<'a> {
    network: &'a Network,
    pairs: &'a [Pair],
    halvings: Vec<[Vec<usize>; 2]>,
}

impl Study<'_> {
    fn report(&self, fabric: &str, without: &[String]) -> Report {
        let network = self.network;
        let (mut rates, mut cables) = (Cuts::new(network, Measure::Capacity), Cuts::new(network, Measure::Cables));
        let (switches, edges) = (cables.switches().to_vec(), cables.edge_switches());
        let flow = |pair: &Pair| {
            let [from, to] = pair.names.clone();
            Flow { from, to, bps: pair.flow(network, &mut rates), disjoint_paths: pair.flow(network, &mut cables) }
        };
        let flows = self.pairs.iter().map(flow).collect();
        Report {
            fabric: fabric.to_owned(),
            switches: switches.len(),
            cables: cables.cables(network),
            without: without.to_vec(),
            edge_connectivity: self.connectivity(&mut cables, &switches),
            between_racks: self.connectivity(&mut cables, &edges),
            bisection: self.bisection(&rates),
            flows,
            seconds: None,
        }
    }

    fn connectivity(&self, cables: &mut Cuts, among: &[Index]) -> Option<Connectivity> {
        let network = self.network;
        let name = |node: Index| network.name(node).to_owned();
        let (least, apart) = cables.connectivity(among)?;
        cables.flow(apart[0], apart[1]);
        let link = |arc: usize| {
            let arc = &network.arcs()[arc];
            CutLink { from: name(arc.from), to: name(arc.to), cables: arc.cables }
        };
        let cut = cables.cut(network, apart[0]).into_iter().map(link).collect();
        Some(Connectivity { cables: least, apart: apart.map(name), cut })
    }

    fn bisection(&self, rates: &Cuts) -> Bisection {
        let flow = |[a, b]: &[Vec<usize>; 2]| {
            let [a, b] = [a, b].map(|racks| rates.racks_end(racks));
            rates.between(&a, &b).flow()
        };
        let flows: Vec<u64> = self.halvings.iter().map(flow).collect();
        let nics = |racks: &Vec<usize>| racks.iter().map(|&rack| self.network.nics_of(rack) as u64).sum::<u64>();
        Bisection {
            nic_bps: self.halvings[0].iter().map(nics).min().expect("two halves"),
            in_order_bps: flows[0],
            smallest_bps: flows.iter().copied().min().expect("at least that in order"),
            halvings: flows.len(),
        }
    }

    /// The least time of each computation. Building the flow networks is not counted.
    fn seconds(&self, times: usize) -> Seconds {
        let network = self.network;
        let (mut rates, mut cables) = (Cuts::new(network, Measure::Capacity), Cuts::new(network, Measure::Cables));
        let switches = cables.switches().to_vec();
        let [from, to] = self.halvings[0].each_ref().map(|half| rates.racks_end(half));
        let mut halves = rates.between(&from, &to);
        let least = |compute: &mut dyn FnMut() -> u64| {
            let time = |_| {
                let clock = Stopwatch::start();
                black_box(compute());
                clock.seconds()
            };
            (0..times.max(1)).map(time).fold(f64::INFINITY, f64::min)
        };
        Seconds {
            flows: least(&mut || self.pairs.iter().map(|pair| pair.flow(network, &mut rates)).sum()),
            edge_connectivity: least(&mut || cables.connectivity(&switches).map_or(0, |(least, _)| least)),
            bisection: least(&mut || halves.flow()),
        }
    }
}

/// The stream of random numbers of the halves.
const STREAM: u128 = 0x6375_7473;
