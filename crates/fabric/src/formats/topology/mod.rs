//! Fabrics as files: read from Weft's own form, htsim and HPCC; written to these, DOT, GraphML and containerlab.
//!
//! `docs/formats-topology.md` describes the fields and limits of each. Readers take the text and know neither the file's name nor
//! its folder; [`FormatError`] names the line.

mod assemble;
mod containerlab;
mod dot;
mod graphml;
mod hpcc;
mod htsim;
mod htsim_regular;
mod native;

use std::borrow::Cow;

use crate::formats::FormatError;
use crate::topology::Fabric;

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Weft's own: `weft-fabric 1`.
    Native,
    /// htsim's `.topo`: a fat-tree or leaf-spine by its parameters.
    Htsim,
    /// The topology file of the HPCC simulator and of others built on ns-3: a list of links.
    Hpcc,
}

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// Graphviz, a rank for each tier.
    Dot,
    /// GraphML, for graph libraries and editors.
    GraphMl,
    /// A containerlab topology of Linux containers.
    Containerlab,
    /// htsim's `.topo`; fat-trees and leaf-spines only.
    Htsim,
    /// The topology file of the HPCC simulator.
    Hpcc,
    /// Weft's own: reading it gives the same fabric, id for id.
    Native,
}

/// A fabric from a file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The fabric.
    pub fabric: Fabric,
    /// What the file says and Weft leaves out, a sentence each; to be shown to the user.
    pub notes: Vec<String>,
}

/// A fabric that a format cannot express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{format} cannot express this fabric: {reason}")]
pub struct ExportError {
    /// The format.
    pub format: &'static str,
    /// What it has no words for.
    pub reason: String,
    /// What to do.
    pub help: &'static str,
}

impl Format {
    /// Detects the format from the first words.
    ///
    /// # Errors
    /// [`FormatError`] if it begins like none of them.
    pub fn detect(text: &str) -> Result<Self, FormatError> {
        let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l.trim()));
        let (line, first) = lines.clone().find(|(_, l)| !l.is_empty() && !l.starts_with('#')).unwrap_or((1, ""));
        let words: Vec<&str> = first.split_whitespace().collect();
        match words[..] {
            [native::MAGIC, ..] => Ok(Self::Native),
            [key, _] if htsim::is_header_key(key) => Ok(Self::Htsim),
            [a, b, c] if [a, b, c].iter().all(|w| w.bytes().all(|b| b.is_ascii_digit())) => Ok(Self::Hpcc),
            _ => Err(FormatError::new(
                line,
                if words.is_empty() {
                    "the file is empty".to_owned()
                } else {
                    format!("`{}` begins no known topology file", shorten(first))
                },
                "a fabric file begins with `weft-fabric 1`, with `Nodes` and a number (htsim), or with the numbers of nodes, switches and \
                 links (HPCC)",
            )),
        }
    }
}

/// Reads a fabric; its first words determine the format.
///
/// # Errors
/// [`FormatError`], naming the line and what to do.
pub fn read(bytes: &[u8]) -> Result<Imported, FormatError> {
    read_as(Format::detect(utf8(bytes)?)?, bytes)
}

/// Reads a fabric in a format.
///
/// # Errors
/// [`FormatError`], naming the line and what to do.
pub fn read_as(format: Format, bytes: &[u8]) -> Result<Imported, FormatError> {
    let text = utf8(bytes)?;
    match format {
        Format::Native => native::read(text),
        Format::Htsim => htsim::read(text),
        Format::Hpcc => hpcc::read(text),
    }
}

/// Writes a fabric.
///
/// # Errors
/// [`ExportError`] if the format cannot express it.
pub fn write(fabric: &Fabric, format: Export) -> Result<String, ExportError> {
    match format {
        Export::Dot => Ok(dot::write(fabric)),
        Export::GraphMl => Ok(graphml::write(fabric)),
        Export::Containerlab => containerlab::write(fabric),
        Export::Htsim => htsim_regular::write(fabric),
        Export::Hpcc => hpcc::write(fabric),
        Export::Native => native::write(fabric),
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, FormatError> {
    std::str::from_utf8(bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
        FormatError::new(line, "this is not text in UTF-8", "check that it is the right file, and not compressed")
    })
}

/// The beginning of a long text, for messages.
fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

/// The title on one line.
fn one_line(title: &str) -> String {
    title.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
