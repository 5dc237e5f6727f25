//! Agents that choose the NICs of flows (Subways section 5.2): by speed, by the load of ToRs, around what fails. As root, with the programs built; elsewhere they
//! report that they are skipped.
//!
//! Tests whose name starts with `timing_` compare rates and times, and need the processors for themselves.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods)] // The test waits for programs by the wall clock.

mod support;

use std::sync::Arc;
use std::time::{Duration as StdDuration, Instant as WallInstant};

use serde_json::Value;
use support::overlay::{GO, ask};
use support::{TestLab, name, programs, serial, settings};
use weft_control::subways::SubwaysConfig;
use weft_fabric::record::Outcome;
use weft_fabric::routing::{Router, Routing as RouterSettings};
use weft_fabric::time::NsDuration;
use weft_fabric::topology::Part;
use weft_fabric::topology::shapes::subways::{RackSize, Speeds, SubwaysSpec, SubwaysType, Uplinks};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Duration, Fabric, HostId, Instant};
use weft_lab::Lab;
use weft_lab::events::{Change, Event};
use weft_lab::openflow::scheduler;
use weft_lab::plan::{Plan, Routing};
use weft_lab::run::{Job, Load, execute};
use weft_lab::traffic::Transport;

fn build(spec: SubwaysSpec, rate: u64) -> Fabric {
    let link = Cabling { rate: BitsPerSec(rate), delay: Duration::ZERO };
    Shape::Subways(spec).build(link, link).expect("a fabric")
}

fn plan(fabric: &Fabric, letter: char) -> Plan {
    let settings = settings(name(letter), Routing::Static, 1.0);
    let config = SubwaysConfig { period: NsDuration::from_ms(200), ..SubwaysConfig::default() };
    Plan::new(fabric, &settings).and_then(|plan| plan.with_access(fabric, &config)).expect("a plan")
}

fn run(fabric: &Fabric, letter: char, flows: Vec<FlowSpec>, events: Vec<Event>, seconds: u64) -> Outcome {
    let job = Job {
        plan: plan(fabric, letter),
        scenario: "test.toml".into(),
        vlb: false,
        router: Router::new(Arc::new(fabric.clone()), RouterSettings::default(), 1),
        load: Load::Flows(Box::new(StaticWorkload::new(flows))),
        transport: Transport::Tcp,
        events,
        duration: Some(Duration::from_secs(seconds)),
        windows: Vec::new(),
        window_every: Duration::from_ms(10),
    };
    execute(fabric, job, &GO, &mut |_| {}).expect("it runs")
}

fn is_possible() -> bool {
    programs(&["weft-agent", "weft-scheduler"])
}

fn flow(src: u32, dst: u32) -> FlowSpec {
    FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Infinite }
}

fn goodput(outcome: &Outcome) -> f64 {
    outcome.flows.iter().map(|f| f.bytes.0 as f64).sum::<f64>() * 8.0 / outcome.ended.as_secs_f64()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = WallInstant::now() + StdDuration::from_secs(30);
    while !is_so() {
        assert!(WallInstant::now() < deadline, "{what}");
        std::thread::sleep(StdDuration::from_millis(50));
    }
}

/// Parallel interconnects of 20 and 60 Mbps: pairs of NICs of different networks are not connected. Two pairs of hosts have 160 Mbps; NICs taken in turn have 74.
#[test]
fn timing_unequal_nics_carry_their_rates_together() {
    if !is_possible() {
        return;
    }
    let _serial = serial();
    let spec = SubwaysSpec {
        rack: RackSize::Servers(1),
        racks_per_cluster: 4,
        loop_length: Some(4),
        tor_uplinks: Uplinks::Count(2),
        levels: 2,
        speeds: Speeds::new(&[BitsPerSec(20_000_000), BitsPerSec(60_000_000)]).expect("speeds"),
        ..SubwaysSpec::new(SubwaysType::Type2)
    };
    let fabric = build(spec, 20_000_000);
    let flows: Vec<FlowSpec> = (0..64).map(|i| flow(i % 2, 2 + i % 2)).collect();
    let outcome = run(&fabric, 'a', flows, Vec::new(), 8);
    let expected = 160e6 * 1448.0 / 1514.0;
    let goodput = goodput(&outcome);
    eprintln!("{:.1} of {:.1} Mbps", goodput / 1e6, expected / 1e6);
    assert!((0.85..1.02).contains(&(goodput / expected)), "{goodput} of {expected}");
}

/// Flows whose ToR fails, or a NIC of their peer, go on over others; the first address of the host stays.
#[test]
fn timing_flows_go_on_over_another_nic() {
    if !is_possible() {
        return;
    }
    let _serial = serial();
    let fabric = build(SubwaysSpec::testbed(SubwaysType::Type1), 20_000_000);
    let part = |text: &str| Part::parse(&fabric, text).expect("a part");
    let at = |ms: u64, change| Event { at: Instant::ZERO + Duration::from_ms(ms), change };
    // Racks 0 and 2 share no ToR: h0 is on tor3 and tor0, h8 on tor1 and tor2.
    let events = vec![
        at(3000, Change::Fail(part("switch tor0"))),
        at(7000, Change::Restore(part("switch tor0"))),
        at(10_000, Change::Fail(part("link h8-tor2"))),
        at(14_000, Change::Restore(part("link h8-tor2"))),
    ];
    let outcome = run(&fabric, 'b', (0..8).map(|_| flow(0, 8)).collect(), events, 16);
    let faults = &outcome.lab.as_ref().expect("a lab's").faults;
    let pauses: Vec<f64> = faults.iter().filter_map(|fault| fault.silent).map(|silent| silent.as_secs_f64()).collect();
    eprintln!("pauses after each event: {pauses:.2?}");
    assert!(outcome.flows.iter().all(|flow| flow.bytes.0 > 1_000_000), "{:?}", outcome.flows);
    assert_eq!(pauses.len(), 4);
    // The own ToR: two timeouts of TCP. A stream whose packet the kernel keeps for the lost NIC would pause for 3 s and more, one that waits for the NIC for more than 4.
    assert!(pauses[..2].iter().all(|pause| *pause < 2.0), "{pauses:?}");
    // The peer's NIC, of which timeouts are the first news: up to four of them.
    assert!(pauses[2..].iter().all(|pause| *pause < 3.0), "{pauses:?}");
}

/// The scheduler is killed and started again, and an agent too: flows keep their NICs, and are reported again.
#[test]
fn state_is_soft() {
    if !is_possible() {
        return;
    }
    let fabric = build(
        SubwaysSpec { rack: RackSize::Servers(1), tor_uplinks: Uplinks::Count(2), ..SubwaysSpec::testbed(SubwaysType::Type1) },
        20_000_000,
    );
    let serial = serial();
    let (lab, _) = Lab::up(plan(&fabric, 'c'), "test.toml".as_ref(), &GO).expect("it comes up");
    let lab = TestLab::new(lab, serial);
    let plan = lab.plan();
    let status = || -> Value { ask(&lab, "h0") };
    wait_until("weights come", || status()["weights"] == "the scheduler's weights");
    assert_eq!(status()["verdict"], "ok", "{}", status());
    assert!(scheduler::kill(plan));
    wait_until("weights go", || status()["weights"] == "the speed of NICs");
    scheduler::restart(plan, &GO).expect("it starts");
    wait_until("weights come again", || status()["weights"] == "the scheduler's weights");
    let all = scheduler::status(plan).expect("a status");
    assert_eq!((all.agents, all.reporting), (8, 8), "four hosts and four ToRs: {:?}", all.problems);
}
