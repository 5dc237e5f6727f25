//! Fields that several formats share: text, times, sizes, counts.

use super::FormatError;
use crate::time::{Duration, Instant};
use crate::traffic::Size;
use crate::units::Bytes;

/// The bytes as text, without a byte-order mark.
pub(in crate::formats) fn text(bytes: &[u8]) -> Result<&str, FormatError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
        FormatError::new(line, "this is not text", "the file must be plain UTF-8 text: is it compressed, or another file?")
    })
}

/// The lines that say something, with their numbers from 1: no blank ones, none that begin with `#`.
pub(in crate::formats) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())).filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// A start: seconds, or with a unit.
pub(super) fn start(line: usize, field: &str) -> Result<Instant, FormatError> {
    match quantity(field, "s", |s| s * 1e12) {
        Ok(ps) => Ok(Instant::ZERO.saturating_add(Duration::from_ps(ps))),
        Err(Number::Negative) => Err(FormatError::new(
            line,
            format!("the start `{field}` is negative"),
            "time counts from the start of the run: shift all starts so that the first is 0 or later",
        )),
        Err(Number::Bad) => match field.parse::<Duration>() {
            Ok(span) => Ok(Instant::ZERO.saturating_add(span)),
            Err(_) => Err(FormatError::new(
                line,
                format!("`{field}` is not a start"),
                "write seconds, such as `1.5`, or a time with its unit, such as `20ms`; at most 213 days",
            )),
        },
    }
}

/// A size: bytes, or with a unit, or `inf`.
pub(super) fn size(line: usize, field: &str) -> Result<Size, FormatError> {
    if field == "inf" || field == "infinite" {
        return Ok(Size::Infinite);
    }
    let help = "write bytes, such as `1000000`, a size with its unit, such as `10MB`, or `inf`";
    let bytes = match quantity(field, "B", |b| b) {
        Ok(bytes) => Bytes(bytes),
        Err(Number::Negative) => return Err(FormatError::new(line, format!("the size `{field}` is negative"), help)),
        Err(Number::Bad) => field.parse().map_err(|_| FormatError::new(line, format!("`{field}` is not a size"), help))?,
    };
    match bytes {
        Bytes(0) => Err(FormatError::new(line, "a flow of 0 bytes", "a flow sends at least 1 byte, or `inf` until the run ends")),
        bytes => Ok(Size::Finite(bytes)),
    }
}

/// A whole number.
pub(super) fn whole(line: usize, field: &str, what: &str) -> Result<u64, FormatError> {
    let digits = !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit());
    digits
        .then(|| field.parse().ok())
        .flatten()
        .ok_or_else(|| FormatError::new(line, format!("`{field}` is not {what}"), "write a whole number, 0 or more"))
}

enum Number {
    Negative,
    Bad,
}

/// A plain number of `unit`s in the smallest unit: exactly where it is a decimal of 12 digits, else the nearest that a
/// float gives (`1e-06`, `0.30000000000000004`).
fn quantity(field: &str, unit: &str, to_smallest: impl Fn(f64) -> f64) -> Result<u64, Number> {
    if field.starts_with('-') {
        return Err(Number::Negative);
    }
    let plain = field.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if plain {
        let exact = match unit {
            "s" => format!("{field}s").parse::<Duration>().map(Duration::as_ps).ok(),
            _ => format!("{field}B").parse::<Bytes>().map(|b| b.0).ok(),
        };
        if let Some(value) = exact {
            return Ok(value);
        }
    }
    let number: f64 = field.parse().map_err(|_| Number::Bad)?;
    let value = libm::round(to_smallest(number));
    match value {
        _ if number.is_nan() => Err(Number::Bad),
        value if value < u64::MAX as f64 => Ok(value as u64),
        _ => Err(Number::Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_seconds_or_have_a_unit() {
        for (field, ps) in
            [("0", 0), ("1.5", 1_500_000_000_000), ("20ms", 20_000_000_000), ("1e-06", 1_000_000), ("0.000000000001", 1)]
        {
            assert_eq!(start(1, field).unwrap(), Instant::from_ps(ps), "{field}");
        }
        for field in ["", "-1", "-1s", "abc", "1.5.2", "NaN", "inf", "1e30", "10MB"] {
            assert!(start(1, field).is_err(), "{field}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        for (field, bytes) in [("1000", 1_000), ("1000.0", 1_000), ("10MB", 10_000_000), ("1e6", 1_000_000)] {
            assert_eq!(size(1, field).unwrap(), Size::Finite(Bytes(bytes)), "{field}");
        }
        assert_eq!(size(1, "inf").unwrap(), Size::Infinite);
        for field in ["", "0", "-5", "-5MB", "ten", "NaN", "1e300", "5s", "0.2"] {
            assert!(size(1, field).is_err(), "{field}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_name_their_line() {
        assert_eq!(text(b"a\nb\n\xff").unwrap_err().line, 3);
        assert_eq!(text(b"\xef\xbb\xbfsrc").unwrap(), "src");
    }
}
