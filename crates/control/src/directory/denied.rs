//! The list of denied principals: a document of the store, which all servers read several times a second. A line each, with an optional comment:
//!
//! ```text
//!   17 # stolen on the 3rd
//!   18
//! ```

use rustc_hash::FxHashSet;

use super::key::PrincipalId;

/// The document's name.
pub const DOCUMENT: &str = "denied-principals";

/// Principals in the list at most.
pub const MOST: usize = 65_536;

/// Why a document is no such list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeniedError {
    /// A line that is neither empty nor a principal.
    #[error("line {0} is not a principal, a number from 1: write one a line, with `#` before a comment")]
    Line(usize),
    /// Too many.
    #[error("more than {MOST} principals: replace the secret instead (`weft directory rotate`)")]
    TooMany,
}

/// Reads the list.
///
/// # Errors
/// [`DeniedError`].
pub fn parse(text: &str) -> Result<FxHashSet<PrincipalId>, DeniedError> {
    let mut denied = FxHashSet::default();
    for (at, line) in text.lines().enumerate() {
        let number = line.split('#').next().unwrap_or_default().trim();
        if number.is_empty() {
            continue;
        }
        let principal = number.parse().ok().filter(|&it: &u32| it > 0).ok_or(DeniedError::Line(at + 1))?;
        denied.insert(PrincipalId(principal));
        if denied.len() > MOST {
            return Err(DeniedError::TooMany);
        }
    }
    Ok(denied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_principals_and_comments() {
        assert_eq!(parse("17 # stolen\n\n# none\n 18\n17"), Ok([17, 18].map(PrincipalId).into_iter().collect()));
        for (text, line) in [("0", 1), ("1\nx", 2), ("1 2", 1), ("-1", 1), ("4294967296", 1)] {
            assert_eq!(parse(text), Err(DeniedError::Line(line)), "{text:?}");
        }
        let many: String = (1..=MOST + 1).map(|n| format!("{n}\n")).collect();
        assert_eq!(parse(&many), Err(DeniedError::TooMany));
    }
}
