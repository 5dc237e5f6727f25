//! Whether results of a lab are trusted: the machine had time for its packets and for its programs, and TCP works as in the network described.
//!
//! For the third, a lab divides the rates of links and keeps bytes, so a full queue lasts longer; TCP's minimum
//! retransmission timeout stays what it is.
//!
//! | quantity | kept if |
//! | --- | --- |
//! | time of a full queue in retransmission timeouts | the queue is divided as the rates are |
//! | frames of a flow in a full queue | the queue is not divided, or so many fewer flows share a port |
//!
//! Both cannot be kept at once while as many flows share a port. The first one decides whether results are trusted: a round-trip time that grows by more than the
//! minimum timeout within a round trip makes TCP retransmit what was not lost.

use serde::Serialize;
use weft_fabric::record::CpuWait;
use weft_fabric::topology::Fabric;
use weft_fabric::{BitsPerSec, Bytes, Duration};

use crate::scenario::Scenario;
use crate::scenario::lab::SWITCH_QUEUE;
use crate::scenario::traffic::flows::Flows;

/// Why results of a lab are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distrust {
    /// The CPU was saturated: the results reflect the machine, not the network.
    Cpu,
    /// A program of the lab waited for a processor, longer than protocols do for an answer.
    Wait,
    /// Full queues last longer than TCP waits for an acknowledgement, which they would not in the network described.
    Queue,
}

impl Distrust {
    /// Whether the machine is to blame, and another run may fare better.
    pub const fn is_of_machine(self) -> bool {
        matches!(self, Self::Cpu | Self::Wait)
    }

    /// What is the matter; `wait` is the longest wait of the lab.
    pub fn text(self, wait: Option<&LongestWait>) -> String {
        match self {
            Self::Cpu => "CPU was saturated: these results reflect this machine, not the network; lower world.scale".to_owned(),
            Self::Wait => format!(
                "{}: these results reflect this machine, not the network; end what else runs, or lower world.scale",
                wait.map_or_else(|| "a program waited for a processor".to_owned(), LongestWait::text)
            ),
            Self::Queue => "full queues last longer than TCP waits, unlike those described; divide world.switch_queue as world.scale divides rates"
                .to_owned(),
        }
    }
}

/// A lab on a machine with less idle CPU is not trusted.
pub const TRUSTED_IDLE: f64 = 0.1;
/// A lab in which a program waited longer for a processor is not trusted: BFD takes a neighbour for lost after 0.3 s, an agent a path after 0.75 s.
pub const TRUSTED_WAIT: Duration = Duration::from_ms(500);

/// The longest wait of a program of a lab for a processor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LongestWait {
    /// Its name, such as `bfdd`.
    pub program: String,
    /// The node on which it runs; empty for `weft` itself and for threads of the kernel.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// How long, in seconds.
    pub seconds: f64,
}

impl LongestWait {
    /// What waited, and how long.
    pub fn text(&self) -> String {
        let Self { program, node, seconds } = self;
        let at = if node.is_empty() { String::new() } else { format!(" at {node}") };
        format!("{program}{at} waited {seconds:.2} s for a processor")
    }
}

impl From<&CpuWait> for LongestWait {
    fn from(wait: &CpuWait) -> Self {
        Self { program: wait.program.clone(), node: wait.node.clone(), seconds: wait.length.as_secs_f64() }
    }
}

/// How full queues appear to TCP in a lab.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Regime {
    /// Seconds that the full queue of the slowest switch port takes to drain.
    pub queue_s: f64,
    /// The same with as many bytes at the rate that the scenario describes.
    pub described_queue_s: f64,
    /// Frames of each flow that this queue holds, where the flows that start first share a receiver; `None` without flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames_per_flow: Option<f64>,
}

impl Regime {
    /// Of a lab with these rates, which are those of the scenario times its scale; `None` without a switch.
    pub fn of(network: &Fabric, scenario: &Scenario, flows: Option<&Flows>) -> Option<Self> {
        let of_switch = |link: &&weft_fabric::topology::Link| network.node(link.from).tier > 0;
        let slowest = network.links().iter().filter(of_switch).map(|link| link.capacity).min()?;
        let queue = scenario.world.queues.of_port().unwrap_or(SWITCH_QUEUE);
        let sharing = flows.map_or(0, sharing_a_receiver);
        Some(Self::new(queue, slowest, scenario.world.lab.scale, sharing))
    }

    fn new(queue: Bytes, rate: BitsPerSec, scale: f64, sharing: usize) -> Self {
        let queue_s = queue.0 as f64 * 8.0 / rate.as_f64();
        let frames_per_flow = (sharing > 0).then(|| queue.0 as f64 / FRAME / sharing as f64);
        Self { queue_s, described_queue_s: queue_s * scale, frames_per_flow }
    }

    /// Whether retransmission timeouts mean what they mean in the network described.
    pub fn is_kept(&self) -> bool {
        self.queue_s <= QUEUE_MAX_S || self.described_queue_s > QUEUE_MAX_S
    }

    /// What is wrong, and what to do; `None` if nothing is.
    pub fn warning(&self) -> Option<String> {
        (!self.is_kept()).then(|| {
            format!(
                "a full queue of a switch lasts {:.2} s in this lab and {:.4} s at the rates described: TCP takes it for losses (its minimum timeout is \
                 {RTO_MIN_S} s), so results are UNTRUSTED. Divide `world.switch_queue` as well, or use fewer hosts with a larger `world.scale`",
                self.queue_s, self.described_queue_s
            )
        })
    }
}

/// Of the flows that start first, how many have the same receiver.
fn sharing_a_receiver(flows: &Flows) -> usize {
    let mut workload = flows.begin();
    let first = workload.next_start();
    let mut receivers = std::collections::BTreeMap::new();
    for _ in 0..FLOWS_MAX {
        let Some(flow) = (workload.next_start() == first).then(|| workload.next_flow()).flatten() else { break };
        *receivers.entry(flow.dst).or_insert(0) += 1;
    }
    receivers.into_values().max().unwrap_or(0)
}

/// Linux's minimum retransmission timeout, which is added to the smoothed round-trip time.
const RTO_MIN_S: f64 = 0.2;
/// Slow start fills the second half of a queue within one round trip.
const QUEUE_MAX_S: f64 = 2.0 * RTO_MIN_S;
/// Bytes of a full Ethernet frame.
const FRAME: f64 = 1514.0;
/// Flows that are looked at, at most.
const FLOWS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn regime(queue: u64, mbps: u64, scale: f64, sharing: usize) -> Regime {
        Regime::new(Bytes(queue), BitsPerSec(mbps * 1_000_000), scale, sharing)
    }

    /// VL2's figure 9 at 1/200 of its rates, and with a fourth of the servers at 1/50 and a queue of the same time.
    #[test]
    fn a_queue_that_is_not_divided_lasts_longer_than_a_timeout() {
        let whole = regime(1_000_000, 5, 0.005, 74);
        assert!((whole.queue_s - 1.6).abs() < 1e-9 && (whole.described_queue_s - 0.008).abs() < 1e-9, "{whole:?}");
        assert!(whole.frames_per_flow.is_some_and(|frames| (frames - 8.926).abs() < 1e-3), "{whole:?}");
        assert!(!whole.is_kept());
        assert!(whole.warning().is_some_and(|text| text.contains("1.60 s") && text.contains("UNTRUSTED")));
        let quick = regime(20_000, 20, 0.02, 17);
        assert!(quick.is_kept() && quick.warning().is_none(), "{quick:?}");
    }

    /// What the network described does as well is no fault of the lab.
    #[test]
    fn long_queues_that_are_described_are_kept() {
        assert!(regime(1_000_000, 5, 1.0, 0).is_kept());
        assert_eq!(regime(1_000_000, 5, 1.0, 0).frames_per_flow, None);
        let edge = |bytes| regime(bytes, 1, 0.001, 1).is_kept();
        assert!(edge(50_000) && !edge(50_001));
    }
}
