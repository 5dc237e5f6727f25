//! Errors of the crates below as `weft.WeftError`: what is wrong, at which place, and the remedy apart.

use miette::{Diagnostic, NamedSource, SourceSpan};
use pyo3::PyErr;
use weft_experiment::Error;

pyo3::import_exception!(weft._errors, WeftError);

/// An error of a scenario, a file or an argument.
pub fn from_experiment(error: &Error) -> PyErr {
    let help = error.help().map(|h| h.to_string());
    let message = match error {
        Error::Scenario { place, problem, source_code, span, .. } => {
            format!("{}: {problem}", place_for_python(place, source_code.as_ref(), *span))
        }
        other => other.to_string(),
    };
    WeftError::new_err((message, help))
}

/// An error without a remedy.
pub fn from_text(error: &impl std::error::Error) -> PyErr {
    WeftError::new_err((error.to_string(), None::<String>))
}

/// A file and its line stay; a setting and a key of a dict are named by their dotted key, which is what the caller wrote.
fn place_for_python(place: &str, text: Option<&NamedSource<String>>, span: Option<SourceSpan>) -> String {
    if let Some(key) = place.strip_prefix("--set ") {
        return key.to_owned();
    }
    match (text, span) {
        (Some(text), Some(span)) if text.name() == DICT => key_at(text.inner(), span.offset()),
        _ => place.to_owned(),
    }
}

/// The dotted key that stands at an offset of a TOML text whose every value has a line of its own.
fn key_at(text: &str, offset: usize) -> String {
    let line_end = text[offset..].find('\n').map_or(text.len(), |i| offset + i);
    let mut lines = text[..line_end].lines().rev();
    let line = lines.next().unwrap_or_default().trim();
    let header = |line: &str| line.trim_matches(['[', ']']).to_owned();
    if line.starts_with('[') {
        return header(line);
    }
    let key = line.split('=').next().unwrap_or_default().trim().trim_matches('"');
    match lines.find(|l| l.starts_with('[')) {
        Some(section) => format!("{}.{key}", header(section)),
        None => key.to_owned(),
    }
}

/// What the engine calls a scenario that came as a table.
const DICT: &str = "<dict>";
