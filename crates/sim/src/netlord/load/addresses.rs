//! Principals, addresses and places of the servers and VMs of a load.

use std::net::Ipv4Addr;

use weft_control::directory::PrincipalId;
use weft_control::netlord::{EdgePort, Location};
use weft_fabric::MacAddr;

pub(super) const fn principal(server: u16) -> PrincipalId {
    PrincipalId(100 + server as u32)
}

pub(super) fn ip(vm: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 | vm)
}

pub(super) fn place(server: u16) -> Location {
    let [a, b] = (server / PORTS).to_be_bytes();
    let port = EdgePort::new(1 + server % PORTS).expect("ports are 1 to 48");
    Location { switch: MacAddr([2, 0xed, 0, 0, a, b]), port }
}

pub(super) fn server_at(at: Location) -> u16 {
    let [.., a, b] = at.switch.0;
    u16::from_be_bytes([a, b]) * PORTS + u16::from(at.port.get()) - 1
}

/// Servers of an edge switch.
const PORTS: u16 = 48;
