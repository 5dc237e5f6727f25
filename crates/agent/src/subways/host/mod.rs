//! The agent of a host with several NICs.
//!
//! ```text
//!   netlink: a link has changed --> carriers --Nics--+                        +--> plane: slots, moves
//!   scheduler, UDP -------------------Orders---------+--> AccessHost --> -----+--> scheduler, UDP: reports
//!   plane: flows ---------------------Flows----------+
//! ```
//! Reports leave from the first NIC that is up, with its address, so that a scheduler hears of one that is not.

mod status;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;
use std::time::{Duration, Instant as WallInstant, SystemTime};

use serde_json::{Value, json};
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;
use weft_control::subways::agents::{AccessHost, HostConfig, HostInput, HostOutput};
use weft_control::time::{Duration as Span, Instant};
use weft_control::wire::subways::HOPS_MAX;
use weft_control::wire::vl2::placement::PlacementKey;
use weft_fabric::HostId;

use super::config::Access;
use super::dataplane::{HostPlane, PlaneSettings};
use crate::config::Place;
use crate::daemon::{Daemon, Run, RunOptions};
use crate::dataplane::PlaneError;
use crate::dataplane::nic::Nic;
use crate::directory::{DATAGRAM, bind, send};
use crate::error::{Error, Result};
use crate::exporter;
use crate::problems::ProblemLog;
use crate::reconcile::Reconciler;
use crate::socket::ControlSocket;
use crate::watch::KernelWatch;

/// The configuration of a host.
#[derive(Debug)]
pub struct AccessHostConfig {
    pub(super) access: Access,
    host: HostId,
}

/// A running agent.
pub(super) struct Host {
    config: AccessHostConfig,
    plane: HostPlane,
    machine: AccessHost,
    /// By NIC, for reports.
    sockets: Vec<UdpSocket>,
    watch: KernelWatch,
    down: u32,
    started: WallInstant,
    measured: WallInstant,
    /// At the NICs.
    looked: WallInstant,
    reconciler: Reconciler,
    problem_log: ProblemLog,
    error: Option<String>,
}

impl AccessHostConfig {
    /// Reads a configuration with `overlay = "none"` and `role = "host"`.
    ///
    /// # Errors
    /// [`Error`] with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let access = Access::read(place)?;
        let host = access.addresses.fabric().as_host(access.node);
        let Some(host) = host else {
            let help = "write role = \"switch\", or the name of a host";
            return Err(place.error(access.keys.access.get_ref().name.span(), "this is a switch of the fabric", help));
        };
        Ok(Self { access, host })
    }

    /// Checks that this machine has the devices and the key.
    ///
    /// # Errors
    /// [`Error`] with file and line.
    pub fn check_here(&self, place: &Place<'_>) -> Result<()> {
        self.access.check_here(place)
    }

    fn nics(&self) -> Vec<(String, Ipv4Addr)> {
        let devices = self.access.devices.iter().flatten().cloned();
        devices.zip(self.access.addresses.of(self.host).iter().copied()).collect()
    }

    fn has_detours(&self) -> bool {
        self.access.keys.access.get_ref().detours
    }

    /// The largest packet that all NICs carry with the headers of detours, unless a smaller one is wanted.
    fn mtu(&self) -> Result<u32> {
        if let Some(mtu) = &self.access.keys.access.get_ref().mtu {
            return Ok(*mtu.get_ref());
        }
        let headers = if self.has_detours() { DETOUR_HEADERS } else { 0 };
        Ok(self.nic_mtu()?.saturating_sub(headers))
    }

    /// The largest packet that all NICs carry.
    fn nic_mtu(&self) -> Result<u32> {
        let mut least = ETHERNET;
        for (at, (device, _)) in self.nics().iter().enumerate() {
            let mtu = Nic::mtu_if_up(device)?.unwrap_or(ETHERNET);
            least = if at == 0 { mtu } else { least.min(mtu) };
        }
        Ok(least)
    }
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(config: AccessHostConfig, file: &Path, options: RunOptions) -> Result<bool> {
    let (socket, on_exit) = (config.access.keys.socket.clone(), config.access.keys.on_exit);
    Run { socket: &socket, on_exit, file, options }.run_until_signal(|| Host::start(config))
}

impl Daemon for Host {
    fn descriptors(&self) -> Vec<RawFd> {
        self.sockets.iter().map(|socket| socket.as_raw_fd()).chain([self.watch.descriptor()]).collect()
    }

    fn timeout(&self) -> Duration {
        self.machine.deadline().saturating_since(self.now()).to_std().min(LOOK_AT_NICS)
    }

    fn run_once(&mut self, control: &mut ControlSocket) -> Result<()> {
        control.answer_status(|| self.status(), "this is the agent of a host without an overlay");
        self.step();
        Ok(())
    }

    fn reload(&mut self, _: &Path) -> Result<()> {
        Err(Error::NoReload("an agent without an overlay"))
    }

    fn ready(&self) -> (String, Value) {
        let line = self.line();
        let json = json!({ "ready": line, "overlay": "none", "role": "host" });
        (line, json)
    }

    fn end(self) -> Result<()> {
        Ok(self.plane.detach()?)
    }
}

impl Host {
    fn start(config: AccessHostConfig) -> Result<Self> {
        exporter::serve(config.access.keys.metrics)?;
        let access = &config.access;
        let fabric = access.addresses.fabric();
        let others = fabric.hosts().filter(|&host| host != config.host).map(|host| access.addresses.of(host));
        let peers: BTreeMap<Ipv4Addr, Vec<Ipv4Addr>> = others.map(|all| (all[0], all.to_vec())).collect();
        let settings = PlaneSettings { nics: config.nics(), mtu: config.mtu()?, stall: STALL, detours: config.has_detours() };
        let watch = KernelWatch::open(libc::RTMGRP_LINK).map_err(Error::system("listen to link changes", ""))?;
        let sockets = access.addresses.of(config.host).iter().map(|&address| bind(address)).collect::<Result<_>>()?;
        let plane = HostPlane::attach(&settings, &peers, &access.pins())?;
        // Without a scheduler nothing is tagged.
        let no_key = || (PrincipalId(0), PlacementKey::of(&Secret::new([0; 32]).key_of(PrincipalId(1))));
        let (principal, key) = access.identity()?.unwrap_or_else(no_key);
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let machine = HostConfig {
            addresses: access.addresses.clone(),
            host: config.host,
            principal,
            key,
            schedulers: access.schedulers.clone(),
            sequence: since_1970,
            report_bytes: access.keys.access.get_ref().report.0,
            detours: config.has_detours(),
        };
        let (started, down) = (WallInstant::now(), plane.down());
        let mut host = Self {
            machine: AccessHost::new(machine, Instant::ZERO),
            config,
            plane,
            sockets,
            watch,
            down,
            started,
            measured: started,
            looked: started,
            reconciler: Reconciler::default(),
            problem_log: ProblemLog::default(),
            error: None,
        };
        host.input(HostInput::Nics(down));
        host.step();
        host.plane.route()?;
        host.measure();
        Ok(host)
    }

    fn now(&self) -> Instant {
        Instant::ZERO.saturating_add(self.started.elapsed().into())
    }

    /// Does all that there is to do.
    fn step(&mut self) {
        if self.watch.has_changed() || self.looked.elapsed() >= LOOK_AT_NICS {
            self.look_at_nics();
        }
        let mut buffer = [0; DATAGRAM];
        for at in 0..self.sockets.len() {
            while let Ok((length, _)) = self.sockets[at].recv_from(&mut buffer) {
                self.input(HostInput::Datagram(&buffer[..length]));
            }
        }
        if self.machine.deadline() <= self.now() {
            self.input(HostInput::Timer);
        }
        if self.reconciler.is_due() {
            let done = self.plane.reconcile();
            self.reconciler.record(done);
        }
        if self.measured.elapsed() >= LOOK_AGAIN {
            self.measured = WallInstant::now();
            let problems = self.steady_problems();
            let all = problems.len() + self.reconciler.problem().iter().count();
            self.problem_log.update(problems, all);
            self.measure();
        }
    }

    /// The programs first: no packet is to wait for the machine.
    fn look_at_nics(&mut self) {
        self.looked = WallInstant::now();
        let down = self.plane.down();
        if down != self.down {
            self.down = down;
            let set = self.plane.set_down(down);
            self.note(set);
            self.input(HostInput::Nics(down));
        }
    }

    fn input(&mut self, input: HostInput<'_>) {
        let now = self.now();
        self.machine.handle(now, input);
        while let Some(output) = self.machine.poll() {
            match output {
                HostOutput::Read => self.read_flows(now),
                HostOutput::Send(to, bytes) => {
                    let up = (0..self.sockets.len()).find(|nic| self.down >> nic & 1 == 0).unwrap_or(0);
                    send(&self.sockets[up], to, &bytes);
                }
                HostOutput::Slots(peer, slots) => {
                    let set = self.plane.set_slots(peer, &slots);
                    self.note(set);
                }
                HostOutput::Move(flow, nics, gap) => {
                    let set = self.plane.set_move(&flow, nics, gap);
                    self.note(set);
                }
                HostOutput::Detours(detours, valid) => {
                    let set = self.plane.set_detours(&detours, valid);
                    self.note(set);
                }
                HostOutput::Permits(permits, valid) => {
                    let set = self.plane.set_permits(&permits, valid);
                    self.note(set);
                }
            }
        }
    }

    /// Passes on what has been forwarded, and the flows.
    fn read_flows(&mut self, now: Instant) {
        if self.config.has_detours() {
            match self.plane.forwarded() {
                Ok(forwarded) => self.machine.handle(now, HostInput::Forwarded(forwarded)),
                Err(error) => self.note(Err(error)),
            }
        }
        match self.plane.flows() {
            Ok(flows) => self.machine.handle(now, HostInput::Flows(&flows)),
            Err(error) => self.note(Err(error)),
        }
    }

    /// Keeps the last error of the tables for the status.
    fn note(&mut self, done: std::result::Result<(), PlaneError>) {
        if let Err(error) = done {
            tracing::warn!(%error, "a table was not written");
            self.error = Some(error.to_string());
        }
    }
}

/// The kernel reports a lost carrier up to a second late: of the NICs on one switch, which lose it together, all but the first.
const LOOK_AT_NICS: Duration = Duration::from_millis(100);
/// Everything else is looked at after so long, whatever woke the loop.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Less than the least timeout of TCP (200 ms), so that the first packet that is sent again takes other NICs.
const STALL: Span = Span::from_ms(150);
/// What detours at both ends of a flow add to a packet: a header for each server.
const DETOUR_HEADERS: u32 = 2 * HOPS_MAX as u32 * 20;
/// The MTU of Ethernet.
const ETHERNET: u32 = 1500;
