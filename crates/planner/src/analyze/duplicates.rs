//! Flows that several devices report: the first that reports a flow is believed, records of the others about the same time are duplicates.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rustc_hash::FxHashMap;

use super::formats::FlowRecord;

/// Flows that are remembered in each of two generations.
const MAX_FLOWS: usize = 500_000;
/// Clocks of devices, and their timeouts of active flows, differ by no more than this.
const SLACK_NS: i64 = 60_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Owner {
    exporter: u64,
    last_end: i64,
}

/// Remembers who reports which flow; the oldest ones are forgotten.
#[derive(Debug, Default)]
pub struct Duplicates {
    young: FxHashMap<u64, Owner>,
    old: FxHashMap<u64, Owner>,
}

impl Duplicates {
    /// Whether another device has reported this part of the flow.
    pub fn is_duplicate(&mut self, flow: &FlowRecord) -> bool {
        let Some(exporter) = &flow.exporter else { return false };
        let exporter = digest(|hash| exporter.hash(hash));
        let key = digest(|hash| {
            (&flow.src, &flow.dst, flow.src_port, flow.dst_port, flow.protocol).hash(hash);
        });
        let end = flow.end.unwrap_or(flow.start);
        let known = self.young.get(&key).or_else(|| self.old.get(&key)).copied();
        let owner = match known {
            Some(owner) if owner.exporter != exporter && flow.start <= owner.last_end.saturating_add(SLACK_NS) => return true,
            Some(owner) if owner.exporter == exporter => Owner { exporter, last_end: owner.last_end.max(end) },
            _ => Owner { exporter, last_end: end },
        };
        self.young.insert(key, owner);
        if self.young.len() > MAX_FLOWS {
            self.old = std::mem::take(&mut self.young);
        }
        false
    }
}

// A collision of two of a million flows in 64 bits is as likely as a broken disk.
fn digest(feed: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    feed(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::super::formats::Endpoint;
    use super::*;

    fn flow(exporter: &str, start: i64, end: i64) -> FlowRecord {
        FlowRecord {
            src: Endpoint::parse("10.0.0.1"),
            dst: Endpoint::parse("10.0.1.1"),
            src_port: 1,
            dst_port: 2,
            protocol: 6,
            start,
            end: Some(end),
            bytes: 1,
            packets: 1,
            sampling: 1,
            exporter: Some(Endpoint::parse(exporter)),
        }
    }

    #[test]
    fn one_device_is_believed_for_each_flow() {
        const S: i64 = 1_000_000_000;
        let mut seen = Duplicates::default();
        assert!(!seen.is_duplicate(&flow("a", 0, 10 * S)));
        assert!(seen.is_duplicate(&flow("b", S, 11 * S)));
        assert!(!seen.is_duplicate(&flow("a", 10 * S, 20 * S))); // its next part
        assert!(seen.is_duplicate(&flow("b", 11 * S, 21 * S)));
        assert!(!seen.is_duplicate(&flow("b", 200 * S, 201 * S))); // the same ports, much later
        let mut other = flow("b", 0, S);
        other.src_port = 9;
        assert!(!seen.is_duplicate(&other));
    }
}
