//! This server's own interface in tenant 1 (section 3.7): one end of a veth pair is a VIF like any other, the other has the address, leased or written, so that every
//! program of the server reaches other servers through the encapsulation.
//!
//! ```text
//!   weft1 10.1.0.7/16, the first uplink's MAC address ---- weft1-vif: VIF tenant:1/1/MAC ---- eBPF ---- uplinks
//!   DHCP client <--- answers, as events of eBPF        requests, as frames of the plain fabric ---> uplink
//! ```
//! A leased address ends in the kernel as well, when its lease does: also if no agent runs.

use std::net::Ipv4Addr;

use weft_control::netlord::dhcp::Client;
use weft_control::netlord::{MacSpace, PROVIDER, Vif};
use weft_fabric::MacAddr;

use crate::error::{Error, Result};
use crate::iproute::{ip, run};
use crate::netlord::dataplane::HostPlane;

/// The interface, and how it gets its address.
pub(super) struct Provider {
    /// The end that programs see.
    pub device: String,
    /// The end that is the VIF.
    pub port: String,
    pub mac: MacAddr,
    /// None: the address is written.
    pub client: Option<Client>,
    /// What `device` has.
    pub address: Option<(Ipv4Addr, u8)>,
    /// When what it had from before ends.
    pub earlier_until: weft_control::time::Instant,
    /// What `port` is attached as.
    pub attached: Option<u32>,
    pub mtu: u32,
}

impl Provider {
    pub fn vif(&self) -> Vif {
        Vif { tenant: PROVIDER, space: SPACE, mac: self.mac }
    }

    /// The interface's pair is there, with the right MAC address and MTU, and up. What address it has from before, and for how many seconds.
    pub fn make(&self) -> Result<Option<((Ipv4Addr, u8), u64)>> {
        let (device, port, mac, mtu) = (&self.device, &self.port, self.mac.to_string(), self.mtu.to_string());
        match (HostPlane::index_of(device), HostPlane::index_of(port)) {
            (Some(_), Some(_)) => {}
            (None, None) => drop(run(&["link", "add", device, "type", "veth", "peer", "name", port])?),
            _ => {
                return Err(Error::ForeignDevice { device: device.clone(), port: port.clone() });
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
    pub fn set_address(&mut self, (address, length): (Ipv4Addr, u8), seconds: Option<u64>) -> Result<()> {
        let net = format!("{address}/{length}");
        if self.address.is_none_or(|(old, _)| old != address) {
            self.clear_address()?;
        }
        let time = seconds.map_or_else(|| "forever".to_owned(), |it| it.max(1).to_string());
        run(&["addr", "replace", &net, "dev", &self.device, "valid_lft", &time, "preferred_lft", &time])?;
        self.address = Some((address, length));
        Ok(())
    }

    pub fn clear_address(&mut self) -> Result<()> {
        self.address = None;
        run(&["-4", "addr", "flush", "dev", &self.device]).map(drop)
    }
}

const SPACE: MacSpace = MacSpace(1);
