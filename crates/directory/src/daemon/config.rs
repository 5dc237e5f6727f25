//! What the configuration files of all daemons have in common: errors that name file and line, and values that are written as text.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// A configuration's file and text.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its content.
    pub text: &'a str,
    /// The page that has every key.
    pub page: &'static str,
}

/// A key of a configuration is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {message}", file.display())]
pub struct KeyError {
    /// The configuration.
    pub file: PathBuf,
    /// The key's line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub help: String,
}

impl Place<'_> {
    /// Parses the text.
    ///
    /// # Errors
    /// [`KeyError`], with the line that is wrong.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, KeyError> {
        toml::from_str(self.text).map_err(|error| self.refused(error.message(), error.span().unwrap_or(0..0)))
    }

    /// An error for what a parser says of a part of the text.
    pub fn refused(&self, message: &str, span: Range<usize>) -> KeyError {
        let (message, page) = (in_words(message), self.page);
        let renamed = RENAMED.iter().find(|(old, _)| message.contains(&format!("unknown field `{old}`")));
        let help = match (renamed, message.contains("unknown field"), message.contains("missing field")) {
            (Some((old, new)), ..) => format!("`{old}` has been renamed: write `{new}`"),
            (_, true, _) => format!("remove it, or write it as {page} has it"),
            (_, _, true) => format!("add it: {page} describes it"),
            _ => format!("{page} has every key and its form"),
        };
        self.error(span, message.trim_end(), &help)
    }

    /// An error at a part of the text.
    pub fn error<E: From<KeyError>>(&self, span: Range<usize>, message: &str, help: &str) -> E {
        let (file, line) = (self.path.to_owned(), self.line(span));
        KeyError { file, line, message: message.to_owned(), help: help.to_owned() }.into()
    }

    /// The line on which a part of the text begins, from 1.
    pub fn line(&self, span: Range<usize>) -> usize {
        self.text.get(..span.start).map_or(1, |before| before.matches('\n').count() + 1)
    }
}

/// A value that is written as text.
///
/// # Errors
/// What is wrong with it.
pub fn from_text<'de, D: Deserializer<'de>, T>(from: D) -> Result<T, D::Error>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

/// An optional value that is written as text.
///
/// # Errors
/// What is wrong with it.
pub fn optional_from_text<'de, D: Deserializer<'de>, T>(from: D) -> Result<Option<T>, D::Error>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    from_text(from).map(Some)
}

/// `address:port`, or `off`.
///
/// # Errors
/// It is neither.
pub fn address_or_off<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "off" {
        return Ok(None);
    }
    let wrong = |_| serde::de::Error::custom(format!("`{text}` is not address:port, and not `off`"));
    text.parse().map(Some).map_err(wrong)
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
