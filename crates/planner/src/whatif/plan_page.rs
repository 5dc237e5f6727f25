//! A plan of growth as one HTML file: what is carried after each step and while it is built, its price, and the table.

use super::plan::Growth;
use super::plan_table;
use crate::analyze::report::html::STYLE;
use crate::analyze::report::svg::{Axis, Curve, escape, plot};

/// Renders it.
pub fn render(growth: &Growth) -> String {
    let title = format!("Growth of {}", growth.start.fabric);
    let plots = [throughput(growth), price(growth)].concat();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
<title>{0}</title><style>{STYLE}</style></head>\n<body><main><h1>{0}</h1>\n\
<div class=\"plots\">{plots}</div>\n<pre>{1}</pre></main></body></html>\n",
        escape(&title),
        escape(&plan_table::render(growth))
    )
}

/// What is carried after each step, and between two steps the least that is carried while the second is built.
fn throughput(growth: &Growth) -> String {
    let mut carried = vec![(0.0, growth.start.throughput_bps)];
    let mut lowest = Vec::new();
    // The traffic before each step, in bits per second.
    let mut before = growth.start.throughput_bps / growth.start.throughput.max(f64::MIN_POSITIVE);
    for (at, step) in growth.steps.iter().enumerate() {
        let x = (at + 1) as f64;
        lowest.push((x - 0.5, step.transition.lowest.unwrap_or(0.0) * before));
        carried.push((x, step.state.throughput_bps));
        before = step.state.throughput_bps / step.state.throughput.max(f64::MIN_POSITIVE);
    }
    let curves = [Curve { name: "after the step", points: carried }, Curve { name: "lowest while it is built", points: lowest }];
    plot(
        "Throughput",
        &STEPS,
        &Axis { label: "Gbps of all racks together", is_log: false, form: |it| format!("{:.0}", it / 1e9) },
        &curves,
    )
}

fn price(growth: &Growth) -> String {
    let states = std::iter::once(&growth.start).chain(growth.steps.iter().map(|step| &step.state));
    let points: Vec<_> = states.enumerate().filter_map(|(at, it)| Some((at as f64, it.cost.as_ref()?.total))).collect();
    if points.is_empty() {
        return String::new();
    }
    let money = Axis { label: "price of all parts, thousands", is_log: false, form: |it| format!("{:.0}", it / 1e3) };
    plot("Price", &STEPS, &money, &[Curve { name: "price", points }])
}

const STEPS: Axis = Axis {
    label: "step; 0: before",
    is_log: false,
    form: |it| if it.fract() == 0.0 { format!("{it:.0}") } else { String::new() },
};
