//! TCP's ends on scripted losses, without a network.
//!
//! | module | what it tests |
//! | --- | --- |
//! | [`loss`] | slow start, recovery, duplicates (RFC 5681, 6582) |
//! | [`timer`] | the retransmission timer, the handshake (RFC 6298) |
//! | [`answers`] | delayed acknowledgements, marks, DCTCP, linked increases (RFC 5681, 3168, 8257, 6356) |
//! | [`selective`] | recovery with SACK, and its blocks (RFC 2018, 2883, 6675) |
//! | [`rack`] | losses by time, tail loss probes (RFC 8985) |
//! | [`frto`] | spurious timeouts (RFC 5682) |
//! | [`cubic`] | CUBIC's window (RFC 9438) |
//! | [`pace`] | pacing |
//! | [`pipe`] | both ends over a pipe that loses at random, or at a rate for which the throughput is known |

mod answers;
mod cubic;
mod frto;
mod loss;
mod pace;
mod pipe;
mod rack;
mod selective;
mod timer;

use super::blocks::Blocks;
use super::sender::{Segment, Sender};
use super::*;

const MS: u64 = 1_000_000_000;

/// A sender on strings: a test says what it hears, and sees what it sends.
struct Script {
    tcp: Tcp,
    tx: Sender,
    now: u64,
}

impl Script {
    /// A connection of `end` segments that opens at 0 and is answered after `rtt`.
    fn new(tcp: Tcp, end: u32, rtt: u64) -> Self {
        let mut script = Self { tcp, tx: Sender::new(&tcp, end), now: 0 };
        script.tx.open(0);
        assert_eq!(script.tx.poll(&script.tcp, 0), Some(Segment::Syn));
        assert_eq!(script.tx.poll(&script.tcp, 0), None);
        script.now = rtt;
        script.tx.on_syn_ack(&script.tcp, rtt);
        script
    }

    /// An endless one with so many segments in its first window, over 100 ms.
    fn with_window(window: u32) -> Self {
        Self::new(Tcp { initial_window: window, ..Tcp::default() }, u32::MAX, 100 * MS)
    }

    /// What it sends now.
    fn send(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.tx.poll(&self.tcp, self.now))
            .map_while(|segment| match segment {
                Segment::Data { number, .. } => Some(number),
                Segment::Later { .. } => None,
                Segment::Syn => panic!("a SYN in an open connection"),
            })
            .collect()
    }

    /// It hears an acknowledgement; what it sends then.
    fn ack(&mut self, number: u32) -> Vec<u32> {
        self.tx.on_ack(&self.tcp, self.now, number, false);
        self.send()
    }

    /// It hears an acknowledgement with these blocks; what it sends then.
    fn sack(&mut self, number: u32, blocks: &[(u32, u32)]) -> Vec<u32> {
        let mut option = Blocks::default();
        blocks.iter().for_each(|&block| option.push(block));
        self.tx.on_sack(&self.tcp, self.now, number, false, &option);
        self.send()
    }

    fn marked_ack(&mut self, number: u32) -> Vec<u32> {
        self.tx.on_ack(&self.tcp, self.now, number, true);
        self.send()
    }

    /// It hears the same acknowledgement so many times.
    fn acks(&mut self, number: u32, times: usize) -> Vec<u32> {
        (0..times).flat_map(|_| self.ack(number)).collect()
    }

    /// The time until its timer runs out.
    fn left(&self) -> u64 {
        self.tx.deadline() - self.now
    }

    /// Its timer runs out; what it sends then.
    fn time_out(&mut self) -> Vec<u32> {
        self.now = self.tx.deadline();
        assert!(self.tx.on_timer(&self.tcp, self.now));
        self.send()
    }
}

fn range(from: u32, to: u32) -> Vec<u32> {
    (from..to).collect()
}
