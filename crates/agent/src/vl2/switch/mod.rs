//! `role = "switch"`: what a ToR or an intermediate switch does beyond the kernel's forwarding (VL2, sections 4.2 and 4.3.2).
//!
//! ```text
//!   hosts' ports, UDP 5304 --Attach--------.                       .--> plane: locals (address -> port, MAC), addresses to strip
//!   directory servers, UDP <--lookups------+--> Tor (vl2::switch) -+--> answers to hosts
//!                          <--updates------'        ^              '--> updates, reports of undeliverable packets
//!   plane: samples of undeliverable packets --------'
//!
//!   kernel: a route has changed (netlink) --> `ip route`: who can be reached --> AnycastFailover --> `ip addr add|del` on lo, plane: strip
//!
//!   hosts' ports, UDP 67; plane: renewals --DHCP, relayed--> DHCP server, and back
//! ```
//! A switch is a ToR (`[tor]`), an intermediate (`[intermediate]`), both, or neither: then it only keeps outer hashes out of the kernel's choice of paths.
//! Route changes come by netlink and not by polling, since a group must not be dead for longer than routing takes; the routes are read again each time, so
//! that a lost message costs a second (the time after which it is read in any case) and nothing else.

mod config;
mod intermediate;
mod metrics;
mod ports;
mod relay;
mod reload;
mod routes;
mod status;
mod tor;

use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;
use std::time::{Duration, Instant as WallInstant};

use ipnet::IpNet;
use serde_json::{Value, json};
use weft_control::time::Instant;

pub use config::SwitchConfig;

use self::intermediate::Intermediate;
use self::relay::Relay;
use self::tor::TorPart;
use crate::daemon::{Daemon, Run, RunOptions};
use crate::directory::Confirmation;
use crate::error::{Error, Result};
use crate::exporter;
use crate::problems::ProblemLog;
use crate::reconcile::Reconciler;
use crate::socket::ControlSocket;
use crate::vl2::dataplane::{StripRole, SwitchPlane, SwitchSettings};

/// A running switch.
pub(super) struct Switch {
    config: SwitchConfig,
    plane: SwitchPlane,
    tor: Option<TorPart>,
    intermediate: Option<Intermediate>,
    relay: Option<Relay>,
    clock: Clock,
    started: WallInstant,
    measured: WallInstant,
    reconciler: Reconciler,
    problem_log: ProblemLog,
    confirmation: Confirmation,
}

/// The machines' clock: 0 when the agent starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(WallInstant);

impl Clock {
    fn begin() -> Self {
        Self(WallInstant::now())
    }

    /// Now, as the machines count.
    pub fn now(self) -> Instant {
        Instant::ZERO.saturating_add(self.0.elapsed().into())
    }
}

/// Runs until SIGTERM or SIGINT; SIGHUP reloads the configuration.
pub(crate) fn run(config: SwitchConfig, file: &Path, options: RunOptions) -> Result<bool> {
    let (socket, on_exit) = (config.socket.clone(), config.on_exit);
    Run { socket: &socket, on_exit, file, options }.run_until_signal(|| Switch::start(config))
}

impl Daemon for Switch {
    fn descriptors(&self) -> Vec<RawFd> {
        let mut all = vec![self.plane.events_fd().as_raw_fd()];
        all.extend(self.tor.iter().flat_map(TorPart::descriptors));
        all.extend(self.intermediate.iter().map(Intermediate::descriptor));
        all.extend(self.relay.iter().flat_map(Relay::descriptors));
        all
    }

    fn timeout(&self) -> Duration {
        let now = self.clock.now();
        let deadlines =
            [self.tor.as_ref().and_then(TorPart::deadline), self.intermediate.as_ref().and_then(Intermediate::deadline)];
        let next = deadlines.into_iter().flatten().min().map(|at| at.saturating_since(now).to_std());
        // Rounded up by the system to a millisecond; what is due is due then.
        next.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN)
    }

    fn run_once(&mut self, control: &mut ControlSocket) -> Result<()> {
        while let Some(asked) = control.next() {
            self.answer(asked);
        }
        self.step()
    }

    fn reload(&mut self, file: &Path) -> Result<()> {
        self.apply_config(SwitchConfig::read_again(file)?)
    }

    fn ready(&self) -> (String, Value) {
        let line = self.line();
        let json = json!({ "ready": line, "role": "switch" });
        (line, json)
    }

    /// The addresses first: nobody is to send here what is not stripped any more.
    fn end(mut self) -> Result<()> {
        if let Some(intermediate) = &mut self.intermediate {
            intermediate.leave()?;
        }
        Ok(self.plane.detach()?)
    }
}

impl Switch {
    fn start(config: SwitchConfig) -> Result<Self> {
        exporter::serve(config.metrics)?;
        let ports: Vec<&str> = config.ports.iter().map(|port| port.get_ref().as_str()).collect();
        let mut plane = SwitchPlane::attach(&ports, &settings(&config), &config.pins())?;
        let clock = Clock::begin();
        let parts = (|| -> Result<_> {
            if config.tor.is_none() {
                // A scheduler may send flows over this very switch. (What a ToR's own locator is for, it sets itself.)
                plane.set_strip(config.la, StripRole::Intermediate)?;
            }
            let tor = config.tor.as_ref().map(|part| TorPart::start(&config, part, &mut plane)).transpose()?;
            let intermediate = config.intermediate.as_ref().map(|part| Intermediate::start(config.la, part)).transpose()?;
            Ok((tor, intermediate, relay(&config)?))
        })();
        let (tor, intermediate, relay) = plane.rollback_on_error(parts)?;
        let started = WallInstant::now();
        let (reconciler, problem_log) = (Reconciler::default(), ProblemLog::default());
        let confirmation = Confirmation::of("addresses of hosts");
        let mut switch = Self {
            config,
            plane,
            tor,
            intermediate,
            relay,
            clock,
            started,
            measured: started,
            reconciler,
            problem_log,
            confirmation,
        };
        switch.step()?;
        switch.measure();
        Ok(switch)
    }

    /// Does all that there is to do.
    fn step(&mut self) -> Result<()> {
        let now = self.clock.now();
        let renewals = self.tor.as_mut().map(|tor| tor.step(now, &mut self.plane)).transpose()?.unwrap_or_default();
        if let Some(intermediate) = &mut self.intermediate {
            intermediate.step(now, &mut self.plane)?;
        }
        if let Some(relay) = &mut self.relay {
            relay.step(&self.plane, &renewals);
        }
        if self.reconciler.is_due() {
            let done = self.plane.reconcile().and_then(|mut restored| {
                if let Some(tor) = &self.tor {
                    tor.reconcile(&mut self.plane, &mut restored)?;
                }
                Ok(restored)
            });
            self.reconciler.record(done);
        }
        if self.measured.elapsed() >= LOOK_AGAIN {
            self.measured = WallInstant::now();
            let steady = self.steady_problems();
            let all = steady.len() + self.confirmation.problem().iter().count() + self.reconciler.problem().iter().count();
            self.problem_log.update(steady, all);
            self.confirmation.update(self.tor.as_ref().and_then(|tor| tor.unanswered(now)));
            self.measure();
        }
        Ok(())
    }

    /// What it is, and where.
    fn line(&self) -> String {
        format!("{} {} on {} ports", self.kind(), self.config.la, self.config.ports.len())
    }

    fn kind(&self) -> &'static str {
        match (&self.tor, &self.intermediate) {
            (Some(_), Some(_)) => "ToR and intermediate switch",
            (Some(_), None) => "ToR",
            (None, Some(_)) => "intermediate switch",
            (None, None) => "switch",
        }
    }
}

fn relay(config: &SwitchConfig) -> Result<Option<Relay>> {
    let Some(part) = &config.tor else { return Ok(None) };
    let Some(server) = part.dhcp_server else { return Ok(None) };
    let ports: std::collections::BTreeSet<&str> = part.host.iter().map(|host| host.port.get_ref().as_str()).collect();
    let ports: Vec<&str> = ports.into_iter().collect();
    let started = Relay::start(config.la, server, settings(config).aa4.map(|net| net.addr()), &ports);
    started.map(Some).map_err(Error::system("relay DHCP", "does another program use UDP port 67 here?"))
}

fn settings(config: &SwitchConfig) -> SwitchSettings {
    let mut settings = SwitchSettings::default();
    for prefix in &config.prefixes {
        match prefix.net() {
            IpNet::V4(net) => settings.aa4 = Some(net),
            IpNet::V6(net) => settings.aa6 = Some(net),
        }
    }
    settings.relay = config.tor.as_ref().and_then(|tor| tor.dhcp_server).map(|_| config.la);
    settings
}

/// Everything is looked at after so long, whatever woke the loop.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
