use proptest::prelude::*;
use weft_fabric::rng::mix;

use super::*;

const TENANT: TenantId = TenantId(17);
const RATE: u64 = 1_000_000;
const BURST: f64 = 100_000.0;
/// Of the fluid model.
const STEP_MS: u64 = 10;

fn switch(n: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n as u8 + 1])
}

fn at(ms: u64) -> Instant {
    Instant::from_ns((ms + 1_000) * 1_000_000)
}

/// Edge switches with token buckets, and what a tenant sends over each; reports take some time and are lost now and then.
struct Fabric {
    switches: Vec<Switch>,
    now_ms: u64,
    /// When it comes, to whom, from whom, what.
    under_way: Vec<(u64, usize, usize, Vec<Claim>)>,
    loss_percent: u64,
    random: u64,
    /// Bytes that passed beyond 1.05 of the rate, since the moment from which that is most.
    excess: f64,
    most_excess: f64,
}

struct Switch {
    limits: SharedLimits,
    next_count: u64,
    is_up: bool,
    demand: f64,
    tokens: f64,
    passed: f64,
    limited: u64,
}

impl Fabric {
    fn new(switches: usize, loss_percent: u64, random: u64) -> Self {
        let new = |n| Switch {
            limits: SharedLimits::new(switch(n), at(0), [(TENANT, RATE, None)]),
            next_count: n as u64 * 37 % 100,
            is_up: true,
            demand: 0.0,
            tokens: BURST,
            passed: 0.0,
            limited: 0,
        };
        let switches = (0..switches).map(new).collect();
        Self { switches, now_ms: 0, under_way: Vec::new(), loss_percent, random, excess: 0.0, most_excess: 0.0 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random = mix(self.random.wrapping_add(1));
        self.random % below
    }

    /// Lets so much time pass; bytes that passed at each switch.
    fn run(&mut self, ms: u64) -> Vec<f64> {
        let before: Vec<f64> = self.switches.iter().map(|it| it.passed).collect();
        let until = self.now_ms + ms;
        while self.now_ms < until {
            self.now_ms += STEP_MS;
            self.step();
        }
        self.switches.iter().zip(before).map(|(it, before)| it.passed - before).collect()
    }

    fn step(&mut self) {
        let now = self.now_ms;
        let seconds = STEP_MS as f64 / 1000.0;
        let (come, under_way) = std::mem::take(&mut self.under_way).into_iter().partition(|(when, ..)| *when <= now);
        self.under_way = under_way;
        let come: Vec<(u64, usize, usize, Vec<Claim>)> = come;
        for (_, to, from, claims) in come {
            if self.switches[to].is_up {
                self.switches[to].limits.heard(at(now), switch(from), &claims);
            }
        }
        let mut sum = 0.0;
        for it in &mut self.switches {
            let share = it.limits.shares().next().expect("the tenant").1 as f64;
            it.tokens = (it.tokens + share * seconds).min(BURST);
            let sent = it.demand * seconds;
            let passed = sent.min(it.tokens);
            it.tokens -= passed;
            it.passed += passed;
            it.limited += u64::from(passed < sent);
            sum += passed;
        }
        self.excess = (self.excess + sum - 1.05 * RATE as f64 * seconds).max(0.0);
        self.most_excess = self.most_excess.max(self.excess);
        for n in 0..self.switches.len() {
            let it = &mut self.switches[n];
            if !it.is_up || it.next_count > now {
                continue;
            }
            it.next_count = now + PERIOD.as_ns() / 1_000_000;
            let counted = Counted { bytes: it.passed as u64, limited: it.limited };
            let Some(claims) = it.limits.count(at(now), |_| counted) else { continue };
            for to in (0..self.switches.len()).filter(|&to| to != n) {
                if self.random(100) >= self.loss_percent {
                    let after = self.random(50);
                    self.under_way.push((now + after, to, n, claims.clone()));
                }
            }
        }
    }

    fn sum_of_shares(&self) -> u64 {
        self.switches.iter().filter(|it| it.is_up).map(|it| it.limits.shares().next().expect("the tenant").1).sum()
    }
}

fn assert_near(got: f64, wanted: f64, part: f64) {
    assert!((got - wanted).abs() <= part * wanted, "{got} is not {wanted}");
}

#[test]
fn alone_a_switch_has_the_whole_rate_once_it_has_listened() {
    let mut fabric = Fabric::new(1, 0, 1);
    fabric.switches[0].demand = 5e6;
    let first = fabric.run(1_000)[0];
    assert!(first <= BURST + RATE as f64 / 16.0, "it listens first: {first}");
    fabric.run(1_000);
    assert_near(fabric.run(5_000)[0], 5e6, 0.01);
}

#[test]
fn two_switches_hold_the_rate_together() {
    let mut fabric = Fabric::new(2, 0, 2);
    fabric.run(3_000);
    // The finding: 5 Mbps let 3.8 + 3.8 through.
    fabric.switches.iter_mut().for_each(|it| it.demand = 0.76 * RATE as f64);
    fabric.run(1_000);
    let passed = fabric.run(10_000);
    assert_near(passed[0], 5e6, 0.02);
    assert_near(passed[1], 5e6, 0.02);
}

#[test]
fn what_one_does_not_want_the_others_have() {
    let mut fabric = Fabric::new(4, 0, 3);
    fabric.run(3_000);
    for (it, demand) in fabric.switches.iter_mut().zip([0.1, 0.2, 5.0, 5.0]) {
        it.demand = demand * RATE as f64;
    }
    fabric.run(2_000);
    let passed = fabric.run(10_000);
    for (passed, wanted) in passed.iter().zip([1e6, 2e6, 3.5e6, 3.5e6]) {
        assert_near(*passed, wanted, 0.06);
    }
    // Who begins has his part within half a second.
    fabric.switches[0].demand = 5e6;
    fabric.run(500);
    assert_near(fabric.run(5_000)[0], 5e6 * 0.8 / 3.0, 0.06);
}

#[test]
fn the_share_of_a_switch_that_is_gone_returns() {
    let mut fabric = Fabric::new(3, 0, 4);
    fabric.run(3_000);
    fabric.switches.iter_mut().for_each(|it| it.demand = 5e6);
    fabric.run(2_000);
    fabric.switches[2].is_up = false;
    fabric.switches[2].demand = 0.0;
    fabric.run(4_000);
    assert_eq!(fabric.switches[0].limits.peers().collect::<Vec<_>>(), [switch(1)]);
    let passed = fabric.run(10_000);
    assert_near(passed[0] + passed[1], 1e7, 0.02);
}

#[test]
fn a_process_that_starts_again_goes_on_with_the_share_that_it_finds() {
    let mut limits = SharedLimits::new(switch(0), at(0), [(TENANT, RATE, Some(400_000))]);
    limits.heard(at(10), switch(1), &[]);
    let _ = limits.count(at(100), |_| Counted::default());
    assert_eq!(limits.shares().collect::<Vec<_>>(), [(TENANT, 400_000)]);
    let claim = Claim { tenant: TENANT, bytes_per_second: 900_000, wants_more: false };
    limits.heard(at(110), switch(1), &[claim]);
    let share = limits.shares().next().expect("one").1;
    assert!(share < 50_000, "another claims nearly all: {share}");
}

#[test]
fn own_reports_and_tenants_without_a_limit_are_not_heard() {
    let mut limits = SharedLimits::new(switch(0), at(0), [(TENANT, RATE, Some(RATE))]);
    let claim = |tenant| Claim { tenant, bytes_per_second: RATE, wants_more: true };
    limits.heard(at(10), switch(0), &[claim(TENANT)]);
    limits.heard(at(10), switch(1), &[claim(TenantId(18))]);
    assert_eq!(limits.peers().collect::<Vec<_>>(), [switch(1)]);
    assert_eq!(limits.shares().collect::<Vec<_>>(), [(TENANT, RATE)]);
}

/// By water-filling in small steps.
fn slow_share(rate: u64, wanted: &[u64], of: usize) -> f64 {
    let (mut given, mut left) = (vec![0.0; wanted.len()], rate as f64);
    for _ in 0..wanted.len() {
        let open: Vec<usize> = (0..wanted.len()).filter(|&n| given[n] < wanted[n] as f64).collect();
        let Some(step) = open.iter().map(|&n| wanted[n] as f64 - given[n]).reduce(f64::min) else { break };
        let step = step.min(left / open.len() as f64);
        left -= step * open.len() as f64;
        open.iter().for_each(|&n| given[n] += step);
    }
    given[of] + left / wanted.len() as f64
}

proptest! {
    #[test]
    fn shares_are_max_min_fair(rate in 1u64..1_000_000, mut wanted in prop::collection::vec(0u64..1_000_000, 1..9)) {
        wanted.iter_mut().for_each(|it| *it = (*it).min(rate));
        wanted.sort_unstable();
        let mut sum = 0;
        for (n, &own) in wanted.iter().enumerate() {
            let share = fair_share(rate, &wanted, own);
            sum += share;
            prop_assert!((share as f64 - slow_share(rate, &wanted, n)).abs() <= 1.0 + wanted.len() as f64);
        }
        prop_assert!(sum <= rate + (wanted.len() * wanted.len()) as u64);
    }

    /// However demands change, all switches together pass no more than the rate and 5 %, besides what is allowed at once: a burst at each, and 300 ms at the rate.
    #[test]
    fn whatever_a_tenant_sends_all_switches_together_hold_its_rate(
        switches in 2usize..7,
        loss in 0u64..10,
        random: u64,
        changes in prop::collection::vec((10u64..2_000, 0u64..6, prop::collection::vec(0.0f64..2.0, 7)), 1..20),
    ) {
        let mut fabric = Fabric::new(switches, loss, random);
        for (ms, silent, demands) in changes {
            for (n, (it, demand)) in fabric.switches.iter_mut().zip(demands).enumerate() {
                it.demand = if n as u64 == silent { 0.0 } else { demand * RATE as f64 };
            }
            fabric.run(ms);
        }
        let allowed = switches as f64 * BURST + 0.3 * RATE as f64;
        prop_assert!(fabric.most_excess <= allowed, "{} of {allowed}", fabric.most_excess);
        // When nothing changes any more, the rate is used, and no more.
        fabric.switches.iter_mut().for_each(|it| it.demand = 5e6);
        fabric.run(4_000);
        let sum: f64 = fabric.run(5_000).iter().sum();
        prop_assert!((0.93..=1.02).contains(&(sum / (5.0 * RATE as f64))), "{sum}");
        prop_assert!(fabric.sum_of_shares() <= RATE + RATE / 20);
    }
}
