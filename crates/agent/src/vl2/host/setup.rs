//! From a configuration to an agent at work.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use weft_control::directory::auth::PrincipalKey;
use weft_control::vl2::agent::{Agent, AgentConfig, Announce, HeldLimits, Input};
use weft_fabric::MacAddr;
use weft_fabric::rng::Pcg64;

use super::Host;
use super::announce::Announcer;
use super::apply::Plane;
use super::config::{HostConfig, Intermediate, LocatorMode};
use super::follow::DeviceAddresses;
use super::link::{Link, neighbour, trigger_arp};
use super::placement::Placement;
use crate::dataplane::Rate;
use crate::directory::{Confirmation, Evictions, bind, resolver};
use crate::error::Result;
use crate::exporter;
use crate::problems::ProblemLog;
use crate::reconcile::Reconciler;
use crate::vl2::dataplane::{HostPlane, HostSettings, Limits, LocatorKind};

impl Host {
    /// Puts everything in its place. Nothing is changed if it fails before the programs are attached.
    pub(super) fn start(config: HostConfig) -> Result<Self> {
        let key = config.principal_key()?;
        let link = Link::find(config.device.get_ref())?;
        let la = config.locator(&link)?;
        let (directory, tor) = (bind(la)?, bind(la)?);
        exporter::serve(config.metrics)?;
        let announcer = if config.locator == LocatorMode::Host { Some(Announcer::start(&config, la)?) } else { None };
        let gateway = link.gateway(config.towards());
        let mac = config.gateway_mac.or_else(|| gateway.and_then(|gateway| find_gateway(gateway, &link)));
        let settings = settings(&config, &link, la, mac)?;
        let host = HostPlane::attach(config.device.get_ref(), &settings, &config.pins())?;
        let mut plane = Plane::new(host, la, link.index)?;
        if let Some(mac) = mac {
            plane.set_gateway(mac);
        }
        let agent = new_machine(&config, &key, 0);
        let begun = Instant::now();
        let routes_checked = begun;
        let (waiters, checks) = (Vec::new(), Vec::new());
        let mut host = Self {
            placement: None,
            followed: None,
            config,
            link,
            la,
            agent,
            plane,
            directory,
            tor,
            announcer,
            gateway,
            started: begun,
            begun,
            waiters,
            upkeep: begun,
            routes_checked,
            checks,
            confirmation: Confirmation::default(),
            evictions: Evictions::default(),
            reconciler: Reconciler::default(),
            problem_log: ProblemLog::default(),
            compared: None,
        };
        drop(host.narrow_routes());
        let is_adopted = host.plane.adopted();
        let begun = host.inherit(is_adopted).and_then(|()| host.start_following()).and_then(|()| host.start_placement());
        host.plane.rollback_on_error(begun)?;
        Ok(host)
    }

    /// A new machine for a changed configuration. It takes over what the data plane has, as after a restart.
    pub(super) fn renew(&mut self) -> Result<()> {
        let key = self.config.principal_key()?;
        self.plane.forget_held();
        // The clock may have been set back since the machine before this one began.
        self.agent = new_machine(&self.config, &key, self.agent.last_sequence());
        self.begun = Instant::now();
        self.inherit(true)?;
        self.start_following()?;
        self.start_placement()
    }

    /// Begins or ends to follow the NIC's addresses, as the configuration says.
    fn start_following(&mut self) -> Result<()> {
        if self.config.follow_device && self.followed.is_none() {
            self.followed = Some(DeviceAddresses::open()?);
        }
        self.followed.iter_mut().for_each(DeviceAddresses::reload);
        self.follow_device();
        if !self.config.follow_device {
            self.followed = None;
        }
        Ok(())
    }

    fn start_placement(&mut self) -> Result<()> {
        self.placement = Placement::start(&self.config, self.la, self.now(), &mut self.plane)?;
        self.allow_own_ports()
    }

    /// What directory servers, ToRs and schedulers send without being asked arrives at the agent's sockets.
    fn allow_own_ports(&mut self) -> Result<()> {
        let placement = self.placement.as_ref().map(Placement::port);
        let bound = [&self.directory, &self.tor].into_iter().map(|socket| socket.local_addr().map_or(0, |at| at.port()));
        let ports: Vec<u16> = bound.chain(placement).collect();
        self.plane.allow_udp(&ports)
    }

    /// The machine's first inputs: servers, what an earlier agent left, the addresses of the configuration.
    fn inherit(&mut self, is_adopted: bool) -> Result<()> {
        let servers = self.config.directory.get_ref().clone();
        self.input(Input::SetServers(&servers));
        let (peers, locals) = if is_adopted { self.plane.inherited()? } else { Default::default() };
        for peer in peers {
            self.input(Input::Adopted(peer));
        }
        let configured: Vec<(IpAddr, MacAddr)> =
            self.config.address.iter().map(|own| (*own.address.get_ref(), own.mac.unwrap_or(self.link.mac))).collect();
        // Attached while an earlier agent ran: still this host's.
        let others = locals.into_iter().filter(|it| !configured.iter().any(|(address, _)| address == it));
        let others: Vec<(IpAddr, MacAddr)> = others.map(|address| (address, self.link.mac)).collect();
        for (address, mac) in configured.into_iter().chain(others) {
            self.input(Input::Attach { address, mac });
        }
        Ok(())
    }
}

/// Its messages have sequences greater than `after`.
fn new_machine(config: &HostConfig, key: &PrincipalKey, after: u64) -> Agent {
    let mut machine = machine(config);
    machine.resolver.first_request = machine.resolver.first_request.max(after.saturating_add(1));
    Agent::new(machine, key, Pcg64::new(u128::from_be_bytes(weft_directory::client::random()), 7))
}

/// The next hop's MAC address; waits a moment for the kernel to find it.
pub(super) fn find_gateway(gateway: Ipv4Addr, link: &Link) -> Option<MacAddr> {
    for _ in 0..20 {
        if let Some(mac) = neighbour(gateway, &link.device) {
            return Some(mac);
        }
        trigger_arp(gateway);
        std::thread::sleep(Duration::from_millis(50));
    }
    tracing::warn!(%gateway, "the next hop does not answer ARP yet");
    None
}

pub(super) fn settings(config: &HostConfig, link: &Link, la: Ipv4Addr, gateway: Option<MacAddr>) -> Result<HostSettings> {
    let prefixes = config.prefixes.get_ref();
    let IpNet::V4(entropy) = config.entropy.get_ref().net() else { unreachable!("it was checked that `entropy` is IPv4") };
    let rate = config.limits.broadcast_rate;
    let fabric = config.fabric_mtu(link);
    let tor = config.tor.as_ref().and_then(|tor| if let IpAddr::V4(it) = tor.get_ref().ip() { Some(it) } else { None });
    Ok(HostSettings {
        tor: tor.filter(|_| config.locator == LocatorMode::Tor),
        aa4: prefixes.iter().find_map(|it| if let IpNet::V4(net) = it.net() { Some(net) } else { None }),
        aa6: prefixes.iter().find_map(|it| if let IpNet::V6(net) = it.net() { Some(net) } else { None }),
        locator: if config.locator == LocatorMode::Host { LocatorKind::Host } else { LocatorKind::Tor },
        intermediates: config.intermediate == Intermediate::Group,
        gateway: gateway.unwrap_or_default(),
        underlay_mtu: u16::try_from(fabric).unwrap_or(u16::MAX),
        broadcast: Rate { per_second: rate, burst: rate.max(1) },
        congestion_interval: config.rehash.interval.to_std(),
        locator_rules: config.locator_traffic.rules(),
        elephant_bytes: config.placement.as_ref().map(|part| part.get_ref().elephant.0),
        limits: Limits { peers: config.limits.peers, flows: config.limits.flows, ..Limits::default() },
        ..HostSettings::new(la, entropy)
    })
}

fn machine(config: &HostConfig) -> AgentConfig {
    // Refused addresses and groups have room beside the peers.
    let resolver = resolver(config.principal(), config.limits.peers as usize, config.fail_static);
    let announce = match (config.locator, &config.tor) {
        (LocatorMode::Host, _) => Announce::Itself,
        (LocatorMode::Tor, Some(tor)) => Announce::Tor { address: *tor.get_ref(), refresh: config.attach_refresh },
        (LocatorMode::Tor, None) => Announce::Nobody,
    };
    AgentConfig {
        announce,
        through_groups: config.intermediate == Intermediate::Group,
        multicast: config.multicast.as_ref().map(|prefix| *prefix.get_ref()),
        held: HeldLimits {
            packets: config.limits.held_packets,
            bytes: config.limits.held_bytes.0 as usize,
            per_peer: config.limits.held_per_peer,
            time: config.limits.held_time,
        },
        rehash_interval: config.rehash.interval,
        rehash_rate: config.rehash.rate,
        ..AgentConfig::new(resolver)
    }
}
