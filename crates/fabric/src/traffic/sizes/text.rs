//! The text forms of a size.

use std::fmt;
use std::str::FromStr;

use super::{SizeError, SizeSpec, named};
use crate::units::Bytes;

impl FromStr for SizeSpec {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        let spec = if text == "inf" || text == "infinite" {
            Self::Infinite
        } else if let Some((kind, arguments)) = text.strip_suffix(')').and_then(|t| t.split_once('(')) {
            call(text, kind.trim(), &arguments.split(',').map(str::trim).collect::<Vec<_>>())?
        } else if let Some(spec) = Self::named(text) {
            spec
        } else {
            Self::Fixed(text.parse().map_err(|_| unknown(text))?)
        };
        spec.check().map_err(|error| match error {
            SizeError::Argument { rule, .. } => SizeError::Argument { text: text.to_owned(), rule },
            other => other,
        })?;
        Ok(spec)
    }
}

fn call(text: &str, kind: &str, arguments: &[&str]) -> Result<SizeSpec, SizeError> {
    let wrong = |rule: String| SizeError::Argument { text: text.to_owned(), rule };
    let size = |argument: &str| argument.parse::<Bytes>().map_err(|e| wrong(e.to_string()));
    let number = |argument: &str| {
        argument.parse::<f64>().ok().filter(|x| x.is_finite()).ok_or_else(|| wrong(format!("`{argument}` is not a number")))
    };
    match (kind, arguments) {
        ("exponential", [mean]) => Ok(SizeSpec::Exponential { mean: size(mean)? }),
        ("uniform", [min, max]) => Ok(SizeSpec::Uniform { min: size(min)?, max: size(max)? }),
        ("pareto", [shape, min, max]) => Ok(SizeSpec::Pareto { shape: number(shape)?, min: size(min)?, max: size(max)? }),
        ("lognormal", [mean, sigma]) => Ok(SizeSpec::LogNormal { mean: size(mean)?, sigma: number(sigma)? }),
        ("exponential", _) => Err(wrong("write it as `exponential(mean)`".to_owned())),
        ("uniform", _) => Err(wrong("write it as `uniform(smallest, largest)`".to_owned())),
        ("pareto", _) => Err(wrong("write it as `pareto(shape, smallest, largest)`".to_owned())),
        ("lognormal", _) => Err(wrong("write it as `lognormal(mean, sigma)`".to_owned())),
        _ => Err(unknown(text)),
    }
}

fn unknown(text: &str) -> SizeError {
    SizeError::Unknown { text: text.to_owned(), names: named::NAMES.map(|n| format!("`{n}`")).join(", ") }
}

impl fmt::Display for SizeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infinite => f.write_str("inf"),
            Self::Fixed(size) => size.fmt(f),
            Self::Exponential { mean } => write!(f, "exponential({mean})"),
            Self::Uniform { min, max } => write!(f, "uniform({min}, {max})"),
            Self::Pareto { shape, min, max } => write!(f, "pareto({shape}, {min}, {max})"),
            Self::LogNormal { mean, sigma } => write!(f, "lognormal({mean}, {sigma})"),
            Self::Empirical(cdf) => match named::name_of(cdf) {
                Some(name) => f.write_str(name),
                None => write!(f, "a CDF of {} points", cdf.points().len()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_forms_are_read_and_written_back() {
        let mut names =
            vec!["inf", "10MB", "exponential(10MB)", "uniform(1MB, 101MB)", "pareto(1.2, 10kB, 1GB)", "lognormal(1MB, 2)"];
        names.extend(named::NAMES);
        for text in names {
            assert_eq!(text.parse::<SizeSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_size_says_what_is() {
        for text in
            ["", "10", "-1MB", "websearch", "gamma(1MB)", "exponential", "exponential()", "uniform(1MB)", "pareto(NaN, 1kB, 1MB)"]
        {
            let error = text.parse::<SizeSpec>().unwrap_err().to_string();
            assert!(error.contains("web-search") || error.contains("write") || error.contains("not a number"), "{text}: {error}");
        }
    }

    #[test]
    fn file_names_are_distinguished_from_names() {
        assert!(SizeSpec::is_file_name("data/websearch.txt") && SizeSpec::is_file_name("mine.cdf"));
        assert!(!SizeSpec::is_file_name("web-search") && !SizeSpec::is_file_name("1.5MB"));
    }

    proptest! {
        #[test]
        fn any_text_is_an_error_or_a_size(text in ".{0,32}") {
            let _ = text.parse::<SizeSpec>();
        }
    }
}
