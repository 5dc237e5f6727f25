//! The report as one HTML file without scripts or outside resources, for light and dark displays.

use super::svg::{Axis, Curve, escape, heat_map, plot};
use super::table::{number, percent, rate, size, time};
use super::{LogHistogram, TrafficReport, table};
use crate::analyze::sketch::ratio;

/// Groups up to which a heat map is drawn.
const MAX_HEAT: usize = 120;

/// The style of the planner's pages.
pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark;--page:light-dark(#f6f7f9,#0f1318);--card:light-dark(#fff,#171c23);--line:light-dark(#e0e4ea,#2b343f);\
--ink:light-dark(#161b22,#e8ecf1);--ink2:light-dark(#4b5666,#a9b4c2);--c0:light-dark(#2560cf,#6ea8ff);--c1:light-dark(#d8640a,#ffa154)}\
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}\
main{max-width:1200px;margin:0 auto;padding:24px}h1{font-size:28px;margin:0 0 4px}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:16px;margin:16px 0}\
figure,pre{margin:0;padding:14px 16px;background:var(--card);border:1px solid var(--line);border-radius:8px}\
figcaption{font-weight:600;margin-bottom:6px}svg{width:100%;height:auto;display:block}svg.heat{max-width:440px;fill:var(--c0)}\
svg text{font-size:11px;fill:var(--ink2)}.grid{stroke:var(--line);fill:none}.curve{fill:none;stroke-width:2}\
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.keys{margin:4px 0 0;color:var(--ink2);font-size:13px}.key{margin-right:14px}\
.key::before{content:'';display:inline-block;width:14px;height:3px;margin-right:5px;vertical-align:middle}\
.k0::before{background:var(--c0)}.k1::before{background:var(--c1)}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.45 ui-monospace,Menlo,Consolas,monospace}";

/// Renders the page.
pub fn render(report: &TrafficReport) -> String {
    let t = &report.totals;
    let title = format!("{} flows, {} between {} hosts in {}", t.flows, size(t.bytes), t.hosts, time(t.duration_s));
    let plots: String = plots(report).concat();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
<title>Traffic study</title><style>{STYLE}</style></head>\n<body><main><h1>Traffic study</h1><p>{}</p>\n<div class=\"plots\">{plots}</div>\n\
<pre>{}</pre></main></body></html>\n",
        escape(&title),
        escape(&table::render(report))
    )
}

fn linear(label: &'static str, form: fn(f64) -> String) -> Axis {
    Axis { label, is_log: false, form }
}

fn logarithmic(label: &'static str, form: fn(f64) -> String) -> Axis {
    Axis { label, is_log: true, form }
}

fn plots(report: &TrafficReport) -> Vec<String> {
    let full = &report.full;
    let mut plots = vec![sizes(&full.sizes)];
    if report.concurrency.is_some() {
        let curve = Curve { name: "hosts and instants", points: cumulative(&full.concurrency, |bin| bin.1) };
        let x = linear("concurrent flows of a host", number);
        plots.push(plot("Concurrent flows (as VL2 figure 3)", &x, &linear("cumulative fraction", percent), &[curve]));
    }
    let (start, step, bytes) = &full.bytes_over_time;
    if bytes.len() > 1 {
        let point = |(at, bytes): (usize, &f64)| (at as f64 * step, bytes * 8.0 / step);
        let curve = Curve { name: "all flows, by their start", points: bytes.iter().enumerate().map(point).collect() };
        let title = format!("Traffic over time, from {start:.0} s on");
        plots.push(plot(&title, &linear("time", time), &linear("rate", rate), &[curve]));
    }
    let errors = &report.clusters.fitting_error;
    if errors.len() > 1 {
        let points = errors.iter().enumerate().map(|(at, &error)| ((at + 1) as f64, error)).collect();
        let curve = Curve { name: "fitting error", points };
        let x = linear("number of clusters of traffic matrices", number);
        plots.push(plot("How well a few matrices represent all (VL2 section 3.3)", &x, &linear("", percent), &[curve]));
    }
    plots.extend(classes(report));
    let changes = full.series.changes();
    if !changes.is_empty() {
        let curve = Curve { name: "pairs of intervals", points: cumulative_of(changes) };
        let x = linear("change, as a fraction of the larger matrix", percent);
        plots.push(plot("Change from an interval to the next", &x, &linear("cumulative fraction", percent), &[curve]));
    }
    if full.gaps.count() > 1 {
        let tail = cumulative(&full.gaps, |bin| bin.1).into_iter().map(|(x, y)| (x * 1e-9, 1.0 - y)).filter(|p| p.1 > 0.0);
        let curve = Curve { name: "longer gaps", points: tail.filter(|p| p.0 > 0.0).collect() };
        let (x, y) = (logarithmic("gap between two starts", time), logarithmic("fraction", percent));
        if curve.points.len() > 1 {
            plots.push(plot("Tail of the gaps between starts of flows", &x, &y, &[curve]));
        }
    }
    let dispersion = &report.arrivals.dispersion;
    if dispersion.len() > 1 {
        let points = dispersion.iter().map(|d| (d.window_s, d.index.max(1e-3))).collect();
        let curve = Curve { name: "variance over mean of the starts (Poisson: 1)", points };
        let (x, y) = (logarithmic("window", time), logarithmic("", number));
        plots.push(plot("Burstiness: index of dispersion", &x, &y, &[curve]));
    }
    if let Some(total) = report.matrix.total.as_ref().filter(|rows| rows.len() <= MAX_HEAT) {
        plots.push(heat_map("Who sends to whom", &report.matrix.groups, total));
    }
    plots
}

/// VL2 figure 2: fractions of the flows and of the bytes by size of flow.
fn sizes(sizes: &LogHistogram) -> String {
    let curves = [
        Curve { name: "flows", points: cumulative(sizes, |bin| bin.1) },
        Curve { name: "bytes", points: cumulative(sizes, |bin| bin.2) },
    ];
    let x = logarithmic("size of the flow", size);
    plot("Flow sizes, and bytes by flow size (as VL2 figure 2)", &x, &linear("cumulative fraction", percent), &curves)
}

/// VL2 figure 4a: the cluster of each interval.
fn classes(report: &TrafficReport) -> Option<String> {
    let clusters = &report.full.clusters;
    report.clusters.run_length.as_ref()?;
    let points = clusters.intervals.iter().zip(&clusters.class).map(|(&at, &class)| (at as f64, class as f64)).collect();
    let curve = Curve { name: "cluster of the interval's matrix", points };
    let x = linear("interval", number);
    Some(plot("Traffic pattern over time (as VL2 figure 4a)", &x, &linear("number of the cluster", number), &[curve]))
}

/// Cumulative fractions of a weight of the bins: (largest value, count, sum).
fn cumulative(histogram: &LogHistogram, weight: impl Fn(&(f64, f64, f64)) -> f64) -> Vec<(f64, f64)> {
    let bins: Vec<(f64, f64, f64)> = histogram.bins().map(|b| (b.to as f64, b.count as f64, b.sum)).collect();
    let all: f64 = bins.iter().map(&weight).sum();
    let mut below = 0.0;
    let point = |bin: &(f64, f64, f64)| {
        below += weight(bin);
        (bin.0, ratio(below, all))
    };
    bins.iter().map(point).collect()
}

fn cumulative_of(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let count = values.len() as f64;
    values.into_iter().enumerate().map(|(at, value)| (value, (at + 1) as f64 / count)).collect()
}
