//! Flows as comma-separated values, which spreadsheets and data frames write.
//!
//! ```text
//!   src,dst,start,size        the header; any order of the columns
//!   0,5,0,1000000             host numbers, seconds, bytes
//!   h3,h7,20ms,10MB           names, and quantities with a unit; size inf: until the run ends
//! ```
//! Blank lines and lines that begin with `#` say nothing. Fields may be quoted.

use super::{FormatError, HostNames, fields};
use crate::traffic::{FlowSpec, Size};

/// Reads flows, in the order of the lines.
///
/// # Errors
/// The first line that is not a flow; a wrong header; a file without flows.
pub fn parse(bytes: &[u8], hosts: HostNames<'_>) -> Result<Vec<FlowSpec>, FormatError> {
    let table = Table::new(bytes, &COLUMNS, &[])?;
    let mut flows = Vec::new();
    let last = table.rows(|line, [src, dst, start, size]: [&str; 4]| {
        let (src, dst) = hosts.pair(line, src, dst)?;
        flows.push(FlowSpec { src, dst, start: fields::start(line, start)?, size: fields::size(line, size)? });
        Ok(())
    })?;
    if flows.is_empty() {
        return Err(FormatError::new(last, "the file holds no flow", "add lines such as `0,5,0,1000000` below the header"));
    }
    Ok(flows)
}

/// Writes flows: host numbers, seconds to the picosecond, bytes. [`parse`] reads them back exactly.
pub fn write(flows: &[FlowSpec]) -> String {
    let mut text = format!("{}\n", COLUMNS.join(","));
    for flow in flows {
        let size = match flow.size {
            Size::Finite(bytes) => bytes.0.to_string(),
            Size::Infinite => "inf".to_owned(),
        };
        text.push_str(&format!("{},{},{},{size}\n", flow.src, flow.dst, seconds(flow.start)));
    }
    text
}

/// Seconds as a decimal without loss.
pub(super) fn seconds(at: crate::time::Instant) -> String {
    let (whole, ps) = (at.as_ps() / crate::time::PS_PER_S, at.as_ps() % crate::time::PS_PER_S);
    if ps == 0 {
        return whole.to_string();
    }
    format!("{whole}.{ps:012}").trim_end_matches('0').to_owned()
}

const COLUMNS: [&str; 4] = ["src", "dst", "start", "size"];

/// A file with a header, of which some columns are needed.
pub(super) struct Table<'a> {
    text: &'a str,
    needed: Vec<usize>,
    columns: usize,
}

impl<'a> Table<'a> {
    /// Reads the header. Columns of `allowed` are ignored; others are an error.
    pub(super) fn new(bytes: &'a [u8], needed: &[&str], allowed: &[&str]) -> Result<Self, FormatError> {
        let text = fields::text(bytes)?;
        let help = format!("the first line must be the header `{}`", needed.join(","));
        if text.matches('"').count() % 2 == 1 {
            let line = text.rfind('"').map_or(1, |at| 1 + text[..at].matches('\n').count());
            return Err(FormatError::new(line, "a quote that is not closed", "close it: is the file cut short?"));
        }
        let mut record = ::csv::StringRecord::new();
        if !reader(text).read_record(&mut record).unwrap_or(false) {
            return Err(FormatError::new(1, "the file is empty", help));
        }
        let line = Lines::default().of(text, &record);
        let names: Vec<String> = record.iter().map(str::to_lowercase).collect();
        let find = |name: &&str| {
            names.iter().position(|n| n == name).ok_or_else(|| {
                FormatError::new(line, format!("there is no column `{name}` in `{}`", names.join(",")), help.clone())
            })
        };
        let places = needed.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        for (i, name) in names.iter().enumerate() {
            if names[..i].contains(name) {
                return Err(FormatError::new(line, format!("the column `{name}` stands twice in the header"), help));
            }
        }
        if let Some(unknown) = names.iter().find(|n| !needed.contains(&n.as_str()) && !allowed.contains(&n.as_str())) {
            return Err(FormatError::new(line, format!("unknown column `{unknown}`"), help));
        }
        Ok(Self { text, needed: places, columns: names.len() })
    }

    /// Calls `row` with the line and the needed fields of each row; gives the last line.
    pub(super) fn rows<const N: usize>(
        &self,
        mut row: impl FnMut(usize, [&str; N]) -> Result<(), FormatError>,
    ) -> Result<usize, FormatError> {
        let mut reader = reader(self.text);
        let mut record = ::csv::StringRecord::new();
        let (mut lines, mut line, mut header) = (Lines::default(), 1, true);
        while reader.read_record(&mut record).map_err(|e| FormatError::new(line, e.to_string(), HELP_ROW))? {
            line = lines.of(self.text, &record);
            if std::mem::take(&mut header) {
                continue;
            }
            if record.len() != self.columns {
                let message = format!("{} fields where the header has {}", record.len(), self.columns);
                return Err(FormatError::new(line, message, HELP_ROW));
            }
            row(line, std::array::from_fn(|i| &record[self.needed[i]]))?;
        }
        Ok(line)
    }
}

fn reader(text: &str) -> ::csv::Reader<&[u8]> {
    ::csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .trim(::csv::Trim::All)
        .from_reader(text.as_bytes())
}

/// Counts the lines up to each record. The library gives the place where it began to look for a record: blank lines and
/// comments may come first.
#[derive(Default)]
struct Lines {
    seen: usize,
    newlines: usize,
}

impl Lines {
    fn of(&mut self, text: &str, record: &::csv::StringRecord) -> usize {
        let bytes = text.as_bytes();
        let mut start = record.position().map_or(0, |p| p.byte() as usize).clamp(self.seen, bytes.len());
        while let Some(&first) = bytes.get(start) {
            match first {
                b'\n' | b'\r' => start += 1,
                b'#' => start += bytes[start..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - start),
                _ => break,
            }
        }
        self.newlines += bytes[self.seen..start].iter().filter(|&&b| b == b'\n').count();
        self.seen = start;
        self.newlines + 1
    }
}

const HELP_ROW: &str = "each line has one field a column, separated by commas: is the file cut short?";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HostId;
    use crate::time::{Duration, Instant};
    use crate::topology::shapes::{Cabling, fat_tree};
    use crate::units::{BitsPerSec, Bytes};
    use proptest::prelude::*;

    fn error(text: &str) -> FormatError {
        parse(text.as_bytes(), HostNames::numbers(16)).unwrap_err()
    }

    #[test]
    fn numbers_names_and_units_are_read() {
        let fabric = fat_tree(4, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).unwrap();
        let text = "# mine\nsize,src,dst,start\n\n1000, 0, h5, 1.5\n\"10MB\",h3,2,20ms\ninf,15,0,0\n";
        let flows = parse(text.as_bytes(), HostNames::of(&fabric)).unwrap();
        let flow = |src, dst, start, size| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO + start, size };
        assert_eq!(
            flows,
            [
                flow(0, 5, Duration::from_ms(1500), Size::Finite(Bytes(1000))),
                flow(3, 2, Duration::from_ms(20), Size::Finite(Bytes(10_000_000))),
                flow(15, 0, Duration::ZERO, Size::Infinite),
            ]
        );
        let error = parse(b"src,dst,start,size\n0,core1,0,1\n", HostNames::of(&fabric)).unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (2, "`core1` is a switch"));
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let head = "src,dst,start,size\n0,1,0,5\n";
        for (text, line, message) in [
            (String::new(), 1, "empty"),
            ("0,1,0,5\n".to_owned(), 1, "no column `src`"),
            ("src,dst,start\n".to_owned(), 1, "no column `size`"),
            ("src,dst,start,size,color\n".to_owned(), 1, "unknown column `color`"),
            ("src,dst,start,size,src\n".to_owned(), 1, "twice"),
            ("src,dst,start,size\n".to_owned(), 1, "no flow"),
            (format!("{head}0,16,0,5"), 3, "host 16 is out of range"),
            (format!("{head}\n3,3,0,5"), 4, "to itself"),
            (format!("{head}\r\n# a remark\r\n\r\n3,3,0,5"), 6, "to itself"),
            (format!("{head}0,x,0,5"), 3, "no host `x`"),
            (format!("{head}0,-1,0,5"), 3, "no host `-1`"),
            (format!("{head}0,1,0,-5"), 3, "negative"),
            (format!("{head}0,1,-2,5"), 3, "negative"),
            (format!("{head}0,1,0,5MBps"), 3, "not a size"),
            (format!("{head}0,1,0"), 3, "3 fields where the header has 4"),
            (format!("{head}0,1,0,5,6"), 3, "5 fields"),
            (format!("{head}0,1,0,\"5"), 3, "quote"),
            (format!("{head}0,1,0,0"), 3, "0 bytes"),
        ] {
            let error = error(&text);
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(message), "{text:?}: {error}");
            assert!(!error.help.is_empty());
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            flows in prop::collection::vec((0u32..16, 1u32..16, any::<u64>(), prop::option::of(1u64..)), 1..20)
        ) {
            let flows: Vec<FlowSpec> = flows.into_iter().map(|(src, offset, start, size)| FlowSpec {
                src: HostId(src),
                dst: HostId((src + offset) % 16),
                start: Instant::from_ps(start),
                size: size.map_or(Size::Infinite, |b| Size::Finite(Bytes(b))),
            }).collect();
            prop_assert_eq!(parse(write(&flows).as_bytes(), HostNames::numbers(16)), Ok(flows));
        }

        #[test]
        fn any_bytes_are_an_error_or_flows(bytes: Vec<u8>, tail in "[0-9a-z,\"\\n.-]{0,60}") {
            let _ = parse(&bytes, HostNames::numbers(16));
            let _ = parse(format!("src,dst,start,size\n{tail}").as_bytes(), HostNames::numbers(16));
        }
    }
}
