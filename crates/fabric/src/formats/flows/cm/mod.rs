//! htsim's connection matrices, `.cm`: flows, and triggers by which the end of one begins others.
//!
//! ```text
//!   Nodes 16
//!   Connections 2
//!   Triggers 1
//!   0->13 id 1 start 0 size 2000000 send_done_trigger 1      starts are picoseconds, sizes bytes
//!   13->0 id 2 trigger 1 size 2000000                        begins when trigger 1 fires; size 0: without end
//!   trigger id 1 oneshot                                     or multishot, or barrier count 2
//! ```
//! Host numbers are htsim's. Numbers are read exactly; htsim itself reads starts as 32-bit floats.

mod matrix;
mod triggers;

pub use matrix::{Connection, ConnectionMatrix, Trigger, TriggerKind};

use super::{HostNames, WriteError, fields};
use crate::formats::FormatError;
use crate::time::Instant;
use crate::traffic::{FlowSpec, Size};
use crate::units::Bytes;
use matrix::RawConnection;
use triggers::check_triggers;

/// Reads a matrix.
///
/// # Errors
/// The first line that cannot be read; counts that do not match; more nodes than there are hosts; flows that never begin,
/// triggers that nothing sets off, or that htsim itself would stop at. Failed links, priorities and `addon` are refused.
pub fn parse(bytes: &[u8], hosts: HostNames<'_>) -> Result<ConnectionMatrix, FormatError> {
    let text = fields::text(bytes)?;
    let mut reader = Reader { hosts, header: Header::default(), connections: Vec::new(), triggers: Vec::new() };
    let mut last = 1;
    for (line, text) in fields::lines(text) {
        reader.line(line, text)?;
        last = line;
    }
    reader.finish(last)
}

/// Writes flows that have starts of their own. `nodes` is the number of hosts.
///
/// # Errors
/// [`WriteError::TooLarge`] for flows whose size htsim's 31 bits do not hold.
pub fn write(nodes: usize, flows: &[FlowSpec]) -> Result<String, WriteError> {
    let mut text = format!("Nodes {nodes}\nConnections {}\n", flows.len());
    for (i, FlowSpec { src, dst, start, size }) in flows.iter().enumerate() {
        let bytes = match size {
            Size::Infinite => 0,
            Size::Finite(bytes) if bytes.0 > MAX_BYTES => {
                return Err(WriteError::TooLarge { flow: i, bytes: bytes.0, most: MAX_BYTES, format: "a .cm file" });
            }
            Size::Finite(bytes) => bytes.0,
        };
        text.push_str(&format!("{src}->{dst} id {} start {} size {bytes}\n", i + 1, start.as_ps()));
    }
    Ok(text)
}

#[derive(Default)]
struct Header {
    nodes: Option<(usize, u64)>,
    connections: Option<(usize, u64)>,
    triggers: Option<(usize, u64)>,
}

struct Reader<'a> {
    hosts: HostNames<'a>,
    header: Header,
    connections: Vec<RawConnection>,
    triggers: Vec<(usize, Trigger)>,
}

impl Reader<'_> {
    fn line(&mut self, line: usize, text: &str) -> Result<(), FormatError> {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((src, dst)) = first.split_once("->") {
            let connection = self.connection(line, src, dst, words)?;
            self.connections.push(connection);
            return Ok(());
        }
        match first {
            "Nodes" => {
                count(line, "Nodes", words, &mut self.header.nodes)?;
                self.check_nodes()
            }
            "Connections" => count(line, "Connections", words, &mut self.header.connections),
            "Triggers" => count(line, "Triggers", words, &mut self.header.triggers),
            "Failures" => match words.next() {
                Some("0") => Ok(()),
                _ => Err(no_failures(line)),
            },
            "failure" => Err(no_failures(line)),
            "trigger" => {
                self.triggers.push((line, trigger(line, words)?));
                Ok(())
            }
            _ => {
                let help = "a line is `Nodes N`, `Connections N`, `Triggers N`, `src->dst ...` or `trigger id N ...`";
                Err(FormatError::new(line, format!("`{first}` is not known here"), help))
            }
        }
    }

    /// A matrix of a smaller network fits: its hosts are the first ones.
    fn check_nodes(&self) -> Result<(), FormatError> {
        match self.header.nodes {
            Some((line, nodes)) if nodes > self.hosts.count() as u64 => {
                let message = format!("`Nodes {nodes}`, and the fabric has {} hosts", self.hosts.count());
                Err(FormatError::new(line, message, "choose a fabric of as many hosts, or correct the header"))
            }
            _ => Ok(()),
        }
    }

    fn connection<'w>(
        &self,
        line: usize,
        src: &str,
        dst: &str,
        mut words: impl Iterator<Item = &'w str>,
    ) -> Result<RawConnection, FormatError> {
        let (src, dst) = self.hosts.pair(line, src, dst)?;
        if let Some((_, nodes)) = self.header.nodes
            && u64::from(src.0.max(dst.0)) >= nodes
        {
            let message = format!("host {} is out of range: the header says `Nodes {nodes}`", src.0.max(dst.0));
            return Err(FormatError::new(line, message, "correct the host or the header"));
        }
        let (mut start, mut size) = (None, None);
        let (mut begins_on, mut sets_off) = (None, [None; 2]);
        while let Some(word) = words.next() {
            let mut value = || value_of(line, word, words.next());
            match word {
                "start" => start = Some(picoseconds(line, value()?)?),
                "size" => size = Some(fields::whole(line, value()?, "a size in bytes")?),
                "id" => drop(positive(line, value()?, "a flow's id")?),
                "trigger" => begins_on = Some(positive(line, value()?, "a trigger's id")?),
                "send_done_trigger" => sets_off[0] = Some(positive(line, value()?, "a trigger's id")?),
                "recv_done_trigger" => sets_off[1] = Some(positive(line, value()?, "a trigger's id")?),
                "prio" | "addon" => {
                    return Err(FormatError::new(line, format!("`{word}` has no counterpart in Weft"), "remove it"));
                }
                _ => return Err(FormatError::new(line, format!("`{word}` is not known here"), HELP_CONNECTION)),
            }
        }
        let start = match (start, begins_on) {
            (Some(start), None) => start,
            (None, Some(_)) => Instant::ZERO,
            (None, None) => return Err(FormatError::new(line, "the flow has no `start` and no `trigger`", HELP_CONNECTION)),
            (Some(_), Some(_)) => return Err(FormatError::new(line, "the flow has a `start` and a `trigger`", "remove one")),
        };
        let size = match size {
            Some(0) => Size::Infinite,
            Some(bytes) => Size::Finite(Bytes(bytes)),
            None => return Err(FormatError::new(line, "the flow has no `size`", HELP_CONNECTION)),
        };
        Ok(RawConnection { line, flow: FlowSpec { src, dst, start, size }, begins_on, sets_off })
    }

    fn finish(self, last: usize) -> Result<ConnectionMatrix, FormatError> {
        let missing =
            |word| FormatError::new(1, format!("the header has no `{word}`"), "begin with `Nodes N` and `Connections N`");
        let (_, nodes) = self.header.nodes.ok_or_else(|| missing("Nodes"))?;
        let announced = self.header.connections.ok_or_else(|| missing("Connections"))?;
        check_count("Connections", announced, self.connections.len(), last)?;
        check_count("Triggers", self.header.triggers.unwrap_or((1, 0)), self.triggers.len(), last)?;
        check_triggers(nodes, &self.connections, self.triggers)
    }
}

fn count<'w>(
    line: usize,
    word: &str,
    mut words: impl Iterator<Item = &'w str>,
    slot: &mut Option<(usize, u64)>,
) -> Result<(), FormatError> {
    let value = fields::whole(line, value_of(line, word, words.next())?, "a number")?;
    if slot.replace((line, value)).is_some() {
        return Err(FormatError::new(line, format!("`{word}` stands twice"), "remove one"));
    }
    Ok(())
}

fn check_count(word: &str, (line, announced): (usize, u64), found: usize, last: usize) -> Result<(), FormatError> {
    if announced == found as u64 {
        return Ok(());
    }
    let line = if announced > found as u64 { last } else { line };
    let message = format!("the header says `{word} {announced}`, and the file has {found}");
    Err(FormatError::new(line, message, format!("is the file cut short? Else write `{word} {found}`")))
}

fn trigger<'w>(line: usize, mut words: impl Iterator<Item = &'w str>) -> Result<Trigger, FormatError> {
    let (mut id, mut kind, mut members) = (None, None, None);
    while let Some(word) = words.next() {
        match word {
            "id" => id = Some(positive(line, value_of(line, word, words.next())?, "a trigger's id")?),
            "count" => members = Some(positive(line, value_of(line, word, words.next())?, "a count")?),
            "oneshot" | "multishot" | "barrier" if kind.is_none() => kind = Some(word),
            _ => return Err(FormatError::new(line, format!("`{word}` is not known here"), HELP_TRIGGER)),
        }
    }
    let kind = match (kind, members) {
        (Some("oneshot"), None) => TriggerKind::OneShot,
        (Some("multishot"), None) => TriggerKind::MultiShot,
        (Some("barrier"), Some(count)) => TriggerKind::Barrier(count),
        (Some("barrier"), None) => return Err(FormatError::new(line, "the barrier has no `count`", HELP_TRIGGER)),
        (Some(_), _) => return Err(FormatError::new(line, "only a barrier has a `count`", HELP_TRIGGER)),
        (None, _) => return Err(FormatError::new(line, "the trigger has no kind", HELP_TRIGGER)),
    };
    let id = id.ok_or_else(|| FormatError::new(line, "the trigger has no `id`", HELP_TRIGGER))?;
    Ok(Trigger { id, kind })
}

fn value_of<'w>(line: usize, word: &str, value: Option<&'w str>) -> Result<&'w str, FormatError> {
    value.ok_or_else(|| FormatError::new(line, format!("`{word}` has no value"), "is the file cut short?"))
}

fn positive(line: usize, field: &str, what: &str) -> Result<u64, FormatError> {
    match fields::whole(line, field, what)? {
        0 => Err(FormatError::new(line, format!("0 is not {what}"), "htsim counts them from 1")),
        value => Ok(value),
    }
}

/// htsim also writes starts with decimals, which it drops.
fn picoseconds(line: usize, field: &str) -> Result<Instant, FormatError> {
    let (whole, decimals) = field.split_once('.').unwrap_or((field, "0"));
    let digits = !decimals.is_empty() && decimals.bytes().all(|b| b.is_ascii_digit());
    fields::whole(line, whole, "a start").ok().filter(|_| digits).map(Instant::from_ps).ok_or_else(|| {
        let message = format!("`{field}` is not a start");
        FormatError::new(line, message, "starts are whole picoseconds, 0 or more: `start 1000000` is a microsecond")
    })
}

fn no_failures(line: usize) -> FormatError {
    let help = "remove it, and put an [[event]] with `fail` into the scenario";
    FormatError::new(line, "failed links are not read from connection matrices", help)
}

const HELP_CONNECTION: &str = "write `src->dst id N start PICOSECONDS size BYTES`, or `trigger N` in place of `start`";
const HELP_TRIGGER: &str = "write `trigger id N oneshot`, `trigger id N multishot` or `trigger id N barrier count M`";
const MAX_BYTES: u64 = i32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HostId;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<ConnectionMatrix, FormatError> {
        parse(text.as_bytes(), HostNames::numbers(16))
    }

    #[test]
    fn starts_are_picoseconds_and_size_0_is_without_end() {
        let matrix =
            read("Nodes 16\nConnections 2\n0->13 start 1500 size 2000000\n\n13->0 id 2 start 0.000000 size 0\n").unwrap();
        let flow = |src, dst, ps, size| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::from_ps(ps), size };
        assert_eq!(matrix.flows(), [flow(0, 13, 1500, Size::Finite(Bytes(2_000_000))), flow(13, 0, 0, Size::Infinite)]);
        assert!(!matrix.has_triggers());
        assert_eq!(matrix.workload().next_flow().unwrap().src, HostId(13));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, message) in [
            ("", 1, "no `Nodes`"),
            ("Nodes 16\n", 1, "no `Connections`"),
            ("Nodes 16\nConnections 2\n0->1 start 0 size 5\n", 3, "has 1"),
            ("Nodes 16\nConnections 0\n0->1 start 0 size 5\n", 2, "has 1"),
            ("Nodes 16\nNodes 16\n", 2, "twice"),
            ("Nodes\n", 1, "no value"),
            ("Nodes 4\nConnections 1\n0->5 start 0 size 5\n", 3, "Nodes 4"),
            ("Nodes 16\nConnections 1\n0->50 start 0 size 5\n", 3, "out of range"),
            ("Nodes 17\nConnections 1\n0->1 start 0 size 5\n", 1, "the fabric has 16 hosts"),
            ("Nodes 16\nConnections 1\n5->5 start 0 size 5\n", 3, "itself"),
            ("Nodes 16\nConnections 1\n0->5 start -1 size 5\n", 3, "not a start"),
            ("Nodes 16\nConnections 1\n0->5 start 0 size -5\n", 3, "not a size"),
            ("Nodes 16\nConnections 1\n0->5 start 0 size\n", 3, "no value"),
            ("Nodes 16\nConnections 1\n0->5 start 0\n", 3, "no `size`"),
            ("Nodes 16\nConnections 1\n0->5 size 5\n", 3, "no `start`"),
            ("Nodes 16\nConnections 1\n0->5 start 0 size 5 prio 3\n", 3, "no counterpart"),
            ("Nodes 16\nConnections 1\n0->5 start 0 size 5 colour red\n", 3, "not known"),
            ("Nodes 16\nFailures 1\n", 2, "failed links"),
            ("Nodes 16\nConnections 1\nTriggers 1\n0->5 id 1 start 0 trigger 1 size 5\n", 4, "a `start` and a `trigger`"),
            ("Nodes 16\nConnections 0\nTriggers 1\ntrigger id 1 barrier\n", 4, "no `count`"),
            ("Nodes 16\nConnections 0\nTriggers 1\ntrigger oneshot\n", 4, "no `id`"),
            ("hello\n", 1, "not known"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(message), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            flows in prop::collection::vec((0u32..16, 1u32..16, any::<u64>(), prop::option::of(1..=MAX_BYTES)), 0..20)
        ) {
            let flows: Vec<FlowSpec> = flows.into_iter().map(|(src, offset, start, size)| FlowSpec {
                src: HostId(src),
                dst: HostId((src + offset) % 16),
                start: Instant::from_ps(start),
                size: size.map_or(Size::Infinite, |b| Size::Finite(Bytes(b))),
            }).collect();
            prop_assert_eq!(read(&write(16, &flows).unwrap()).unwrap().flows(), flows);
        }

        #[test]
        fn any_bytes_are_an_error_or_a_matrix(bytes: Vec<u8>, tail in "(([0-9]{1,2}->[0-9])?( (id|start|size|trigger|[0-9]|barrier|count|send_done_trigger)){0,6}\\n){0,5}") {
            let _ = parse(&bytes, HostNames::numbers(16));
            let _ = read(&format!("Nodes 16\nConnections 1\nTriggers 1\n{tail}"));
        }
    }
}
