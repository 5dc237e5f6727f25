//! From a configuration to an agent at work.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

use ipnet::IpNet;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::PrincipalKey;
use weft_control::directory::resolver::ResolverConfig;
use weft_control::vl2::agent::{Agent, AgentConfig, Announce, HeldLimits, Input};
use weft_fabric::MacAddr;
use weft_fabric::rng::Pcg64;

use super::Host;
use super::announce::Announcer;
use super::apply::Plane;
use super::config::{HostConfig, Intermediate, LocatorMode};
use super::link::{Link, neighbour, wake_neighbour};
use crate::agent::exporter;
use crate::cli::{Error, Result};
use crate::dataplane::{HostPlane, HostSettings, Limits, LocatorKind, Rate};

/// Puts everything in its place. Nothing is changed if it fails before the programs are attached.
pub(super) fn start(config: HostConfig) -> Result<Host> {
    let key = config.principal_key()?;
    let link = Link::find(config.device.get_ref())?;
    let la = own_la(&config, &link)?;
    let (directory, tor) = (bind(la)?, bind(la)?);
    exporter::serve(config.metrics)?;
    let announcer = if config.locator == LocatorMode::Host { Some(Announcer::start(&config, la)?) } else { None };
    let gateway = link.gateway(towards(&config));
    let mac = config.gateway_mac.or_else(|| gateway.and_then(|gateway| find_gateway(gateway, &link)));
    let settings = settings(&config, &link, la, mac)?;
    let host = HostPlane::attach(config.device.get_ref(), &settings, &config.pins())?;
    let mut plane = Plane::new(host, la, link.index)?;
    if let Some(mac) = mac {
        plane.set_gateway(mac);
    }
    let agent = new_machine(&config, &key);
    let begun = Instant::now();
    let looked_at_routes = begun;
    let (waiters, checks) = (Vec::new(), Vec::new());
    let mut host = Host {
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
        looked_at_routes,
        checks,
    };
    host.narrow_routes();
    let is_adopted = host.plane.adopted();
    let begun = inherit(&mut host, is_adopted);
    host.plane.began(begun)?;
    Ok(host)
}

/// A machine in place of one whose clock is about to end: it takes over what the data plane has, as after a restart.
pub(super) fn renew(host: &mut Host) -> Result<()> {
    let key = host.config.principal_key()?;
    host.plane.forget_held();
    host.agent = new_machine(&host.config, &key);
    host.begun = Instant::now();
    inherit(host, true)
}

fn new_machine(config: &HostConfig, key: &PrincipalKey) -> Agent {
    Agent::new(machine(config), key, Pcg64::new(u128::from_be_bytes(crate::client::random()), 7))
}

/// Tells the machine what it begins with: servers, what an earlier agent left, the addresses of the configuration.
fn inherit(host: &mut Host, is_adopted: bool) -> Result<()> {
    let servers = host.config.directory.get_ref().clone();
    host.input(Input::SetServers(&servers));
    let (peers, locals) = if is_adopted { host.plane.inherited()? } else { Default::default() };
    for peer in peers {
        host.input(Input::Adopted(peer));
    }
    let configured: Vec<(IpAddr, MacAddr)> =
        host.config.address.iter().map(|own| (*own.address.get_ref(), own.mac.unwrap_or(host.link.mac))).collect();
    // Attached while an earlier agent ran: still this host's.
    let others = locals.into_iter().filter(|it| !configured.iter().any(|(address, _)| address == it));
    let others: Vec<(IpAddr, MacAddr)> = others.map(|address| (address, host.link.mac)).collect();
    for (address, mac) in configured.into_iter().chain(others) {
        host.input(Input::Attach { address, mac });
    }
    Ok(())
}

/// An address behind the next hop.
pub(super) fn towards(config: &HostConfig) -> IpAddr {
    config.tor.as_ref().map_or_else(|| config.directory.get_ref()[0].ip(), |tor| tor.get_ref().ip())
}

pub(super) fn own_la(config: &HostConfig, link: &Link) -> Result<Ipv4Addr> {
    if let Some(la) = &config.la {
        return Ok(*la.get_ref());
    }
    let v4 = |address: IpAddr| if let IpAddr::V4(it) = address { Some(it) } else { None };
    let found = link.addresses().into_iter().filter(|it| !config.is_application(*it)).find_map(v4);
    found.ok_or_else(|| {
        let help = format!("give the device one (`ip addr add ... dev {}`), or write `la`", link.device);
        Error::new(format!("{} has no IPv4 address that is not an application address", link.device), help)
    })
}

/// A socket that datagrams come by from an address of this host.
pub(in crate::agent) fn bind(la: Ipv4Addr) -> Result<UdpSocket> {
    let bound = UdpSocket::bind((la, 0)).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    bound.map_err(|error| {
        let help = "`la` must be an address of this host";
        Error::new(format!("cannot send from the locator address {la}: {error}"), help)
    })
}

/// The next hop's MAC address; waits a moment for the kernel to find it.
pub(super) fn find_gateway(gateway: Ipv4Addr, link: &Link) -> Option<MacAddr> {
    for _ in 0..20 {
        if let Some(mac) = neighbour(gateway, &link.device) {
            return Some(mac);
        }
        wake_neighbour(gateway);
        std::thread::sleep(Duration::from_millis(50));
    }
    tracing::warn!(%gateway, "the next hop does not answer ARP yet");
    None
}

pub(super) fn settings(config: &HostConfig, link: &Link, la: Ipv4Addr, gateway: Option<MacAddr>) -> Result<HostSettings> {
    let prefixes = config.prefixes.get_ref();
    let IpNet::V4(entropy) = config.entropy.get_ref().net() else { return Err(Error::new("`entropy` is not IPv4", "")) };
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
        congestion_interval: Duration::from_nanos(config.rehash.interval.as_ps() / 1000),
        limits: Limits { peers: config.limits.peers, flows: config.limits.flows, ..Limits::default() },
        ..HostSettings::new(la, entropy)
    })
}

/// What a resolver of this principal is told, with room for so many names.
pub(in crate::agent) fn resolver(principal: PrincipalId, capacity: usize) -> ResolverConfig {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    ResolverConfig { first_request: since_1970, capacity, ..ResolverConfig::new(principal) }
}

fn machine(config: &HostConfig) -> AgentConfig {
    // Refused addresses and groups have room beside the peers.
    let resolver = resolver(config.principal(), config.limits.peers as usize);
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
