//! What only packets know: where they were dropped, and the queues and windows that a run was asked to trace.

use serde::Serialize;
use weft_fabric::record::Outcome;
use weft_fabric::{Fabric, Instant};

use super::significant;
use super::sketch::Sketch;

/// Drops and traces of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Packets {
    /// Packets dropped, by the sketch's layers: before links towards the higher tier, and towards the lower one.
    pub layers: Vec<[u64; 2]>,
    /// Packets that no queue dropped: there was no route, or they were on a link as it failed and are booked nowhere else.
    pub elsewhere: u64,
    /// The ports that dropped most, the worst first.
    pub worst: Vec<DroppingPort>,
    /// Bytes that waited, a line a queue.
    pub queues: Vec<Line>,
    /// Congestion windows in segments, a line a flow or subflow.
    pub windows: Vec<Line>,
}

/// A port that dropped packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DroppingPort {
    /// `from-to`.
    pub name: String,
    /// Index of its layer.
    pub layer: usize,
    /// Towards the higher tier, or inside one.
    pub up: bool,
    /// Packets.
    pub drops: u64,
}

/// A traced quantity over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// What it is of.
    pub name: String,
    /// Seconds, ascending.
    pub at_s: Vec<f64>,
    /// The largest value from each of these times to the next.
    pub values: Vec<f64>,
}

impl Packets {
    /// Sums up a run; `None` if its world has no packets.
    pub fn new(fabric: &Fabric, sketch: &Sketch, outcome: &Outcome) -> Option<Self> {
        let totals = outcome.packets.as_ref()?;
        let mut layers = vec![[0; 2]; sketch.layers.len()];
        let mut ports = Vec::new();
        for link in outcome.links.iter().filter(|l| l.drops > 0) {
            let place = sketch.place(fabric, link.id);
            layers[place.layer][usize::from(!place.up)] += link.drops;
            ports.push((link.drops, link.id, place));
        }
        ports.sort_by_key(|&(drops, id, _)| (std::cmp::Reverse(drops), id));
        let at_ports: u64 = ports.iter().map(|p| p.0).sum();
        let worst = ports.into_iter().take(MAX_PORTS).map(|(drops, id, place)| {
            let name = fabric.link_name(id);
            DroppingPort { name, layer: place.layer, up: place.up, drops }
        });
        let queues = outcome.traced.queues.iter().map(|s| (fabric.link_name(s.link), s.at, s.bytes.0 as f64));
        let windows = outcome.traced.windows.iter().map(|s| {
            let subflow = if s.subflow > 0 { format!(", subflow {}", s.subflow) } else { String::new() };
            (format!("flow {}{subflow}", s.flow.0), s.at, f64::from(s.segments))
        });
        Some(Self {
            layers,
            elsewhere: totals.drops.saturating_sub(at_ports),
            worst: worst.collect(),
            queues: lines(queues, outcome.ended),
            windows: lines(windows, outcome.ended),
        })
    }

    /// Without the traces.
    pub fn without_lines(&self) -> Self {
        Self { queues: Vec::new(), windows: Vec::new(), ..self.clone() }
    }
}

/// Samples by name, in the order in which names first stand; the largest of every so many, and of the most lines those that reach highest.
fn lines(samples: impl Iterator<Item = (String, Instant, f64)>, ended: Instant) -> Vec<Line> {
    let bin_s = (ended.as_secs_f64() / MAX_POINTS as f64).max(1e-12);
    let mut lines: Vec<Line> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for (name, at, value) in samples {
        let i = *places.entry(name).or_insert_with_key(|name| {
            lines.push(Line { name: name.clone(), ..Line::default() });
            lines.len() - 1
        });
        let (line, at_s) = (&mut lines[i], at.as_secs_f64());
        match line.at_s.last() {
            Some(&last) if (at_s / bin_s) as u64 == (last / bin_s) as u64 => {
                let highest = line.values.last_mut().expect("a value a time");
                *highest = highest.max(value);
            }
            _ => {
                line.at_s.push(significant(at_s, 9));
                line.values.push(value);
            }
        }
    }
    let peak = |line: &Line| line.values.iter().copied().fold(0.0, f64::max);
    if lines.len() > MAX_LINES {
        lines.sort_by(|a, b| peak(b).total_cmp(&peak(a)));
        lines.truncate(MAX_LINES);
    }
    lines
}

const MAX_PORTS: usize = 12;
/// As many as there are colours.
const MAX_LINES: usize = 8;
const MAX_POINTS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::record::{LinkRecord, PacketTotals, QueueSample, Traced};
    use weft_fabric::topology::shapes::{Cabling, fat_tree};
    use weft_fabric::{BitsPerSec, Bytes, Duration, LinkId};

    #[test]
    fn drops_are_summed_by_layer_and_lines_keep_their_peaks() {
        let fabric = fat_tree(4, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).unwrap();
        let sketch = Sketch::new(&fabric);
        let drops = |i: u32| u64::from(i % 5 == 3) * u64::from(i);
        let links = (0..fabric.links().len() as u32).map(|i| LinkRecord { id: LinkId(i), bytes: Bytes(0), drops: drops(i) });
        let all: u64 = (0..fabric.links().len() as u32).map(drops).sum();
        let at = |us: u64| Instant::ZERO + Duration::from_us(us);
        let queues = (0..10_000u64).map(|i| QueueSample { at: at(i), link: LinkId(7), bytes: Bytes(i % 977), drops: 0 });
        let run = Outcome {
            links: links.collect(),
            packets: Some(PacketTotals { drops: all + 9, ..PacketTotals::default() }),
            traced: Traced { queues: queues.collect(), ..Traced::default() },
            ended: at(10_000),
            ..Outcome::default()
        };
        let packets = Packets::new(&fabric, &sketch, &run).expect("it has packets");
        assert_eq!(packets.layers.iter().flatten().sum::<u64>(), all);
        assert_eq!(packets.elsewhere, 9);
        assert!(packets.worst.windows(2).all(|w| w[0].drops >= w[1].drops) && packets.worst.len() == MAX_PORTS);
        let [line] = &packets.queues[..] else { panic!("one queue") };
        assert_eq!(line.name, fabric.link_name(LinkId(7)));
        assert!(line.at_s.len() <= MAX_POINTS + 1 && line.values.contains(&976.0), "{}", line.at_s.len());
        assert_eq!(Packets::new(&fabric, &sketch, &Outcome { packets: None, ..run }), None);
    }
}
