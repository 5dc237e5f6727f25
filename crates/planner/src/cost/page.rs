//! Designs as one HTML file: price by server against throughput, at p99 and under failure, and the Pareto front of both.

use std::fmt::Write as _;

use super::front::{Design, Designs, front};
use crate::analyze::report::html::STYLE;
use crate::analyze::report::svg::escape;

/// Renders the page.
pub fn render(title: &str, designs: &Designs, text: &str) -> String {
    let all = &designs.designs;
    let names: String =
        all.iter().map(|it| format!("<li>{}: {}</li>", escape(&it.bill.scenario), escape(&it.bill.fabric))).collect();
    let plots = [
        plot("99 % of the matrices reach", all, |it| it.throughput.p99_bps, 0),
        plot("With the worst matrix and the worst single failure", all, |it| it.throughput.failure_bps, 1),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
<title>{0}</title><style>{STYLE}.dot0{{fill:var(--c0)}}.dot1{{fill:var(--c1)}}.off{{opacity:.35}}.front{{fill:none;stroke-width:2;opacity:.6}}\
.name{{font-weight:600}}ol{{margin:8px 0;padding-left:28px}}</style></head>\n<body><main><h1>{0}</h1>\n<ol>{names}</ol>\n\
<div class=\"plots\">{1}</div>\n<pre>{2}</pre></main></body></html>\n",
        escape(title),
        plots.concat(),
        escape(text)
    )
}

/// A dot for each design with its number; designs on this front are joined, others are pale.
fn plot(name: &str, designs: &[Design], of: fn(&Design) -> f64, color: usize) -> String {
    let merits: Vec<[f64; 2]> = designs.iter().map(|it| [it.bill.per_server, -of(it)]).collect();
    let on_front = front(&merits);
    let (x, y) = (Scale::new(designs.iter().map(|it| it.bill.per_server)), Scale::new(designs.iter().map(|it| of(it) / 1e9)));
    let at = |it: &Design| {
        (
            LEFT + x.part(it.bill.per_server) * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - y.part(of(it) / 1e9) * (HEIGHT - BOTTOM - TOP),
        )
    };
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(name));
    for tick in x.ticks() {
        let (at, low) = (LEFT + x.part(tick) * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{low:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            low + 15.0,
            figure(tick)
        );
    }
    for tick in y.ticks() {
        let at = HEIGHT - BOTTOM - y.part(tick) * (HEIGHT - BOTTOM - TOP);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            figure(tick)
        );
    }
    let mut line: Vec<(f64, f64)> = designs.iter().zip(&on_front).filter(|(_, on)| **on).map(|(it, _)| at(it)).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    let points: Vec<String> = line.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = write!(out, "<polyline class=\"front c{color}\" points=\"{}\"/>", points.join(" "));
    for (number, (design, on)) in designs.iter().zip(&on_front).enumerate() {
        let (x, y) = at(design);
        let off = if *on { "" } else { " off" };
        let (price, gbps) = (design.bill.per_server, of(design) / 1e9);
        let _ = write!(
            out,
            "<g><title>{}: {price:.2} {} by server, {gbps:.3} Gbps</title><circle class=\"dot{color}{off}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>\
<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            escape(&design.bill.scenario),
            escape(&design.bill.currency),
            x + 8.0,
            y - 6.0,
            number + 1
        );
    }
    let currency = designs.first().map_or("", |it| &it.bill.currency);
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">price by server, {}</text></svg>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escape(currency)
    );
    format!(
        "<figure><figcaption>{}</figcaption>{out}<p class=\"keys\"><span>throughput of a server, Gbps; pale designs are beaten by another one</span></p></figure>",
        escape(name)
    )
}

/// From 0 to a bit more than the largest value.
struct Scale(f64);

impl Scale {
    fn new(values: impl Iterator<Item = f64>) -> Self {
        let largest = values.fold(0.0, f64::max);
        Self(if largest > 0.0 { largest * 1.08 } else { 1.0 })
    }

    fn part(&self, value: f64) -> f64 {
        value / self.0
    }

    fn ticks(&self) -> Vec<f64> {
        let rough = self.0 / 5.0;
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|it| it * unit).find(|&it| it >= rough).unwrap_or(rough);
        (0..).map(|n| f64::from(n) * step).take_while(|&it| it <= self.0).collect()
    }
}

fn figure(value: f64) -> String {
    // Ticks are multiples of 1, 2 or 5 times a power of ten: digits beyond the sixth are rounding.
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 42.0;
