//! Readers of logs, each recognised by the beginning of its content. All are streams: none holds a file.
//!
//! ```text
//!   bytes --recognise--> csv | zeek ---------------------------------> FlowRecord ----> Sink
//!                  `---> capture --> packets --> netflow | assemble -------^
//!                                       `------> sflow ---^
//! ```
//! What cannot be read is an error with its place; with `keep_going` it is counted and left out.

mod assemble;
mod capture;
mod csv;
mod cursor;
mod fields;
mod link_layer;
pub mod netflow;
mod packets;
pub mod sequence;
mod sflow;
#[cfg(test)]
mod tests;
mod zeek;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;

pub(crate) use fields::time;

use super::anonymize::Anonymizer;
use super::tally::Tally;
use crate::error::{Error, Result as FileResult};

/// A host as a log names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// By its address.
    Ip(IpAddr),
    /// By its name, or its number in a fabric.
    Name(Box<str>),
}

impl Endpoint {
    /// An address, or else a name.
    pub fn parse(text: &str) -> Self {
        // Addresses have a dot or a colon: host numbers and most names need no attempt.
        let may_be_address = text.bytes().any(|b| b == b'.' || b == b':');
        match text.parse() {
            Ok(address) if may_be_address => Self::Ip(address),
            _ => Self::Name(text.into()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// What a log knows of a flow, in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Sender.
    pub src: Endpoint,
    /// Receiver.
    pub dst: Endpoint,
    /// Port of the sender, or 0.
    pub src_port: u16,
    /// Port of the receiver, or 0.
    pub dst_port: u16,
    /// IP protocol number, or 0.
    pub protocol: u8,
    /// First packet, in nanoseconds since 1970 or since the log's own zero.
    pub start: i64,
    /// Last packet, where the log has it.
    pub end: Option<i64>,
    /// As recorded.
    pub bytes: u64,
    /// As recorded; 0 if unknown.
    pub packets: u64,
    /// One packet in so many was recorded.
    pub sampling: u32,
    /// Where it was observed, if several devices report.
    pub exporter: Option<Endpoint>,
}

/// Takes what a reader finds.
pub trait Sink {
    /// A flow. `place` is where it stands.
    ///
    /// # Errors
    /// It cannot be used, and neither can what follows: message and remedy.
    fn flow(&mut self, flow: FlowRecord, place: Place<'_>) -> Result<(), Problem>;

    /// Where things that are left out are counted.
    fn tally(&mut self) -> &mut Tally;
}

/// A place in a file.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub file: &'a str,
    /// `line` or `packet`.
    pub unit: &'static str,
    /// Its number, from 1.
    pub number: u64,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.unit, self.number)
    }
}

impl Place<'_> {
    /// With the file's name.
    pub fn in_file(self) -> String {
        format!("{}: {self}", self.file)
    }
}

/// What is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file; empty for the file as a whole.
    pub place: String,
    /// What.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl Problem {
    /// Something is wrong at a place.
    pub fn at(place: Place<'_>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { place: place.to_string(), message: message.into(), help: help.into() }
    }

    fn read(place: Place<'_>, cause: &io::Error) -> Self {
        Self::at(place, format!("cannot be read: {cause}"), "check the disk, or copy the file again")
    }
}

/// How files are read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the file, for places.
    pub file: String,
    /// The end of a flow in a packet capture, after so long without a packet.
    pub idle_ns: i64,
    /// One packet in so many was recorded, where the log does not state it.
    pub sampling: Option<u32>,
    /// Count what cannot be read, and go on.
    pub keep_going: bool,
    /// Hides names.
    pub key: Option<Anonymizer>,
}

impl Options {
    fn place(&self, unit: &'static str, number: u64) -> Place<'_> {
        Place { file: &self.file, unit, number }
    }

    /// The name of an exporter, or its hash.
    fn shown(&self, exporter: &Endpoint) -> String {
        self.key.as_ref().map_or_else(|| exporter.to_string(), |key| key.name("exporter", &exporter.to_string()))
    }

    /// Counts a problem of one record, or ends with it.
    fn tolerate(&self, sink: &mut dyn Sink, reason: &'static str, place: Place<'_>, problem: Problem) -> Result<(), Problem> {
        if !self.keep_going {
            return Err(problem);
        }
        sink.tally().leave_out(reason, 0, || format!("{}: {}", place.in_file(), problem.message));
        Ok(())
    }
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Format {
    Csv,
    ZeekTsv,
    ZeekJson,
    Capture,
    Ipfix,
}

impl Format {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::ZeekTsv => "Zeek conn.log",
            Self::ZeekJson => "Zeek conn.log, JSON",
            Self::Capture => "packet capture",
            Self::Ipfix => "IPFIX file",
        }
    }

    /// Recognises a format by the beginning of a file.
    ///
    /// # Errors
    /// It is none that is known.
    pub fn recognise(begin: &[u8]) -> Result<Self, Problem> {
        let problem = |message: &str, help: &str| {
            Err(Problem { place: "the beginning".to_owned(), message: message.to_owned(), help: help.to_owned() })
        };
        const FORMATS: &str = "give a CSV of flows (its first line names the columns src, dst, start, size) or of nfdump, a conn.log of Zeek, an IPFIX file, or a capture (pcap, pcapng), also of NetFlow, IPFIX or sFlow";
        if begin.is_empty() {
            return problem("the file is empty", FORMATS);
        }
        if begin.starts_with(&[0x1f, 0x8b]) || begin.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || begin.starts_with(b"BZh") {
            return problem("the file is compressed", "decompress it first, for example with gunzip, zstd -d or bunzip2");
        }
        if begin.starts_with(&[0x0c, 0xa5]) || begin.starts_with(&[0xa5, 0x0c]) {
            return problem("this is a file of nfcapd", "convert it first: nfdump -r FILE -o csv > flows.csv");
        }
        if capture::is_capture(begin) {
            return Ok(Self::Capture);
        }
        if netflow::is_file(begin) {
            return Ok(Self::Ipfix);
        }
        match begin.iter().take(1024).all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace() || *b >= 0x80) {
            true if zeek::is_tsv(begin) => Ok(Self::ZeekTsv),
            true if zeek::is_json(begin) => Ok(Self::ZeekJson),
            true if csv::is_header(begin) => Ok(Self::Csv),
            _ => problem("the format is none that is known", FORMATS),
        }
    }
}

/// Reads all flows of a file.
///
/// # Errors
/// The first problem that `options` do not tolerate.
pub fn read(input: &mut dyn BufRead, options: &Options, sink: &mut dyn Sink) -> Result<Format, Problem> {
    let begin = input.fill_buf().map_err(|e| Problem::read(options.place("byte", 0), &e))?;
    let format = Format::recognise(begin)?;
    match format {
        Format::Csv => csv::read(input, options, sink)?,
        Format::ZeekTsv => zeek::read_tsv(input, options, sink)?,
        Format::ZeekJson => zeek::read_json(input, options, sink)?,
        Format::Capture => packets::read(input, options, sink)?,
        Format::Ipfix => netflow::read_file(input, options, sink)?,
    }
    Ok(format)
}

/// Reads all flows of a file by name.
///
/// # Errors
/// The file cannot be read; the first problem that `options` do not tolerate.
pub fn read_file(path: &Path, options: &Options, sink: &mut dyn Sink) -> FileResult<Format> {
    let file = File::open(path).map_err(|e| Error::io("read", path, e))?;
    if file.metadata().is_ok_and(|it| it.is_dir()) {
        return Err(Error::io("read", path, io::ErrorKind::IsADirectory.into()));
    }
    let options = Options { file: path.display().to_string(), ..options.clone() };
    read(&mut BufReader::with_capacity(1 << 20, file), &options, sink).map_err(|it| {
        let place = if it.place.is_empty() { "the file".to_owned() } else { it.place };
        Error::input(path, place, it.message, it.help)
    })
}
