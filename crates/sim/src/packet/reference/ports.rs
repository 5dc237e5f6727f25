//! Packets, and the links with the queues before them.

use std::collections::VecDeque;
use std::rc::Rc;

use weft_fabric::LinkId;

use crate::packet::tcp::blocks::Blocks;

/// What a packet is.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Data { number: u32, repeat: bool },
    Ack { number: u32, blocks: Blocks },
    Syn,
    SynAck,
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    pub end: usize,
    pub what: What,
    pub marked: bool,
    pub len: u64,
    pub path: Rc<[LinkId]>,
    pub hop: usize,
}

/// A link and the queue before it.
#[derive(Debug)]
pub struct Port {
    pub byte_time: u128,
    pub delay: u64,
    pub limit: u64,
    /// In bits per second.
    pub rate: u64,
    /// Whether a buffer that the switch's ports share counts, and not `limit`.
    pub shared: bool,
    pub mark: Option<u64>,
    /// Back-pressure, in time: flows of the host wait while more than the second is here, and go on at the first.
    pub room: Option<[u64; 2]>,
    /// Flows that wait for a turn.
    pub queue: VecDeque<usize>,
    pub waiting: VecDeque<Packet>,
    /// Time to send those that wait.
    pub waits: u64,
    pub service: Option<(Packet, u64)>,
    /// Packets that have left and not arrived.
    pub flying: VecDeque<Packet>,
    pub up: bool,
    pub books: Books,
}

/// Packets and bytes that came to a port, and what became of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Books {
    pub accepted: [u64; 2],
    pub refused: u64,
    pub arrived: [u64; 2],
    pub lost: u64,
}

impl Port {
    pub fn time(&self, len: u64) -> u64 {
        ((u128::from(len) * self.byte_time) >> 20) as u64
    }

    /// Time to send what is here.
    pub fn backlog(&self, now: u64) -> u64 {
        let serving = self.service.as_ref().map_or(0, |s| s.1 - now);
        serving + self.waits
    }

    pub fn inside(&self) -> u64 {
        self.waiting.len() as u64 + u64::from(self.service.is_some())
    }
}
