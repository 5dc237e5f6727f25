//! Small datagrams at equal spans between those who send anyway, while things fail: how long nothing gets through, without what TCP waits after an outage.
//!
//! ```text
//!   VM a port 10000+n --- each 10 ms a datagram, which may take any path ---> VM b port 5002+n: when it heard the last one
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
use crate::plan::tenants::{Netlord, Reach, Sent, Vm};

/// Ways that are watched.
pub(crate) struct Beats {
    ways: Vec<Way>,
}

struct Way {
    flow: Flow,
    sender: Socket,
    to: SockAddr,
    receiver: Socket,
}

impl Beats {
    /// Between VMs of a plan's tenants that reach each other, those at different edge switches first; none elsewhere. The calling thread is moved between namespaces.
    pub(crate) fn open(plan: &Plan) -> Result<Self> {
        let Some(netlord) = &plan.tenants else { return Ok(Self { ways: Vec::new() }) };
        let mut hosts = Hosts::open(plan)?;
        let pairs = pairs(plan, netlord);
        let mut ways = Vec::new();
        for (nth, (src, dst)) in (0u16..).zip(pairs.iter().cycle().take(if pairs.is_empty() { 0 } else { WAYS })) {
            let spec = FlowSpec { src: *src, dst: *dst, start: Instant::ZERO, size: Size::Infinite };
            let port = PORT + 1 + nth;
            let (sender, _) = hosts.datagrams(*src, PORT_FIRST + nth)?;
            let (receiver, address) = hosts.datagrams(*dst, port)?;
            ways.push(Way { flow: Flow::new(spec), sender, to: SockAddr::from(SocketAddrV4::new(address, port)), receiver });
        }
        Ok(Self { ways })
    }

    /// Until the traffic is over. `events` are in order.
    pub(crate) fn run(mut self, clock: RunClock, events: &[Instant], over: &AtomicBool) -> Vec<Flow> {
        if !self.ways.is_empty() {
            let mut next = Instant::ZERO;
            while !over.load(Ordering::Relaxed) {
                self.ways.iter_mut().for_each(|way| way.turn(clock.now(), events));
                // Late turns are left out, not made up for.
                next = (next + PERIOD).max(clock.now());
                clock.sleep_until(next, StdDuration::from_millis(PERIOD_MS));
            }
            let now = clock.now();
            self.ways.iter_mut().for_each(|way| way.flow.hear_no_more(now, events));
        }
        self.ways.into_iter().map(|way| way.flow).collect()
    }
}

impl Way {
    fn turn(&mut self, now: Instant, events: &[Instant]) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 64];
        let mut heard = false;
        while self.receiver.recv(&mut buffer).is_ok() {
            heard = true;
        }
        if heard {
            self.flow.hear(now, events);
        }
        // What finds the queue full, or no way, is lost, as on any other link.
        let _ = self.sender.send_to(&[0; 8], &self.to);
    }
}

/// For each VM one that it reaches, by their numbers.
fn pairs(plan: &Plan, netlord: &Netlord) -> Vec<(HostId, HostId)> {
    let reach = Reach::of(netlord);
    let edges = |vm: &Vm| plan.edges_of(vm.host);
    let numbered = || netlord.vms.iter().enumerate();
    let of = |(src, vm): (usize, &Vm)| {
        let reached = |other: &&(usize, &Vm)| other.0 != src && reach.has(vm, other.1, Sent::Udp(PORT_FIRST, PORT + 1));
        // Those after it first, so that each is reached by another one.
        let others: Vec<(usize, &Vm)> = numbered().skip(src).chain(numbered().take(src)).collect();
        let far = others.iter().filter(reached).find(|other| edges(other.1).is_disjoint(&edges(vm)));
        let (dst, _) = far.or_else(|| others.iter().find(reached))?;
        Some((HostId::from(src), HostId::from(*dst)))
    };
    numbered().filter_map(of).collect()
}

/// Ways at the most; with fewer pairs each has several, which may take different paths.
const WAYS: usize = 16;
const PERIOD_MS: u64 = 10;
const PERIOD: Duration = Duration::from_ms(PERIOD_MS);
