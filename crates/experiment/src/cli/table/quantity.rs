//! Numbers with units, three significant digits each.

use crate::metrics::words;

/// A metric's value with its unit: `14.2 Gbps`, `96.3 %`, `13.2 M requests/s`.
pub fn show(metric: &str, value: f64) -> String {
    match words::unit(metric).as_str() {
        "bps" => scaled(value, &[(1e12, "Tbps"), (1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"), (1.0, "bps")]),
        "s" => scaled(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")]),
        "B" => scaled(value, &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")]),
        "share" => format!("{} %", digits(value * 100.0)),
        "count" | "" => number(value),
        rate => {
            let units =
                [(1e9, "G "), (1e6, "M "), (1e3, "k "), (1.0, "")].map(|(scale, prefix)| (scale, format!("{prefix}{rate}")));
            scaled(value, &units.each_ref().map(|(scale, unit)| (*scale, unit.as_str())))
        }
    }
}

/// A ratio of two runs: `2.91x`.
pub fn ratio(value: f64) -> String {
    format!("{}x", digits(value))
}

/// Three significant digits, without a fraction that is zero: `14.2`, `0.0123`, `10`, `12345`.
pub fn digits(value: f64) -> String {
    // The exponent after rounding: 9.996 has that of 10.
    let rounded = format!("{value:.2e}");
    let exponent: i32 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let text = format!("{value:.*}", usize::try_from(2 - exponent).unwrap_or(0));
    match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|b| b == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// Counts in full, other numbers in three digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { digits(value) }
}

/// In the largest unit that the value reaches, else in the smallest; zero in the base unit.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let base = units.iter().find(|(scale, _)| *scale == 1.0);
    // 999.6 Mbps is 1 Gbps in three digits.
    let reached = units.iter().find(|(scale, _)| value.abs() >= scale * 0.9995).or(units.last());
    let (scale, unit) = if value == 0.0 { base } else { reached }.expect("a quantity has units");
    format!("{} {unit}", digits(value / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_the_unit_of_the_metric() {
        let cases = [
            ("goodput_bps", 14.237e9, "14.2 Gbps"),
            ("goodput_bps", 999.7e6, "1 Gbps"),
            ("goodput_bps", 0.0, "0 bps"),
            ("optimal_fraction", 0.962_81, "96.3 %"),
            ("efficiency", 0.5, "50 %"),
            ("completion_s", 0.012_345, "12.3 ms"),
            ("wall_s", 395.4, "395 s"),
            ("wall_s", 12_345.0, "12345 s"),
            ("requests_per_s", 13_151_300.0, "13.2 M requests/s"),
            ("lookups_per_s", 4_200.0, "4.20 k lookups/s"),
            ("updates_per_s", 2.0, "2 updates/s"),
            ("jain_flows", 0.998_76, "0.999"),
            ("drops", 123_456.0, "123456"),
            ("rss_bytes", 48.0, "48 B"),
        ];
        for (metric, value, text) in cases {
            assert_eq!(show(metric, value), text, "{metric}");
        }
        assert_eq!((digits(9.996), digits(0.0), digits(-0.001_234)), ("10".to_owned(), "0".to_owned(), "-0.00123".to_owned()));
    }
}
