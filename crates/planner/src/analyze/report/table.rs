//! The report for a terminal of 80 columns.

use super::{Distribution, TrafficReport};

/// Renders it.
pub fn render(report: &TrafficReport) -> String {
    let mut out = String::new();
    let t = &report.totals;
    line(&mut out, &format!("{} flows, {}, {} hosts in {} groups", t.flows, size(t.bytes), t.hosts, t.groups));
    line(&mut out, &format!("  over {}, {} on average", time(t.duration_s), rate(t.mean_bps)));
    line(&mut out, &format!("  groups: {}", t.grouping));
    for file in &report.files {
        line(&mut out, &format!("  {} ({}): {} flows", file.file, file.format, file.flows));
    }
    if t.sampling_max > 1 {
        let rates = if t.sampling_min == t.sampling_max {
            format!("1 in {}", t.sampling_max)
        } else {
            format!("1 in {} to 1 in {}", t.sampling_min, t.sampling_max)
        };
        line(&mut out, &format!("  sampled {rates}: bytes are scaled up, numbers of flows are not"));
    }
    if t.out_of_order > 0 {
        let step = time(t.largest_step_back_s);
        line(&mut out, &format!("  {} starts before that of the record before, by {step} at most", t.out_of_order));
    }
    flows(&mut out, report);
    matrices(&mut out, report);
    hosts(&mut out, report);
    left_out(&mut out, report);
    out
}

fn flows(out: &mut String, report: &TrafficReport) {
    heading(out, "Flows");
    row(out, "", ["p10", "p50", "p90", "p99", "max"].map(str::to_owned));
    let quantiles = |d: &Distribution, form: fn(f64) -> String| [d.p10, d.p50, d.p90, d.p99, d.max].map(form);
    row(out, "size", quantiles(&report.sizes.flows, size));
    if let Some(durations) = &report.durations {
        row(out, "duration", quantiles(durations, time));
    }
    if let Some(rates) = &report.rates_bps {
        row(out, "mean rate", quantiles(rates, rate));
    }
    if let Some(gaps) = &report.arrivals.gaps_s {
        row(out, "gap between starts", quantiles(gaps, time));
    }
    if let Some(concurrency) = &report.concurrency {
        row(out, "concurrent, active host", quantiles(&concurrency.active, number));
        fact(out, "hosts without a flow", &percent(concurrency.idle));
    }
    let s = &report.sizes;
    let of_byte = format!("p10 {}, p50 {}, p90 {}", size(s.bytes_p10), size(s.bytes_p50), size(s.bytes_p90));
    fact(out, "size of a byte's flow", &of_byte);
    let e = &report.elephants;
    let above = format!("{} of the flows, {} of the bytes", percent(e.flows_above_10mb), percent(e.bytes_above_10mb));
    fact(out, "flows above 10 MB", &above);
    fact(out, "bytes in the top 1 %", &percent(e.bytes_in_top_1_percent));
    let arrivals = &report.arrivals;
    let worst = arrivals.dispersion.iter().max_by(|a, b| a.index.total_cmp(&b.index));
    let index = worst.map_or(String::new(), |d| format!(", dispersion {:.1} over {}", d.index, time(d.window_s)));
    fact(out, "starts of flows", &format!("{:.1}/s{index} (Poisson: 1)", arrivals.rate));
}

fn matrices(out: &mut String, report: &TrafficReport) {
    let m = &report.matrix;
    heading(out, &format!("Traffic matrices: {} intervals of {}", m.intervals, time(m.interval_s)));
    fact(out, "pairs with traffic", &percent(m.density));
    if let Some(change) = &m.change {
        let text = format!("p50 {}, p90 {} (0 %: same; 200 %: disjoint)", percent(change.p50), percent(change.p90));
        fact(out, "change to the next", &text);
    }
    let c = &report.clusters;
    let shown = [1usize, 5, 10, 20, 40, 60].into_iter().filter(|&k| k <= c.fitting_error.len());
    let errors: Vec<String> = shown.map(|k| format!("{k}: {}", percent(c.fitting_error[k - 1]))).collect();
    fact(out, "fitting error", &format!("by clusters {}", errors.join(", ")));
    if let Some(runs) = &c.run_length {
        fact(out, "run length", &format!("p50 {}, p90 {}, max {} intervals", runs.p50, runs.p90, runs.max));
    }
    let h = &report.hose;
    let needed = format!(
        "{} by hoses, {} by pairs: {:.2} times",
        rate(h.sum_of_peaks_out_bps),
        rate(h.sum_of_pair_peaks_bps),
        h.pairs_over_hose
    );
    fact(out, "sum of peaks", &needed);
    let use_of = format!("mean {}, at 90 % or more {} of the time", percent(h.mean_of_peak), percent(h.near_peak));
    fact(out, "group against its peak", &use_of);
    for pair in m.top_pairs.iter().take(5) {
        fact(out, &format!("{} to {}", pair.from, pair.to), &format!("{}, {}", size(pair.bytes), percent(pair.fraction)));
    }
}

fn hosts(out: &mut String, report: &TrafficReport) {
    heading(out, "Hosts");
    let l = &report.locality;
    let rack = if report.totals.grouping.starts_with("racks") { "rack" } else { "group" };
    let text = format!(
        "same {rack} {}, same pod {}, farther {}, outside {}",
        percent(l.same_rack),
        percent(l.same_pod),
        percent(l.between),
        percent(l.outside)
    );
    fact(out, "bytes by distance", &text);
    let s = &report.skew;
    fact(out, "busiest tenth", &format!("sends {}, receives {}", percent(s.top_tenth_out), percent(s.top_tenth_in)));
    fact(out, "Gini coefficient", &format!("{:.2} out, {:.2} in", s.gini_out, s.gini_in));
    for host in s.services.iter().chain(s.top_hosts.iter().take(3)) {
        fact(out, &host.name, &format!("{} out, {} in", size(host.out_bytes), size(host.in_bytes)));
    }
}

fn left_out(out: &mut String, report: &TrafficReport) {
    heading(out, "Left out");
    if report.left_out.is_empty() {
        line(out, "  nothing");
    }
    for it in &report.left_out {
        line(out, &format!("  {} {}, {}", it.count, it.reason, size(it.bytes as f64)));
        line(out, &format!("    first: {}", it.first));
    }
    for note in &report.notes {
        line(out, &format!("  note: {note}"));
    }
}

/// Columns of the terminal.
const WIDTH: usize = 80;

fn line(out: &mut String, text: &str) {
    let indent = text.len() - text.trim_start().len();
    let mut width = 0;
    for (at, word) in text.trim_start().split(' ').enumerate() {
        let length = word.chars().count();
        if at == 0 {
            *out += &" ".repeat(indent);
            width = indent;
        } else if width + 1 + length > WIDTH {
            *out += "\n";
            *out += &" ".repeat(indent + 2);
            width = indent + 2;
        } else {
            out.push(' ');
            width += 1;
        }
        *out += word;
        width += length;
    }
    out.push('\n');
}

fn heading(out: &mut String, text: &str) {
    out.push('\n');
    line(out, text);
}

fn fact(out: &mut String, name: &str, text: &str) {
    line(out, &format!("  {name}: {text}"));
}

fn row(out: &mut String, name: &str, cells: [String; 5]) {
    let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
    *out += &format!("  {name:<24}{cells}\n");
}

/// A number of things.
pub fn number(value: f64) -> String {
    if value >= 100.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// A fraction.
pub fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    if percent != 0.0 && percent < 1.0 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut at = 0;
    while value >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let digits = if at == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[at])
}

/// Bytes.
pub fn size(bytes: f64) -> String {
    scaled(bytes, 1e3, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// Bits per second.
pub fn rate(bps: f64) -> String {
    scaled(bps, 1e3, &["bps", "kbps", "Mbps", "Gbps", "Tbps", "Pbps"])
}

/// Seconds.
pub fn time(seconds: f64) -> String {
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 1.0 {
        return scaled(seconds * 1e9, 1e3, &["ns", "us", "ms"]);
    }
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}
