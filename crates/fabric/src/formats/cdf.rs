//! Files of flow-size distributions: a size and a cumulative probability a line.
//!
//! ```text
//!   HPCC, percent            TrafficGenerator, fraction      ns-2, fraction, three columns
//!   0 0                      0      0                        1    1  0
//!   10000 15                 10000  0.15                     6    1  0.15      the middle one is not used
//!   30000000 100             30000000  1                     20000  1  1       sizes are packets: say how long
//! ```
//! The last line distinguishes the dialects, 100 or 1, unless one is given. A table that ends at 1 and has nothing between 0 and
//! 1 may as well be a percent file that was cut short: it must be stated.
//!
//! Sizes must not fall and probabilities must rise. Percent tables begin at 0 (HPCC's generator refuses others); a fraction
//! table that begins above 0 rises from size 0, as TrafficGenerator reads it. Between the points sizes are interpolated
//! linearly, as both do.

use super::FormatError;
use super::flows::fields::{lines, text};
use crate::traffic::EmpiricalCdf;
use crate::traffic::sizes::CdfError;
use crate::units::Bytes;

/// How a file writes probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CdfUnits {
    /// 0 to 100.
    Percent,
    /// 0 to 1.
    Fraction,
}

/// What the file itself does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CdfOptions {
    /// How probabilities are written; `None`: detected from the last line.
    pub units: Option<CdfUnits>,
    /// What the sizes count; `None`: bytes, in files of two columns.
    pub scale: Option<Bytes>,
}

/// Reads a distribution.
///
/// # Errors
/// The first line at fault, and a dialect that cannot be detected.
pub fn parse(bytes: &[u8], options: CdfOptions) -> Result<EmpiricalCdf, FormatError> {
    let rows = rows(text(bytes)?, options.scale)?;
    let Some(last) = rows.last() else {
        return Err(FormatError::new(1, "the table is empty", "write a size and a cumulative probability a line"));
    };
    let whole = match units(&rows, last, options.units)? {
        CdfUnits::Percent => 100.0,
        CdfUnits::Fraction => 1.0,
    };
    let scale = options.scale.unwrap_or(Bytes(1)).0 as f64;
    let mut points: Vec<(f64, f64)> = rows.iter().map(|r| (r.size * scale, r.probability / whole)).collect();
    let implied = whole == 1.0 && points[0].1 > 0.0;
    if implied {
        points.insert(0, (0.0, 0.0));
    }
    EmpiricalCdf::new(points).map_err(|error| located(&error, &rows, usize::from(implied), whole))
}

/// Writes a distribution in bytes. [`parse`] reads it back, to the precision of a float.
pub fn write(cdf: &EmpiricalCdf, units: CdfUnits) -> String {
    let whole = match units {
        CdfUnits::Percent => 100.0,
        CdfUnits::Fraction => 1.0,
    };
    cdf.points().iter().map(|(size, probability)| format!("{size} {}\n", probability * whole)).collect()
}

struct Row {
    line: usize,
    size: f64,
    probability: f64,
}

fn rows(text: &str, scale: Option<Bytes>) -> Result<Vec<Row>, FormatError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut columns = None;
    for (line, text) in lines(text) {
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == ',').filter(|w| !w.is_empty()).take(4).collect();
        let (size, probability) = match words[..] {
            [size, probability] | [size, _, probability] => (size, probability),
            _ => {
                let message = format!("{} columns where a size and a cumulative probability are expected", words.len());
                return Err(FormatError::new(line, message, "write lines such as `10000 15`: is the file cut short?"));
            }
        };
        if *columns.get_or_insert(words.len()) != words.len() {
            let message = format!("{} columns where the lines above have others", words.len());
            return Err(FormatError::new(line, message, "give all lines the same columns"));
        }
        if words.len() == 3 && scale.is_none() {
            let help = "state what its sizes count: `cdf_scale = \"1460B\"` for packets of that length, or `\"1B\"`";
            return Err(FormatError::new(line, "a table of three columns usually counts sizes in packets", help));
        }
        rows.push(Row { line, size: number(line, size)?, probability: number(line, probability)? });
    }
    Ok(rows)
}

fn number(line: usize, word: &str) -> Result<f64, FormatError> {
    let number = word.parse().ok().filter(|x: &f64| x.is_finite());
    let number = number.ok_or_else(|| FormatError::new(line, format!("`{word}` is not a number"), "write plain numbers"))?;
    if number < 0.0 {
        return Err(FormatError::new(line, format!("{word} is negative"), "sizes and probabilities are 0 or more"));
    }
    Ok(number)
}

fn units(rows: &[Row], last: &Row, stated: Option<CdfUnits>) -> Result<CdfUnits, FormatError> {
    let ends_at = |end: f64| last.probability == end;
    let error = |message: String, help: &str| Err(FormatError::new(last.line, message, help));
    let p = last.probability;
    match stated {
        Some(CdfUnits::Percent) if ends_at(100.0) => Ok(CdfUnits::Percent),
        Some(CdfUnits::Fraction) if ends_at(1.0) => Ok(CdfUnits::Fraction),
        Some(CdfUnits::Percent) if ends_at(1.0) && rows.iter().any(|r| r.probability > 0.0 && r.probability < 1.0) => {
            error(format!("the table ends at {p}, not at 100"), "state `cdf_units = \"fraction\"`; or is the file cut short?")
        }
        Some(CdfUnits::Fraction) if ends_at(100.0) => {
            error(format!("the table ends at {p}, not at 1"), "state `cdf_units = \"percent\"`")
        }
        Some(CdfUnits::Percent) => error(format!("the table ends at {p}, not at 100"), "is the file cut short?"),
        Some(CdfUnits::Fraction) => error(format!("the table ends at {p}, not at 1"), "is the file cut short?"),
        None if ends_at(100.0) => Ok(CdfUnits::Percent),
        None if ends_at(1.0) && rows.iter().any(|r| r.probability > 0.0 && r.probability < 1.0) => Ok(CdfUnits::Fraction),
        None if ends_at(1.0) => error(
            "the table ends at 1 and has nothing between 0 and 1: a fraction, or a percent file that is cut short".to_owned(),
            "state `cdf_units = \"fraction\"`, or restore the missing lines",
        ),
        None => error(
            format!("the table ends at {p}, neither at 1 nor at 100"),
            "end it at 1 (fractions) or at 100 (percent): is the file cut short?",
        ),
    }
}

/// The line of the point at fault, in the words and units of the file.
fn located(error: &CdfError, rows: &[Row], implied: usize, whole: f64) -> FormatError {
    let (index, message, help) = match *error {
        CdfError::TooFewPoints => (0, "the table has a single line".to_owned(), "a distribution needs two lines or more"),
        CdfError::Start(_) => {
            (0, format!("the table begins at {}, not at 0", rows[0].probability), "add a first line such as `0 0`")
        }
        CdfError::Zero => (rows.len() - 1, "all sizes are 0".to_owned(), "give the last line a size"),
        CdfError::End(_) => (rows.len() - 1, "the table does not end at its whole".to_owned(), "end it at 1 or at 100"),
        CdfError::Value { index, .. } => {
            (index - implied, "the size is too large".to_owned(), "sizes are at most 10^18 bytes: check `cdf_scale`")
        }
        CdfError::Probability { index, .. } => (
            index - implied,
            format!("the probability {} is above {whole}", rows[index - implied].probability),
            "probabilities rise to 1 (fractions) or to 100 (percent)",
        ),
        CdfError::ValueFalls { index, .. } => {
            let [before, at] = [&rows[index - implied - 1], &rows[index - implied]];
            (index - implied, format!("the size {} is below the one before, {}", at.size, before.size), "sort the lines by size")
        }
        CdfError::ProbabilityDoesNotRise { index, .. } => {
            let [before, at] = [&rows[index - implied - 1], &rows[index - implied]];
            let message =
                format!("the probability {} does not rise above the one before, {}", at.probability, before.probability);
            (index - implied, message, "cumulative probabilities rise from line to line: remove or correct one")
        }
    };
    FormatError::new(rows[index].line, message, help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::sizes::named;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<EmpiricalCdf, FormatError> {
        parse(text.as_bytes(), CdfOptions::default())
    }

    fn stated(text: &str, units: CdfUnits) -> Result<EmpiricalCdf, FormatError> {
        parse(text.as_bytes(), CdfOptions { units: Some(units), scale: None })
    }

    #[test]
    fn both_dialects_give_the_same_distribution() {
        let percent = "0 0\n10000 15\n20000 20\n30000 30\n50000 40\n80000 53\n200000 60\n1000000 70\n2000000 80\n5000000 90\n\
                       10000000 97\n30000000 100\n";
        let fraction = "0     0\n10000 0.15\n20000 0.2\n30000 0.3\n50000 0.4\n80000 0.53\n200000 0.6\n1000000 0.7\n\
                        2000000 0.8\n5000000 0.9\n10000000 0.97\n30000000 1\n";
        assert_eq!(read(percent).unwrap(), named::cdf("web-search").unwrap());
        assert_eq!(read(fraction), read(percent));
        assert_eq!(stated(percent, CdfUnits::Percent), read(percent));
        assert_eq!(stated(fraction, CdfUnits::Fraction), read(fraction));
    }

    #[test]
    fn packets_are_scaled_and_three_columns_must_say_what_they_count() {
        let text = "1 1 0\n1 1 0.5\n10 1 1\n";
        assert!(read(text).unwrap_err().help.contains("cdf_scale"));
        let cdf = parse(text.as_bytes(), CdfOptions { units: None, scale: Some(Bytes(1460)) }).unwrap();
        assert_eq!(cdf.points(), [(1460.0, 0.0), (1460.0, 0.5), (14600.0, 1.0)]);
    }

    #[test]
    fn a_fraction_table_may_begin_above_0_and_a_percent_table_may_not() {
        assert_eq!(read("10 0.5\n20 1\n").unwrap().points(), [(0.0, 0.0), (10.0, 0.5), (20.0, 1.0)]);
        assert!(read("10 50\n20 100\n").unwrap_err().message.contains("begins at 50"));
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        for (text, line, message) in [
            ("", 1, "empty"),
            ("# nothing\n\n", 1, "empty"),
            ("0 0\n", 1, "ends at 0"),
            ("0 0\n10 50\n", 2, "ends at 50, neither"),
            ("0 0\n10 0.5\n20 0.99\n", 3, "ends at 0.99"),
            ("0 0\n100 1\n", 2, "percent file that is cut short"),
            ("0 0\n10 50\n20 40\n30 100\n", 3, "40 does not rise above the one before, 50"),
            ("0 0\n10 50\n20 50\n30 100\n", 3, "does not rise"),
            ("0 0\n\n10 50\n5 60\n30 100\n", 4, "5 is below the one before, 10"),
            ("0 0\n10 -5\n30 100\n", 2, "negative"),
            ("0 0\n-10 5\n30 100\n", 2, "negative"),
            ("0 0\n10 NaN\n30 100\n", 2, "not a number"),
            ("0 0\n10 inf\n30 100\n", 2, "not a number"),
            ("0 0\n10 200\n30 100\n", 2, "above 100"),
            ("0.2 0.2\n10 2\n30 1\n", 2, "above 1"),
            ("0 0\n10\n30 100\n", 2, "1 columns"),
            ("0 0\n10 5 5 5\n30 100\n", 2, "4 columns"),
            ("0 0\n10 5 50\n30 100\n", 2, "others"),
            ("size cdf\n0 0\n30 100\n", 1, "not a number"),
            ("0 0\n0 100\n", 2, "all sizes are 0"),
            ("0 0\n1e30 100\n", 2, "too large"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(message), "{text:?}: {error}");
            assert!(!error.help.is_empty());
        }
    }

    #[test]
    fn what_is_stated_must_hold() {
        assert!(stated("0 0\n10 50\n20 100\n", CdfUnits::Fraction).unwrap_err().help.contains("percent"));
        assert!(stated("0 0\n10 0.5\n20 1\n", CdfUnits::Percent).unwrap_err().help.contains("fraction"));
        assert!(stated("0 0\n100 1\n", CdfUnits::Percent).unwrap_err().help.contains("cut short"));
        assert_eq!(stated("0 0\n100 1\n", CdfUnits::Fraction).unwrap().points(), [(0.0, 0.0), (100.0, 1.0)]);
    }

    #[test]
    fn what_is_written_reads_back() {
        for name in named::NAMES {
            let cdf = named::cdf(name).unwrap();
            assert_eq!(read(&write(&cdf, CdfUnits::Fraction)).as_ref(), Ok(&cdf), "{name}");
            let percent = read(&write(&cdf, CdfUnits::Percent)).unwrap();
            for (a, b) in percent.points().iter().zip(cdf.points()) {
                assert!(a.0 == b.0 && (a.1 - b.1).abs() < 1e-15, "{name}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_a_distribution(bytes: Vec<u8>, lines in "([0-9]{1,3} [0-9.]{1,4}\\n){0,6}") {
            let _ = parse(&bytes, CdfOptions { units: None, scale: Some(Bytes(1460)) });
            if let Ok(cdf) = read(&lines) {
                prop_assert!(cdf.mean() > 0.0);
                prop_assert!(cdf.quantile(0.5) <= cdf.quantile(1.0));
            }
        }
    }
}
