//! Tables of detours (Subways section 6): those that flows take, and what this host forwards for others.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use serde::Deserialize;
use weft_control::time::Duration;
use weft_control::wire::subways::{AccessRecord, FIRST_DETOUR, Forwarded, Permit};
use weft_fabric::routing::Direction;

use super::{HostPlane, SETTINGS};
use crate::dataplane::bytes::{be, plain};
use crate::dataplane::clock::monotonic_ns;
use crate::dataplane::generated::subways_host::types::{subways_detour, subways_detour_key, subways_permit, subways_permit_key};
use crate::dataplane::maps::TableName;
use crate::dataplane::{PlaneError, Result};

plain!(subways_detour, subways_detour_key, subways_permit, subways_permit_key);

pub(super) const DETOURS: TableName<subways_detour_key, subways_detour> = TableName::new("detours");
pub(super) const PERMITS: TableName<subways_permit_key, subways_permit> = TableName::new("permits");
/// What each permit has let through; made by the programs.
const METERS: TableName<subways_permit_key, [u8; 16]> = TableName::new("meters");
/// By NIC: the next hop for other subnets, in network order.
const GATEWAYS: TableName<u32, u32> = TableName::new("gateways");

impl HostPlane {
    /// Flows may take these detours, and no others, for so long.
    ///
    /// # Errors
    /// [`PlaneError`] if the table is full or the kernel refuses.
    pub fn set_detours(&mut self, detours: &[AccessRecord], valid: Duration) -> Result<()> {
        let until = self.until(valid)?;
        let own = self.device.address;
        let all: BTreeMap<(Ipv4Addr, u8), &AccessRecord> =
            detours.iter().filter(|it| it.number >= FIRST_DETOUR).map(|it| ((it.host, it.number), it)).collect();
        let table = self.loaded.table(&DETOURS);
        for (&(host, number), record) in &all {
            table.set(&detour_key(host, number), &detour(record, until))?;
        }
        let mut known: Vec<(u32, u32)> = all.keys().map(|&(host, number)| (be(host), number.into())).collect();
        known.sort_unstable();
        table.remove_all(|key, _| known.binary_search(&(key.host, key.number)).is_err())?;
        self.leaving = all.iter().filter(|((host, _), _)| *host == own).map(|((_, number), it)| (*number, it.nic)).collect();
        self.set_usable()
    }

    /// This host forwards these, and nothing else, for so long and a second: sources let go of a detour first.
    ///
    /// # Errors
    /// [`PlaneError`] if the table is full or the kernel refuses.
    pub fn set_permits(&mut self, permits: &[Permit], valid: Duration) -> Result<()> {
        let until = self.until(valid + if valid == Duration::ZERO { valid } else { LATER })?;
        let table = self.loaded.table(&PERMITS);
        let keys: Vec<subways_permit_key> = permits.iter().map(permit_key).collect();
        for (key, permit) in keys.iter().zip(permits) {
            let burst = u64::from(permit.rate).max(1);
            let burst_ns = (BURST_BITS * 1_000_000 / burst).max(BURST_NS);
            table.set(key, &subways_permit { until_ns: until, burst_ns, kbps: permit.rate, ..Default::default() })?;
        }
        let is_known = |key: &subways_permit_key| keys.iter().any(|it| is_same(it, key));
        table.remove_all(|key, _| !is_known(key))?;
        self.loaded.table(&METERS).remove_all(|key, _| !is_known(key)).map(drop)
    }

    /// What has been forwarded.
    ///
    /// # Errors
    /// [`PlaneError`] if the kernel refuses.
    pub fn forwarded(&self) -> Result<Forwarded> {
        let all = self.counters()?;
        let of = |name: &str| all.iter().find(|(it, ..)| *it == name).map_or(0, |(.., value)| *value);
        let (refused, over_rate) = (of("detour_refused"), of("detour_over_rate"));
        Ok(Forwarded { packets: of("forwarded"), bytes: of("forwarded_bytes"), refused, over_rate })
    }

    /// What flows may leave by: NICs that are up, and detours that begin with one.
    pub(super) fn set_usable(&mut self) -> Result<()> {
        let mut up = !self.down & ((1 << self.nics.len()) - 1);
        for &(number, nic) in &self.leaving {
            up |= (up >> nic & 1) << number;
        }
        self.settings.up = up | if self.detours { TAKES_PART } else { 0 };
        self.loaded.table(&SETTINGS).set(&0, &self.settings)
    }

    /// Where forwarded packets go from each NIC: the route that packets of its address to other hosts have.
    pub(super) fn set_gateways(&mut self) -> Result<()> {
        if !self.detours {
            return Ok(());
        }
        for at in 0..self.nics.len() {
            let source = Ipv4Addr::from_bits(u32::from_be(self.settings.address[at]));
            let device = &self.nics[at].0;
            let found = self.addresses.values().filter_map(|all| gateway(source, device, *all.last()?)).next();
            self.loaded.table(&GATEWAYS).set(&(at as u32), &found.map_or(0, be))?;
        }
        Ok(())
    }

    fn until(&self, valid: Duration) -> Result<u64> {
        let now = monotonic_ns().map_err(PlaneError::system("read", "the clock"))?;
        Ok(now + valid.as_ns())
    }
}

/// A line of `ip -j route get`.
#[derive(Deserialize)]
struct Route {
    gateway: Option<Ipv4Addr>,
}

/// The next hop to a host by a NIC; `None` if there is no route, or no next hop is needed.
fn gateway(source: Ipv4Addr, device: &str, to: Ipv4Addr) -> Option<Ipv4Addr> {
    let (source, to) = (source.to_string(), to.to_string());
    let arguments = ["-j", "route", "get", &to, "from", &source, "oif", device];
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output().ok()?;
    let routes: Vec<Route> = serde_json::from_slice(&output.stdout).ok()?;
    routes.first()?.gateway
}

pub(super) fn detour_key(host: Ipv4Addr, number: u8) -> subways_detour_key {
    subways_detour_key { host: be(host), number: number.into() }
}

fn detour(record: &AccessRecord, until: u64) -> subways_detour {
    let mut raw = subways_detour { until_ns: until, hops: record.hops.len() as u8, nic: record.nic, ..Default::default() };
    for (at, hop) in record.hops.iter().enumerate() {
        (raw.via[at], raw.out[at]) = (be(hop.via), hop.out);
    }
    raw
}

fn permit_key(permit: &Permit) -> subways_permit_key {
    let &Permit { host, direction, into, out, .. } = permit;
    subways_permit_key { host: be(host), into, out, direction: u8::from(direction == Direction::In), ..Default::default() }
}

fn is_same(a: &subways_permit_key, b: &subways_permit_key) -> bool {
    (a.host, a.into, a.out, a.direction) == (b.host, b.into, b.out, b.direction)
}

/// SUBWAYS_DETOURS of the settings.
pub(super) const TAKES_PART: u32 = 1 << 31;
/// Permits are valid for so much longer than the detours that need them.
const LATER: Duration = Duration::from_secs(1);
/// What a permit lets through at once: as much as the queue of a switch, or what its rate brings in so long, if that is more.
const BURST_BITS: u64 = 8 * 100_000;
/// See [`BURST_BITS`].
const BURST_NS: u64 = 10_000_000;
