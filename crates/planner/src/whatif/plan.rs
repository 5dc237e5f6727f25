//! `weft whatif --plan`: a plan of growth, in TOML, with what each step carries and costs, and the least that is carried while it is built.
//!
//! ```toml
//! service_level = 0.5    # the smallest throughput, as a fraction of the traffic
//! [[step]]
//! name = "a third intermediate switch"
//! set = { "fabric.intermediates" = 3 }    # further keys of the scenario; those of earlier steps stay
//! ```

use std::path::Path;

use miette::Diagnostic as _;
use serde::{Deserialize, Serialize};
use toml::{Spanned, Table, Value};
use weft_experiment::{bundle, subways};

use super::growth::{Transition, throughput};
use crate::cost::{Bill, PriceList};
use crate::error::{Error, Result};
use crate::fabric::{Case, ScenarioArgs};
use crate::routing::demand::TrafficArgs;
use crate::routing::matrix::Matrix;

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The smallest throughput while it is built, as a fraction of the traffic.
    pub service_level: f64,
    /// In order; at least one.
    pub steps: Vec<Step>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Dotted keys of the scenario and their values.
    pub set: Vec<(String, Value)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    service_level: Spanned<f64>,
    #[serde(default)]
    step: Vec<Written>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    set: Table,
}

/// Reads a plan, from the disk or a bundled one.
///
/// # Errors
/// A file that cannot be read, an unknown key, no step, a service level that is not above 0 and at most 1.
pub fn read(path: &Path) -> Result<Plan> {
    let text = bundle::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    let line = |at: usize| format!("line {}", text[..at.min(text.len())].matches('\n').count() + 1);
    let file: File = toml::from_str(&text).map_err(|e| {
        let place = e.span().map_or("the file".to_owned(), |span| line(span.start));
        Error::input(path, place, e.message().to_owned(), "write service_level, and [[step]] with name and set")
    })?;
    let service_level = *file.service_level.get_ref();
    if !(service_level > 0.0 && service_level <= 1.0) {
        let message = format!("service_level is {service_level}");
        return Err(Error::input(path, line(file.service_level.span().start), message, "write a fraction above 0 and at most 1"));
    }
    if file.step.is_empty() {
        return Err(Error::input(path, "the file", "the plan has no step", "write [[step]] with name and set"));
    }
    let step = |it: Written| {
        let mut set = Vec::new();
        flatten("", it.set, &mut set);
        Step { name: it.name, set }
    };
    Ok(Plan { service_level, steps: file.step.into_iter().map(step).collect() })
}

/// Dotted keys: `"fabric.k" = 4`, `fabric.k = 4` and `fabric = { k = 4 }` are the same.
fn flatten(prefix: &str, table: Table, into: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        match value {
            Value::Table(inner) => flatten(&format!("{prefix}{key}."), inner, into),
            value => into.push((format!("{prefix}{key}"), value)),
        }
    }
}

/// What a plan does.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// The pattern, or the file of the matrices.
    pub traffic: String,
    /// The smallest throughput while it is built, as a fraction of the traffic.
    pub service_level: f64,
    /// The fabric before the first step.
    pub start: State,
    /// After each step.
    pub steps: Vec<Stage>,
    /// Whether each step meets the service level.
    pub met: bool,
}

/// A fabric that is built.
#[derive(Clone, Debug, Serialize)]
pub struct State {
    /// Its title.
    pub fabric: String,
    /// Number of servers.
    pub servers: usize,
    /// The fraction of the traffic on this fabric that ECMP carries, all pairs of racks alike; 0 if a pair is not connected. May be above 1.
    pub throughput: f64,
    /// The same in bits per second, of all racks together.
    pub throughput_bps: f64,
    /// With a price list.
    pub cost: Option<Cost>,
}

/// A step that is done.
#[derive(Clone, Debug, Serialize)]
pub struct Stage {
    /// The step's name.
    pub name: String,
    /// The fabric after it.
    #[serde(flatten)]
    pub state: State,
    /// What it changed and what is carried while it is built.
    #[serde(flatten)]
    pub transition: Transition,
    /// Whether the service level is met while it is built and afterwards.
    pub met: bool,
}

/// The price of a fabric.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Such as USD.
    pub currency: String,
    /// Of all parts.
    pub total: f64,
    /// The total less that of the step before.
    pub difference: f64,
    /// Parts that the step before had fewer of: name, unit, how many more.
    pub bought: Vec<(String, String, f64)>,
    /// Parts that the step before had more of.
    pub freed: Vec<(String, String, f64)>,
}

/// A fabric with its traffic and bill.
struct Built {
    case: Case,
    traffic: String,
    matrix: Matrix,
    bill: Option<Bill>,
}

/// Evaluates a plan.
///
/// # Errors
/// What is wrong with the scenario, with the step whose keys made it so; something that the list does not sell.
pub fn grow(path: &Path, scenario: &ScenarioArgs, traffic: &TrafficArgs, prices: Option<&PriceList>) -> Result<Growth> {
    let plan = read(path)?;
    let mut args = ScenarioArgs { scenario: scenario.scenario.clone(), set: scenario.set.clone() };
    let mut before = build(&args, traffic, prices)?;
    let name = before.traffic.clone();
    let start = state(&before, None);
    let mut steps = Vec::new();
    for Step { name, set } in plan.steps {
        args.set.extend(set);
        let after = build(&args, traffic, prices).map_err(|e| {
            let help = e.help().map_or_else(|| "mend the keys of its `set`".to_owned(), |help| help.to_string());
            Error::input(path, format!("step `{name}`"), e.to_string(), help)
        })?;
        let transition = transition(&before, &after)?;
        let state = state(&after, before.bill.as_ref());
        let is_enough = |it: f64| it >= plan.service_level * (1.0 - 1e-9);
        let met = transition.lowest.is_some_and(is_enough) && is_enough(state.throughput);
        steps.push(Stage { name, state, transition, met });
        before = after;
    }
    let met = steps.iter().all(|step| step.met);
    Ok(Growth { traffic: name, service_level: plan.service_level, start, steps, met })
}

/// Subways fabrics with the same servers are rewired, servers' cables too; others are compared by names.
fn transition(before: &Built, after: &Built) -> Result<Transition> {
    let fabrics = [before, after].map(|it| &it.case.fabric);
    let specs = [before, after].map(|it| it.case.spec.as_ref().filter(|spec| subways::is_subways(spec)));
    match specs {
        [Some(from), Some(to)] if fabrics[0].host_count() == fabrics[1].host_count() => {
            Ok(Transition::rewired(&subways::upgrade(from, to)?, fabrics[0], &before.matrix))
        }
        _ => Ok(Transition::between(fabrics[0], fabrics[1], &before.matrix)),
    }
}

fn build(args: &ScenarioArgs, traffic: &TrafficArgs, prices: Option<&PriceList>) -> Result<Built> {
    let case = args.first_case(!traffic.is_given())?;
    let demand = traffic.on(case.run.as_ref(), &case.fabric, &case.network)?;
    let bill = prices.map(|list| Bill::of(&case.fabric, list, false)).transpose();
    let bill = bill.map_err(|message| Error::usage(message, "add it to the price list, or change the fabric"))?;
    Ok(Built { matrix: demand.mean(), traffic: demand.name, bill, case })
}

fn state(built: &Built, before: Option<&Bill>) -> State {
    let fraction = throughput(&built.case.network, &built.matrix);
    State {
        fabric: built.case.fabric.title().to_owned(),
        servers: built.case.fabric.host_count(),
        throughput: fraction,
        throughput_bps: fraction * built.matrix.total(),
        cost: built.bill.as_ref().map(|bill| cost(bill, before.unwrap_or(bill))),
    }
}

fn cost(now: &Bill, before: &Bill) -> Cost {
    let more = |of: &Bill, than: &Bill| {
        let other =
            |part: &str, unit| than.parts.iter().find(|it| (&*it.part, it.unit) == (part, unit)).map_or(0.0, |it| it.count);
        let lines = of.parts.iter().map(|it| (it.part.clone(), it.unit.to_owned(), it.count - other(&it.part, it.unit)));
        lines.filter(|line| line.2 > 1e-9).collect()
    };
    Cost {
        currency: now.currency.clone(),
        total: now.total,
        difference: now.total - before.total,
        bought: more(now, before),
        freed: more(before, now),
    }
}
