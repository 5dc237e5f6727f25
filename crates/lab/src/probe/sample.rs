//! Which pairs are probed in a lab whose pairs are too many: a sample that covers every host and every pair of ToRs.
//!
//! ```text
//!   1. the ring       h0 > h1 > h2 > ... > h0                every host sends, and every address receives
//!   2. pairs of ToRs  tor0 > tor0, tor0 > tor1, ...          in both directions, the hosts of each in turn
//!   3. any others     evenly over all pairs                  if more are requested
//! ```
//! The order is fixed, so a smaller sample is the beginning of a larger one, and the same lab has the same sample each time.

use std::collections::{BTreeMap, BTreeSet};

/// How many pairs to probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairs {
    /// All, up to [`ALL_MAX`]; beyond, those that cover every host and every pair of ToRs.
    #[default]
    Auto,
    /// All of them.
    All,
    /// That many.
    Count(usize),
}

/// Pairs of a sender and an address, both as indices: each sender's addresses.
pub(super) type Sample = Vec<BTreeSet<usize>>;

/// The sample of `senders` hosts, whose ToRs are given, and of addresses, whose host is given; `None`: all pairs.
pub(super) fn of(tors: &[usize], addresses: &[usize], pairs: Pairs) -> Option<Sample> {
    let senders = tors.len();
    let all: usize = (0..senders).map(|host| addresses.len() - addresses.iter().filter(|&&a| a == host).count()).sum();
    let count = match pairs {
        Pairs::All => return None,
        Pairs::Auto if all <= ALL_MAX => return None,
        Pairs::Auto => None,
        Pairs::Count(count) if count >= all => return None,
        Pairs::Count(count) => Some(count),
    };
    let mut sample = vec![BTreeSet::new(); senders];
    let mut size = 0;
    let mut add = |from: usize, address: usize| {
        if addresses[address] != from && count.is_none_or(|count| size < count) && sample[from].insert(address) {
            size += 1;
        }
        count.is_none_or(|count| size < count)
    };
    let covers = ring(senders, addresses).chain(between_tors(tors, addresses));
    if covers.into_iter().all(|(from, address)| add(from, address)) && count.is_some() {
        // Steps of an odd number far from any period of the fabric reach all pairs, since they and the number of pairs have no common divisor.
        let total = (senders * addresses.len()) as u64;
        let step = (STEP..).find(|&step| gcd(step, total) == 1).expect("one of the next numbers is prime to it");
        let others = (0..total).map(|i| ((i * step) % total) as usize);
        let _ = others.map(|at| (at / addresses.len(), at % addresses.len())).all(|(from, address)| add(from, address));
    }
    Some(sample)
}

/// Every host sends to all addresses of the next one.
fn ring(senders: usize, addresses: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    addresses.iter().enumerate().map(move |(address, &host)| ((host + senders - 1) % senders, address))
}

/// One pair for each pair of ToRs, from hosts and to addresses in turn.
fn between_tors(tors: &[usize], addresses: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let mut senders: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut below: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    tors.iter().enumerate().for_each(|(host, &tor)| senders.entry(tor).or_default().push(host));
    addresses.iter().enumerate().for_each(|(address, &host)| below.entry(tors[host]).or_default().push(address));
    let to: Vec<Vec<usize>> = below.into_values().collect();
    senders.into_values().enumerate().flat_map(move |(i, from)| {
        let pair = |(j, to): (usize, &Vec<usize>)| (from[j % from.len()], to[(i + usize::from(i == j)) % to.len()]);
        to.iter().enumerate().map(pair).collect::<Vec<_>>()
    })
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The most pairs of which all are probed by default: those of 316 hosts.
pub const ALL_MAX: usize = 100_000;
const STEP: u64 = 1_000_003;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(sample: &Sample) -> BTreeSet<(usize, usize)> {
        sample.iter().enumerate().flat_map(|(from, to)| to.iter().map(move |&to| (from, to))).collect()
    }

    /// A fat-tree's hosts: `tors` switches of `each` hosts.
    fn hosts(tors: usize, each: usize) -> (Vec<usize>, Vec<usize>) {
        ((0..tors * each).map(|host| 5000 + host / each).collect(), (0..tors * each).collect())
    }

    #[test]
    fn few_pairs_are_all_probed() {
        let (tors, addresses) = hosts(8, 2);
        assert_eq!(of(&tors, &addresses, Pairs::Auto), None);
        assert_eq!(of(&tors, &addresses, Pairs::Count(240)), None);
        let (tors, addresses) = hosts(128, 8);
        assert_eq!(of(&tors, &addresses, Pairs::All), None);
    }

    #[test]
    fn a_sample_covers_hosts_and_pairs_of_tors() {
        for (racks, each) in [(128, 8), (20, 50), (1, 400), (400, 1)] {
            let (tors, addresses) = hosts(racks, each);
            let sample = pairs(&of(&tors, &addresses, Pairs::Auto).expect("too many for all"));
            assert!(sample.iter().all(|(from, to)| from != to));
            let of_tors: BTreeSet<(usize, usize)> = sample.iter().map(|&(a, b)| (tors[a], tors[b])).collect();
            let own = if each > 1 { 0 } else { racks };
            assert_eq!(of_tors.len(), racks * racks - own, "{racks} ToRs");
            assert_eq!(sample.iter().map(|(from, _)| from).collect::<BTreeSet<_>>().len(), racks * each);
            assert_eq!(sample.iter().map(|(_, to)| to).collect::<BTreeSet<_>>().len(), racks * each);
            assert!(sample.len() <= racks * racks + racks * each, "{}", sample.len());
        }
    }

    proptest! {
        #[test]
        fn a_count_is_met_exactly(racks in 1..9usize, each in 1..5usize, count in 0..900usize) {
            let (tors, addresses) = hosts(racks, each);
            let all = racks * each * (racks * each - 1);
            match of(&tors, &addresses, Pairs::Count(count)) {
                None => prop_assert!(count >= all),
                Some(sample) => prop_assert_eq!(pairs(&sample).len(), count),
            }
        }
    }
}
