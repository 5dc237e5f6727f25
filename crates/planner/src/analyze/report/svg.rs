//! Plots as SVG, drawn by the program itself: the page needs no script.

use std::fmt::Write as _;

use super::super::sketch::ratio;

/// Width and height of a plot, and the margins of its axes.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 42.0;

/// An axis.
pub struct Axis {
    /// What it counts.
    pub label: &'static str,
    /// Whether it is logarithmic.
    pub is_log: bool,
    /// How a value of it is written.
    pub form: fn(f64) -> String,
}

/// A curve with its name.
pub struct Curve {
    /// Its name, in the legend.
    pub name: &'static str,
    /// Its points, in order.
    pub points: Vec<(f64, f64)>,
}

struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64> + Clone, is_log: bool, from: f64, to: f64) -> Self {
        let usable = values.filter(|&v| v.is_finite() && (!is_log || v > 0.0));
        let (low, high) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let low = if is_log { low } else { low.min(0.0) };
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let high = if high > low {
            high
        } else if is_log {
            low * 10.0
        } else {
            low + 1.0
        };
        Self { low, high, is_log, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let part = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let (first, last) = (self.low.log10().ceil() as i32, self.high.log10().floor() as i32);
            let step = ((last - first) / 6 + 1).max(1) as usize;
            return (first..=last).step_by(step).map(|e| 10f64.powi(e)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * unit).find(|&s| s >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|&v| v <= self.high * (1.0 + 1e-9)).take(12).collect()
    }
}

/// Text inside markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A plot of curves.
pub fn plot(title: &str, x: &Axis, y: &Axis, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let across = Scale::new(points().map(|p| p.0), x.is_log, LEFT, WIDTH - RIGHT);
    let up = Scale::new(points().map(|p| p.1), y.is_log, HEIGHT - BOTTOM, TOP);
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escape(title));
    for tick in across.ticks() {
        let at = across.at(tick);
        // A label at the right edge ends there.
        let (label_at, anchor) = if at > WIDTH - 2.0 * RIGHT { (WIDTH - 1.0, "end") } else { (at, "middle") };
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{:.1}\"/><text x=\"{label_at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM + 15.0,
            escape(&(x.form)(tick))
        );
    }
    for tick in up.ticks() {
        let at = up.at(tick);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            escape(&(y.form)(tick))
        );
    }
    for (number, curve) in curves.iter().enumerate() {
        let mut path = String::new();
        for (at, point) in curve.points.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if at == 0 { 'M' } else { 'L' }, across.at(point.0), up.at(point.1));
        }
        let _ = write!(out, "<path class=\"curve c{number}\" d=\"{path}\"/>");
    }
    let _ = write!(
        out,
        "<text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></svg>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escape(x.label)
    );
    let keys: String =
        curves.iter().enumerate().map(|(n, c)| format!("<span class=\"key k{n}\">{}</span>", escape(c.name))).collect();
    format!(
        "<figure><figcaption>{}</figcaption>{out}<p class=\"keys\">{keys}<span>{}</span></p></figure>",
        escape(title),
        escape(y.label)
    )
}

/// A heat map of bytes between groups, on a logarithmic scale.
pub fn heat_map(title: &str, names: &[String], rows: &[Vec<f64>]) -> String {
    let largest = rows.iter().flatten().copied().fold(0.0, f64::max);
    let cell = (440.0 / names.len().max(1) as f64).min(28.0);
    let side = cell * names.len() as f64;
    let mut out = format!(
        "<svg class=\"heat\" viewBox=\"0 0 {:.1} {:.1}\" role=\"img\" aria-label=\"{}\">",
        side + 2.0,
        side + 2.0,
        escape(title)
    );
    for (from, row) in rows.iter().enumerate() {
        for (to, &bytes) in row.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0) {
            // Six orders of magnitude below the largest are drawn.
            let heat = (1.0 + ratio(bytes, largest).log10() / 6.0).clamp(0.05, 1.0);
            let _ = write!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{cell:.2}\" height=\"{cell:.2}\" fill-opacity=\"{heat:.2}\"><title>{} to {}: {}</title></rect>",
                to as f64 * cell + 1.0,
                from as f64 * cell + 1.0,
                escape(&names[from]),
                escape(&names[to]),
                super::table::size(bytes)
            );
        }
    }
    format!(
        "<figure><figcaption>{}</figcaption>{out}</svg><p class=\"keys\"><span>rows send, columns receive; darker is more, from {} down by six orders of magnitude</span></p></figure>",
        escape(title),
        super::table::size(largest)
    )
}
