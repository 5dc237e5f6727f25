//! Counters of the kernel: bytes, packets and drops of every port's queue, and the time of the processors.
//!
//! The queue (TBF) counts packets as they are on the link: with Ethernet's header, and with the headers of every segment after TSO. The device
//! itself counts the headers of a large packet once.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use weft_fabric::{Fabric, LinkId, NodeId};

use crate::error::{LabError, Result};
use crate::netlink::{NLM_F_DUMP, Netlink, Request, attributes, u32_at, u64_at};
use crate::netns;
use crate::plan::{Node, Plan};

/// Counters of a link, which is a port's queue, since the lab came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Bytes sent, with the headers of Ethernet, IP and TCP.
    pub bytes: u64,
    /// Packets sent; segments, where TSO is at work.
    pub packets: u64,
    /// Packets that found the queue full.
    pub drops: u64,
    /// Bytes in the queue.
    pub backlog: u64,
}

/// Reads the counters of all ports.
pub(crate) struct Counters {
    nodes: Vec<Reader>,
    links: usize,
    /// The counters of links before their port changed.
    earlier: Vec<(LinkId, LinkCounters)>,
}

struct Reader {
    netlink: Netlink,
    /// The device's index and the link that leaves by it.
    links: Vec<(u32, LinkId)>,
}

impl Counters {
    /// Opens sockets in all namespaces of the fabric.
    pub(crate) fn open(plan: &Plan, fabric: &Fabric, stop: &AtomicBool) -> Result<Self> {
        let all: Vec<(usize, &Node)> = plan.nodes.iter().take(fabric.nodes().len()).enumerate().collect();
        let nodes = netns::each(&all, stop, |(i, node)| {
            netns::enter(&node.namespace)?;
            let links = node.ports.iter().zip(fabric.out(NodeId::from(*i))).map(|(port, &link)| {
                let index = nix::net::if_::if_nametoindex(port.name.as_str());
                index.map(|i| (i, link)).map_err(|e| netns::kernel("find a port", &node.namespace, e))
            });
            let links = links.collect::<Result<Vec<_>>>()?;
            let netlink = Netlink::open().map_err(|cause| failed(&node.namespace, cause))?;
            Ok(Reader { netlink, links })
        })?;
        Ok(Self { nodes, links: fabric.links().len(), earlier: Vec::new() })
    }

    /// From now on a link leaves by a device of another node, which counts from 0; `counted` are its counters before.
    pub(crate) fn follow(&mut self, link: LinkId, counted: LinkCounters, node: (usize, &Node), device: &str) -> Result<()> {
        let (index, node) = node;
        let found = netns::within(&node.namespace, || {
            nix::net::if_::if_nametoindex(device).map_err(|e| netns::kernel("find a port", &node.namespace, e))
        })?;
        self.nodes.iter_mut().for_each(|reader| reader.links.retain(|(_, l)| *l != link));
        self.nodes[index].links.push((found, link));
        self.earlier.retain(|(l, _)| *l != link);
        self.earlier.push((link, counted));
        Ok(())
    }

    /// All counters, by link.
    pub(crate) fn read(&mut self) -> Result<Vec<LinkCounters>> {
        let mut all = vec![LinkCounters::default(); self.links];
        for reader in &mut self.nodes {
            let Reader { netlink, links } = reader;
            // struct tcmsg, all unspecified: a request for all queues.
            let request = Request::new(RTM_GETQDISC, NLM_F_DUMP, &[0; TCMSG]);
            let read = netlink.query(request, |body| {
                let Some((index, counters)) = parse(body) else { return };
                if let Some((_, link)) = links.iter().find(|(i, _)| *i == index) {
                    all[link.index()] = counters;
                }
            });
            read.map_err(|cause| failed("a namespace", cause))?;
        }
        for &(link, LinkCounters { bytes, packets, drops, .. }) in &self.earlier {
            let now = &mut all[link.index()];
            (now.bytes, now.packets, now.drops) = (now.bytes + bytes, now.packets + packets, now.drops + drops);
        }
        Ok(all)
    }
}

/// The device and the counters of a root queue; `None` for others.
fn parse(body: &[u8]) -> Option<(u32, LinkCounters)> {
    let (index, parent) = (u32_at(body, 4)?, u32_at(body, 12)?);
    let stats = attributes(body.get(TCMSG..)?).find(|(kind, _)| *kind == TCA_STATS2).filter(|_| parent == TC_H_ROOT)?.1;
    let mut counters = LinkCounters::default();
    for (kind, value) in attributes(stats) {
        match kind {
            TCA_STATS_BASIC => {
                counters.bytes = u64_at(value, 0)?;
                // A 64-bit count follows, if the kernel has one.
                counters.packets = u64::from(u32_at(value, 8)?);
            }
            TCA_STATS_PKT64 => counters.packets = u64_at(value, 0)?,
            TCA_STATS_QUEUE => (counters.backlog, counters.drops) = (u32_at(value, 4)?.into(), u32_at(value, 8)?.into()),
            _ => {}
        }
    }
    Some((index, counters))
}

fn failed(place: &str, cause: std::io::Error) -> LabError {
    LabError::Kernel { what: "read counters", place: place.to_owned(), cause }
}

/// Times of all processors since boot, in ticks, and the time that this process has had of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    idle: u64,
    all: u64,
    own: Duration,
}

impl Cpu {
    pub(crate) fn now() -> Self {
        let all = fs::read_to_string("/proc/stat").map_or(Self::default(), |text| Self::parse(&text, is_niced()));
        Self { own: own_time(), ..all }
    }

    /// Processes of a lower priority give way to a lab, so their time counts as idle; unless the lab is one of them.
    fn parse(text: &str, niced: bool) -> Self {
        let line = text.lines().next().unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in the first two.
        let ticks: Vec<u64> = line.split_ascii_whitespace().skip(1).take(8).filter_map(|t| t.parse().ok()).collect();
        let given_way = ticks.get(1).filter(|_| !niced);
        Self { idle: ticks.iter().skip(3).take(2).chain(given_way).sum(), all: ticks.iter().sum(), own: Duration::ZERO }
    }

    /// The idle fraction of the time since `before`; `None` if no time has passed.
    pub(crate) fn idle_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|&t| t > 0)?;
        Some(self.idle.saturating_sub(before.idle) as f64 / all as f64)
    }

    /// The time that this process has had since `before`: its own code, and the kernel's work on its behalf.
    pub(crate) fn own_since(self, before: Self) -> Duration {
        self.own.saturating_sub(before.own)
    }
}

/// Whether this process has a lower priority than usual.
fn is_niced() -> bool {
    // SAFETY: a plain system call; an error, -1, is a priority that is not lower.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) > 0 }
}

fn own_time() -> Duration {
    let time = |t: TimeVal| Duration::from_secs(t.tv_sec() as u64) + Duration::from_micros(t.tv_usec() as u64);
    getrusage(UsageWho::RUSAGE_SELF).map_or(Duration::ZERO, |usage| time(usage.user_time()) + time(usage.system_time()))
}

const RTM_GETQDISC: u16 = 38;
const TCMSG: usize = 20;
const TC_H_ROOT: u32 = 0xFFFF_FFFF;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_a_fraction_of_all_time() {
        let parse = |text| Cpu::parse(text, false);
        let before = parse("cpu  100 0 100 700 100 0 0 0 50 50\ncpu0 1");
        let after = parse("cpu  150 0 100 740 110 0 0 0 50 50\n");
        assert_eq!(after.idle_since(before), Some(0.5));
        assert_eq!(before.idle_since(before), None);
        assert_eq!(parse("").idle_since(before), None);
    }

    #[test]
    fn processes_of_a_lower_priority_give_way() {
        let [before, after] = ["cpu 100 0 100 700 100 0 0 0", "cpu 120 50 110 720 100 0 0 0"];
        let idle = |niced| Cpu::parse(after, niced).idle_since(Cpu::parse(before, niced));
        assert_eq!((idle(false), idle(true)), (Some(0.7), Some(0.2)));
    }
}
