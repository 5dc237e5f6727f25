//! The readers on small logs of each format, on damaged ones and on random bytes.

mod captures;
mod text;

use super::{FlowRecord, Format, Options, Place, Problem, Sink, read};
use crate::analyze::tally::Tally;

/// Keeps all flows.
#[derive(Default)]
struct Kept {
    flows: Vec<FlowRecord>,
    tally: Tally,
}

impl Sink for Kept {
    fn flow(&mut self, flow: FlowRecord, _: Place<'_>) -> Result<(), Problem> {
        self.flows.push(flow);
        Ok(())
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

fn options(keep_going: bool) -> Options {
    Options { file: "log".to_owned(), idle_ns: 60_000_000_000, sampling: None, keep_going, key: None }
}

fn read_all(bytes: &[u8]) -> Result<(Format, Kept), Problem> {
    let mut kept = Kept::default();
    let format = read(&mut &*bytes, &options(false), &mut kept)?;
    Ok((format, kept))
}

/// Reads with `keep_going`.
fn read_some(bytes: &[u8]) -> Result<Kept, Problem> {
    let mut kept = Kept::default();
    read(&mut &*bytes, &options(true), &mut kept)?;
    Ok(kept)
}

/// Source, destination, start, end and bytes.
fn short(flow: &FlowRecord) -> (String, String, i64, Option<i64>, u64) {
    (flow.src.to_string(), flow.dst.to_string(), flow.start, flow.end, flow.bytes)
}

fn row(src: &str, dst: &str, start: i64, end: Option<i64>, bytes: u64) -> (String, String, i64, Option<i64>, u64) {
    (src.to_owned(), dst.to_owned(), start, end, bytes)
}
