//! `role = "host"`: the NetLord agent of a server (sections 3.7 to 3.9). One thread, one loop; what is decided is the machine's.
//!
//! ```text
//!   eBPF events ---+                                                +--> eBPF tables
//!   Unix socket ---+--> Input --> netlord::agent::Agent --> Output -+--> frames to the fabric, by packet sockets
//!   tenants' file -+      ^          NL-ARP, SPAIN's paths          +--> frames to VMs, likewise
//!   SPAIN's tables |      |   ^ a thread keeps both files as the directory's store has them
//!   interfaces ----+   deadline         (word of them by netlink, and a look each second)
//! ```

mod apply;
mod config;
mod paths;
mod provider;
mod repository;
mod status;
mod vifs;
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
use weft_control::netlord::{Location, UplinkId, dhcp};
use weft_control::wire::netlord::Lldp;
use weft_control::wire::netlord::dhcp::is_reply;
use weft_control::wire::packet::ethernet::{EtherType, Ethernet};
use weft_fabric::MacAddr;
use weft_fabric::rng::Pcg64;

use config::DirectoryPart;
pub use config::HostConfig;
pub(super) use config::{maybe_from_text, socket};

use super::measures;
use crate::agent::cli::RunOptions;
use crate::agent::daemon::{Daemon, Run};
use crate::agent::exporter;
use crate::agent::host::{DATAGRAM, bind, resolver};
use crate::agent::socket::{Asked, ControlSocket, Request};
use crate::agent::watch::KernelWatch;
use crate::cli::{Error, Result};
use crate::dataplane::netlord::{Event, HostPlane, HostSettings};
use paths::Paths;
use provider::Provider;
use repository::Repository;
use vifs::{OwnVif, Wanted};
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
    /// What is to be attached whenever its interface is there.
    wanted: Vec<Wanted>,
    /// This server's own interface in tenant 1.
    provider: Option<Provider>,
    tenants: Arc<Tenants>,
    /// By which VLANs edge switches are reached.
    paths: Paths,
    /// What keeps files as the directory's store has them.
    repository: Option<Repository>,
    tenants_file: Watched,
    /// What the kernel refused last.
    trouble: Option<String>,
    /// When the program was started, and when its machine was made.
    started: Instant,
    begun: Instant,
    upkeep: Instant,
}

/// An interface to the fabric.
struct Uplink {
    device: String,
    ifindex: u32,
    mac: MacAddr,
    /// Its MTU in bytes, if it is up.
    mtu: Option<u32>,
    /// As the edge switch says, or the configuration.
    at: Option<Location>,
}

/// Runs until told to stop.
pub(in crate::agent) fn run(config: HostConfig, file: &Path, options: RunOptions) -> Result<bool> {
    let (socket, on_exit) = (config.socket.clone(), config.on_exit);
    Run { socket: &socket, on_exit, file, options }.until_told(|| Host::start(config))
}

impl Daemon for Host {
    fn descriptors(&self) -> Vec<RawFd> {
        let directory = self.directory.iter().map(UdpSocket::as_raw_fd);
        directory.chain([self.plane.events_fd().as_raw_fd(), self.links.descriptor()]).collect()
    }

    fn patience(&self) -> Duration {
        let deadline = self.agent.deadline().into_iter().chain(self.dhcp_deadline()).min();
        let machine = deadline.map_or(UPKEEP, |at| {
            // Rounded up to what the poll can wait for, lest it spins.
            Duration::from_millis((at.saturating_since(self.now()).as_ps() / 1_000_000_000).saturating_add(1))
        });
        machine.min(self.upkeep.saturating_duration_since(Instant::now()))
    }

    fn turn(&mut self, control: &mut ControlSocket) -> Result<()> {
        if self.links.has_changed() {
            self.look_at_uplinks();
        }
        loop {
            let events = self.plane.events().unwrap_or_else(|error| {
                self.trouble = Some(error.to_string());
                Vec::new()
            });
            let is_last = events.is_empty();
            events.into_iter().for_each(|event| self.event(event));
            if is_last {
                break;
            }
        }
        self.take_datagrams();
        while let Some(asked) = control.next() {
            self.asked(asked);
        }
        self.input(Input::Timer);
        self.ask_for_address();
        if self.upkeep <= Instant::now() {
            self.look_after();
        }
        Ok(())
    }

    /// What changes while it runs has files of its own, which are read when they change.
    fn reload(&mut self, _: &Path) -> Result<()> {
        Err(Error::new("a NetLord daemon reads its configuration once", "restart it: flows go on with `--keep`"))
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
        let tenants = vifs::first_tenants(&config)?;
        exporter::serve(config.metrics)?;
        let period = Duration::from_nanos(config.spain().period.as_ps() / 1000);
        let settings = HostSettings { tell_every: period / 4, ..HostSettings::default() };
        let plane = HostPlane::load(&settings, &config.pins())?;
        let now = Instant::now();
        let agent = new_machine(&config)?;
        // From whatever address leads to them: that in tenant 1 may be had later.
        let directory = config.directory.is_some().then(|| bind(Ipv4Addr::UNSPECIFIED)).transpose()?;
        let failed = |error| Error::new(format!("cannot listen to changes of interfaces: {error}"), "the agent runs as root");
        let links = KernelWatch::open(libc::RTMGRP_LINK).map_err(failed)?;
        let mut host = Self {
            plane,
            agent,
            links,
            directory,
            uplinks: Vec::new(),
            vifs: BTreeMap::new(),
            wanted: Vec::new(),
            provider: None,
            tenants: Arc::new(tenants),
            paths: Paths::new(&config),
            repository: None,
            tenants_file: Watched::read(config.tenants.get_ref().clone()),
            trouble: None,
            started: now,
            begun: now,
            upkeep: now,
            config,
        };
        let begun = host.begin();
        if begun.is_err() && !host.plane.adopted() {
            host.end_provider();
        }
        host.plane.began(begun)?;
        Ok(host)
    }

    fn begin(&mut self) -> Result<()> {
        for at in 0..self.config.uplink.get_ref().len() {
            let device = self.config.uplink.get_ref()[at].device.get_ref().clone();
            let (ifindex, mac) = self.plane.attach_uplink(&device)?;
            self.uplinks.push(Uplink { device, ifindex, mac, mtu: None, at: None });
        }
        let is_adopted = self.plane.adopted();
        self.inherit(is_adopted)?;
        self.begin_provider()?;
        self.attach_configured()?;
        self.repository = Repository::begin(&self.config)?;
        Ok(())
    }

    /// Tells a new machine what it begins with: tenants, paths, what an earlier agent left in the tables, interfaces.
    fn inherit(&mut self, is_adopted: bool) -> Result<()> {
        let now = self.now();
        if let Some(directory) = &self.config.directory {
            self.agent.locations_mut().set_servers(now, directory.servers.get_ref());
        }
        self.tell_paths();
        self.look_at_paths();
        let (vifs, remotes) = if is_adopted { self.plane.inherited()? } else { Default::default() };
        self.input(Input::Configure(Arc::clone(&self.tenants)));
        for (vif, at) in remotes {
            self.input(Input::Adopt { vif, at });
        }
        self.look_at_uplinks();
        self.say_places();
        self.attach_inherited(vifs);
        Ok(())
    }

    fn event(&mut self, event: Event) {
        let now = self.now();
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
                    self.agent.chooser_mut().sent(now, uplink, to, vlan);
                }
            }
            Event::Heard(ifindex, from, vlan) => {
                use weft_control::netlord::paths::ChooseVlan as _;
                if let Some(uplink) = self.uplink_of(ifindex) {
                    self.agent.chooser_mut().heard(now, uplink, from, vlan);
                    self.write_paths();
                }
            }
            Event::Arp { .. } => {}
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

    fn asked(&mut self, asked: Asked) {
        match asked.request.clone() {
            Request::Status => {
                let status = self.status();
                asked.answer(&status);
            }
            Request::AttachVif { device, tenant, name } => match self.attach_vif(&device, &tenant, &name) {
                Ok(vif) => asked.answer(&json!({ "device": device, "vif": vif.to_string(), "outcome": "attached" })),
                Err(error) => asked.refuse(&error.to_string(), "`weft agent status` lists VIFs; `weft tenant show` lists names"),
            },
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
    fn look_after(&mut self) {
        self.upkeep = Instant::now() + UPKEEP;
        self.look_at_uplinks();
        self.say_places();
        self.look_at_tenants();
        self.look_at_paths();
        self.look_at_vifs();
        self.look_at_provider();
        self.measure();
        if self.begun.elapsed() >= ERA {
            match new_machine(&self.config) {
                Ok(agent) => {
                    (self.agent, self.begun) = (agent, Instant::now());
                    for uplink in &mut self.uplinks {
                        (uplink.mtu, uplink.at) = (None, None);
                    }
                    if let Err(error) = self.inherit(true).and_then(|()| self.begin_provider()) {
                        tracing::error!(%error, "the machine cannot be made anew");
                    }
                }
                Err(error) => tracing::error!(%error, "the machine cannot be made anew"),
            }
        }
    }

    fn measure(&mut self) {
        if let Ok(counters) = self.plane.counters() {
            measures::plane(&counters);
        }
        let spain = self.agent.chooser().counters();
        measures::machine(self.agent.counts(), self.agent.locations().nl_arp().counts(), spain);
        if let Some(pull) = self.agent.locations().pull() {
            crate::agent::host::measure_lookups(&pull.resolver().counts());
        }
        let (used, limit) = self.plane.remotes();
        measures::table("remotes", used, f64::from(limit));
        measures::table("nl_arp", self.agent.locations().nl_arp().table().len(), self.config.nl_arp().capacity as f64);
        measures::vifs(self.vifs.len());
        if let Some(counts) = self.dhcp_counts() {
            measures::dhcp(counts);
        }
    }

    /// Tells the machine which interfaces to the fabric are up.
    fn look_at_uplinks(&mut self) {
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
    fn say_places(&mut self) {
        for at in 0..self.uplinks.len() {
            let Some(location) = self.config.uplink.get_ref()[at].place() else { continue };
            let mut frame = Vec::new();
            Lldp { location, ttl_s: u16::MAX }.emit(location.switch, &location.port.to_string(), &mut frame);
            self.input(Input::FromFabric { uplink: UplinkId(at as u8), frame: &frame });
        }
    }

    fn now(&self) -> weft_fabric::Instant {
        weft_fabric::Instant::from_ps(1_000_000_000_000 + self.begun.elapsed().as_nanos() as u64 * 1000)
    }
}

fn is_lldp(frame: &[u8]) -> bool {
    Ethernet::parse(frame).is_ok_and(|it| it.ethertype == EtherType::LLDP)
}

fn new_machine(config: &HostConfig) -> Result<Agent<Sources, SpainPaths>> {
    let random = u128::from_be_bytes(crate::client::random());
    let pull = |directory: &DirectoryPart| -> Result<Pull> {
        let config = resolver(directory.principal(), config.nl_arp().capacity.min(NAMES_MOST));
        Ok(Pull::new(Resolver::new(config, &directory.principal_key()?, Pcg64::new(random, 8))))
    };
    let pull = config.directory.as_ref().map(pull).transpose()?;
    let paths = SpainPaths::new(config.spain()).map_err(|error| Error::new(error.to_string(), "docs/spain.md"))?;
    let nl_arp = NlArp::new(config.nl_arp(), Pcg64::new(random, 7));
    Ok(Agent::new(config.agent(), Sources::new(nl_arp, pull), paths))
}

/// Of a resolver's cache; what else is talked to is looked up each time.
const NAMES_MOST: usize = 1 << 18;
const UPKEEP: Duration = Duration::from_secs(1);
/// The machine's clock counts picoseconds, and ends after 213 days.
const ERA: Duration = Duration::from_secs(100 * 86_400);
