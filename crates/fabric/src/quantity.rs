//! Text forms of quantities, `<decimal><unit>`, read and written exactly.

use std::fmt;

/// A text that is not a quantity of the unit that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: write it as {example}")]
pub struct UnitError {
    /// What was written.
    pub text: String,
    /// What was expected, with its article: `a rate`.
    pub what: &'static str,
    /// Text forms that would do.
    pub example: &'static str,
}

/// Parses `<decimal> <unit>` exactly (no floating point), rounding half up to one unit of the base, beyond 64 bits too.
/// `None` if it is negative, malformed or of another unit.
pub(crate) fn parse_wide(text: &str, units: &[(&str, u128)]) -> Option<u128> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(split);
    let scale = units.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || whole.len() > 20 || fraction.len() > 12 || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let denominator = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let numerator = whole.parse::<u128>().ok()?.checked_mul(denominator)?.checked_add(fraction)?;
    Some(numerator.checked_mul(scale)?.checked_add(denominator / 2)? / denominator)
}

/// Writes the value in the largest unit that needs no more than three decimals, so that it parses back exactly.
pub(crate) fn write_quantity(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)], base: &str) -> fmt::Result {
    for &(name, scale) in units {
        if value >= scale && value.is_multiple_of((scale / 1_000).max(1)) {
            let thousandths = value % scale / (scale / 1_000).max(1);
            let text = format!("{}.{thousandths:03}", value / scale);
            return write!(f, "{}{name}", text.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    write!(f, "{value}{base}")
}
