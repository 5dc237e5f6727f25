//! What is wrong with a file that another tool, or a person, wrote.

/// A line that cannot be read, and what to do about it. The caller knows the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct FormatError {
    /// The line at fault, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub help: String,
}
