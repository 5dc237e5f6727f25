//! Traffic of some hosts only: jobs on chosen racks (Subways section 8.3), many to many (section 8.2), and what they offer.

use std::collections::BTreeSet;

use proptest::prelude::*;
use weft_fabric::HostId;
use weft_fabric::time::Duration;
use weft_fabric::topology::Fabric;
use weft_fabric::topology::shapes::{Cabling, fat_tree, single_switch};
use weft_fabric::traffic::{
    ArrivalRate, Arrivals, FlowSpec, HostList, Participants, Pattern, Place, ShuffleMode, SizeSpec, TrafficError, TrafficSpec,
};
use weft_fabric::units::BitsPerSec;

const LINK: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };

/// 16 hosts in 8 racks of 2 in 4 pods.
fn fabric() -> Fabric {
    fat_tree(4, LINK).unwrap()
}

fn spec(pattern: Pattern) -> TrafficSpec {
    TrafficSpec::new(pattern, SizeSpec::Infinite)
}

fn flows(spec: &TrafficSpec, seed: u64) -> Vec<FlowSpec> {
    let mut workload = spec.workload(&fabric(), seed).unwrap();
    std::iter::from_fn(|| workload.next_flow()).collect()
}

fn pairs(flows: &[FlowSpec]) -> Vec<(u32, u32)> {
    flows.iter().map(|f| (f.src.0, f.dst.0)).collect()
}

fn key_of(spec: &TrafficSpec) -> &'static str {
    match spec.workload(&fabric(), 1).err() {
        Some(TrafficError::Parameter { key, .. }) => key,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_shuffle_over_two_groups_of_racks_takes_equal_parts() {
    let mut job = spec(Pattern::Shuffle { mode: ShuffleMode::Parallel });
    job.among = Participants { hosts: Some(6), listed: None, racks: None, place: Place::Contiguous { from: vec![0, 4] } };
    let flows = flows(&job, 1);
    let hosts: BTreeSet<u32> = flows.iter().map(|f| f.src.0).collect();
    assert_eq!(hosts, BTreeSet::from([0, 1, 2, 8, 9, 10]));
    assert_eq!(pairs(&flows).into_iter().collect::<BTreeSet<_>>().len(), 30);
    assert_eq!(flows.len(), 30);
}

#[test]
fn every_pattern_stays_among_the_hosts_that_take_part() {
    let patterns = [
        Pattern::Stride { stride: 1 },
        Pattern::Staggered { edge: 0.3, pod: 0.3 },
        Pattern::Random,
        Pattern::Bijection,
        Pattern::Hotspot { hotspots: Some(2), fraction: 0.5 },
        Pattern::Incast { fan_in: None, receiver: HostId(3) },
        Pattern::Shuffle { mode: ShuffleMode::Sequential { concurrency: 1 } },
    ];
    let members = [2, 3, 10, 11, 12, 13];
    for pattern in patterns {
        let mut some = spec(pattern.clone());
        some.among.racks = Some(vec![6, 1, 5]);
        if !matches!(pattern, Pattern::Shuffle { .. }) {
            some.flows_per_host = Some(20);
        }
        for (src, dst) in pairs(&flows(&some, 3)) {
            assert!(src != dst && members.contains(&src) && members.contains(&dst), "{pattern:?}: {src} to {dst}");
        }
    }
    let mut stride = spec(Pattern::Stride { stride: 1 });
    stride.among.racks = Some(vec![1, 5, 6]);
    assert_eq!(pairs(&flows(&stride, 1)), [(2, 3), (3, 10), (10, 11), (11, 12), (12, 13), (13, 2)]);
}

#[test]
fn staggered_flows_among_some_hosts_know_their_racks_and_pods() {
    let near = |edge, pod| {
        let mut some = TrafficSpec { flows_per_host: Some(30), ..spec(Pattern::Staggered { edge, pod }) };
        some.among.racks = Some(vec![0, 1, 6]);
        pairs(&flows(&some, 5))
    };
    assert!(near(1.0, 0.0).iter().all(|(s, d)| s / 2 == d / 2), "in the rack");
    assert!(near(0.0, 0.0).iter().all(|(s, d)| (s / 4 == 0) != (d / 4 == 0)), "to the other pod");
    assert!(near(0.0, 1.0).iter().filter(|(s, _)| s / 4 == 0).all(|(s, d)| d / 4 == 0 && s / 2 != d / 2), "in the pod");
}

#[test]
fn the_receiver_of_an_incast_may_stand_elsewhere() {
    let mut incast = spec(Pattern::Incast { fan_in: None, receiver: HostId(0) });
    incast.among.racks = Some(vec![7]);
    assert_eq!(pairs(&flows(&incast, 1)), [(14, 0), (15, 0)]);
}

#[test]
fn many_to_many_is_table_2_of_subways() {
    let job = spec(Pattern::ManyToMany {
        senders: HostList::Racks(vec![0, 1, 2]),
        receivers: HostList::Racks(vec![3]),
        flows_per_pair: 4,
    });
    let flows = flows(&job, 1);
    assert_eq!(flows.len(), 6 * 2 * 4);
    assert_eq!(pairs(&flows)[..9], [(0, 6), (0, 6), (0, 6), (0, 6), (0, 7), (0, 7), (0, 7), (0, 7), (1, 6)]);
    let overlapping =
        Pattern::ManyToMany { senders: HostList::Hosts(vec![1, 2]), receivers: HostList::Hosts(vec![2, 3]), flows_per_pair: 1 };
    assert_eq!(pairs(&self::flows(&spec(overlapping), 1)), [(1, 2), (1, 3), (2, 3)]);
}

#[test]
fn sizes_of_many_to_many_are_drawn_for_each_flow() {
    let mut job = spec(Pattern::ManyToMany {
        senders: HostList::Hosts(vec![0, 1]),
        receivers: HostList::Hosts(vec![8, 9]),
        flows_per_pair: 10,
    });
    job.size = "exponential(1MB)".parse().unwrap();
    let sizes: BTreeSet<_> = flows(&job, 1).iter().map(|f| f.size).collect();
    assert_eq!(sizes.len(), 40);
}

#[test]
fn what_makes_no_sense_names_its_key() {
    let many = |senders: &[u32], receivers: &[u32], flows_per_pair| {
        let [senders, receivers] = [senders, receivers].map(|hosts| HostList::Hosts(hosts.to_vec()));
        spec(Pattern::ManyToMany { senders, receivers, flows_per_pair })
    };
    assert_eq!(key_of(&many(&[0], &[16], 1)), "receivers");
    assert_eq!(key_of(&many(&[], &[1], 1)), "senders");
    assert_eq!(key_of(&many(&[0], &[0], 1)), "receivers");
    assert_eq!(key_of(&many(&[0], &[1], 0)), "flows_per_pair");
    assert_eq!(key_of(&many(&[0], &[1], u32::MAX)), "flows_per_pair");
    assert_eq!(key_of(&TrafficSpec { flows_per_host: Some(1), ..many(&[0], &[1], 1) }), "flows_per_host");
    let mut among = many(&[0], &[1], 1);
    among.among.hosts = Some(3);
    assert_eq!(key_of(&among), "hosts");
    let mut lone = spec(Pattern::Random);
    lone.among.hosts = Some(1);
    assert_eq!(key_of(&lone), "hosts");
    let mut nobody = spec(Pattern::Incast { fan_in: None, receiver: HostId(0) });
    nobody.among.hosts = Some(1);
    assert_eq!(key_of(&nobody), "fan_in");
}

#[test]
fn the_offered_load_is_that_of_the_busiest_nic() {
    let poisson = |pattern, rate| {
        let mut spec = TrafficSpec::new(pattern, "1MB".parse().unwrap());
        spec.arrivals = Arrivals::Poisson { rate, until: None };
        spec.offered_load(&fabric(), 1).unwrap().unwrap()
    };
    let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-9, "{got} for {want}");
    close(poisson(Pattern::Random, ArrivalRate::Load(0.7)), 0.7);
    close(poisson(Pattern::Random, ArrivalRate::PerHost(250.0)), 2.0);
    close(poisson(Pattern::Incast { fan_in: None, receiver: HostId(0) }, ArrivalRate::Load(0.1)), 1.5);
    close(poisson(Pattern::Hotspot { hotspots: Some(2), fraction: 0.5 }, ArrivalRate::Load(0.5)), 2.0);
    assert_eq!(spec(Pattern::Random).offered_load(&fabric(), 1), Ok(None));
}

proptest! {
    /// Any choice of hosts is an error or that many hosts, ascending and different.
    #[test]
    fn any_participants_are_an_error_or_as_many_as_asked(
        hosts in prop::option::of(0u32..20),
        racks in prop::option::of(prop::collection::vec(0u32..9, 0..5)),
        from in prop::collection::vec(0u32..9, 0..4),
        contiguous: bool,
        switch: bool,
    ) {
        let fabric = if switch { single_switch(12, LINK).unwrap() } else { fabric() };
        let place = if contiguous { Place::Contiguous { from } } else { Place::Spread };
        let participants = Participants { hosts, listed: None, racks, place };
        if let Ok(picked) = participants.pick(&fabric) {
            prop_assert!(picked.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(hosts.is_none_or(|n| n as usize == picked.len()) && !picked.is_empty());
            prop_assert!(picked.last().unwrap().index() < fabric.host_count());
            if let Some(racks) = &participants.racks {
                prop_assert!(picked.iter().all(|&h| racks.contains(&fabric.rack_of(h).0)));
            }
        }
    }
}
