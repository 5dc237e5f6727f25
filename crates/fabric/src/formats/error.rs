//! The one error of all readers: where, what, and what to do.

/// A text that does not follow its format. The caller knows the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct FormatError {
    /// The line at fault, from 1; for what is missing, the line on which it should have been.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl FormatError {
    /// An error of a line.
    pub fn new(line: usize, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { line, message: message.into(), help: help.into() }
    }
}
