//! `[trace]`: what the packet world is to record besides its results.

use weft_fabric::topology::Part;
use weft_fabric::{Duration, Fabric, FlowId, LinkId};
use weft_sim::packet::Trace;

use crate::error::KeyError;
use crate::scenario::keys::Keys;

/// `[trace]`: links by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSpec {
    every: Duration,
    queues: Vec<String>,
    windows: Vec<u32>,
    pcap: Option<String>,
    packets: usize,
}

impl TraceSpec {
    /// Reads `[trace]`.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let trace = Self {
            every: keys.or("every", Duration::from_ms(1))?,
            queues: keys.or("queues", Vec::new())?,
            windows: keys.or("windows", Vec::new())?,
            pcap: keys.opt("pcap")?,
            packets: keys.or("pcap_packets", PCAP_PACKETS)?,
        };
        keys.done()?;
        keys.check_not_zero("every", trace.every, "a trace cannot look all the time", "write a span such as \"1ms\"")?;
        Ok(trace)
    }

    /// Whether nothing is to be recorded.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.windows.is_empty() && self.pcap.is_none()
    }

    /// Whether it samples anything at intervals.
    pub fn samples(&self) -> bool {
        !self.queues.is_empty() || !self.windows.is_empty()
    }

    /// Whether it captures a port's packets.
    pub fn captures(&self) -> bool {
        self.pcap.is_some()
    }

    /// The same on a fabric: a queue is named by its link, `tor0-agg1`, in the direction of the packets.
    pub fn on(&self, fabric: &Fabric) -> Result<Trace, KeyError> {
        let queue = |(i, name): (usize, &String)| link(fabric, name, &format!("trace.queues[{i}]"));
        Ok(Trace {
            every: self.every,
            queues: match &self.queues[..] {
                [all] if all == "all" => fabric.links().iter().enumerate().map(|(i, _)| LinkId::from(i)).collect(),
                names => names.iter().enumerate().map(queue).collect::<Result<_, _>>()?,
            },
            windows: self.windows.iter().map(|&f| FlowId(f)).collect(),
            port: self.pcap.as_ref().map(|name| link(fabric, name, "trace.pcap")).transpose()?,
            packets: self.packets,
        })
    }
}

fn link(fabric: &Fabric, name: &str, key: &str) -> Result<LinkId, KeyError> {
    let help = "write the sending node, `-`, the receiving node; `weft topo SCENARIO --export dot` lists all names";
    match Part::parse(fabric, &format!("link {name}")) {
        Ok(Part::Cable(cable)) => {
            let [there, back] = cable.links();
            Ok(if fabric.link_name(there) == name { there } else { back })
        }
        Ok(Part::Node(_)) => unreachable!("a link is a cable"),
        Err(e) => Err(KeyError::new(key, e.to_string(), help)),
    }
}

/// Packets of a capture: 70 MB.
const PCAP_PACKETS: usize = 1_000_000;
