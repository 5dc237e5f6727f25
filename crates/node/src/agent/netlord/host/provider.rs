//! This server's own interface in tenant 1 (section 3.7): one end of a veth pair is a VIF like any other, the other has the address, leased or written, so that every
//! program of the server reaches other servers through the encapsulation.
//!
//! ```text
//!   weft1 10.1.0.7/16, the first uplink's MAC address ---- weft1-vif: VIF tenant:1/1/MAC ---- eBPF ---- uplinks
//!   DHCP client <--- answers, as events of eBPF        requests, as frames of the plain fabric ---> uplink
//! ```
//! A leased address ends in the kernel as well, when its lease does: also if no agent runs.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use weft_control::netlord::dhcp::{self, Client, ClientConfig, Lease};
use weft_control::netlord::{MacSpace, PROVIDER, Vif};
use weft_control::wire::netlord::OVERHEAD;
use weft_fabric::MacAddr;
use weft_fabric::rng::Pcg64;

use super::Host;
use super::config::ProviderAddress;
use super::vifs::OwnVif;
use crate::agent::iproute::{ip, run};
use crate::cli::{Error, Result};
use crate::dataplane::netlord::HostPlane;

/// The interface, and how it gets its address.
pub(super) struct Provider {
    /// The end that programs see.
    device: String,
    /// The end that is the VIF.
    port: String,
    mac: MacAddr,
    /// None: the address is written.
    client: Option<Client>,
    /// What `device` has.
    address: Option<(Ipv4Addr, u8)>,
    /// When what it had from before ends.
    earlier_until: weft_fabric::Instant,
    /// What `port` is attached as.
    attached: Option<u32>,
    mtu: u32,
}

impl Provider {
    fn vif(&self) -> Vif {
        Vif { tenant: PROVIDER, space: SPACE, mac: self.mac }
    }

    /// The interface's pair is there, with the right MAC address and MTU, and up. What address it has from before, and for how many seconds.
    fn make(&self) -> Result<Option<((Ipv4Addr, u8), u64)>> {
        let (device, port, mac, mtu) = (&self.device, &self.port, self.mac.to_string(), self.mtu.to_string());
        match (HostPlane::index_of(device), HostPlane::index_of(port)) {
            (Some(_), Some(_)) => {}
            (None, None) => drop(run(&["link", "add", device, "type", "veth", "peer", "name", port])?),
            _ => {
                let message = format!("there is an interface `{device}` or `{port}` that is not the agent's");
                return Err(Error::new(message, "remove it, or write another `device` in [provider]"));
            }
        }
        // The agent cuts TCP's segments itself: a link that did it for many in one packet would copy one outer header to all.
        run(&["link", "set", device, "address", &mac, "mtu", &mtu, "gso_max_segs", "1", "up"])?;
        // Where there is no IPv6 there is nothing to switch off.
        let _ = run(&["link", "set", port, "addrgenmode", "none"]);
        run(&["link", "set", port, "mtu", &mtu, "arp", "off", "up"])?;
        let found = ip(&["-j", "-4", "addr", "show", "dev", device])?;
        let found = &found[0]["addr_info"][0];
        let address: Option<Ipv4Addr> = found["local"].as_str().and_then(|it| it.parse().ok());
        let length = found["prefixlen"].as_u64().and_then(|it| u8::try_from(it).ok());
        Ok(address.zip(length).zip(found["valid_life_time"].as_u64()))
    }

    /// The device has this address and no other, for so many seconds, or for ever.
    fn set_address(&mut self, (address, length): (Ipv4Addr, u8), seconds: Option<u64>) -> Result<()> {
        let net = format!("{address}/{length}");
        if self.address.is_none_or(|(old, _)| old != address) {
            self.clear_address()?;
        }
        let time = seconds.map_or_else(|| "forever".to_owned(), |it| it.max(1).to_string());
        run(&["addr", "replace", &net, "dev", &self.device, "valid_lft", &time, "preferred_lft", &time])?;
        self.address = Some((address, length));
        Ok(())
    }

    fn clear_address(&mut self) -> Result<()> {
        self.address = None;
        run(&["-4", "addr", "flush", "dev", &self.device]).map(drop)
    }
}

impl Host {
    /// Makes the interface, and gives it its address or asks for one.
    ///
    /// # Errors
    /// [`Error`] if the system refuses.
    pub(super) fn begin_provider(&mut self) -> Result<()> {
        let Some(part) = self.config.provider.clone() else { return Ok(()) };
        let device = part.device.get_ref().clone();
        let (port, mac) = (format!("{device}-vif"), self.uplinks[0].mac);
        let random = u128::from_be_bytes(crate::client::random());
        let client = || Client::new(ClientConfig::new(mac), Pcg64::new(random, 9));
        let mtu = self.provider_mtu().unwrap_or(MTU);
        let earlier_until = weft_fabric::Instant::ZERO;
        let mut provider = Provider { device, port, mac, client: None, address: None, earlier_until, attached: None, mtu };
        let earlier = provider.make()?;
        match part.address {
            ProviderAddress::Static(net) => provider.set_address((net.addr(), net.prefix_len()), None)?,
            ProviderAddress::Dhcp => {
                provider.client = Some(client());
                provider.address = earlier.map(|(address, _)| address);
                let seconds = earlier.map_or(0, |(_, seconds)| seconds);
                provider.earlier_until = self.now().saturating_add(weft_fabric::Duration::from_secs(seconds.min(EARLIER_MOST_S)));
            }
        }
        self.provider = Some(provider);
        self.attach_provider()
    }

    /// The VIF is here, if there is an address.
    fn attach_provider(&mut self) -> Result<()> {
        let Some(provider) = &self.provider else { return Ok(()) };
        let (device, vif) = (provider.port.clone(), provider.vif());
        let Some((address, _)) = provider.address else { return Ok(()) };
        let own = OwnVif {
            device,
            tenant: TENANT.to_owned(),
            name: NAME.to_owned(),
            vif,
            addresses: vec![address.into()],
            written: None,
        };
        let ifindex = self.take_vif(own)?;
        if let Some(provider) = &mut self.provider {
            provider.attached = Some(ifindex);
        }
        Ok(())
    }

    fn detach_provider(&mut self) {
        if let Some(ifindex) = self.provider.as_mut().and_then(|it| it.attached.take()) {
            self.forget_vif(ifindex);
        }
    }

    /// Begins to ask for an address when an interface to the fabric knows its place, and asks again when it is time.
    pub(super) fn ask_for_address(&mut self) {
        let earlier = self.provider.as_ref().and_then(|it| Some((it.address?.0, it.earlier_until)));
        let can_ask = self.uplinks.iter().any(|uplink| uplink.at.is_some());
        self.dhcp(if can_ask { dhcp::Input::Start(earlier) } else { dhcp::Input::Timer });
    }

    /// When it is time.
    pub(super) fn dhcp_deadline(&self) -> Option<weft_fabric::Instant> {
        self.provider.as_ref()?.client.as_ref()?.deadline()
    }

    /// Something happened to the client of DHCP.
    pub(super) fn dhcp(&mut self, input: dhcp::Input<'_>) {
        let now = self.now();
        let Some(client) = self.provider.as_mut().and_then(|it| it.client.as_mut()) else { return };
        client.handle(now, input);
        while let Some(output) = self.provider.as_mut().and_then(|it| it.client.as_mut()?.poll()) {
            let done = match output {
                dhcp::Output::Send(request) => {
                    // By the first that knows its place, or else by any.
                    let placed = self.uplinks.iter().find(|it| it.at.is_some());
                    if let Some(uplink) = placed.or_else(|| self.uplinks.iter().find(|it| it.mtu.is_some())) {
                        let frame = request.emit(uplink.mac, self.config.special_vlan());
                        self.send(uplink.ifindex, &frame);
                    }
                    Ok(())
                }
                dhcp::Output::Bound(lease) => self.bound(lease),
                dhcp::Output::Lost(address) => {
                    tracing::warn!(%address, "the address in tenant 1 is lost");
                    self.detach_provider();
                    self.provider.as_mut().map_or(Ok(()), Provider::clear_address)
                }
            };
            if let Err(error) = done {
                tracing::warn!(%error, "the interface in tenant 1");
                self.trouble = Some(error.to_string());
            }
        }
    }

    fn bound(&mut self, lease: Lease) -> Result<()> {
        let left = self.seconds_until(lease.until);
        let Some(provider) = &mut self.provider else { return Ok(()) };
        let is_new = provider.address.is_none_or(|(address, _)| address != lease.address) || provider.attached.is_none();
        provider.set_address((lease.address, lease.length), Some(left))?;
        tracing::info!(address = %lease.address, server = %lease.server.ip, seconds = left, "an address in tenant 1");
        if is_new { self.attach_provider() } else { Ok(()) }
    }

    fn seconds_until(&self, at: weft_fabric::Instant) -> u64 {
        at.saturating_since(self.now()).as_ps() / 1_000_000_000_000
    }

    /// The interface may have been removed, and uplinks may carry more or less than before.
    pub(super) fn look_at_provider(&mut self) {
        let mtu = self.provider_mtu();
        let Some(provider) = &mut self.provider else { return };
        let is_there = HostPlane::index_of(&provider.port).is_some_and(|at| provider.attached.is_none_or(|it| it == at));
        let is_wide = mtu.is_none_or(|mtu| mtu == provider.mtu);
        if is_there && is_wide {
            return;
        }
        provider.mtu = mtu.unwrap_or(provider.mtu);
        let (had, lease) = (provider.address, provider.client.as_ref().map(Client::lease));
        if !is_there {
            tracing::warn!(device = provider.device, "the interface in tenant 1 is gone, and made anew");
            self.detach_provider();
        }
        let seconds = lease.map(|lease| lease.map_or(0, |it| self.seconds_until(it.until)));
        if let Err(error) = self.remake_provider(had.filter(|_| !is_there), seconds) {
            self.trouble = Some(error.to_string());
        }
    }

    /// The pair as it is to be, and the address on it again if that went with it.
    fn remake_provider(&mut self, address: Option<(Ipv4Addr, u8)>, seconds: Option<u64>) -> Result<()> {
        let Some(provider) = &mut self.provider else { return Ok(()) };
        provider.make()?;
        let Some(address) = address else { return Ok(()) };
        provider.set_address(address, seconds)?;
        self.attach_provider()
    }

    /// Of the narrowest uplink that is up, less the encapsulation.
    fn provider_mtu(&self) -> Option<u32> {
        self.uplinks.iter().filter_map(|uplink| uplink.mtu).min().map(|mtu| mtu.saturating_sub(OVERHEAD as u32))
    }

    /// What is not right with it.
    pub(super) fn provider_problem(&self) -> Option<String> {
        let provider = self.provider.as_ref().filter(|it| it.address.is_none())?;
        Some(format!(
            "{} has no address in tenant 1: no DHCP server has leased one; there must be one on the VLAN of all agents, {}",
            provider.device,
            self.config.special_vlan().get()
        ))
    }

    /// For the status: a list of one, or none.
    pub(super) fn provider_status(&self) -> Vec<Value> {
        let of = |it: &Provider| {
            let lease = it.client.as_ref().and_then(Client::lease);
            let left = |at: fn(&Lease) -> weft_fabric::Instant| lease.as_ref().map(|lease| self.seconds_until(at(lease)));
            json!({
                "device": it.device, "mac": it.mac.to_string(), "mtu": it.mtu,
                "address": it.address.map(|(address, length)| format!("{address}/{length}")),
                "state": it.client.as_ref().map_or("static", Client::state),
                "server": lease.map(|it| it.server.ip.to_string()),
                "renew_in_s": left(|lease| lease.renew), "lease_left_s": left(|lease| lease.until),
            })
        };
        self.provider.iter().map(of).collect()
    }

    /// What the client of DHCP has counted.
    pub(super) fn dhcp_counts(&self) -> Option<dhcp::DhcpCounts> {
        self.provider.as_ref()?.client.as_ref().map(Client::counts)
    }

    /// The interface goes with the agent.
    pub(super) fn end_provider(&mut self) {
        self.detach_provider();
        if let Some(provider) = self.provider.take()
            && let Err(error) = run(&["link", "del", &provider.device])
        {
            tracing::warn!(%error, "the interface in tenant 1 is left");
        }
    }
}

/// As VIFs of this server are called in its status.
const TENANT: &str = "provider";
const NAME: &str = "agent";
const SPACE: MacSpace = MacSpace(1);
/// An address that was written has no end in the kernel.
const EARLIER_MOST_S: u64 = 86_400;
/// Until an uplink is up.
const MTU: u32 = 1466;
