//! Flows as comma-separated values: those of Weft's scenarios, and those that `nfdump -o csv` writes.
//!
//! ```text
//!   src,dst,start,size                        as `[traffic] file`; and, where known: end or duration, sport, dport, protocol, packets, exporter
//!   ts,te,td,sa,da,sp,dp,pr,...,ipkt,ibyt,... nfdump 1.6
//!   firstSeen,duration,proto,srcAddr,...      nfdump 1.7
//! ```
//! Blank lines and lines that begin with `#` have no meaning. What nfdump writes after `Summary` are no flows.

use std::io::BufRead;

use csv::StringRecord;

use super::fields;
use super::{Endpoint, FlowRecord, Options, Place, Problem, Sink};

/// What a column holds, with its names in lower case.
const COLUMNS: [(Column, &[&str]); 13] = [
    (Column::Src, &["src", "sa", "srcaddr", "src_ip", "source"]),
    (Column::Dst, &["dst", "da", "dstaddr", "dst_ip", "destination"]),
    (Column::Start, &["start", "ts", "firstseen"]),
    (Column::End, &["end", "te", "lastseen"]),
    (Column::Duration, &["duration", "td"]),
    (Column::Bytes, &["size", "bytes", "ibyt"]),
    (Column::Packets, &["packets", "ipkt"]),
    (Column::SrcPort, &["sport", "sp", "srcport", "src_port"]),
    (Column::DstPort, &["dport", "dp", "dstport", "dst_port"]),
    (Column::Protocol, &["protocol", "proto", "pr"]),
    (Column::Exporter, &["exporter", "ra"]),
    (Column::BackBytes, &["obyt"]),
    (Column::BackPackets, &["opkt"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Src,
    Dst,
    Start,
    End,
    Duration,
    Bytes,
    Packets,
    SrcPort,
    DstPort,
    Protocol,
    Exporter,
    BackBytes,
    BackPackets,
}

const NEEDED: [Column; 4] = [Column::Src, Column::Dst, Column::Start, Column::Bytes];
const HELP_HEADER: &str =
    "the first line must name the columns: src, dst, start, size (or those of nfdump), and end or duration where known";
const HELP_ROW: &str = "each line has one field for each column of the header: is the file cut short?";

/// Whether a file that begins so is a table of flows: its first line that is not a comment names the columns.
pub fn is_header(begin: &[u8]) -> bool {
    let text = String::from_utf8_lossy(begin);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    line.is_some_and(|line| {
        let names: Vec<String> = line.split(',').map(|name| name.trim().trim_matches('"').to_lowercase()).collect();
        names.iter().filter(|name| column(name).is_some()).count() >= 2
    })
}

fn column(name: &str) -> Option<Column> {
    COLUMNS.iter().find(|(_, names)| names.contains(&name)).map(|&(column, _)| column)
}

/// Where each column stands.
struct Header {
    places: [Option<usize>; 13],
    count: usize,
}

impl Header {
    fn read(record: &StringRecord, options: &Options, sink: &mut dyn Sink) -> Result<Self, Problem> {
        let place = options.place("line", record.position().map_or(1, csv::Position::line));
        let mut header = Self { places: [None; 13], count: record.len() };
        let mut unused = Vec::new();
        for (at, name) in record.iter().enumerate() {
            match column(&name.to_lowercase()) {
                None => unused.push(name),
                // nfdump's times come in several columns; the first one that fits is used.
                Some(column) if header.at(column).is_some() => unused.push(name),
                Some(column) => header.places[column as usize] = Some(at),
            }
        }
        if let Some(missing) = NEEDED.into_iter().find(|&column| header.at(column).is_none()) {
            let names = COLUMNS[missing as usize].1;
            return Err(Problem::at(place, format!("there is no column `{}`", names.join("`, `")), HELP_HEADER));
        }
        if !unused.is_empty() {
            sink.tally().note(format!("{}: columns not used: {}", options.file, unused.join(", ")));
        }
        if header.at(Column::End).is_none() && header.at(Column::Duration).is_none() {
            sink.tally().note(format!("{}: no column `end` or `duration`: all bytes count at the start", options.file));
        }
        Ok(header)
    }

    const fn at(&self, column: Column) -> Option<usize> {
        self.places[column as usize]
    }

    fn field<'a>(&self, record: &'a StringRecord, column: Column) -> &'a str {
        self.at(column).and_then(|at| record.get(at)).unwrap_or_default()
    }
}

/// Reads all flows.
pub fn read(input: &mut dyn BufRead, options: &Options, sink: &mut dyn Sink) -> Result<(), Problem> {
    let builder = || {
        let mut builder = csv::ReaderBuilder::new();
        builder.has_headers(false).flexible(true).comment(Some(b'#')).trim(csv::Trim::All);
        builder
    };
    let mut reader = builder().from_reader(input);
    let mut record = StringRecord::new();
    let mut header = None;
    let mut line = 1;
    loop {
        match reader.read_record(&mut record) {
            Ok(false) => return Ok(()),
            Ok(true) => line = record.position().map_or(line, csv::Position::line),
            Err(error) => {
                let line = error.position().map_or(line, csv::Position::line);
                let place = options.place("line", line);
                let problem = Problem::at(place, error.to_string(), "the file must be UTF-8 text");
                if header.is_none() || error.is_io_error() {
                    return Err(problem);
                }
                options.tolerate(sink, "lines that are not text", place, problem)?;
                continue;
            }
        }
        let place = options.place("line", line);
        let Some(header) = &header else {
            header = Some(Header::read(&record, options, sink)?);
            continue;
        };
        if record.get(0).is_some_and(|first| first == "Summary") && record.len() == 1 {
            return Ok(());
        }
        if let Err(problem) = row(header, &record, options, place, sink) {
            options.tolerate(sink, "lines that are no flow", place, problem)?;
        }
    }
}

fn row(header: &Header, record: &StringRecord, options: &Options, place: Place<'_>, sink: &mut dyn Sink) -> Result<(), Problem> {
    if record.len() != header.count {
        let message = format!("{} fields where the header has {}", record.len(), header.count);
        return Err(Problem::at(place, message, HELP_ROW));
    }
    let text = |column| header.field(record, column);
    let wrong = |what: &str, column, help: &str| Problem::at(place, format!("`{}` is not {what}", text(column)), help);
    let (src, dst) = (text(Column::Src), text(Column::Dst));
    if src.is_empty() || dst.is_empty() {
        return Err(Problem::at(place, "a host is empty", HELP_ROW));
    }
    if text(Column::Bytes) == "inf" {
        sink.tally().leave_out("endless flows (size inf)", 0, || place.in_file());
        return Ok(());
    }
    let help_time = "write seconds, a time with its unit such as 20ms, or a date with a time of day";
    let start = fields::time(text(Column::Start)).ok_or_else(|| wrong("a time", Column::Start, help_time))?;
    let end = end(header, record, start).map_err(|column| wrong("a time", column, help_time))?;
    let count = |column| match text(column) {
        "" | "-" => Ok(0),
        text => fields::bytes(text).ok_or_else(|| wrong("a size", column, "write bytes, or a size with its unit such as 10MB")),
    };
    let port = |column| fields::port(text(column)).ok_or_else(|| wrong("a port", column, "ports are numbers up to 65535"));
    let flow = FlowRecord {
        src: Endpoint::parse(src),
        dst: Endpoint::parse(dst),
        src_port: port(Column::SrcPort)?,
        dst_port: port(Column::DstPort)?,
        protocol: fields::protocol(text(Column::Protocol)),
        start,
        end,
        bytes: count(Column::Bytes)?,
        packets: count(Column::Packets)?,
        sampling: options.sampling.unwrap_or(1),
        exporter: Some(text(Column::Exporter)).filter(|it| !it.is_empty()).map(Endpoint::parse),
    };
    let (back_bytes, back_packets) = (count(Column::BackBytes)?, count(Column::BackPackets)?);
    if back_bytes > 0 {
        sink.flow(reversed(&flow, back_bytes, back_packets), place)?;
    }
    sink.flow(flow, place)
}

/// The other direction of a flow that was recorded in both.
pub(super) fn reversed(flow: &FlowRecord, bytes: u64, packets: u64) -> FlowRecord {
    FlowRecord {
        src: flow.dst.clone(),
        dst: flow.src.clone(),
        src_port: flow.dst_port,
        dst_port: flow.src_port,
        bytes,
        packets,
        ..flow.clone()
    }
}

/// The end of a flow, by the column `duration` or else by `end`: nfdump writes durations in milliseconds, and ends in seconds.
fn end(header: &Header, record: &StringRecord, start: i64) -> Result<Option<i64>, Column> {
    match (header.field(record, Column::End), header.field(record, Column::Duration)) {
        ("" | "-", "" | "-") => Ok(None),
        (end, "" | "-") => Ok(Some(fields::time(end).ok_or(Column::End)?)),
        (_, duration) => Ok(start.checked_add(fields::time(duration).ok_or(Column::Duration)?)),
    }
}
