//! What an agent reports of itself, for status and metrics.

use super::super::locations::Locations as _;
use super::super::nl_arp::NlArpCounts;
use super::super::paths::Reached;
use super::super::sources::Sources;
use super::super::spain::{SpainCounters, SpainPaths};
use super::Agent;
use crate::directory::resolver::ResolverCounts;
use crate::time::Instant;
use crate::wire::packet::ethernet::VlanId;

/// The state of locations and paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// What NL-ARP has counted.
    pub nl_arp: NlArpCounts,
    /// Entries of its table.
    pub nl_arp_entries: usize,
    /// Bytes of its table.
    pub nl_arp_bytes: usize,
    /// Of the directory, if tenants' VIFs are looked up there.
    pub lookups: Option<LookupReport>,
    /// What SPAIN's path chooser has counted.
    pub spain: SpainCounters,
}

/// The state of lookups in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupReport {
    /// Names in the resolver's cache.
    pub cached: usize,
    /// What the resolver has counted.
    pub counts: ResolverCounts,
    /// Since when the directory has confirmed nothing, if that is longer than it takes while a server answers.
    pub unconfirmed_since: Option<Instant>,
}

impl Report {
    /// Remote VIFs whose places are known.
    pub fn known(&self) -> usize {
        self.nl_arp_entries + self.lookups.map_or(0, |lookups| lookups.cached)
    }
}

impl Agent<Sources, SpainPaths> {
    /// The state of locations and paths.
    pub fn report(&self) -> Report {
        let nl_arp = self.locations.nl_arp();
        let lookups = self.locations.pull().map(|pull| {
            let resolver = pull.resolver();
            LookupReport { cached: resolver.held(), counts: resolver.counts(), unconfirmed_since: resolver.unconfirmed_since() }
        });
        Report {
            nl_arp: nl_arp.counts(),
            nl_arp_entries: nl_arp.table().len(),
            nl_arp_bytes: nl_arp.table_bytes(),
            lookups,
            spain: self.chooser.counters(),
        }
    }

    /// Whether flows avoid a VLAN to an edge switch, because it has failed.
    pub fn is_failed(&self, to: Reached, vlan: VlanId) -> bool {
        self.chooser.is_failed(to, vlan)
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::MacAddr;
    use weft_fabric::rng::{self, Stream};

    use super::super::super::nl_arp::{NlArp, NlArpConfig};
    use super::super::super::spain::SpainConfig;
    use super::super::super::{EdgePort, Location, UplinkId};
    use super::super::{AgentConfig, Input, Output};
    use super::*;
    use crate::time::Duration;

    const UPLINK: UplinkId = UplinkId(0);

    fn usable(agent: &mut Agent<Sources, SpainPaths>) -> Option<Vec<u16>> {
        let of = |output| if let Output::Paths { vlans, .. } = output { Some(vlans) } else { None };
        let last = std::iter::from_fn(|| agent.poll()).filter_map(of).last()?;
        Some(last.iter().map(|vlan| vlan.get()).collect())
    }

    #[test]
    fn a_data_plane_that_chooses_vlans_is_driven_by_inputs_and_outputs() {
        let vlans = [3, 5].map(|id| VlanId::new(id).unwrap());
        let far = Location { switch: MacAddr([2, 0, 0, 0, 0, 2]), port: EdgePort::new(4).unwrap() };
        let to = (UPLINK, far.switch);
        let sources = Sources::new(NlArp::new(NlArpConfig::default(), rng::stream(1, Stream::Traffic)), None);
        let paths = SpainPaths::new(SpainConfig::default()).unwrap();
        let mut agent = Agent::new(AgentConfig::new(vec![VlanId::new(4094).unwrap()]), sources, paths);
        let mut now = Instant::ZERO;
        agent.handle(now, Input::Paths { to, vlans: &vlans });
        assert_eq!(usable(&mut agent), Some(vec![3, 5]));
        agent.handle(now, Input::PathUsed { uplink: UPLINK, to: far, vlan: vlans[0] });
        assert_eq!(usable(&mut agent), None, "nothing has changed");
        let failed = loop {
            now = agent.deadline().expect("the path is watched");
            assert!(now < Instant::ZERO + Duration::from_secs(5), "it fails");
            agent.handle(now, Input::Timer);
            if let Some(vlans) = usable(&mut agent) {
                break vlans;
            }
        };
        assert_eq!(failed, [5]);
        assert!(agent.is_failed(to, vlans[0]) && !agent.is_failed(to, vlans[1]));
        assert_eq!(agent.report().spain.failures, 1);
        agent.handle(now, Input::PathHeard { uplink: UPLINK, from: far, vlan: vlans[0] });
        assert_eq!(usable(&mut agent), Some(vec![3, 5]));
        agent.handle(now, Input::Paths { to, vlans: &[] });
        assert_eq!(usable(&mut agent), Some(Vec::new()), "there is no path");
    }
}
