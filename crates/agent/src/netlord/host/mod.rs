//! `role = "host"`: the NetLord agent of a server (sections 3.7 to 3.9). One thread, one loop; what is decided is the machine's.
//!
//! ```text
//!   eBPF events ---+                                                +--> eBPF tables
//!   Unix socket ---+--> Input --> netlord::agent::Agent --> Output -+--> frames to the fabric, by packet sockets
//!   tenants' file -+      ^          NL-ARP, SPAIN's paths          +--> frames to VMs, likewise
//!   SPAIN's tables |      |   ^ threads keep both files as the directory's store has them
//!   interfaces ----+   deadline         (word of them by netlink, and a look each second)
//! ```

mod apply;
mod attach;
mod config;
mod lease;
mod names;
mod paths;
mod provider;
mod records;
mod repository;
mod status;
mod tenants;
mod uplink;
mod vif;
mod watched;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd as _, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weft_control::directory::resolver::Resolver;
use weft_control::netlord::agent::{Agent, Input, VifId};
use weft_control::netlord::nl_arp::NlArp;
use weft_control::netlord::pull::Pull;
use weft_control::netlord::sources::Sources;
use weft_control::netlord::spain::SpainPaths;
use weft_control::netlord::tenants::Tenants;
use weft_control::netlord::{UplinkId, dhcp};
use weft_control::wire::netlord::Lldp;
use weft_control::wire::netlord::dhcp::is_reply;
use weft_control::wire::packet::ethernet::{EtherType, Ethernet};
use weft_fabric::rng::Pcg64;

use config::DirectoryPart;
pub use config::HostConfig;

use super::metrics;
use crate::daemon::{Daemon, Run, RunOptions};
use crate::directory::{Confirmation, DATAGRAM, bind, measure_lookups, resolver};
use crate::error::{Error, Result};
use crate::exporter;
use crate::netlord::dataplane::{Event, HostPlane};
use crate::problems::ProblemLog;
use crate::reconcile::Reconciler;
use crate::socket::{ControlSocket, PendingRequest, Request};
use crate::watch::KernelWatch;
use names::Names;
use paths::Paths;
use provider::Provider;
use records::Records;
use repository::Repository;
use tenants::first_tenants;
use uplink::Uplink;
use vif::{Attaching, OwnVif, Wanted};
use watched::Watched;

/// The agent of a server, at work.
struct Host {
    config: HostConfig,
    plane: HostPlane,
    agent: Agent<Sources, SpainPaths>,
    /// Word of interfaces that go up or down.
    links: KernelWatch,
    /// To directory servers, if they are asked.
    directory: Option<UdpSocket>,
    uplinks: Vec<Uplink>,
    /// By interface.
    vifs: BTreeMap<u32, OwnVif>,
    /// The same, by its name.
    by_device: BTreeMap<String, u32>,
    /// What is to be attached whenever its interface is there, by the interface's name.
    wanted: BTreeMap<String, Wanted>,
    /// When interfaces are looked at again, at the latest.
    look: Instant,
    /// The last VIF whose entries were compared.
    looked: Option<u32>,
    /// This server's own interface in tenant 1.
    provider: Option<Provider>,
    tenants: Arc<Tenants>,
    names: Names,
    /// By which VLANs edge switches are reached.
    paths: Paths,
    /// What keeps files as the directory's store has them.
    repository: Option<Repository>,
    /// What keeps the tenants' file as its records are.
    records: Option<Records>,
    /// Commands that wait for them.
    attaching: Vec<Attaching>,
    tenants_file: Watched,
    /// Frames of VIFs that exceeded their budgets, when this was last looked at.
    refused: u64,
    /// The kernel's last error.
    last_error: Option<String>,
    /// When the program was started, and when its machine was made.
    started: Instant,
    begun: Instant,
    upkeep: Instant,
    confirmation: Confirmation,
    reconciler: Reconciler,
    problem_log: ProblemLog,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(config: HostConfig, file: &Path, options: RunOptions) -> Result<bool> {
    let (socket, on_exit) = (config.socket.clone(), config.on_exit);
    Run { socket: &socket, on_exit, file, options }.run_until_signal(|| Host::start(config))
}

impl Daemon for Host {
    fn descriptors(&self) -> Vec<RawFd> {
        let directory = self.directory.iter().map(UdpSocket::as_raw_fd);
        let records = self.records.iter().map(|it| it.descriptor().as_raw_fd());
        directory.chain(records).chain([self.plane.events_fd().as_raw_fd(), self.links.descriptor()]).collect()
    }

    fn timeout(&self) -> Duration {
        let deadline = self.agent.deadline().into_iter().chain(self.dhcp_deadline()).min();
        let machine = deadline.map_or(UPKEEP, |at| {
            // Rounded up to what the poll can wait for, lest it spins.
            Duration::from_millis((at.saturating_since(self.now()).as_ns() / 1_000_000).saturating_add(1))
        });
        machine.min(self.upkeep.saturating_duration_since(Instant::now()))
    }

    fn run_once(&mut self, control: &mut ControlSocket) -> Result<()> {
        if self.links.has_changed() {
            self.look = Instant::now();
            self.refresh_uplinks();
        }
        loop {
            let events = self.plane.events().unwrap_or_else(|error| {
                self.last_error = Some(error.to_string());
                Vec::new()
            });
            let is_last = events.is_empty();
            events.into_iter().for_each(|event| self.event(event));
            if is_last {
                break;
            }
        }
        self.take_datagrams();
        self.take_records();
        while let Some(asked) = control.next() {
            self.asked(asked);
        }
        self.input(Input::Timer);
        self.ask_for_address();
        if self.upkeep <= Instant::now() {
            self.housekeeping();
        }
        Ok(())
    }

    /// What changes while it runs has files of its own, which are read when they change.
    fn reload(&mut self, _: &Path) -> Result<()> {
        Err(Error::NoReload("a NetLord daemon"))
    }

    fn ready(&self) -> (String, Value) {
        let (uplinks, vifs, adopted) = (self.uplinks.len(), self.vifs.len(), self.plane.adopted());
        tracing::info!(uplinks, vifs, adopted, "frames flow");
        let json = json!({
            "overlay": "netlord", "role": "host", "uplinks": uplinks, "vifs": vifs, "adopted": adopted, "socket": self.config.socket,
        });
        (format!("netlord host, {uplinks} uplinks, {vifs} VIFs"), json)
    }

    fn end(mut self) -> Result<()> {
        self.end_provider();
        Ok(self.plane.detach()?)
    }
}

impl Host {
    fn start(config: HostConfig) -> Result<Self> {
        let tenants = first_tenants(config.tenants.get_ref(), config.has_repository())?;
        exporter::serve(config.metrics)?;
        let plane = HostPlane::load(&config.plane(), &config.pins())?;
        let now = Instant::now();
        let agent = new_machine(&config)?;
        // From whatever address leads to them: that in tenant 1 may be had later.
        let directory = config.pull().is_some().then(|| bind(Ipv4Addr::UNSPECIFIED)).transpose()?;
        let failed = Error::system("listen to changes of interfaces", "the agent runs as root");
        let links = KernelWatch::open(libc::RTMGRP_LINK).map_err(failed)?;
        let mut host = Self {
            plane,
            agent,
            links,
            directory,
            uplinks: Vec::new(),
            vifs: BTreeMap::new(),
            by_device: BTreeMap::new(),
            wanted: BTreeMap::new(),
            look: now,
            looked: None,
            provider: None,
            names: Names::new(&tenants),
            tenants: Arc::new(tenants),
            paths: Paths::new(config.known_paths(), config.paths.as_ref().map(|it| it.get_ref().clone())),
            repository: None,
            records: None,
            attaching: Vec::new(),
            tenants_file: Watched::read(config.tenants.get_ref().clone()),
            refused: 0,
            last_error: None,
            started: now,
            begun: now,
            upkeep: now,
            config,
            confirmation: Confirmation::default(),
            reconciler: Reconciler::default(),
            problem_log: ProblemLog::default(),
        };
        let begun = host.begin();
        if begun.is_err() && !host.plane.adopted() {
            host.end_provider();
        }
        host.plane.rollback_on_error(begun)?;
        Ok(host)
    }

    fn begin(&mut self) -> Result<()> {
        for at in 0..self.config.uplink.get_ref().len() {
            let device = self.config.uplink.get_ref()[at].device.get_ref().clone();
            let (ifindex, mac) = self.plane.attach_uplink(&device)?;
            let at = self.plane.inherited_place(ifindex)?;
            self.uplinks.push(Uplink { device, ifindex, mac, mtu: None, at });
        }
        let is_adopted = self.plane.adopted();
        self.inherit(is_adopted)?;
        self.begin_provider()?;
        self.attach_configured()?;
        (self.repository, self.records) = Repository::begin(&self.config)?.unzip();
        self.want_records();
        Ok(())
    }

    /// The first inputs of a new machine: tenants, paths, what an earlier agent left in the tables, interfaces.
    fn inherit(&mut self, is_adopted: bool) -> Result<()> {
        if let Some(directory) = self.config.pull() {
            let servers = directory.servers.get_ref().clone();
            self.input(Input::Servers(&servers));
        }
        for (to, vlans) in self.paths.known.clone() {
            self.input(Input::Paths { to, vlans: &vlans });
        }
        self.reload_paths();
        let (vifs, remotes) = if is_adopted { self.plane.inherited()? } else { Default::default() };
        self.input(Input::Configure(Arc::clone(&self.tenants)));
        for (vif, at) in remotes {
            self.input(Input::Adopt { vif, at });
        }
        self.refresh_uplinks();
        self.adopt_places();
        self.assert_places();
        self.attach_inherited(vifs);
        Ok(())
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::FromVif { ifindex, frames } => {
                for frame in &frames {
                    self.input(Input::FromVif { id: VifId(ifindex), frame });
                }
            }
            Event::FromFabric { ifindex, frame } => {
                let uplink = self.uplink_of(ifindex);
                let is_said = |it: UplinkId| self.config.uplink.get_ref()[usize::from(it.0)].place().is_some();
                // What the configuration says of a place holds, whatever the switch says.
                if is_lldp(&frame) && uplink.is_some_and(is_said) {
                    return;
                }
                if is_reply(&frame) {
                    return self.dhcp(dhcp::Input::Frame(&frame));
                }
                if let Some(uplink) = uplink {
                    self.input(Input::FromFabric { uplink, frame: &frame });
                }
            }
            Event::Sent(ifindex, to, vlan) => {
                if let Some(uplink) = self.uplink_of(ifindex) {
                    self.input(Input::PathUsed { uplink, to, vlan });
                }
            }
            Event::Heard(ifindex, from, vlan) => {
                if let Some(uplink) = self.uplink_of(ifindex) {
                    self.input(Input::PathHeard { uplink, from, vlan });
                }
            }
            Event::Arp { .. } | Event::Claims { .. } => {}
        }
    }

    fn take_datagrams(&mut self) {
        let mut buffer = [0; DATAGRAM];
        while let Some(Ok((length, from))) = self.directory.as_ref().map(|socket| socket.recv_from(&mut buffer)) {
            self.input(Input::Datagram { from, bytes: &buffer[..length] });
        }
    }

    fn uplink_of(&self, ifindex: u32) -> Option<UplinkId> {
        let at = self.uplinks.iter().position(|uplink| uplink.ifindex == ifindex)?;
        u8::try_from(at).ok().map(UplinkId)
    }

    fn asked(&mut self, asked: PendingRequest) {
        match asked.request.clone() {
            Request::Status => {
                let status = self.status();
                asked.answer(&status);
            }
            Request::AttachVif { device, tenant, name } => self.asked_to_attach(asked, Wanted { device, tenant, name }),
            Request::DetachVif { device } => match self.detach_vif(&device) {
                Some(vif) => asked.answer(&json!({ "device": device, "vif": vif.to_string(), "outcome": "detached" })),
                None => asked.refuse(&format!("{device} is no VIF here"), "`weft agent status` lists them"),
            },
            _ => {
                asked.refuse("this is an agent of NetLord, which has no application addresses", "`weft agent vif` attaches VIFs")
            }
        }
    }

    /// What must be looked at now and then: interfaces, the tenants' file.
    fn housekeeping(&mut self) {
        self.upkeep = Instant::now() + UPKEEP;
        self.refresh_uplinks();
        self.assert_places();
        self.reload_tenants();
        self.reload_paths();
        self.refresh_vifs();
        self.refresh_provider();
        if self.reconciler.is_due() {
            self.write_owned();
            let done = self.reconcile();
            self.reconciler.record(done);
        }
        self.measure();
        let (steady, all) = (self.steady_problems(), self.problems().len());
        self.problem_log.update(steady, all);
    }

    fn measure(&mut self) {
        if let Ok(counters) = self.plane.counters() {
            metrics::plane(&counters);
            self.measure_refused(counters.get("agent_limit"));
        }
        let report = self.agent.report();
        metrics::machine(self.agent.counts(), report.nl_arp, report.spain);
        if let Some(lookups) = report.lookups {
            measure_lookups(&lookups.counts);
            self.confirmation.update(lookups.unconfirmed_since.map(|at| self.now().saturating_since(at)));
        }
        metrics::table("remotes", self.agent.mapped(), f64::from(self.plane.remotes_max()));
        metrics::table("nl_arp", report.nl_arp_entries, self.config.nl_arp().capacity as f64);
        metrics::vifs(self.vifs.len());
        metrics::vifs_twice(self.agent.twice(self.now()).count());
        if let Some(counts) = self.dhcp_counts() {
            metrics::dhcp(counts);
        }
    }

    /// Which VIFs exceed their budgets; only if some have since the last time, as it takes a look at each.
    fn measure_refused(&mut self, refused: u64) {
        if refused == std::mem::replace(&mut self.refused, refused) {
            return;
        }
        for (ifindex, handed) in self.plane.handed_by_vifs().unwrap_or_default().into_iter().filter(|(_, it)| it.refused > 0) {
            if let Some(own) = self.vifs.get(&ifindex) {
                metrics::vif_refused(&own.device, &own.tenant, &own.name, handed.refused);
            }
        }
    }

    /// Hands changes of the interfaces to the fabric to the machine.
    fn refresh_uplinks(&mut self) {
        for at in 0..self.uplinks.len() {
            let uplink = &self.uplinks[at];
            let mtu = HostPlane::mtu_if_up(&uplink.device).unwrap_or_else(|error| {
                tracing::warn!(device = uplink.device, %error, "an interface to the fabric is gone");
                None
            });
            if mtu != uplink.mtu {
                let mac = uplink.mac;
                self.uplinks[at].mtu = mtu;
                let up = mtu.map(|mtu| (mac, u16::try_from(mtu).unwrap_or(u16::MAX)));
                self.input(Input::Uplink { uplink: UplinkId(at as u8), up });
                self.write_uplink(at);
            }
        }
    }

    /// Places that the configuration says hold as if the switch had said so just now.
    fn assert_places(&mut self) {
        for at in 0..self.uplinks.len() {
            if let Some(location) = self.config.uplink.get_ref()[at].place() {
                self.place(at, Lldp { location, ttl_s: u16::MAX });
            }
        }
    }

    /// Places that an earlier agent left hold until the switches speak: its flows go on, however seldom that is.
    fn adopt_places(&mut self) {
        for at in 0..self.uplinks.len() {
            let Some(location) = self.uplinks[at].at else { continue };
            if self.uplinks[at].mtu.is_none() {
                self.uplinks[at].at = None;
            } else {
                self.place(at, Lldp { location, ttl_s: INHERITED_S });
            }
        }
    }

    /// As if its switch said so.
    fn place(&mut self, at: usize, lldp: Lldp) {
        let mut frame = Vec::new();
        lldp.emit(lldp.location.switch, &lldp.location.port.to_string(), &mut frame);
        self.input(Input::FromFabric { uplink: UplinkId(at as u8), frame: &frame });
    }

    /// Reads the file with SPAIN's tables, if it has changed.
    fn reload_paths(&mut self) {
        if self.paths.reload(self.config.has_repository()) {
            self.update_paths();
        }
    }

    /// Hands the tables that have changed to the machine.
    fn update_paths(&mut self) {
        for (to, vlans) in self.paths.update(&self.uplinks) {
            self.input(Input::Paths { to, vlans: &vlans });
        }
    }

    fn now(&self) -> weft_control::time::Instant {
        weft_control::time::Instant::from_ns(1_000_000_000).saturating_add(self.begun.elapsed().into())
    }
}

fn is_lldp(frame: &[u8]) -> bool {
    Ethernet::parse(frame).is_ok_and(|it| it.ethertype == EtherType::LLDP)
}

fn new_machine(config: &HostConfig) -> Result<Agent<Sources, SpainPaths>> {
    let random = u128::from_be_bytes(weft_directory::client::random());
    let pull = |directory: &DirectoryPart| -> Result<Pull> {
        let config = resolver(directory.principal(), config.nl_arp().capacity.min(NAMES_MOST), directory.fail_static);
        Ok(Pull::new(Resolver::new(config, &directory.principal_key()?, Pcg64::new(random, 8))))
    };
    let pull = config.pull().map(pull).transpose()?;
    let paths = SpainPaths::new(config.spain())?;
    let nl_arp = NlArp::new(config.nl_arp(), Pcg64::new(random, 7));
    Ok(Agent::new(config.agent(), Sources::new(nl_arp, pull), paths))
}

/// Of a resolver's cache; what else is talked to is looked up each time.
const NAMES_MOST: usize = 1 << 18;
const UPKEEP: Duration = Duration::from_secs(1);
/// As long as an announcement of a switch that announces every 30 s, as they do if nothing is configured.
const INHERITED_S: u16 = 124;
