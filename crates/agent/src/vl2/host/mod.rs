//! `role = "host"`: the VL2 agent of a server. One thread, one loop; what is decided is the machine's.
//!
//! ```text
//!   eBPF events --+                                       +--> eBPF tables, packets released, frames injected
//!   directory ----+--> Input --> vl2::agent::Agent --> Output --> UDP to directory and ToR
//!   ToR ----------+      ^                                +--> multicast memberships
//!   NIC's addresses (`follow_device`)
//!   Unix socket --+   deadline                            +--> (locator = "host") the announcer's thread
//!                 +---------> (`[placement]`) PlacementHost ---> eBPF tables, UDP to the scheduler
//!   signals ------+
//! ```

mod announce;
mod apply;
mod checks;
mod config;
mod follow;
mod link;
mod locators;
mod metrics;
mod placement;
mod reconcile;
mod reload;
mod setup;
mod status;

use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weft_control::vl2::agent::{Agent, AttachState, Input, OwnState};
use weft_control::vl2::placement::HostInput;

pub use config::HostConfig;

use crate::daemon::{Daemon, Run, RunOptions};
use crate::directory::{Confirmation, DATAGRAM, Evictions, send};
use crate::error::Result;
use crate::problems::ProblemLog;
use crate::reconcile::Reconciler;
use crate::socket::{ControlSocket, PendingRequest, Request};
use crate::vl2::dataplane::{Event, Flow, PeerKey, Problem};
use announce::Announcer;
use apply::Plane;
use follow::DeviceAddresses;
use link::Link;
use placement::Placement;

/// The agent of a host, at work.
struct Host {
    config: HostConfig,
    link: Link,
    la: std::net::Ipv4Addr,
    agent: Agent,
    plane: Plane,
    directory: UdpSocket,
    tor: UdpSocket,
    announcer: Option<Announcer>,
    placement: Option<Placement>,
    followed: Option<DeviceAddresses>,
    gateway: Option<std::net::Ipv4Addr>,
    /// When the program was started, and when its machine was made.
    started: Instant,
    begun: Instant,

    waiters: Vec<Waiter>,
    upkeep: Instant,
    routes_checked: Instant,
    checks: Vec<checks::Check>,
    confirmation: Confirmation,
    evictions: Evictions,
    reconciler: Reconciler,
    problem_log: ProblemLog,
    /// The peer after which the next comparison with the kernel's table begins.
    compared: Option<PeerKey>,
}

/// A client that waits until an address is attached or detached.
struct Waiter {
    address: IpAddr,
    is_attach: bool,
    until: Instant,
    asked: PendingRequest,
}

/// Runs until SIGTERM or SIGINT; SIGHUP reloads the configuration.
pub(crate) fn run(config: HostConfig, file: &Path, options: RunOptions) -> Result<bool> {
    let (socket, on_exit) = (config.socket.clone(), config.on_exit);
    Run { socket: &socket, on_exit, file, options }.run_until_signal(|| Host::start(config))
}

impl Daemon for Host {
    fn descriptors(&self) -> Vec<RawFd> {
        let mut all = vec![self.plane.descriptor(), self.directory.as_raw_fd(), self.tor.as_raw_fd()];
        all.extend(self.announcer.as_ref().map(|it| it.descriptor().as_raw_fd()));
        all.extend(self.placement.iter().flat_map(Placement::descriptors));
        all.extend(self.followed.as_ref().map(DeviceAddresses::descriptor));
        all
    }

    fn timeout(&self) -> Duration {
        let now = Instant::now();
        let machine = self.agent.deadline().map_or(UPKEEP, |at| nanos(at.saturating_since(self.now())));
        let waiter = self.waiters.iter().map(|waiter| waiter.until.saturating_duration_since(now)).min().unwrap_or(UPKEEP);
        let placement = self.placement.as_ref().map_or(UPKEEP, |it| nanos(it.deadline().saturating_since(self.now())));
        machine.min(waiter).min(placement).min(self.upkeep.saturating_duration_since(now))
    }

    fn run_once(&mut self, control: &mut ControlSocket) -> Result<()> {
        self.take_events();
        self.take_datagrams();
        let now = self.now();
        if let Some(placement) = &mut self.placement {
            placement.step(now, &mut self.plane);
        }
        while let Some((address, result)) = self.announcer.as_mut().and_then(Announcer::next) {
            self.input(Input::Announced { address, result });
        }
        if self.followed.as_ref().is_some_and(DeviceAddresses::has_changed) {
            self.follow_device();
        }
        while let Some(asked) = control.next() {
            self.asked(asked);
        }
        self.input(Input::Timer);
        self.settle();
        if self.upkeep <= Instant::now() {
            self.housekeeping();
        }
        Ok(())
    }

    fn reload(&mut self, file: &Path) -> Result<()> {
        self.apply_config(HostConfig::read_again(file)?)
    }

    fn ready(&self) -> (String, Value) {
        let line = json!({
            "role": "host", "device": self.link.device, "la": self.la.to_string(), "principal": self.config.principal().0,
            "adopted": self.plane.adopted(), "metrics": self.config.metrics.map(|it| it.to_string()), "socket": self.config.socket,
        });
        tracing::info!(device = self.link.device, la = %self.la, adopted = self.plane.adopted(), "packets flow");
        (format!("{} {} principal {}", self.link.device, self.la, self.config.principal().0), line)
    }

    fn end(mut self) -> Result<()> {
        // The ToR is notified once: nobody waits for its answer.
        let own: Vec<IpAddr> = self.agent.own().map(|own| own.address).collect();
        for address in own {
            self.input(Input::Detach(address));
        }
        self.plane.detach()
    }
}

impl Host {
    fn input(&mut self, input: Input<'_>) {
        self.agent.handle(self.now(), input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.agent.poll() {
            match output {
                weft_control::vl2::agent::Output::Send { to, bytes } => send(&self.directory, to, &bytes),
                weft_control::vl2::agent::Output::SendAttach { to, bytes } => send(&self.tor, to, &bytes),
                weft_control::vl2::agent::Output::Announce(address) => {
                    if let Some(announcer) = &self.announcer {
                        announcer.announce(address);
                    }
                }
                weft_control::vl2::agent::Output::Attachment { address, state } => log_attachment(address, state),
                weft_control::vl2::agent::Output::SequenceAdvanced(by) => log_advance(by.as_ns()),
                output => self.plane.apply(output),
            }
        }
    }

    fn take_events(&mut self) {
        for event in self.plane.events() {
            match event {
                Event::Resolve { target, asker, asker_mac } => self.input(Input::Asked { target, asker, asker_mac }),
                Event::Miss { direction, source, destination, held } => {
                    let (local, peer, bytes, token) = self.plane.hold(direction, source, destination, held);
                    self.input(Input::Missed { local, peer, bytes, token });
                }
                Event::Congestion { flow } => {
                    self.input(Input::Congested(flow));
                    self.place(HostInput::Congested(flow));
                }
                Event::Elephant { flow } => self.place(HostInput::Elephant(flow)),
                Event::FlowEnd { flow } => self.place(HostInput::Ended(flow)),
                Event::IcmpError { flow, from, problem } => {
                    if let Some(flow) = flow.filter(|_| !matches!(problem, Problem::TooBig { .. })) {
                        self.place(HostInput::Undeliverable(flow));
                    }
                    let flow = flow.map(|flow| flow.to_string());
                    tracing::debug!(?flow, %from, ?problem, "an ICMP error from the fabric");
                }
                Event::TooBig { flow, mtu } => tracing::debug!(%flow, mtu, "too big for the fabric"),
                Event::Undeliverable { source, destination, .. } => tracing::debug!(%source, %destination, "not here"),
                // Of ToRs alone.
                Event::Dhcp { .. } => {}
            }
        }
    }

    fn place(&mut self, input: HostInput<'_>) {
        let now = self.now();
        if let Some(placement) = &mut self.placement {
            placement.input(now, input, &mut self.plane);
        }
    }

    fn take_datagrams(&mut self) {
        let mut buffer = [0; DATAGRAM];
        while let Ok((length, from)) = self.directory.recv_from(&mut buffer) {
            self.input(Input::Datagram { from, bytes: &buffer[..length] });
        }
        while let Ok((length, from)) = self.tor.recv_from(&mut buffer) {
            self.input(Input::AttachDatagram { from, bytes: &buffer[..length] });
        }
    }

    fn asked(&mut self, asked: PendingRequest) {
        match asked.request.clone() {
            Request::Status => {
                self.refresh_checks();
                let status = self.status();
                asked.answer(&status);
            }
            Request::Attach { address, mac, timeout_ms } => {
                if !self.config.is_application(address) {
                    return asked.refuse(&format!("{address} is in none of the prefixes"), "add its prefix to the configuration");
                }
                let Ok(mac) = mac.map_or(Ok(self.link.mac), |mac| mac.parse()) else {
                    return asked.refuse("that is no MAC address", "write 02:00:00:00:00:01");
                };
                self.wait(asked, address, true, timeout_ms);
                self.input(Input::Attach { address, mac });
            }
            Request::Detach { address, timeout_ms } => {
                if !self.agent.own().any(|own| own.address == address) {
                    return asked.refuse(&format!("{address} is not one of this host's"), "`weft agent status` lists them");
                }
                self.wait(asked, address, false, timeout_ms);
                self.input(Input::Detach(address));
            }
            Request::AttachVif { .. } | Request::DetachVif { .. } => {
                asked.refuse("this is an agent of VL2, which has no VIFs", "`weft agent attach` takes application addresses");
            }
            Request::Trace { source, destination, protocol, sport, dport } => {
                let flow = Flow { source, destination, protocol, source_port: sport, destination_port: dport };
                match self.outer_path(flow) {
                    Ok(path) => asked.answer(&path),
                    Err((message, help)) => asked.refuse(&message, help),
                }
            }
        }
    }

    fn wait(&mut self, asked: PendingRequest, address: IpAddr, is_attach: bool, timeout_ms: u64) {
        let until = Instant::now() + Duration::from_millis(timeout_ms.min(TIMEOUT_MAX_MS));
        self.waiters.push(Waiter { address, is_attach, until, asked });
    }

    /// Answers clients whose address is where they want it, or whose time is over.
    fn settle(&mut self) {
        for waiter in std::mem::take(&mut self.waiters) {
            let (outcome, detail) = self.outcome(&waiter);
            if outcome == "unanswered" && Instant::now() < waiter.until {
                self.waiters.push(waiter);
                continue;
            }
            let address = waiter.address.to_string();
            waiter.asked.answer(&json!({ "address": address, "outcome": outcome, "detail": detail }));
        }
    }

    fn outcome(&self, waiter: &Waiter) -> (&'static str, Option<String>) {
        let Some(own) = self.agent.own().find(|own| own.address == waiter.address) else {
            return if waiter.is_attach { ("unanswered", None) } else { ("detached", None) };
        };
        if !waiter.is_attach {
            return ("unanswered", None);
        }
        match (own.attachment, own.state) {
            (Some(AttachState::Refused(code)), _) => ("refused", Some(code.to_string())),
            (_, OwnState::NotOurs) => ("refused", Some("the directory says that it is another host's".to_owned())),
            (_, OwnState::Forbidden) => ("refused", Some(status::FORBIDDEN.to_owned())),
            (_, OwnState::Unknown) => ("refused", Some("the directory has no such address".to_owned())),
            (Some(AttachState::Attached) | None, OwnState::Confirmed(_)) => ("attached", None),
            _ => ("unanswered", None),
        }
    }

    /// What must be looked at now and then: the next hop, the routes, the metrics.
    fn housekeeping(&mut self) {
        self.upkeep = Instant::now() + UPKEEP;
        if self.routes_checked.elapsed() >= ROUTES {
            self.routes_checked = Instant::now();
            if let Ok(link) = Link::find(self.config.device.get_ref()) {
                self.link = link;
            }
            self.gateway = self.link.gateway(self.config.towards());
            self.follow_device();
            let routes = self.narrow_routes();
            self.checks = checks::all(&self.config, &self.link, &routes, self.plane.has_gateway());
        }
        self.refresh_gateway();
        if self.reconciler.is_due() {
            self.reconcile();
        }
        self.confirmation.update(self.agent.unconfirmed_since().map(|at| self.now().saturating_since(at)));
        self.evictions.update(self.agent.resolver_counts().evicted);
        metrics::update(&self.agent, self.plane.counters().as_ref(), self.config.limits.peers);
        self.placement.iter().for_each(Placement::measure);
        let (steady, all) = (self.steady_problems(), self.problems().len());
        self.problem_log.update(steady, all);
    }

    fn refresh_gateway(&mut self) {
        if self.config.gateway_mac.is_some() {
            return;
        }
        let Some(gateway) = self.gateway else { return };
        match link::neighbour(gateway, &self.link.device) {
            Some(mac) => self.plane.set_gateway(mac),
            None => link::trigger_arp(gateway),
        }
    }

    fn narrow_routes(&self) -> Vec<link::Route> {
        let inner = checks::inner_mtu(&self.config, self.config.fabric_mtu(&self.link));
        let mut routes = self.link.application_routes(self.config.prefixes.get_ref());
        let changed = self.link.narrow_routes(&mut routes, inner);
        if !changed.is_empty() {
            tracing::info!(routes = changed.join(", "), mtu = inner, "application addresses have room for outer headers");
        }
        routes
    }

    fn refresh_checks(&mut self) {
        if let Ok(link) = Link::find(self.config.device.get_ref()) {
            self.link = link;
        }
        let routes = self.link.application_routes(self.config.prefixes.get_ref());
        self.checks = checks::all(&self.config, &self.link, &routes, self.plane.has_gateway());
    }

    fn now(&self) -> weft_control::time::Instant {
        weft_control::time::Instant::from_ns(1_000_000_000).saturating_add(self.begun.elapsed().into())
    }
}

fn log_attachment(address: IpAddr, state: AttachState) {
    match state {
        AttachState::Attached => tracing::debug!(%address, "attached"),
        AttachState::Detached => tracing::info!(%address, "detached"),
        AttachState::Waiting => tracing::warn!(%address, "the ToR does not answer"),
        AttachState::Refused(code) => tracing::warn!(%address, %code, "attaching is refused"),
    }
}

/// The ToR knows a later message of this host. By less than a second, it is one that was repeated for too long.
fn log_advance(by_ns: u64) {
    let by_s = by_ns as f64 / 1e9;
    if by_ns >= 1_000_000_000 {
        tracing::warn!(
            by_s,
            "the ToR has heard this host with a later time: the clock was set back; messages continue after that time"
        );
    } else {
        tracing::debug!(by_s, "the ToR has forgotten this host");
    }
}

fn nanos(span: weft_control::time::Duration) -> Duration {
    // Rounded up to what the poll can wait for, lest it spins.
    Duration::from_millis((span.as_ns() / 1_000_000).saturating_add(1))
}

const UPKEEP: Duration = Duration::from_secs(1);
/// Between two looks at routes.
const ROUTES: Duration = Duration::from_secs(10);
const TIMEOUT_MAX_MS: u64 = 600_000;
