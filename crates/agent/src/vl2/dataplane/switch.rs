//! A switch's plane: one program on the ingress hook of every port.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::path::Path;

use ipnet::Ipv4Net;
use libbpf_rs::TC_INGRESS;

use super::layout::{self, HOST_PORTS, LOCALS, RawEvent, SETTINGS, SOURCES, STRIPS, vl2_event_kind};
use super::{Attached, Counters, Event, StripRole, SwitchSettings};
use crate::dataplane::bytes::{Plain, be};
use crate::dataplane::load::Loaded;
use crate::dataplane::maps::{Table, TableName};
use crate::dataplane::nic::Nic;
use crate::dataplane::ring::Ring;
use crate::dataplane::{Restored, Result};

/// The program on the ports of one switch, and its tables. Dropping it leaves them in place.
#[derive(Debug)]
pub struct SwitchPlane {
    /// Name and index of each.
    ports: BTreeMap<String, i32>,
    settings: SwitchSettings,
    strips: BTreeMap<Ipv4Addr, StripRole>,
    host_ports: BTreeMap<u32, Vec<Ipv4Net>>,
    loaded: Loaded,
    ring: Ring<RawEvent>,
}

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/vl2_switch.bpf.o"));

impl SwitchPlane {
    /// Puts the program on ports of the calling thread's network namespace and pins it in a folder of bpffs, or adopts what an earlier
    /// process left there, as [`HostPlane::attach`](super::HostPlane::attach) does.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if a port is missing or the kernel refuses.
    pub fn attach(ports: &[&str], settings: &SwitchSettings, pin_dir: &Path) -> Result<Self> {
        let loaded = load(settings, pin_dir)?;
        let ring = Ring::new(loaded.map("events"), layout::read_event)?;
        let (ports_of, strips, host_ports) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut plane = Self { ports: ports_of, settings: settings.clone(), strips, host_ports, ring, loaded };
        let begun = plane.set_settings(settings).and_then(|()| ports.iter().try_for_each(|port| plane.add_port(port)));
        plane.rollback_on_error(begun)?;
        Ok(plane)
    }

    /// Detaches if the caller's start has failed, unless an earlier process' tables are in use: then flows go on as before.
    ///
    /// # Errors
    /// That of the start.
    pub fn rollback_on_error<T, E>(&mut self, start: std::result::Result<T, E>) -> std::result::Result<T, E> {
        self.loaded.rollback_on_error(start)
    }

    /// Whether tables of an earlier process were adopted.
    pub const fn adopted(&self) -> bool {
        self.loaded.adopted
    }

    /// Puts back what somebody has removed from the kernel: programs (also at ports that were made again), pins, settings, addresses to strip. A port that is not
    /// there is left out.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn reconcile(&mut self) -> Result<Vec<Restored>> {
        let mut restored = Vec::new();
        let is_new = |(port, index): (&String, &i32)| Nic::find(port).is_ok_and(|nic| nic.index != *index).then(|| port.clone());
        let new: Vec<String> = self.ports.iter().filter_map(is_new).collect();
        for port in new {
            self.add_port(&port)?;
            restored.push(Restored::Interface(port));
        }
        restored.extend(self.loaded.reconcile()?);
        if self.table(&SETTINGS).restore(&0, &layout::switch_settings(&self.settings))? {
            restored.push(Restored::Entry("the settings".to_owned()));
        }
        for (&la, &role) in &self.strips {
            if self.table(&STRIPS).restore(&be(la), &layout::strip(role))? {
                restored.push(Restored::Entry(la.to_string()));
            }
        }
        if self.write_host_ports()? {
            restored.push(Restored::Entry("the ports with hosts".to_owned()));
        }
        Ok(restored)
    }

    /// The ports with hosts, by interface index, and the locators and outer sources of these; none: these are not checked. What comes by such a port and
    /// has sources of others, inside or outside, is dropped.
    ///
    /// # Errors
    /// [`PlaneError::Full`](crate::dataplane::PlaneError::Full).
    pub fn set_host_ports(&mut self, ports: BTreeMap<u32, Vec<Ipv4Net>>) -> Result<()> {
        self.host_ports = ports;
        self.write_host_ports().map(drop)
    }

    /// Whether the tables were others. A source is listed before its port is checked.
    fn write_host_ports(&self) -> Result<bool> {
        let (ports, sources) = (self.table(&HOST_PORTS), self.table(&SOURCES));
        let wanted =
            || self.host_ports.iter().flat_map(|(port, prefixes)| prefixes.iter().map(move |it| (layout::source(*it), *port)));
        let mut is_changed = false;
        for (source, port) in wanted() {
            is_changed |= sources.restore(&source, &port)?;
        }
        for (port, prefixes) in &self.host_ports {
            is_changed |= ports.restore(port, &u32::from(!prefixes.is_empty()))?;
        }
        is_changed |= ports.remove_all(|port, _| !self.host_ports.contains_key(port))? > 0;
        is_changed |= sources.remove_all(|source, _| !wanted().any(|(it, _)| it.bytes() == source.bytes()))? > 0;
        Ok(is_changed)
    }

    /// Writes an AA behind a port, unless the table has it so; whether it had not.
    ///
    /// # Errors
    /// As [`set_local`](Self::set_local).
    pub fn restore_local(&mut self, aa: IpAddr, attached: &Attached) -> Result<bool> {
        self.table(&LOCALS).restore(&layout::key(aa), &layout::attached(attached))
    }

    /// Writes the settings again, except for `limits`.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn set_settings(&mut self, settings: &SwitchSettings) -> Result<()> {
        self.settings = settings.clone();
        self.table(&SETTINGS).set(&0, &layout::switch_settings(settings))
    }

    /// Puts the program on one more port. No error if it is there.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the port is missing or the kernel refuses.
    pub fn add_port(&mut self, port: &str) -> Result<()> {
        let index = Nic::find(port)?.index;
        self.loaded.attach("vl2_port", index, TC_INGRESS)?;
        self.ports.insert(port.to_owned(), index);
        Ok(())
    }

    /// Takes the program off all its ports and removes the pins. For a thread of the namespace that it was attached in.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn detach(mut self) -> Result<()> {
        self.loaded.detach()
    }

    /// Packets encapsulated to this address are stripped from here on.
    ///
    /// # Errors
    /// [`PlaneError::Full`](crate::dataplane::PlaneError::Full).
    pub fn set_strip(&mut self, la: Ipv4Addr, role: StripRole) -> Result<()> {
        self.strips.insert(la, role);
        self.table(&STRIPS).set(&be(la), &layout::strip(role))
    }

    /// They no longer are.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn remove_strip(&mut self, la: Ipv4Addr) -> Result<()> {
        self.strips.remove(&la);
        self.table(&STRIPS).remove(&be(la))
    }

    /// An AA that is behind a port of this ToR.
    ///
    /// # Errors
    /// [`PlaneError::Full`](crate::dataplane::PlaneError::Full).
    pub fn set_local(&mut self, aa: IpAddr, attached: &Attached) -> Result<()> {
        self.table(&LOCALS).set(&layout::key(aa), &layout::attached(attached))
    }

    /// An AA that no longer is.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn remove_local(&mut self, aa: IpAddr) -> Result<()> {
        self.table(&LOCALS).remove(&layout::key(aa))
    }

    /// The AAs behind the ports, in order.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn locals(&self) -> Result<Vec<(IpAddr, Attached)>> {
        let entries = self.table(&LOCALS).all()?;
        Ok(entries.iter().map(|(key, local)| (layout::read_key(key), layout::read_attached(local))).collect())
    }

    /// Readable when there are events; for epoll.
    pub fn events_fd(&self) -> BorrowedFd<'_> {
        self.ring.fd()
    }

    /// An AA behind a port, if it is.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn local(&self, aa: IpAddr) -> Result<Option<Attached>> {
        Ok(self.table(&LOCALS).get(&layout::key(aa))?.map(|local| layout::read_attached(&local)))
    }

    /// The events that are there ([`Event::Undeliverable`] and [`Event::Dhcp`] only), in order; does not wait.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn events(&mut self) -> Result<Vec<Event>> {
        let read = |raw: layout::RawEvent| match raw.kind {
            vl2_event_kind::VL2_EVENT_UNDELIVERABLE => Some(Event::Undeliverable {
                source: raw.flow.source,
                destination: raw.flow.destination,
                outer_source: raw.outer_source,
                locator: raw.locator,
            }),
            vl2_event_kind::VL2_EVENT_DHCP => Some(Event::Dhcp { frame: raw.frame }),
            _ => None,
        };
        Ok(self.ring.take()?.into_iter().filter_map(read).collect())
    }

    /// What was counted since the maps were made.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn counters(&self) -> Result<Counters> {
        Counters::read(&self.loaded)
    }

    fn table<K: Plain, V: Plain>(&self, name: &TableName<K, V>) -> Table<'_, K, V> {
        self.loaded.table(name)
    }
}

/// The program over its maps, with the sizes of the settings.
pub(super) fn load(settings: &SwitchSettings, pin_dir: &Path) -> Result<Loaded> {
    let limits = settings.limits;
    Loaded::load(OBJECT, &[("locals", limits.locals), ("events", limits.event_bytes)], pin_dir)
}
