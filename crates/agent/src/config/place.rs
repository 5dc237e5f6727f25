//! What a part of a configuration names is not on this machine: the error with its line.

use std::ops::Range;

use weft_directory::daemon::config::Place;

use crate::error::{Error, Result};

/// Errors of this machine at a place of the configuration.
pub trait At {
    /// A result about what a part of the text names.
    ///
    /// # Errors
    /// The result's, with file and line.
    fn at<T, E: Into<Error>>(&self, span: Range<usize>, result: std::result::Result<T, E>) -> Result<T>;
}

impl At for Place<'_> {
    fn at<T, E: Into<Error>>(&self, span: Range<usize>, result: std::result::Result<T, E>) -> Result<T> {
        let named = |error: E| Error::Named { file: self.path.to_owned(), line: self.line(span), cause: Box::new(error.into()) };
        result.map_err(named)
    }
}
