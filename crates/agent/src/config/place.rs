//! A configuration file and its text: where errors are.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// A configuration's file and text.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its content.
    pub text: &'a str,
}

impl Place<'_> {
    /// Parses the text.
    ///
    /// # Errors
    /// [`Error`], with the line that is wrong.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(self.text).map_err(|error| {
            let message = in_words(error.message());
            let renamed = RENAMED.iter().find(|(old, _)| message.contains(&format!("unknown field `{old}`")));
            let help = match (renamed, message.contains("unknown field"), message.contains("missing field")) {
                (Some((old, new)), ..) => format!("`{old}` has been renamed: write `{new}`"),
                (_, true, _) => "remove it, or write it as docs/running-on-hosts.md has it".to_owned(),
                (_, _, true) => "add it: docs/running-on-hosts.md describes it".to_owned(),
                _ => "docs/running-on-hosts.md has every key and its form".to_owned(),
            };
            self.error(error.span().unwrap_or(0..0), message.trim_end(), &help)
        })
    }

    /// An error at a part of the text.
    pub fn error(&self, span: Range<usize>, message: &str, help: &str) -> Error {
        Error::Key { file: self.path.to_owned(), line: self.line(span), message: message.to_owned(), help: help.to_owned() }
    }

    /// A result about what a part of the text names.
    ///
    /// # Errors
    /// The result's, with file and line.
    pub fn at<T, E: Into<Error>>(&self, span: Range<usize>, result: std::result::Result<T, E>) -> Result<T> {
        result.map_err(|error| Error::Named { file: self.path.to_owned(), line: self.line(span), cause: Box::new(error.into()) })
    }

    fn line(&self, span: Range<usize>) -> usize {
        self.text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1)
    }
}

/// Keys of earlier versions, and their names today.
const RENAMED: [(&str, &str); 3] = [("certificate", "cert"), ("certificate_key", "cert_key"), ("authority", "ca")];

/// A parser's message with ranges and examples in place of the names of types.
fn in_words(message: &str) -> String {
    let words = [
        (" as i128", ""),
        ("expected u8", "expected a whole number from 0 to 255"),
        ("expected u16", "expected a whole number from 0 to 65,535"),
        ("expected u32", "expected a whole number from 0 to 4,294,967,295"),
        ("expected u64", "expected a whole number from 0 to 2^63 - 1"),
        ("invalid socket address syntax", "no address and port: write such as \"10.0.0.1:5303\""),
        ("invalid IP address syntax", "no address: write such as \"10.0.0.1\""),
        ("invalid IPv4 address syntax", "no IPv4 address: write such as \"10.0.0.1\""),
    ];
    words.iter().fold(message.to_owned(), |text, (from, to)| text.replace(from, to))
}
