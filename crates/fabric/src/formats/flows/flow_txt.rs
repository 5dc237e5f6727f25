//! Flows of HPCC's ns-3 simulator: `flow.txt`.
//!
//! ```text
//!   2                               how many flows; lines beyond are not read
//!   3 7 3 100 200000000 2           source, destination, priority group, destination port, bytes, start in seconds
//!   4 7 3 100 5000000 2.000001
//! ```
//! The simulator takes as many flows as the first line says, whatever else the file holds, and so does this reader.

use super::{FormatError, HostNames, WriteError, csv, fields};
use crate::traffic::{FlowSpec, Size};

/// Reads flows, in the order of the lines. Priority groups and ports are checked and dropped.
///
/// # Errors
/// The first line that is not a flow; fewer flows than the count says.
pub fn parse(bytes: &[u8], hosts: HostNames<'_>) -> Result<Vec<FlowSpec>, FormatError> {
    let text = fields::text(bytes)?;
    let mut lines = fields::lines(text);
    let help = "the first line is the number of flows";
    let Some((line, count)) = lines.next() else { return Err(FormatError::new(1, "the file is empty", help)) };
    let count = fields::whole(line, count, "a number of flows").map_err(|e| FormatError { help: help.to_owned(), ..e })?;
    let mut flows = Vec::new();
    while (flows.len() as u64) < count {
        let Some((line, text)) = lines.next() else {
            let line = 1 + text.lines().count();
            let message = format!("the file ends after {} of the {count} flows that its first line announces", flows.len());
            return Err(FormatError::new(line, message, format!("restore the missing lines, or write {} there", flows.len())));
        };
        flows.push(flow(line, text, hosts)?);
    }
    Ok(flows)
}

fn flow(line: usize, text: &str, hosts: HostNames<'_>) -> Result<FlowSpec, FormatError> {
    let words: Vec<&str> = text.split_whitespace().take(7).collect();
    let [src, dst, group, port, size, start] = words[..] else {
        let message = format!("{} fields where a flow has 6", words.len());
        return Err(FormatError::new(line, message, "write `source destination 3 port bytes start`: is the file cut short?"));
    };
    let (src, dst) = hosts.pair(line, src, dst)?;
    fields::whole(line, group, "a priority group")?;
    fields::whole(line, port, "a port")?;
    if size == "inf" {
        return Err(FormatError::new(line, "a flow without end", "flow.txt knows none: write bytes"));
    }
    Ok(FlowSpec { src, dst, start: fields::start(line, start)?, size: fields::size(line, size)? })
}

/// Writes flows by start, as the simulator needs them; equal starts keep their order. Priority group 3 and port 100 are
/// those of HPCC's own generator.
///
/// # Errors
/// [`WriteError::Endless`]; [`WriteError::TooLarge`] for flows whose size the simulator's 32 bits do not hold.
pub fn write(flows: &[FlowSpec]) -> Result<String, WriteError> {
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&i| flows[i].start);
    let mut text = format!("{}\n", flows.len());
    for i in order {
        let FlowSpec { src, dst, start, size } = flows[i];
        let Size::Finite(bytes) = size else { return Err(WriteError::Endless { flow: i, format: FORMAT }) };
        if bytes.0 > MAX_BYTES {
            return Err(WriteError::TooLarge { flow: i, bytes: bytes.0, most: MAX_BYTES, format: FORMAT });
        }
        text.push_str(&format!("{src} {dst} 3 100 {} {}\n", bytes.0, csv::seconds(start)));
    }
    Ok(text)
}

const FORMAT: &str = "flow.txt";
const MAX_BYTES: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HostId;
    use crate::time::Instant;
    use crate::units::Bytes;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<FlowSpec>, FormatError> {
        parse(text.as_bytes(), HostNames::numbers(16))
    }

    #[test]
    fn the_count_is_honoured() {
        let body = "2 1 3 100 200000000 2\n3 1 3 100 5000 2.5\nwhatever stands here\n";
        assert_eq!(read(&format!("0\n{body}")).unwrap().len(), 0);
        assert_eq!(read(&format!("1 \n{body}")).unwrap().len(), 1);
        let flows = read(&format!("2\n{body}")).unwrap();
        let second = FlowSpec {
            src: HostId(3),
            dst: HostId(1),
            start: Instant::from_ps(2_500_000_000_000),
            size: Size::Finite(Bytes(5000)),
        };
        assert_eq!(flows[1], second);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, message) in [
            ("", 1, "empty"),
            ("many\n", 1, "not a number of flows"),
            ("-1\n", 1, "not a number of flows"),
            ("3\n1 2 3 100 5 0\n", 3, "ends after 1 of the 3"),
            ("18446744073709551615\n1 2 3 100 5 0\n", 3, "ends after 1"),
            ("1\n1 2 3 100 5\n", 2, "5 fields"),
            ("1\n1 2 3 100 5 0 9\n", 2, "7 fields"),
            ("1\n1 1 3 100 5 0\n", 2, "itself"),
            ("1\n1 16 3 100 5 0\n", 2, "out of range"),
            ("1\n1 2 3 100 -5 0\n", 2, "negative"),
            ("1\n1 2 3 100 5 -1\n", 2, "negative"),
            ("1\n1 2 3 100 inf 0\n", 2, "without end"),
            ("1\n1 2 x 100 5 0\n", 2, "priority group"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(message), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_written_says_why() {
        let flow = |size| FlowSpec { src: HostId(0), dst: HostId(1), start: Instant::ZERO, size };
        assert!(matches!(write(&[flow(Size::Infinite)]), Err(WriteError::Endless { flow: 0, .. })));
        assert!(matches!(write(&[flow(Size::Finite(Bytes(1 << 32)))]), Err(WriteError::TooLarge { flow: 0, .. })));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(flows in prop::collection::vec((0u32..16, 1u32..16, any::<u64>(), 1u32..), 0..20)) {
            let mut flows: Vec<FlowSpec> = flows.into_iter().map(|(src, offset, start, bytes)| FlowSpec {
                src: HostId(src),
                dst: HostId((src + offset) % 16),
                start: Instant::from_ps(start),
                size: Size::Finite(Bytes(bytes.into())),
            }).collect();
            let text = write(&flows).unwrap();
            flows.sort_by_key(|f| f.start);
            prop_assert_eq!(read(&text), Ok(flows));
        }

        #[test]
        fn any_bytes_are_an_error_or_flows(bytes: Vec<u8>, tail in "[0-9 .\\n-]{0,60}") {
            let _ = parse(&bytes, HostNames::numbers(16));
            let _ = read(&tail);
        }
    }
}
