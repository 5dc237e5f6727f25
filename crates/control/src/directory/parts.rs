//! A divided directory: its keys are split over several stores. Each *part* has a store and servers of its own, and revisions of its own.
//!
//! ```text
//!   key --longest prefix, or tenant--> part --> its servers          10.128.0.0/9 -> b, tenants 1-4095 -> c, all else -> the default part
//! ```
//! Groups belong to the default part, and so do documents and tenants' records. The map is a section of the [`policy`](super::policy): its version is the policy's.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use super::key::Key;
use crate::prefix::Prefix;

/// Parts at most.
pub const MAX_PARTS: usize = 64;
/// Servers of a part at most.
pub const MAX_PART_SERVERS: usize = 16;
/// Prefixes and ranges of tenants at most, of all parts.
pub const MAX_RANGES: usize = 4096;
/// Bytes of a part's name at most.
pub const MAX_PART_NAME: usize = 63;
/// The greatest tenant.
const MAX_TENANT: u32 = (1 << 24) - 1;

/// One part, as an operator describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its servers, which have no other part.
    pub servers: Vec<SocketAddr>,
    /// It has the addresses in these prefixes, but for those in longer prefixes of other parts.
    pub prefixes: Vec<Prefix>,
    /// It has all keys of these tenants.
    pub tenants: Vec<RangeInclusive<u32>>,
    /// It has what no part names. One part is the default.
    pub is_default: bool,
    /// Keys that it takes updates of, and that another part has: they are about to move here. Clients do not learn of these.
    pub incoming: Incoming,
}

/// Keys that are about to move to a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incoming {
    /// Addresses in these prefixes.
    pub prefixes: Vec<Prefix>,
    /// All keys of these tenants.
    pub tenants: Vec<RangeInclusive<u32>>,
}

/// Why parts are no map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartsError {
    /// Its name is none.
    #[error("a part has the name `{0}`: use 1 to {MAX_PART_NAME} letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// Two parts have one name.
    #[error("part `{0}` is there twice: remove or rename one")]
    Twice(String),
    /// Nobody serves it.
    #[error("part `{0}` has no servers: list 1 to {MAX_PART_SERVERS}, such as servers = [\"10.1.1.1:5303\"]")]
    Servers(String),
    /// A server of two parts, or one that is listed twice.
    #[error("server {0} is listed twice: a server has one part; run another one, with a port of its own, for each further part")]
    ServerTwice(SocketAddr),
    /// No default, or several.
    #[error("{0} parts have `default = true`: exactly one must, which has the keys that no part names")]
    Default(usize),
    /// Neither default nor anything else.
    #[error("part `{0}` has no keys: give it `prefixes`, `tenants` or `default = true`")]
    Empty(String),
    /// A prefix of two parts.
    #[error("prefix {0} is listed twice: remove one (a longer prefix within it may belong to another part)")]
    PrefixTwice(Prefix),
    /// Ranges of tenants that overlap.
    #[error("tenant {0} is listed twice: a tenant has one part")]
    TenantTwice(u32),
    /// A range of tenants that is none.
    #[error("part `{part}`: `{text}` is neither a tenant nor a range of tenants: write 7, or \"100-199\", up to {MAX_TENANT}")]
    Tenants {
        /// Whose.
        part: String,
        /// As written.
        text: String,
    },
    /// A prefix that is none.
    #[error("part `{part}`: {error}")]
    Prefix {
        /// Whose.
        part: String,
        /// What is wrong with it.
        error: crate::prefix::PrefixError,
    },
    /// More than there is room for.
    #[error("there are more than {MAX_PARTS} parts, or more than {MAX_RANGES} prefixes and ranges of tenants")]
    TooMany,
}

/// Which part has which keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartMap {
    parts: Vec<Part>,
    default: u16,
    v4: Starts<u32>,
    v6: Starts<u128>,
    tenants: Starts<u32>,
}

/// Where ranges begin that belong to one part, in order. Before the first one: the default part.
type Starts<T> = Vec<(T, u16)>;

impl PartMap {
    /// A map of 1 to [`MAX_PARTS`] parts.
    ///
    /// # Errors
    /// [`PartsError`], which says what to change.
    pub fn new(parts: Vec<Part>) -> Result<Self, PartsError> {
        let ranges: usize = parts.iter().map(|part| part.prefixes.len() + part.tenants.len()).sum();
        if parts.len() > MAX_PARTS || ranges > MAX_RANGES {
            return Err(PartsError::TooMany);
        }
        let mut servers: Vec<SocketAddr> = parts.iter().flat_map(|part| part.servers.iter().copied()).collect();
        servers.sort_unstable();
        if let Some(twice) = servers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(PartsError::ServerTwice(twice[0]));
        }
        for (at, part) in parts.iter().enumerate() {
            part.check()?;
            if parts[..at].iter().any(|other| other.name == part.name) {
                return Err(PartsError::Twice(part.name.clone()));
            }
        }
        let defaults: Vec<usize> = (0..parts.len()).filter(|&at| parts[at].is_default).collect();
        let [default] = defaults[..] else { return Err(PartsError::Default(defaults.len())) };
        let default = default as u16;
        let (v4, v6) = address_ranges(&parts)?;
        let tenants = tenant_ranges(&parts)?;
        Ok(Self { default, v4: starts(v4, default), v6: starts(v6, default), tenants: starts(tenants, default), parts })
    }

    /// All of them, in the order of the policy.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The part that has groups, documents, tenants' records, and all that no part names: its place in [`PartMap::parts`].
    pub const fn default_part(&self) -> usize {
        self.default as usize
    }

    /// The part that has a key: its place in [`PartMap::parts`].
    #[inline]
    pub fn part_of(&self, key: &Key) -> usize {
        let part = match key {
            Key::App4(address) => self.find(&self.v4, address.to_bits()),
            Key::App6(address) => self.find(&self.v6, address.to_bits()),
            Key::TenantMac(tenant, ..) | Key::TenantIp4(tenant, ..) | Key::TenantIp6(tenant, ..) => {
                self.find(&self.tenants, tenant.0)
            }
            Key::Group(_) => self.default,
        };
        usize::from(part)
    }

    fn find<T: Ord + Copy>(&self, starts: &Starts<T>, at: T) -> u16 {
        let place = starts.partition_point(|&(start, _)| start <= at);
        place.checked_sub(1).map_or(self.default, |place| starts[place].1)
    }

    /// Whether a key is about to move to the part at this place.
    pub fn is_incoming(&self, place: usize, key: &Key) -> bool {
        let Some(Part { incoming, .. }) = self.parts.get(place) else { return false };
        let address = |address: IpAddr| incoming.prefixes.iter().any(|prefix| prefix.contains(address));
        match key {
            Key::App4(it) => address((*it).into()),
            Key::App6(it) => address((*it).into()),
            Key::TenantMac(tenant, ..) | Key::TenantIp4(tenant, ..) | Key::TenantIp6(tenant, ..) => {
                incoming.tenants.iter().any(|range| range.contains(&tenant.0))
            }
            Key::Group(_) => false,
        }
    }

    /// The place of the part of this name.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.parts.iter().position(|part| part.name == name)
    }

    /// The place of the part that a server has.
    pub fn part_of_server(&self, server: SocketAddr) -> Option<usize> {
        self.parts.iter().position(|part| part.servers.contains(&server))
    }

    /// Whether some key has a part of another name in the other map.
    pub fn moves_from(&self, other: &Self) -> bool {
        fn runs<'a, T: Copy>(map: &'a PartMap, starts: &'a Starts<T>) -> Vec<(T, &'a str)> {
            starts.iter().map(|&(start, part)| (start, map.parts[usize::from(part)].name.as_str())).collect()
        }
        self.parts[self.default_part()].name != other.parts[other.default_part()].name
            || runs(self, &self.v4) != runs(other, &other.v4)
            || runs(self, &self.v6) != runs(other, &other.v6)
            || runs(self, &self.tenants) != runs(other, &other.tenants)
    }
}

impl Part {
    fn check(&self) -> Result<(), PartsError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if self.name.is_empty() || self.name.len() > MAX_PART_NAME || !self.name.bytes().all(good) {
            return Err(PartsError::Name(self.name.clone()));
        }
        if self.servers.is_empty() || self.servers.len() > MAX_PART_SERVERS {
            return Err(PartsError::Servers(self.name.clone()));
        }
        if self.prefixes.is_empty() && self.tenants.is_empty() && !self.is_default {
            return Err(PartsError::Empty(self.name.clone()));
        }
        let bad = |range: &&RangeInclusive<u32>| range.is_empty() || *range.end() > MAX_TENANT;
        match self.tenants.iter().find(bad) {
            Some(range) => {
                Err(PartsError::Tenants { part: self.name.clone(), text: format!("{}-{}", range.start(), range.end()) })
            }
            None => Ok(()),
        }
    }

    /// Reads a tenant, or a range of tenants: `7`, `100-199`.
    ///
    /// # Errors
    /// [`PartsError::Tenants`].
    pub fn tenants_from(part: &str, text: &str) -> Result<RangeInclusive<u32>, PartsError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = first.trim().parse().ok().zip(last.trim().parse().ok()).map(|(first, last): (u32, u32)| first..=last);
        let range = range.filter(|range| !range.is_empty() && *range.end() <= MAX_TENANT);
        range.ok_or_else(|| PartsError::Tenants { part: part.to_owned(), text: text.to_owned() })
    }
}

/// First, last, part.
type Range<T> = (T, T, u16);
type Ranges<T> = Vec<Range<T>>;

fn address_ranges(parts: &[Part]) -> Result<(Ranges<u32>, Ranges<u128>), PartsError> {
    let mut all: BTreeMap<Prefix, u16> = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        for &prefix in &part.prefixes {
            if all.insert(prefix, at as u16).is_some() {
                return Err(PartsError::PrefixTwice(prefix));
            }
        }
    }
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for (prefix, part) in all {
        let length = u32::from(prefix.length());
        match prefix.address() {
            IpAddr::V4(first) => {
                let rest = u32::MAX.checked_shr(length).unwrap_or(0);
                v4.push((first.to_bits(), first.to_bits() | rest, part));
            }
            IpAddr::V6(first) => {
                let rest = u128::MAX.checked_shr(length).unwrap_or(0);
                v6.push((first.to_bits(), first.to_bits() | rest, part));
            }
        }
    }
    Ok((v4, v6))
}

fn tenant_ranges(parts: &[Part]) -> Result<Ranges<u32>, PartsError> {
    let of = |(at, part): (usize, &Part)| {
        part.tenants.iter().map(|range| (*range.start(), *range.end(), at as u16)).collect::<Vec<_>>()
    };
    let mut all: Ranges<u32> = parts.iter().enumerate().flat_map(of).collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[1].0 <= pair[0].1) {
        Some(pair) => Err(PartsError::TenantTwice(pair[1].0)),
        None => Ok(all),
    }
}

/// A number that has a next one, but for the last.
trait Step: Ord + Copy {
    fn next(self) -> Option<Self>;
}

impl Step for u32 {
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

impl Step for u128 {
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
}

/// Ranges of which each two are apart, or one is within the other: the inner one counts.
fn starts<T: Step>(mut ranges: Ranges<T>, default: u16) -> Starts<T> {
    ranges.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    let mut starts: Starts<T> = Vec::new();
    let mut begin = |at: T, part: u16| match starts.last_mut() {
        Some(last) if last.0 == at => last.1 = part,
        _ => starts.push((at, part)),
    };
    // Those that the present place is in, the innermost last.
    let mut around: Vec<(T, u16)> = Vec::new();
    for (first, last, part) in ranges {
        while let Some(&(end, _)) = around.last().filter(|(end, _)| *end < first) {
            around.pop();
            if let Some(after) = end.next() {
                begin(after, around.last().map_or(default, |outer| outer.1));
            }
        }
        begin(first, part);
        around.push((last, part));
    }
    while let Some((end, _)) = around.pop() {
        if let Some(after) = end.next() {
            begin(after, around.last().map_or(default, |outer| outer.1));
        }
    }
    starts.dedup_by(|next, before| next.1 == before.1);
    starts
}

#[cfg(test)]
pub mod testing {
    //! Random parts.

    use proptest::prelude::*;

    use super::*;

    /// A part's only server.
    pub fn server(n: usize) -> SocketAddr {
        SocketAddr::from(([10, 9, 0, n as u8], 5303))
    }

    /// A part; the first is the default.
    pub fn part(n: usize, prefixes: &[&str], tenants: &[RangeInclusive<u32>]) -> Part {
        let prefixes = prefixes.iter().map(|text| text.parse().unwrap()).collect();
        Part {
            name: format!("part-{n}"),
            servers: vec![server(n)],
            prefixes,
            tenants: tenants.to_vec(),
            is_default: n == 0,
            ..Part::default()
        }
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        let v4 = (0u32..16, 0u8..=32).prop_map(|(n, length)| Prefix::of(IpAddr::V4((n << 28 | 0x0a00_0000 | n).into()), length));
        let v6 = (0u128..16, 0u8..=128).prop_map(|(n, length)| Prefix::of(IpAddr::V6((n << 124 | n).into()), length));
        prop_oneof![v4, v6].prop_map(|prefix| prefix.expect("it has so many bits"))
    }

    /// Parts with different prefixes, and tenants that do not overlap.
    pub fn parts() -> impl Strategy<Value = Vec<Part>> {
        let prefixes = prop::collection::btree_map(prefix(), 0usize..4, 0..24);
        let tenants = prop::collection::btree_map(0u32..20, 0usize..4, 0..10);
        (prefixes, tenants).prop_map(|(prefixes, tenants)| {
            let mut parts: Vec<Part> = (0..4).map(|n| part(n, &[], &[])).collect();
            prefixes.into_iter().for_each(|(prefix, n)| parts[n].prefixes.push(prefix));
            tenants.into_iter().for_each(|(tenant, n)| parts[n].tenants.push(3 * tenant..=3 * tenant + 2));
            parts.retain(|part| part.check().is_ok());
            parts
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{any_key, few_keys};
    use super::testing::{part, parts, server};
    use super::*;

    /// As the definition says: the longest prefix, or the tenant's range.
    fn slow(parts: &[Part], key: &Key) -> usize {
        let all = || parts.iter().enumerate();
        let address = |address: IpAddr| {
            let prefixes = all().flat_map(|(at, part)| part.prefixes.iter().map(move |prefix| (at, prefix)));
            prefixes.filter(|(_, it)| it.contains(address)).max_by_key(|(_, it)| it.length()).map_or(0, |(at, _)| at)
        };
        match key {
            Key::App4(it) => address((*it).into()),
            Key::App6(it) => address((*it).into()),
            Key::TenantMac(tenant, ..) | Key::TenantIp4(tenant, ..) | Key::TenantIp6(tenant, ..) => {
                all().find(|(_, part)| part.tenants.iter().any(|range| range.contains(&tenant.0))).map_or(0, |(at, _)| at)
            }
            Key::Group(_) => 0,
        }
    }

    proptest! {
        #[test]
        fn a_key_has_the_part_that_the_definition_says(parts in parts(), keys in prop::collection::vec(prop_oneof![any_key(), few_keys()], 1..50), near in 0u32..3) {
            let map = PartMap::new(parts.clone()).unwrap();
            // The addresses beside where prefixes begin and end, too.
            let edges = parts.iter().flat_map(|part| &part.prefixes).filter_map(|prefix| match (prefix.address(), prefix.broadcast()) {
                (IpAddr::V4(first), Some(last)) => Some([first.to_bits(), last.to_bits()]),
                _ => None,
            });
            let edges = edges.flatten().map(|at| Key::App4((at.wrapping_add(near).wrapping_sub(1)).into()));
            for key in keys.into_iter().chain(edges) {
                prop_assert_eq!(map.part_of(&key), slow(&parts, &key), "{:?} in {:?}", key, &map);
            }
            prop_assert!(!map.moves_from(&map));
        }
    }

    #[test]
    fn the_longest_prefix_counts_and_what_is_wrong_is_named() {
        let map = PartMap::new(vec![
            part(0, &["10.1.2.0/24"], &[]),
            part(1, &["10.0.0.0/8", "fd00::/8"], &[]),
            part(2, &["10.1.0.0/16"], &[5..=9, 200..=200]),
        ])
        .unwrap();
        let at = |a, b, c| map.part_of(&Key::App4([a, b, c, 1].into()));
        assert_eq!(
            [at(9, 0, 0), at(10, 0, 0), at(10, 1, 1), at(10, 1, 2), at(10, 1, 3), at(10, 2, 0), at(11, 0, 0)],
            [0, 1, 2, 0, 2, 1, 0]
        );
        assert_eq!(map.part_of_server(server(2)), Some(2));
        let error = |parts| PartMap::new(parts).unwrap_err();
        assert_eq!(error(vec![part(1, &["10.0.0.0/8"], &[])]), PartsError::Default(0));
        assert_eq!(error(vec![part(0, &[], &[]), part(1, &[], &[])]), PartsError::Empty("part-1".to_owned()));
        let twice = "10.0.0.0/8".parse().unwrap();
        assert_eq!(error(vec![part(0, &["10.0.0.0/8"], &[]), part(1, &["10.0.0.0/8"], &[])]), PartsError::PrefixTwice(twice));
        assert_eq!(error(vec![part(0, &[], &[]), part(1, &[], &[3..=5, 5..=6])]), PartsError::TenantTwice(5));
        let mut other = part(1, &["10.0.0.0/8"], &[]);
        other.servers = vec![server(0)];
        assert_eq!(error(vec![part(0, &[], &[]), other.clone()]), PartsError::ServerTwice(server(0)));
        (other.name, other.servers) = ("part 1".to_owned(), vec![server(1)]);
        assert_eq!(error(vec![part(0, &[], &[]), other]), PartsError::Name("part 1".to_owned()));
        for text in ["", "7-", "9-7", "16777216", "-3", "a"] {
            assert!(Part::tenants_from("a", text).is_err(), "{text}");
        }
        assert_eq!(Part::tenants_from("a", "100-199"), Ok(100..=199));
        assert_eq!(Part::tenants_from("a", "7"), Ok(7..=7));
    }

    #[test]
    fn a_map_says_whether_keys_move() {
        let before = PartMap::new(vec![part(0, &[], &[]), part(1, &["10.0.0.0/8"], &[])]).unwrap();
        let mut more = vec![part(1, &["10.0.0.0/8"], &[]), part(0, &[], &[])];
        more[0].servers.push(server(9));
        assert!(!PartMap::new(more).unwrap().moves_from(&before), "in another order, with another server");
        let moved = PartMap::new(vec![part(0, &[], &[]), part(1, &["10.0.0.0/9"], &[])]).unwrap();
        assert!(moved.moves_from(&before) && before.moves_from(&moved));
    }
}
