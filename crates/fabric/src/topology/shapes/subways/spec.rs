//! What `[fabric] kind = "subways"` says: types, counts as they are asked for, and what is left to follow from them.

use std::fmt;
use std::str::FromStr;

use crate::units::BitsPerSec;

/// The names that a scenario can use (Subways sections 4, 5.2 and 6). The suffix leaves the wiring alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum SubwaysType {
    Type0,
    Type1,
    Type1Lb,
    Type1D,
    Type2,
    Type2Lb,
    Type2D,
    McLag,
}

/// How the links of a server are distributed (section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wiring {
    /// Type 0 (section 4.1): all p links to the server's own ToR.
    Trunk,
    /// Type 1 (section 4.2): p ToRs of one cluster, overlapping around a loop.
    SharedTors,
    /// Multihoming (section 4.2): type 1 whose loops have p ToRs.
    Multihomed,
    /// Type 2 (section 4.3): as type 1, adjacent ToRs in different clusters.
    SharedClusters,
}

/// Who balances the load between a server's ToRs: what the suffix of a type asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Balancing {
    /// ECMP alone.
    #[default]
    None,
    /// LB: adaptive weights (section 5.2).
    Adaptive,
    /// D: adaptive weights and detours (section 6).
    Detour,
}

/// What a server's parallel links to one ToR are (section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Trunk {
    /// One virtual link of p times the rate: packets are spread evenly and arrive in order.
    #[default]
    Packet,
    /// p links, each flow on one of them by hash.
    Flow,
}

/// The size of a (logical) rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RackSize {
    /// r, its servers.
    Servers(u32),
    /// q, the ports of a ToR that lead to servers: r = q / p.
    ServerPorts(u32),
}

/// How many links a layer has upwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Uplinks {
    /// So many that the capacity down is this many times the capacity up: 5 for 5:1.
    Oversubscription(f64),
    /// That many links of a switch.
    Count(u32),
}

/// Rates of the parallel interconnects (section 4.3); none: one interconnect with the rates of `host_link` and `fabric_link`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Speeds {
    rates: [BitsPerSec; Self::MAX],
    len: u8,
}

/// A Subways fabric by its parameters (table 1). [`SubwaysSpec::wiring`] checks them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubwaysSpec {
    /// Wiring and balancing.
    pub kind: SubwaysType,
    /// p, ports of a server.
    pub ports: u32,
    /// r or q.
    pub rack: RackSize,
    /// ToRs of a cluster.
    pub racks_per_cluster: u32,
    /// Clusters; `None`: 2, or as many as a loop spans if that is more; with 2 levels one an interconnect.
    pub clusters: Option<u32>,
    /// l, racks of a loop; `None`: those of a cluster, and p where servers are multihomed.
    pub loop_length: Option<u32>,
    /// c, clusters that a loop of type 2 spans; `None`: 2, or one an interconnect if these are more.
    pub loop_clusters: Option<u32>,
    /// Uplinks of a ToR: one to each aggregation switch of its cluster.
    pub tor_uplinks: Uplinks,
    /// Uplinks of an aggregation switch: one to each core of its group.
    pub agg_uplinks: Uplinks,
    /// 3 with cores, 2 without.
    pub levels: u32,
    /// Of parallel interconnects.
    pub speeds: Speeds,
    /// Of type 0.
    pub trunk: Trunk,
}

impl SubwaysType {
    /// All of them, by name.
    pub const ALL: [(&'static str, Self); 8] = [
        ("0", Self::Type0),
        ("1", Self::Type1),
        ("1LB", Self::Type1Lb),
        ("1D", Self::Type1D),
        ("2", Self::Type2),
        ("2LB", Self::Type2Lb),
        ("2D", Self::Type2D),
        ("MC-LAG", Self::McLag),
    ];

    /// How servers are wired.
    pub const fn wiring(self) -> Wiring {
        match self {
            Self::Type0 => Wiring::Trunk,
            Self::Type1 | Self::Type1Lb | Self::Type1D => Wiring::SharedTors,
            Self::Type2 | Self::Type2Lb | Self::Type2D => Wiring::SharedClusters,
            Self::McLag => Wiring::Multihomed,
        }
    }

    /// Which scheduler the name asks for.
    pub const fn balancing(self) -> Balancing {
        match self {
            Self::Type0 | Self::Type1 | Self::Type2 | Self::McLag => Balancing::None,
            Self::Type1Lb | Self::Type2Lb => Balancing::Adaptive,
            Self::Type1D | Self::Type2D => Balancing::Detour,
        }
    }
}

impl fmt::Display for SubwaysType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(_, kind)| kind == self).expect("all are listed").0)
    }
}

impl FromStr for SubwaysType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|&(_, kind)| kind).ok_or(())
    }
}

impl Speeds {
    /// The most parallel interconnects.
    pub const MAX: usize = 8;

    /// The rates in the order in which ToRs of a loop take them; `None` if there are more than [`Speeds::MAX`].
    pub fn new(rates: &[BitsPerSec]) -> Option<Self> {
        let mut speeds = Self { len: u8::try_from(rates.len()).ok()?, ..Self::default() };
        speeds.rates.get_mut(..rates.len())?.copy_from_slice(rates);
        Some(speeds)
    }

    /// The rates; empty for one interconnect.
    pub fn rates(&self) -> &[BitsPerSec] {
        &self.rates[..usize::from(self.len)]
    }
}

impl SubwaysSpec {
    /// The default configuration of section 8.1: 2 ports, 15 servers a rack, clusters of 12 racks, 5:1 and 4:1.
    pub const fn new(kind: SubwaysType) -> Self {
        Self {
            kind,
            ports: 2,
            rack: RackSize::Servers(15),
            racks_per_cluster: 12,
            clusters: None,
            loop_length: None,
            loop_clusters: None,
            tor_uplinks: Uplinks::Oversubscription(5.0),
            agg_uplinks: Uplinks::Oversubscription(4.0),
            levels: 3,
            speeds: Speeds { rates: [BitsPerSec(0); Speeds::MAX], len: 0 },
            trunk: Trunk::Packet,
        }
    }

    /// The testbed of section 8.2 and table 2: 16 dual-ported servers, 4 ToRs, 2 aggregation switches, 4:1; links of 500 Mbps.
    pub const fn testbed(kind: SubwaysType) -> Self {
        Self {
            rack: RackSize::Servers(4),
            racks_per_cluster: 4,
            tor_uplinks: Uplinks::Oversubscription(4.0),
            levels: 2,
            ..Self::new(kind)
        }
    }
}
