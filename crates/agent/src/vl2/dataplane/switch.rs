//! A switch's plane: one program on the ingress hook of every port.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;
use std::path::Path;

use libbpf_rs::TC_INGRESS;

use super::layout::{self, LOCALS, RawEvent, SETTINGS, STRIPS, vl2_event_kind};
use super::{Attached, Counters, Event, StripRole, SwitchSettings};
use crate::dataplane::Result;
use crate::dataplane::bytes::{Plain, be};
use crate::dataplane::load::Loaded;
use crate::dataplane::maps::{Table, TableName};
use crate::dataplane::nic::Nic;
use crate::dataplane::ring::Ring;

/// The program on the ports of one switch, and its tables. Dropping it leaves them in place.
#[derive(Debug)]
pub struct SwitchPlane {
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
        let mut plane = Self { ring: Ring::new(loaded.map("events"), layout::read_event)?, loaded };
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

    /// Writes the settings again, except for `limits`.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn set_settings(&mut self, settings: &SwitchSettings) -> Result<()> {
        self.table(&SETTINGS).set(&0, &layout::switch_settings(settings))
    }

    /// Puts the program on one more port. No error if it is there.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the port is missing or the kernel refuses.
    pub fn add_port(&mut self, port: &str) -> Result<()> {
        self.loaded.attach("vl2_port", Nic::find(port)?.index, TC_INGRESS)
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
        self.table(&STRIPS).set(&be(la), &layout::strip(role))
    }

    /// They no longer are.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn remove_strip(&mut self, la: Ipv4Addr) -> Result<()> {
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

    /// The events that are there ([`Event::Undeliverable`] only), in order; does not wait.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn events(&mut self) -> Result<Vec<Event>> {
        let undeliverable = self.ring.take()?.into_iter().filter(|raw| raw.kind == vl2_event_kind::VL2_EVENT_UNDELIVERABLE);
        let read = |raw: layout::RawEvent| Event::Undeliverable {
            source: raw.flow.source,
            destination: raw.flow.destination,
            outer_source: raw.outer_source,
            locator: raw.locator,
        };
        Ok(undeliverable.map(read).collect())
    }

    /// What was counted since the maps were made.
    ///
    /// # Errors
    /// [`PlaneError`](crate::dataplane::PlaneError) if the kernel refuses.
    pub fn counters(&self) -> Result<Counters> {
        Counters::read(self.loaded.map("counters"))
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
