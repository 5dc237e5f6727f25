//! Probes: small datagrams between VMs at equal intervals during events. They measure outages without the pauses that TCP adds.
//!
//! ```text
//!   VM a port 10000+n --- a datagram each 10 ms, by any path ---> VM b port 5002+n: the time of the last reception
//! ```

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use socket2::{SockAddr, Socket};
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{Duration, HostId, Instant};

use super::flow::Flow;
use super::hosts::{Hosts, PORT, PORT_FIRST};
use crate::clock::RunClock;
use crate::error::Result;
use crate::plan::Plan;
use crate::plan::netlord::{Exchange, Netlord, Reach, Vm};

/// All probes.
pub(crate) struct Probes {
    pairs: Vec<ProbePair>,
}

/// A sender and a receiver.
struct ProbePair {
    flow: Flow,
    sender: Socket,
    to: SockAddr,
    receiver: Socket,
}

impl Probes {
    /// Opens probes between VMs that reach each other, preferably at different edge switches; none without NetLord. The calling thread changes namespaces.
    pub(crate) fn open(plan: &Plan) -> Result<Self> {
        let Some(netlord) = plan.overlay.netlord() else { return Ok(Self { pairs: Vec::new() }) };
        let mut hosts = Hosts::open(plan)?;
        let ends = ends(plan, netlord);
        let mut pairs = Vec::new();
        for (nth, (src, dst)) in (0u16..).zip(ends.iter().cycle().take(if ends.is_empty() { 0 } else { PAIRS })) {
            let spec = FlowSpec { src: *src, dst: *dst, start: Instant::ZERO, size: Size::Infinite };
            let port = PORT + 1 + nth;
            let (sender, _) = hosts.datagrams(*src, PORT_FIRST + nth)?;
            let (receiver, address) = hosts.datagrams(*dst, port)?;
            pairs.push(ProbePair {
                flow: Flow::new(spec),
                sender,
                to: SockAddr::from(SocketAddrV4::new(address, port)),
                receiver,
            });
        }
        Ok(Self { pairs })
    }

    /// Runs until the traffic is over. `events` are in order.
    pub(crate) fn run(mut self, clock: RunClock, events: &[Instant], over: &AtomicBool) -> Vec<Flow> {
        if !self.pairs.is_empty() {
            let mut next = Instant::ZERO;
            while !over.load(Ordering::Relaxed) {
                self.pairs.iter_mut().for_each(|pair| pair.run_once(clock.now(), events));
                // Missed intervals are left out.
                next = (next + PERIOD).max(clock.now());
                clock.sleep_until(next, StdDuration::from_millis(PERIOD_MS));
            }
            let now = clock.now();
            self.pairs.iter_mut().for_each(|pair| pair.flow.record_end(now, events));
        }
        self.pairs.into_iter().map(|pair| pair.flow).collect()
    }
}

impl ProbePair {
    fn run_once(&mut self, now: Instant, events: &[Instant]) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 64];
        let mut received = false;
        while self.receiver.recv(&mut buffer).is_ok() {
            received = true;
        }
        if received {
            self.flow.record_reception(now, events);
        }
        // A packet that finds a full queue or no route is lost, as on any other link.
        let _ = self.sender.send_to(&[0; 8], &self.to);
    }
}

/// For each VM another one that it reaches, by their numbers.
fn ends(plan: &Plan, netlord: &Netlord) -> Vec<(HostId, HostId)> {
    let reach = Reach::of(netlord);
    let edges = |vm: &Vm| plan.edges_of(vm.host);
    let numbered = || netlord.vms.iter().enumerate();
    let of = |(src, vm): (usize, &Vm)| {
        let reached = |other: &&(usize, &Vm)| other.0 != src && reach.has(vm, other.1, Exchange::Udp(PORT_FIRST, PORT + 1));
        // Starting with those after it, so that the receivers differ.
        let others: Vec<(usize, &Vm)> = numbered().skip(src).chain(numbered().take(src)).collect();
        let far = others.iter().filter(reached).find(|other| edges(other.1).is_disjoint(&edges(vm)));
        let (dst, _) = far.or_else(|| others.iter().find(reached))?;
        Some((HostId::from(src), HostId::from(*dst)))
    };
    numbered().filter_map(of).collect()
}

/// The number of probes; with fewer VMs some have several, which may take different paths.
const PAIRS: usize = 16;
const PERIOD_MS: u64 = 10;
const PERIOD: Duration = Duration::from_ms(PERIOD_MS);
