//! Traffic matrices between racks as comma-separated values.
//!
//! ```text
//!   t,src,dst,bps        the header; any order of the columns
//!   0,0,3,1.5e9          seconds, racks by number from 0, bits per second
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::FormatError;
use super::csv::Table;
use super::fields;
use crate::traffic::RackWeights;

/// Reads matrices, one for each `t`, and gives their mean, in bits per second.
///
/// # Errors
/// The first line that is no record; a wrong header; no traffic.
pub fn parse(bytes: &[u8]) -> Result<RackWeights, FormatError> {
    let table = Table::new(bytes, &["t", "src", "dst", "bps"], &[])?;
    let mut sums: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    let mut times = BTreeSet::new();
    let last = table.rows(|line, [t, src, dst, bps]: [&str; 4]| {
        let rack = |field| {
            let rack = fields::whole(line, field, "the number of a rack")?;
            u32::try_from(rack).map_err(|_| FormatError::new(line, format!("there is no rack {rack}"), "number racks from 0"))
        };
        let number = |field: &str, what: &str| {
            let number = field.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0);
            let help = "write seconds and bits per second, 0 or more";
            number.ok_or_else(|| FormatError::new(line, format!("`{field}` is not {what}"), help))
        };
        times.insert(number(t, "a time")?.to_bits());
        *sums.entry((rack(src)?, rack(dst)?)).or_default() += number(bps, "a rate")?;
        Ok(())
    })?;
    let mut weights = RackWeights::default();
    sums.into_iter().for_each(|((from, to), sum)| weights.add(from, to, sum / times.len() as f64));
    if weights.is_empty() {
        return Err(FormatError::new(last, "the file holds no traffic", "add lines such as `0,0,3,1.5e9` below the header"));
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_a_mean() {
        let weights = parse(b"t,src,dst,bps\n0,0,1,1\n100,0,1,3\n0,1,1,4\n0,2,0,0\n").expect("a matrix");
        assert_eq!(weights.cells().collect::<Vec<_>>(), [((0, 1), 2.0), ((1, 1), 2.0)]);
        assert_eq!(parse(b"dst,src,bps,t\n1,0,1,5\n").expect("a matrix").cells().collect::<Vec<_>>(), [((0, 1), 1.0)]);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, message) in [
            ("src,dst,bps\n0,1,1\n", 1, "no column `t`"),
            ("t,src,dst\n", 1, "no column `bps`"),
            ("t,src,dst,bps\n", 1, "no traffic"),
            ("t,src,dst,bps\n0,0,1,0\n", 2, "no traffic"),
            ("t,src,dst,bps\n0,a,1,5\n", 2, "`a` is not the number of a rack"),
            ("t,src,dst,bps\n0,0,1,5\n0,0,9999999999,5\n", 3, "no rack 9999999999"),
            ("t,src,dst,bps\n0,0,1,-5\n", 2, "`-5` is not a rate"),
            ("t,src,dst,bps\n0,0,1,inf\n", 2, "`inf` is not a rate"),
            ("t,src,dst,bps\n-1,0,1,5\n", 2, "`-1` is not a time"),
            ("t,src,dst,bps\n0,0,1\n", 2, "3 fields"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(message), "{text:?}: {error}");
        }
    }
}
