//! The part of an intermediate switch: its anycast addresses come and go with the others' lives.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::RawFd;

use weft_control::directory::GroupId;
use weft_control::time::{Duration, Instant};
use weft_control::vl2::switch::anycast_failover::{AnycastFailover, AnycastFailoverConfig, Output};

use super::config::IntermediatePart;
use super::routes::{CHANGES, on_loopback, reachable, set_loopback};
use crate::error::{Error, Result};
use crate::vl2::dataplane::{StripRole, SwitchPlane};
use crate::watch::KernelWatch;

/// The addresses of an intermediate switch, and what they depend on.
#[derive(Debug)]
pub(super) struct Intermediate {
    me: Ipv4Addr,
    switches: Vec<Ipv4Addr>,
    anycast: Vec<Ipv4Addr>,
    failover: AnycastFailover,
    groups: weft_control::vl2::groups::Groups,
    watch: KernelWatch,
    /// When routes are read next, if nothing changes before.
    read_at: Option<Instant>,
    /// What stood on `lo` when it began, and is not known to be its own.
    inherited: BTreeSet<Ipv4Addr>,
}

/// A group as this switch sees it.
#[derive(Debug)]
pub(super) struct GroupView {
    pub group: GroupId,
    pub address: IpAddr,
    pub members: Vec<IpAddr>,
    pub is_served: bool,
}

impl Intermediate {
    pub fn start(me: Ipv4Addr, part: &IntermediatePart) -> Result<Self> {
        let groups = part.groups()?;
        let anycast = part.anycast.get_ref().clone();
        let watch = KernelWatch::open(CHANGES).map_err(failed("listen to route changes"))?;
        let inherited = on_loopback(&anycast).map_err(failed("read addresses"))?;
        Ok(Self {
            me,
            switches: part.switches.get_ref().clone(),
            failover: failover(me, &groups, &anycast),
            anycast,
            groups,
            watch,
            read_at: Some(Instant::ZERO),
            inherited,
        })
    }

    pub fn descriptor(&self) -> RawFd {
        self.watch.descriptor()
    }

    pub fn deadline(&self) -> Option<Instant> {
        [self.read_at, self.failover.deadline()].into_iter().flatten().min()
    }

    pub fn step(&mut self, now: Instant, plane: &mut SwitchPlane) -> Result<()> {
        if self.watch.has_changed() {
            // Changes come in rows: what follows soon is read with it.
            let soon = now + PAUSE;
            self.read_at = Some(self.read_at.map_or(soon, |at| at.min(soon)));
        }
        if self.deadline().is_none_or(|at| at > now) {
            return Ok(());
        }
        self.read_at = Some(now + READ_AGAIN);
        match reachable(&self.switches) {
            Ok(alive) => self.failover.handle(now, alive.into_iter().map(IpAddr::V4)),
            Err(error) => tracing::warn!(%error, "routes cannot be read"),
        }
        while let Some(output) = self.failover.poll() {
            self.apply(output, plane)?;
        }
        self.remove_stale(now, plane)
    }

    /// Its addresses go: others announce theirs.
    pub fn leave(&mut self) -> Result<()> {
        let held: Vec<Ipv4Addr> = self.failover.held().filter_map(|(_, address)| v4(address)).collect();
        for address in held.into_iter().chain(std::mem::take(&mut self.inherited)) {
            set_loopback(address, false).map_err(failed("remove an address"))?;
        }
        Ok(())
    }

    pub fn groups(&self) -> Vec<GroupView> {
        let alive = self.failover.alive();
        let view = |(group, &address): (GroupId, &Ipv4Addr)| GroupView {
            group,
            address: IpAddr::V4(address),
            members: self.groups.members(group, |it| alive.contains(&it)),
            is_served: self.failover.held().any(|(held, _)| held == group),
        };
        self.groups.ids().zip(&self.anycast).map(view).collect()
    }

    pub fn alive(&self) -> impl Iterator<Item = &IpAddr> {
        self.failover.alive().iter()
    }

    /// Stripping begins before packets come, and ends after the last.
    fn apply(&mut self, output: Output, plane: &mut SwitchPlane) -> Result<()> {
        let (Output::Add(address) | Output::Remove(address)) = output;
        let Some(address) = v4(address) else { return Ok(()) };
        if let Output::Add(_) = output {
            plane.set_strip(address, StripRole::Intermediate)?;
            set_loopback(address, true).map_err(failed("add an address"))?;
            tracing::info!(%address, "serves the group");
            self.inherited.remove(&address);
        } else {
            // Strips packets still in flight: the address is not its own any more, and nothing else is sent to it.
            set_loopback(address, false).map_err(failed("remove an address"))?;
            tracing::info!(%address, "serves the group no more");
        }
        Ok(())
    }

    /// What an earlier life left goes once this one knows which addresses it has.
    fn remove_stale(&mut self, now: Instant, plane: &mut SwitchPlane) -> Result<()> {
        if self.inherited.is_empty() {
            return Ok(());
        }
        for address in &self.inherited {
            plane.set_strip(*address, StripRole::Intermediate)?;
        }
        if now.saturating_since(Instant::ZERO) < AnycastFailoverConfig::new(IpAddr::V4(self.me)).settle {
            return Ok(());
        }
        for address in std::mem::take(&mut self.inherited) {
            set_loopback(address, false).map_err(failed("remove an address"))?;
        }
        Ok(())
    }
}

fn failover(me: Ipv4Addr, groups: &weft_control::vl2::groups::Groups, anycast: &[Ipv4Addr]) -> AnycastFailover {
    let addresses: Vec<IpAddr> = anycast.iter().copied().map(IpAddr::V4).collect();
    AnycastFailover::new(AnycastFailoverConfig::new(IpAddr::V4(me)), groups.clone(), &addresses)
}

const fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

fn failed(action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    Error::system(action, "run it as root, with iproute2 installed")
}

const PAUSE: Duration = Duration::from_ms(10);
const READ_AGAIN: Duration = Duration::from_secs(1);
