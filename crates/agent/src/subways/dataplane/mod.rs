//! A host's plane: one program where TCP to peers leaves, one on every NIC where it arrives, and their tables. No decisions.

mod detours;
mod device;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;

use libbpf_rs::{TC_EGRESS, TC_INGRESS};
use weft_control::subways::agents::{FlowState, SLOTS};
use weft_control::time::Duration;
use weft_control::wire::subways::{FlowId, NicPair};

use crate::dataplane::bytes::{be, plain, read_be};
use crate::dataplane::clock::monotonic_ns;
use crate::dataplane::generated::subways_host::types::{
    subways_flow, subways_flow_flags, subways_move, subways_peer, subways_settings, subways_state,
};
use crate::dataplane::load::Loaded;
use crate::dataplane::maps::{TableName, sums};
use crate::dataplane::nic::Nic;
use crate::dataplane::{PlaneError, Restored, Result};

pub use device::DEVICE;
use device::Device;

plain!(subways_flow, subways_move, subways_peer, subways_settings, subways_state);

const SETTINGS: TableName<u32, subways_settings> = TableName::new("settings");
/// By first address, in network order.
const PEERS: TableName<u32, subways_peer> = TableName::new("peers");
/// First addresses by that of any NIC, in network order.
const NICS: TableName<u32, u32> = TableName::new("nics");
const FLOWS: TableName<subways_flow, subways_state> = TableName::new("flows");
const MOVES: TableName<subways_flow, subways_move> = TableName::new("moves");

/// What the programs count, by number; whether it counts dropped packets. The numbers are those of enum subways_counter in bpf/subways/layout.h.
const COUNTERS: [(&str, bool); 17] = [
    ("sent", false),
    ("received", false),
    ("flows_begun", false),
    ("flows_moved", false),
    ("flows_redrawn", false),
    ("flows_off_nic", false),
    ("malformed", true),
    ("fragment", true),
    ("foreign_source", true),
    ("unknown_peer", true),
    ("rewrite_failed", true),
    ("detoured", false),
    ("flows_off_detour", false),
    ("forwarded", false),
    ("forwarded_bytes", false),
    ("detour_refused", true),
    ("detour_over_rate", true),
];

/// The host's own part.
#[derive(Clone, Debug)]
pub struct PlaneSettings {
    /// Device and address of each NIC; the first address is the host's.
    pub nics: Vec<(String, Ipv4Addr)>,
    /// The largest packet to peers.
    pub mtu: u32,
    /// A flow whose packets are sent again with nothing heard for so long takes other NICs.
    pub stall: Duration,
    /// Whether it takes part in detours.
    pub detours: bool,
}

/// The programs, and their tables. Dropping it leaves them in place.
#[derive(Debug)]
pub struct HostPlane {
    loaded: Loaded,
    device: Device,
    nics: Vec<(String, Nic)>,
    settings: subways_settings,
    /// NICs of each peer.
    addresses: BTreeMap<Ipv4Addr, Vec<Ipv4Addr>>,
    /// Bit i: NIC i is down.
    down: u32,
    /// Leaving detours of this host: number and NIC.
    leaving: Vec<(u8, u8)>,
    detours: bool,
}

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/subways_host.bpf.o"));

impl HostPlane {
    /// Puts the programs on the NICs of the calling thread's network namespace and pins them in a folder of bpffs, or adopts what an earlier process left: flows keep
    /// their NICs. TCP to peers goes through the program once they have slots.
    ///
    /// # Errors
    /// [`PlaneError`] if an interface is missing, or the kernel refuses.
    pub fn attach(settings: &PlaneSettings, peers: &BTreeMap<Ipv4Addr, Vec<Ipv4Addr>>, pin_dir: &Path) -> Result<Self> {
        let nics = settings.nics.iter().map(|(device, _)| Ok((device.clone(), Nic::find(device)?)));
        let nics = nics.collect::<Result<Vec<_>>>()?;
        let loaded = Loaded::load(OBJECT, &[], pin_dir)?;
        let device = Device { address: settings.nics[0].1, mtu: settings.mtu };
        let mut raw = subways_settings { seed: rand_seed(), stall_ns: settings.stall.as_ns(), ..Default::default() };
        for (at, ((_, nic), (_, address))) in nics.iter().zip(&settings.nics).enumerate() {
            (raw.address[at], raw.ifindex[at]) = (be(*address), nic.index as u32);
        }
        let mut plane = Self {
            loaded,
            device,
            nics,
            settings: raw,
            addresses: peers.clone(),
            down: 0,
            leaving: Vec::new(),
            detours: settings.detours,
        };
        let begun = plane.begin();
        plane.rollback_on_error(begun)?;
        Ok(plane)
    }

    /// Undoes a start that has failed, unless an earlier process' tables are in use: then flows go on as before.
    fn rollback_on_error(&mut self, start: Result<()>) -> Result<()> {
        if start.is_err() && !self.loaded.adopted {
            // The cause is returned, not what this step says.
            let _ = self.device.remove();
        }
        self.loaded.rollback_on_error(start)
    }

    fn begin(&mut self) -> Result<()> {
        self.set_down(self.down())?;
        self.set_gateways()?;
        let nics = self.loaded.table(&NICS);
        let mut known = BTreeSet::new();
        for (&first, all) in &self.addresses {
            for &address in all {
                nics.set(&be(address), &be(first))?;
                known.insert(be(address));
            }
        }
        nics.remove_all(|address, _| !known.contains(address))?;
        let first: BTreeSet<u32> = self.addresses.keys().map(|&it| be(it)).collect();
        self.loaded.table(&PEERS).remove_all(|peer, _| !first.contains(peer))?;
        for (_, nic) in self.nics.clone() {
            self.loaded.attach("subways_in", nic.index, TC_INGRESS)?;
        }
        let index = self.device.make()?;
        self.loaded.attach("subways_out", index, TC_EGRESS)
    }

    /// Has TCP to all peers go through the program, whose slots are there.
    ///
    /// # Errors
    /// [`PlaneError`] if `ip` refuses.
    pub fn route(&mut self) -> Result<()> {
        let routed = self.device.route(self.addresses.keys().copied());
        self.rollback_on_error(routed)
    }

    /// Whether tables of an earlier process were adopted.
    pub const fn adopted(&self) -> bool {
        self.loaded.adopted
    }

    /// Which NICs are down now: bit i, NIC i.
    pub fn down(&self) -> u32 {
        let is_up = |device: &str| Nic::mtu_if_up(device).is_ok_and(|mtu| mtu.is_some());
        self.nics.iter().enumerate().filter(|(_, (device, _))| !is_up(device)).fold(0, |mask, (at, _)| mask | 1 << at)
    }

    /// No packet leaves by a NIC that is down, nor waits there.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel or `ip` refuses.
    pub fn set_down(&mut self, down: u32) -> Result<()> {
        let was_up = self.settings.up;
        self.down = down;
        self.set_usable()?;
        for (at, (device, _)) in self.nics.iter().enumerate() {
            if was_up & down & (1 << at) != 0 {
                device::forget_neighbours(device)?;
            }
        }
        Ok(())
    }

    /// Flows to a peer that begin from now on draw among these pairs.
    ///
    /// # Errors
    /// [`PlaneError`] if the table is full or the kernel refuses.
    pub fn set_slots(&mut self, peer: Ipv4Addr, slots: &[NicPair; SLOTS]) -> Result<()> {
        let Some(all) = self.addresses.get(&peer) else { return Ok(()) };
        let mut raw = subways_peer { slot: slots.map(pack), ..Default::default() };
        raw.address.iter_mut().zip(all).for_each(|(to, &address)| *to = be(address));
        self.loaded.table(&PEERS).set(&be(peer), &raw)
    }

    /// A flow takes these NICs once it has sent nothing for so long.
    ///
    /// # Errors
    /// [`PlaneError`] if the table is full or the kernel refuses.
    pub fn set_move(&mut self, flow: &FlowId, nics: NicPair, gap: Duration) -> Result<()> {
        self.loaded.table(&MOVES).set(&key(flow), &subways_move { gap_ns: gap.as_ns(), pair: pack(nics), ..Default::default() })
    }

    /// All flows that have not ended; those that have are forgotten after a while, and so are moves of flows that are gone.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn flows(&mut self) -> Result<Vec<FlowState>> {
        let now = monotonic_ns().map_err(PlaneError::system("read", "the clock"))?;
        let table = self.loaded.table(&FLOWS);
        let (mut flows, mut known) = (Vec::new(), BTreeSet::new());
        for (raw, state) in table.all()? {
            let idle = now.saturating_sub(state.last_ns);
            let is_over = state.flags.0 & subways_flow_flags::SUBWAYS_OVER.0 != 0;
            if (is_over && idle > OVER_NS) || idle > IDLE_NS {
                table.remove(&raw)?;
                continue;
            }
            let flow = FlowId { peer: read_be(raw.peer), sport: u16::from_be(raw.sport), dport: u16::from_be(raw.dport) };
            known.insert(flow);
            if !is_over {
                let nics = NicPair { out: state.pair >> 4, into: state.pair & 15 };
                flows.push(FlowState { flow, nics, bytes: state.bytes, idle: Duration::from_ns(idle) });
            }
        }
        self.loaded.table(&MOVES).remove_all(|raw, _| {
            !known.contains(&FlowId { peer: read_be(raw.peer), sport: u16::from_be(raw.sport), dport: u16::from_be(raw.dport) })
        })?;
        Ok(flows)
    }

    /// Every counter: its name, whether it counts dropped packets, and its value.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn counters(&self) -> Result<Vec<(&'static str, bool, u64)>> {
        let values = sums(self.loaded.map("counters"), COUNTERS.len())?;
        Ok(COUNTERS.iter().zip(values).map(|(&(name, is_drop), value)| (name, is_drop, value)).collect())
    }

    /// Puts back what somebody has removed from the kernel: programs, pins, the device and its routes.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn reconcile(&mut self) -> Result<Vec<Restored>> {
        let mut restored = self.loaded.reconcile()?;
        self.set_gateways()?;
        if !self.device.is_there() {
            let index = self.device.make()?;
            self.loaded.attach("subways_out", index, TC_EGRESS)?;
            self.device.route(self.addresses.keys().copied())?;
            restored.push(Restored::Interface(DEVICE.to_owned()));
        }
        Ok(restored)
    }

    /// Takes the programs off and removes the routes, the device and the pins: flows take the kernel's routes from here on. For a thread of the namespace that it was
    /// attached in.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn detach(mut self) -> Result<()> {
        self.device.remove()?;
        self.loaded.detach()
    }
}

const fn pack(nics: NicPair) -> u8 {
    nics.out << 4 | nics.into
}

fn key(flow: &FlowId) -> subways_flow {
    subways_flow { peer: be(flow.peer), sport: flow.sport.to_be(), dport: flow.dport.to_be() }
}

/// Hosts draw independently of each other.
fn rand_seed() -> u32 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish() as u32
}

/// A flow that has ended is remembered for so long: its last packets may be sent again.
const OVER_NS: u64 = 1_000_000_000;
/// Flows that have sent nothing for so long draw again.
const IDLE_NS: u64 = 600_000_000_000;
