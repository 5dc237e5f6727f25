//! Traffic patterns: who sends to whom.

use std::sync::Arc;

use crate::ids::HostId;
use crate::traffic::hosts::HostList;
use crate::traffic::weights::RackWeights;

/// Who sends to whom.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Host x sends to host (x + stride) mod hosts, counted among those that take part (Hedera section 6.1).
    Stride {
        /// Not a multiple of the number of hosts.
        stride: u64,
    },
    /// To another host of the same edge switch with probability `edge`, of the same pod but another edge switch with
    /// probability `pod`, else of another pod (Hedera section 6.1).
    ///
    /// Where there is no such host (an edge switch with a lone host, a pod of one edge switch, a fabric of one pod)
    /// the draw falls to the next wider group that has one, and where none is wider, to the next narrower.
    Staggered {
        /// EdgeP, from 0 to 1.
        edge: f64,
        /// PodP, from 0 to 1 - EdgeP.
        pod: f64,
    },
    /// Any other host with equal probability, drawn for each flow; a destination may repeat (Hedera section 6.1).
    Random,
    /// A random permutation in which no host sends to itself, uniform among these. Each of several `flows_per_host`
    /// has a permutation of its own; Poisson and closed-loop arrivals keep the first.
    Bijection,
    /// Each flow goes with probability `fraction` to one of a few random hosts, else to any other host.
    Hotspot {
        /// How many hosts are hot; `None`: one in 16, at least one.
        hotspots: Option<u32>,
        /// Part of the flows that go to them, from 0 to 1.
        fraction: f64,
    },
    /// To a host of a rack that is drawn by the weights of the sender's rack, each of its hosts with equal probability. With Poisson arrivals a host begins
    /// flows in proportion to what its rack sends, divided evenly among the rack's hosts.
    Matrix {
        /// How much racks send to each other.
        weights: Arc<RackWeights>,
    },
    /// Each host sends one flow to each other one (VL2 section 5.1, Hedera section 6.3).
    Shuffle {
        /// All at once, or a few destinations at a time.
        mode: ShuffleMode,
    },
    /// Several of the hosts that take part send to one host, which need not.
    Incast {
        /// How many senders, drawn at random; `None`: all other hosts.
        fan_in: Option<u32>,
        /// The receiver.
        receiver: HostId,
    },
    /// Each of some hosts sends a number of flows to each of some others, all at once (Subways section 8.2).
    ManyToMany {
        /// `sender_racks` or `senders`.
        senders: HostList,
        /// `receiver_racks` or `receivers`; a host of both sides does not send to itself.
        receivers: HostList,
        /// How many flows.
        flows_per_pair: u32,
    },
}

/// How a shuffle goes through its destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuffleMode {
    /// All flows begin at once (VL2 section 5.1).
    Parallel,
    /// Each host goes through its destinations in a random order of its own; as a flow ends the next begins
    /// (Hedera section 6.3).
    Sequential {
        /// How many destinations at a time; 1 in the paper.
        concurrency: u32,
    },
}
