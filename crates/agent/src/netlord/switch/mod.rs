//! `role = "edge"` or `"core"`: the static configuration of a switch (section 3.6), and the two protocols of an edge switch towards its servers: LLDP and ARP.
//!
//! ```text
//!   configuration --> eBPF tables: ports, VLANs, p.0.0.0/8 -> port p, limits
//!   each LLDP period --> LLDP to every server's port: this switch, this port
//!   a server without a known MAC address --> ARP for p.0.0.1 --answer--> its route
//!   each 100 ms --> what tenants with a rate send here --> all edge switches --> this switch's share of the rate
//! ```

mod config;
mod shares;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weft_control::netlord::{EdgePort, Location};
use weft_control::time::Instant as SpanInstant;
use weft_control::wire::netlord::Lldp;
use weft_control::wire::packet::arp::Arp;
use weft_control::wire::packet::ethernet::{EtherType, Ethernet};
use weft_fabric::TenantId;

pub use config::SwitchConfig;
use shares::Shares;

use super::metrics;
use crate::config::Place;
use crate::daemon::{Daemon, Run, RunOptions};
use crate::dataplane::PlaneError;
use crate::error::{Error, Result};
use crate::exporter;
use crate::netlord::dataplane::{Event, Limit, SwitchPlane};
use crate::reconcile::Reconciler;
use crate::socket::{ControlSocket, PendingRequest, Request};

/// A switch's daemon, at work.
struct Switch {
    config: SwitchConfig,
    plane: SwitchPlane,
    limits: Vec<(TenantId, Limit)>,
    /// If it shares them with other edge switches.
    shares: Option<Shares>,
    started: Instant,
    lldp_due: Instant,
    upkeep: Instant,
    /// By port, when its server was asked for last, and when it last answered.
    asked: BTreeMap<u32, Instant>,
    answered: BTreeMap<u32, Instant>,
    /// Servers' ports that are up.
    up: BTreeSet<u32>,
    last_error: Option<String>,
    reconciler: Reconciler,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(config: SwitchConfig, file: &Path, options: RunOptions) -> Result<bool> {
    let (socket, on_exit) = (config.socket.clone(), config.on_exit);
    Run { socket: &socket, on_exit, file, options }.run_until_signal(|| Switch::start(config))
}

impl Daemon for Switch {
    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.plane.events_fd().as_raw_fd()]
    }

    fn timeout(&self) -> Duration {
        let own = self.lldp_due.min(self.upkeep).saturating_duration_since(Instant::now());
        let shares = self.shares.as_ref().map(|it| nanos(it.deadline().saturating_since(since(self.started))));
        shares.map_or(own, |shares| own.min(shares)) + Duration::from_millis(1)
    }

    fn run_once(&mut self, control: &mut ControlSocket) -> Result<()> {
        while let Some(asked) = control.next() {
            self.answer(asked);
        }
        self.step();
        Ok(())
    }

    /// What changes while it runs has files of its own, which are read when they change.
    fn reload(&mut self, _: &Path) -> Result<()> {
        Err(Error::NoReload("a NetLord daemon"))
    }

    fn ready(&self) -> (String, Value) {
        let line = self.kind_line();
        let json = json!({ "ready": line, "overlay": "netlord", "role": self.role() });
        (line, json)
    }

    /// Agents need not wait until the last announcement is too old.
    fn end(self) -> Result<()> {
        self.send_lldp(0);
        Ok(self.plane.detach()?)
    }
}

impl Switch {
    fn start(config: SwitchConfig) -> Result<Self> {
        // The file was checked when it was read: there is no place to point at any more.
        let limits = config.limits(&Place { path: std::path::Path::new(""), text: "", page: crate::config::PAGE })?;
        exporter::serve(config.metrics)?;
        let mut plane = SwitchPlane::attach(&config.settings(), &config.ports(), &config.pins())?;
        let limited = plane.clear_limits();
        let limited = limited.and_then(|()| limits.iter().try_for_each(|&(tenant, limit)| plane.set_limit(tenant, Some(limit))));
        plane.rollback_on_error(limited)?;
        let now = Instant::now();
        let shares = Shares::start(config.mac, config.special_vlans(), &limits, &mut plane, since(now));
        let shares = plane.rollback_on_error(shares)?;
        let (asked, answered) = (BTreeMap::new(), BTreeMap::new());
        let (up, reconciler) = (BTreeSet::new(), Reconciler::default());
        let mut switch = Self {
            config,
            plane,
            limits,
            shares,
            started: now,
            lldp_due: now,
            upkeep: now,
            asked,
            answered,
            up,
            last_error: None,
            reconciler,
        };
        switch.step();
        Ok(switch)
    }

    /// Does all that there is to do.
    fn step(&mut self) {
        let events = self.plane.events().unwrap_or_else(|error| {
            self.last_error = Some(error.to_string());
            Vec::new()
        });
        for event in events {
            match event {
                Event::Arp { ifindex, frame } => self.arp(ifindex, &frame),
                Event::Claims { frame } => self.share(|shares, plane, now| shares.heard(plane, &frame, now)),
                _ => {}
            }
        }
        self.share(Shares::poll);
        let now = Instant::now();
        if self.lldp_due <= now {
            self.lldp_due = now + nanos(self.config.lldp);
            self.send_lldp(self.ttl_s());
        }
        if self.upkeep <= now {
            self.upkeep = now + UPKEEP;
            self.housekeeping(now);
        }
    }

    /// Does something for the limits that it shares, if it does.
    fn share(&mut self, work: impl FnOnce(&mut Shares, &mut SwitchPlane, SpanInstant) -> std::result::Result<(), PlaneError>) {
        let now = since(self.started);
        if let Some(shares) = &mut self.shares
            && let Err(error) = work(shares, &mut self.plane, now)
        {
            self.last_error = Some(error.to_string());
        }
    }

    /// How long an announcement holds: four periods may be missed.
    fn ttl_s(&self) -> u16 {
        (self.config.lldp.as_ns() / 1_000_000_000 * 4 + 4).min(u64::from(u16::MAX)) as u16
    }

    /// Servers that have not said their MAC addresses are asked, others now and then; old entries go.
    fn housekeeping(&mut self, now: Instant) {
        if self.reconciler.is_due() {
            let done = self.plane.reconcile();
            self.reconciler.record(done);
        }
        let ports: Vec<(u32, bool)> =
            self.plane.ports().filter(|(_, port)| port.number.is_some()).map(|(at, port)| (at, port.server.is_some())).collect();
        for (at, is_known) in ports {
            // A server that has just been plugged in need not wait for a period.
            if !self.plane.is_up(at) {
                self.up.remove(&at);
                continue;
            }
            if self.up.insert(at) {
                self.send_lldp_to(at, self.ttl_s());
            }
            let since = self.answered.get(&at).or_else(|| self.asked.get(&at)).map(|&when| now - when);
            if !is_known || since.is_none_or(|since| since > REFRESH) {
                self.ask(at, now);
            }
        }
        if let Err(error) = self.plane.expire(nanos(self.config.ageing)) {
            self.last_error = Some(error.to_string());
        }
        if let (Ok(counters), Ok((fib, limit))) = (self.plane.counters(), self.plane.fib()) {
            metrics::plane(&counters);
            metrics::table("fib", fib.len(), f64::from(limit));
        }
    }

    /// LLDP to every server's port.
    fn send_lldp(&self, ttl_s: u16) {
        for (at, _) in self.plane.ports() {
            self.send_lldp_to(at, ttl_s);
        }
    }

    /// LLDP to the server at a port, if that is one's.
    fn send_lldp_to(&self, ifindex: u32, ttl_s: u16) {
        let number = self.plane.ports().find(|(at, _)| *at == ifindex).and_then(|(_, port)| port.number);
        let (Some(mac), Some(number)) = (self.config.mac, number) else { return };
        let mut frame = Vec::new();
        let location = Location { switch: mac, port: number };
        Lldp { location, ttl_s }.emit(mac, &format!("port {number}"), &mut frame);
        self.send(ifindex, &frame);
    }

    /// Asks who has p.0.0.1, at most each [`ASK_AGAIN`].
    fn ask(&mut self, ifindex: u32, now: Instant) {
        if self.asked.get(&ifindex).is_some_and(|&when| now - when < ASK_AGAIN) {
            return;
        }
        let number = self.plane.ports().find(|(at, _)| *at == ifindex).and_then(|(_, port)| port.number);
        let (Some(mac), Some(number)) = (self.config.mac, number) else { return };
        self.asked.insert(ifindex, now);
        self.send(ifindex, &Arp::question((mac, own_address(number)), server_address(number)).frame());
    }

    /// A frame for a server that is not known, or an answer.
    fn arp(&mut self, ifindex: u32, frame: &[u8]) {
        let now = Instant::now();
        let Ok(parsed) = Ethernet::parse(frame) else { return };
        if parsed.ethertype != EtherType::ARP {
            // The packet names the port that it was for.
            let to = parsed.payload.get(16).and_then(|&port| EdgePort::new(u16::from(port)));
            let wanted = self.plane.ports().find(|(_, port)| port.number.is_some() && port.number == to).map(|(at, _)| at);
            if let Some(at) = wanted {
                self.ask(at, now);
            }
            return;
        }
        let number = self.plane.ports().find(|(at, _)| *at == ifindex).and_then(|(_, port)| port.number);
        let (Ok(arp), Some(number)) = (Arp::parse(parsed.payload), number) else { return };
        let (mac, ip) = arp.sender;
        if !arp.is_request && ip == server_address(number) {
            tracing::debug!(port = number.get(), %mac, "a server has answered");
            self.answered.insert(ifindex, now);
            if let Err(error) = self.plane.set_server(ifindex, Some(mac)) {
                self.last_error = Some(error.to_string());
            }
        }
    }

    fn send(&self, ifindex: u32, frame: &[u8]) {
        // A port that is down; it is sent again.
        if let Err(error) = self.plane.send(ifindex, frame) {
            tracing::debug!(%error, "a frame was not sent");
        }
    }

    fn answer(&mut self, asked: PendingRequest) {
        match asked.request {
            Request::Status => {
                let status = self.status();
                asked.answer(&status);
            }
            _ => asked.refuse("this is the daemon of a switch", "ask the agent of a server"),
        }
    }
}

/// The switch's own address towards the server at a port; the server has p.0.0.1 (section 3.6).
const fn own_address(port: EdgePort) -> Ipv4Addr {
    Ipv4Addr::new(port.get(), 0, 0, 2)
}

const fn server_address(port: EdgePort) -> Ipv4Addr {
    Ipv4Addr::new(port.get(), 0, 0, 1)
}

/// The clock of the machine of limits.
fn since(started: Instant) -> SpanInstant {
    SpanInstant::from_ns(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

fn nanos(span: weft_control::time::Duration) -> Duration {
    span.to_std()
}

const UPKEEP: Duration = Duration::from_millis(500);
/// Between two ARP requests to one server.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// A server's MAC address is asked for again after so long.
const REFRESH: Duration = Duration::from_secs(60);
