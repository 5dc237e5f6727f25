//! A switch's plane: one program on every port.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use libbpf_rs::TC_INGRESS;
#[cfg(test)]
use weft_control::netlord::EdgePort;
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::{MacAddr, TenantId};

use super::counters::{Named, SWITCH_COUNTERS};
use super::event::{self, Event};
use super::layout::{self, FIB, LIMITS, MEMBERS, PORTS, ROUTES, SHARES, SWITCH_SETTINGS, TENANTS, VLANS};
use super::settings::SwitchSettings;
use super::tables::{FibEntry, Limit, Port, TenantTraffic};
use crate::dataplane::bytes::Plain;
use crate::dataplane::clock::monotonic_ns;
use crate::dataplane::load::Loaded;
use crate::dataplane::maps::{Table, TableName};
use crate::dataplane::nic::{FrameSocket, Listen, Nic};
use crate::dataplane::ring::Ring;
use crate::dataplane::{PlaneError, Restored, Result};

/// The program on a switch's ports, and its tables. Dropping it leaves them in place.
#[derive(Debug)]
pub struct SwitchPlane {
    loaded: Loaded,
    ring: Ring<Event>,
    ports: BTreeMap<u32, (Port, FrameSocket)>,
}

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/netlord_switch.bpf.o"));
const ON_PORT: &str = "netlord_port";

impl SwitchPlane {
    /// Puts the program on all ports of the calling thread's network namespace and pins it in a folder of bpffs, or adopts what an earlier process left there: learned
    /// addresses stay, the rest is written again.
    ///
    /// # Errors
    /// [`PlaneError`] if a port is missing, a VLAN has too many of them, or the kernel refuses.
    pub fn attach(settings: &SwitchSettings, ports: &[Port], pin_dir: &Path) -> Result<Self> {
        let loaded = Loaded::load(OBJECT, &[("fib", settings.fib_entries.max(1))], pin_dir)?;
        let ring = Ring::new(loaded.map("events"), event::read)?;
        let mut plane = Self { loaded, ring, ports: BTreeMap::new() };
        let begun = plane.begin(settings, ports);
        plane.rollback_on_error(begun)?;
        Ok(plane)
    }

    fn begin(&mut self, settings: &SwitchSettings, ports: &[Port]) -> Result<()> {
        let nics = ports.iter().map(|port| Nic::find(&port.device)).collect::<Result<Vec<_>>>()?;
        self.table(&SWITCH_SETTINGS).set(&0, &layout::switch_settings(settings))?;
        self.write_vlans(ports, &nics)?;
        ports.iter().zip(nics).try_for_each(|(port, nic)| self.add_port(port, nic))
    }

    /// Detaches if the caller's start has failed, unless an earlier process' tables are in use: then flows go on as before.
    ///
    /// # Errors
    /// That of the start.
    pub fn rollback_on_error<T, E>(&mut self, start: std::result::Result<T, E>) -> std::result::Result<T, E> {
        self.loaded.rollback_on_error(start)
    }

    fn write_vlans(&self, ports: &[Port], nics: &[Nic]) -> Result<()> {
        let mut by_vlan: BTreeMap<VlanId, Vec<u32>> = BTreeMap::new();
        let mut wanted = BTreeSet::new();
        let (members, vlans) = (self.table(&MEMBERS), self.table(&VLANS));
        for (port, nic) in ports.iter().zip(nics) {
            for &vlan in port.vlans.iter().chain(&port.native) {
                by_vlan.entry(vlan).or_default().push(nic.index as u32);
                wanted.insert(layout::member(nic.index as u32, vlan));
            }
        }
        for key in &wanted {
            members.set(key, &1)?;
        }
        // Of an earlier configuration.
        members.remove_all(|key, _| !wanted.contains(key))?;
        vlans.remove_all(|key, _| !by_vlan.keys().any(|vlan| *key == u32::from(vlan.get())))?;
        for (vlan, members) in by_vlan {
            let (vlan, has) = (vlan.get(), members.len());
            let value = layout::vlan(&members)
                .map_err(|most| PlaneError::Setting(format!("VLAN {vlan} has {has} ports here, and at most {most} fit")))?;
            vlans.set(&vlan.into(), &value)?;
        }
        Ok(())
    }

    fn add_port(&mut self, port: &Port, nic: Nic) -> Result<()> {
        let index = nic.index as u32;
        self.table(&PORTS).set(&index, &layout::port(port))?;
        let socket = FrameSocket::new(nic, 0, false)?;
        socket.listen(nic, Listen::Everything).map_err(PlaneError::system("receive everything on", &port.device))?;
        self.loaded.attach(ON_PORT, nic.index, TC_INGRESS)?;
        self.ports.insert(index, (port.clone(), socket));
        if let Some(number) = port.number {
            // What an earlier process learned holds until the server announces otherwise.
            let before = self.table(&ROUTES).get(&layout::prefix(number))?;
            let before = before.and_then(|hop| layout::read_hop(&hop)).filter(|&(at, _)| at == index).map(|(_, mac)| mac);
            self.set_server(index, port.server.or(before))?;
        }
        Ok(())
    }

    /// Puts back what somebody has removed from the kernel: programs, pins, ports.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn reconcile(&mut self) -> Result<Vec<Restored>> {
        let mut restored = self.loaded.reconcile()?;
        for (index, (port, _)) in &self.ports {
            if self.table(&PORTS).restore(index, &layout::port(port))? {
                restored.push(Restored::Entry(port.device.clone()));
            }
        }
        Ok(restored)
    }

    /// Whether a port is up and has a carrier.
    pub fn is_up(&self, ifindex: u32) -> bool {
        let device = self.ports.get(&ifindex).map(|(port, _)| port.device.as_str());
        device.is_some_and(|device| Nic::mtu_if_up(device).is_ok_and(|mtu| mtu.is_some()))
    }

    /// Whether tables of an earlier process were adopted.
    pub const fn adopted(&self) -> bool {
        self.loaded.adopted
    }

    /// The ports, by their interfaces.
    pub fn ports(&self) -> impl Iterator<Item = (u32, &Port)> {
        self.ports.iter().map(|(&index, (port, _))| (index, port))
    }

    /// The MAC address of the server at a port: the next hop of p.0.0.0/8.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn set_server(&mut self, ifindex: u32, mac: Option<MacAddr>) -> Result<()> {
        let Some((port, _)) = self.ports.get_mut(&ifindex) else { return Ok(()) };
        let Some(number) = port.number else { return Ok(()) };
        port.server = mac;
        self.table(&ROUTES).set(&layout::prefix(number), &layout::hop(ifindex, mac))
    }

    /// What the switch does with a tenant's packets; `None`: it passes them.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_limit(&mut self, tenant: TenantId, limit: Option<Limit>) -> Result<()> {
        let table = self.table(&LIMITS);
        match limit {
            Some(limit) => table.set(&layout::tenant(tenant), &layout::limit(limit)),
            None => table.remove(&layout::tenant(tenant)),
        }
    }

    /// Removes the limits of all tenants.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn clear_limits(&mut self) -> Result<()> {
        self.table(&LIMITS).remove_all(|_, _| true).map(drop)
    }

    /// Of a tenant's rate, how many bytes per second may pass here; without, all of them.
    ///
    /// # Errors
    /// [`PlaneError::Full`].
    pub fn set_share(&mut self, tenant: TenantId, bytes_per_second: u64) -> Result<()> {
        self.table(&SHARES).set(&layout::tenant(tenant), &bytes_per_second)
    }

    /// The share of a tenant that an earlier process left.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn share(&self, tenant: TenantId) -> Result<Option<u64>> {
        self.table(&SHARES).get(&layout::tenant(tenant))
    }

    /// Removes the shares of all but these tenants.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn retain_shares(&mut self, of: &[TenantId]) -> Result<()> {
        let kept: BTreeSet<u32> = of.iter().map(|&tenant| layout::tenant(tenant)).collect();
        self.table(&SHARES).remove_all(|tenant, _| !kept.contains(tenant)).map(drop)
    }

    /// What a tenant sent over the last hop here.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn tenant(&self, tenant: TenantId) -> Result<Option<TenantTraffic>> {
        let key = layout::tenant(tenant);
        Ok(self.table(&TENANTS).get(&key)?.map(|sent| layout::read_tenant(key, &sent)))
    }

    /// What each tenant sent over the last hop here.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn tenants(&self) -> Result<Vec<TenantTraffic>> {
        let all = self.table(&TENANTS).all()?;
        Ok(all.iter().map(|(tenant, sent)| layout::read_tenant(*tenant, sent)).collect())
    }

    /// The learned addresses, and how many fit.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn fib(&self) -> Result<(Vec<FibEntry>, u32)> {
        use libbpf_rs::MapCore as _;
        let all = self.table(&FIB).all()?;
        let size = self.loaded.map("fib").max_entries();
        Ok((all.iter().map(|(key, entry)| layout::read_fib(key, entry)).collect(), size))
    }

    /// Forgets learned addresses that were silent for too long.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn expire(&mut self, ageing: Duration) -> Result<usize> {
        let now = monotonic_ns().map_err(PlaneError::system("read", "the clock"))?;
        let limit = u64::try_from(ageing.as_nanos()).unwrap_or(u64::MAX);
        self.table(&FIB).remove_all(|_, entry| now.saturating_sub(entry.seen_ns) > limit)
    }

    /// Sends a frame by a port.
    ///
    /// # Errors
    /// [`PlaneError::System`].
    pub fn send(&self, ifindex: u32, frame: &[u8]) -> Result<()> {
        let Some((_, socket)) = self.ports.get(&ifindex) else { return Ok(()) };
        socket.send(frame).map_err(PlaneError::system("send a frame on interface", ifindex.to_string()))
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
        self.loaded.counters(SWITCH_COUNTERS.len()).map(|values| Named::new(SWITCH_COUNTERS, values))
    }

    /// Takes the program off all ports and removes the pins. For a thread of the namespace that it was attached in.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn detach(mut self) -> Result<()> {
        self.loaded.detach()
    }

    /// A port without a tag, and servers behind routes, without interfaces.
    #[cfg(test)]
    pub(super) fn write_for_test(&self, ifindex: u32, native: VlanId, servers: &[(EdgePort, u32, Option<MacAddr>)]) {
        self.write_port_for_test(ifindex, native, None);
        self.table(&MEMBERS).set(&layout::member(ifindex, native), &1).unwrap();
        self.table(&VLANS).set(&native.get().into(), &layout::vlan(&[ifindex]).unwrap()).unwrap();
        for &(number, to, mac) in servers {
            self.table(&ROUTES).set(&layout::prefix(number), &layout::hop(to, mac)).unwrap();
        }
    }

    /// A port without a tag, to a server if it has a number.
    #[cfg(test)]
    pub(super) fn write_port_for_test(&self, ifindex: u32, native: VlanId, number: Option<EdgePort>) {
        let port = Port { device: String::new(), number, vlans: BTreeSet::new(), native: Some(native), server: None };
        self.table(&PORTS).set(&ifindex, &layout::port(&port)).unwrap();
    }

    #[cfg(test)]
    pub(super) const fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    fn table<K: Plain, V: Plain>(&self, name: &TableName<K, V>) -> Table<'_, K, V> {
        self.loaded.table(name)
    }
}
