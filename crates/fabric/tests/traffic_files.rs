//! The example files that ship with the scenarios are read, and generated flows survive a journey through each format.

use std::path::Path;

use weft_fabric::formats::cdf::{self, CdfOptions};
use weft_fabric::formats::flows::{HostNames, cm, csv, flow_txt};
use weft_fabric::time::Duration;
use weft_fabric::topology::shapes::{Cabling, fat_tree};
use weft_fabric::traffic::sizes::named;
use weft_fabric::traffic::{Arrivals, Pattern, SizeSpec, StaticWorkload, TrafficSpec, flows_known_at_start};
use weft_fabric::units::BitsPerSec;
use weft_fabric::{Fabric, FlowId};

fn example(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/data").join(name)).unwrap()
}

fn fabric() -> Fabric {
    fat_tree(4, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).unwrap()
}

#[test]
fn example_flows_are_read() {
    let fabric = fabric();
    let hosts = HostNames::of(&fabric);
    assert_eq!(csv::parse(&example("flows/example.csv"), hosts).unwrap().len(), 4);
    assert_eq!(flow_txt::parse(&example("flows/example.flow.txt"), hosts).unwrap().len(), 3, "a line more than its count");
    let matrix = cm::parse(&example("flows/example.cm"), hosts).unwrap();
    let mut workload = matrix.workload();
    let first = flows_known_at_start(&mut *workload, usize::MAX);
    assert_eq!(first, matrix.flows()[..2]);
    workload.flow_ended(FlowId(1), &first[1], first[1].start);
    assert_eq!(flows_known_at_start(&mut *workload, usize::MAX).len(), 1);
}

#[test]
fn example_sizes_are_the_named_ones() {
    for dialect in ["percent", "fraction"] {
        let cdf = cdf::parse(&example(&format!("sizes/web-search.{dialect}.txt")), CdfOptions::default()).unwrap();
        assert_eq!(Some(cdf), named::cdf("web-search"), "{dialect}");
    }
}

#[test]
fn generated_flows_survive_each_format() {
    let fabric = fabric();
    let mut spec = TrafficSpec::new(Pattern::Random, "web-search".parse::<SizeSpec>().unwrap());
    spec.flows_per_host = Some(20);
    spec.start_spread = Duration::from_ms(10);
    assert_eq!(spec.arrivals, Arrivals::Once);
    let flows = flows_known_at_start(&mut *spec.workload(&fabric, 1).unwrap(), usize::MAX);
    assert_eq!(flows.len(), 320);
    let hosts = HostNames::of(&fabric);
    assert_eq!(csv::parse(csv::write(&flows).as_bytes(), hosts).as_ref(), Ok(&flows));
    assert_eq!(cm::parse(cm::write(16, &flows).unwrap().as_bytes(), hosts).unwrap().flows(), flows);
    assert_eq!(flow_txt::parse(flow_txt::write(&flows).unwrap().as_bytes(), hosts).as_ref(), Ok(&flows));
    let mut again = StaticWorkload::new(flows.clone());
    assert_eq!(flows_known_at_start(&mut again, usize::MAX), flows);
}
