//! What is plugged into what: a cable a port, so that a trunk of p links is p cables.

use std::fmt;

use serde::Serialize;

use crate::topology::shapes::subways::SubwaysWiring;
use crate::units::BitsPerSec;

/// A part of a Subways fabric, numbered as in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Part {
    Host(u32),
    Tor(u32),
    Agg(u32),
    Core(u32),
}

/// A cable between two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cable {
    /// The end of the lower tier.
    pub lower: Part,
    /// The end of the higher tier.
    pub upper: Part,
    /// Bits per second in each direction.
    pub rate: BitsPerSec,
}

impl Cable {
    /// Whether it attaches a server.
    pub const fn is_server(&self) -> bool {
        matches!(self.lower, Part::Host(_))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(i) => write!(f, "h{i}"),
            Self::Tor(i) => write!(f, "tor{i}"),
            Self::Agg(i) => write!(f, "agg{i}"),
            Self::Core(i) => write!(f, "core{i}"),
        }
    }
}

impl Serialize for Part {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// All cables: those of the servers by host and port, then by ToR, then by aggregation switch.
pub fn cables(wiring: &SubwaysWiring) -> impl Iterator<Item = Cable> + '_ {
    let network_of_tor = |tor| wiring.network_of(wiring.cluster_of(tor));
    let servers = (0..wiring.hosts()).flat_map(move |host| {
        wiring.ports_of_rack(wiring.rack_of(host)).into_iter().map(move |tor| Cable {
            lower: Part::Host(host),
            upper: Part::Tor(tor),
            rate: wiring.port_link(network_of_tor(tor)).rate,
        })
    });
    let tors = (0..wiring.tors()).flat_map(move |tor| {
        let rate = wiring.fabric_link(network_of_tor(tor)).rate;
        (0..wiring.aggregations).map(move |i| Cable {
            lower: Part::Tor(tor),
            upper: Part::Agg(wiring.agg(wiring.cluster_of(tor), i)),
            rate,
        })
    });
    let aggs = (0..wiring.clusters * wiring.aggregations).flat_map(move |agg| {
        let network = wiring.network_of(agg / wiring.aggregations);
        (0..wiring.agg_uplinks).map(move |j| Cable {
            lower: Part::Agg(agg),
            upper: Part::Core(wiring.core(network, agg % wiring.aggregations, j)),
            rate: wiring.fabric_link(network).rate,
        })
    });
    servers.chain(tors).chain(aggs)
}
