//! A server's plane: one program on the interfaces of VMs, one on those to the fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use libbpf_rs::TC_INGRESS;
use weft_control::netlord::agent::RoutedFlow;
use weft_control::netlord::{Location, Vif};
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::MacAddr;

use super::counters::{HOST_COUNTERS, Named};
use super::event::{self, Event};
use super::layout::{self, HOST_SETTINGS, LOCALS, OWNED, PATHS, REMOTES, ROUTED, UPLINKS, VIF_BUDGETS, VIFS};
use super::settings::HostSettings;
use super::tables::{Inherited, InheritedVif};
use crate::dataplane::bytes::Plain;
use crate::dataplane::clock::monotonic_ns;
use crate::dataplane::load::Loaded;
use crate::dataplane::maps::{Table, TableName};
use crate::dataplane::nic::{FrameSender, FrameSocket, Listen, Nic};
use crate::dataplane::ring::Ring;
use crate::dataplane::{PlaneError, Rate, Restored, Result};

/// The programs on a server's interfaces, and their tables. Dropping it leaves them in place.
#[derive(Debug)]
pub struct HostPlane {
    loaded: Loaded,
    ring: Ring<Event>,
    /// At the interfaces to the fabric, also for the multicasts that they are to take.
    uplinks: BTreeMap<u32, FrameSocket>,
    /// Of VMs, and what sends to all of them.
    vifs: BTreeSet<u32>,
    to_vifs: FrameSender,
    /// VIFs that are in the table of those of this server.
    pub(super) here: BTreeSet<Vif>,
    /// Of each budget.
    pub(super) rate: Rate,
}

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/netlord_host.bpf.o"));
const ON_VIF: &str = "netlord_vif";
const ON_UPLINK: &str = "netlord_uplink";

impl HostPlane {
    /// Loads the programs and pins them in a folder of bpffs, or adopts what an earlier process left there. They are on no interface yet, but for those on which that
    /// process put them.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn load(settings: &HostSettings, pin_dir: &Path) -> Result<Self> {
        let loaded = Loaded::load(OBJECT, &[], pin_dir)?;
        let ring = Ring::new(loaded.map("events"), event::read)?;
        let mut plane = Self {
            loaded,
            ring,
            uplinks: BTreeMap::new(),
            vifs: BTreeSet::new(),
            to_vifs: FrameSender::new()?,
            here: BTreeSet::new(),
            rate: settings.agent,
        };
        plane.table(&HOST_SETTINGS).set(&0, &layout::host_settings(settings))?;
        plane.grant_all()?;
        Ok(plane)
    }

    /// Whether tables of an earlier process were adopted.
    pub const fn adopted(&self) -> bool {
        self.loaded.adopted
    }

    /// The VIFs and the remote VIFs that an earlier process left in the tables.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn inherited(&self) -> Result<Inherited> {
        let vifs = self.table(&VIFS).all()?;
        let vifs = vifs.iter().map(|(ifindex, vif)| InheritedVif { ifindex: *ifindex, vif: layout::read_vif(vif) });
        let remotes = self.table(&REMOTES).all()?;
        let remotes = remotes.iter().filter_map(|(name, place)| Some((layout::read_name(name), layout::read_place(place)?)));
        Ok((vifs.collect(), remotes.collect()))
    }

    /// The place of an interface to the fabric that an earlier process left in the tables.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn inherited_place(&self, ifindex: u32) -> Result<Option<Location>> {
        Ok(self.table(&UPLINKS).get(&ifindex)?.and_then(|uplink| layout::read_uplink(&uplink)))
    }

    /// Puts the program on an interface to the fabric; it passes everything on until [`set_uplink`](Self::set_uplink). Returns index and MAC address.
    ///
    /// # Errors
    /// [`PlaneError`] if there is no such interface, or the kernel refuses.
    pub fn attach_uplink(&mut self, device: &str) -> Result<(u32, MacAddr)> {
        let nic = self.attach(device, ON_UPLINK)?;
        let socket = FrameSocket::new(nic, 0, false)?;
        socket.listen(nic, Listen::Multicasts).map_err(PlaneError::system("receive multicasts on", device))?;
        self.uplinks.insert(nic.index as u32, socket);
        Ok((nic.index as u32, nic.mac))
    }

    /// Puts the program on a VM's interface; it drops everything until [`set_vif`](Self::set_vif). Returns its index.
    ///
    /// # Errors
    /// [`PlaneError`] if there is no such interface, or the kernel refuses.
    pub fn attach_vif(&mut self, device: &str) -> Result<u32> {
        let index = self.attach(device, ON_VIF)?.index as u32;
        self.vifs.insert(index);
        Ok(index)
    }

    fn attach(&mut self, device: &str, program: &'static str) -> Result<Nic> {
        let nic = Nic::find(device)?;
        self.loaded.attach(program, nic.index, TC_INGRESS)?;
        Ok(nic)
    }

    /// The index of an Ethernet interface of the calling thread's network namespace, if it is there.
    pub fn index_of(device: &str) -> Option<u32> {
        Nic::find(device).ok().map(|nic| nic.index as u32)
    }

    /// The MTU of an interface in bytes, if it is up and has a carrier.
    ///
    /// # Errors
    /// [`PlaneError`] if it is not there any more.
    pub fn mtu_if_up(device: &str) -> Result<Option<u32>> {
        Nic::mtu_if_up(device)
    }

    /// The MTU of an interface to the fabric in bytes, and its place, if that is known.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn set_uplink(&mut self, ifindex: u32, mac: MacAddr, mtu: u32, at: Option<Location>) -> Result<()> {
        self.table(&UPLINKS).set(&ifindex, &layout::uplink(mac, mtu, at))
    }

    /// What a VM's interface is, and by which one its frames leave.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_vif(&mut self, ifindex: u32, vif: Vif, uplink: Option<u32>) -> Result<()> {
        self.grant_vif(ifindex)?;
        self.table(&VIFS).set(&ifindex, &layout::vif(vif, uplink))
    }

    /// A VM's interface is one no longer: what comes by it is dropped. It may be gone already.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn remove_vif(&mut self, ifindex: u32) -> Result<()> {
        self.table(&VIFS).remove(&ifindex)?;
        self.table(&VIF_BUDGETS).remove(&ifindex)?;
        self.vifs.remove(&ifindex);
        self.table(&OWNED).remove_all(|owned, _| owned.ifindex == ifindex).map(drop)
    }

    /// An address of a VM: in the public space it may send from no others, elsewhere the kernel lets it check neighbours by itself.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_owned(&mut self, ifindex: u32, ip: IpAddr) -> Result<()> {
        self.table(&OWNED).set(&layout::owned(ifindex, ip), &1)
    }

    /// A VIF is on this server, at this interface; `None`: not any more.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_local(&mut self, vif: Vif, ifindex: Option<u32>) -> Result<()> {
        match ifindex {
            Some(ifindex) => {
                self.enter(vif)?;
                self.table(&LOCALS).set(&layout::name(vif), &ifindex)
            }
            None => {
                self.table(&LOCALS).remove(&layout::name(vif))?;
                self.leave(vif)
            }
        }
    }

    /// A VIF is elsewhere; `None`: not known any more.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_remote(&mut self, vif: Vif, at: Option<Location>) -> Result<()> {
        let table = self.table(&REMOTES);
        match at {
            Some(at) => table.set(&layout::name(vif), &layout::place(at)),
            None => table.remove(&layout::name(vif)),
        }
    }

    /// The most remote VIFs that the table has room for.
    pub fn remotes_max(&self) -> u32 {
        use libbpf_rs::MapCore as _;
        self.loaded.map("remotes").max_entries()
    }

    /// The VLANs that flows from an interface to an edge switch choose among, at most 16; none: it cannot be reached from there.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_paths(&mut self, uplink: u32, switch: MacAddr, vlans: &[VlanId]) -> Result<()> {
        let (table, key) = (self.table(&PATHS), layout::reached(uplink, switch));
        if vlans.is_empty() {
            return table.remove(&key);
        }
        table.set(&key, &layout::paths(vlans))
    }

    /// What a virtual router did with a packet, for others like it; for so long.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn set_route(&mut self, flow: &RoutedFlow, hold: Duration) -> Result<()> {
        let now = monotonic_ns().map_err(PlaneError::system("read", "the clock"))?;
        let until = now.saturating_add(hold.as_nanos() as u64);
        self.table(&ROUTED).set(&layout::route_key(flow), &layout::route(flow, until))
    }

    /// Forgets what virtual routers did.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn clear_routes(&mut self) -> Result<()> {
        self.table(&ROUTED).remove_all(|_, _| true).map(drop)
    }

    /// Sends a frame by an interface that the plane is on: to the fabric, or to a VM.
    ///
    /// # Errors
    /// [`PlaneError::System`].
    pub fn send(&self, ifindex: u32, frame: &[u8]) -> Result<()> {
        let sent = match self.uplinks.get(&ifindex) {
            Some(uplink) => uplink.send(frame),
            None if self.vifs.contains(&ifindex) => self.to_vifs.send(ifindex, frame),
            None => return Ok(()),
        };
        sent.map_err(PlaneError::system("send a frame on interface", ifindex.to_string()))
    }

    /// Puts back programs and pins that somebody has removed.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn reconcile(&mut self) -> Result<Vec<Restored>> {
        self.loaded.reconcile()
    }

    /// As [`set_uplink`](Self::set_uplink), unless the table has it so; whether it had not.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn restore_uplink(&mut self, ifindex: u32, mac: MacAddr, mtu: u32, at: Option<Location>) -> Result<bool> {
        self.table(&UPLINKS).restore(&ifindex, &layout::uplink(mac, mtu, at))
    }

    /// As [`set_vif`](Self::set_vif), unless the table has it so; whether it had not.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn restore_vif(&mut self, ifindex: u32, vif: Vif, uplink: Option<u32>) -> Result<bool> {
        let is_new = self.grant_vif(ifindex)?;
        Ok(self.table(&VIFS).restore(&ifindex, &layout::vif(vif, uplink))? || is_new)
    }

    /// Detaches if the caller's start has failed, unless an earlier process' tables are in use: then flows go on as before.
    ///
    /// # Errors
    /// That of the start.
    pub fn rollback_on_error<T, E>(&mut self, start: std::result::Result<T, E>) -> std::result::Result<T, E> {
        self.loaded.rollback_on_error(start)
    }

    /// Takes the events that have come since.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn events(&mut self) -> Result<Vec<Event>> {
        self.ring.take()
    }

    /// Readable when there are events.
    pub fn events_fd(&self) -> BorrowedFd<'_> {
        self.ring.fd()
    }

    /// All counters.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn counters(&self) -> Result<Named> {
        self.loaded.counters(HOST_COUNTERS.len()).map(|values| Named::new(HOST_COUNTERS, values))
    }

    /// Takes the programs off all interfaces and removes the pins. For a thread of the namespace that they were attached in.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn detach(mut self) -> Result<()> {
        self.loaded.detach()
    }

    #[cfg(test)]
    pub(super) const fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    pub(super) fn table<K: Plain, V: Plain>(&self, name: &TableName<K, V>) -> Table<'_, K, V> {
        self.loaded.table(name)
    }
}
