//! Tenants on bridges: switches that learn addresses and flood what they do not know (NetLord sections 2.1, 4.1 and 5).
//!
//! ```text
//!   VM --frame--> host --NIC--> switch: learns (VLAN, source); knows (VLAN, destination)? one port : all ports of the VLAN
//!
//!   addresses   what switches learn                                        ways
//!   vm          every VM, once for each VLAN it uses (plain, SPAIN)         spanning tree: one for all
//!   host        every server (the paper's "No-VMs")                         SPAIN: a VLAN by the flow
//!   edge        edge switches, and servers at their own (NetLord)
//! ```
//! A mode of the packet world with a loop of its own: wheel, queues and TCP are those of [`super`], but a frame knows its addresses, not its path.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`fib`] | a switch's learning table |
//! | [`lans`] | VLANs, and the ports that they have |
//! | [`frames`], [`engine`], [`ends`] | what moves, the switches, the hosts |
//! | [`faults`] | what fails, and who finds a path around it |
//!
//! `docs/packet-world.md` says what is modelled and what is not.

mod ends;
mod engine;
mod faults;
mod fib;
mod frames;
mod lans;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use weft_fabric::record::LinkRecord;
use weft_fabric::routing::spain::{Diversity, Plan, SpainConfig, SpainError};
use weft_fabric::{Bytes, Duration, Fabric, HostId, Instant};

use super::{MAX_PACKET, PacketConfig, PacketError, Recovery};
use engine::Engine;
pub use faults::{FaultConfig, FaultOutcome};
use fib::Rules;

/// Which paths frames take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multipath {
    /// One spanning tree for all.
    SpanningTree,
    /// SPAIN's VLANs.
    Spain(SpainConfig),
}

/// Which VLAN the answers of a transfer take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Returns {
    /// That of the transfer: so switches learn on it where the receiver is.
    #[default]
    Same,
    /// One that the receiver's agent chooses by itself. Each end then chirps on the VLAN by which it hears the other, so that switches learn it there
    /// too: with the first frame, and again after each period.
    Own {
        /// From one chirp to the next.
        chirp: Duration,
    },
}

/// Whose addresses frames bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Each VM its own.
    Vm,
    /// That of the server.
    Host,
    /// Those of the edge switches: frames are encapsulated (NetLord section 3.5).
    Edge,
}

/// The learning tables of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibConfig {
    /// Entries of each switch.
    pub entries: u32,
    /// Entries of a bucket, of which `entries` is a multiple: an address goes to the bucket that its hash names; `None`: anywhere.
    pub ways: Option<u32>,
    /// What was not refreshed for so long is forgotten.
    pub ageing: Duration,
    /// New addresses that a switch can enter a second; `None`: as they come.
    pub learn_rate: Option<u32>,
    /// At most so many new addresses wait for that.
    pub learn_queue: u32,
}

/// Tenants that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenants {
    /// How many.
    pub count: u32,
    /// The servers of each.
    pub hosts: Vec<HostId>,
    /// VMs of each on each server.
    pub vms_per_host: u32,
}

/// The tenants' shuffles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Bytes of a transfer.
    pub bytes: Bytes,
    /// Incoming transfers of a VM at a time.
    pub incoming: u32,
    /// After a refusal a VM waits so long before its next attempt.
    pub pause: Duration,
    /// Over how long a time the VMs begin.
    pub start_spread: Duration,
    /// How often all is done; 0: only what is known without a run.
    pub trials: u32,
    /// A trial ends here at the latest.
    pub duration: Duration,
    /// Silence between two trials.
    pub gap: Duration,
    /// Floods and goodput count from here on in a trial.
    pub warmup: Duration,
}

/// All that a run needs; [`BridgedWorld::run`] consumes it.
pub struct BridgedWorld {
    /// The network.
    pub fabric: Arc<Fabric>,
    /// Who is on it.
    pub tenants: Vec<Tenants>,
    /// What they send.
    pub load: Load,
    /// Which paths frames take.
    pub multipath: Multipath,
    /// Which VLAN answers take.
    pub returns: Returns,
    /// Whose addresses they bear.
    pub addresses: Addresses,
    /// What switches remember.
    pub fib: FibConfig,
    /// What fails.
    pub faults: FaultConfig,
    /// Transport and queues; all else of it has no meaning here.
    pub packet: PacketConfig,
    /// Seed of the order of transfers.
    pub seed: u64,
}

/// A setting that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BridgedError {
    #[error(transparent)]
    Packet(#[from] PacketError),
    #[error(transparent)]
    Spain(#[from] SpainError),
    #[error(transparent)]
    Agent(#[from] weft_control::netlord::spain::SpainError),
    #[error("a segment of {mss} has no room for a header of {ENCAPSULATION}")]
    NoRoom { mss: Bytes },
    #[error("a frame of {frame} does not fit: a frame has at most {MAX_PACKET}")]
    TooLarge { frame: Bytes },
    #[error("a tenant has {vms} VMs: 65,535 are the most")]
    TooManyVms { vms: u64 },
    #[error("all tenants have {vms} VMs together: 2^30 are the most")]
    TooManyVmsTogether { vms: u64 },
    #[error("a table of {entries} entries has no buckets of {ways}")]
    Associativity { entries: u32, ways: u32 },
    #[error("tenants' VMs recover losses as NewReno does")]
    Recovery,
    #[error("tenants' VMs do not pace")]
    Pacing,
    #[error("a transfer of 0 bytes")]
    NoBytes,
    #[error("every VM refuses everything: at least 1 incoming transfer")]
    NoIncoming,
}

/// What became of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trial {
    /// Length of what counts, in seconds.
    pub seconds: f64,
    /// Bytes delivered in that time.
    pub bytes: u64,
    /// Frames that hosts received and that were for none of their VMs, mean over the hosts.
    pub floods: f64,
    /// Transfers that were begun and that were finished.
    pub begun: u64,
    /// Of them, those that have ended.
    pub finished: u64,
    /// When the last transfer ended, in seconds from the beginning; `None` if some did not.
    pub completion_s: Option<f64>,
}

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BridgedOutcome {
    /// One after the other.
    pub trials: Vec<Trial>,
    /// VMs of all tenants.
    pub vms: u64,
    /// SPAIN's VLANs, and the bound below which no packing goes.
    pub vlans: Option<(usize, usize)>,
    /// How many paths pairs have.
    pub diversity: Option<Diversity>,
    /// The most entries that a switch ever had.
    pub fib_most: u64,
    /// Entries that made room for others.
    pub evictions: u64,
    /// New addresses that found the queue full.
    pub unlearnt: u64,
    /// Frames that switches flooded.
    pub misses: u64,
    /// Transfers refused.
    pub refused: u64,
    /// Frames lost at full queues and on what failed.
    pub drops: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Frames sent over links.
    pub hops: u64,
    /// Events.
    pub events: u64,
    /// What became of what failed.
    pub faults: FaultOutcome,
    /// Bytes and drops of all links.
    pub links: Vec<LinkRecord>,
    /// When the last trial ended.
    pub ended: Instant,
}

impl BridgedWorld {
    /// Carries the shuffles. The same world gives the same outcome, bit by bit.
    ///
    /// # Errors
    /// [`BridgedError`] if a setting means nothing on this fabric.
    pub fn run(self, progress: &mut dyn FnMut(f64)) -> Result<BridgedOutcome, BridgedError> {
        self.check()?;
        let plan = self.plan()?;
        let mut outcome = BridgedOutcome {
            vms: self.vms(),
            vlans: plan.as_ref().map(|p| (p.vlans().len(), p.bound())),
            diversity: plan.as_ref().map(Plan::diversity),
            ..BridgedOutcome::default()
        };
        if self.load.trials > 0 {
            let mut engine = Engine::new(&self, plan.as_ref())?;
            engine.run(&self.load, progress);
            engine.finish(&mut outcome);
        }
        Ok(outcome)
    }

    /// The servers that take part, ascending.
    pub fn hosts(&self) -> Vec<HostId> {
        let mut hosts: Vec<HostId> = self.tenants.iter().flat_map(|t| t.hosts.iter().copied()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// SPAIN's plan between the switches of these hosts, if it is wanted.
    ///
    /// # Errors
    /// More VLANs than there are.
    pub fn plan(&self) -> Result<Option<Plan>, BridgedError> {
        let Multipath::Spain(config) = &self.multipath else { return Ok(None) };
        let fabric = &self.fabric;
        let edge = |h: HostId| fabric.as_switch(fabric.link(fabric.out(h.node())[0]).to).expect("hosts touch only switches");
        let mut edges: Vec<_> = self.hosts().into_iter().map(edge).collect();
        edges.sort_unstable();
        edges.dedup();
        Ok(Some(Plan::between(fabric, edges, config)?))
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The first that means nothing.
    pub fn check(&self) -> Result<(), BridgedError> {
        self.packet.check()?;
        self.faults.agent.check()?;
        if self.packet.transport.recovery != Recovery::NewReno {
            return Err(BridgedError::Recovery);
        }
        if self.packet.transport.pacing {
            return Err(BridgedError::Pacing);
        }
        let of = |t: &Tenants| t.hosts.len() as u64 * u64::from(t.vms_per_host);
        if let Some(vms) = self.tenants.iter().map(of).find(|&n| n > u64::from(u16::MAX)) {
            return Err(BridgedError::TooManyVms { vms });
        }
        let vms = self.vms();
        if vms > 1 << 30 {
            return Err(BridgedError::TooManyVmsTogether { vms });
        }
        let FibConfig { entries, ways, .. } = self.fib;
        if let Some(ways) = ways.filter(|&ways| ways == 0 || !entries.is_multiple_of(ways)) {
            return Err(BridgedError::Associativity { entries, ways });
        }
        if self.load.bytes.0 == 0 {
            return Err(BridgedError::NoBytes);
        }
        if self.load.incoming == 0 {
            return Err(BridgedError::NoIncoming);
        }
        self.sizes().map(|_| ())
    }

    fn vms(&self) -> u64 {
        self.tenants.iter().map(|t| u64::from(t.count) * t.hosts.len() as u64 * u64::from(t.vms_per_host)).sum()
    }

    /// Payload of a full segment, and all else of a frame: a tag is added to the frame, NetLord's headers are taken from the payload, as the
    /// network's MTU stays.
    fn sizes(&self) -> Result<(u16, u16), BridgedError> {
        let (mss, header) = (self.packet.transport.mss, self.packet.transport.header);
        let tag = if matches!(self.multipath, Multipath::Spain(_)) { TAG } else { Bytes(0) };
        let outer = if self.addresses == Addresses::Edge { ENCAPSULATION } else { Bytes(0) };
        if mss.0 <= outer.0 {
            return Err(BridgedError::NoRoom { mss });
        }
        let frame = Bytes(mss.0 + header.0 + tag.0);
        if frame > MAX_PACKET {
            return Err(BridgedError::TooLarge { frame });
        }
        Ok(((mss.0 - outer.0) as u16, (header.0 + tag.0 + outer.0) as u16))
    }

    fn rules(&self) -> Rules {
        let FibConfig { entries, ways, ageing, learn_rate, learn_queue } = self.fib;
        let learn = learn_rate.map_or(0, |rate| SECOND / u64::from(rate.max(1)));
        Rules {
            entries: entries as usize,
            ways: ways.unwrap_or(0) as usize,
            ageing: ageing.as_ps().max(1),
            learn,
            learn_wait: learn.saturating_mul(u64::from(learn_queue)),
        }
    }
}

/// NetLord's share of a frame: outer IPv4 and the inner Ethernet header (section 4.2).
const ENCAPSULATION: Bytes = Bytes(34);
/// An 802.1Q tag.
const TAG: Bytes = Bytes(4);
const SECOND: u64 = 1_000_000_000_000;
