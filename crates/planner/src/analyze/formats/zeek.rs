//! Zeek's `conn.log`, as tab-separated values or as one JSON object a line: a connection becomes a flow in each direction that has bytes.
//!
//! ```text
//!   #fields ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto ... duration orig_bytes resp_bytes ... orig_ip_bytes ... resp_ip_bytes
//!   {"ts":1.5,"id.orig_h":"10.0.0.1","id.orig_p":4000,...}
//! ```
//! Bytes are those with headers (`orig_ip_bytes`), or else payload (`orig_bytes`).

use std::io::BufRead;

use serde_json::Value;

use super::csv::reversed;
use super::fields;
use super::{Endpoint, FlowRecord, Options, Place, Problem, Sink};

const HELP: &str = "the file must be a conn.log as Zeek writes it: is it cut short, or another of its logs?";
/// A line may be no longer.
const MAX_LINE: usize = 1 << 20;

/// Whether a file that begins so is tab-separated.
pub fn is_tsv(begin: &[u8]) -> bool {
    begin.starts_with(b"#separator")
}

/// Whether a file that begins so has JSON objects with Zeek's fields.
pub fn is_json(begin: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&begin[..begin.len().min(4096)]);
    text.starts_with('{') && text.contains("\"id.orig_h\"")
}

/// The fields that are read.
const NAMES: [&str; 13] = [
    "ts",
    "duration",
    "id.orig_h",
    "id.orig_p",
    "id.resp_h",
    "id.resp_p",
    "proto",
    "orig_bytes",
    "resp_bytes",
    "orig_ip_bytes",
    "resp_ip_bytes",
    "orig_pkts",
    "resp_pkts",
];

/// A connection's fields in the order of [`NAMES`]; empty if unset.
type Row<'a> = [&'a str; 13];

/// Reads lines of bounded length.
struct Lines<'a> {
    input: &'a mut dyn BufRead,
    buffer: Vec<u8>,
    number: u64,
}

impl Lines<'_> {
    /// The next line; none at the end of the file.
    fn next(&mut self, options: &Options) -> Result<Option<&str>, Problem> {
        self.buffer.clear();
        self.number += 1;
        let place = options.place("line", self.number);
        let mut limited = std::io::Read::take(&mut *self.input, MAX_LINE as u64);
        let read = limited.read_until(b'\n', &mut self.buffer).map_err(|e| Problem::read(place, &e))?;
        if read == MAX_LINE {
            return Err(Problem::at(place, "a line of more than 1 MiB", HELP));
        }
        if read == 0 {
            return Ok(None);
        }
        let text = std::str::from_utf8(&self.buffer).map_err(|_| Problem::at(place, "it is not UTF-8 text", HELP))?;
        Ok(Some(text.trim_end_matches(['\n', '\r'])))
    }
}

/// Reads tab-separated values.
pub fn read_tsv(input: &mut dyn BufRead, options: &Options, sink: &mut dyn Sink) -> Result<(), Problem> {
    let mut lines = Lines { input, buffer: Vec::new(), number: 0 };
    let mut separator = '\t';
    let (mut unset, mut empty) = ("-".to_owned(), "(empty)".to_owned());
    let mut columns: Option<(Vec<Option<usize>>, usize)> = None;
    loop {
        let number = lines.number + 1;
        let place = options.place("line", number);
        let Some(line) = lines.next(options)? else { return Ok(()) };
        if let Some(header) = line.strip_prefix('#') {
            let (name, rest) = header.split_once([separator, ' ']).unwrap_or((header, ""));
            match name {
                "separator" => separator = separator_of(rest).ok_or_else(|| Problem::at(place, "no separator", HELP))?,
                "unset_field" => rest.clone_into(&mut unset),
                "empty_field" => rest.clone_into(&mut empty),
                "fields" => columns = Some(columns_of(rest, separator, place)?),
                _ => {}
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let Some((at, count)) = &columns else { return Err(Problem::at(place, "no line `#fields` comes before", HELP)) };
        let fields: Vec<&str> = line.split(separator).collect();
        let result = if fields.len() == *count {
            let get = |n: usize| at[n].map_or("", |at| fields[at]);
            let row: Row<'_> = std::array::from_fn(|n| Some(get(n)).filter(|&it| it != unset && it != empty).unwrap_or(""));
            connection(&row, options, place, sink)
        } else {
            Err(Problem::at(place, format!("{} fields where #fields names {count}", fields.len()), HELP))
        };
        if let Err(problem) = result {
            options.tolerate(sink, "lines that are no connection", place, problem)?;
        }
    }
}

fn separator_of(text: &str) -> Option<char> {
    match text.trim().strip_prefix("\\x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok().map(char::from),
        None => text.trim().chars().next(),
    }
}

fn columns_of(rest: &str, separator: char, place: Place<'_>) -> Result<(Vec<Option<usize>>, usize), Problem> {
    let names: Vec<&str> = rest.split(separator).collect();
    let at: Vec<Option<usize>> = NAMES.iter().map(|name| names.iter().position(|it| it == name)).collect();
    for needed in [0, 2, 4] {
        if at[needed].is_none() {
            return Err(Problem::at(place, format!("there is no field `{}`", NAMES[needed]), HELP));
        }
    }
    if at[7].or(at[9]).is_none() || at[8].or(at[10]).is_none() {
        return Err(Problem::at(place, "there are no fields `orig_bytes` and `resp_bytes`", HELP));
    }
    Ok((at, names.len()))
}

/// Reads JSON lines.
pub fn read_json(input: &mut dyn BufRead, options: &Options, sink: &mut dyn Sink) -> Result<(), Problem> {
    let mut lines = Lines { input, buffer: Vec::new(), number: 0 };
    loop {
        let number = lines.number + 1;
        let place = options.place("line", number);
        let Some(line) = lines.next(options)? else { return Ok(()) };
        if line.trim().is_empty() {
            continue;
        }
        let result = match serde_json::from_str::<Value>(line) {
            Ok(value) => {
                let values: Vec<String> = NAMES.iter().map(|name| text_of(&value[*name])).collect();
                let row: Row<'_> = std::array::from_fn(|n| values[n].as_str());
                connection(&row, options, place, sink)
            }
            Err(error) => Err(Problem::at(place, format!("it is not JSON: {error}"), HELP)),
        };
        if let Err(problem) = result {
            options.tolerate(sink, "lines that are no connection", place, problem)?;
        }
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

fn connection(row: &Row<'_>, options: &Options, place: Place<'_>, sink: &mut dyn Sink) -> Result<(), Problem> {
    let [ts, duration, orig, orig_port, resp, resp_port, proto, ..] = *row;
    let wrong = |name: &str, text: &str| Problem::at(place, format!("`{text}` is no value of {name}"), HELP);
    if orig.is_empty() || resp.is_empty() {
        return Err(Problem::at(place, "a host is missing", HELP));
    }
    let start = fields::time(ts).ok_or_else(|| wrong("ts", ts))?;
    // A duration that is not known: all bytes count at the start.
    let end = match duration {
        "" => None,
        text => {
            let seconds = fields::time(text).ok_or_else(|| wrong("duration", text))?;
            Some(start.checked_add(seconds).ok_or_else(|| wrong("duration", text))?)
        }
    };
    let count = |with_headers: usize, payload: usize| {
        let text = if row[with_headers].is_empty() { row[payload] } else { row[with_headers] };
        if text.is_empty() { Ok(0) } else { text.parse::<u64>().map_err(|_| wrong(NAMES[payload], text)) }
    };
    let port = |text: &str| if text.is_empty() { Ok(0) } else { text.parse::<u16>().map_err(|_| wrong("a port", text)) };
    let (sent, answered) = (count(9, 7)?, count(10, 8)?);
    let flow = FlowRecord {
        src: Endpoint::parse(orig),
        dst: Endpoint::parse(resp),
        src_port: port(orig_port)?,
        dst_port: port(resp_port)?,
        protocol: fields::protocol(proto),
        start,
        end,
        bytes: sent,
        packets: row[11].parse().unwrap_or(0),
        sampling: options.sampling.unwrap_or(1),
        exporter: None,
    };
    if answered > 0 {
        sink.flow(reversed(&flow, answered, row[12].parse().unwrap_or(0)), place)?;
    }
    if sent > 0 {
        return sink.flow(flow, place);
    }
    if answered == 0 {
        sink.tally().leave_out("flows without a byte", 0, || place.in_file());
    }
    Ok(())
}
