//! Routings compared with the best possible ones, for each matrix of a series.

use rayon::prelude::*;

use super::others::Other;
use crate::network::Network;
use crate::routing::matrix::Matrix;
use crate::routing::oblivious::oblivious;
use crate::routing::optimum;
use crate::routing::router::{Router, Scheme};

/// The routings that every comparison has, in the order in which they are shown.
const ROUTINGS: [&str; 6] = ["adaptive", "oblivious", "vlb", "ecmp", "wcmp", "single"];
const ADAPTIVE: usize = 0;
const OBLIVIOUS: usize = 1;
const SCHEMES: [Scheme; 4] = [Scheme::Vlb, Scheme::Ecmp, Scheme::Wcmp, Scheme::Single];

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The routings: the best one of each matrix, the best for all, and others.
    pub routings: Vec<&'static str>,
    /// By routing and matrix: the utilisation of the busiest link; not a number where it was not routed.
    pub busiest: Vec<Vec<f64>>,
    /// By matrix: no routing needs less.
    pub adaptive_at_least: Vec<f64>,
    /// No routing that is the same for all matrices needs less for one of them.
    pub oblivious_at_least: f64,
    /// By routing and link: the largest utilisation under any matrix.
    pub links: Vec<Vec<f64>>,
    /// The matrix that needs most, by number, and the arcs that hold back every routing of it: sender, receiver, part (the dual solution).
    pub binding: (usize, Vec<(String, String, f64)>),
    /// Under every traffic that the NICs admit (the hose model): what VLB's busiest link needs at most, and what no routing's can do without.
    pub hose: [f64; 2],
}

/// Compares routings, and others with them; NICs do not limit. Bounds end as near as the tolerance, if they come so near.
pub fn compare(network: &Network, matrices: &[(f64, Matrix)], others: &[Other], tolerance: f64) -> Comparison {
    let routings: Vec<&'static str> = ROUTINGS.into_iter().chain(others.iter().map(|other| other.name)).collect();
    let mut all = Comparison {
        busiest: vec![Vec::new(); routings.len()],
        links: vec![vec![0.0; network.arcs().len()]; routings.len()],
        routings,
        ..Comparison::default()
    };
    for chunk in matrices.chunks(CHUNK) {
        let one = |router: &mut Router, (_, matrix): &(f64, Matrix)| OfMatrix::new(network, router, matrix, tolerance);
        let chunk: Vec<OfMatrix> = chunk.par_iter().map_init(Router::default, one).collect();
        chunk.iter().for_each(|one| all.add(network, one));
    }
    all.add_oblivious(network, matrices, tolerance);
    for (i, other) in others.iter().enumerate() {
        for loads in &other.loads {
            match loads {
                Some(loads) => all.add_loads(network, ROUTINGS.len() + i, loads),
                None => all.busiest[ROUTINGS.len() + i].push(f64::NAN),
            }
        }
    }
    all.hose = hose(network, tolerance);
    let worst =
        (0..matrices.len()).max_by(|&a, &b| all.busiest[ADAPTIVE][a].total_cmp(&all.busiest[ADAPTIVE][b]).then(b.cmp(&a)));
    let worst = worst.expect("there are matrices");
    let named = |(arc, part): (usize, f64)| {
        let ends = [network.arcs()[arc].from, network.arcs()[arc].to].map(|node| network.name(node).to_owned());
        let [from, to] = ends;
        (from, to, part)
    };
    let of_worst = binding(network, &matrices[worst].1, all.busiest[ADAPTIVE][worst], tolerance);
    all.binding = (worst, of_worst.into_iter().map(named).collect());
    // Links that never limit are not compared.
    let limits = |arc: &usize| network.carries(*arc) && network.arcs()[*arc].capacity.is_finite();
    let links: Vec<usize> = (0..network.arcs().len()).filter(limits).collect();
    all.links = all.links.iter().map(|of_arcs| links.iter().map(|&arc| of_arcs[arc]).collect()).collect();
    all
}

/// Loads of all arcs by the routings that are found for a matrix alone.
struct OfMatrix {
    adaptive: Vec<f64>,
    at_least: f64,
    schemes: [Vec<f64>; SCHEMES.len()],
}

impl OfMatrix {
    fn new(network: &Network, router: &mut Router, matrix: &Matrix, tolerance: f64) -> Self {
        let schemes = SCHEMES.map(|scheme| router.route(network, matrix, scheme).to_vec());
        let busiest = schemes.each_ref().map(|loads| network.busiest(loads));
        let best = (0..SCHEMES.len()).min_by(|&a, &b| busiest[a].total_cmp(&busiest[b])).expect("there are schemes");
        let (adaptive, at_least) = adaptive(network, matrix, (&schemes[best], busiest[best]), tolerance);
        Self { adaptive, at_least, schemes }
    }
}

/// The best routing's loads and a lower bound of its busiest link; `known` is a good one.
fn adaptive(network: &Network, matrix: &Matrix, known: (&[f64], f64), tolerance: f64) -> (Vec<f64>, f64) {
    let (loads, busiest) = known;
    let cut = matrix.busiest_cut(network).0.min(busiest);
    if cut >= busiest * (1.0 - tolerance) {
        return (loads.to_vec(), cut);
    }
    let found = optimum::best(network, matrix, 1.0 / busiest, tolerance, PHASES).expect("there is traffic");
    let utilisation = (1.0 / found.bounds.at_least).min(busiest);
    let loads = if utilisation < busiest { found.loads } else { loads.to_vec() };
    (loads, cut.max(1.0 / found.bounds.at_most).min(utilisation))
}

/// The arcs that hold back every routing of the matrix that needs most, with their part in it: those of a rack's cut, or by the dual solution.
fn binding(network: &Network, matrix: &Matrix, busiest: f64, tolerance: f64) -> Vec<(usize, f64)> {
    let (cut, arcs) = matrix.busiest_cut(network);
    let mut binding: Vec<(usize, f64)> = if cut >= busiest * (1.0 - tolerance) {
        let capacity: f64 = arcs.iter().map(|&arc| network.arcs()[arc].capacity).sum();
        arcs.iter().map(|&arc| (arc, network.arcs()[arc].capacity / capacity)).collect()
    } else {
        let found = optimum::best(network, matrix, 1.0 / busiest, tolerance, PHASES).expect("there is traffic");
        found.prices.into_iter().enumerate().collect()
    };
    binding.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    binding.truncate(BINDING);
    binding.retain(|(_, part)| *part >= BINDING_LEAST);
    binding
}

impl Comparison {
    /// How many matrices were routed by this routing.
    pub fn routed(&self, routing: usize) -> usize {
        self.busiest[routing].iter().filter(|it| !it.is_nan()).count()
    }

    /// Whether all were.
    pub fn is_complete(&self, routing: usize) -> bool {
        self.routed(routing) == self.busiest[routing].len()
    }

    fn add(&mut self, network: &Network, one: &OfMatrix) {
        self.adaptive_at_least.push(one.at_least);
        self.add_loads(network, ADAPTIVE, &one.adaptive);
        for (i, loads) in one.schemes.iter().enumerate() {
            self.add_loads(network, OBLIVIOUS + 1 + i, loads);
        }
    }

    fn add_loads(&mut self, network: &Network, routing: usize, loads: &[f64]) {
        self.busiest[routing].push(network.busiest(loads));
        self.links[routing].iter_mut().zip(network.utilisation(loads)).for_each(|(most, it)| *most = most.max(it));
    }

    /// The best of what is searched and of the schemes, which are oblivious too: their splits follow from the network alone.
    fn add_oblivious(&mut self, network: &Network, matrices: &[(f64, Matrix)], tolerance: f64) {
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        self.oblivious_at_least = largest(&self.adaptive_at_least);
        let of_scheme = |routing: &usize| largest(&self.busiest[*routing]);
        let best = (OBLIVIOUS + 1..ROUTINGS.len()).min_by(|a, b| of_scheme(a).total_cmp(&of_scheme(b))).expect("schemes");
        let mut needed = of_scheme(&best);
        if self.oblivious_at_least < needed * (1.0 - tolerance) {
            let each: Vec<&Matrix> = matrices.iter().map(|(_, matrix)| matrix).collect();
            let found = oblivious(network, &each, &self.adaptive_at_least, tolerance, PHASES);
            self.oblivious_at_least = found.at_least.min(needed);
            if found.utilisation < needed {
                for matrix in each {
                    self.add_loads(network, OBLIVIOUS, &found.fractions.loads(network, matrix));
                }
                needed = found.utilisation;
            }
        }
        if self.busiest[OBLIVIOUS].is_empty() {
            (self.busiest[OBLIVIOUS], self.links[OBLIVIOUS]) = (self.busiest[best].clone(), self.links[best].clone());
        }
        debug_assert!(self.oblivious_at_least <= needed * (1.0 + 1e-9));
    }
}

/// VLB's loads are the largest where all NICs are full, as each depends on what racks send and receive alone. No routing can do better on that matrix, or on
/// a permutation, than its optimum.
fn hose(network: &Network, tolerance: f64) -> [f64; 2] {
    let mut router = Router::default();
    let nics: Vec<f64> = (0..network.racks()).map(|rack| network.nics_of(rack)).collect();
    let vlb = network.busiest(router.route_vlb(network, &nics, &nics));
    let at_least = [Matrix::uniform(network), Matrix::stride(network)].into_iter().filter(|m| m.total() > 0.0).map(|matrix| {
        let loads = router.route(network, &matrix, Scheme::Ecmp);
        adaptive(network, &matrix, (loads, network.busiest(loads)), tolerance).1
    });
    let at_least = at_least.fold(0.0, f64::max);
    [vlb, at_least.min(vlb)]
}

/// Matrices whose loads are held at a time.
const CHUNK: usize = 64;
/// Binding arcs that are named, and the least part that one has.
const BINDING: usize = 10;
const BINDING_LEAST: f64 = 0.01;
/// After so many phases the bounds stay as wide as they are.
const PHASES: usize = 2_000;
