//! The search: all candidates are built and priced, and by price those are evaluated that no cheaper one is sure to beat.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;
use weft_experiment::scenario::read_fabric;
use weft_experiment::scenario::source::{Form, Overrides, Source};
use weft_fabric::{BitsPerSec, Fabric, LinkId};

use super::catalogue::{Ask, candidates};
use crate::cost::front::front;
use crate::cost::{Bill, Design, PriceList};
use crate::error::{Error, Result};
use crate::throughput::Throughput;

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Servers and speed.
    pub ask: Ask,
    /// The most that it may cost.
    pub budget: Option<f64>,
    /// The least throughput, as a fraction of the speed.
    pub at_least: f64,
    /// How many designs.
    pub top: usize,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// How many servers were asked for.
    pub servers: u32,
    /// Their speed.
    pub speed_bps: u64,
    /// The most that it may cost.
    pub budget: Option<f64>,
    /// Fabrics that can be built.
    pub considered: usize,
    /// Those of them that the list has parts for.
    pub priced: usize,
    /// Those within the budget.
    pub affordable: usize,
    /// Those whose throughput was computed: no cheaper one is sure to beat them.
    pub evaluated: usize,
    /// How many are on the front.
    pub on_front: usize,
    /// The best few, by price: of the front, from one end to the other.
    pub designs: Vec<Choice>,
}

/// A design with its fabric.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// Bill and throughput.
    #[serde(flatten)]
    pub design: Design,
    /// The total for each server that was asked for; the fabric may have more.
    pub per_asked_server: f64,
    /// Throughput of a server under the worst matrix, at most the speed.
    pub worst_bps: f64,
    /// The same with the worst single failure.
    pub failure_bps: f64,
    /// The `[fabric]` table.
    pub table: String,
}

/// A candidate that was priced.
struct Priced {
    table: String,
    bill: Bill,
    fabric: Fabric,
}

/// Searches.
///
/// # Errors
/// Nothing sold is fast enough; no candidate can be built from the list, within the budget, or with the throughput.
pub fn search(search: &Search, prices: &PriceList, path: &Path) -> Result<Found> {
    let Search { ask, budget, .. } = *search;
    check_speed(ask, prices, path)?;
    let built: Vec<(String, Fabric)> = candidates(ask, prices).into_par_iter().filter_map(build).collect();
    let considered = built.len();
    let bills: Vec<std::result::Result<Priced, String>> = built
        .into_par_iter()
        .map(|(table, fabric)| Ok(Priced { bill: Bill::of(&fabric, prices, false)?, table, fabric }))
        .collect();
    let (mut priced, missing): (Vec<Priced>, Vec<String>) = bills.into_iter().fold(Default::default(), |mut all, bill| {
        match bill {
            Ok(it) => all.0.push(it),
            Err(message) => all.1.push(message),
        }
        all
    });
    priced.sort_by(|a, b| a.bill.total.total_cmp(&b.bill.total).then_with(|| a.table.cmp(&b.table)));
    let Some(cheapest) = priced.first() else {
        let message = format!(
            "{} has no parts for any of {considered} fabrics of {} servers at {}",
            path.display(),
            ask.servers,
            ask.speed
        );
        return Err(Error::usage(
            message,
            format!("add parts to the list; missing, for example: {}", missing.first().map_or("", |it| it)),
        ));
    };
    let (cheapest, count) = (cheapest.bill.total, priced.len());
    priced.retain(|it| budget.is_none_or(|most| it.bill.total <= most));
    if priced.is_empty() {
        let most = budget.unwrap_or_default();
        let message = format!(
            "the cheapest of {count} fabrics of {} servers at {} costs {cheapest:.0} {}, and the budget is {most:.0}",
            ask.servers, ask.speed, prices.currency
        );
        return Err(Error::usage(message, format!("raise --budget to {:.0}, or lower --servers or --speed", cheapest.ceil())));
    }
    let affordable = priced.len();
    let all = evaluate(ask, priced);
    let evaluated = all.len();
    let all = fast_enough(search, all)?;
    let all = on_front(all);
    let (count_front, designs) = (all.len(), few(all, search.top));
    Ok(Found {
        servers: ask.servers,
        speed_bps: ask.speed.0,
        budget,
        considered,
        priced: count,
        affordable,
        evaluated,
        on_front: count_front,
        designs,
    })
}

fn check_speed(ask: Ask, prices: &PriceList, path: &Path) -> Result<()> {
    let fastest = prices.switches.iter().map(|it| it.rate).max();
    if fastest.is_some_and(|rate| rate >= ask.speed) {
        return Ok(());
    }
    let sold = fastest.map_or_else(|| "it has no switches".to_owned(), |rate| format!("its fastest ports have {rate}"));
    let message = format!("{} has no switch for servers of {}: {sold}", path.display(), ask.speed);
    Err(Error::usage(message, "add a faster switch to the list, or lower --speed"))
}

/// Builds the fabric of a `[fabric]` table as `weft run` would; `None` if there is no such fabric.
fn build(table: String) -> Option<(String, Fabric)> {
    let overrides = Overrides { form: Form::Plain, set: Vec::new() };
    let source = Source::from_text("design", format!("[fabric]\n{table}"), PathBuf::new(), &overrides).ok()?;
    let fabric = read_fabric(&source).ok()?.build().ok()?;
    Some((table, fabric))
}

/// From the cheapest on, without those that cannot reach what a cheaper one has.
fn evaluate(ask: Ask, priced: Vec<Priced>) -> Vec<Choice> {
    let mut all: Vec<Choice> = Vec::new();
    for Priced { table, bill, fabric } in priced {
        let [worst, failure] = at_most(&fabric).map(|it| it.min(ask.speed.as_f64()));
        if all.iter().any(|cheaper| cheaper.worst_bps >= worst && cheaper.failure_bps >= failure) {
            continue;
        }
        let throughput = Throughput::of(&fabric);
        let [worst_bps, failure_bps] = [throughput.worst_bps, throughput.failure_bps].map(|it| it.min(ask.speed.as_f64()));
        let per_asked_server = bill.total / f64::from(ask.servers);
        all.push(Choice { design: Design::new(bill, throughput), per_asked_server, worst_bps, failure_bps, table });
    }
    all
}

/// What a server has at most if all traffic leaves its rack (and its pod): links from a tier to the next, all up and, of servers with one edge switch,
/// without the fastest uplink of a switch. In bits per second.
fn at_most(fabric: &Fabric) -> [f64; 2] {
    let servers = fabric.host_count() as f64;
    let mut up: BTreeMap<u8, f64> = BTreeMap::new();
    let mut switches: BTreeMap<u32, (f64, f64, f64)> = BTreeMap::new();
    for cable in fabric.cables() {
        let link = fabric.link(LinkId(cable.0 * 2));
        let (from, to) = (fabric.node(link.from).tier, fabric.node(link.to).tier);
        let (low, low_tier) = if from < to { (link.from, from) } else { (link.to, to) };
        let rate = link.capacity.as_f64();
        if low_tier == 1 && from != to {
            let it = switches.entry(low.0).or_default();
            (it.1, it.2) = (it.1 + rate, it.2.max(rate));
        } else if from == 0 || to == 0 {
            let high = if from < to { link.to } else { link.from };
            switches.entry(high.0).or_default().0 += rate;
        }
        if from != to && low_tier >= 1 {
            *up.entry(low_tier).or_default() += rate;
        }
    }
    let all = up.into_values().map(|rate| rate / servers).fold(f64::INFINITY, f64::min);
    let is_single = fabric.racks().iter().all(|rack| rack.switches.len() == 1);
    let nic = fabric.hosts().map(|host| fabric.nic_capacity(host).as_f64()).fold(0.0, f64::max);
    let without =
        |&(down, up, most): &(f64, f64, f64)| if down > 0.0 && up > 0.0 { nic * (up - most) / down } else { f64::INFINITY };
    let failure = switches.values().map(without).fold(f64::INFINITY, f64::min);
    [all, if is_single { failure.min(all) } else { all }]
}

fn fast_enough(search: &Search, mut all: Vec<Choice>) -> Result<Vec<Choice>> {
    let speed = search.ask.speed.as_f64();
    let fastest = all.iter().map(|it| it.worst_bps).fold(0.0, f64::max) / speed;
    all.retain(|it| it.worst_bps >= search.at_least * speed * (1.0 - 1e-9));
    if all.is_empty() {
        let within = search.budget.map_or(String::new(), |most| format!(" within a budget of {most:.0}"));
        let message = format!(
            "no design{within} has {} of the speed under the worst matrix: the fastest has {fastest:.3}",
            search.at_least
        );
        return Err(Error::usage(message, "lower --at-least, raise --budget, or add switches to the price list"));
    }
    Ok(all)
}

fn on_front(all: Vec<Choice>) -> Vec<Choice> {
    let merits: Vec<[f64; 3]> = all.iter().map(|it| [it.design.bill.total, -it.worst_bps, -it.failure_bps]).collect();
    let is_on = front(&merits);
    let mut kept: Vec<Choice> = all.into_iter().zip(is_on).filter_map(|(it, is_on)| is_on.then_some(it)).collect();
    // Two that are equal in all are one choice.
    kept.dedup_by(|a, b| (a.worst_bps, a.failure_bps) == (b.worst_bps, b.failure_bps));
    kept
}

/// At most so many, from the cheapest to the best, evenly; named by their numbers.
fn few(all: Vec<Choice>, most: usize) -> Vec<Choice> {
    let (count, kept) = (all.len(), all.len().min(most));
    let chosen: Vec<usize> = match kept {
        1 => vec![0],
        _ => (0..kept).map(|i| i * (count - 1) / (kept - 1)).collect(),
    };
    let mut few: Vec<Choice> = all.into_iter().enumerate().filter(|(at, _)| chosen.contains(at)).map(|(_, it)| it).collect();
    for (number, it) in few.iter_mut().enumerate() {
        it.design.bill.scenario = format!("design-{}", number + 1);
    }
    few
}

impl Found {
    /// The speed that was asked for.
    pub const fn speed(&self) -> BitsPerSec {
        BitsPerSec(self.speed_bps)
    }
}
