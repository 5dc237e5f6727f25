//! Fields of text logs: times, sizes, ports, protocols.

use weft_fabric::Bytes;
use weft_fabric::time::Duration;

const NS: i64 = 1_000_000_000;

/// A time in nanoseconds: seconds (`1.5`, `1e-6`), a time with its unit (`20ms`), or a date with a time of day (`2026-01-31 12:00:00.250`, in UTC).
pub fn time(text: &str) -> Option<i64> {
    if let Some(ns) = decimal_seconds(text) {
        return Some(ns);
    }
    if text.len() >= 19 && text.as_bytes()[4] == b'-' {
        return date(text);
    }
    if let Ok(seconds) = text.parse::<f64>() {
        let ns = seconds * 1e9;
        return (ns.is_finite() && ns.abs() < 9e18).then_some(ns.round() as i64);
    }
    let span: Duration = text.parse().ok()?;
    i64::try_from(span.as_ps() / 1_000).ok()
}

/// `12` or `12.345`, without loss down to a nanosecond.
fn decimal_seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 10 || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let mut ns = whole.parse::<i64>().ok()?.checked_mul(NS)?;
    let mut unit = NS / 10;
    for digit in fraction.bytes().take(9) {
        ns = ns.checked_add(i64::from(digit - b'0') * unit)?;
        unit /= 10;
    }
    Some(ns)
}

/// `2026-01-31 12:00:00.250`, with a `T` or a space.
fn date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if separators.iter().any(|&(at, byte)| bytes[at] != byte) || !matches!(bytes[10], b' ' | b'T') {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let good = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60;
    let seconds = decimal_seconds(text.get(17..)?.trim_end_matches('Z'))?;
    if !good || seconds >= 61 * NS {
        return None;
    }
    ((days(year, month, day) * 24 + hour) * 60 + minute).checked_mul(60)?.checked_mul(NS)?.checked_add(seconds)
}

/// Days since 1970 of the Gregorian calendar.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Bytes: a number, or a size with its unit.
pub fn bytes(text: &str) -> Option<u64> {
    if let Ok(bytes) = text.parse() {
        return Some(bytes);
    }
    if let Ok(bytes) = text.parse::<f64>() {
        return (0.0..1e19).contains(&bytes).then_some(bytes as u64);
    }
    text.parse::<Bytes>().ok().map(|it| it.0)
}

/// A port; of ICMP, nfdump writes type and code as `8.0`: no port.
pub fn port(text: &str) -> Option<u16> {
    match text {
        "" | "-" => Some(0),
        _ => text.parse().ok().or_else(|| text.contains('.').then_some(0)),
    }
}

/// The number of a protocol, by name or by number; 0 of one that is not known.
pub fn protocol(text: &str) -> u8 {
    match text.to_ascii_lowercase().as_str() {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "gre" => 47,
        "esp" => 50,
        "icmp6" | "ipv6-icmp" => 58,
        "sctp" => 132,
        number => number.parse().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_in_all_forms() {
        assert_eq!(time("1.5"), Some(1_500_000_000));
        assert_eq!(time("1e-6"), Some(1_000));
        assert_eq!(time("20ms"), Some(20_000_000));
        assert_eq!(time("1700000000.123456789"), Some(1_700_000_000_123_456_789));
        assert_eq!(time("1970-01-02 00:00:01.250"), Some(86_401_250_000_000));
        assert_eq!(time("2026-01-31T12:00:00Z"), Some(1_769_860_800_000_000_000));
        for wrong in ["", "x", "2026-13-31 12:00:00", "2026-01-31 12:00", "nan", "1e300", "é026-01-31 12:00:00"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_ports_and_protocols() {
        assert_eq!((bytes("12"), bytes("10MB"), bytes("-1"), bytes("x")), (Some(12), Some(10_000_000), None, None));
        assert_eq!((port("80"), port("8.0"), port("-"), port("70000")), (Some(80), Some(0), Some(0), None));
        assert_eq!((protocol("TCP"), protocol("89"), protocol("x")), (6, 89, 0));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,30}", date in "[0-9]{4}-[0-9é]{2}-[0-9]{2}[ T][0-9:.]{5,12}") {
            let _ = (time(&text), bytes(&text), port(&text), protocol(&text), time(&date));
        }
    }
}
