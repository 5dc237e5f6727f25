//! The address of this server's interface in tenant 1: leased by DHCP or configured, and kept while interfaces come and go.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use weft_control::netlord::dhcp::{self, Client, ClientConfig, Lease};
use weft_control::wire::netlord::OVERHEAD;
use weft_fabric::rng::Pcg64;

use super::Host;
use super::config::ProviderAddress;
use super::provider::Provider;
use super::vif::OwnVif;
use crate::error::Result;
use crate::iproute::run;
use crate::netlord::dataplane::HostPlane;

impl Host {
    /// Makes the interface, and gives it its address or asks for one.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) if the system refuses.
    pub(super) fn begin_provider(&mut self) -> Result<()> {
        let Some(part) = self.config.provider.clone() else { return Ok(()) };
        let device = part.device.get_ref().clone();
        let (port, mac) = (format!("{device}-vif"), self.uplinks[0].mac);
        let random = u128::from_be_bytes(weft_directory::client::random());
        let client = || Client::new(ClientConfig::new(mac), Pcg64::new(random, 9));
        let mtu = self.provider_mtu().unwrap_or(MTU);
        let earlier_until = weft_control::time::Instant::ZERO;
        let mut provider = Provider { device, port, mac, client: None, address: None, earlier_until, attached: None, mtu };
        let earlier = provider.make()?;
        match part.address {
            ProviderAddress::Static(net) => provider.set_address((net.addr(), net.prefix_len()), None)?,
            ProviderAddress::Dhcp => {
                provider.client = Some(client());
                provider.address = earlier.map(|(address, _)| address);
                let seconds = earlier.map_or(0, |(_, seconds)| seconds);
                provider.earlier_until =
                    self.now().saturating_add(weft_control::time::Duration::from_secs(seconds.min(EARLIER_MOST_S)));
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
    pub(super) fn dhcp_deadline(&self) -> Option<weft_control::time::Instant> {
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
                self.last_error = Some(error.to_string());
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

    fn seconds_until(&self, at: weft_control::time::Instant) -> u64 {
        at.saturating_since(self.now()).as_ns() / 1_000_000_000
    }

    /// The interface may have been removed, and uplinks may carry more or less than before.
    pub(super) fn refresh_provider(&mut self) {
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
            tracing::warn!(device = provider.device, "the interface in tenant 1 is gone, and is created again");
            self.detach_provider();
        }
        let seconds = lease.map(|lease| lease.map_or(0, |it| self.seconds_until(it.until)));
        if let Err(error) = self.remake_provider(had.filter(|_| !is_there), seconds) {
            self.last_error = Some(error.to_string());
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
            let left = |at: fn(&Lease) -> weft_control::time::Instant| lease.as_ref().map(|lease| self.seconds_until(at(lease)));
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
/// An address that was written has no end in the kernel.
const EARLIER_MOST_S: u64 = 86_400;
/// Until an uplink is up.
const MTU: u32 = 1466;
